//! What the threads of a run tell each other: counts upwards, when to begin and when to stop downwards.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// "Not yet", for a moment.
const NEVER: u64 = u64::MAX;

/// Shared by all threads of one run. Threads add once per batch, not once per message.
///
/// Nothing here guards other memory, so every access is relaxed.
#[derive(Debug)]
pub(crate) struct Board {
    published: AtomicU64,
    confirmed: AtomicU64,
    nacked: AtomicU64,
    returned: AtomicU64,
    delivered: AtomicU64,
    empty_gets: AtomicU64,
    finished_producers: AtomicU64,
    last_delivery_nanos: AtomicU64,
    measure_from_nanos: AtomicU64,
    measure_to_nanos: AtomicU64,
    is_publishing: AtomicBool,
    is_running: AtomicBool,
}

/// The counts at one moment, or between two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) published: u64,
    pub(crate) confirmed: u64,
    pub(crate) nacked: u64,
    pub(crate) returned: u64,
    pub(crate) delivered: u64,
    pub(crate) empty_gets: u64,
}

impl Counts {
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            published: self.published - before.published,
            confirmed: self.confirmed - before.confirmed,
            nacked: self.nacked - before.nacked,
            returned: self.returned - before.returned,
            delivered: self.delivered - before.delivered,
            empty_gets: self.empty_gets - before.empty_gets,
        }
    }
}

impl Board {
    pub(crate) fn new() -> Self {
        Self {
            published: AtomicU64::new(0),
            confirmed: AtomicU64::new(0),
            nacked: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            empty_gets: AtomicU64::new(0),
            finished_producers: AtomicU64::new(0),
            last_delivery_nanos: AtomicU64::new(0),
            measure_from_nanos: AtomicU64::new(NEVER),
            measure_to_nanos: AtomicU64::new(NEVER),
            is_publishing: AtomicBool::new(true),
            is_running: AtomicBool::new(true),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            published: self.published.load(Relaxed),
            confirmed: self.confirmed.load(Relaxed),
            nacked: self.nacked.load(Relaxed),
            returned: self.returned.load(Relaxed),
            delivered: self.delivered.load(Relaxed),
            empty_gets: self.empty_gets.load(Relaxed),
        }
    }

    pub(crate) fn add_published(&self, count: u64) {
        self.published.fetch_add(count, Relaxed);
    }

    pub(crate) fn add_confirmed(&self, count: u64) {
        self.confirmed.fetch_add(count, Relaxed);
    }

    pub(crate) fn add_nacked(&self, count: u64) {
        self.nacked.fetch_add(count, Relaxed);
    }

    pub(crate) fn add_returned(&self, count: u64) {
        self.returned.fetch_add(count, Relaxed);
    }

    pub(crate) fn add_empty_get(&self) {
        self.empty_gets.fetch_add(1, Relaxed);
    }

    pub(crate) fn add_delivered(&self, count: u64, now_nanos: u64) {
        self.delivered.fetch_add(count, Relaxed);
        self.last_delivery_nanos.fetch_max(now_nanos, Relaxed);
    }

    pub(crate) fn last_delivery_nanos(&self) -> u64 {
        self.last_delivery_nanos.load(Relaxed)
    }

    pub(crate) fn add_finished_producer(&self) {
        self.finished_producers.fetch_add(1, Relaxed);
    }

    pub(crate) fn finished_producers(&self) -> u64 {
        self.finished_producers.load(Relaxed)
    }

    pub(crate) fn begin_measuring(&self, now_nanos: u64) {
        self.measure_from_nanos.store(now_nanos, Relaxed);
    }

    pub(crate) fn end_measuring(&self, now_nanos: u64) {
        self.measure_to_nanos.store(now_nanos, Relaxed);
    }

    pub(crate) fn is_measuring(&self) -> bool {
        self.measure_from_nanos.load(Relaxed) != NEVER
    }

    /// The messages whose latency counts: those that were to be sent in this time, whenever they arrive.
    pub(crate) fn measured_nanos(&self) -> std::ops::Range<u64> {
        self.measure_from_nanos.load(Relaxed)..self.measure_to_nanos.load(Relaxed)
    }

    pub(crate) fn stop_publishing(&self) {
        self.is_publishing.store(false, Relaxed);
    }

    pub(crate) fn is_publishing(&self) -> bool {
        self.is_publishing.load(Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.is_running.store(false, Relaxed);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.is_running.load(Relaxed)
    }
}
