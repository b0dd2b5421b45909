//! Random commands, judged by a plain list of messages; and a second queue that must say the same.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use leveret_core::{
    arguments::{AttemptCounting, QueueSettings, QueueType},
    ids::{ChannelKey, ConsumerId, Handout, Seq, Timestamp},
    message::{Message, MessageParts},
    queue::{
        Answer, Command, Confirm, ConsumerSettings, Deaths, Depth, Effects, Outcome, Queue, Refill,
        Refilled, RequestId, WINDOW_BYTES_MAX, WINDOW_ROWS_MAX,
    },
    record::{Attempts, Write},
};
use leveret_wire::value::{FieldTable, FieldValue};
use proptest::{prelude::*, sample::Index};

use crate::scenario::{QUEUE, Stop, Store, channel, counts, label, no_ack};

/// Large enough that a handful of messages fills the window.
static ZEROS: [u8; 500_000] = [0; 500_000];

#[derive(Debug, Clone)]
enum Step {
    Publish {
        persistent: bool,
        body_bytes: usize,
        priority: Option<u8>,
    },
    Subscribe {
        channel: u16,
        settings: ConsumerSettings,
    },
    Resume(Index),
    Pause(Index),
    Unsubscribe(Index),
    /// The consumers of the channel share a bound, or none any more.
    Share {
        channel: u16,
        max: Option<u64>,
    },
    Get {
        channel: u16,
        no_ack: bool,
    },
    Settle(Index, Outcome),
    SettleAnything(u64, u32, Outcome),
    /// A delivery whose message came back long ago.
    SettleLate(Index, Outcome),
    Release {
        channel: u16,
        ended: bool,
    },
    Purge,
    Delete {
        if_unused: bool,
        if_empty: bool,
    },
    /// Hands out, seals, and sends the batch to the store.
    EndBatch,
    /// The oldest batch reaches the store.
    Commit,
    /// What was asked for is read, but not given back yet.
    Read,
    /// At most so many rows come back; with or without a word where to go on behind the last one.
    GiveBack {
        rows_max: usize,
        says_more: bool,
    },
    Restart(Stop),
    MemoryShort(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![
        4 => Just(Outcome::Acked),
        3 => Just(Outcome::Returned),
        2 => Just(Outcome::Failed),
        1 => Just(Outcome::Rejected),
        1 => Just(Outcome::Discarded),
    ];
    let settings = (
        0..4_u16,
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.1),
        0..3_i64,
    )
        .prop_map(|(prefetch, no_ack, exclusive, priority)| ConsumerSettings {
            prefetch,
            no_ack,
            exclusive,
            priority,
            ..ConsumerSettings::default()
        });
    let body_bytes = prop_oneof![
        2 => 0..100_usize,
        1 => Just(4096),
        3 => 100_000..500_000_usize,
    ];
    prop_oneof![
        20 => (prop::bool::weighted(0.75), body_bytes, prop::option::weighted(0.3, 0..7_u8))
            .prop_map(|(persistent, body_bytes, priority)| Step::Publish {
                persistent,
                body_bytes,
                priority,
            }),
        4 => (0..3_u16, settings)
            .prop_map(|(channel, settings)| Step::Subscribe { channel, settings }),
        6 => any::<Index>().prop_map(Step::Resume),
        1 => any::<Index>().prop_map(Step::Pause),
        1 => any::<Index>().prop_map(Step::Unsubscribe),
        1 => (0..3_u16, prop::option::weighted(0.8, 1..4_u64))
            .prop_map(|(channel, max)| Step::Share { channel, max }),
        4 => (0..3_u16, any::<bool>()).prop_map(|(channel, no_ack)| Step::Get { channel, no_ack }),
        14 => (any::<Index>(), outcome.clone()).prop_map(|(index, how)| Step::Settle(index, how)),
        1 => (0..60_u64, 0..60_u32, outcome.clone())
            .prop_map(|(seq, handout, how)| Step::SettleAnything(seq, handout, how)),
        2 => (any::<Index>(), outcome).prop_map(|(index, how)| Step::SettleLate(index, how)),
        1 => (0..3_u16, prop::bool::weighted(0.6))
            .prop_map(|(channel, ended)| Step::Release { channel, ended }),
        1 => Just(Step::Purge),
        1 => (any::<bool>(), any::<bool>(), prop::bool::weighted(0.1)).prop_map(
            |(if_unused, if_empty, really)| Step::Delete {
                if_unused: if_unused || !really,
                if_empty: if_empty || !really,
            }
        ),
        14 => Just(Step::EndBatch),
        14 => Just(Step::Commit),
        10 => Just(Step::Read),
        10 => (1..6_usize, any::<bool>())
            .prop_map(|(rows_max, says_more)| Step::GiveBack { rows_max, says_more }),
        1 => prop_oneof![Just(Stop::Clean), Just(Stop::Crash)].prop_map(Step::Restart),
        2 => prop::bool::weighted(0.7).prop_map(Step::MemoryShort),
    ]
}

