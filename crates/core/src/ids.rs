//! Logical names of the things a broker keeps: plain numbers that could be written to bytes.
//!
//! Nothing here is a handle. Numbers come from counters that only grow, so that none is ever
//! given twice, also after a restart where the thing outlives one.

use std::{fmt, ops::RangeInclusive};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(u64);

        impl $name {
            /// Wraps a number that came from the counter, a store or a test.
            #[must_use]
            pub const fn new(number: u64) -> Self {
                Self(number)
            }

            /// The bare number.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

number! {
    /// One queue, from declare to delete. A later queue of the same name has another id.
    QueueId
}
number! {
    /// A message's position in one queue. Never on the wire; a delivery tag is something else.
    Seq
}
number! {
    /// One client connection of this run of the node.
    ConnectionId
}
number! {
    /// Milliseconds since 1970, taken once where a command enters.
    Timestamp
}

/// One handing out of a message. When the same message is handed out again, it is another one: what is said of
/// an earlier one does not touch it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Handout(u32);

impl Handout {
    /// Wraps a number that came from a queue or a test.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The next one of the same queue. After four billion the numbers begin anew: nobody holds a
    /// delivery for so long.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// How many were handed out since that earlier one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

/// Where a message in somebody's hands comes from: what a delivery tag stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct HandedOut {
    /// The queue.
    pub queue: QueueId,
    /// Its position there.
    pub seq: Seq,
    /// Which handing out of it.
    pub handout: Handout,
}

impl Seq {
    /// The position behind this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Timestamp {
    /// A moment that does not come.
    pub const NEVER: Self = Self(u64::MAX);

    /// This moment, `millis` milliseconds later; stops at the end of time instead of wrapping.
    #[must_use]
    pub const fn plus_millis(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }
}

/// One channel between its open and its close.
///
/// The channel number alone is not enough: it is free for the next `channel.open` at once, and what
/// still comes back for the earlier channel must not meet the later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelKey {
    /// The connection it runs on.
    pub connection: ConnectionId,
    /// The number on the wire, 1 to 65535.
    pub channel: u16,
    /// Which opening on this connection, counted from 1.
    pub opening: u32,
}

/// One consumer between `basic.consume` and its cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId {
    /// The channel that consumes.
    pub channel: ChannelKey,
    /// Which consumer of this channel, counted from 1. The tag is a name for it on the wire.
    pub number: u32,
}

impl ChannelKey {
    /// Where the consumers of the channel stand among those of all.
    #[must_use]
    pub const fn consumers(self) -> RangeInclusive<ConsumerId> {
        let first = ConsumerId {
            channel: self,
            number: 0,
        };
        let last = ConsumerId {
            channel: self,
            number: u32::MAX,
        };
        RangeInclusive::new(first, last)
    }
}

/// Channels that end together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channels {
    One(ChannelKey),
    AllOf(ConnectionId),
}

impl Channels {
    pub(crate) fn has(self, channel: ChannelKey) -> bool {
        match self {
            Self::One(one) => channel == one,
            Self::AllOf(connection) => channel.connection == connection,
        }
    }

    /// Where they stand.
    pub(crate) const fn keys(self) -> RangeInclusive<ChannelKey> {
        let consumers = self.consumers();
        RangeInclusive::new(consumers.start().channel, consumers.end().channel)
    }

    /// Where their consumers stand.
    pub(crate) const fn consumers(self) -> RangeInclusive<ConsumerId> {
        let connection = match self {
            Self::One(one) => return one.consumers(),
            Self::AllOf(connection) => connection,
        };
        let first = ChannelKey {
            connection,
            channel: 0,
            opening: 0,
        };
        let last = ChannelKey {
            connection,
            channel: u16::MAX,
            opening: u32::MAX,
        };
        RangeInclusive::new(*first.consumers().start(), *last.consumers().end())
    }
}
