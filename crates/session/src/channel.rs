//! One channel: from methods to replies, calls and staged work.
//!
//! True between two frames:
//! * a channel that the server closed takes nothing but `close` and `close-ok`, and keeps nothing;
//! * every delivery that was learned of and not settled is in the ledger, and nothing else is.

mod consumers;
mod consuming;
mod content;
mod ledger;
mod publish;
mod replies;
mod rights;
mod topology;
mod transaction;

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use leveret_core::{
    ids::{ChannelKey, ConsumerId, QueueId},
    queue::Outcome,
    refusal::Refusal,
};
use leveret_wire::{
    content::ContentHeader,
    frame,
    ids::{ChannelId, ClassId, DeliveryTag, MethodId},
    method::{Method, access, basic, channel, confirm},
    value::ShortString,
};

use self::{
    consumers::Consumers, consuming::Prefetch, ledger::Ledger, replies::ReplyConsumer,
    transaction::Transaction,
};
pub(crate) use self::{
    content::{Content, Finished, Head},
    ledger::Unsettled,
    publish::Publisher,
};
use crate::{
    call::{Call, ChannelEnd},
    error::{ChannelError, ConnectionError, Fault, MethodIds},
    outgoing::Delivered,
    sink::{Promise, Routed, Settle, Sink},
    status::{ChannelCounts, ChannelStatus},
};

/// Class and method of `basic.publish`, which faults of its content blame.
pub(crate) const PUBLISH: MethodIds = (
    ClassId::new(basic::Basic::CLASS_ID),
    MethodId::new(basic::Publish::METHOD_ID),
);

/// Class and method of `basic.ack`.
pub(crate) const ACK: MethodIds = (
    ClassId::new(basic::Basic::CLASS_ID),
    MethodId::new(basic::Ack::METHOD_ID),
);

/// How publishes of a channel are answered.
#[derive(Debug)]
enum Mode {
    /// Not at all.
    Normal,
    /// Each by its number.
    Confirm {
        /// The number of the next publish.
        next: u64,
    },
    /// Together, at the commit.
    Tx(Box<Transaction>),
}

/// Which side has closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Only in the midst of a content, at whose end the connection fails: nobody has opened the channel.
    Unopened,
    Open,
    /// The server sent `channel.close`; everything is ignored until `close-ok`.
    AwaitCloseOk,
}

/// One channel between its open and its close.
#[derive(Debug)]
pub(crate) struct Channel {
    key: ChannelKey,
    state: State,
    mode: Mode,
    content: Content,
    /// What the connection counts for [`Self::content`].
    counted_bytes: u64,
    /// What the connection counts for an open transaction.
    counted_transaction: u64,
    ledger: Ledger,
    consumers: Consumers,
    /// The consumer of replies, which is on no queue.
    reply_consumer: Option<ReplyConsumer>,
    next_consumer: u32,
    prefetch: Prefetch,
    /// A prefetch is never shared.
    has_own_prefetch_only: bool,
    /// The queue an empty name stands for.
    last_queue: Option<ShortString>,
    /// For whoever looks.
    counts: ChannelCounts,
}

/// What a method leads to, beside replies and staged work.
#[derive(Debug)]
pub(crate) enum Next {
    /// The next frame.
    Go,
    /// Somebody has to answer first. Boxed, so that the common cases stay small.
    Call(Box<(Call, Then)>),
    /// The client's `channel.close`.
    Close,
    /// The client's `channel.close-ok`; the number is free.
    Free,
}

impl Next {
    fn call(call: Call, then: Then) -> Self {
        Self::Call(Box::new((call, then)))
    }
}

