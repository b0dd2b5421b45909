//! What clients published into a vhost, and into each exchange, since the start: what no single queue sees.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use leveret_core::vhost::Vhost;
use leveret_wire::value::ShortString;
use parking_lot::Mutex;

/// Exchanges that are counted although they are gone, before somebody looks which these are.
const FORGOTTEN_MIN: usize = 64;

/// Counts of one vhost. Connections add to them once per read.
#[derive(Debug, Default)]
pub struct Traffic {
    publish: AtomicU64,
    confirm: AtomicU64,
    drop_unroutable: AtomicU64,
    return_unroutable: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
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

    /// A connection of the vhost read so many bytes.
    pub fn add_received(&self, bytes: u64) {
        self.received_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A connection of the vhost wrote so many bytes.
    pub fn add_sent(&self, bytes: u64) {
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that were read and written.
    #[must_use]
    pub fn octets(&self) -> (u64, u64) {
        (
            self.received_bytes.load(Ordering::Relaxed),
            self.sent_bytes.load(Ordering::Relaxed),
        )
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

/// Counts of one exchange.
#[derive(Debug, Default)]
pub struct ExchangeTraffic {
    publish_in: AtomicU64,
    publish_out: AtomicU64,
    confirm: AtomicU64,
    drop_unroutable: AtomicU64,
    return_unroutable: AtomicU64,
}

/// The same as plain numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExchangeCounts {
    /// Publishes to it.
    pub publish_in: u64,
    /// How often they went on to a queue.
    pub publish_out: u64,
    /// Of the publishes, those whose publisher waits for a confirm.
    pub confirm: u64,
    /// Publishes that no queue wanted, and nobody wanted back.
    pub drop_unroutable: u64,
    /// Publishes that no queue wanted, and that went back.
    pub return_unroutable: u64,
}

impl ExchangeTraffic {
    /// Adds what happened.
    pub fn add(&self, counts: &ExchangeCounts) {
        for (total, count) in [
            (&self.publish_in, counts.publish_in),
            (&self.publish_out, counts.publish_out),
            (&self.confirm, counts.confirm),
            (&self.drop_unroutable, counts.drop_unroutable),
            (&self.return_unroutable, counts.return_unroutable),
        ] {
            if count > 0 {
                total.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> ExchangeCounts {
        ExchangeCounts {
            publish_in: self.publish_in.load(Ordering::Relaxed),
            publish_out: self.publish_out.load(Ordering::Relaxed),
            confirm: self.confirm.load(Ordering::Relaxed),
            drop_unroutable: self.drop_unroutable.load(Ordering::Relaxed),
            return_unroutable: self.return_unroutable.load(Ordering::Relaxed),
        }
    }
}

/// The counts of a vhost's exchanges: of those that something was published to.
#[derive(Debug, Default)]
pub(crate) struct ExchangeTraffics {
    by_name: Mutex<HashMap<ShortString, Arc<ExchangeTraffic>>>,
}

impl ExchangeTraffics {
    /// The counts of an exchange of this name; `vhost` tells which there are.
    pub(crate) fn of(&self, name: &ShortString, vhost: &Vhost) -> Arc<ExchangeTraffic> {
        let mut by_name = self.by_name.lock();
        if let Some(known) = by_name.get(name) {
            return known.clone();
        }
        if by_name.len() > FORGOTTEN_MIN + 2 * vhost.exchanges().count() {
            by_name.retain(|name, _| vhost.exchange(name).is_ok());
        }
        by_name.entry(name.detach()).or_default().clone()
    }

    /// What is known of an exchange.
    pub(crate) fn counts(&self, name: &ShortString) -> Option<ExchangeCounts> {
        self.by_name.lock().get(name).map(|known| known.counts())
    }

    /// The exchange is gone; a later one of the name begins at nothing.
    pub(crate) fn forget(&self, name: &ShortString) {
        self.by_name.lock().remove(name);
    }
}
