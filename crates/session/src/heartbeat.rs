//! When to send a sign of life, and when to stop waiting for one.
//!
//! Nothing here runs: deadlines are computed from the times of reads and writes. With an interval of
//! T, the send check comes every T/2 and the receive check every T; two receive checks in a row that
//! saw no byte end the connection.

use crate::time::Millis;

/// Receive checks in a row without a byte before the peer counts as gone.
const SILENT_CHECKS_MAX: u8 = 2;

/// What is due at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    Send,
    PeerGone,
}

/// Heartbeats of one connection; without an interval there are none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Heartbeat(Option<Running>);

#[derive(Debug, Clone, Copy)]
struct Running {
    interval_millis: u64,
    send_check: Millis,
    receive_check: Millis,
    has_sent: bool,
    /// The next report of a write is that of our own heartbeat, which stands for nothing.
    is_own_due: bool,
    has_received: bool,
    silent_checks: u8,
    /// Nobody reads the socket, so that silence says nothing about the peer.
    is_paused: bool,
}

impl Heartbeat {
    /// Begins with the agreed interval; 0 seconds switch both directions off.
    pub(crate) fn start(now: Millis, interval_secs: u16) -> Self {
        let interval_millis = u64::from(interval_secs) * 1000;
        Self((interval_secs > 0).then(|| Running {
            interval_millis,
            send_check: now.plus(interval_millis / 2),
            receive_check: now.plus(interval_millis),
            has_sent: false,
            is_own_due: false,
            has_received: false,
            silent_checks: 0,
            is_paused: false,
        }))
    }

    /// Bytes came.
    pub(crate) const fn received(&mut self) {
        if let Some(running) = &mut self.0 {
            running.has_received = true;
        }
    }

    /// Bytes went.
    pub(crate) const fn sent(&mut self) {
        if let Some(running) = &mut self.0 {
            running.has_sent |= !running.is_own_due;
            running.is_own_due = false;
        }
    }

    /// The socket is not read any more, or is read again.
    pub(crate) const fn pause(&mut self, is_paused: bool) {
        if let Some(running) = &mut self.0 {
            running.is_paused = is_paused;
            running.has_received = true;
        }
    }

    /// The next moment at which something may be due.
    pub(crate) fn next_check(&self) -> Option<Millis> {
        self.0
            .map(|running| running.send_check.min(running.receive_check))
    }

    /// Carries out the checks whose time has come. A check that comes late counts once.
    pub(crate) fn check(&mut self, now: Millis) -> Due {
        let Some(running) = &mut self.0 else {
            return Due::Nothing;
        };
        if running.receive_check <= now {
            running.receive_check = now.plus(running.interval_millis);
            let is_alive = std::mem::take(&mut running.has_received) || running.is_paused;
            running.silent_checks = if is_alive {
                0
            } else {
                running.silent_checks + 1
            };
            if running.silent_checks >= SILENT_CHECKS_MAX {
                return Due::PeerGone;
            }
        }
        if running.send_check <= now {
            running.send_check = now.plus(running.interval_millis / 2);
            if !std::mem::take(&mut running.has_sent) {
                running.is_own_due = true;
                return Due::Send;
            }
        }
        Due::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::{Due, Heartbeat};
    use crate::time::Millis;

    const AT: fn(u64) -> Millis = Millis::new;

    #[test]
    fn a_silent_peer_is_gone_at_the_second_check_that_saw_nothing() {
        let mut heartbeat = Heartbeat::start(AT(0), 2);
        heartbeat.received();
        for at in [1000, 2000, 3000, 4000, 5000] {
            assert_eq!(heartbeat.check(AT(at)), Due::Send, "at {at}");
        }
        assert_eq!(heartbeat.check(AT(6000)), Due::PeerGone);
    }

    #[test]
    fn what_was_written_stands_for_a_heartbeat() {
        let mut heartbeat = Heartbeat::start(AT(0), 2);
        heartbeat.sent();
        assert_eq!(heartbeat.check(AT(1000)), Due::Nothing);
        heartbeat.received();
        assert_eq!(heartbeat.check(AT(2000)), Due::Send);
    }

    #[test]
    fn a_heartbeat_does_not_stand_for_the_next_one() {
        let mut heartbeat = Heartbeat::start(AT(0), 4);
        assert_eq!(heartbeat.check(AT(2000)), Due::Send);
        heartbeat.sent();
        assert_eq!(heartbeat.check(AT(4000)), Due::Send);
        heartbeat.sent();
        heartbeat.sent();
        assert_eq!(heartbeat.check(AT(6000)), Due::Nothing);
    }

    #[test]
    fn a_check_that_comes_late_counts_once() {
        let mut heartbeat = Heartbeat::start(AT(0), 1);
        assert_eq!(heartbeat.check(AT(100_000)), Due::Send);
        assert_eq!(heartbeat.next_check(), Some(AT(100_500)));
    }

    #[test]
    fn while_nobody_reads_silence_is_no_sign() {
        let mut heartbeat = Heartbeat::start(AT(0), 1);
        heartbeat.pause(true);
        for at in 1..20 {
            assert_ne!(heartbeat.check(AT(at * 1000)), Due::PeerGone);
        }
        heartbeat.pause(false);
        assert_ne!(heartbeat.check(AT(20_000)), Due::PeerGone);
        assert_ne!(heartbeat.check(AT(21_000)), Due::PeerGone);
        assert_eq!(heartbeat.check(AT(22_000)), Due::PeerGone);
    }

    #[test]
    fn no_interval_means_no_checks() {
        let mut heartbeat = Heartbeat::start(AT(0), 0);
        assert_eq!(heartbeat.next_check(), None);
        assert_eq!(heartbeat.check(AT(1_000_000)), Due::Nothing);
    }
}