/// What follows the answer to a channel's call.
#[derive(Debug)]
pub(crate) enum Then {
    /// This reply, or none with nowait.
    Reply(Option<Box<Method>>),
    /// `queue.declare-ok`.
    QueueDeclared { nowait: bool },
    /// `queue.purge-ok`.
    QueuePurged { nowait: bool },
    /// `queue.delete-ok`.
    QueueDeleted { nowait: bool },
    /// `basic.consume-ok`.
    Consuming {
        number: u32,
        tag: ShortString,
        no_ack: bool,
        nowait: bool,
    },
    /// `basic.consume-ok` of the reply consumer.
    ConsumingReplies {
        number: u32,
        tag: ShortString,
        nowait: bool,
    },
    /// `basic.cancel-ok`.
    Cancelled {
        number: u32,
        tag: ShortString,
        nowait: bool,
    },
    /// `basic.get-ok` or `get-empty`.
    Got { no_ack: bool },
    /// `tx.commit-ok`.
    Committed,
    /// `basic.recover-ok`, then the ledger goes back.
    Recovered { has_reply: bool },
}

impl Channel {
    pub(crate) fn new(key: ChannelKey, has_own_prefetch_only: bool) -> Self {
        Self {
            key,
            state: State::Open,
            mode: Mode::Normal,
            content: Content::Idle,
            counted_bytes: 0,
            counted_transaction: 0,
            ledger: Ledger::default(),
            consumers: Consumers::default(),
            reply_consumer: None,
            next_consumer: 1,
            prefetch: Prefetch::default(),
            has_own_prefetch_only,
            last_queue: None,
            counts: ChannelCounts::default(),
        }
    }

    /// A method with a content came for a number that is not open: its content is read before that is a fault.
    pub(crate) fn unopened(key: ChannelKey, method: MethodIds) -> Self {
        let mut channel = Self::new(key, true);
        channel.state = State::Unopened;
        channel.content.begin_unwanted(method);
        channel
    }

    pub(crate) const fn key(&self) -> ChannelKey {
        self.key
    }

    pub(crate) const fn id(&self) -> ChannelId {
        ChannelId::new(self.key.channel)
    }

    /// The channel and every queue that may hold something of it.
    pub(crate) fn end(&self) -> ChannelEnd {
        let unacked = self.ledger.iter().map(|unacked| unacked.at.queue);
        let mut queues: BTreeSet<QueueId> = BTreeSet::new();
        let mut last = None;
        let transaction = self.open_transaction();
        let settled = transaction.into_iter().flat_map(Transaction::queues);
        for queue in self.consumers.queues().chain(unacked).chain(settled) {
            // Neighbours are mostly of the same queue.
            if last.replace(queue) != Some(queue) {
                queues.insert(queue);
            }
        }
        ChannelEnd {
            channel: self.key,
            queues: queues.into_iter().collect(),
        }
    }

    /// What it does at this moment.
    pub(crate) fn status(&self) -> ChannelStatus {
        let channel = self.key;
        let on_queues = self.consumers.iter();
        let replies = self.reply_consumer.iter();
        let consumers = on_queues
            .chain(replies.map(|known| (known.number, &known.tag)))
            .map(|(number, tag)| (ConsumerId { channel, number }, tag.clone()));
        ChannelStatus {
            key: channel,
            is_confirming: matches!(self.mode, Mode::Confirm { .. }),
            is_transactional: matches!(self.mode, Mode::Tx(_)),
            prefetch: self.prefetch.each,
            shared_prefetch: self.prefetch.shared.unwrap_or(0),
            unacked: self.ledger.iter().count() as u64,
            acks_uncommitted: self
                .open_transaction()
                .map_or(0, |transaction| transaction.queues().count() as u64),
            consumers: consumers.collect(),
            counts: self.counts,
        }
    }

    /// Whether the client has opened it and the server has not closed it.
    pub(crate) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// The server closes: what the channel had is released, the number waits for `close-ok`.
    pub(crate) fn begin_close(&mut self) {
        let mut content = std::mem::take(&mut self.content);
        content.discard();
        *self = Self {
            state: State::AwaitCloseOk,
            content,
            counted_bytes: self.counted_bytes,
            counted_transaction: self.counted_transaction,
            ..Self::new(self.key, self.has_own_prefetch_only)
        };
    }

