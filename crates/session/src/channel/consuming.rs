//! `basic.qos`, `consume`, `cancel`, `get` and `recover`.

use bytes::BytesMut;
use leveret_core::ids::ConsumerId;
use leveret_wire::{method::basic, value::ShortString};

use super::{Channel, Next, Then, replies::is_reply_to, rights, transaction::Transaction};
use crate::{
    call::{Call, Cancel, Consume, Get, SharePrefetch},
    error::{ConnectionError, Fault},
    sink::Sink,
};

/// What `basic.qos` said so far; 0 is no bound.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Prefetch {
    /// For each consumer that comes from now on.
    pub(super) each: u16,
    /// The same for those whose queue cannot have part in a shared bound: what was said last, shared or not.
    alone: u16,
    /// For all consumers together.
    pub(super) shared: Option<u16>,
    /// There was such a bound at some time: queues of consumers ask before they hand out.
    was_shared: bool,
}

impl Channel {
    pub(super) fn qos(&mut self, qos: &basic::Qos, replies: &mut BytesMut) -> Result<Next, Fault> {
        let basic::Qos {
            prefetch_size: size,
            prefetch_count: count,
            global,
        } = *qos;
        if size != 0 {
            return Err(ConnectionError::PrefetchSize { size }.into());
        }
        let before = self.prefetch.shared;
        self.prefetch.alone = count;
        if global && !self.has_own_prefetch_only {
            self.prefetch.shared = Some(count).filter(|count| *count > 0);
            self.prefetch.was_shared = true;
        } else {
            self.prefetch.each = count;
            // A bound for each consumer ends the one for all.
            self.prefetch.shared = None;
        }
        if before == self.prefetch.shared {
            self.reply(replies, basic::QosOk {});
            return Ok(Next::Go);
        }
        let uncommitted = self.open_transaction();
        let uncommitted = uncommitted.map_or(0, Transaction::settled_room);
        let held = self.ledger.iter().filter(|held| held.takes_room).count() as u64;
        let call = Call::SharePrefetch(SharePrefetch {
            channel: self.key,
            max: self.prefetch.shared,
            held: held + uncommitted,
            queues: self.consumers.queues().collect(),
        });
        let reply = Box::new(basic::QosOk {}.into());
        Ok(Next::call(call, Then::Reply(Some(reply))))
    }

    pub(super) fn consume<S: Sink>(
        &mut self,
        consume: basic::Consume,
        sink: &mut S,
    ) -> Result<Next, Fault> {
        // What an empty name stands for is asked before anything else.
        let queue = self.named_queue(&consume.queue)?;
        if self.consumers.has_tag(&consume.consumer_tag) {
            let tag = consume.consumer_tag;
            return Err(ConnectionError::ConsumerTagInUse { tag }.into());
        }
        if is_reply_to(&queue) {
            return self.consume_replies(&consume, sink);
        }
        let basic::Consume {
            consumer_tag,
            no_ack,
            exclusive,
            nowait,
            arguments,
            ..
        } = consume;
        if self.is_reply_tag(&consumer_tag) {
            return Err(ConnectionError::ConsumerTagInUse { tag: consumer_tag }.into());
        }
        rights::queue_read(&queue, sink)?;
        let tag = tag(&consumer_tag, sink);
        let number = self.next_consumer;
        self.next_consumer += 1;
        let call = Call::Consume(Consume {
            consumer: ConsumerId {
                channel: self.key,
                number,
            },
            queue,
            tag: tag.clone(),
            no_ack,
            exclusive,
            prefetch: self.prefetch.each,
            shared_else: Some(self.prefetch.alone).filter(|_| self.prefetch.was_shared),
            arguments: arguments.detach(),
        });
        Ok(Next::call(
            call,
            Then::Consuming {
                number,
                tag,
                no_ack,
                nowait,
            },
        ))
    }

    pub(super) fn cancel(&self, cancel: basic::Cancel, replies: &mut BytesMut) -> Next {
        let basic::Cancel {
            consumer_tag: tag,
            nowait,
        } = cancel;
        let queue_consumer = || {
            let (number, queue) = self.consumers.find(&tag)?;
            let channel = self.key;
            let consumer = ConsumerId { channel, number };
            Some((number, Call::Cancel(Cancel { consumer, queue })))
        };
        let found = queue_consumer().or_else(|| self.cancel_replies(&tag));
        let Some((number, call)) = found else {
            if !nowait {
                self.reply(replies, basic::CancelOk { consumer_tag: tag });
            }
            return Next::Go;
        };
        let then = Then::Cancelled {
            number,
            tag: tag.detach(),
            nowait,
        };
        Next::call(call, then)
    }

    pub(super) fn get<S: Sink>(&self, get: basic::Get, sink: &mut S) -> Result<Next, Fault> {
        let basic::Get { queue, no_ack, .. } = get;
        let queue = self.named_queue(&queue)?;
        rights::queue_read(&queue, sink)?;
        let call = Call::Get(Get {
            channel: self.key,
            queue,
            no_ack,
        });
        Ok(Next::call(call, Then::Got { no_ack }))
    }
}

/// A consumer's tag, given or made up.
pub(super) fn tag<S: Sink>(given: &ShortString, sink: &mut S) -> ShortString {
    if given.is_empty() {
        sink.generate_name("amq.ctag-")
    } else {
        given.detach()
    }
}

/// Everything unacked goes back, once what was delivered is known.
pub(super) fn recover(requeue: bool, has_reply: bool) -> Result<Next, Fault> {
    if requeue {
        Ok(Next::call(Call::CatchUp, Then::Recovered { has_reply }))
    } else {
        Err(ConnectionError::RecoverWithoutRequeue.into())
    }
}
