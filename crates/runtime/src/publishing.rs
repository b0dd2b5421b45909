//! What was published over all vhosts since the start, also those that are gone: sizes of bodies, publishers, and what
//! went through queues that were deleted.

use std::sync::atomic::{AtomicU64, Ordering};

use leveret_core::{
    arguments::QueueType,
    queue::{Counters, Deaths},
};
use parking_lot::Mutex;

use crate::traffic::TrafficCounts;

/// Upper bounds of the sizes that are told apart, in bytes.
pub const SIZE_BOUNDS: [u64; 8] = [
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    50_000_000,
    100_000_000,
];

/// How many bodies there were of each size: up to a bound and above the one before it; the last above all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Bodies.
    pub counts: [u64; SIZE_BOUNDS.len() + 1],
    /// All their bytes.
    pub bytes: u64,
}

impl Sizes {
    /// One more body.
    pub fn add(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        let at = SIZE_BOUNDS.iter().position(|bound| bytes <= *bound);
        self.counts[at.unwrap_or(SIZE_BOUNDS.len())] += 1;
        self.bytes += bytes;
    }
}

/// What becomes of messages that die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadLetterStrategy {
    /// They are gone.
    Disabled,
    /// They are published elsewhere and forgotten.
    AtMostOnce,
    /// They stay until somebody has them.
    AtLeastOnce,
}

/// Messages that died since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeathCounts {
    /// Refused by consumers.
    pub rejected: u64,
    /// Older than they may become.
    pub expired: u64,
    /// Of queues that were full.
    pub max_length: u64,
    /// Come back too often.
    pub delivery_limit: u64,
    /// Taken by other queues, of those that stay until they are.
    pub taken: u64,
}

const fn place(queue_type: QueueType) -> usize {
    match queue_type {
        QueueType::Classic => 0,
        QueueType::Quorum => 1,
        QueueType::Stream => 2,
    }
}

/// Counts of the node.
#[derive(Debug, Default)]
pub(crate) struct Publishing {
    sizes: [AtomicU64; SIZE_BOUNDS.len() + 1],
    bytes: AtomicU64,
    publishers: AtomicU64,
    /// Of deleted queues, by type: classic, quorum, stream.
    gone: Mutex<[Counters; 3]>,
    /// By type and strategy.
    deaths: Mutex<[[DeathCounts; 3]; 3]>,
    /// Of deleted vhosts.
    gone_traffic: Mutex<TrafficCounts>,
}

impl Publishing {
    pub(crate) fn add_sizes(&self, sizes: &Sizes) {
        for (counter, count) in self.sizes.iter().zip(sizes.counts) {
            if count > 0 {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        }
        self.bytes.fetch_add(sizes.bytes, Ordering::Relaxed);
    }

    pub(crate) fn sizes(&self) -> Sizes {
        let mut sizes = Sizes {
            bytes: self.bytes.load(Ordering::Relaxed),
            ..Sizes::default()
        };
        for (count, counter) in sizes.counts.iter_mut().zip(&self.sizes) {
            *count = counter.load(Ordering::Relaxed);
        }
        sizes
    }

    pub(crate) fn publisher_came(&self) {
        self.publishers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn publisher_left(&self) {
        self.publishers.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn publishers(&self) -> u64 {
        self.publishers.load(Ordering::Relaxed)
    }

    pub(crate) fn queue_gone(&self, queue_type: QueueType, counters: &Counters) {
        self.gone.lock()[place(queue_type)].add(counters);
    }

    #[cold]
    pub(crate) fn add_deaths(
        &self,
        queue_type: QueueType,
        strategy: DeadLetterStrategy,
        deaths: Deaths,
    ) {
        let counts = &mut self.deaths.lock()[place(queue_type)][strategy as usize];
        counts.rejected += u64::from(deaths.rejected);
        counts.expired += u64::from(deaths.expired);
        counts.max_length += u64::from(deaths.max_length);
        counts.delivery_limit += u64::from(deaths.delivery_limit);
        counts.taken += u64::from(deaths.taken);
    }

    pub(crate) fn deaths(
        &self,
        queue_type: QueueType,
        strategy: DeadLetterStrategy,
    ) -> DeathCounts {
        self.deaths.lock()[place(queue_type)][strategy as usize]
    }

    pub(crate) fn vhost_gone(&self, traffic: &TrafficCounts) {
        self.gone_traffic.lock().add(traffic);
    }

    pub(crate) fn gone_traffic(&self) -> TrafficCounts {
        *self.gone_traffic.lock()
    }

    pub(crate) fn gone(&self) -> [Counters; 3] {
        *self.gone.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_counts_up_to_its_bound() {
        let mut sizes = Sizes::default();
        for bytes in [0, 100, 101, 1_000, 200_000_000] {
            sizes.add(bytes);
        }
        assert_eq!(sizes.counts, [2, 2, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(sizes.bytes, 200_001_201);
    }
}