    /// A delivery was made to this channel.
    pub(crate) fn delivered(&mut self, delivered: &Delivered) {
        self.ledger.push(Unsettled {
            tag: delivered.tag,
            at: delivered.at,
            consumer: delivered.consumer,
            takes_room: delivered.takes_room,
        });
    }

    /// Takes everything unacked, in the order of the tags.
    pub(crate) fn take_unacked(&mut self) -> Vec<Unsettled> {
        let mut unacked = Vec::new();
        self.ledger.take_all(|taken| unacked.push(taken));
        unacked
    }

    /// Gives everything of it back.
    pub(crate) fn give_back<S: Sink>(&self, unacked: Vec<Unsettled>, sink: &mut S) {
        let channel = self.key;
        let mut room = 0;
        in_steps(&self.consumers, unacked, |unacked, continues| {
            room += u64::from(unacked.takes_room);
            sink.settle(Settle {
                channel,
                at: unacked.at,
                outcome: Outcome::Returned,
                continues,
            });
        });
        self.give_back_room(room, sink);
    }

    /// Deliveries that took room are done with, so many of them.
    fn give_back_room<S: Sink>(&self, count: u64, sink: &mut S) {
        if self.prefetch.shared.is_some() && count > 0 {
            sink.give_back_room(self.key, count);
        }
    }

    /// A queue was declared; an empty name stands for it from now on.
    pub(crate) fn remember_queue(&mut self, name: ShortString) {
        self.last_queue = Some(name);
    }

    /// A consumer was made.
    pub(crate) fn add_consumer(&mut self, number: u32, tag: ShortString, queue: QueueId) {
        self.consumers.add(number, tag, queue);
    }

    /// A consumer ended, by either side.
    pub(crate) fn remove_consumer(&mut self, number: u32) {
        self.consumers.remove(number);
        self.reply_consumer.take_if(|known| known.number == number);
    }

    /// Bytes of a half-received content, as the connection counts them: what they were, what they are.
    pub(crate) fn recount(&mut self) -> (u64, u64) {
        let held = self.content.held_bytes();
        (std::mem::replace(&mut self.counted_bytes, held), held)
    }

    /// Bytes the connection counts for this channel.
    pub(crate) const fn counted_bytes(&self) -> u64 {
        self.counted_bytes
    }

    /// Bytes of an open transaction, as the connection counts them: what they were, what they are.
    pub(crate) fn recount_transaction(&mut self) -> (u64, u64) {
        let held = self.open_transaction().map_or(0, Transaction::bytes);
        (std::mem::replace(&mut self.counted_transaction, held), held)
    }

    /// Bytes the connection counts for an open transaction.
    pub(crate) const fn counted_transaction(&self) -> u64 {
        self.counted_transaction
    }

    /// Where messages are returned to in a transaction: they leave with its commit.
    pub(crate) fn held_returns(&mut self) -> Option<&mut BytesMut> {
        match &mut self.mode {
            Mode::Tx(transaction) => Some(transaction.returns()),
            Mode::Normal | Mode::Confirm { .. } => None,
        }
    }

    fn open_transaction(&self) -> Option<&Transaction> {
        match &self.mode {
            Mode::Tx(transaction) => Some(transaction),
            Mode::Normal | Mode::Confirm { .. } => None,
        }
    }

    /// The half-received content keeps no read buffer any more.
    pub(crate) fn park(&mut self) {
        self.content.park();
    }

    /// Whether a content is half received.
    pub(crate) const fn is_receiving(&self) -> bool {
        !matches!(self.content, Content::Idle)
    }

