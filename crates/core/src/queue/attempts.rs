//! How often messages came back: counted, shown to whoever gets them next, and limited.
//!
//! Only messages that came back are in the list, so that a queue that counts costs nothing until one does. What
//! outlives the process has its counts stored too, on each return, so that a crash does not begin them anew; they
//! are all there from the start on, also while their messages are cold, and go with their messages.

use std::collections::BTreeSet;

use bytes::Bytes;
use leveret_wire::{
    content::{BasicProperties, RawProperties},
    value::{FieldValue, ShortString},
};

use super::{Effects, Queue};
use crate::{
    arguments::AttemptCounting,
    ids::{Seq, Timestamp},
    message::Message,
    record::{Attempts, Write},
};

/// How often it came back, whatever the way.
const ACQUIRED_COUNT: &str = "x-acquired-count";
/// How often it came back in a way that counts to the limit.
const DELIVERY_COUNT: &str = "x-delivery-count";

/// What is known of one message that came back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Count {
    pub(super) attempts: Attempts,
    /// The store knows of it.
    stored: bool,
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
        for (seq, attempts) in stored {
            let stored = true;
            self.attempts.insert(seq, Count { attempts, stored });
            self.hold_cold(now, seq, attempts);
        }
        self
    }

    /// Whether anybody asks how often a message came back.
    pub(super) fn counts_returns(&self) -> bool {
        self.settings.attempt_counting.is_some() || self.retry_settings().is_some()
    }

    /// How often the message has come back by now; `None` when that is too often and it dies.
    ///
    /// The counts of a message that dies stay as they were: whatever becomes of it, they go with it.
    pub(super) fn count_return(&self, seq: Seq, is_failure: bool) -> Option<Attempts> {
        let before = self.attempts.get(&seq).map(|count| count.attempts);
        let before = before.unwrap_or_default();
        let attempts = Attempts {
            all: before.all.saturating_add(1),
            failed: before.failed.saturating_add(is_failure.into()),
            due: Timestamp::default(),
        };
        let is_last = self.is_last_attempt(attempts) || self.exceeds_limit(attempts, is_failure);
        (!is_last).then_some(attempts)
    }

    /// Whether an attempt failed with a message that comes from the store.
    pub(super) fn has_failed(&self, seq: Seq, message: &Message) -> bool {
        let count = self.attempts.get(&seq);
        message.was_delivered() || count.is_some_and(|count| count.attempts.failed > 0)
    }

    fn exceeds_limit(&self, attempts: Attempts, is_failure: bool) -> bool {
        let (Some(counting), Some(limit)) =
            (self.settings.attempt_counting, self.settings.delivery_limit)
        else {
            return false;
        };
        let counts = match counting {
            AttemptCounting::Failures => is_failure,
            AttemptCounting::All => true,
        };
        counts && u64::from(counting.counted(attempts)) > limit
    }

    /// The message stays, and what is counted of it is written down if it is `stored` for good.
    pub(super) fn keep_attempts(
        &mut self,
        seq: Seq,
        stored: bool,
        attempts: Attempts,
        effects: &mut Effects,
    ) {
        self.attempts.insert(seq, Count { attempts, stored });
        if stored {
            effects.writes.push(Write::Attempts {
                queue: self.id,
                seq,
                attempts,
            });
        }
    }

    /// The message is gone, and what was counted of it goes too.
    pub(super) fn forget_attempts(&mut self, seq: Seq, effects: &mut Effects) {
        let count = self.attempts.remove(&seq);
        if count.is_some_and(|count| count.stored) {
            let queue = self.id;
            effects.writes.push(Write::ForgetAttempts { queue, seq });
        }
    }

    /// Nothing is cold any more that came back before the start: what is not known by its place is gone.
    pub(super) fn forget_lost_attempts(&mut self, effects: &mut Effects) {
        if self.attempts.is_empty() {
            return;
        }
        let known = self.known_places();
        let counted = self.attempts.keys().copied();
        let lost: Vec<Seq> = counted.filter(|seq| !known.contains(seq)).collect();
        for seq in lost {
            self.forget_attempts(seq, effects);
        }
    }

    fn known_places(&self) -> BTreeSet<Seq> {
        let ready = self.ready.keys().map(|spot| spot.seq);
        ready
            .chain(self.unacked.keys())
            .chain(self.sinking.keys().copied())
            .chain(self.dying.keys().copied())
            .chain(self.waiting().map(|(seq, _)| seq))
            .chain(self.waiting_on_disk().map(|(seq, ..)| seq))
            .chain(self.cold.returned().keys().map(|spot| spot.seq))
            .collect()
    }

    /// The message as it is handed out: with what is counted of it among its headers.
    pub(super) fn shown(&self, seq: Seq, message: &Message) -> Message {
        if self.attempts.is_empty() {
            return message.clone();
        }
        let counting = self.settings.attempt_counting;
        counting
            .and_then(|counting| {
                let attempts = self.attempts.get(&seq)?.attempts;
                with_counts(message, attempts.all, counting.counted(attempts))
            })
            .unwrap_or_else(|| message.clone())
    }

    pub(super) fn check_attempts(&self) -> Result<(), String> {
        if self.attempts.is_empty() {
            return Ok(());
        }
        let known = self.known_places();
        let may_be_cold = |seq: &Seq| !self.cold.is_empty() && *seq < self.restored_until;
        let mut counted = self.attempts.keys();
        match counted.find(|seq| !known.contains(seq) && !may_be_cold(seq)) {
            Some(seq) => Err(format!("attempts are counted of {seq}, which is not there")),
            None => Ok(()),
        }
    }
}

/// `None` for properties that nobody can read, which no publish brings.
fn with_counts(message: &Message, acquired: u32, delivered: u32) -> Option<Message> {
    let raw = RawProperties::from_wire(Bytes::copy_from_slice(message.properties())).ok()?;
    let mut properties = BasicProperties::decode(&raw).ok()?;
    let mut headers = properties.headers.take().unwrap_or_default();
    for (key, count) in [(ACQUIRED_COUNT, acquired), (DELIVERY_COUNT, delivered)] {
        headers.remove(key.as_bytes());
        if count > 0 {
            headers.push(
                ShortString::from_static(key),
                FieldValue::Long(count.into()),
            );
        }
    }
    properties.headers = Some(headers);
    let properties = properties.encode();
    Some(message.with_properties(properties.as_bytes()))
}
