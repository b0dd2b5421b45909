//! Numbers that name something on the wire, each a type of its own so that none is taken for another.

use std::fmt;

macro_rules! wire_number {
    ($(#[$doc:meta])* $Name:ident($repr:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $Name($repr);

        impl $Name {
            /// Wraps the plain number.
            pub const fn new(number: $repr) -> Self {
                Self(number)
            }

            /// The plain number.
            pub const fn get(self) -> $repr {
                self.0
            }

            /// Reads the number as it stands on the wire, high byte first.
            pub const fn from_be_bytes(bytes: [u8; size_of::<$repr>()]) -> Self {
                Self(<$repr>::from_be_bytes(bytes))
            }

            /// The number as it stands on the wire, high byte first.
            pub const fn to_be_bytes(self) -> [u8; size_of::<$repr>()] {
                self.0.to_be_bytes()
            }
        }

        impl From<$repr> for $Name {
            fn from(number: $repr) -> Self {
                Self(number)
            }
        }

        impl fmt::Display for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

wire_number! {
    /// A channel of one connection. Number 0 is the connection itself.
    ChannelId(u16)
}

wire_number! {
    /// Counts the deliveries of one channel from 1. In an acknowledgement with `multiple`, 0 means every unacked one.
    DeliveryTag(u64)
}

wire_number! {
    /// A class of methods, such as 60 for basic.
    ClassId(u16)
}

wire_number! {
    /// A method within its class, such as 40 for publish in basic.
    MethodId(u16)
}

impl ChannelId {
    /// The channel that carries the methods of class connection, and heartbeats.
    pub const CONNECTION: Self = Self(0);

    /// Whether this is channel 0.
    pub const fn is_connection(self) -> bool {
        self.0 == 0
    }
}