/// What is unacked is on disk only, or some of it, or all of it is in memory.
fn unacked_bytes_max() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0), Just(600_000), Just(usize::MAX)]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Ready,
    HeldBy(ConsumerId),
    GotBy(ChannelKey),
}

/// One message of the model; it leaves the list when it is gone.
#[derive(Debug)]
struct Entry {
    number: u64,
    priority: u8,
    held: Option<(Seq, Handout)>,
    /// It came back to the front.
    has_turn: bool,
    attempts: Attempts,
    is_stored: bool,
    is_flagged: bool,
    place: Place,
}

#[derive(Debug)]
struct ModelConsumer {
    settings: ConsumerSettings,
    is_paused: bool,
    /// Its channel had no room.
    waits_for_room: bool,
}

/// What a command must be answered, or that it may wait.
#[derive(Debug)]
enum Request {
    AtOnce(Answer),
    Get { channel: ChannelKey, no_ack: bool },
}

#[derive(Debug, Default)]
struct Batch {
    writes: Vec<Write>,
    promises: Vec<Confirm>,
    refill: Option<Refill>,
}

/// The queue, its twin, what they are expected to be, and everything around them.
#[derive(Debug)]
struct World {
    durable: bool,
    settings: QueueSettings,
    unacked_bytes_max: usize,
    queue: Queue,
    twin: Queue,
    effects: Effects,
    twin_effects: Effects,
    now: u64,

    /// In the order of the queue.
    messages: Vec<Entry>,
    consumers: BTreeMap<ConsumerId, ModelConsumer>,
    /// What the consumers of channels may hold together.
    rooms: BTreeMap<ChannelKey, Option<u64>>,
    is_deleted: bool,
    /// Numbers of messages that were handed to anybody, in any run.
    seen: BTreeSet<u64>,
    /// Numbers of messages that a restart had to flag.
    flagged: BTreeSet<u64>,
    /// Numbers of messages that are promised to be stored.
    confirmed: BTreeSet<u64>,
    /// Handings out of messages that came back.
    late: Vec<(Seq, Handout)>,
    requests: BTreeMap<u64, Request>,
    cancelled: Vec<ConsumerId>,
    unused: bool,

    store: Store,
    batches: VecDeque<Batch>,
    refill: Option<Refill>,
    read: Option<Refilled>,

    has_restarted: bool,
    last_message: u64,
    last_request: u64,
    last_consumer: u32,
}

