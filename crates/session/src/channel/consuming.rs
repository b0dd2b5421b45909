//! `basic.qos`, `consume`, `cancel`, `get` and `recover`.

use bytes::BytesMut;
use leveret_core::ids::ConsumerId;
use leveret_wire::{method::basic, value::ShortString};

use super::{Channel, Next, Then, replies::is_reply_to, rights};
use crate::{
    call::{Call, Cancel, Consume, Get},
    error::{ConnectionError, Fault},
    sink::Sink,
};

impl Channel {
    pub(super) fn qos(
        &mut self,
        qos: &basic::Qos,
        replies: &mut BytesMut,
    ) -> Result<(), ConnectionError> {
        let basic::Qos {
            prefetch_size: size,
            prefetch_count,
            global: _,
        } = *qos;
        if size != 0 {
            return Err(ConnectionError::PrefetchSize { size });
        }
        // `global` is taken for a bound per consumer, as RabbitMQ 4.3 does by default.
        self.prefetch = prefetch_count;
        self.reply(replies, basic::QosOk {});
        Ok(())
    }

    pub(super) fn consume<S: Sink>(
        &mut self,
        consume: basic::Consume,
        sink: &mut S,
    ) -> Result<Next, Fault> {
        if self.consumers.has_tag(&consume.consumer_tag) {
            let tag = consume.consumer_tag;
            return Err(ConnectionError::ConsumerTagInUse { tag }.into());
        }
        if is_reply_to(&consume.queue) {
            return self.consume_replies(&consume, sink);
        }
        let basic::Consume {
            queue,
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
        let queue = self.named_queue(&queue)?;
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
            prefetch: self.prefetch,
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
