//! Class exchange: exchanges and the bindings between them.

use crate::value::{FieldTable, ShortString};

amqp_class! {
    /// Exchanges and the bindings between them.
    Exchange = 40 {
        /// Makes an exchange, or makes sure that it is as described.
        Declare = 10, "exchange.declare" {
            /// An access ticket, ignored.
            reserved_1: u16,
            exchange: ShortString,
            /// Such as direct or topic; `type` in the spec, which is a word of Rust.
            kind: ShortString,
            /// Only asks whether it exists.
            passive: bool,
            durable: bool,
            auto_delete: bool,
            /// Only other exchanges may publish to it.
            internal: bool,
            nowait: bool,
            arguments: FieldTable,
        }
        /// The exchange is there.
        DeclareOk = 11, "exchange.declare-ok" {}
        /// Removes an exchange.
        Delete = 20, "exchange.delete" {
            /// An access ticket, ignored.
            reserved_1: u16,
            exchange: ShortString,
            if_unused: bool,
            nowait: bool,
        }
        /// The exchange is gone.
        DeleteOk = 21, "exchange.delete-ok" {}
        /// Lets messages pass from one exchange to another.
        Bind = 30, "exchange.bind" {
            /// An access ticket, ignored.
            reserved_1: u16,
            destination: ShortString,
            source: ShortString,
            routing_key: ShortString,
            nowait: bool,
            arguments: FieldTable,
        }
        /// The binding is there.
        BindOk = 31, "exchange.bind-ok" {}
        /// Ends a binding between two exchanges.
        Unbind = 40, "exchange.unbind" {
            /// An access ticket, ignored.
            reserved_1: u16,
            destination: ShortString,
            source: ShortString,
            routing_key: ShortString,
            nowait: bool,
            arguments: FieldTable,
        }
        /// The binding is gone. The number is not the one behind [`Unbind`].
        UnbindOk = 51, "exchange.unbind-ok" {}
    }
}
