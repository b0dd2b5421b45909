//! Messages that came back are held back for a while, each longer than the time before, and not for ever.
//!
//! A message that is *retrying* is not ready: nobody is handed it, it stands in front of nobody, and no
//! limit counts it. When its time has come it is put back where it had been without the wait. Until when it
//! waits is stored with its attempts; after a start it waits on. Held back messages are in memory up to the bound of
//! unacked ones; of those beyond it the place is kept and the body is on disk only, until their time has come and their turn.
//! Those that were held back at the start are on disk until the head of the queue is read.

use std::collections::{BTreeMap, BTreeSet};

use super::{DeathReason, Effects, Queue, Ready, stub::Stub};
use crate::{
    arguments::RetrySettings,
    ids::{Seq, Timestamp},
    record::Attempts,
};

/// What a queue holds back.
#[derive(Debug)]
pub(super) struct Retries {
    /// `None` when nothing more is held back.
    settings: Option<RetrySettings>,
    /// Held back, with the time when that ends.
    waiting: BTreeMap<Seq, (Timestamp, Ready)>,
    /// Memory of those of them that are stored.
    waiting_bytes: usize,
    /// The same without their bodies.
    on_disk: BTreeMap<Seq, (Timestamp, Stub)>,
    /// Held back, and still in the cold range.
    cold: BTreeSet<Seq>,
    /// When each of all kinds goes on.
    due: BTreeSet<(Timestamp, Seq)>,
}

impl Retries {
    const fn new(settings: Option<RetrySettings>) -> Self {
        Self {
            settings,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            on_disk: BTreeMap::new(),
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
        (self.waiting.len() + self.on_disk.len() + self.cold.len()) as u64
    }

    /// Those in memory.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (Seq, &Ready)> {
        self.waiting.iter().map(|(&seq, (_, ready))| (seq, ready))
    }

    /// Those whose bodies are on disk only.
    pub(super) fn on_disk(&self) -> impl Iterator<Item = (Seq, Timestamp, Stub)> {
        let held = self.on_disk.iter();
        held.map(|(&seq, &(until, stub))| (seq, until, stub))
    }

    fn hold(&mut self, seq: Seq, until: Timestamp, ready: Ready, lazy_expiry: bool) {
        let due = first_of(until, ready.due, lazy_expiry);
        if ready.stored {
            self.waiting_bytes += ready.message.memory_bytes();
        }
        self.due.insert((due, seq));
        self.waiting.insert(seq, (due, ready));
    }

    fn hold_on_disk(&mut self, seq: Seq, until: Timestamp, stub: Stub, lazy_expiry: bool) {
        let due = first_of(until, stub.due, lazy_expiry);
        self.due.insert((due, seq));
        self.on_disk.insert(seq, (due, stub));
    }

    fn take_waiting(&mut self, seq: Seq) -> Option<Ready> {
        let (_, ready) = self.waiting.remove(&seq)?;
        if ready.stored {
            self.waiting_bytes -= ready.message.memory_bytes();
        }
        Some(ready)
    }
}

/// Its time may be over before it has waited long enough; where only the head expires that does not matter until it is there.
fn first_of(until: Timestamp, expires: Timestamp, lazy_expiry: bool) -> Timestamp {
    if lazy_expiry {
        until
    } else {
        until.min(expires)
    }
}

impl Queue {
    /// The settings say how long what comes back is held back. What is held back already keeps its time.
    pub(super) fn set_retry(&mut self) {
        let settings = self.settings.retry.clone();
        match &mut self.retries {
            Some(retries) => retries.settings = settings,
            None if settings.is_none() => {}
            none => *none = Some(Box::new(Retries::new(settings))),
        }
    }

    pub(super) fn retry_settings(&self) -> Option<&RetrySettings> {
        self.retries.as_ref()?.settings.as_ref()
    }

    /// Messages that are held back.
    #[must_use]
    pub fn retrying(&self) -> u64 {
        self.retries.as_ref().map_or(0, |retries| retries.count())
    }

    /// Whether these are all attempts that a message has here.
    pub(super) fn is_last_attempt(&self, attempts: Attempts) -> bool {
        let limit = self.retry_settings().and_then(|settings| settings.limit);
        limit.is_some_and(|limit| attempts.all >= limit)
    }

    /// Until when a message is held back that has just come back for the last of these attempts.
    pub(super) fn held_until(
        &self,
        seq: Seq,
        attempts: Attempts,
        is_failure: bool,
    ) -> Option<Timestamp> {
        let wait = self
            .retry_settings()?
            .wait_millis(seq, attempts, is_failure);
        (wait > 0).then(|| self.now.plus_millis(wait))
    }

    /// A message came back and waits.
    pub(super) fn hold_back(&mut self, seq: Seq, until: Timestamp, ready: Ready) {
        let stub = self.stub_of_held_back(seq, &ready);
        let lazy_expiry = self.settings.lazy_expiry;
        if let Some(retries) = &mut self.retries {
            match stub {
                Some(stub) => retries.hold_on_disk(seq, until, stub, lazy_expiry),
                None => retries.hold(seq, until, ready, lazy_expiry),
            }
        }
    }

    /// The same for one whose body is on disk only.
    pub(super) fn hold_back_on_disk(&mut self, seq: Seq, until: Timestamp, stub: Stub) {
        if let Some(retries) = &mut self.retries {
            retries.hold_on_disk(seq, until, stub, self.settings.lazy_expiry);
        }
    }

    /// What is kept of a message for which there is no more room among those that are held back.
    fn stub_of_held_back(&self, seq: Seq, ready: &Ready) -> Option<Stub> {
        let held = self.retries.as_ref()?.waiting_bytes;
        if !ready.stored || held + ready.message.memory_bytes() <= self.unacked_bytes_max {
            return None;
        }
        self.let_go(self.spot(seq, &ready.message), ready)
    }

