//! How many logins were tried since the start, and how they ended.

use std::sync::atomic::{AtomicU64, Ordering};

/// How somebody came to log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginOver {
    /// An AMQP connection.
    Amqp,
    /// A request of the HTTP API.
    Http,
}

/// Logins of one protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoginCounts {
    /// Those that were let in.
    pub succeeded: u64,
    /// Those that were not.
    pub failed: u64,
}

/// Logins of every protocol.
#[derive(Debug, Default)]
pub(crate) struct Logins {
    amqp: Counters,
    http: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    succeeded: AtomicU64,
    failed: AtomicU64,
}

impl Logins {
    const fn of(&self, over: LoginOver) -> &Counters {
        match over {
            LoginOver::Amqp => &self.amqp,
            LoginOver::Http => &self.http,
        }
    }

    pub(crate) fn note(&self, over: LoginOver, is_let_in: bool) {
        let counters = self.of(over);
        let counter = if is_let_in {
            &counters.succeeded
        } else {
            &counters.failed
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self, over: LoginOver) -> LoginCounts {
        let counters = self.of(over);
        LoginCounts {
            succeeded: counters.succeeded.load(Ordering::Relaxed),
            failed: counters.failed.load(Ordering::Relaxed),
        }
    }

    /// Counts from nothing again.
    pub(crate) fn reset(&self) {
        for counters in [&self.amqp, &self.http] {
            counters.succeeded.store(0, Ordering::Relaxed);
            counters.failed.store(0, Ordering::Relaxed);
        }
    }
}