impl World {
    fn new(durable: bool, settings: QueueSettings, unacked_bytes_max: usize) -> Self {
        let queue = || {
            Queue::new(QUEUE, durable)
                .with_settings(settings.clone())
                .with_unacked_bytes_max(unacked_bytes_max)
        };
        let is_quorum = settings.queue_type == QueueType::Quorum;
        Self {
            durable,
            queue: queue(),
            twin: queue(),
            settings,
            unacked_bytes_max,
            effects: Effects::default(),
            twin_effects: Effects::default(),
            now: 0,
            messages: Vec::new(),
            consumers: BTreeMap::new(),
            rooms: BTreeMap::new(),
            is_deleted: false,
            seen: BTreeSet::new(),
            flagged: BTreeSet::new(),
            confirmed: BTreeSet::new(),
            late: Vec::new(),
            requests: BTreeMap::new(),
            cancelled: Vec::new(),
            unused: false,
            store: Store::new(QUEUE, durable).of_quorum(is_quorum),
            batches: VecDeque::new(),
            refill: None,
            read: None,
            has_restarted: false,
            last_message: 0,
            last_request: 0,
            last_consumer: 0,
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Publish {
                persistent,
                body_bytes,
                priority,
            } => self.publish(persistent, body_bytes, priority),
            Step::Subscribe { channel, settings } => {
                self.subscribe(channel, settings);
            }
            Step::Resume(index) => {
                if let Some(consumer) = self.pick_consumer(&index) {
                    self.set_paused(consumer, false);
                }
            }
            Step::Pause(index) => {
                if let Some(consumer) = self.pick_consumer(&index) {
                    self.set_paused(consumer, true);
                }
            }
            Step::Unsubscribe(index) => {
                if let Some(consumer) = self.pick_consumer(&index) {
                    self.unsubscribe(consumer);
                }
            }
            Step::Share {
                channel: number,
                max,
            } => {
                let channel = channel(number);
                self.rooms.insert(channel, max);
                self.apply(Command::Share { channel });
            }
            Step::Get {
                channel: number,
                no_ack,
            } => self.get(channel(number), no_ack),
            Step::Settle(index, outcome) => self.settle_one(&index, outcome),
            Step::SettleAnything(seq, handout, outcome) => {
                self.settle((Seq::new(seq), Handout::new(handout)), outcome);
            }
            Step::SettleLate(index, outcome) => {
                if !self.late.is_empty() {
                    self.settle(*index.get(&self.late), outcome);
                }
            }
            Step::Release {
                channel: number,
                ended,
            } => self.release(channel(number), ended),
            Step::Purge => self.purge(),
            Step::Delete {
                if_unused,
                if_empty,
            } => self.delete(if_unused, if_empty),
            Step::EndBatch => self.end_batch(),
            Step::Commit => self.commit(),
            Step::Read => self.read(),
            Step::GiveBack {
                rows_max,
                says_more,
            } => self.give_back(rows_max, says_more),
            Step::Restart(stop) => self.restart(stop),
            Step::MemoryShort(is_short) => {
                self.queue.set_memory_short(is_short);
                self.twin.set_memory_short(is_short);
            }
        }
    }

    const fn is_quorum(&self) -> bool {
        matches!(self.settings.queue_type, QueueType::Quorum)
    }

    /// The priority that counts here.
    fn effective(&self, priority: Option<u8>) -> u8 {
        let priority = priority.unwrap_or(self.settings.default_priority);
        priority.min(self.settings.max_priority)
    }

    /// Puts a message that is ready into its place.
    fn insert(&mut self, entry: Entry) {
        let stands_behind = |other: &Entry| {
            if other.place != Place::Ready {
                return false;
            }
            let is_turned = other.has_turn;
            let is_lower = other.priority < entry.priority;
            let is_later = other.priority == entry.priority && other.number > entry.number;
            if entry.has_turn {
                !is_turned
            } else {
                !is_turned && (is_lower || is_later)
            }
        };
        let at = self.messages.iter().position(stands_behind);
        let at = at.unwrap_or(self.messages.len());
        self.messages.insert(at, entry);
    }

    /// A message was handed out and is not done with.
    fn come_back(&mut self, at: usize, is_failure: bool) {
        let mut entry = self.messages.remove(at);
        self.late.extend(entry.held.take());
        if let Some(counting) = self.settings.attempt_counting {
            let counts = is_failure || counting == AttemptCounting::All;
            let mut attempts = entry.attempts;
            attempts.all += 1;
            attempts.failed += u32::from(is_failure);
            let counted = counting.counted(attempts);
            let limit = self.settings.delivery_limit.unwrap_or(u64::MAX);
            if counts && u64::from(counted) > limit {
                return;
            }
            entry.attempts = attempts;
        }
        entry.place = Place::Ready;
        entry.is_flagged = true;
        entry.has_turn = self.is_quorum();
        self.insert(entry);
    }

    fn publish(&mut self, persistent: bool, body_bytes: usize, priority: Option<u8>) {
        self.last_message += 1;
        let number = self.last_message;
        let body = Bytes::from_static(&ZEROS[..body_bytes]);
        let persists = persistent || self.is_quorum();
        let is_stored = self.durable && persists && !self.is_deleted;
        if !self.is_deleted {
            self.insert(Entry {
                number,
                priority: self.effective(priority),
                held: None,
                has_turn: false,
                attempts: Attempts::default(),
                is_stored,
                is_flagged: false,
                place: Place::Ready,
            });
        }
        let confirm = Confirm {
            channel: channel(100),
            number,
        };
        let command = Command::Enqueue {
            message: Message::new(MessageParts {
                exchange: b"",
                routing_key: number.to_string().as_bytes(),
                properties: &[0, 0],
                body,
                persistent,
                priority,
            }),
            confirm: Some(confirm),
        };
        let promised_before = self.effects.promises.len();
        self.apply(command);
        // Promised exactly when it is to be stored, accepted otherwise.
        let promised = &self.effects.promises[promised_before..];
        assert_eq!(promised.contains(&confirm), is_stored, "{self:#?}");
        assert_eq!(
            self.effects.accepted,
            if is_stored { vec![] } else { vec![confirm] }
        );
        self.effects.accepted.clear();
        self.twin_effects.accepted.clear();
    }

