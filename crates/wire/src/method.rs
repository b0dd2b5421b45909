//! Methods: what client and broker ask of each other, each with its arguments.
//!
//! ```text
//!   class (2)   method (2)   arguments, one after the other; neighbouring bits share an octet, the first one lowest
//! ```
//!
//! Every class is one table in a file below; [`Method`] is all of them together.

use bytes::{BufMut, Bytes, BytesMut};

use crate::ids::{ClassId, MethodId};
use crate::octets_text::numbers_text;
use crate::value::ValueError;

mod argument;
#[macro_use]
mod amqp_class;
mod deliver;

pub mod access;
pub mod basic;
pub mod channel;
pub mod confirm;
pub mod connection;
pub mod exchange;
pub mod queue;
pub mod tx;

pub use amqp_class::{ArgumentDefinition, MethodDefinition};
pub use deliver::put_deliver;

use argument::Arguments;

/// How many octets of malformed arguments are printed. RabbitMQ prints all of them and then cuts the reply text to 255
/// characters, which fewer octets than these fill.
const QUOTED_MAX: usize = 255;

/// Why the payload of a method frame is not a method. Every variant closes the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MethodError {
    /// No method has these ids.
    Unknown {
        /// The class that was named.
        class: ClassId,
        /// The method that was named.
        method: MethodId,
    },
    /// The arguments are too short, or bytes are left behind them.
    Malformed {
        /// The class of the method.
        class: ClassId,
        /// The method within it.
        method: MethodId,
        /// What stands behind the ids; RabbitMQ quotes it.
        arguments: Bytes,
    },
    /// A short string that is not UTF-8, in a method where it has to be.
    MalformedUtf8 {
        /// The class of the method.
        class: ClassId,
        /// The method within it.
        method: MethodId,
    },
    /// A field table that cannot be read: an unknown letter, a length beyond the end, too deep or too long.
    Table {
        /// The class of the method.
        class: ClassId,
        /// The method within it.
        method: MethodId,
        /// What is wrong with the table.
        error: ValueError,
    },
}

impl MethodError {
    /// The ids of the method that could not be read.
    pub const fn ids(&self) -> (ClassId, MethodId) {
        match self {
            Self::Unknown { class, method }
            | Self::Malformed { class, method, .. }
            | Self::MalformedUtf8 { class, method }
            | Self::Table { class, method, .. } => (*class, *method),
        }
    }
}

impl std::fmt::Display for MethodError {
    /// What RabbitMQ says behind `FRAME_ERROR - `; where it says nothing, in words of the same kind.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown { class, method } => {
                write!(f, "unknown method {method} of class {class}")
            }
            Self::Malformed { arguments, .. } => {
                let quoted = arguments.get(..QUOTED_MAX).unwrap_or(arguments);
                write!(f, "cannot decode {}", numbers_text(quoted))
            }
            Self::MalformedUtf8 { .. } => f.write_str("Malformed UTF-8 in shortstr"),
            Self::Table { error, .. } => write!(f, "cannot decode field table: {error}"),
        }
    }
}

impl std::error::Error for MethodError {}

/// All classes as one enum: reading, writing and questions go on to the class.
macro_rules! methods {
    ($($(#[$doc:meta])* $Class:ident($path:ty),)*) => {
        /// Any method of any class.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Method {
            $($(#[$doc])* $Class($path),)*
        }

        impl Method {
            /// Every method of every class, with its arguments.
            pub fn definitions() -> impl Iterator<Item = &'static MethodDefinition> {
                [$(<$path>::DEFINITIONS),*].into_iter().flatten()
            }

            /// The numbers of the class and of the method within it.
            pub const fn ids(&self) -> (ClassId, MethodId) {
                match self {
                    $(Self::$Class(method) => (ClassId::new(<$path>::CLASS_ID), method.method_id()),)*
                }
            }

            /// The name with its class, such as `basic.publish`.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$Class(method) => method.name(),)*
                }
            }

            /// Whether a content header and a body follow.
            pub const fn has_content(&self) -> bool {
                match self {
                    $(Self::$Class(method) => method.has_content(),)*
                }
            }

            /// Writes ids and arguments: the payload of a method frame.
            pub fn encode(&self, out: &mut BytesMut) {
                let (class, method) = self.ids();
                out.put_u16(class.get());
                out.put_u16(method.get());
                match self {
                    $(Self::$Class(method) => method.write(out),)*
                }
            }

            fn read(class: ClassId, arguments: Arguments<'_>) -> Result<Self, MethodError> {
                match class.get() {
                    $(<$path>::CLASS_ID => <$path>::read(arguments),)*
                    _ => Err(arguments.unknown()),
                }
            }
        }
    };
}

methods! {
    /// The connection itself: login, limits, closing.
    Connection(connection::Connection),
    /// Opening and closing channels.
    Channel(channel::Channel),
    /// What is left of access tickets.
    Access(access::Access),
    /// Exchanges and the bindings between them.
    Exchange(exchange::Exchange),
    /// Queues and their bindings.
    Queue(queue::Queue),
    /// Messages.
    Basic(basic::Basic),
    /// Publisher confirms.
    Confirm(confirm::Confirm),
    /// Transactions.
    Tx(tx::Tx),
}

impl Method {
    /// Reads the payload of a method frame. Strings become slices of the chunk.
    ///
    /// # Panics
    ///
    /// When `payload` is not a part of `chunk`.
    pub fn decode(chunk: &Bytes, payload: &[u8]) -> Result<Self, MethodError> {
        let Some((&[c1, c0, m1, m0], arguments)) = payload.split_first_chunk() else {
            return Err(without_ids(chunk, payload));
        };
        let class = ClassId::from_be_bytes([c1, c0]);
        let method = MethodId::from_be_bytes([m1, m0]);
        Self::read(class, Arguments::new(chunk, class, method, arguments))
    }
}

#[cold]
fn without_ids(chunk: &Bytes, payload: &[u8]) -> MethodError {
    MethodError::Malformed {
        class: ClassId::default(),
        method: MethodId::default(),
        arguments: chunk.slice_ref(payload),
    }
}
