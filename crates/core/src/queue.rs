//! One queue as a pure state machine: [`Command`]s in, [`Effects`] out.
//!
//! Nothing here waits, locks, reads a clock or touches a disk; `runtime` does.
//!
//! ```text
//!   enqueue ─▶ ready ──hand out──▶ unacked ──ack──▶ gone
//!               ▲ ▲ │                 │ │
//!               │ └─┼────return───────┘ └─reject─▶ dying ──stored elsewhere──▶ gone
//!               │   └──expire, overflow─────────────▲      (gone at once without a dead-letter exchange)
//!   stored ──refill (after a restart, or behind a full window)
//! ```
//!
//! A queue keeps in memory what is unacked, what is transient, and a window of what is stored at its
//! head. Stored messages behind the window are *cold*: counted, and read back in order before they
//! are needed, so that memory does not grow with the backlog. In a queue with priorities each of them has
//! its cold messages, because a later message may come before an earlier one; of what was stored before
//! the start only the total is known, and it is read one priority after the other.
//!
//! What is stored and unacked is in memory up to a bound as well ([`UNACKED_BYTES_MAX`]), and so is what is held back for
//! a retry; beyond it the queue knows the place only, and reads the message again when its turn has come.
//!
//! Always true: messages are handed out in order of priority and seq, also after a return, except that a
//! quorum queue hands out first what came back; and a command that has an answer gets exactly one. True
//! between two calls, and [`Queue::check`] is the same list as code:
//! * a message is in exactly one of `ready`, `unacked`, `sinking`, `dying`, what is held back and what is cold;
//! * exactly the ready messages that expire are in `due`;
//! * every stored message in memory stands before the cold range, except those that die; what came back to the disk is
//!   known one by one;
//! * the stored counters count what is stored, in memory and cold;
//! * a get waits only for a refill that is under way, or for what comes back;
//! * attempts are counted of messages that are there, of those in the cold range only from before the start;
//! * what is stranded is dying;
//! * no consumer holds more unacked messages than its prefetch;
//! * one that shares the bound of its channel is handed a message only when the channel said that it has room;
//! * exactly the consumers with credit stand in line for the next message.

mod ack_timeout;
mod arrivals;
mod attempts;
mod check;
mod cold;
mod command;
mod consumers;
mod dead_letter;
mod deliver;
mod effects;
mod enqueue;
mod expire;
mod foresee;
mod holdings;
mod limits;
mod line;
mod look;
mod release;
mod remains;
mod report;
mod retry;
mod returned;
mod settle;
mod spill;
mod spot;
mod stub;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use self::{
    ack_timeout::AckTimes,
    arrivals::Arrivals,
    attempts::Count,
    cold::{Asked, Cold, Window},
    consumers::Consumers,
    dead_letter::Stranded,
    expire::{DYING_BYTES_READ_MAX, DYING_READ_MAX},
    foresee::Foreseen,
    holdings::Holdings,
    line::Line,
    release::Returning,
    retry::Retries,
    spill::Spilled,
    spot::Spot,
    stub::{Held, Sinking, Stub},
};
pub use self::{
    cold::Refill,
    command::{Command, Outcome, Refilled, RequestId, StoredMessage, Stranding},
    consumers::ConsumerSettings,
    dead_letter::{STRANDED_RETRY_MILLIS, STRANDED_TRIED_MAX},
    effects::{Answer, Confirm, DeathReason, Deaths, Delivery, Effects, Got, Overdue, Transfer},
    look::{ColdPart, Found, Look, Seen, SingleOnDisk, Standing},
    release::RETURNS_MAX,
    remains::Remains,
    report::{ConsumerReport, Counters, Report},
    stub::UNACKED_BYTES_MAX,
};
use crate::{
    arguments::{QueueSettings, QueueType},
    ids::{ChannelKey, Channels, Handout, QueueId, Seq, Timestamp},
    message::Message,
    record::{QueueState, Write},
};

/// Stored messages a queue keeps in memory while they are ready; what was returned may exceed it.
///
/// Enough for one read ahead to serve consumers while the next one runs.
pub const WINDOW_ROWS_MAX: usize = 2000;
/// Bytes of these messages; the window holds at least one message.
pub const WINDOW_BYTES_MAX: usize = 1024 * 1024;
/// Bytes handed out in one go; afterwards the surroundings look whether readers keep up.
pub const HAND_OUT_BYTES_MAX: usize = 256 * 1024;

/// Messages that die of age or for want of room in one batch, so that others have their turn behind it: more than come with one.
pub const DEATHS_MAX: u32 = 8000;

