//! Transient messages go to the disk while memory is short, and end with the process all the same.
//!
//! The surroundings say when memory is short ([`Queue::set_memory_short`]). From then on what the queue
//! takes is stored like any other message, but promises nothing and is not counted in the stored
//! counters: a row in a durable queue without the persistent mark, or in a queue that is not durable.
//! After a start such rows are leftovers. Those of a durable queue are forgotten as they are met among
//! the others, and behind the last of the others all at once; a queue that does not outlive the process
//! has its rows freed by the store at the next start.
//!
//! A queue with priorities keeps in memory what it takes, and so does not spill.

use super::{Effects, Queue, Ready, WINDOW_BYTES_MAX};
use crate::{
    arguments::QueueType,
    ids::Seq,
    message::Message,
    record::{MetaChange, QueueState, Write},
};

/// What a message in memory takes beside its bytes: its entry, its place, the allocator's share.
const ENTRY_BYTES: usize = 160;

/// Rows that end with the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Spilled {
    pub(super) messages: u64,
    pub(super) message_bytes: u64,
}

impl Spilled {
    pub(super) const fn add(&mut self, message_bytes: u64) {
        self.messages += 1;
        self.message_bytes += message_bytes;
    }

    pub(super) const fn add_all(&mut self, spilled: Self) {
        self.messages += spilled.messages;
        self.message_bytes += spilled.message_bytes;
    }

    pub(super) const fn remove(&mut self, spilled: Self) {
        self.messages -= spilled.messages;
        self.message_bytes -= spilled.message_bytes;
    }
}

/// What a message that is in memory only costs there.
pub(super) fn memory_of(ready: &Ready) -> usize {
    if ready.stored {
        return 0;
    }
    ready.message.memory_bytes() + ENTRY_BYTES
}

impl Queue {
    /// Whether transient messages are to be stored from now on. Above a small share of its own the queue
    /// then keeps no more of them in memory.
    pub const fn set_memory_short(&mut self, is_short: bool) {
        self.is_memory_short = is_short;
    }

    /// Bytes of ready messages that are in memory and nowhere else.
    #[must_use]
    pub const fn transient_bytes(&self) -> usize {
        self.transient_bytes
    }

    /// Whether the message outlives the process in this queue.
    pub(super) fn keeps(&self, message: &Message) -> bool {
        let keeps_all = self.settings.queue_type == QueueType::Quorum;
        self.durable && (keeps_all || message.is_persistent())
    }

    pub(super) const fn must_spill(&self) -> bool {
        self.is_memory_short
            && self.settings.max_priority == 0
            && self.transient_bytes >= WINDOW_BYTES_MAX
    }

    /// A message that is not kept will be stored.
    pub(super) fn count_spilled(&mut self, message_bytes: u64, effects: &mut Effects) {
        self.spilled.add(message_bytes);
        if !self.durable && !self.is_known_to_store {
            self.is_known_to_store = true;
            effects
                .writes
                .push(Write::Meta(MetaChange::FreeAtStart(self.id)));
        }
    }

    /// The counters to be stored: of what is kept, and whether there is anything else.
    pub(super) fn stored_state(&self) -> QueueState {
        QueueState {
            head: self.head(),
            messages: self.state.messages - self.spilled.messages,
            message_bytes: self.state.message_bytes - self.spilled.message_bytes,
            spilled: self.spilled.messages > 0 || self.has_leftovers,
            ..self.state
        }
    }

    /// Whether a row that was read is one that should have ended with a former process.
    pub(super) fn is_leftover(&self, seq: Seq, message: &Message) -> bool {
        seq < self.restored_until && !self.keeps(message)
    }

    /// Forgets what a former process left behind, once nothing else is in the same range.
    pub(super) fn forget_leftovers(&mut self, effects: &mut Effects) {
        if self.has_leftovers && self.cold.is_empty() && !self.is_deleted {
            self.has_leftovers = false;
            self.is_state_stale = true;
            self.forget_range(0, self.cold.start(), self.restored_until, effects);
        }
    }
}