    fn subscribe(&mut self, number: u16, mut settings: ConsumerSettings) -> ConsumerId {
        if !self.is_quorum() && self.rooms.contains_key(&channel(number)) {
            settings.shared_else = Some(9);
        }
        self.announce_consumers();
        self.last_consumer += 1;
        let consumer = ConsumerId {
            channel: channel(number),
            number: self.last_consumer,
        };
        let mut others = self.consumers.values();
        let is_refused = !self.is_quorum()
            && (others.any(|other| other.settings.exclusive)
                || (settings.exclusive && !self.consumers.is_empty()));
        let answer = if self.is_deleted {
            Answer::Deleted(0)
        } else if is_refused {
            Answer::ExclusiveUse
        } else {
            let is_paused = true;
            let model = ModelConsumer {
                settings,
                is_paused,
                waits_for_room: false,
            };
            self.consumers.insert(consumer, model);
            Answer::Subscribed
        };
        self.ask(Request::AtOnce(answer), |request| Command::Subscribe {
            request,
            consumer,
            settings,
        });
        consumer
    }

    fn pick_consumer(&self, index: &Index) -> Option<ConsumerId> {
        let ids: Vec<ConsumerId> = self.consumers.keys().copied().collect();
        (!ids.is_empty()).then(|| *index.get(&ids))
    }

    fn set_paused(&mut self, consumer: ConsumerId, is_paused: bool) {
        if let Some(model) = self.consumers.get_mut(&consumer) {
            model.is_paused = is_paused;
        }
        self.apply(if is_paused {
            Command::Pause { consumer }
        } else {
            Command::Resume { consumer }
        });
    }

    fn unsubscribe(&mut self, consumer: ConsumerId) {
        self.consumers.remove(&consumer);
        self.apply(Command::Unsubscribe { consumer });
        self.expect_unused(self.consumers.is_empty());
    }

    fn get(&mut self, channel: ChannelKey, no_ack: bool) {
        self.announce_consumers();
        self.ask(Request::Get { channel, no_ack }, |request| Command::Get {
            request,
            channel,
            no_ack,
        });
    }

    fn settle_one(&mut self, index: &Index, outcome: Outcome) {
        let is_held = |entry: &&Entry| entry.place != Place::Ready;
        let held: Vec<(Seq, Handout)> = self
            .messages
            .iter()
            .filter(is_held)
            .filter_map(|entry| entry.held)
            .collect();
        if !held.is_empty() {
            self.settle(*index.get(&held), outcome);
        }
    }

    fn settle(&mut self, (seq, handout): (Seq, Handout), outcome: Outcome) {
        let is_meant =
            |entry: &Entry| entry.held == Some((seq, handout)) && entry.place != Place::Ready;
        if let Some(at) = self.messages.iter().position(is_meant) {
            match outcome {
                Outcome::Returned => self.come_back(at, false),
                Outcome::Failed => self.come_back(at, true),
                Outcome::Acked | Outcome::Discarded | Outcome::Rejected => {
                    self.messages.remove(at);
                }
            }
        }
        self.apply(Command::Settle {
            seq,
            handout,
            outcome,
            more: false,
        });
    }

    fn release(&mut self, channel: ChannelKey, ended: bool) {
        let is_meant = |entry: &&Entry| match entry.place {
            Place::Ready => false,
            Place::HeldBy(consumer) => consumer.channel == channel,
            Place::GotBy(by) => by == channel,
        };
        let held = self.messages.iter().filter(is_meant);
        // In the order in which they came to the queue; or by consumers, behind which stands what was got, and as they
        // were handed out.
        let handed_out = |entry: &Entry| {
            let (_, handout) = entry.held.filter(|_| self.is_quorum())?;
            let consumer = match entry.place {
                Place::HeldBy(consumer) => consumer.number,
                Place::Ready | Place::GotBy(_) => u32::MAX,
            };
            Some((consumer, handout.since(Handout::default())))
        };
        let mut held: Vec<_> = held
            .map(|entry| (handed_out(entry), entry.number))
            .collect();
        held.sort_unstable();
        for (_, number) in held {
            let mut messages = self.messages.iter();
            let at = messages.position(|entry| entry.number == number);
            self.come_back(at.expect("it is there"), ended);
        }
        let before = self.consumers.len();
        if ended {
            self.consumers.retain(|id, _| id.channel != channel);
            for request in self.requests.values_mut() {
                if matches!(request, Request::Get { channel: by, .. } if *by == channel) {
                    *request = Request::AtOnce(Answer::Got(None));
                }
            }
        }
        self.apply(Command::Release { channel, ended });
        self.expect_unused(before > 0 && self.consumers.is_empty());
        let is_late = |request: &Request| matches!(request, Request::AtOnce(_));
        assert!(
            !self.requests.values().any(is_late),
            "not answered: {self:#?}"
        );
    }

