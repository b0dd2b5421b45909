//! How descriptors are shared out: a peer that opens sockets must not take those the store needs.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What the store and everything else keep of any limit: tables, logs, the files of this moment.
const KEPT_MIN: u64 = 64;
const KEPT_MAX: u64 = 1024;

/// Connections of an HTTP listener.
const HTTP_MIN: u64 = 16;
const HTTP_MAX: u64 = 1024;

/// HTTP listeners there can be: the API and the metrics, plain and with TLS.
const HTTP_LISTENERS: u64 = 4;

/// How many connections may be open at once, by descriptors alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Of all AMQP listeners together.
    pub(crate) amqp: usize,
    /// Of each HTTP listener.
    pub(crate) http: usize,
}

/// Raises the limit as far as is allowed, and shares it out.
pub(crate) fn share_out() -> Shares {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // What cannot be raised is lived with.
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    shares(current.unwrap_or(u64::MAX))
}

fn shares(limit: u64) -> Shares {
    let kept = (limit / 4).clamp(KEPT_MIN, KEPT_MAX);
    let http = (limit / 32).clamp(HTTP_MIN, HTTP_MAX);
    let amqp = limit.saturating_sub(kept + HTTP_LISTENERS * http).max(1);
    // More than a semaphore counts is no bound at all.
    let number = |share: u64| usize::try_from(share.min(1 << 24)).unwrap_or(1 << 24);
    Shares {
        amqp: number(amqp),
        http: number(http),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_keeps_its_share_of_any_limit() {
        for limit in [256, 1024, 4096, 1 << 20, u64::MAX] {
            let Shares { amqp, http } = shares(limit);
            let taken = amqp as u64 + HTTP_LISTENERS * http as u64;
            assert!(limit - taken >= KEPT_MIN, "{limit}");
            assert!(amqp as u64 >= (limit / 4).min(1 << 24), "{limit}");
        }
    }
}