/// How many messages a queue has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    /// Waiting to be handed out.
    pub ready: u64,
    /// Handed out and not settled.
    pub unacked: u64,
}

#[derive(Debug, Clone)]
struct Ready {
    message: Message,
    redelivered: bool,
    /// An attempt with it failed, here or in a queue it died in: if it dies, it is redelivered where it goes.
    failed: bool,
    stored: bool,
    /// When it is to leave; [`Timestamp::NEVER`] for most.
    due: Timestamp,
}

#[derive(Debug)]
struct Unacked {
    holder: Holder,
    held: Held,
}

/// Who has an unacked message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Holder {
    channel: ChannelKey,
    /// Which consumer of the channel; 0 for a `basic.get`, which has no prefetch.
    number: u32,
    handout: Handout,
    /// When the message is taken back.
    due: ack_timeout::Due,
}

/// A `basic.get` that met a queue whose head is still being read.
#[derive(Debug, Clone, Copy)]
struct WaitingGet {
    request: RequestId,
    channel: ChannelKey,
    no_ack: bool,
}

/// One queue.
#[derive(Debug)]
pub struct Queue {
    id: QueueId,
    durable: bool,
    settings: QueueSettings,
    /// The window at the head, everything transient, everything returned; all of a queue with
    /// priorities that was not there at the start.
    ready: Line<Spot, Ready>,
    /// The stored ones of `ready`.
    window: Window,
    /// Bytes of `ready`, as [`Self::message_bytes`] counts them.
    ready_message_bytes: u64,
    /// Memory of those of `ready` that are nowhere else.
    transient_bytes: usize,
    /// Transient messages are to be stored.
    is_memory_short: bool,
    /// Stored, counted in `state`, and to end with the process.
    spilled: Spilled,
    /// A former process may have left such rows behind, among those before `restored_until`.
    has_leftovers: bool,
    /// The store knows of the queue although it is not durable.
    is_known_to_store: bool,
    /// Those of `ready` that expire.
    due: BTreeSet<(Timestamp, Spot)>,
    cold: Cold,
    /// Those of the cold range that expire, as far as they came in this run or were looked up.
    cold_due: BTreeSet<(Timestamp, Spot)>,
    foreseen: Foreseen,
    unacked: Line<Seq, Unacked>,
    /// Memory of those that are stored and in memory too.
    unacked_bytes: usize,
    /// Above it the next ones are not.
    unacked_bytes_max: usize,
    last_handout: Handout,
    /// Those of them that are still to come back from channels that are gone.
    returning: Option<Box<Returning>>,
    /// Whose they are, while channels end.
    holdings: Option<Box<Holdings>>,
    /// When unacked messages are overdue.
    acks: AckTimes,
    /// Of messages that came back, how often. Nothing of others, and nothing where nobody counts.
    attempts: BTreeMap<Seq, Count>,
    /// Messages that came back so far to the front of a quorum queue.
    turns: u64,
    /// No message that stands there has a place below.
    lowest_turned: Seq,
    /// Dead messages that are to go elsewhere and are on disk only.
    sinking: BTreeMap<Seq, Sinking>,
    /// Dead messages that nobody else has yet.
    dying: BTreeMap<Seq, Ready>,
    /// Bytes of both.
    dying_message_bytes: u64,
    /// And of those on disk only.
    sinking_message_bytes: u64,
    /// How many may still die before this batch is over.
    deaths_left: u32,
    /// Those of them that were refused, of a queue that keeps such.
    stranded: Option<Box<Stranded>>,
    /// Those that have arrived elsewhere while rows were being read, and may come back with them.
    arrived: BTreeSet<Seq>,
    consumers: Consumers,
    /// Only for a queue that holds back what came back.
    retries: Option<Box<Retries>>,
    waiting_gets: VecDeque<WaitingGet>,
    /// Counters as they will be stored; `next` counts transient messages too.
    state: QueueState,
    /// Rows changed since the counters were last written.
    is_state_stale: bool,
    /// Stored messages below this were there before the start and may have been handed out then.
    redelivered_below: Seq,
    /// Whatever is stored below this was there before the start; when it expires is not known.
    restored_until: Seq,
    is_deleted: bool,
    /// The time of the last command.
    now: Timestamp,
    /// When somebody last used the queue; what counts while it has no consumers.
    last_used: Timestamp,
    /// For whoever looks.
    counters: Counters,
    arrivals: Arrivals,
}

impl Queue {
    /// A queue nobody has used yet. Only a durable one asks for anything to be stored.
    #[must_use]
    pub fn new(id: QueueId, durable: bool) -> Self {
        Self::recovered(id, durable, QueueState::default())
    }