    fn purge(&mut self) {
        let ready = self.ready();
        self.messages.retain(|entry| entry.place != Place::Ready);
        self.ask(Request::AtOnce(Answer::Purged(ready)), |request| {
            Command::Purge { request }
        });
        assert!(
            self.requests.is_empty(),
            "gets on an empty queue wait: {self:#?}"
        );
    }

    fn delete(&mut self, if_unused: bool, if_empty: bool) {
        let ready = self.ready();
        let answer = if if_empty && ready > 0 {
            Answer::NotEmpty
        } else if if_unused && !self.consumers.is_empty() {
            Answer::InUse
        } else {
            Answer::Deleted(ready)
        };
        let mut cancelled = Vec::new();
        if let Answer::Deleted(_) = answer {
            self.is_deleted = true;
            self.messages.clear();
            cancelled = std::mem::take(&mut self.consumers).into_keys().collect();
        }
        self.ask(Request::AtOnce(answer), |request| Command::Delete {
            request,
            if_unused,
            if_empty,
        });
        assert_eq!(std::mem::take(&mut self.cancelled), cancelled);
    }

    fn announce_consumers(&mut self) {
        if self.queue.has_unknown_consumers() {
            self.apply(Command::MarkConsumed);
            self.end_batch();
            while !self.batches.is_empty() {
                self.commit();
            }
        }
    }

    fn end_batch(&mut self) {
        let with_room: Vec<ChannelKey> = self
            .rooms
            .keys()
            .copied()
            .filter(|channel| self.has_room(*channel))
            .collect();
        for channel in with_room {
            for (id, consumer) in &mut self.consumers {
                consumer.waits_for_room &= id.channel != channel;
            }
            self.apply(Command::AskAgain { channel });
        }
        loop {
            let has_more = self.queue.hand_out(&mut self.effects);
            assert_eq!(has_more, self.twin.hand_out(&mut self.twin_effects));
            self.take_effects();
            if !has_more {
                break;
            }
            let wanted = self.queue.room_wanted();
            assert_eq!(wanted, self.twin.room_wanted());
            if let Some(consumer) = wanted {
                let has_room = self.has_room(consumer.channel);
                self.queue.answer_room(consumer, has_room);
                self.twin.answer_room(consumer, has_room);
                if let Some(model) = self.consumers.get_mut(&consumer) {
                    model.waits_for_room = !has_room;
                }
            }
        }
        self.queue.seal(&mut self.effects);
        self.twin.seal(&mut self.twin_effects);
        self.compare_effects();
        self.twin_effects = Effects::default();
        self.effects.deaths = Deaths::default();
        let mut refill = self.effects.refill.take();
        if let Some(refill) = refill {
            assert!(!self.is_reading(), "a second read is asked for: {self:#?}");
            assert!(refill.from < refill.until && refill.queue == QUEUE);
            assert!((1..=WINDOW_ROWS_MAX).contains(&refill.rows_max));
            assert!((1..=WINDOW_BYTES_MAX).contains(&refill.bytes_max));
        }
        if let Some(at_once) = refill.filter(|refill| refill.at_once) {
            // Of the batches that wait nothing is there, neither rows nor removals.
            self.read = self.store.read(&at_once).open_ended();
            if self.read.is_some() {
                refill = None;
            }
        }
        self.batches.push_back(Batch {
            writes: std::mem::take(&mut self.effects.writes),
            promises: std::mem::take(&mut self.effects.promises),
            refill,
        });
        // Whoever can be served is served, unless what comes next is still to be read.
        if !self.is_reading() {
            assert!(
                self.requests.is_empty(),
                "a get waits for nothing: {self:#?}"
            );
            assert!(
                self.ready() == 0 || self.best_priority().is_none(),
                "somebody could be served: {self:#?}"
            );
        }
    }

