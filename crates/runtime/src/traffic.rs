//! What clients published into a vhost since the start: what no single queue sees.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one vhost. Connections add to them once per read.
#[derive(Debug, Default)]
pub struct Traffic {
    publish: AtomicU64,
    confirm: AtomicU64,
    drop_unroutable: AtomicU64,
    return_unroutable: AtomicU64,
}

/// The same as plain numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrafficCounts {
    /// Publishes that were taken, each once, wherever they went.
    pub publish: u64,
    /// Publishes that were confirmed.
    pub confirm: u64,
    /// Publishes that no queue wanted, and nobody wanted back.
    pub drop_unroutable: u64,
    /// Publishes that no queue wanted, and that went back.
    pub return_unroutable: u64,
}

impl Traffic {
    /// Adds what happened.
    pub fn add(&self, counts: &TrafficCounts) {
        self.publish.fetch_add(counts.publish, Ordering::Relaxed);
        self.confirm.fetch_add(counts.confirm, Ordering::Relaxed);
        self.drop_unroutable
            .fetch_add(counts.drop_unroutable, Ordering::Relaxed);
        self.return_unroutable
            .fetch_add(counts.return_unroutable, Ordering::Relaxed);
    }

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> TrafficCounts {
        TrafficCounts {
            publish: self.publish.load(Ordering::Relaxed),
            confirm: self.confirm.load(Ordering::Relaxed),
            drop_unroutable: self.drop_unroutable.load(Ordering::Relaxed),
            return_unroutable: self.return_unroutable.load(Ordering::Relaxed),
        }
    }
}

impl TrafficCounts {
    /// Adds those of another vhost.
    pub const fn add(&mut self, other: &Self) {
        self.publish += other.publish;
        self.confirm += other.confirm;
        self.drop_unroutable += other.drop_unroutable;
        self.return_unroutable += other.return_unroutable;
    }
}
