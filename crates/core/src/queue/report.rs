//! What a queue tells whoever looks at it.

use super::{ConsumerSettings, Depth, Queue};
use crate::ids::{ConsumerId, Timestamp};

/// What went through a queue since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages that came.
    pub publish: u64,
    /// Messages handed to consumers that ack.
    pub deliver: u64,
    /// Messages handed to consumers that do not.
    pub deliver_no_ack: u64,
    /// Messages got and to be acked.
    pub get: u64,
    /// Messages got for good.
    pub get_no_ack: u64,
    /// Gets that found nothing.
    pub get_empty: u64,
    /// Of the messages handed out, those that somebody may have had before.
    pub redeliver: u64,
    /// Acks.
    pub ack: u64,
}

impl Counters {
    /// Adds those of another queue.
    pub const fn add(&mut self, other: &Self) {
        self.publish += other.publish;
        self.deliver += other.deliver;
        self.deliver_no_ack += other.deliver_no_ack;
        self.get += other.get;
        self.get_no_ack += other.get_no_ack;
        self.get_empty += other.get_empty;
        self.redeliver += other.redeliver;
        self.ack += other.ack;
    }
}

/// A queue at one moment, exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Ready and unacked messages.
    pub depth: Depth,
    /// Consumers.
    pub consumers: usize,
    /// What went through it.
    pub counters: Counters,
    /// Body bytes of ready messages.
    pub ready_bytes: u64,
    /// Body bytes of unacked messages.
    pub unacked_bytes: u64,
    /// Ready messages that are in memory.
    pub ready_in_memory: u64,
    /// Body bytes that are in memory.
    pub memory_bytes: u64,
    /// Stored messages.
    pub stored: u64,
    /// Body bytes of stored messages.
    pub stored_bytes: u64,
    /// The `timestamp` of the first ready message, if it has one and is in memory.
    pub head_timestamp_secs: Option<u64>,
    /// When the queue was last asked anything.
    pub last_active: Timestamp,
}

/// One consumer of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerReport {
    /// The consumer.
    pub id: ConsumerId,
    /// How it wants its messages.
    pub settings: ConsumerSettings,
    /// It is served: it does not wait behind the single active consumer.
    pub is_active: bool,
}

impl Queue {
    /// What there is at this moment. Looks at every unacked message.
    #[must_use]
    pub fn report(&self) -> Report {
        let unacked = self.unacked.values();
        let unacked_bytes = unacked
            .map(|unacked| unacked.ready.message.body().len() as u64)
            .sum();
        let head = self.ready.first_key_value();
        let head = head.and_then(|(_, ready)| ready.message.decoded_properties().timestamp);
        Report {
            depth: self.depth(),
            consumers: self.consumer_count(),
            counters: self.counters,
            ready_bytes: self.ready_body_bytes + self.cold.body_bytes(),
            unacked_bytes,
            ready_in_memory: self.ready.len() as u64,
            memory_bytes: self.ready_body_bytes + unacked_bytes,
            stored: self.state.messages,
            stored_bytes: self.state.body_bytes,
            head_timestamp_secs: head.map(|timestamp| timestamp.0),
            last_active: self.now,
        }
    }

    /// Every consumer.
    #[must_use]
    pub fn consumer_reports(&self) -> Vec<ConsumerReport> {
        self.consumers.reports().collect()
    }
}
