//! How much memory the messages of all queues take that are in memory and nowhere else.

use std::{
    cmp::Ordering as Compared,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Above this, queues store what they take although it ends with the process.
pub(crate) const TRANSIENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The sum over all queues, told by each of them after a batch.
#[derive(Debug, Default)]
pub(crate) struct TransientMemory {
    bytes: AtomicUsize,
}

impl TransientMemory {
    /// Whether queues are to keep less.
    pub(crate) fn is_short(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > TRANSIENT_BYTES_MAX
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
