//! Replies without a queue: the consumer of `amq.rabbitmq.reply-to`.
//!
//! A channel has at most one. Requests that name it as their reply-to carry its address instead, which
//! nobody can guess; what is published to the address goes straight to the consumer.

use leveret_core::ids::ConsumerId;
use leveret_wire::{method::basic, value::ShortString};

use super::{Channel, Next, Then, publish::REPLY_TO};
use crate::{
    call::Call,
    error::{ChannelError, Fault},
    sink::Sink,
};

/// The consumer of replies.
#[derive(Debug)]
pub(super) struct ReplyConsumer {
    pub(super) number: u32,
    pub(super) tag: ShortString,
    pub(super) address: ShortString,
}

/// Whether it is the name that stands for the replies of a channel.
pub(super) fn is_reply_to(queue: &ShortString) -> bool {
    queue.as_bytes() == REPLY_TO
}

impl Channel {
    pub(super) fn consume_replies<S: Sink>(
        &mut self,
        consume: &basic::Consume,
        sink: &mut S,
    ) -> Result<Next, Fault> {
        if !consume.no_ack {
            return Err(ChannelError::ReplyConsumerAcks.into());
        }
        if self.reply_consumer.is_some() {
            return Err(ChannelError::ReplyConsumerSet.into());
        }
        let tag = super::consuming::tag(&consume.consumer_tag, sink);
        let number = self.next_consumer;
        self.next_consumer += 1;
        let consumer = ConsumerId {
            channel: self.key,
            number,
        };
        let nowait = consume.nowait;
        Ok(Next::call(
            Call::ConsumeReplies(consumer),
            Then::ConsumingReplies {
                number,
                tag,
                nowait,
            },
        ))
    }

    /// The consumer of replies was made.
    pub(crate) fn set_reply_consumer(
        &mut self,
        number: u32,
        tag: ShortString,
        address: ShortString,
    ) {
        self.reply_consumer = Some(ReplyConsumer {
            number,
            tag,
            address,
        });
    }

    /// Whether the tag is that of the reply consumer.
    pub(super) fn is_reply_tag(&self, tag: &ShortString) -> bool {
        self.reply_consumer
            .as_ref()
            .is_some_and(|known| known.tag == *tag)
    }

    /// The call that ends the consumer of replies, if the tag is its own.
    pub(super) fn cancel_replies(&self, tag: &ShortString) -> Option<(u32, Call)> {
        let number = self
            .reply_consumer
            .as_ref()
            .filter(|known| known.tag == *tag)?
            .number;
        let channel = self.key;
        Some((number, Call::CancelReplies(ConsumerId { channel, number })))
    }
}
