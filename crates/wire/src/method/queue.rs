//! Class queue: queues and their bindings.

use crate::value::{FieldTable, ShortString};

amqp_class! {
    /// Queues and their bindings.
    Queue = 50 {
        /// Makes a queue, or makes sure that it is as described.
        Declare = 10, "queue.declare" {
            /// An access ticket, ignored.
            reserved_1: u16,
            /// Empty to let the broker choose a name.
            queue: ShortString,
            /// Only asks whether it exists.
            passive: bool,
            durable: bool,
            exclusive: bool,
            auto_delete: bool,
            nowait: bool,
            arguments: FieldTable,
        }
        /// The queue is there.
        DeclareOk = 11, "queue.declare-ok" {
            queue: ShortString,
            /// How many messages are ready.
            message_count: u32,
            consumer_count: u32,
        }
        /// Lets messages pass from an exchange to the queue.
        Bind = 20, "queue.bind" {
            /// An access ticket, ignored.
            reserved_1: u16,
            queue: ShortString,
            exchange: ShortString,
            routing_key: ShortString,
            nowait: bool,
            arguments: FieldTable,
        }
        /// The binding is there.
        BindOk = 21, "queue.bind-ok" {}
        /// Drops all ready messages.
        Purge = 30, "queue.purge" {
            /// An access ticket, ignored.
            reserved_1: u16,
            queue: ShortString,
            nowait: bool,
        }
        /// They are gone.
        PurgeOk = 31, "queue.purge-ok" {
            /// How many there were.
            message_count: u32,
        }
        /// Removes a queue with its messages.
        Delete = 40, "queue.delete" {
            /// An access ticket, ignored.
            reserved_1: u16,
            queue: ShortString,
            if_unused: bool,
            if_empty: bool,
            nowait: bool,
        }
        /// The queue is gone.
        DeleteOk = 41, "queue.delete-ok" {
            /// How many ready messages went with it.
            message_count: u32,
        }
        /// Ends a binding. Alone among its kind it has no `nowait`.
        Unbind = 50, "queue.unbind" {
            /// An access ticket, ignored.
            reserved_1: u16,
            queue: ShortString,
            exchange: ShortString,
            routing_key: ShortString,
            arguments: FieldTable,
        }
        /// The binding is gone.
        UnbindOk = 51, "queue.unbind-ok" {}
    }
}