    /// A content header came. True when nothing is due behind it.
    pub(crate) fn header(
        &mut self,
        header: ContentHeader,
        size_max: u64,
    ) -> Result<Option<Finished>, ConnectionError> {
        // What an ignored channel sends is read to its end and not kept.
        let size_max = if self.is_open() { size_max } else { 0 };
        self.content.header(header, size_max)
    }

    /// The method whose content is half received.
    pub(crate) const fn receiving(&self) -> MethodIds {
        self.content.method()
    }

    /// Whether a content header may come now.
    pub(crate) const fn expects_header(&self) -> Result<(), ConnectionError> {
        self.content.expects_header()
    }

    /// A body frame came.
    pub(crate) fn body(
        &mut self,
        chunk: &Bytes,
        payload: &[u8],
    ) -> Result<Option<Finished>, ConnectionError> {
        self.content.body(chunk, payload)
    }

    /// A content is complete.
    pub(crate) fn publish<S: Sink>(
        &mut self,
        content: Finished,
        publisher: Publisher<'_>,
        sink: &mut S,
    ) -> Result<Routed, Fault> {
        match self.state {
            State::Open => {}
            State::AwaitCloseOk => return Ok(Routed::Taken(0)),
            State::Unopened => return Err(ConnectionError::ExpectedChannelOpen.into()),
        }
        if content.head.method != PUBLISH {
            return Err(ConnectionError::UnimplementedMethod.into());
        }
        let promise = match &mut self.mode {
            Mode::Normal => Promise::Nothing,
            Mode::Tx(transaction) => {
                let body_bytes = content.body.as_ref().map_or(0, Bytes::len);
                let bytes = content.properties.as_bytes().len() + body_bytes;
                transaction.count_publish(bytes as u64);
                Promise::Commit
            }
            Mode::Confirm { next } => {
                let number = *next;
                *next += 1;
                Promise::Confirm(number)
            }
        };
        let publisher = Publisher {
            reply_address: self.reply_consumer.as_ref().map(|known| &known.address),
            ..publisher
        };
        let routed = publish::publish(content, promise, publisher, sink)?;
        self.counts.publish += 1;
        match routed {
            Routed::Taken(queues) => {
                if let Mode::Tx(transaction) = &mut self.mode {
                    transaction.count_targets(queues);
                }
            }
            Routed::Dropped => self.counts.drop_unroutable += 1,
            Routed::Returned(_) => self.counts.return_unroutable += 1,
        }
        Ok(routed)
    }

    /// Whether a method may come now.
    pub(crate) fn expects_method(&self) -> Result<(), ConnectionError> {
        self.content.expects_method()
    }

    /// A method came.
    pub(crate) fn method<S: Sink>(
        &mut self,
        method: Method,
        sink: &mut S,
        replies: &mut BytesMut,
    ) -> Result<Next, Fault> {
        if self.state == State::AwaitCloseOk {
            return self.closed_method(method, replies);
        }
        match method {
            Method::Basic(method) => self.basic(method, sink, replies),
            Method::Queue(method) => self.queue(method, sink),
            Method::Exchange(method) => Self::exchange(method, sink),
            Method::Channel(method) => self.channel(method, replies),
            Method::Confirm(method) => self.confirm(method, replies),
            Method::Tx(method) => self.tx(&method, sink, replies),
            Method::Access(access::Access::Request(_)) => {
                self.reply(replies, access::RequestOk { ticket: 1 });
                Ok(Next::Go)
            }
            Method::Access(access::Access::RequestOk(_)) | Method::Connection(_) => unimplemented(),
        }
    }

