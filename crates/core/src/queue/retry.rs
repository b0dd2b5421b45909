//! Messages that came back are held back for a while, each longer than the time before, and not for ever.
//!
//! A message that is *retrying* is not ready: nobody is handed it, it stands in front of nobody, and no
//! limit counts it. When its time has come it returns to its old place. How often it came back is stored, and
//! so is until when it waits; after a start it waits on. Held back messages are in memory, as unacked ones
//! are; those that were held back at the start are on disk until the head of the queue is read.

use std::collections::{BTreeMap, BTreeSet};

use super::{DeathReason, Effects, Queue, Ready, Spot};
use crate::{
    arguments::RetrySettings,
    ids::{Seq, Timestamp},
    record::{Attempts, Write},
};

/// What a queue with retries knows of messages that came back.
#[derive(Debug)]
pub(super) struct Retries {
    settings: RetrySettings,
    /// Of every message that came back at least once and is not gone.
    counts: BTreeMap<Seq, Count>,
    /// Held back, with the time when that ends.
    waiting: BTreeMap<Seq, (Timestamp, Ready)>,
    /// Held back, and still in the cold range.
    cold: BTreeSet<Seq>,
    /// When each of both kinds goes on.
    due: BTreeSet<(Timestamp, Seq)>,
}

#[derive(Debug, Clone, Copy)]
struct Count {
    attempts: Attempts,
    /// The store knows of it.
    stored: bool,
}

const NONE: Attempts = Attempts {
    all: 0,
    failed: 0,
    due: Timestamp::new(0),
};

impl Retries {
    pub(super) const fn new(settings: RetrySettings) -> Self {
        Self {
            settings,
            counts: BTreeMap::new(),
            waiting: BTreeMap::new(),
            cold: BTreeSet::new(),
            due: BTreeSet::new(),
        }
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(due, _)| *due)
    }

    pub(super) fn cold_count(&self) -> u64 {
        self.cold.len() as u64
    }

    fn count(&self) -> u64 {
        (self.waiting.len() + self.cold.len()) as u64
    }

    /// Those in memory.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (Seq, &Ready)> {
        self.waiting.iter().map(|(&seq, (_, ready))| (seq, ready))
    }

    fn hold(&mut self, seq: Seq, until: Timestamp, ready: Ready) {
        // Its time may be over sooner.
        let due = until.min(ready.due);
        self.due.insert((due, seq));
        self.waiting.insert(seq, (due, ready));
    }
}

impl Queue {
    /// The same queue with what the store knows of messages that came back; before anything else happens to
    /// it, and behind its settings.
    #[must_use]
    pub fn with_attempts(
        mut self,
        now: Timestamp,
        stored: impl IntoIterator<Item = (Seq, Attempts)>,
    ) -> Self {
        if let Some(retries) = &mut self.retries {
            for (seq, attempts) in stored {
                let stored = true;
                retries.counts.insert(seq, Count { attempts, stored });
                if attempts.due > now {
                    retries.cold.insert(seq);
                    retries.due.insert((attempts.due, seq));
                }
            }
        }
        self
    }

    /// Messages that are held back.
    #[must_use]
    pub fn retrying(&self) -> u64 {
        self.retries.as_ref().map_or(0, |retries| retries.count())
    }

    /// A message came back; `failed` tells that somebody tried in vain.
    pub(super) fn come_back(
        &mut self,
        spot: Spot,
        ready: Ready,
        failed: bool,
        effects: &mut Effects,
    ) {
        let Some(retries) = &mut self.retries else {
            self.insert_ready(spot, ready);
            return;
        };
        let seq = spot.seq;
        let count = retries.counts.entry(seq).or_insert(Count {
            attempts: NONE,
            stored: false,
        });
        let attempts = &mut count.attempts;
        attempts.all = attempts.all.saturating_add(1);
        attempts.failed = attempts.failed.saturating_add(failed.into());
        if retries
            .settings
            .limit
            .is_some_and(|limit| attempts.all >= limit)
        {
            self.die(spot, ready, DeathReason::DeliveryLimit, effects);
            return;
        }
        let is_kept = self.durable && ready.message.is_persistent();
        let wait = retries.settings.wait_millis(seq, *attempts, failed);
        attempts.due = self.now.plus_millis(wait);
        let attempts = *attempts;
        if is_kept {
            count.stored = true;
            effects.writes.push(Write::Attempts {
                queue: self.id,
                seq,
                attempts,
            });
        }
        if wait == 0 {
            self.insert_ready(spot, ready);
        } else {
            let redelivered = true;
            retries.hold(
                seq,
                attempts.due,
                Ready {
                    redelivered,
                    ..ready
                },
            );
        }
    }