    /// A queue as the store remembers it. If it was not told of an orderly stop, what may have been handed out is not
    /// known, so that everything counts as redelivered if there was anybody to hand it to.
    #[must_use]
    pub fn recovered(id: QueueId, durable: bool, stored: QueueState) -> Self {
        let redelivered_below = if stored.consumed {
            stored.next
        } else {
            stored.delivered_below
        };
        Self {
            id,
            durable,
            settings: QueueSettings::default(),
            ready: Line::new(),
            window: Window::default(),
            ready_message_bytes: 0,
            transient_bytes: 0,
            is_memory_short: false,
            spilled: Spilled::default(),
            has_leftovers: stored.spilled,
            is_known_to_store: durable,
            due: BTreeSet::new(),
            cold: Cold::of(stored),
            cold_due: BTreeSet::new(),
            foreseen: Foreseen::new(),
            unacked: Line::new(),
            unacked_bytes: 0,
            unacked_bytes_max: UNACKED_BYTES_MAX,
            last_handout: Handout::default(),
            returning: None,
            holdings: None,
            acks: AckTimes::default(),
            attempts: BTreeMap::new(),
            turns: 0,
            lowest_turned: Seq::default(),
            sinking: BTreeMap::new(),
            dying: BTreeMap::new(),
            dying_message_bytes: 0,
            sinking_message_bytes: 0,
            deaths_left: DEATHS_MAX,
            stranded: None,
            arrived: BTreeSet::new(),
            consumers: Consumers::default(),
            retries: None,
            waiting_gets: VecDeque::new(),
            state: QueueState {
                delivered_below: redelivered_below,
                consumed: false,
                spilled: false,
                ..stored
            },
            is_state_stale: false,
            redelivered_below,
            restored_until: stored.next,
            is_deleted: false,
            now: Timestamp::default(),
            last_used: Timestamp::default(),
            counters: Counters::default(),
            arrivals: Arrivals::default(),
        }
    }

    /// The same queue with what its arguments ask of it; before anything else happens to it.
    #[must_use]
    pub fn with_settings(mut self, settings: QueueSettings) -> Self {
        self.cold.start_at(Spot::LAST_CLASS - settings.max_priority);
        if settings.single_active_consumer {
            let gives_way = settings.queue_type == QueueType::Quorum;
            self.consumers.serve_one_only(gives_way);
        }
        if settings.queue_type == QueueType::Quorum {
            self.consumers.leave_when_filled();
        }
        if settings.queue_type == QueueType::Quorum {
            // What is stored already came to a former build, if properties do not count yet.
            let next = self.state.next;
            self.state.properties_count_from.get_or_insert(next);
        }
        self.settings = settings;
        self.set_retry();
        self
    }

    /// The newest delivery.
    #[must_use]
    pub const fn last_handout(&self) -> Handout {
        self.last_handout
    }

    /// It takes the place of another one: what that one handed out is none of its own.
    pub const fn hand_out_after(&mut self, last: Handout) {
        self.last_handout = last;
    }

    /// Other settings from now on, since a policy changed. What is fixed when a queue is declared stays; a message
    /// keeps the time that it has.
    pub fn set_settings(&mut self, settings: QueueSettings) {
        self.settings = QueueSettings {
            queue_type: self.settings.queue_type,
            max_priority: self.settings.max_priority,
            single_active_consumer: self.settings.single_active_consumer,
            ..settings
        };
        self.set_retry();
    }