    fn commit(&mut self) {
        let Some(batch) = self.batches.pop_front() else {
            return;
        };
        if let Err(wrong) = self.store.commit(&batch.writes) {
            panic!("{wrong}: {self:#?}");
        }
        self.confirmed
            .extend(batch.promises.iter().map(|confirm| confirm.number));
        self.refill = self.refill.take().or(batch.refill);
    }

    fn read(&mut self) {
        if let Some(refill) = self.refill.take() {
            self.read = Some(self.store.read(&refill));
        }
    }

    fn give_back(&mut self, rows_max: usize, says_more: bool) {
        let Some(mut refilled) = self.read.take() else {
            return;
        };
        if refilled.rows.len() > rows_max {
            let rest = refilled.rows.split_off(rows_max);
            refilled.next = rest.first().map(|row| row.seq);
        }
        if says_more && refilled.next.is_none() {
            refilled.next = refilled.rows.last().map(|row| row.seq.next());
        }
        self.apply(Command::Refilled(refilled));
    }

    fn restart(&mut self, stop: Stop) {
        if self.is_deleted || !self.durable {
            return;
        }
        if stop == Stop::Clean {
            self.end_batch();
            while !self.batches.is_empty() {
                self.commit();
            }
            let last: Vec<Write> = self.queue.state_at_stop().into_iter().collect();
            assert_eq!(self.store.commit(&last), Ok(()), "{self:#?}");
        }
        let rows = self.store.kept();
        let stored: Vec<(u64, Option<u8>, Attempts)> = rows
            .map(|(message, attempts)| (number(message), message.priority(), attempts))
            .collect();
        let is_there = |number: &u64| stored.iter().any(|(stored, ..)| stored == number);
        let before = self.messages.iter();
        let attempts_before: BTreeMap<u64, Attempts> =
            before.map(|entry| (entry.number, entry.attempts)).collect();
        let had_consumers = stop == Stop::Crash && self.store.state().consumed;
        let known: BTreeSet<u64> = std::mem::take(&mut self.messages)
            .into_iter()
            .filter(|entry| entry.is_stored)
            .map(|entry| entry.number)
            .collect();
        if stop == Stop::Clean {
            let stored = stored.iter().map(|(number, ..)| number);
            assert!(known.iter().eq(stored), "{known:?} should be stored");
        }
        for lost in known.iter().filter(|number| !is_there(number)) {
            assert!(
                !self.confirmed.contains(lost),
                "message {lost} was confirmed"
            );
        }
        for (number, priority, attempts) in stored {
            if had_consumers || self.seen.contains(&number) {
                self.flagged.insert(number);
            }
            if stop == Stop::Clean {
                assert_eq!(Some(&attempts), attempts_before.get(&number), "of {number}");
            }
            self.insert(Entry {
                number,
                priority: self.effective(priority),
                held: None,
                has_turn: false,
                attempts,
                is_stored: true,
                is_flagged: self.flagged.contains(&number),
                place: Place::Ready,
            });
        }
        let state = self.store.recover();
        let queue = || {
            Queue::recovered(QUEUE, true, state)
                .with_settings(self.settings.clone())
                .with_attempts(Timestamp::default(), self.store.attempts())
                .with_unacked_bytes_max(self.unacked_bytes_max)
        };
        (self.queue, self.twin) = (queue(), queue());
        self.late.clear();
        self.has_restarted = true;
        self.effects = Effects::default();
        self.twin_effects = Effects::default();
        self.consumers.clear();
        self.requests.clear();
        self.batches.clear();
        self.refill = None;
        self.read = None;
        self.expect_model();
    }

    /// Everybody goes, the store catches up, and what is left comes out in order.
    fn finish(&mut self) {
        for number in 0..3 {
            self.release(channel(number), true);
        }
        let last = self.subscribe(50, no_ack());
        self.set_paused(last, false);
        self.end_batch();
        loop {
            while !self.batches.is_empty() {
                self.commit();
            }
            self.read();
            if self.read.is_none() {
                break;
            }
            self.give_back(usize::MAX, false);
            self.end_batch();
        }
        assert!(self.messages.is_empty(), "never handed out: {self:#?}");
        assert!(self.requests.is_empty(), "never answered: {self:#?}");
        if !self.is_deleted {
            assert_eq!(
                self.store.messages().count(),
                0,
                "never forgotten: {self:#?}"
            );
        }
        assert_eq!(format!("{:?}", self.queue), format!("{:?}", self.twin));
    }

    // What must hold.

