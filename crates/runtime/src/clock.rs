//! The one source of time stamps for queues and messages.

use std::time::{SystemTime, UNIX_EPOCH};

use leveret_core::ids::Timestamp;

/// Where `now` comes from. Sockets and heartbeats do not ask it: they use the monotonic clock.
#[derive(Debug, Default)]
pub struct Clock;

impl Clock {
    /// Milliseconds since 1970; a clock before that counts as 1970.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::new(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}
