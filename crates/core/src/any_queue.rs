//! A queue of whatever type, behind one set of verbs.
//!
//! Commands and effects are the same for all types, so that handle, timers and transfers need not know
//! which one they serve.

use leveret_wire::value::FieldTable;

use crate::{
    arguments::{QueueSettings, QueueType},
    ids::{ConsumerId, Handout, Seq, Timestamp},
    queue::{Command, ConsumerReport, Depth, Effects, Found, Look, Queue, Report},
    record::{Attempts, QueueRecord, QueueState, Write},
    stream::{Stream, StreamSettings},
};

/// A queue of one of the types.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most queues are of the large kind, and are spared a pointer on every command"
)]
pub enum AnyQueue {
    /// Messages leave when they are acked.
    Queue(Queue),
    /// Messages stay, and readers have places.
    Stream(Box<Stream>),
}

impl AnyQueue {
    /// The machine for a queue that was declared like this, and has these arguments with its policies; with what the
    /// store remembers of it, if it was there before; and of messages that came back to it before now.
    #[must_use]
    pub fn of(
        record: &QueueRecord,
        arguments: &FieldTable,
        stored: Option<QueueState>,
        attempts: impl IntoIterator<Item = (Seq, Attempts)>,
        now: Timestamp,
    ) -> Self {
        if record.queue_type == QueueType::Stream {
            let settings = StreamSettings::of(arguments);
            let stored = stored.unwrap_or_default();
            return Self::Stream(Box::new(Stream::recovered(record.id, settings, stored)));
        }
        let queue = match stored {
            Some(state) => Queue::recovered(record.id, record.durable, state),
            None => Queue::new(record.id, record.durable),
        };
        let queue = queue.with_settings(QueueSettings::of(arguments));
        Self::Queue(queue.with_attempts(now, attempts))
    }

    /// See [`Queue::last_handout`]. Readers of a stream have places, which end with them.
    #[must_use]
    pub fn last_handout(&self) -> Handout {
        match self {
            Self::Queue(queue) => queue.last_handout(),
            Self::Stream(_) => Handout::default(),
        }
    }

    /// See [`Queue::hand_out_after`].
    pub const fn hand_out_after(&mut self, last: Handout) {
        match self {
            Self::Queue(queue) => queue.hand_out_after(last),
            Self::Stream(_) => {}
        }
    }

    /// Other arguments from now on, since a policy changed; see [`Queue::set_settings`] and [`Stream::set_settings`].
    pub fn set_arguments(&mut self, arguments: &FieldTable) {
        match self {
            Self::Queue(queue) => queue.set_settings(QueueSettings::of(arguments)),
            Self::Stream(stream) => stream.set_settings(StreamSettings::of(arguments)),
        }
    }

    /// What there is at this moment.
    #[must_use]
    pub fn report(&self) -> Report {
        match self {
            Self::Queue(queue) => queue.report(),
            Self::Stream(stream) => stream.report(),
        }
    }

    /// See [`Queue::ready_by_priority`]; a stream has no priorities.
    #[must_use]
    pub fn ready_by_priority(&self) -> Vec<(u8, u64)> {
        match self {
            Self::Queue(queue) => queue.ready_by_priority(),
            Self::Stream(_) => Vec::new(),
        }
    }

    /// See [`Queue::look`] and [`Stream::look`].
    #[must_use]
    pub fn look(&self, look: Look) -> Found {
        match self {
            Self::Queue(queue) => queue.look(look),
            Self::Stream(stream) => stream.look(look),
        }
    }

    /// See [`Queue::attempts_of`]. Nothing comes back to a stream.
    #[must_use]
    pub fn attempts_of(&self, seq: Seq) -> u64 {
        match self {
            Self::Queue(queue) => queue.attempts_of(seq),
            Self::Stream(_) => 0,
        }
    }

    /// Every consumer.
    #[must_use]
    pub fn consumer_reports(&self) -> Vec<ConsumerReport> {
        match self {
            Self::Queue(queue) => queue.consumer_reports(),
            Self::Stream(stream) => stream.consumer_reports(),
        }
    }

