//! One queue among surroundings that are played: publishers, consumers, store and readers.

mod consumers;
mod expectations;
mod publishers;
mod requests;
mod storage;
mod store;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use leveret_core::{
    arguments::{QueueSettings, QueueType},
    ids::{ChannelKey, ConnectionId, ConsumerId, Handout, QueueId, Seq, Timestamp},
    message::{Message, MessageParts},
    queue::{
        Answer, Command, Confirm, ConsumerSettings, Effects, Overdue, Queue, Refill, RequestId,
        Transfer, UNACKED_BYTES_MAX,
    },
    record::Write,
};
use leveret_wire::{
    content::{BasicProperties, RawProperties},
    value::{FieldTable, FieldValue},
};

pub(crate) use self::store::Store;

/// The queue of every scenario.
pub(crate) const QUEUE: QueueId = QueueId::new(7);

/// How a run of the broker ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The counters of the last moment are stored.
    Clean,
    /// What is not committed is lost.
    Crash,
}

/// A message that has arrived at a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Received {
    label: String,
    redelivered: bool,
}

/// One batch of commands on its way to the store.
#[derive(Debug, Default)]
struct Batch {
    writes: Vec<Write>,
    promises: Vec<Confirm>,
    refill: Option<Refill>,
}

/// A queue, who talks to it, and what came of that so far.
///
/// Every verb is one batch: commands, then everything is handed out that can be, then the effects are
/// carried out. Messages are known by their labels, which are their routing keys. Whatever breaks a
/// rule of [`Queue::check`] or of [`Store`] fails the test.
#[derive(Debug)]
pub(crate) struct QueueScenario {
    queue: Queue,
    durable: bool,
    settings: QueueSettings,
    unacked_bytes_max: usize,
    effects: Effects,
    store: Store,
    /// Not committed yet.
    batches: VecDeque<Batch>,
    commits_late: bool,
    /// Asked for and not answered yet.
    refills: VecDeque<Refill>,
    reads_late: bool,
    received: BTreeMap<ConsumerId, Vec<Received>>,
    /// Of channels whose consumers share a bound: for how many messages there is room.
    rooms: BTreeMap<ChannelKey, u64>,
    /// Places and handings out of unacked messages by label.
    unacked: BTreeMap<String, (Seq, Handout)>,
    /// Headers of what was handed out last.
    headers: BTreeMap<String, FieldTable>,
    answers: BTreeMap<u64, Answer>,
    confirmed: Vec<u64>,
    accepted: Vec<u64>,
    rejected: Vec<u64>,
    cancelled: Vec<ConsumerId>,
    overdue: Vec<Overdue>,
    last_request: u64,
    last_channel: u16,
    last_confirm: u64,
    handed_out: u64,
    now: u64,
    /// Dead messages since the last look, with their places.
    dead: Vec<(Transfer, String)>,
}

impl QueueScenario {
    /// A new durable queue; its store commits and reads at once.
    pub(crate) fn durable() -> Self {
        Self::with(QueueSettings::default())
    }

    /// A new queue that does not outlive a restart.
    pub(crate) fn transient() -> Self {
        Self::of(Queue::new(QUEUE, false), false, QueueSettings::default())
    }

    /// A new durable queue that was declared with arguments.
    pub(crate) fn with(settings: QueueSettings) -> Self {
        let queue = Queue::new(QUEUE, true).with_settings(settings.clone());
        Self::of(queue, true, settings)
    }

    fn of(queue: Queue, durable: bool, settings: QueueSettings) -> Self {
        let is_quorum = settings.queue_type == QueueType::Quorum;
        Self {
            queue,
            durable,
            settings,
            unacked_bytes_max: UNACKED_BYTES_MAX,
            effects: Effects::default(),
            store: Store::new(QUEUE, durable).of_quorum(is_quorum),
            batches: VecDeque::new(),
            commits_late: false,
            refills: VecDeque::new(),
            reads_late: false,
            received: BTreeMap::new(),
            rooms: BTreeMap::new(),
            unacked: BTreeMap::new(),
            headers: BTreeMap::new(),
            answers: BTreeMap::new(),
            confirmed: Vec::new(),
            accepted: Vec::new(),
            rejected: Vec::new(),
            cancelled: Vec::new(),
            overdue: Vec::new(),
            last_request: 0,
            last_channel: 0,
            last_confirm: 0,
            handed_out: 0,
            now: 1,
            dead: Vec::new(),
        }
    }

    /// The same with another bound on what is unacked and in memory.
    pub(crate) fn with_unacked_bytes_max(mut self, bytes: usize) -> Self {
        self.unacked_bytes_max = bytes;
        self.queue = self.queue.with_unacked_bytes_max(bytes);
        self
    }

    // The machinery.

    /// One batch: the commands, then everything is handed out that can be.
    #[track_caller]
    pub(crate) fn together(&mut self, commands: Vec<Command>) {
        let mut is_within_step = false;
        for command in commands {
            if !is_within_step && self.queue.overtakes(&command) {
                self.hand_out();
            }
            is_within_step = command.has_more();
            self.apply(command);
            if !is_within_step && self.queue.hands_out_each() {
                self.hand_out();
            }
        }
        self.finish_batch();
        while !self.reads_late && !self.refills.is_empty() {
            let refilled = self.read_refill();
            self.apply(Command::Refilled(refilled));
            self.finish_batch();
        }
    }

    #[track_caller]
    fn apply(&mut self, command: Command) {
        self.queue
            .apply(Timestamp::new(self.now), command, &mut self.effects);
        self.take_effects();
    }

