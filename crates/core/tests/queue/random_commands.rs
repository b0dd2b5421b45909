//! Random commands, judged by a plain list of messages; and a second queue that must say the same.

mod commands;
mod expected;
mod step;
mod surroundings;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use leveret_core::{
    arguments::{AttemptCounting, QueueSettings, QueueType},
    ids::{ChannelKey, ConsumerId, Handout, Seq},
    message::Message,
    queue::{Answer, Command, Confirm, ConsumerSettings, Effects, Queue, Refill, Refilled},
    record::{Attempts, Write},
};
use leveret_wire::value::{FieldTable, FieldValue};
use proptest::prelude::*;

use self::step::{Step, step, unacked_bytes_max};
use crate::scenario::{QUEUE, Store, channel, label};

/// Large enough that a handful of messages fills the window.
static ZEROS: [u8; 500_000] = [0; 500_000];

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
