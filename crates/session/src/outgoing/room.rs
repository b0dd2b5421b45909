//! What the consumers of a channel may hold together: `basic.qos` with `global`.
//!
//! A queue asks for room under its lock before it hands out a message; room comes back when a delivery is
//! settled. A consumer that got none stands in line until then.

use std::collections::{BTreeMap, btree_map::Entry};

/// The room of one channel.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Unacked deliveries, all consumers together; `None` while there is no bound.
    max: Option<u16>,
    /// Deliveries that take room.
    held: u64,
    /// Messages for which room is kept free until they are delivered.
    reserved: u64,
    /// Numbers of the consumers that got none, who waits longest in front.
    line: BTreeMap<u64, u32>,
    /// Where each of them stands in it.
    waiting: BTreeMap<u32, u64>,
    /// Who waited so far.
    waited: u64,
}

impl Room {
    /// Another bound, or none; `held` deliveries are out.
    pub(super) const fn set(&mut self, max: Option<u16>, held: u64) {
        self.max = max;
        self.held = held;
    }

    fn is_full(&self) -> bool {
        self.max
            .is_some_and(|max| self.held + self.reserved >= u64::from(max))
    }

    /// Keeps room for one message.
    pub(super) fn reserve(&mut self, consumer: u32) -> bool {
        let is_full = self.is_full();
        if is_full {
            // All consumers of a queue ask again when one of them is to, so that one may wait already.
            if let Entry::Vacant(new) = self.waiting.entry(consumer) {
                self.waited += 1;
                new.insert(self.waited);
                self.line.insert(self.waited, consumer);
            }
        } else {
            self.reserved += 1;
        }
        !is_full
    }

    /// A message was delivered; one that needs no ack takes no room.
    pub(super) const fn deliver(&mut self, no_ack: bool) {
        // A queue that does not ask yet reserved nothing.
        self.reserved = self.reserved.saturating_sub(1);
        if !no_ack {
            self.held += 1;
        }
    }

    /// So many deliveries are done with.
    pub(super) const fn give_back(&mut self, count: u64) {
        self.held = self.held.saturating_sub(count);
    }

    /// Takes who has waited longest out of the line, if there is room.
    pub(super) fn next_waiting(&mut self) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        let (_, consumer) = self.line.pop_first()?;
        self.waiting.remove(&consumer);
        Some(consumer)
    }

    /// A consumer is gone.
    pub(super) fn forget(&mut self, consumer: u32) {
        if let Some(place) = self.waiting.remove(&consumer) {
            self.line.remove(&place);
        }
    }
}