    #[track_caller]
    fn hand_out(&mut self) {
        loop {
            let has_more = self.queue.hand_out(&mut self.effects);
            self.take_effects();
            if !has_more {
                break;
            }
            if let Some(consumer) = self.queue.room_wanted() {
                let room = self.rooms.get_mut(&consumer.channel);
                let has_room = match room.expect("its consumers share a bound") {
                    0 => false,
                    room => {
                        *room -= 1;
                        true
                    }
                };
                self.queue.answer_room(consumer, has_room);
            }
        }
    }

    #[track_caller]
    fn finish_batch(&mut self) {
        self.hand_out();
        self.queue.seal(&mut self.effects);
        self.check();
        self.batches.push_back(Batch {
            writes: std::mem::take(&mut self.effects.writes),
            promises: std::mem::take(&mut self.effects.promises),
            refill: self.effects.refill.take(),
        });
        if !self.commits_late {
            self.commit();
        }
    }

    #[track_caller]
    fn take_effects(&mut self) {
        let numbers = self.effects.accepted.drain(..);
        self.accepted.extend(numbers.map(|confirm| confirm.number));
        let numbers = self.effects.rejected.drain(..);
        self.rejected.extend(numbers.map(|confirm| confirm.number));
        for transfer in std::mem::take(&mut self.effects.transfers) {
            let label = label(&transfer.message);
            self.dead.push((transfer, label));
        }
        self.cancelled.append(&mut self.effects.cancelled);
        self.overdue.append(&mut self.effects.overdue);
        for (RequestId(request), answer) in std::mem::take(&mut self.effects.answers) {
            if let Answer::Got(Some(got)) = &answer {
                self.handed_out += 1;
                let label = label(&got.message);
                self.headers.insert(label.clone(), headers(&got.message));
                self.unacked.insert(label, (got.seq, got.handout));
            }
            if let Some(earlier) = self.answers.insert(request, answer) {
                panic!("request {request} was answered before, by {earlier:?}: {self:#?}");
            }
        }
        let deliveries = std::mem::take(&mut self.effects.deliveries);
        let is_known = !self.durable || self.store.state().consumed;
        assert!(
            is_known || deliveries.is_empty(),
            "handed out before the store knows of consumers: {self:#?}"
        );
        for delivery in deliveries {
            self.handed_out += 1;
            let label = label(&delivery.message);
            let held = (delivery.seq, delivery.handout);
            self.headers
                .insert(label.clone(), headers(&delivery.message));
            self.unacked.insert(label.clone(), held);
            self.received
                .entry(delivery.consumer)
                .or_default()
                .push(Received {
                    label,
                    redelivered: delivery.redelivered,
                });
        }
    }

    #[track_caller]
    fn check(&self) {
        if let Err(wrong) = self.queue.check() {
            panic!("{wrong}: {self:#?}");
        }
    }

    fn new_consumer(&mut self) -> ConsumerId {
        self.last_channel += 1;
        ConsumerId {
            channel: channel(self.last_channel),
            number: 1,
        }
    }
}

/// A channel on a connection of its own.
pub(crate) const fn channel(number: u16) -> ChannelKey {
    ChannelKey {
        connection: ConnectionId::new(number as u64),
        channel: 1,
        opening: 1,
    }
}

/// A consumer that may hold this many unacked messages; 0 for any number.
pub(crate) fn prefetch(prefetch: u16) -> ConsumerSettings {
    ConsumerSettings {
        prefetch,
        ..ConsumerSettings::default()
    }
}

/// A consumer whose messages are gone once handed out.
pub(crate) fn no_ack() -> ConsumerSettings {
    ConsumerSettings {
        no_ack: true,
        ..ConsumerSettings::default()
    }
}

/// A consumer that wants the queue for itself.
pub(crate) fn exclusive() -> ConsumerSettings {
    ConsumerSettings {
        exclusive: true,
        ..ConsumerSettings::default()
    }
}

/// A message to be stored in durable queues.
pub(crate) fn persistent(label: &str) -> Message {
    message(label, Bytes::copy_from_slice(label.as_bytes()), true)
}

/// A message that is never stored.
pub(crate) fn transient(label: &str) -> Message {
    message(label, Bytes::copy_from_slice(label.as_bytes()), false)
}

/// A message that is known by its routing key.
pub(crate) fn message(label: &str, body: Bytes, persistent: bool) -> Message {
    Message::new(parts(label, body, persistent))
}

fn parts(label: &str, body: Bytes, persistent: bool) -> MessageParts<'_> {
    MessageParts {
        exchange: b"",
        routing_key: label.as_bytes(),
        properties: &[0, 0],
        body,
        persistent,
        priority: None,
    }
}

/// What a message's headers tell of attempts: acquired and delivery count.
pub(crate) fn counts(message: &Message) -> (Option<i64>, Option<i64>) {
    counts_among(&headers(message))
}

/// A message's headers.
fn headers(message: &Message) -> FieldTable {
    let raw = RawProperties::from_wire(Bytes::copy_from_slice(message.properties()));
    let properties = raw.ok().and_then(|raw| BasicProperties::decode(&raw).ok());
    let headers = properties.and_then(|properties| properties.headers);
    headers.unwrap_or_default()
}

fn counts_among(headers: &FieldTable) -> (Option<i64>, Option<i64>) {
    let count = |key: &[u8]| headers.get(key).and_then(FieldValue::as_integer);
    (count(b"x-acquired-count"), count(b"x-delivery-count"))
}

/// The label of a message.
pub(crate) fn label(message: &Message) -> String {
    String::from_utf8_lossy(message.routing_key()).into_owned()
}
