//! The newest messages, for readers at the end of the log.

use std::collections::VecDeque;

use super::{TAIL_BYTES_MAX, TAIL_ROWS_MAX};
use crate::{ids::Seq, message::Message};

/// Messages without a gap up to the end of the log; none while nobody reads.
#[derive(Debug)]
pub(super) struct Tail {
    from: Seq,
    messages: VecDeque<Message>,
    bytes: usize,
}

impl Tail {
    pub(super) const fn starting_at(from: Seq) -> Self {
        Self {
            from,
            messages: VecDeque::new(),
            bytes: 0,
        }
    }

    pub(super) const fn from(&self) -> Seq {
        self.from
    }

    pub(super) fn until(&self) -> Seq {
        Seq::new(self.from.get() + self.messages.len() as u64)
    }

    pub(super) fn rows(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn get(&self, at: Seq) -> Option<&Message> {
        let place = at.get().checked_sub(self.from.get())?;
        self.messages.get(usize::try_from(place).ok()?)
    }

    /// The next message of the log; older ones make room.
    pub(super) fn push(&mut self, message: Message) {
        self.bytes += message.memory_bytes();
        self.messages.push_back(message);
        while self.messages.len() > TAIL_ROWS_MAX
            || (self.bytes > TAIL_BYTES_MAX && self.messages.len() > 1)
        {
            self.pop();
        }
    }

    /// A message that is not kept: nobody reads.
    pub(super) fn pass(&mut self) {
        debug_assert!(self.messages.is_empty(), "else there would be a gap");
        self.from = self.from.next();
    }

    /// The log begins here now.
    pub(super) fn trim_to(&mut self, head: Seq) {
        while self.from < head && !self.messages.is_empty() {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some(message) = self.messages.pop_front() {
            self.bytes -= message.memory_bytes();
            self.from = self.from.next();
        }
    }
}
