//! The end of a connection whose user came with a token: it ends with the token.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use leveret_runtime::{ConnectionControl, Endpoint, User};
use tokio::{task::AbortHandle, time::sleep};
use tracing::warn;

use crate::outbox::ConnectionOutbox;

/// The clock is looked at so often, since it may be set.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// What the client is told, in RabbitMQ's words.
const OVER: &str = "credential expired";

/// Closes the connection when the token has ended, unless it is dropped before.
#[derive(Debug)]
pub(crate) struct TokenEnd(AbortHandle);

impl Drop for TokenEnd {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl TokenEnd {
    /// Of a user whose token ends.
    pub(crate) fn of(user: &User, outbox: &Arc<ConnectionOutbox>, peer: &Endpoint) -> Option<Self> {
        let ends_at = user.token.as_ref()?.expires_at?;
        // One that ended before there were clocks has ended.
        let ends_at = Duration::from_secs(u64::try_from(ends_at).unwrap_or_default());
        let (outbox, peer, name) = (outbox.clone(), peer.clone(), user.name.clone());
        let wait = async move {
            loop {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                let left = ends_at.saturating_sub(now.unwrap_or_default());
                if left.is_zero() {
                    break;
                }
                sleep(left.min(LOOK_EVERY)).await;
            }
            warn!("closing AMQP connection {peer} of user '{name}': credential has expired");
            outbox.close(OVER);
        };
        Some(Self(tokio::spawn(wait).abort_handle()))
    }
}
