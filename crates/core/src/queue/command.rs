//! What may be asked of a queue.

use super::{Confirm, ConsumerSettings, DeathReason};
use crate::{
    ids::{ChannelKey, ConnectionId, ConsumerId, Handout, QueueId, Seq, Timestamp},
    message::Message,
    stream::{StreamSubscription, Told},
};

/// What somebody asks of a queue.
#[derive(Debug, Clone)]
pub enum Command {
    /// Put a message at the end.
    Enqueue {
        /// The message.
        message: Message,
        /// Who waits for the confirm.
        confirm: Option<Confirm>,
    },
    /// Write down that messages may be handed out from now on. Once per run, and in the store before
    /// the first [`Command::Resume`] or [`Command::Get`], so that after a crash "not redelivered" is
    /// never a lie; [`super::Queue::has_unknown_consumers`] tells whether it is still to be done.
    MarkConsumed,
    /// Add a consumer; it gets nothing before [`Command::Resume`]. Answered by
    /// [`super::Answer::Subscribed`], [`super::Answer::ExclusiveUse`], or [`super::Answer::Deleted`] when the queue ended
    /// before.
    Subscribe {
        /// Who asks.
        request: RequestId,
        /// The consumer.
        consumer: ConsumerId,
        /// How it wants its messages.
        settings: ConsumerSettings,
    },
    /// Add a consumer that starts at some place of a stream; else as [`Command::Subscribe`].
    SubscribeStream(Box<StreamSubscription>),
    /// The consumer can take messages: its subscription was answered, or its reader caught up.
    Resume {
        /// The consumer.
        consumer: ConsumerId,
    },
    /// The consumer's reader is behind; nothing more for it until [`Command::Resume`].
    Pause {
        /// The consumer.
        consumer: ConsumerId,
    },
    /// From now on the consumers of this channel share a bound: before it hands one a message, the queue asks with
    /// [`super::Queue::room_wanted`]. A queue whose type cannot do that goes on as before.
    Share {
        /// The channel.
        channel: ChannelKey,
    },
    /// The channel had no room for some of its consumers here, and may have some now.
    AskAgain {
        /// The channel.
        channel: ChannelKey,
    },
    /// The consumer gets nothing any more; what it holds stays with its channel.
    Unsubscribe {
        /// The consumer.
        consumer: ConsumerId,
    },
    /// Hand out one message, outside any prefetch. Answered by [`super::Answer::Got`], or [`super::Answer::Unreadable`].
    Get {
        /// Who asks.
        request: RequestId,
        /// The channel that will hold it.
        channel: ChannelKey,
        /// It is gone once handed out.
        no_ack: bool,
    },
    /// A delivery is done with. Unknown ones are ignored, and those that were taken back, so that a repeat does no
    /// harm and whoever comes too late does nothing to others.
    Settle {
        /// Its position.
        seq: Seq,
        /// Which handing out of the message.
        handout: Handout,
        /// How.
        outcome: Outcome,
        /// The next command is a settle of the same step: nothing is handed out and nothing dropped in between.
        more: bool,
    },
    /// Everything this channel holds goes back, and its consumers end when `ended`; that counts as a failed attempt.
    Release {
        /// The channel.
        channel: ChannelKey,
        /// The channel itself is gone; else `basic.recover`.
        ended: bool,
    },
    /// The same of all channels of a connection that is gone: no consumer of it gets what another one held.
    Disconnect {
        /// The connection.
        connection: ConnectionId,
    },
    /// Time has passed. Nothing but the time of the call matters.
    Tick,
    /// A dead message has reached its new queues, or has none: it need not be kept here any more.
    Transferred {
        /// Its position.
        seq: Seq,
    },
    /// A dead message that is to be taken at least once was refused, or has nowhere to go: it stays and is tried again.
    Stranded(Box<Stranding>),
    /// Drop all ready messages. Answered by [`super::Answer::Purged`].
    Purge {
        /// Who asks.
        request: RequestId,
    },
    /// End the queue if the conditions hold. Answered by [`super::Answer::Deleted`], [`super::Answer::InUse`] or
    /// [`super::Answer::NotEmpty`].
    Delete {
        /// Who asks.
        request: RequestId,
        /// Only without consumers.
        if_unused: bool,
        /// Only without ready messages.
        if_empty: bool,
    },
    /// What was read for the last [`super::Refill`]; each is answered exactly once.
    Refilled(Refilled),
    /// What the last [`super::Refill`] asks for cannot be read now. It is tried again until [`Self::Refilled`] can follow;
    /// nobody is kept waiting for that.
    Unreadable,
    /// What a stream asked for; each [`crate::stream::Ask`] is answered exactly once.
    Told(Box<Told>),
}

impl Command {
    /// Whether the next command belongs to the same step.
    #[must_use]
    pub const fn has_more(&self) -> bool {
        matches!(self, Self::Settle { more: true, .. })
    }

    /// Whether it returns a message and others of the same step follow.
    #[must_use]
    pub const fn is_within_return(&self) -> bool {
        matches!(
            self,
            Self::Settle {
                more: true,
                outcome: Outcome::Returned | Outcome::Failed,
                ..
            }
        )
    }
}

/// Names a command whose answer somebody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(pub u64);

/// A dead message that not everybody took who was to have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranding {
    /// Its position.
    pub seq: Seq,
    /// Why it died.
    pub reason: DeathReason,
    /// When.
    pub died_at: Timestamp,
    /// Those that have it already, and are spared another one.
    pub taken_by: Box<[QueueId]>,
}

/// Rows that came back from the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Refilled {
    /// The rows, in order.
    pub rows: Vec<StoredMessage>,
    /// Where the next read has to go on; `None` when the range that was asked for holds no more.
    pub next: Option<Seq>,
    /// When there was no row at all: the next lower priority that may have some.
    pub next_priority: Option<u8>,
}

impl Refilled {
    /// The same, read before everything was written that is to be there: what comes behind the last row is not known. Nothing
    /// at all is known without a row.
    #[must_use]
    pub fn open_ended(mut self) -> Option<Self> {
        let last = self.rows.last()?.seq;
        self.next.get_or_insert_with(|| last.next());
        Some(self)
    }
}

/// One stored row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its position.
    pub seq: Seq,
    /// When it entered the queue.
    pub enqueued_at: Timestamp,
    /// When it is to leave; `None` where a former build stored it, which wrote no such time.
    pub due: Option<Timestamp>,
    /// The message.
    pub message: Message,
}

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Done: the message is gone.
    Acked,
    /// Given back on purpose: `basic.nack`, `basic.recover`. Back to its place, flagged redelivered.
    Returned,
    /// Back as well, after an attempt that failed: `basic.reject`, the end of its channel.
    Failed,
    /// Given up on purpose, by `basic.nack`: the message is gone, or goes to the dead-letter exchange.
    Discarded,
    /// Gone or dead as well, after an attempt that failed: `basic.reject`.
    Rejected,
}

impl Outcome {
    /// Whether RabbitMQ counts it among the attempts that failed.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Rejected)
    }
}