    fn ask(&mut self, expected: Request, command: impl FnOnce(RequestId) -> Command) {
        self.last_request += 1;
        let request = self.last_request;
        let is_at_once = matches!(expected, Request::AtOnce(_));
        self.requests.insert(request, expected);
        self.apply(command(RequestId(request)));
        if is_at_once {
            assert!(
                !self.requests.contains_key(&request),
                "not answered: {self:#?}"
            );
        }
    }

    fn apply(&mut self, command: Command) {
        self.now += 1;
        let now = Timestamp::new(self.now);
        self.queue.apply(now, command.clone(), &mut self.effects);
        self.twin.apply(now, command, &mut self.twin_effects);
        self.take_effects();
        self.expect_model();
    }

    fn expect_model(&self) {
        let depth = Depth {
            ready: self.ready(),
            unacked: self.messages.len() as u64 - self.ready(),
        };
        assert_eq!(self.queue.depth(), depth, "{self:#?}");
        assert_eq!(
            self.queue.consumer_count(),
            self.consumers.len(),
            "{self:#?}"
        );
        assert_eq!(self.queue.check(), Ok(()), "{self:#?}");
    }

    fn expect_unused(&mut self, expected: bool) {
        assert_eq!(std::mem::take(&mut self.unused), expected, "{self:#?}");
    }

    fn compare_effects(&self) {
        assert_eq!(
            format!("{:?}", self.effects),
            format!("{:?}", self.twin_effects)
        );
    }

    fn take_effects(&mut self) {
        self.compare_effects();
        for effects in [&mut self.twin_effects, &mut self.effects] {
            self.cancelled = std::mem::take(&mut effects.cancelled);
            self.unused = std::mem::take(&mut effects.unused);
            effects.remains = None;
            assert_eq!(effects.missing, 0);
            // Whoever counts takes them after every batch.
            effects.deaths = Deaths::default();
        }
        self.twin_effects.answers.clear();
        self.twin_effects.deliveries.clear();
        for (RequestId(request), answer) in std::mem::take(&mut self.effects.answers) {
            self.take_answer(request, answer);
        }
        for delivery in std::mem::take(&mut self.effects.deliveries) {
            let consumer = delivery.consumer;
            let model = self.consumers.get(&consumer);
            let ConsumerSettings {
                priority, no_ack, ..
            } = model.expect("it is a consumer").settings;
            assert!(
                self.has_credit(consumer),
                "{consumer:?} has no credit: {self:#?}"
            );
            assert_eq!(Some(priority), self.best_priority(), "{self:#?}");
            let place = Place::HeldBy(consumer);
            let place = (!no_ack).then_some(place);
            let held = (delivery.seq, delivery.handout);
            self.hand_out(&delivery.message, held, delivery.redelivered, place);
        }
    }

    fn take_answer(&mut self, request: u64, answer: Answer) {
        let Some(expected) = self.requests.remove(&request) else {
            panic!("{request} is not waiting for {answer:?}: {self:#?}");
        };
        let (channel, no_ack) = match expected {
            Request::AtOnce(expected) => return assert_eq!(answer, expected, "{self:#?}"),
            Request::Get { channel, no_ack } => (channel, no_ack),
        };
        let is_first = self
            .requests
            .keys()
            .next()
            .is_none_or(|other| *other > request);
        assert!(is_first, "an earlier get still waits: {self:#?}");
        match answer {
            Answer::Got(Some(got)) => {
                let place = (!no_ack).then_some(Place::GotBy(channel));
                let held = (got.seq, got.handout);
                self.hand_out(&got.message, held, got.redelivered, place);
                assert_eq!(got.remaining, self.ready(), "{self:#?}");
            }
            Answer::Got(None) => assert_eq!(self.ready(), 0, "{self:#?}"),
            other => panic!("a get is answered by {other:?}"),
        }
    }

