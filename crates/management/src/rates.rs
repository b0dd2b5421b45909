//! Rates of counters, without anybody counting time: a counter is compared with what it was when somebody last
//! asked.

use std::{collections::HashMap, time::Instant};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

/// Counters that are remembered; beyond it all are forgotten and begin anew.
const REMEMBERED_MAX: usize = 100_000;

/// A rate is measured over this time at least.
const SPAN_SECS_MIN: f64 = 5.0;

/// Before a counter is measured anew, the last rate holds for so long.
const SPAN_SECS_MAX: f64 = 600.0;

/// What was seen of counters.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    seen: Mutex<HashMap<(String, &'static str), Seen>>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    at: Instant,
    count: f64,
    rate: f64,
}

impl Rates {
    /// Puts counters of one object into its JSON, each with its rate.
    pub(crate) fn put(
        &self,
        into: &mut Map<String, Value>,
        object: &str,
        counters: &[(&'static str, u64)],
    ) {
        let now = Instant::now();
        let mut seen = self.seen.lock();
        if seen.len() > REMEMBERED_MAX {
            seen.clear();
        }
        for &(name, count) in counters {
            #[expect(
                clippy::cast_precision_loss,
                reason = "a rate is shown with one digit behind the point"
            )]
            let value = count as f64;
            let known = seen.entry((object.to_owned(), name)).or_insert(Seen {
                at: now,
                count: value,
                rate: 0.0,
            });
            let span = now.duration_since(known.at).as_secs_f64();
            if span > SPAN_SECS_MAX || value < known.count {
                *known = Seen {
                    at: now,
                    count: value,
                    rate: 0.0,
                };
            } else if span >= SPAN_SECS_MIN {
                let rate = (value - known.count) / span;
                *known = Seen {
                    at: now,
                    count: value,
                    rate: (rate * 10.0).round() / 10.0,
                };
            }
            into.insert(name.to_owned(), count.into());
            into.insert(format!("{name}_details"), json!({ "rate": known.rate }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_comes_with_its_rate() {
        let rates = Rates::default();
        let mut object = Map::new();
        rates.put(&mut object, "queue", &[("publish", 3)]);
        rates.put(&mut object, "queue", &[("publish", 5)]);
        assert_eq!(
            Value::Object(object),
            json!({"publish": 5, "publish_details": {"rate": 0.0}})
        );
    }

    #[test]
    fn a_rate_is_taken_over_the_time_between_two_looks() {
        let rates = Rates::default();
        let mut object = Map::new();
        rates.put(&mut object, "queue", &[("publish", 0)]);
        for seen in rates.seen.lock().values_mut() {
            seen.at -= std::time::Duration::from_secs(10);
        }
        rates.put(&mut object, "queue", &[("publish", 100)]);
        let rate = object["publish_details"]["rate"]
            .as_f64()
            .expect("a number");
        assert!((9.0..=10.0).contains(&rate), "{rate}");
    }
}
