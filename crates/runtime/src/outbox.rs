//! Where deliveries, confirms and cancels of one connection go.

use std::fmt::Debug;

use leveret_core::{
    ids::{ConsumerId, QueueId},
    message::Message,
    queue::{Confirm, Delivery, Overdue},
};

/// A connection as the rest of the broker sees it.
///
/// Every call comes with a lock held somewhere: an implementation encodes into memory and wakes its
/// writer, it never waits and never calls back into a queue.
pub trait Outbox: Send + Sync + Debug {
    /// Takes deliveries of one queue, in order. What is for a consumer that is gone is dropped: the
    /// queue learns of that by the end of the channel.
    fn deliver(&self, queue: QueueId, deliveries: &[Delivery]) -> Pressure;

    /// Whether the channel of this consumer, whose consumers share a bound, has room for one message more; it is then
    /// kept free for that. Else the consumer waits, and the connection tells its queue when to ask again.
    fn reserve(&self, consumer: ConsumerId) -> bool;

    /// Takes a message for a consumer of replies, past any queue. What is for a consumer that is gone, or
    /// does not fit, is dropped.
    fn reply(&self, consumer: ConsumerId, message: &Message);

    /// Publishes that one of their queues answered.
    fn confirm(&self, answered: &[Answered]);

    /// Consumers that ended with their queue.
    fn cancel(&self, consumers: &[ConsumerId]);

    /// Somebody's message was taken back because it was not acked in time.
    fn overdue(&self, overdue: Overdue);
}

/// One queue's answer to one publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// The publish.
    pub confirm: Confirm,
    /// The queue took it.
    pub accepted: bool,
}

/// Whether a connection's reader keeps up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressure {
    /// There is room for more.
    Low,
    /// Above the high-water mark: its consumers pause until the connection resumes them.
    High,
}
