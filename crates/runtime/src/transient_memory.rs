//! How much memory the messages of all queues take that are in memory and nowhere else.

use std::{
    cmp::Ordering as Compared,
    sync::atomic::{AtomicUsize, Ordering},
};

/// The sum over all queues, told by each of them after a batch.
#[derive(Debug, Default)]
pub(crate) struct TransientMemory {
    bytes: AtomicUsize,
}

impl TransientMemory {
    /// Whether queues have more than this, and are to store what they take although it ends with the process.
    pub(crate) fn is_above(&self, bytes: u64) -> bool {
        self.bytes.load(Ordering::Relaxed) as u64 > bytes
    }

    /// One queue's share is `now` and was `before`. The sum may lag behind by a batch of each queue.
    pub(crate) fn change(&self, before: usize, now: usize) {
        match now.cmp(&before) {
            Compared::Greater => self.bytes.fetch_add(now - before, Ordering::Relaxed),
            Compared::Less => self.bytes.fetch_sub(before - now, Ordering::Relaxed),
            Compared::Equal => 0,
        };
    }
}