    /// Those whose time has come go on.
    pub(super) fn end_waits(&mut self, effects: &mut Effects) {
        while let Some(retries) = &mut self.retries
            && let Some(&(due, seq)) = retries.due.first()
            && due <= self.now
        {
            retries.due.pop_first();
            retries.cold.remove(&seq);
            let Some((_, ready)) = retries.waiting.remove(&seq) else {
                continue;
            };
            let spot = self.spot(seq, &ready.message);
            if ready.due <= self.now && !self.settings.lazy_expiry {
                self.die(spot, ready, DeathReason::Expired, effects);
            } else {
                self.insert_ready(spot, ready);
            }
        }
    }

    /// A message comes from the cold range; gives it back when it is ready.
    pub(super) fn thaw(&mut self, seq: Seq, ready: Ready) -> Option<Ready> {
        let Some(retries) = &mut self.retries else {
            return Some(ready);
        };
        let Some(count) = retries.counts.get(&seq) else {
            return Some(ready);
        };
        let ready = Ready {
            redelivered: true,
            ..ready
        };
        let until = count.attempts.due;
        if !retries.cold.remove(&seq) {
            return Some(ready);
        }
        retries.due.remove(&(until, seq));
        if ready.due <= self.now {
            // Its time is over anyway.
            return Some(ready);
        }
        retries.hold(seq, until, ready);
        None
    }

    /// The message is gone: so is what was known of its attempts.
    pub(super) fn forget_attempts(&mut self, seq: Seq, effects: &mut Effects) {
        if let Some(retries) = &mut self.retries
            && let Some(count) = retries.counts.remove(&seq)
            && count.stored
        {
            let queue = self.id;
            effects.writes.push(Write::ForgetAttempts { queue, seq });
        }
    }

    /// Nothing is ready or held back any more.
    pub(super) fn drop_retrying(&mut self, effects: &mut Effects) {
        let Some(retries) = &mut self.retries else {
            return;
        };
        retries.cold.clear();
        retries.due.clear();
        for (seq, (_, ready)) in std::mem::take(&mut retries.waiting) {
            let spot = self.spot(seq, &ready.message);
            self.forget(spot, &ready, effects);
        }
        let Some(retries) = &self.retries else {
            return;
        };
        let is_left = |seq: &Seq| self.unacked.contains_key(seq) || self.dying.contains_key(seq);
        let gone: Vec<Seq> = retries
            .counts
            .keys()
            .filter(|seq| !is_left(seq))
            .copied()
            .collect();
        gone.into_iter()
            .for_each(|seq| self.forget_attempts(seq, effects));
    }

    /// Nothing is left on disk; what should be there and was held back is gone.
    pub(super) fn drop_cold_retrying(&mut self, effects: &mut Effects) {
        let Some(retries) = &mut self.retries else {
            return;
        };
        for seq in std::mem::take(&mut retries.cold) {
            if let Some(Count { attempts, .. }) = retries.counts.remove(&seq) {
                retries.due.remove(&(attempts.due, seq));
            }
            let queue = self.id;
            effects.writes.push(Write::ForgetAttempts { queue, seq });
        }
    }

    /// The queue goes; the store keeps nothing of its attempts.
    pub(super) fn drop_attempts(&mut self, effects: &mut Effects) {
        let Some(retries) = &mut self.retries else {
            return;
        };
        let settings = retries.settings.clone();
        let counts = std::mem::replace(&mut **retries, Retries::new(settings)).counts;
        let stored = counts.into_iter().filter(|(_, count)| count.stored);
        let queue = self.id;
        effects
            .writes
            .extend(stored.map(|(seq, _)| Write::ForgetAttempts { queue, seq }));
    }

    pub(super) fn check_retries(&self) -> Result<(), String> {
        let Some(retries) = &self.retries else {
            return Ok(());
        };
        let waiting = retries.waiting.iter().map(|(&seq, (due, _))| (*due, seq));
        let cold = retries.cold.iter().filter_map(|seq| {
            let count = retries.counts.get(seq)?;
            Some((count.attempts.due, *seq))
        });
        let due: BTreeSet<_> = waiting.chain(cold).collect();
        if due != retries.due {
            return Err(format!("not what is held back: {retries:?}"));
        }
        let mut held = retries.waiting.keys().chain(&retries.cold);
        if let Some(seq) = held.find(|seq| !retries.counts.contains_key(seq)) {
            return Err(format!("message {seq} is held back and never came back"));
        }
        if retries.cold_count() > self.cold.messages() {
            return Err(format!("more is held back than cold: {retries:?}"));
        }
        Ok(())
    }
}
