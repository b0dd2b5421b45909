//! Class basic: publish, deliver, acknowledge.

use crate::ids::DeliveryTag;
use crate::value::{FieldTable, ShortString};

amqp_class! {
    /// Messages: publish, deliver, acknowledge.
    Basic = 60 {
        /// Bounds how many messages may be unacked.
        Qos = 10, "basic.qos" {
            /// In octets; RabbitMQ takes only 0, no bound.
            prefetch_size: u32,
            prefetch_count: u16,
            global: bool,
        }
        /// The bound holds.
        QosOk = 11, "basic.qos-ok" {}
        /// Starts a consumer.
        Consume = 20, "basic.consume" {
            /// An access ticket, ignored.
            reserved_1: u16,
            queue: ShortString,
            /// Empty to let the broker choose one.
            consumer_tag: ShortString,
            no_local: bool,
            no_ack: bool,
            exclusive: bool,
            nowait: bool,
            arguments: FieldTable,
        }
        /// The consumer is there; deliveries follow.
        ConsumeOk = 21, "basic.consume-ok" { consumer_tag: ShortString }
        /// Ends a consumer. The broker sends it too, when the queue is gone.
        Cancel = 30, "basic.cancel" { consumer_tag: ShortString, nowait: bool }
        /// The consumer is gone.
        CancelOk = 31, "basic.cancel-ok" { consumer_tag: ShortString }
        /// A client hands over a message; a content header and body frames follow.
        Publish = 40, "basic.publish", with content {
            /// An access ticket, ignored.
            reserved_1: u16,
            exchange: ShortString,
            routing_key: ShortString,
            mandatory: bool,
            immediate: bool,
        }
        /// A mandatory message found no queue and is handed back.
        Return = 50, "basic.return", with content {
            reply_code: u16,
            reply_text: ShortString,
            exchange: ShortString,
            routing_key: ShortString,
        }
        /// A message for a consumer.
        Deliver = 60, "basic.deliver", with content {
            consumer_tag: ShortString,
            delivery_tag: DeliveryTag,
            redelivered: bool,
            exchange: ShortString,
            routing_key: ShortString,
        }
        /// Asks for one message.
        Get = 70, "basic.get" {
            /// An access ticket, ignored.
            reserved_1: u16,
            queue: ShortString,
            no_ack: bool,
        }
        /// The message that was asked for.
        GetOk = 71, "basic.get-ok", with content {
            delivery_tag: DeliveryTag,
            redelivered: bool,
            exchange: ShortString,
            routing_key: ShortString,
            /// How many messages are still ready.
            message_count: u32,
        }
        /// There is none.
        GetEmpty = 72, "basic.get-empty" {
            /// A leftover of older versions.
            cluster_id: ShortString,
        }
        /// This delivery is done; with `multiple` all up to it, and tag 0 then means every unacked one. From the broker it
        /// is a publisher confirm.
        Ack = 80, "basic.ack" { delivery_tag: DeliveryTag, multiple: bool }
        /// This delivery was not wanted.
        Reject = 90, "basic.reject" { delivery_tag: DeliveryTag, requeue: bool }
        /// As [`Recover`], without an answer.
        RecoverAsync = 100, "basic.recover-async" { requeue: bool }
        /// Asks for everything unacked to be delivered again.
        Recover = 110, "basic.recover" { requeue: bool }
        /// The redeliveries follow.
        RecoverOk = 111, "basic.recover-ok" {}
        /// As [`Reject`], with `multiple` as in [`Ack`]. From the broker: a message was not taken.
        Nack = 120, "basic.nack" { delivery_tag: DeliveryTag, multiple: bool, requeue: bool }
        /// Gives a consumer credit. Only used inside RabbitMQ; read here so that it can be refused by name.
        Credit = 200, "basic.credit" { consumer_tag: ShortString, credit: u32, drain: bool }
        /// Answers [`Credit`].
        CreditOk = 201, "basic.credit-ok" { available: u32 }
        /// Tells of credit that ran out unused.
        CreditDrained = 202, "basic.credit-drained" {
            consumer_tag: ShortString,
            credit_drained: u32,
        }
    }
}