    /// The server has closed this channel and the client may not know it yet.
    fn closed_method(&mut self, method: Method, replies: &mut BytesMut) -> Result<Next, Fault> {
        match method {
            Method::Channel(channel::Channel::CloseOk(_)) => Ok(Next::Free),
            Method::Channel(channel::Channel::Close(_)) => {
                // The closes crossed. Our own still waits for its close-ok.
                self.reply(replies, channel::CloseOk {});
                Ok(Next::Go)
            }
            Method::Channel(channel::Channel::Open(_)) => {
                Err(ConnectionError::SecondChannelOpen.into())
            }
            method if method.has_content() => {
                self.content.begin_unwanted(method.ids());
                Ok(Next::Go)
            }
            Method::Basic(_)
            | Method::Queue(_)
            | Method::Exchange(_)
            | Method::Channel(
                channel::Channel::OpenOk(_)
                | channel::Channel::Flow(_)
                | channel::Channel::FlowOk(_),
            )
            | Method::Confirm(_)
            | Method::Tx(_)
            | Method::Access(_)
            | Method::Connection(_) => Ok(Next::Go),
        }
    }

    fn channel(&mut self, method: channel::Channel, replies: &mut BytesMut) -> Result<Next, Fault> {
        match method {
            channel::Channel::Close(_) => Ok(Next::Close),
            channel::Channel::Flow(channel::Flow { active: true }) => {
                self.reply(replies, channel::FlowOk { active: true });
                Ok(Next::Go)
            }
            channel::Channel::Flow(channel::Flow { active: false }) => {
                Err(ConnectionError::FlowStop.into())
            }
            channel::Channel::Open(_) => Err(ConnectionError::SecondChannelOpen.into()),
            channel::Channel::OpenOk(_)
            | channel::Channel::FlowOk(_)
            | channel::Channel::CloseOk(_) => unimplemented(),
        }
    }

    fn confirm(&mut self, method: confirm::Confirm, replies: &mut BytesMut) -> Result<Next, Fault> {
        match method {
            confirm::Confirm::Select(confirm::Select { nowait }) => {
                match self.mode {
                    Mode::Normal => self.mode = Mode::Confirm { next: 1 },
                    // Asking again does not begin the numbers anew.
                    Mode::Confirm { .. } => {}
                    Mode::Tx(_) => return Err(ChannelError::ConfirmInTx.into()),
                }
                if !nowait {
                    self.reply(replies, confirm::SelectOk {});
                }
                Ok(Next::Go)
            }
            confirm::Confirm::SelectOk(_) => unimplemented(),
        }
    }

    fn basic<S: Sink>(
        &mut self,
        method: basic::Basic,
        sink: &mut S,
        replies: &mut BytesMut,
    ) -> Result<Next, Fault> {
        match method {
            basic::Basic::Publish(publish) => self.content.begin(publish),
            basic::Basic::Ack(basic::Ack {
                delivery_tag,
                multiple,
            }) => {
                self.settle(delivery_tag, multiple, Outcome::Acked, sink)?;
            }
            basic::Basic::Nack(basic::Nack {
                delivery_tag,
                multiple,
                requeue,
            }) => {
                let outcome = if requeue {
                    Outcome::Returned
                } else {
                    Outcome::Discarded
                };
                self.settle(delivery_tag, multiple, outcome, sink)?;
            }
            basic::Basic::Reject(basic::Reject {
                delivery_tag,
                requeue,
            }) => {
                // Unlike a nack it says that the attempt failed.
                let outcome = if requeue {
                    Outcome::Failed
                } else {
                    Outcome::Rejected
                };
                self.settle(delivery_tag, false, outcome, sink)?;
            }
            basic::Basic::Qos(qos) => return self.qos(&qos, replies),
            basic::Basic::Consume(consume) => return self.consume(consume, sink),
            basic::Basic::Cancel(cancel) => return Ok(self.cancel(cancel, replies)),
            basic::Basic::Get(get) => return self.get(get, sink),
            basic::Basic::Recover(basic::Recover { requeue }) => {
                return consuming::recover(requeue, true);
            }
            basic::Basic::RecoverAsync(basic::RecoverAsync { requeue }) => {
                return consuming::recover(requeue, false);
            }
            // Answers a cancel of ours, which expects no answer.
            basic::Basic::CancelOk(_) => {}
            method @ (basic::Basic::Return(_)
            | basic::Basic::Deliver(_)
            | basic::Basic::GetOk(_)) => {
                self.content.begin_unwanted(Method::Basic(method).ids());
            }
            basic::Basic::QosOk(_)
            | basic::Basic::ConsumeOk(_)
            | basic::Basic::GetEmpty(_)
            | basic::Basic::RecoverOk(_)
            | basic::Basic::Credit(_)
            | basic::Basic::CreditOk(_)
            | basic::Basic::CreditDrained(_) => return unimplemented(),
        }
        Ok(Next::Go)
    }

