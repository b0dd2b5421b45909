//! The one source of time stamps for queues and messages.

use std::{
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use leveret_core::ids::Timestamp;

/// By how much the clock runs faster or slower while it follows the system's: one part in so many.
const FOLLOWS_BY: i64 = 100;

/// A difference that is worth a line in the log.
const WORTH_TELLING: Duration = Duration::from_secs(60);

/// Where `now` comes from: the system's time at the start, and from then on what has really passed.
///
/// Somebody may set the system's clock while the broker runs. No message is over for that and no ack is late; neither
/// stands the time of queues still until the clock is where it was. The difference is made up for slowly, an hour in
/// four days, and at the next start. Sockets and heartbeats do not ask here.
#[derive(Debug)]
pub struct Clock {
    began_at_millis: i64,
    began: Instant,
    /// What following the system's clock has added so far.
    added_millis: AtomicI64,
    /// When that was looked at last, in milliseconds of this clock's life.
    followed_at: AtomicU64,
    /// The operator knows.
    is_told: AtomicBool,
}

impl Default for Clock {
    fn default() -> Self {
        let since = since_1970();
        let now = Instant::now();
        // Its milliseconds begin where the system's do: two clocks never differ by one.
        let part = Duration::from_nanos(u64::from(since.subsec_nanos() % 1_000_000));
        Self {
            began_at_millis: millis(since),
            began: now.checked_sub(part).unwrap_or(now),
            added_millis: AtomicI64::new(0),
            followed_at: AtomicU64::new(0),
            is_told: AtomicBool::new(false),
        }
    }
}

impl Clock {
    /// Milliseconds since 1970.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let now = self.at(self.passed_millis());
        Timestamp::new(u64::try_from(now).unwrap_or_default())
    }

    /// Looks how far the system's clock is off, and goes a small part of the way. Called about once a minute.
    pub(crate) fn follow(&self) {
        let passed = self.passed_millis();
        let off = self.follow_to(millis(since_1970()), passed);
        let is_much = off.unsigned_abs() >= WORTH_TELLING.as_secs();
        if is_much && !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the system's clock was set by {off} s; times of messages follow it slowly, and at the next start"
            );
        } else if !is_much {
            self.is_told.store(false, Ordering::Relaxed);
        }
    }

    /// How many seconds the system's clock is ahead.
    fn follow_to(&self, wall_millis: i64, passed_millis: u64) -> i64 {
        let before = self.followed_at.swap(passed_millis, Ordering::Relaxed);
        let since = i64::try_from(passed_millis.saturating_sub(before)).unwrap_or(i64::MAX);
        let off = wall_millis - self.at(passed_millis);
        let step = off.clamp(-since / FOLLOWS_BY, since / FOLLOWS_BY);
        self.added_millis.fetch_add(step, Ordering::Relaxed);
        off / 1000
    }

    fn at(&self, passed_millis: u64) -> i64 {
        let passed = i64::try_from(passed_millis).unwrap_or(i64::MAX);
        self.began_at_millis
            .saturating_add(passed)
            .saturating_add(self.added_millis.load(Ordering::Relaxed))
    }

    fn passed_millis(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// A clock before that counts as 1970.
fn since_1970() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

fn millis(since: Duration) -> i64 {
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_and_the_system_s_are_in_the_same_millisecond() {
        let clocks: Vec<Clock> = (0..100).map(|_| Clock::default()).collect();
        for clock in &clocks {
            let before = millis(since_1970());
            let now = i64::try_from(clock.now().get()).expect("not so late");
            assert!((before..=millis(since_1970())).contains(&now));
        }
    }

    #[test]
    fn a_clock_that_is_set_is_followed_slowly_and_never_in_a_jump() {
        let clock = Clock::default();
        let start = clock.began_at_millis;
        // A day ahead, seen after a minute.
        assert_eq!(clock.follow_to(start + 60_000 + 86_400_000, 60_000), 86_400);
        assert_eq!(clock.at(60_000), start + 60_000 + 600);
        // An hour back.
        assert_eq!(
            clock.follow_to(start + 120_000 - 3_600_000, 120_000),
            -3_600
        );
        assert_eq!(clock.at(120_000), start + 120_000);
        // Two milliseconds are made up for at once.
        clock.follow_to(start + 180_000 + 2, 180_000);
        assert_eq!(clock.at(180_000), start + 180_000 + 2);
    }
}