    /// See [`Queue::apply`] and [`Stream::apply`].
    pub fn apply(&mut self, now: Timestamp, command: Command, effects: &mut Effects) {
        match self {
            Self::Queue(queue) => queue.apply(now, command, effects),
            Self::Stream(stream) => stream.apply(now, command, effects),
        }
    }

    /// See [`Queue::overtakes`]. Nothing overtakes in a stream.
    #[must_use]
    pub fn overtakes(&self, command: &Command) -> bool {
        match self {
            Self::Queue(queue) => queue.overtakes(command),
            Self::Stream(_) => false,
        }
    }

    /// See [`Queue::hands_out_each`]. What a stream hands out depends on the store, not on batches.
    #[must_use]
    pub fn hands_out_each(&self) -> bool {
        match self {
            Self::Queue(queue) => queue.hands_out_each(),
            Self::Stream(_) => false,
        }
    }

    /// See [`Queue::hand_out`] and [`Stream::hand_out`].
    pub fn hand_out(&mut self, effects: &mut Effects) -> bool {
        match self {
            Self::Queue(queue) => queue.hand_out(effects),
            Self::Stream(stream) => stream.hand_out(effects),
        }
    }

    /// See [`Queue::room_wanted`]. Readers of a stream share nothing.
    #[must_use]
    pub fn room_wanted(&self) -> Option<ConsumerId> {
        match self {
            Self::Queue(queue) => queue.room_wanted(),
            Self::Stream(_) => None,
        }
    }

    /// See [`Queue::answer_room`].
    pub fn answer_room(&mut self, consumer: ConsumerId, has_room: bool) {
        match self {
            Self::Queue(queue) => queue.answer_room(consumer, has_room),
            Self::Stream(_) => {}
        }
    }

    /// See [`Queue::seal`] and [`Stream::seal`].
    pub fn seal(&mut self, effects: &mut Effects) {
        match self {
            Self::Queue(queue) => queue.seal(effects),
            Self::Stream(stream) => stream.seal(effects),
        }
    }

    /// The counters of an orderly stop. Those of a stream are stored with every message.
    #[must_use]
    pub fn state_at_stop(&self) -> Option<Write> {
        match self {
            Self::Queue(queue) => queue.state_at_stop(),
            Self::Stream(_) => None,
        }
    }

    /// When it is to be sent the next [`Command::Tick`] at the latest.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        match self {
            Self::Queue(queue) => queue.next_due(),
            Self::Stream(stream) => stream.next_due(),
        }
    }

    /// Somebody declared the queue or looked at it. A stream does not end by itself.
    pub fn touch(&mut self, now: Timestamp) {
        match self {
            Self::Queue(queue) => queue.touch(now),
            Self::Stream(_) => {}
        }
    }

    /// Whether nobody has used the queue for as long as it lasts without.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        match self {
            Self::Queue(queue) => queue.is_expired(now),
            Self::Stream(_) => false,
        }
    }

    /// How many messages it has.
    #[must_use]
    pub fn depth(&self) -> Depth {
        match self {
            Self::Queue(queue) => queue.depth(),
            Self::Stream(stream) => stream.depth(),
        }
    }

    /// See [`Queue::set_memory_short`]. A stream stores everything anyway.
    pub const fn set_memory_short(&mut self, is_short: bool) {
        match self {
            Self::Queue(queue) => queue.set_memory_short(is_short),
            Self::Stream(_) => {}
        }
    }

    /// See [`Queue::transient_bytes`].
    #[must_use]
    pub const fn transient_bytes(&self) -> usize {
        match self {
            Self::Queue(queue) => queue.transient_bytes(),
            Self::Stream(_) => 0,
        }
    }

    /// See [`Queue::declared_consumers`].
    #[must_use]
    pub fn declared_consumers(&self) -> usize {
        match self {
            Self::Queue(queue) => queue.declared_consumers(),
            Self::Stream(stream) => stream.consumer_count(),
        }
    }

    /// Deleted: everything sent here is answered and forgotten.
    #[must_use]
    pub const fn is_deleted(&self) -> bool {
        match self {
            Self::Queue(queue) => queue.is_deleted(),
            Self::Stream(stream) => stream.is_deleted(),
        }
    }
}
