//! Rates of counters, without anybody counting time: a counter is compared with what it was when somebody last
//! asked. Where somebody asks for samples too, what was seen is remembered from then on. An object that nobody asked
//! for as long as a rate may span is forgotten, and so are objects that are gone.

use std::{
    collections::{HashMap, VecDeque},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

/// Objects that are remembered; further ones have no rate until others are forgotten.
const OBJECTS_MAX: usize = 100_000;

/// Samples of one counter.
const SAMPLES_MAX: usize = 600;

/// Samples of all counters; beyond it each keeps the newer half of its own.
const SAMPLES_TOTAL_MAX: usize = 600_000;

/// Between two looks for what nobody asks for any more.
const SWEEP_SECS: f64 = 60.0;

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
    objects: HashMap<String, Object>,
    /// Of all counters.
    samples: usize,
    swept: Option<Instant>,
}

#[derive(Debug)]
struct Object {
    asked: Instant,
    /// Some few, in the order in which they came.
    counters: Vec<(&'static str, Counter)>,
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
        seen.make_room(now);
        let Seen {
            objects, samples, ..
        } = &mut *seen;
        let mut stranger = Object::asked_at(now);
        let known = if objects.len() < OBJECTS_MAX || objects.contains_key(object) {
            let place = objects.entry(object.to_owned());
            place.or_insert_with(|| Object::asked_at(now))
        } else {
            &mut stranger
        };
        known.asked = now;
        for &(name, count) in counters {
            #[expect(
                clippy::cast_precision_loss,
                reason = "a rate is shown with one digit behind the point"
            )]
            let value = count as f64;
            let counter = known.counter(name, now, value);
            counter.look(now, value);
            if age.is_some() {
                counter.samples.get_or_insert_default();
            }
            let before = counter.samples_count();
            counter.sample(now, value);
            *samples += counter.samples_count() - before;
            let mut details = json!({ "rate": counter.rate });
            if let Some(age) = age {
                counter.put_samples(&mut details, count, age);
            }
            into.insert(name.to_owned(), count.into());
            into.insert(format!("{name}_details"), details);
        }
    }
}

impl Seen {
    /// Forgets what nobody asked for so long that its rates begin anew, and samples when there are too many.
    fn make_room(&mut self, now: Instant) {
        let since = |at: Instant| now.duration_since(at).as_secs_f64();
        if self.swept.is_none_or(|swept| since(swept) >= SWEEP_SECS) {
            self.swept = Some(now);
            self.objects
                .retain(|_, object| since(object.asked) <= SPAN_SECS_MAX);
            self.samples = self.objects.values().map(Object::samples_count).sum();
        }
        if self.samples > SAMPLES_TOTAL_MAX {
            let counters = self
                .objects
                .values_mut()
                .flat_map(|known| &mut known.counters);
            for samples in counters.filter_map(|(_, counter)| counter.samples.as_mut()) {
                samples.drain(..samples.len().div_ceil(2));
                samples.shrink_to_fit();
            }
            self.samples = self.objects.values().map(Object::samples_count).sum();
        }
    }
}

impl Object {
    const fn asked_at(now: Instant) -> Self {
        Self {
            asked: now,
            counters: Vec::new(),
        }
    }

    fn counter(&mut self, name: &'static str, now: Instant, value: f64) -> &mut Counter {
        let place = self.counters.iter().position(|(known, _)| *known == name);
        let place = place.unwrap_or_else(|| {
            self.counters.push((name, Counter::begun(now, value)));
            self.counters.len() - 1
        });
        &mut self.counters[place].1
    }

    fn samples_count(&self) -> usize {
        let counters = self.counters.iter();
        counters.map(|(_, counter)| counter.samples_count()).sum()
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

    fn samples_count(&self) -> usize {
        self.samples.as_ref().map_or(0, VecDeque::len)
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

    use leveret_core::queue::Counters;

    use super::*;
    use crate::resource::queues;

    fn later(rates: &Rates, secs: u64) {
        let by = Duration::from_secs(secs);
        let mut seen = rates.seen.lock();
        seen.swept = seen.swept.map(|swept| swept - by);
        for object in seen.objects.values_mut() {
            object.asked -= by;
            for (_, counter) in &mut object.counters {
                counter.at -= by;
                for (at, _) in counter
                    .samples
                    .iter_mut()
                    .flat_map(|samples| samples.iter_mut())
                {
                    *at -= by;
                }
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

    const AGE: Option<Age> = Some(Age {
        secs: 60,
        step_secs: 20,
    });

    #[test]
    fn every_queue_of_ten_thousand_has_its_rates() {
        const QUEUES: u64 = 10_000;
        let rates = Rates::default();
        let counters = |count| {
            queues::of_counters(&Counters {
                publish: count,
                ..Counters::default()
            })
        };
        let list = |count| {
            (0..QUEUES)
                .filter(|queue| {
                    let mut object = Map::new();
                    let key = format!("queue {queue}");
                    rates.put(
                        &mut object,
                        &key,
                        &[("messages", count), ("messages_ready", count)],
                    );
                    rates.put(&mut object, &key, &counters(count));
                    object["messages_details"]["rate"].as_f64() > Some(0.0)
                        && object["publish_details"]["rate"].as_f64() > Some(0.0)
                })
                .count() as u64
        };
        assert_eq!(list(0), 0);
        later(&rates, 10);
        assert_eq!(list(100), QUEUES);
    }

    #[test]
    fn what_nobody_asks_for_any_more_is_forgotten() {
        let rates = Rates::default();
        let mut object = Map::new();
        rates.put_with(&mut object, "gone", &[("messages", 1)], AGE);
        later(&rates, 300);
        rates.put_with(&mut object, "kept", &[("messages", 1)], AGE);
        later(&rates, 301);
        rates.put_with(&mut object, "kept", &[("messages", 2)], AGE);
        let seen = rates.seen.lock();
        assert_eq!(seen.objects.keys().collect::<Vec<_>>(), ["kept"]);
        assert_eq!(seen.samples, 2);
    }

    #[test]
    fn samples_come_however_many_others_were_watched_before() {
        let rates = Rates::default();
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| (name, 1));
        let newest = Some(Age {
            secs: 0,
            step_secs: 1,
        });
        let mut object = Map::new();
        for _ in 0..8 {
            for other in 0..10_000 {
                rates.put_with(&mut object, &format!("queue {other}"), &names, newest);
            }
            later(&rates, 2);
            assert!(rates.seen.lock().samples <= SAMPLES_TOTAL_MAX + names.len());
        }
        rates.put_with(&mut object, "queue", &[("messages", 0)], AGE);
        later(&rates, 50);
        rates.put_with(&mut object, "queue", &[("messages", 60)], AGE);
        let seen = rates.seen.lock();
        let (_, counter) = &seen.objects["queue"].counters[0];
        let samples = counter.samples.iter().flatten();
        let values: Vec<f64> = samples.map(|(_, value)| *value).collect();
        assert_eq!(values, [0.0, 60.0]);
    }
}
