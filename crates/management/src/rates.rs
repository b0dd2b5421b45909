//! Rates of counters, without anybody counting time: a counter is compared with what it was when somebody last
//! asked. Where somebody asks for samples too, what was seen is remembered from then on.

use std::{
    collections::{HashMap, VecDeque},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

/// Counters that are remembered; beyond it all are forgotten and begin anew.
const REMEMBERED_MAX: usize = 100_000;

/// Of these, counters of which samples are kept; further ones have none.
const WATCHED_MAX: usize = 1000;

/// Samples of one counter.
const SAMPLES_MAX: usize = 600;

/// Between two samples at least.
const SAMPLE_SECS_MIN: f64 = 1.0;

/// A rate is measured over this time at least.
const SPAN_SECS_MIN: f64 = 5.0;

/// Before a counter is measured anew, the last rate holds for so long.
const SPAN_SECS_MAX: f64 = 600.0;

/// Samples somebody wants: so many seconds back, so many apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Age {
    pub(crate) secs: u64,
    pub(crate) step_secs: u64,
}

/// What was seen of counters.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    counters: HashMap<(String, &'static str), Counter>,
    watched: usize,
}

#[derive(Debug)]
struct Counter {
    at: Instant,
    count: f64,
    rate: f64,
    samples: Option<VecDeque<(Instant, f64)>>,
}

impl Rates {
    /// Forgets what was seen; all counters begin anew.
    pub(crate) fn forget(&self) {
        *self.seen.lock() = Seen::default();
    }

    /// Puts counters of one object into its JSON, each with its rate.
    pub(crate) fn put(
        &self,
        into: &mut Map<String, Value>,
        object: &str,
        counters: &[(&'static str, u64)],
    ) {
        self.put_with(into, object, counters, None);
    }

    /// The same, with samples where they are asked for.
    pub(crate) fn put_with(
        &self,
        into: &mut Map<String, Value>,
        object: &str,
        counters: &[(&'static str, u64)],
        age: Option<Age>,
    ) {
        let now = Instant::now();
        let mut seen = self.seen.lock();
        if seen.counters.len() > REMEMBERED_MAX {
            *seen = Seen::default();
        }
        let Seen {
            counters: known,
            watched,
        } = &mut *seen;
        for &(name, count) in counters {
            #[expect(
                clippy::cast_precision_loss,
                reason = "a rate is shown with one digit behind the point"
            )]
            let value = count as f64;
            let counter = known
                .entry((object.to_owned(), name))
                .or_insert_with(|| Counter::begun(now, value));
            counter.look(now, value);
            if age.is_some() && counter.samples.is_none() && *watched < WATCHED_MAX {
                *watched += 1;
                counter.samples = Some(VecDeque::new());
            }
            counter.sample(now, value);
            let mut details = json!({ "rate": counter.rate });
            if let Some(age) = age {
                counter.put_samples(&mut details, count, age);
            }
            into.insert(name.to_owned(), count.into());
            into.insert(format!("{name}_details"), details);
        }
    }
}

impl Counter {
    const fn begun(at: Instant, count: f64) -> Self {
        Self {
            at,
            count,
            rate: 0.0,
            samples: None,
        }
    }

    fn look(&mut self, now: Instant, value: f64) {
        let span = now.duration_since(self.at).as_secs_f64();
        if span > SPAN_SECS_MAX || value < self.count {
            (self.at, self.count, self.rate) = (now, value, 0.0);
        } else if span >= SPAN_SECS_MIN {
            self.rate = rounded((value - self.count) / span);
            (self.at, self.count) = (now, value);
        }
    }

    fn sample(&mut self, now: Instant, value: f64) {
        let Some(samples) = &mut self.samples else {
            return;
        };
        let is_new =
            |(at, _): &(Instant, f64)| now.duration_since(*at).as_secs_f64() >= SAMPLE_SECS_MIN;
        if samples.back().is_none_or(is_new) {
            if samples.len() >= SAMPLES_MAX {
                samples.pop_front();
            }
            samples.push_back((now, value));
        }
    }

    /// The newest first, at times that all counters share. Before anybody looked there is what was seen first.
    fn put_samples(&self, details: &mut Value, count: u64, age: Age) {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        let wall = wall.map_or(0, |since| since.as_secs());
        let newest = wall - wall % age.step_secs;
        let mut samples = Vec::new();
        let (mut sum, mut oldest, mut number) = (0.0, 0.0, 0.0);
        for back in (0..=age.secs).step_by(usize::try_from(age.step_secs).unwrap_or(usize::MAX)) {
            let at = newest.saturating_sub(back);
            #[expect(
                clippy::cast_precision_loss,
                reason = "an average of counters need not be exact to the last digit"
            )]
            let sample = self
                .value_before(wall.saturating_sub(at))
                .unwrap_or(count as f64);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it was a whole number"
            )]
            samples.push(json!({"sample": sample as u64, "timestamp": at * 1000}));
            sum += sample;
            oldest = sample;
            number += 1.0;
        }
        let first = samples.first().and_then(|newest| newest["sample"].as_f64());
        #[expect(clippy::cast_precision_loss, reason = "ages are some minutes")]
        let span = age.secs.max(1) as f64;
        details["avg"] = json!(sum / f64::max(number, 1.0));
        details["avg_rate"] = json!(((first.unwrap_or(0.0) - oldest) / span).max(0.0));
        details["samples"] = samples.into();
    }

    /// What the counter was so many seconds ago.
    fn value_before(&self, secs: u64) -> Option<f64> {
        let samples = self.samples.as_ref()?;
        let is_before = |(at, _): &&(Instant, f64)| at.elapsed().as_secs() >= secs;
        let found = samples.iter().rev().find(is_before);
        found.or_else(|| samples.front()).map(|(_, value)| *value)
    }
}

fn rounded(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn later(rates: &Rates, secs: u64) {
        let by = Duration::from_secs(secs);
        for counter in rates.seen.lock().counters.values_mut() {
            counter.at -= by;
            for (at, _) in counter.samples.iter_mut().flatten() {
                *at -= by;
            }
        }
    }

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
        later(&rates, 10);
        rates.put(&mut object, "queue", &[("publish", 100)]);
        let rate = object["publish_details"]["rate"]
            .as_f64()
            .expect("a number");
        assert!((9.0..=10.0).contains(&rate), "{rate}");
    }

    #[test]
    fn samples_are_what_was_seen_the_newest_first() {
        let rates = Rates::default();
        let mut object = Map::new();
        let age = Some(Age {
            secs: 60,
            step_secs: 20,
        });
        rates.put_with(&mut object, "queue", &[("messages", 0)], age);
        later(&rates, 30);
        rates.put_with(&mut object, "queue", &[("messages", 60)], age);
        later(&rates, 25);
        rates.put_with(&mut object, "queue", &[("messages", 90)], age);
        let details = &object["messages_details"];
        let samples = details["samples"].as_array().expect("a list");
        let values: Vec<u64> = samples
            .iter()
            .map(|sample| sample["sample"].as_u64().expect("a number"))
            .collect();
        assert_eq!(values.len(), 4, "{samples:?}");
        assert!(
            values.is_sorted_by(|newer, older| newer >= older),
            "{values:?}"
        );
        assert_eq!(values.last(), Some(&0));
        let times: Vec<u64> = samples
            .iter()
            .map(|sample| sample["timestamp"].as_u64().expect("a time"))
            .collect();
        assert!(
            times.windows(2).all(|pair| pair[0] - pair[1] == 20_000),
            "{times:?}"
        );
        assert!(details["avg"].as_f64() > Some(0.0), "{details}");
    }
}
