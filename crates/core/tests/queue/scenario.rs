//! One queue among surroundings that are played: publishers, consumers, store and readers.

mod store;

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Display,
};

use bytes::Bytes;
use leveret_core::{
    arguments::{QueueSettings, QueueType},
    ids::{ChannelKey, ConnectionId, ConsumerId, Handout, QueueId, Seq, Timestamp},
    message::{Life, Message, MessageParts},
    queue::{
        Answer, Command, Confirm, ConsumerSettings, DeathReason, Deaths, Depth, Effects, Found,
        Look, Outcome, Overdue, Queue, Refill, Refilled, RequestId, Transfer, UNACKED_BYTES_MAX,
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

    // Publishers.

    /// Publishes persistent messages, each with its label as the body, in one batch.
    #[track_caller]
    pub(crate) fn publish<L: Display>(&mut self, labels: impl IntoIterator<Item = L>) {
        let messages = labels
            .into_iter()
            .map(|label| persistent(&label.to_string()));
        self.publish_messages(messages.collect());
    }

    /// Publishes messages that are not to be stored.
    #[track_caller]
    pub(crate) fn publish_transient<L: Display>(&mut self, labels: impl IntoIterator<Item = L>) {
        let messages = labels
            .into_iter()
            .map(|label| transient(&label.to_string()));
        self.publish_messages(messages.collect());
    }

    /// Publishes one transient message with a body of this size.
    #[track_caller]
    pub(crate) fn publish_transient_sized(&mut self, label: &str, body_bytes: usize) {
        let body = Bytes::from(vec![b'.'; body_bytes]);
        self.publish_messages(vec![message(label, body, false)]);
    }

    /// Whether transient messages are to be stored.
    pub(crate) const fn set_memory_short(&mut self, is_short: bool) {
        self.queue.set_memory_short(is_short);
    }

    /// Bytes of ready messages that are in memory and nowhere else.
    pub(crate) const fn transient_bytes(&self) -> usize {
        self.queue.transient_bytes()
    }

    /// Publishes one persistent message with a body of zeros.
    #[track_caller]
    pub(crate) fn publish_sized(&mut self, label: &str, body_bytes: usize) {
        self.publish_messages(vec![message(label, Bytes::from(vec![0; body_bytes]), true)]);
    }

    /// Publishes persistent messages of one priority.
    #[track_caller]
    pub(crate) fn publish_with_priority<L: Display>(
        &mut self,
        priority: u8,
        labels: impl IntoIterator<Item = L>,
    ) {
        let messages = labels.into_iter().map(|label| {
            let label = label.to_string();
            Message::new(MessageParts {
                priority: Some(priority),
                ..parts(&label, Bytes::new(), true)
            })
        });
        self.publish_messages(messages.collect());
    }

    /// Publishes persistent messages that expire by themselves.
    #[track_caller]
    pub(crate) fn publish_expiring<L: Display>(
        &mut self,
        expiration_millis: u64,
        labels: impl IntoIterator<Item = L>,
    ) {
        let life = Life {
            expiration_millis: Some(expiration_millis),
            ..Life::default()
        };
        let messages = labels.into_iter().map(|label| {
            let label = label.to_string();
            Message::with_life(parts(&label, Bytes::new(), true), life)
        });
        self.publish_messages(messages.collect());
    }

    /// Dead letters come, of messages that somebody had in their old queue.
    #[track_caller]
    pub(crate) fn publish_delivered_elsewhere<L: Display>(
        &mut self,
        labels: impl IntoIterator<Item = L>,
    ) {
        let life = Life {
            has_died: true,
            was_delivered: true,
            ..Life::default()
        };
        let messages = labels.into_iter().map(|label| {
            let label = label.to_string();
            Message::with_life(parts(&label, Bytes::new(), true), life)
        });
        self.publish_messages(messages.collect());
    }

    /// Publishes one persistent message with everything it may bring.
    #[track_caller]
    pub(crate) fn publish_as(
        &mut self,
        label: &str,
        body_bytes: usize,
        priority: Option<u8>,
        expiration_millis: Option<u64>,
    ) {
        let life = Life {
            expiration_millis,
            ..Life::default()
        };
        let message = MessageParts {
            priority,
            ..parts(label, Bytes::from(vec![0; body_bytes]), true)
        };
        self.publish_messages(vec![Message::with_life(message, life)]);
    }

    /// Publishes one persistent message with headers.
    #[track_caller]
    pub(crate) fn publish_with_headers(&mut self, label: &str, headers: FieldTable) {
        let properties = BasicProperties {
            headers: Some(headers),
            ..BasicProperties::default()
        };
        let properties = properties.encode();
        let message = MessageParts {
            properties: properties.as_bytes(),
            ..parts(label, Bytes::new(), true)
        };
        self.publish_messages(vec![Message::new(message)]);
    }

    /// The places of what has died since the last look.
    pub(crate) fn take_dead(&mut self) -> Vec<(Seq, String)> {
        let dead = std::mem::take(&mut self.dead).into_iter();
        dead.filter_map(|(transfer, label)| Some((transfer.seq?, label)))
            .collect()
    }

    /// The labels of what is handed out and not settled, as far as this run knows.
    pub(crate) fn held(&self) -> Vec<String> {
        self.unacked.keys().cloned().collect()
    }

    /// Time goes on, and the queue is told if it wants to know.
    #[track_caller]
    pub(crate) fn pass(&mut self, millis: u64) {
        let end = self.now + millis;
        // It may look at every message in a read of its own, and no longer.
        let depth = self.queue.depth();
        let mut again = depth.ready + depth.unacked + 1;
        while let Some(due) = self.queue.next_due().map(Timestamp::get)
            && due <= end
        {
            self.now = self.now.max(due);
            self.together(vec![Command::Tick]);
            let next = self.queue.next_due().map(Timestamp::get);
            if next.is_some_and(|next| next <= self.now) {
                if self.effects.expired {
                    break;
                }
                assert!(again > 0, "it asks for the same time for ever: {self:#?}");
                again -= 1;
            }
        }
        self.now = end;
    }

    /// These messages have died since the last look, in this order, for this reason.
    #[track_caller]
    pub(crate) fn expect_dead<L: Display>(
        &mut self,
        reason: DeathReason,
        labels: impl IntoIterator<Item = L>,
    ) -> Vec<Transfer> {
        let expected: Vec<_> = labels
            .into_iter()
            .map(|label| (reason, label.to_string()))
            .collect();
        let dead = std::mem::take(&mut self.dead);
        let found: Vec<_> = dead
            .iter()
            .map(|(transfer, label)| (transfer.reason, label.clone()))
            .collect();
        self.expect_equal("dead", &found, &expected);
        dead.into_iter().map(|(transfer, _)| transfer).collect()
    }

    /// Whether nobody has used the queue for long enough.
    pub(crate) fn take_expired(&mut self) -> bool {
        std::mem::take(&mut self.effects.expired)
    }

    /// Somebody looks at the queue.
    pub(crate) fn touch(&mut self) {
        self.queue.touch(Timestamp::new(self.now));
    }

    #[track_caller]
    fn publish_messages(&mut self, messages: Vec<Message>) {
        let commands = messages.into_iter().map(|message| {
            self.last_confirm += 1;
            Command::Enqueue {
                message,
                confirm: Some(Confirm {
                    channel: channel(0),
                    number: self.last_confirm,
                }),
            }
        });
        let commands = commands.collect();
        self.together(commands);
    }

    // Consumers.

    /// A new consumer on a channel of its own that takes messages from now on.
    #[track_caller]
    pub(crate) fn subscribe(&mut self, settings: ConsumerSettings) -> ConsumerId {
        let consumer = self.subscribe_paused(settings);
        self.resume(consumer);
        consumer
    }

    /// A second consumer on the channel of another one.
    #[track_caller]
    pub(crate) fn subscribe_beside(
        &mut self,
        other: ConsumerId,
        settings: ConsumerSettings,
    ) -> ConsumerId {
        let consumer = ConsumerId {
            number: other.number + 1,
            ..other
        };
        let answer = self.ask_subscribe(consumer, settings);
        self.expect_equal("answer to subscribe", &answer, &Answer::Subscribed);
        self.resume(consumer);
        consumer
    }

    /// A new consumer that waits for its first [`Self::resume`].
    #[track_caller]
    pub(crate) fn subscribe_paused(&mut self, settings: ConsumerSettings) -> ConsumerId {
        let consumer = self.new_consumer();
        let answer = self.ask_subscribe(consumer, settings);
        self.expect_equal("answer to subscribe", &answer, &Answer::Subscribed);
        consumer
    }

    /// What a new consumer is answered.
    #[track_caller]
    pub(crate) fn try_subscribe(&mut self, settings: ConsumerSettings) -> Answer {
        let consumer = self.new_consumer();
        self.ask_subscribe(consumer, settings)
    }

    #[track_caller]
    pub(crate) fn ask_subscribe(
        &mut self,
        consumer: ConsumerId,
        settings: ConsumerSettings,
    ) -> Answer {
        self.announce_consumers();
        let request = self.new_request();
        self.together(vec![Command::Subscribe {
            request,
            consumer,
            settings,
        }]);
        self.take_answer(request)
    }

    #[track_caller]
    pub(crate) fn resume(&mut self, consumer: ConsumerId) {
        self.together(vec![Command::Resume { consumer }]);
    }

    #[track_caller]
    pub(crate) fn pause(&mut self, consumer: ConsumerId) {
        self.together(vec![Command::Pause { consumer }]);
    }

    /// The consumers of this one's channel share a bound, and have room for so many messages now.
    #[track_caller]
    pub(crate) fn share(&mut self, of: ConsumerId, room: u64) {
        let channel = of.channel;
        self.rooms.insert(channel, room);
        self.together(vec![Command::Share { channel }]);
    }

    /// There is room for so many messages in this consumer's channel, and the queue is told.
    #[track_caller]
    pub(crate) fn make_room(&mut self, consumer: ConsumerId, room: u64) {
        self.rooms.insert(consumer.channel, room);
        let channel = consumer.channel;
        self.together(vec![Command::AskAgain { channel }]);
    }

    #[track_caller]
    pub(crate) fn unsubscribe(&mut self, consumer: ConsumerId) {
        self.together(vec![Command::Unsubscribe { consumer }]);
    }

    #[track_caller]
    pub(crate) fn ack(&mut self, label: &str) {
        self.settle(label, Outcome::Acked);
    }

    /// Ends the delivery of this label in the given way.
    #[track_caller]
    pub(crate) fn settle(&mut self, label: &str, outcome: Outcome) {
        let command = self.settling(label, outcome);
        self.together(vec![command]);
    }

    /// Ends the deliveries of these labels in one step.
    #[track_caller]
    pub(crate) fn settle_together(&mut self, labels: &[&str], outcome: Outcome) {
        let settles = labels.iter().enumerate().map(|(number, label)| {
            let mut command = self.settling(label, outcome);
            if let Command::Settle { more, .. } = &mut command {
                *more = number + 1 < labels.len();
            }
            command
        });
        let settles = settles.collect();
        self.together(settles);
    }

    /// Acks all that is unacked, in one batch.
    #[track_caller]
    pub(crate) fn ack_all(&mut self) {
        let held = std::mem::take(&mut self.unacked).into_values();
        let acks = held.map(|(seq, handout)| Command::Settle {
            seq,
            handout,
            outcome: Outcome::Acked,
            more: false,
        });
        self.together(acks.collect());
    }

    /// The command that ends the delivery of this label.
    #[track_caller]
    pub(crate) fn settling(&self, label: &str, outcome: Outcome) -> Command {
        let Some(&(seq, handout)) = self.unacked.get(label) else {
            panic!("{label} was never handed out: {self:#?}");
        };
        Command::Settle {
            seq,
            handout,
            outcome,
            more: false,
        }
    }

    /// The channel of this consumer is closed.
    #[track_caller]
    pub(crate) fn end_channel(&mut self, of: ConsumerId) {
        self.together(vec![Command::Release {
            channel: of.channel,
            ended: true,
        }]);
    }

    /// `basic.recover` on the channel of this consumer.
    #[track_caller]
    pub(crate) fn recover_channel(&mut self, of: ConsumerId) {
        self.together(vec![Command::Release {
            channel: of.channel,
            ended: false,
        }]);
    }

    // Requests.

    /// What `basic.get` finds: its label, whether it may have been seen, and how many are left.
    #[track_caller]
    pub(crate) fn get(&mut self) -> Option<(String, bool, u64)> {
        let request = self.ask_get();
        self.take_got(request)
    }

    /// `basic.get` of a message that is gone with it.
    #[track_caller]
    pub(crate) fn get_no_ack(&mut self) -> Option<(String, bool, u64)> {
        let request = self.ask_get_on(channel(999), true);
        self.take_got(request)
    }

    /// A get that may have to wait.
    #[track_caller]
    pub(crate) fn ask_get(&mut self) -> RequestId {
        self.ask_get_on(channel(999), false)
    }

    #[track_caller]
    pub(crate) fn ask_get_on(&mut self, channel: ChannelKey, no_ack: bool) -> RequestId {
        self.announce_consumers();
        let request = self.new_request();
        self.together(vec![Command::Get {
            request,
            channel,
            no_ack,
        }]);
        request
    }

    /// The answer to [`Self::ask_get`].
    #[track_caller]
    pub(crate) fn take_got(&mut self, request: RequestId) -> Option<(String, bool, u64)> {
        match self.take_answer(request) {
            Answer::Got(got) => {
                got.map(|got| (label(&got.message), got.redelivered, got.remaining))
            }
            other => panic!("a get is answered by {other:?}: {self:#?}"),
        }
    }

    #[track_caller]
    pub(crate) fn expect_unanswered(&self, request: RequestId) {
        if let Some(answer) = self.answers.get(&request.0) {
            panic!("{request:?} should still wait, answered was {answer:?}: {self:#?}");
        }
    }

    /// Ready messages dropped.
    #[track_caller]
    pub(crate) fn purge(&mut self) -> u64 {
        let request = self.new_request();
        self.together(vec![Command::Purge { request }]);
        match self.take_answer(request) {
            Answer::Purged(ready) => ready,
            other => panic!("a purge is answered by {other:?}: {self:#?}"),
        }
    }

    /// What a delete without conditions is answered.
    #[track_caller]
    pub(crate) fn delete(&mut self) -> Answer {
        self.delete_if(false, false)
    }

    #[track_caller]
    pub(crate) fn delete_if(&mut self, if_unused: bool, if_empty: bool) -> Answer {
        let request = self.new_request();
        self.together(vec![Command::Delete {
            request,
            if_unused,
            if_empty,
        }]);
        self.take_answer(request)
    }

    pub(crate) fn new_request(&mut self) -> RequestId {
        self.last_request += 1;
        RequestId(self.last_request)
    }

    #[track_caller]
    pub(crate) fn take_answer(&mut self, request: RequestId) -> Answer {
        let answer = self.answers.remove(&request.0);
        answer.unwrap_or_else(|| panic!("{request:?} was not answered: {self:#?}"))
    }

    // The store.

    /// From now on nothing is committed before [`Self::commit`].
    pub(crate) fn hold_commits(&mut self) {
        self.commits_late = true;
    }

    /// Commits what waits for it.
    #[track_caller]
    pub(crate) fn commit(&mut self) {
        while let Some(batch) = self.batches.pop_front() {
            if let Err(wrong) = self.store.commit(&batch.writes) {
                panic!("{wrong}: {self:#?}");
            }
            let numbers = batch.promises.iter().map(|confirm| confirm.number);
            self.confirmed.extend(numbers);
            self.refills.extend(batch.refill);
        }
    }

    /// From now on no refill is answered before [`Self::answer_refill`].
    pub(crate) fn hold_reads(&mut self) {
        self.reads_late = true;
    }

    /// What the queue waits for.
    pub(crate) fn pending_refill(&self) -> Option<Refill> {
        self.refills.front().copied()
    }

    /// Reads what the queue waits for, and gives it to the queue.
    #[track_caller]
    pub(crate) fn answer_refill(&mut self) {
        let refilled = self.read_refill();
        self.together(vec![Command::Refilled(refilled)]);
    }

    /// Reads what the queue waits for.
    #[track_caller]
    pub(crate) fn read_refill(&mut self) -> Refilled {
        let Some(refill) = self.refills.pop_front() else {
            panic!("nothing is to be read: {self:#?}");
        };
        self.store.read(&refill)
    }

    pub(crate) fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    /// What somebody sees who only looks.
    pub(crate) fn look(&self, look: Look) -> Found {
        self.queue.look(look)
    }

    /// Stops and starts. Whoever was there is gone, and so is what was transient; the store commits and
    /// reads at once again.
    #[track_caller]
    pub(crate) fn restart(&mut self, stop: Stop) {
        if stop == Stop::Clean {
            self.batches.push_back(Batch {
                writes: self.queue.state_at_stop().into_iter().collect(),
                ..Batch::default()
            });
            self.commit();
        }
        let state = self.store.recover();
        self.queue = Queue::recovered(QUEUE, self.durable, state)
            .with_settings(self.settings.clone())
            .with_attempts(Timestamp::new(self.now), self.store.attempts())
            .with_unacked_bytes_max(self.unacked_bytes_max);
        self.effects = Effects::default();
        self.commits_late = false;
        self.reads_late = false;
        self.batches.clear();
        self.refills.clear();
        self.received.clear();
        self.unacked.clear();
    }

    /// Ends the run, and leaves the counters as a build would have that counted bodies only.
    #[track_caller]
    pub(crate) fn restart_after_a_build_without_properties(&mut self) {
        self.commit();
        self.store.count_bodies_only();
        self.restart(Stop::Crash);
    }

    /// Ends the run, and leaves the rows as a build would have that did not write when a message is to leave.
    #[track_caller]
    pub(crate) fn restart_after_a_build_without_times(&mut self) {
        self.commit();
        self.store.forget_times();
        self.restart(Stop::Crash);
    }

    /// Before anybody is handed anything the store knows that this will happen.
    #[track_caller]
    pub(crate) fn announce_consumers(&mut self) {
        if self.queue.has_unknown_consumers() {
            self.together(vec![Command::MarkConsumed]);
            self.commit();
        }
    }

    // Expectations.

    /// Exactly these have arrived at the consumer since the last look, none of them seen before.
    #[track_caller]
    pub(crate) fn expect_deliveries<L: Display>(
        &mut self,
        consumer: ConsumerId,
        labels: impl IntoIterator<Item = L>,
    ) {
        self.expect_received(consumer, labels, false);
    }

    /// The labels of what has arrived at the consumer since the last look.
    pub(crate) fn take_labels(&mut self, consumer: ConsumerId) -> Vec<String> {
        let received = self.received.remove(&consumer).unwrap_or_default();
        received
            .into_iter()
            .map(|received| received.label)
            .collect()
    }

    /// Exactly these have arrived at the consumer since the last look, all of them flagged.
    #[track_caller]
    pub(crate) fn expect_redeliveries<L: Display>(
        &mut self,
        consumer: ConsumerId,
        labels: impl IntoIterator<Item = L>,
    ) {
        self.expect_received(consumer, labels, true);
    }

    #[track_caller]
    fn expect_received<L: Display>(
        &mut self,
        consumer: ConsumerId,
        labels: impl IntoIterator<Item = L>,
        redelivered: bool,
    ) {
        let expected: Vec<Received> = labels
            .into_iter()
            .map(|label| Received {
                label: label.to_string(),
                redelivered,
            })
            .collect();
        let found = self.received.remove(&consumer).unwrap_or_default();
        self.expect_equal("deliveries", &found, &expected);
    }

    /// Whatever was delivered since the last look was already expected.
    #[track_caller]
    pub(crate) fn expect_nothing_more(&self) {
        self.expect_equal("further deliveries", &self.received, &BTreeMap::new());
    }

    /// The first `count` deliveries to the consumer since the last look, whatever follows.
    #[track_caller]
    pub(crate) fn expect_first_deliveries<L: Display>(
        &mut self,
        consumer: ConsumerId,
        labels: impl IntoIterator<Item = L>,
    ) {
        let expected: Vec<String> = labels.into_iter().map(|label| label.to_string()).collect();
        let mut found = self.received.remove(&consumer).unwrap_or_default();
        let later = found.split_off(expected.len().min(found.len()));
        if !later.is_empty() {
            self.received.insert(consumer, later);
        }
        let found: Vec<String> = found.into_iter().map(|received| received.label).collect();
        self.expect_equal("first deliveries", &found, &expected);
    }

    #[track_caller]
    pub(crate) fn expect_depth(&self, ready: u64, unacked: u64) {
        self.expect_equal("depth", &self.queue.depth(), &Depth { ready, unacked });
    }

    /// So many consumers `queue.declare-ok` tells.
    #[track_caller]
    pub(crate) fn expect_declared_consumers(&self, count: usize) {
        self.expect_equal(
            "declared consumers",
            &self.queue.declared_consumers(),
            &count,
        );
    }

    /// These confirms have left since the last look, for what is on disk.
    #[track_caller]
    pub(crate) fn expect_confirmed(&mut self, numbers: impl IntoIterator<Item = u64>) {
        let found = std::mem::take(&mut self.confirmed);
        self.expect_equal("confirmed", &found, &numbers.into_iter().collect());
    }

    /// These confirms have left since the last look, for what is not to be stored.
    #[track_caller]
    pub(crate) fn expect_accepted(&mut self, numbers: impl IntoIterator<Item = u64>) {
        let found = std::mem::take(&mut self.accepted);
        self.expect_equal("accepted", &found, &numbers.into_iter().collect());
    }

    /// These publishes were refused since the last look.
    #[track_caller]
    pub(crate) fn expect_rejected(&mut self, numbers: impl IntoIterator<Item = u64>) {
        let found = std::mem::take(&mut self.rejected);
        self.expect_equal("rejected", &found, &numbers.into_iter().collect());
    }

    /// The labels of what is stored.
    #[track_caller]
    pub(crate) fn expect_stored<L: Display>(&self, labels: impl IntoIterator<Item = L>) {
        let expected: Vec<String> = labels.into_iter().map(|label| label.to_string()).collect();
        let found: Vec<String> = self.store.messages().map(label).collect();
        self.expect_equal("stored", &found, &expected);
    }

    /// These consumers ended with the queue.
    #[track_caller]
    pub(crate) fn expect_cancelled(&mut self, consumers: impl IntoIterator<Item = ConsumerId>) {
        let found = std::mem::take(&mut self.cancelled);
        self.expect_equal("cancelled", &found, &consumers.into_iter().collect());
    }

    /// Whoever had messages for too long since the last look.
    pub(crate) fn take_overdue(&mut self) -> Vec<Overdue> {
        std::mem::take(&mut self.overdue)
    }

    /// The headers with which this message was handed out last.
    pub(crate) fn headers_of(&self, label: &str) -> FieldTable {
        self.headers.get(label).cloned().unwrap_or_default()
    }

    /// What was told of attempts when this message was handed out last: acquired and delivery count.
    #[track_caller]
    pub(crate) fn expect_counts(
        &self,
        label: &str,
        acquired: impl Into<Option<i64>>,
        delivery: impl Into<Option<i64>>,
    ) {
        let found = self.headers.get(label).map(counts_among);
        let expected = Some((acquired.into(), delivery.into()));
        self.expect_equal("counts", &found, &expected);
    }

    /// Whether the last consumer has left since the last look.
    pub(crate) fn take_unused(&mut self) -> bool {
        std::mem::take(&mut self.effects.unused)
    }

    /// Messages reported missing since the last look.
    pub(crate) fn take_missing(&mut self) -> u64 {
        std::mem::take(&mut self.effects.missing)
    }

    /// Messages that died since the last look, by their reasons.
    pub(crate) fn take_deaths(&mut self) -> Deaths {
        std::mem::take(&mut self.effects.deaths)
    }

    /// A policy has changed.
    pub(crate) fn set_settings(&mut self, settings: QueueSettings) {
        self.queue.set_settings(settings.clone());
        self.settings = settings;
    }

    pub(crate) const fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Messages handed to consumers and gets so far.
    pub(crate) const fn handed_out(&self) -> u64 {
        self.handed_out
    }

    #[track_caller]
    fn expect_equal<T: PartialEq + std::fmt::Debug>(&self, what: &str, found: &T, expected: &T) {
        assert!(
            found == expected,
            "{what} should be {expected:?}\nand are {found:?}\nin {self:#?}"
        );
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
