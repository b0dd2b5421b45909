//! When each message of a steady rate is meant to be sent.
//!
//! The plan does not move when a sender is late: latency counts from the intended time, so that a broker which stalls is
//! charged with everything that should have been sent meanwhile (coordinated omission).

const NANOS_PER_SEC: f64 = 1e9;

/// The intended times of one producer among several that share a rate: together they send evenly, in turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    first_nanos: u64,
    interval_nanos: f64,
}

impl Schedule {
    /// The plan of producer `index` of `count`, which send `rate` messages per second together from `start_nanos` on.
    pub(crate) fn share(start_nanos: u64, rate: f64, index: usize, count: usize) -> Self {
        let between_any_two = NANOS_PER_SEC / rate;
        Self {
            first_nanos: start_nanos + whole(between_any_two * index as f64),
            interval_nanos: between_any_two * count as f64,
        }
    }

    /// When message `number`, counted from 0, is meant to be sent.
    pub(crate) fn intended(&self, number: u64) -> u64 {
        // Multiplied and not added up: an addition per message would let the rounding grow.
        self.first_nanos + whole(self.interval_nanos * number as f64)
    }
}

/// Times and counts of a run fit 53 bits with room for fractions.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "never negative, and nanoseconds of a run are far below the largest number"
)]
fn whole(nanos: f64) -> u64 {
    nanos.round() as u64
}

#[cfg(test)]
mod tests {
    use super::Schedule;

    #[test]
    fn messages_are_meant_at_even_intervals() {
        let plan = Schedule::share(1_000, 1_000_000.0, 0, 1);
        assert_eq!(plan.intended(0), 1_000);
        assert_eq!(plan.intended(1), 2_000);
        assert_eq!(plan.intended(999), 1_000_000);
    }

    #[test]
    fn producers_of_one_rate_take_turns() {
        let rate = 1_000.0;
        let plans = [0, 1, 2].map(|index| Schedule::share(0, rate, index, 3));
        let mut times: Vec<u64> = (0..4)
            .flat_map(|number| plans.map(|plan| plan.intended(number)))
            .collect();
        times.sort_unstable();
        let even: Vec<u64> = (0..12).map(|number| number * 1_000_000).collect();
        assert_eq!(times, even);
    }

    #[test]
    fn rounding_does_not_grow() {
        // Three per second: an interval that no whole number of nanoseconds matches.
        let plan = Schedule::share(0, 3.0, 0, 1);
        assert_eq!(plan.intended(3_000_000), 1_000_000 * 1_000_000_000);
    }
}