    /// Does what `command` says. Messages are not handed out here but by [`Self::hand_out`], which
    /// follows a batch, or each command where [`Self::hands_out_each`] says so.
    pub fn apply(&mut self, now: Timestamp, command: Command, effects: &mut Effects) {
        self.now = self.now.max(now);
        let had_consumers = self.consumers.len() > 0;
        if self.retries.is_some() {
            self.end_waits(effects);
        }
        match command {
            Command::Enqueue { message, confirm } => self.enqueue(message, confirm, effects),
            Command::MarkConsumed => self.mark_consumed(),
            Command::Subscribe {
                request,
                consumer,
                settings,
            } => {
                let answer = self.subscribe(consumer, settings);
                effects.answers.push((request, answer));
            }
            // Here everybody starts at the head.
            Command::SubscribeStream(subscription) => {
                let settings = ConsumerSettings {
                    prefetch: subscription.prefetch,
                    ..ConsumerSettings::default()
                };
                let answer = self.subscribe(subscription.consumer, settings);
                effects.answers.push((subscription.request, answer));
            }
            Command::Resume { consumer } => self.consumers.resume(consumer),
            Command::Pause { consumer } => self.consumers.pause(consumer),
            Command::Share { channel } => match self.settings.queue_type {
                QueueType::Classic => self.consumers.share(channel),
                QueueType::Quorum | QueueType::Stream => {}
            },
            Command::AskAgain { channel } => self.consumers.ask_again(channel),
            Command::Unsubscribe { consumer } => self.unsubscribe(consumer, effects),
            Command::Get {
                request,
                channel,
                no_ack,
            } => {
                self.last_used = self.now;
                self.waiting_gets.push_back(WaitingGet {
                    request,
                    channel,
                    no_ack,
                });
                self.serve_gets(effects);
            }
            Command::Settle {
                seq,
                handout,
                outcome,
                more,
            } => match outcome {
                Outcome::Returned | Outcome::Failed => {
                    self.give_back((seq, handout, outcome), more, effects);
                }
                Outcome::Acked | Outcome::Discarded | Outcome::Rejected => {
                    self.end_delivery(seq, handout, outcome, effects);
                }
            },
            Command::Release { channel, ended } => {
                self.release(Channels::One(channel), ended, effects);
            }
            Command::Disconnect { connection } => {
                self.release(Channels::AllOf(connection), true, effects);
            }
            Command::Purge { request } => {
                let purged = self.purge(effects);
                effects.answers.push((request, Answer::Purged(purged)));
            }
            Command::Delete {
                request,
                if_unused,
                if_empty,
            } => {
                let answer = self.delete(if_unused, if_empty, effects);
                effects.answers.push((request, answer));
            }
            Command::Tick => {
                self.go_on_returning(effects);
                self.end_holdings();
                self.take_back_overdue(effects);
                self.retry_stranded(effects);
            }
            // Nothing such was asked for.
            Command::Told(_) => {}
            Command::Transferred { seq } => self.transferred(seq, effects),
            Command::Stranded(stranding) => self.strand(*stranding),
            Command::Refilled(refilled) => self.refilled(refilled, effects),
            Command::Unreadable => {
                self.cold.note_unreadable();
                self.serve_gets(effects);
            }
        }
        if had_consumers && self.consumers.len() == 0 {
            self.last_used = self.now;
        }
    }

    /// Closes a batch of commands: changed counters join the writes of the rows they count.
    pub fn seal(&mut self, effects: &mut Effects) {
        self.deaths_left = DEATHS_MAX;
        self.forget_leftovers(effects);
        if std::mem::take(&mut self.is_state_stale) && self.durable && !self.is_deleted {
            effects.writes.push(Write::State {
                queue: self.id,
                state: self.stored_state(),
            });
        }
        debug_assert_eq!(self.check(), Ok(()));
    }

    /// The counters of an orderly stop: from now on nobody is handed anything, and what was is known.
    #[must_use]
    pub fn state_at_stop(&self) -> Option<Write> {
        // Where attempts are counted, whatever was handed out and is still here has come back and been counted.
        let is_told_by_attempts =
            self.settings.attempt_counting.is_some() && self.unacked.is_empty();
        let state = QueueState {
            consumed: false,
            delivered_below: if is_told_by_attempts {
                self.redelivered_below
            } else {
                self.state.delivered_below
            },
            ..self.stored_state()
        };
        (self.durable && !self.is_deleted).then_some(Write::State {
            queue: self.id,
            state,
        })
    }

    /// Nobody may be handed a message of this queue before the store knows that this happens.
    #[must_use]
    pub const fn has_unknown_consumers(&self) -> bool {
        self.durable && !self.state.consumed
    }

    /// Its number.
    #[must_use]
    pub const fn id(&self) -> QueueId {
        self.id
    }

    /// Ready and unacked messages, exact.
    #[must_use]
    pub fn depth(&self) -> Depth {
        Depth {
            ready: self.ready.len() as u64 + self.cold.messages() - self.cold_retrying(),
            unacked: self.unacked.len() as u64,
        }
    }

    fn cold_retrying(&self) -> u64 {
        let retries = self.retries.as_ref();
        retries.map_or(0, |retries| retries.cold_count())
    }

    /// Those held back in memory, of a queue that does this.
    fn waiting(&self) -> impl Iterator<Item = (Seq, &Ready)> {
        self.retries.iter().flat_map(|retries| retries.waiting())
    }

    /// Those held back of which only the place is known, and until when.
    fn waiting_on_disk(&self) -> impl Iterator<Item = (Seq, Timestamp, Stub)> {
        self.retries.iter().flat_map(|retries| retries.on_disk())
    }

    /// Consumers, paused or not.
    #[must_use]
    pub fn consumer_count(&self) -> usize {
        self.consumers.len()
    }

