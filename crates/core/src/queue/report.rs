//! What a queue tells whoever looks at it.

use super::{ConsumerSettings, Depth, Queue};
use crate::ids::{ConsumerId, Seq, Timestamp};

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
    /// Messages read from the store.
    pub disk_reads: u64,
    /// Messages handed to the store.
    pub disk_writes: u64,
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
        self.disk_reads += other.disk_reads;
        self.disk_writes += other.disk_writes;
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
    /// Bytes of ready messages, as the queue counts them: bodies, and properties in a quorum queue.
    pub ready_bytes: u64,
    /// Those of unacked messages.
    pub unacked_bytes: u64,
    /// Ready messages that are in memory.
    pub ready_in_memory: u64,
    /// Those that are in memory.
    pub memory_bytes: u64,
    /// Stored messages.
    pub stored: u64,
    /// Those of stored messages.
    pub stored_bytes: u64,
    /// The `timestamp` of the first ready message, if it has one and is in memory.
    pub head_timestamp_secs: Option<u64>,
    /// When the queue was last asked anything.
    pub last_active: Timestamp,
    /// When the oldest ready message came, if that is known.
    pub oldest_ready: Option<Timestamp>,
    /// When the oldest unacked message came, if that is known.
    pub oldest_unacked: Option<Timestamp>,
    /// How often a message may come back.
    pub delivery_limit: Option<u64>,
    /// Messages that are held back for a retry.
    pub retrying: u64,
    /// Ready messages that came back, to the front of a quorum queue.
    pub returned: u64,
    /// Dead messages that are not elsewhere yet.
    pub dying: u64,
    /// Their bytes.
    pub dying_bytes: u64,
    /// Segments of a stream, as far as they are known.
    pub segments: u64,
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
    /// It may be handed a message more.
    pub has_credit: bool,
}

impl Queue {
    /// What there is at this moment. Looks at every message that is unacked, or held back in memory.
    #[must_use]
    pub fn report(&self) -> Report {
        let (mut unacked_bytes, mut unacked_in_memory) = (0, 0);
        for (seq, unacked) in self.unacked.iter() {
            let bytes = self.held_bytes(seq, &unacked.held);
            unacked_bytes += bytes;
            unacked_in_memory += unacked.held.whole().map_or(0, |_| bytes);
        }
        let held_back = self.waiting();
        let held_back: u64 = held_back
            .map(|(seq, ready)| self.message_bytes(seq, &ready.message))
            .sum();
        let head = self.ready.first();
        let head = head.filter(|(spot, _)| self.cold.from().is_none_or(|cold| *spot < cold));
        let head = head.and_then(|(_, ready)| ready.message.decoded_properties().timestamp);
        Report {
            depth: self.depth(),
            consumers: self.consumer_count(),
            counters: self.counters,
            ready_bytes: self.ready_message_bytes + self.cold.message_bytes(),
            unacked_bytes,
            ready_in_memory: self.ready.len() as u64,
            memory_bytes: self.ready_message_bytes + unacked_in_memory + held_back,
            stored: self.state.messages,
            stored_bytes: self.state.message_bytes,
            head_timestamp_secs: head.map(|timestamp| timestamp.0),
            last_active: self.now,
            oldest_ready: self.oldest_ready().and_then(|seq| self.arrivals.of(seq)),
            oldest_unacked: self
                .unacked
                .keys()
                .next()
                .and_then(|seq| self.arrivals.of(seq)),
            delivery_limit: self.settings.delivery_limit,
            retrying: self.retrying(),
            returned: self.ready.keys().take_while(|spot| spot.has_turn()).count() as u64,
            dying: (self.dying.len() + self.sinking.len()) as u64,
            dying_bytes: self.dying_message_bytes,
            segments: 0,
        }
    }

    /// How many ready messages there are of each priority, as far as it is known: what is stored since a former
    /// run of a queue with priorities is known when it is read.
    #[must_use]
    pub fn ready_by_priority(&self) -> Vec<(u8, u64)> {
        let mut counts = [0_u64; 256];
        for spot in self.ready.keys() {
            counts[usize::from(spot.priority())] += 1;
        }
        for (priority, messages) in self.cold.by_priority() {
            counts[usize::from(priority)] += messages;
        }
        (0..=u8::MAX)
            .zip(counts)
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    /// The ready message that came first, wherever it stands.
    fn oldest_ready(&self) -> Option<Seq> {
        let returned = self.ready.keys().take_while(|spot| spot.has_turn());
        let in_memory = returned.chain(self.first_of_each_class());
        in_memory
            .map(|spot| spot.seq)
            .chain(self.cold.lowest())
            .min()
    }

    /// The time has moved on since the last message came.
    pub(super) fn note_arrival(&mut self, seq: Seq) {
        let oldest = self.oldest().unwrap_or(seq);
        self.arrivals.note(seq, self.now, oldest);
    }

    /// A message of a former run was read.
    pub(super) fn note_restored(&mut self, seq: Seq, at: Timestamp) {
        let oldest = self.oldest().unwrap_or(seq).min(seq);
        self.arrivals.note_restored(seq, at, oldest);
    }

    /// Nothing in the queue came before it. With priorities the first of all is not looked for: a lower bound is
    /// as good.
    fn oldest(&self) -> Option<Seq> {
        if self.settings.max_priority > 0 {
            return self.arrivals.first();
        }
        let ready = self.ready.first().map(|(spot, _)| spot.seq);
        let unacked = self.unacked.keys().next();
        ready
            .into_iter()
            .chain(unacked)
            .chain(self.cold.lowest())
            .min()
    }

    /// Every consumer.
    #[must_use]
    pub fn consumer_reports(&self) -> Vec<ConsumerReport> {
        self.consumers.reports().collect()
    }
}