    /// A message that is still to be read may have been held back before the start.
    pub(super) fn hold_cold(&mut self, now: Timestamp, seq: Seq, attempts: Attempts) {
        if let Some(retries) = &mut self.retries
            && attempts.due > now
        {
            retries.cold.insert(seq);
            retries.due.insert((attempts.due, seq));
        }
    }

    /// Those in memory that are held back, and until when.
    pub(super) fn held_back(&self) -> impl Iterator<Item = (Seq, Timestamp, &Ready)> {
        let retries = self.retries.iter();
        let waiting = retries.flat_map(|retries| &retries.waiting);
        waiting.map(|(&seq, (until, ready))| (seq, *until, ready))
    }

    /// Those on disk that are held back, and until when.
    pub(super) fn held_back_on_disk(&self) -> Vec<(Seq, Timestamp)> {
        let retries = self.retries.iter();
        let held = retries.flat_map(|retries| {
            let is_cold = |(_, seq): &&(Timestamp, Seq)| retries.cold.contains(seq);
            retries.due.iter().filter(is_cold)
        });
        held.map(|&(until, seq)| (seq, until)).collect()
    }

    /// Those whose time has come go on.
    pub(super) fn end_waits(&mut self, effects: &mut Effects) {
        while let Some(retries) = &mut self.retries
            && let Some(&(due, seq)) = retries.due.first()
            && due <= self.now
        {
            retries.due.pop_first();
            retries.cold.remove(&seq);
            if let Some((_, stub)) = retries.on_disk.remove(&seq) {
                self.end_wait_on_disk(seq, stub, effects);
                continue;
            }
            let Some(ready) = retries.take_waiting(seq) else {
                continue;
            };
            let spot = self.spot(seq, &ready.message);
            if ready.due <= self.now && !self.settings.lazy_expiry {
                self.die(spot, ready, DeathReason::Expired, effects);
            } else {
                self.put_back(spot, ready);
            }
        }
    }

    /// A message comes from the cold range; gives it back when it is ready.
    pub(super) fn thaw(&mut self, seq: Seq, ready: Ready) -> Option<Ready> {
        let Some(retries) = &mut self.retries else {
            return Some(ready);
        };
        if !retries.cold.remove(&seq) {
            return Some(ready);
        }
        let until = self.attempts.get(&seq).map(|count| count.attempts.due);
        let until = until.unwrap_or_default();
        retries.due.remove(&(until, seq));
        if ready.due <= self.now && !self.settings.lazy_expiry {
            // Its time is over anyway.
            return Some(ready);
        }
        self.hold_back(seq, until, ready);
        None
    }

    /// One dies that is in the cold range, where it may be held back.
    pub(super) fn drop_held_cold(&mut self, seq: Seq) {
        if let Some(retries) = &mut self.retries
            && retries.cold.remove(&seq)
            && let Some(count) = self.attempts.get(&seq)
        {
            retries.due.remove(&(count.attempts.due, seq));
        }
    }

    /// Nothing is held back any more.
    pub(super) fn drop_retrying(&mut self, effects: &mut Effects) {
        let Some(retries) = &mut self.retries else {
            return;
        };
        retries.cold.clear();
        retries.due.clear();
        retries.waiting_bytes = 0;
        let on_disk = std::mem::take(&mut retries.on_disk);
        for (seq, (_, ready)) in std::mem::take(&mut retries.waiting) {
            let spot = self.spot(seq, &ready.message);
            self.forget(spot, &ready, effects);
        }
        for (seq, (_, stub)) in on_disk {
            self.forget_stub(seq, stub, effects);
        }
    }

    /// Nothing is left on disk from before the start; what should be there and was held back is gone.
    pub(super) fn drop_cold_retrying(&mut self) {
        let Some(retries) = &mut self.retries else {
            return;
        };
        for seq in std::mem::take(&mut retries.cold) {
            if let Some(count) = self.attempts.get(&seq) {
                retries.due.remove(&(count.attempts.due, seq));
            }
        }
    }

    pub(super) fn check_retries(&self) -> Result<(), String> {
        let Some(retries) = &self.retries else {
            return Ok(());
        };
        let waiting = retries.waiting.iter().map(|(&seq, (due, _))| (*due, seq));
        let waiting = waiting.chain(retries.on_disk().map(|(seq, due, _)| (due, seq)));
        let cold = retries.cold.iter().filter_map(|seq| {
            let count = self.attempts.get(seq)?;
            Some((count.attempts.due, *seq))
        });
        let due: BTreeSet<_> = waiting.chain(cold).collect();
        if due != retries.due {
            return Err(format!("not what is held back: {retries:?}"));
        }
        let stored = retries.waiting.values().map(|(_, ready)| ready);
        let stored = stored.filter(|ready| ready.stored);
        let bytes: usize = stored.map(|ready| ready.message.memory_bytes()).sum();
        if bytes != retries.waiting_bytes {
            return Err(format!("{bytes} bytes are held back: {retries:?}"));
        }
        let elsewhere = |seq: &Seq| self.unacked.contains(*seq) || self.sinking.contains_key(seq);
        if let Some(seq) = retries.on_disk.keys().find(|seq| elsewhere(seq)) {
            return Err(format!("message {seq} is held back and elsewhere"));
        }
        let held = retries.waiting.keys().chain(retries.on_disk.keys());
        let mut held = held.chain(&retries.cold);
        if let Some(seq) = held.find(|seq| !self.attempts.contains_key(seq)) {
            return Err(format!("message {seq} is held back and never came back"));
        }
        if retries.cold_count() > self.cold.messages() {
            return Err(format!("more is held back than cold: {retries:?}"));
        }
        Ok(())
    }
}
