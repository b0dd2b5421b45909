//! How long messages took: a histogram, and what is told of it.

use hdrhistogram::Histogram;

/// Below this nothing can be told apart, nor has to be.
const LOWEST_NANOS: u64 = 100;

/// An hour; what takes longer counts as this long.
const HIGHEST_NANOS: u64 = 3_600_000_000_000;

/// Percentiles are right to a thousandth.
const DIGITS: u8 = 3;

/// Times in nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Latency {
    histogram: Histogram<u64>,
}

/// The percentiles that are reported, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Percentiles {
    pub(crate) count: u64,
    pub(crate) p50_us: f64,
    pub(crate) p90_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
}

impl Latency {
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(LOWEST_NANOS, HIGHEST_NANOS, DIGITS)
            .expect("the bounds are in order");
        Self { histogram }
    }

    pub(crate) fn record(&mut self, nanos: u64) {
        self.histogram.saturating_record(nanos);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("all histograms have the same bounds");
    }

    /// `None` when nothing was recorded.
    pub(crate) fn percentiles(&self) -> Option<Percentiles> {
        if self.histogram.is_empty() {
            return None;
        }
        let at = |quantile| micros(self.histogram.value_at_quantile(quantile));
        Some(Percentiles {
            count: self.histogram.len(),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: micros(self.histogram.max()),
        })
    }
}

fn micros(nanos: u64) -> f64 {
    // Tenths are enough, and what the digits above stand for.
    (nanos as f64 / 100.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::Latency;

    #[test]
    fn percentiles_are_right_to_a_thousandth() {
        let mut latency = Latency::new();
        for micros in 1..=100_000 {
            latency.record(micros * 1000);
        }
        let told = latency.percentiles().unwrap();
        assert_eq!(told.count, 100_000);
        for (value, exact) in [
            (told.p50_us, 50_000.0),
            (told.p90_us, 90_000.0),
            (told.p99_us, 99_000.0),
            (told.p999_us, 99_900.0),
            (told.max_us, 100_000.0),
        ] {
            let off: f64 = (value - exact) / exact;
            assert!(off.abs() <= 0.001, "{value} instead of {exact}");
        }
    }

    #[test]
    fn nothing_recorded_has_no_percentiles() {
        assert_eq!(Latency::new().percentiles(), None);
    }

    #[test]
    fn threads_are_put_together() {
        let (mut one, mut other) = (Latency::new(), Latency::new());
        one.record(1_000);
        other.record(u64::MAX);
        one.merge(&other);
        let told = one.percentiles().unwrap();
        assert_eq!((told.count, told.p50_us), (2, 1.0));
        assert!(told.max_us >= 3.6e9);
    }
}