    /// A delivery is done with, or all up to it.
    pub(crate) fn settle<S: Sink>(
        &mut self,
        tag: DeliveryTag,
        multiple: bool,
        outcome: Outcome,
        sink: &mut S,
    ) -> Result<(), ChannelError> {
        let channel = self.key;
        let mode = &mut self.mode;
        let counts = &mut self.counts;
        let mut room = 0;
        let mut settle = |settled: Unsettled, continues: bool| {
            counts.ack += u64::from(outcome == Outcome::Acked);
            match mode {
                Mode::Tx(transaction) => transaction.settle(settled, outcome, continues),
                Mode::Normal | Mode::Confirm { .. } => {
                    room += u64::from(settled.takes_room);
                    sink.settle(Settle {
                        channel,
                        at: settled.at,
                        outcome,
                        continues,
                    });
                }
            }
        };
        let is_known = if !multiple {
            let taken = self.ledger.take(tag);
            taken.map(|taken| settle(taken, false)).is_some()
        } else if outcome == Outcome::Acked {
            let mut continues = false;
            self.ledger.take_multiple(tag, |taken| {
                settle(taken, continues);
                continues = true;
            })
        } else {
            let mut taken = Vec::new();
            let is_known = self.ledger.take_multiple(tag, |each| taken.push(each));
            in_steps(&self.consumers, taken, settle);
            is_known
        };
        self.give_back_room(room, sink);
        if is_known {
            Ok(())
        } else {
            Err(ChannelError::UnknownDeliveryTag { tag })
        }
    }

    /// A get found nothing.
    pub(crate) const fn count_get_empty(&mut self) {
        self.counts.get_empty += 1;
    }

    /// The name as given, or the queue that an empty one stands for.
    fn named_queue(&self, name: &ShortString) -> Result<ShortString, Fault> {
        if name.is_empty() {
            self.last_queue
                .clone()
                .ok_or_else(|| Refusal::NoPreviouslyDeclaredQueue.into())
        } else {
            Ok(name.detach())
        }
    }

    fn reply(&self, replies: &mut BytesMut, method: impl Into<Method>) {
        frame::put_method(replies, self.id(), &method.into());
    }
}

/// Goes through what one method takes back, consumer by consumer, as RabbitMQ does: one step for each, ordered by
/// their tags, behind one for each message that was got. `take` is told whether the step goes on. A consumer that
/// is gone has no tag any more and comes before others.
fn in_steps(
    consumers: &Consumers,
    mut taken: Vec<Unsettled>,
    mut take: impl FnMut(Unsettled, bool),
) {
    let is_one_step = taken
        .windows(2)
        .all(|pair| matches!(pair, [one, next] if one.is_of_step(next)));
    if !is_one_step {
        taken.sort_by_cached_key(|unacked| {
            let tag = consumers.tag_of(unacked.consumer).cloned();
            (unacked.consumer > 0, tag, unacked.consumer)
        });
    }
    let mut before: Option<Unsettled> = None;
    for unacked in taken {
        take(
            unacked,
            before.is_some_and(|before| before.is_of_step(&unacked)),
        );
        before = Some(unacked);
    }
}

/// A method that only a server sends, or not on a channel.
fn unimplemented() -> Result<Next, Fault> {
    Err(ConnectionError::UnimplementedMethod.into())
}