    /// Consumers as `queue.declare-ok` counts them: on a quorum queue whoever holds a message or may be handed one. So
    /// one that waits behind the single active consumer is none, one that was cancelled is until its messages are
    /// settled, and a `basic.get` is one until its message is.
    #[must_use]
    pub fn declared_consumers(&self) -> usize {
        match self.settings.queue_type {
            QueueType::Quorum => self.consumers.holders(&self.unacked),
            QueueType::Classic | QueueType::Stream => self.consumers.len(),
        }
    }

    /// Deleted: everything sent here is answered and forgotten.
    #[must_use]
    pub const fn is_deleted(&self) -> bool {
        self.is_deleted
    }

    /// Nothing is stored below this position.
    fn head(&self) -> Seq {
        let unacked = self.unacked.keys().next();
        let first = self.ready.first();
        let turned = first.filter(|(spot, _)| spot.has_turn());
        self.first_of_each_class()
            .map(|spot| spot.seq)
            .chain(turned.map(|_| self.lowest_turned))
            .chain(unacked)
            .chain(self.sinking.keys().next().copied())
            .chain(self.dying.keys().next().copied())
            .chain(self.waiting().map(|(seq, _)| seq).next())
            .chain(self.waiting_on_disk().map(|(seq, ..)| seq).next())
            .chain(self.cold.lowest())
            .min()
            .unwrap_or(self.state.next)
    }

    fn mark_consumed(&mut self) {
        if self.has_unknown_consumers() {
            self.state.consumed = true;
            self.is_state_stale = true;
        }
    }

    /// The oldest ready message of each priority, without those that came back to the front; one look at
    /// the map for each.
    fn first_of_each_class(&self) -> impl Iterator<Item = Spot> {
        let first = |class| {
            let from = Spot::in_order(class, Seq::default());
            self.ready.first_from(from).map(|(spot, _)| spot)
        };
        std::iter::successors(first(0), move |spot| first(spot.class().checked_add(1)?))
    }

    fn spot(&self, seq: Seq, message: &Message) -> Spot {
        let priority = match self.settings.max_priority {
            0 => 0,
            max => {
                let priority = message.priority();
                priority.unwrap_or(self.settings.default_priority).min(max)
            }
        };
        Spot::in_order(Spot::LAST_CLASS - priority, seq)
    }

    /// What a message counts, to the limits and for whoever looks: its body, and in a quorum queue the properties it was
    /// published with, as RabbitMQ has it.
    fn message_bytes(&self, seq: Seq, message: &Message) -> u64 {
        match self.state.properties_count_from {
            Some(from) if seq >= from => message.published_bytes(),
            Some(_) | None => message.body().len() as u64,
        }
    }

    fn insert_ready(&mut self, spot: Spot, ready: Ready) {
        if ready.due != Timestamp::NEVER {
            self.due.insert((ready.due, spot));
        }
        self.window = self.window.with(&ready);
        self.transient_bytes += spill::memory_of(&ready);
        self.ready_message_bytes += self.message_bytes(spot.seq, &ready.message);
        self.ready.insert(spot, ready);
    }

    fn pop_ready(&mut self) -> Option<(Spot, Ready)> {
        let (spot, ready) = self.ready.pop_first()?;
        self.left_ready(spot, &ready);
        Some((spot, ready))
    }

    fn left_ready(&mut self, spot: Spot, ready: &Ready) {
        self.window = self.window.without(ready);
        self.transient_bytes -= spill::memory_of(ready);
        self.ready_message_bytes -= self.message_bytes(spot.seq, &ready.message);
        if ready.due != Timestamp::NEVER {
            self.due.remove(&(ready.due, spot));
        }
    }

    /// The message is gone for good.
    fn forget(&mut self, spot: Spot, ready: &Ready, effects: &mut Effects) {
        if !self.attempts.is_empty() {
            self.forget_attempts(spot.seq, effects);
        }
        if !ready.stored {
            return;
        }
        let message_bytes = self.message_bytes(spot.seq, &ready.message);
        let mut spilled = Spilled::default();
        if !self.keeps(&ready.message) {
            spilled.add(message_bytes);
        }
        self.count_forgotten(1, message_bytes, spilled);
        effects.writes.push(Write::Forget {
            queue: self.id,
            priority: spot.priority(),
            seq: spot.seq,
        });
    }

    /// Of these, `spilled` were not kept.
    fn count_forgotten(&mut self, messages: u64, message_bytes: u64, spilled: Spilled) {
        self.state.messages -= messages;
        self.state.message_bytes -= message_bytes;
        self.spilled.remove(spilled);
        self.is_state_stale = true;
    }
}