    /// The first ready message goes to somebody, and stays with it in `place` or is gone.
    fn hand_out(
        &mut self,
        message: &Message,
        held: (Seq, Handout),
        redelivered: bool,
        place: Option<Place>,
    ) {
        let first = self
            .messages
            .iter()
            .position(|entry| entry.place == Place::Ready);
        let Some(first) = first else {
            panic!("nothing is ready: {self:#?}");
        };
        assert_eq!(number(message), self.messages[first].number, "{self:#?}");
        // After a restart of a queue with priorities it may be flagged because a later one was handed out
        // before it.
        let is_alarm = self.settings.max_priority > 0 && self.has_restarted && redelivered;
        let is_flagged = self.messages[first].is_flagged;
        assert!(redelivered == is_flagged || is_alarm, "{self:#?}");
        let attempts = self.messages[first].attempts;
        let counting = self.settings.attempt_counting;
        let counted = counting.map_or(0, |counting| counting.counted(attempts));
        let shown = |count: u32| (count > 0).then_some(i64::from(count));
        assert_eq!(
            counts(message),
            (shown(attempts.all), shown(counted)),
            "{self:#?}"
        );
        let is_lie = !redelivered && self.seen.contains(&number(message));
        assert!(!is_lie, "it was handed out before: {self:#?}");
        self.seen.insert(number(message));
        match place {
            Some(place) => {
                self.messages[first].place = place;
                self.messages[first].held = Some(held);
            }
            None => {
                self.messages.remove(first);
            }
        }
    }

    fn ready(&self) -> u64 {
        let ready = self
            .messages
            .iter()
            .filter(|entry| entry.place == Place::Ready);
        ready.count() as u64
    }

    fn has_credit(&self, id: ConsumerId) -> bool {
        let held = |entry: &&Entry| entry.place == Place::HeldBy(id);
        self.consumers.get(&id).is_some_and(|consumer| {
            let ConsumerSettings {
                prefetch, no_ack, ..
            } = consumer.settings;
            let held = self.messages.iter().filter(held).count();
            !consumer.is_paused
                && !consumer.waits_for_room
                && (no_ack || prefetch == 0 || held < usize::from(prefetch))
        })
    }

    /// Whether the consumers of the channel may be handed one message more.
    fn has_room(&self, channel: ChannelKey) -> bool {
        let held = self.messages.iter().filter(|entry| match entry.place {
            Place::HeldBy(consumer) => consumer.channel == channel,
            Place::Ready | Place::GotBy(_) => false,
        });
        let held = held.count() as u64;
        self.rooms[&channel].is_none_or(|max| held < max)
    }

    fn best_priority(&self) -> Option<i64> {
        let with_credit = self
            .consumers
            .iter()
            .filter(|(id, _)| self.has_credit(**id));
        with_credit
            .map(|(_, consumer)| consumer.settings.priority)
            .max()
    }

    fn is_reading(&self) -> bool {
        let is_asked = self.batches.iter().any(|batch| batch.refill.is_some());
        is_asked || self.refill.is_some() || self.read.is_some()
    }
}

fn number(message: &Message) -> u64 {
    label(message).parse().expect("labels are numbers here")
}

proptest! {
    #[test]
    fn a_durable_queue_does_what_a_list_of_messages_does(
        steps in prop::collection::vec(step(), 1..150),
        unacked_bytes_max in unacked_bytes_max(),
    ) {
        let mut world = World::new(true, QueueSettings::default(), unacked_bytes_max);
        for step in steps {
            world.take(step);
        }
        world.finish();
    }

    #[test]
    fn a_quorum_queue_hands_out_first_what_came_back_and_counts_it(
        steps in prop::collection::vec(step(), 1..150),
        limit in prop::option::of(0..4_u64),
        unacked_bytes_max in unacked_bytes_max(),
    ) {
        let arguments = FieldTable::new().with("x-queue-type", FieldValue::text("quorum"));
        let mut world = World::new(true, QueueSettings {
            delivery_limit: limit,
            ..QueueSettings::of(&arguments)
        }, unacked_bytes_max);
        for step in steps {
            world.take(step);
        }
        world.finish();
    }

    #[test]
    fn a_classic_queue_with_priorities_counts_when_it_is_told_to(
        steps in prop::collection::vec(step(), 1..150),
        limit in prop::option::of(0..4_u64),
        max_priority in 0..4_u8,
        counts_all in any::<bool>(),
        unacked_bytes_max in unacked_bytes_max(),
    ) {
        let counting = if counts_all { AttemptCounting::All } else { AttemptCounting::Failures };
        let mut world = World::new(true, QueueSettings {
            max_priority,
            delivery_limit: limit,
            attempt_counting: Some(counting),
            ..QueueSettings::default()
        }, unacked_bytes_max);
        for step in steps {
            world.take(step);
        }
        world.finish();
    }

    #[test]
    fn a_transient_queue_does_what_a_list_of_messages_does(
        steps in prop::collection::vec(step(), 1..60),
        unacked_bytes_max in unacked_bytes_max(),
    ) {
        let mut world = World::new(false, QueueSettings::default(), unacked_bytes_max);
        for step in steps {
            world.take(step);
        }
        world.finish();
    }
}
