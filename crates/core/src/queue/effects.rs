//! What a queue asks of its surroundings.

use super::{Refill, Remains, RequestId};
use crate::{
    ids::{ChannelKey, ConsumerId, Handout, QueueId, Seq, Timestamp},
    message::Message,
    record::Write,
    stream::Ask,
};

/// What commands ask of the surroundings. Separate lists, because their order is the durability
/// promise.
#[derive(Debug, Default)]
pub struct Effects {
    /// Committed as one unit.
    pub writes: Vec<Write>,
    /// Leave only when `writes` is on disk.
    pub promises: Vec<Confirm>,
    /// May leave at once: these messages are not to be stored.
    pub accepted: Vec<Confirm>,
    /// May leave at once, as refusals: the queue is full and took none of these messages.
    pub rejected: Vec<Confirm>,
    /// May leave at once. A message handed on has promised nothing to its publisher.
    pub deliveries: Vec<Delivery>,
    /// May leave at once, before `deliveries`.
    pub answers: Vec<(RequestId, Answer)>,
    /// To be read once `writes` is in the store, and given back as [`super::Command::Refilled`].
    pub refill: Option<Refill>,
    /// What a stream wants, once `writes` is in the store; each is answered by a
    /// [`super::Command::Told`].
    pub asks: Vec<Ask>,
    /// Consumers that ended with the queue; their clients are told.
    pub cancelled: Vec<ConsumerId>,
    /// Whoever had messages for too long; their clients are told.
    pub overdue: Vec<Overdue>,
    /// The last consumer left; a queue that is to go with it goes now.
    pub unused: bool,
    /// To be routed and enqueued elsewhere, in this order.
    pub transfers: Vec<Transfer>,
    /// Nobody has used the queue for as long as it lasts without; it goes now.
    pub expired: bool,
    /// Stored messages that were counted and then not found. Never so with an intact store:
    /// somebody must look.
    pub missing: u64,
    /// For whoever counts.
    pub deaths: Deaths,
    /// Nobody needs it any more; to be dropped where nobody waits.
    pub remains: Option<Box<Remains>>,
}

/// How many messages died of what, and how many of those that somebody has to take were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deaths {
    /// Refused by consumers.
    pub rejected: u32,
    /// Older than they may become.
    pub expired: u32,
    /// Of a queue that was full.
    pub max_length: u32,
    /// Come back too often.
    pub delivery_limit: u32,
    /// Taken by other queues, of those that stay until they are.
    pub taken: u32,
}

impl Deaths {
    pub(super) const fn note(&mut self, reason: DeathReason) {
        match reason {
            DeathReason::Rejected => self.rejected += 1,
            DeathReason::Expired => self.expired += 1,
            DeathReason::MaxLength => self.max_length += 1,
            DeathReason::DeliveryLimit => self.delivery_limit += 1,
        }
    }
}

/// One publish whose confirm is owed, once per queue it was routed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confirm {
    /// The publisher's channel.
    pub channel: ChannelKey,
    /// Its number on that channel, counted from 1.
    pub number: u64,
}

/// A message on its way to a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Who gets it.
    pub consumer: ConsumerId,
    /// Its position in this queue.
    pub seq: Seq,
    /// Which handing out of the message.
    pub handout: Handout,
    /// Somebody may have had it before.
    pub redelivered: bool,
    /// The message.
    pub message: Message,
}

/// Somebody whose message was taken back because it was not acked in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overdue {
    /// Its channel.
    pub channel: ChannelKey,
    /// The consumer that had it, which gets nothing any more; `None` for a `basic.get`.
    pub consumer: Option<ConsumerId>,
    /// How long it had it.
    pub timeout_millis: u64,
}

/// The answer to a command that has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The consumer exists and waits for its first [`super::Command::Resume`].
    Subscribed,
    /// Another consumer has the queue for itself, or this one wanted that beside others.
    ExclusiveUse,
    /// The message handed out by a get, or `None` from an empty queue.
    Got(Option<Got>),
    /// Nothing was handed out: what stands first is on disk and cannot be read now.
    Unreadable,
    /// Ready messages dropped.
    Purged(u64),
    /// The queue is gone; so many ready messages went with it.
    Deleted(u64),
    /// Not deleted: it has consumers.
    InUse,
    /// Not deleted: it has ready messages.
    NotEmpty,
}

/// A message handed out by a get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Got {
    /// Its position.
    pub seq: Seq,
    /// Which handing out of the message.
    pub handout: Handout,
    /// Somebody may have had it before.
    pub redelivered: bool,
    /// The message.
    pub message: Message,
    /// Ready messages left.
    pub remaining: u64,
}

/// A dead message on its way to the dead-letter exchange.
///
/// While it has a place, it is kept there until [`super::Command::Transferred`] says that somebody else has
/// it: a crash in between leaves it where it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// Its position; `None` for a message the queue did not even take.
    pub seq: Option<Seq>,
    /// Why it died.
    pub reason: DeathReason,
    /// When.
    pub died_at: Timestamp,
    /// The message as it was.
    pub message: Message,
    /// An attempt with it failed.
    pub was_delivered: bool,
    /// Those that took it at an earlier try; see [`super::Stranding`].
    pub taken_by: Box<[QueueId]>,
}

/// Why a message left without being acked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeathReason {
    /// A consumer refused it for good.
    Rejected,
    /// Its time was over.
    Expired,
    /// The queue was full.
    MaxLength,
    /// It came back more often than it may.
    DeliveryLimit,
}
