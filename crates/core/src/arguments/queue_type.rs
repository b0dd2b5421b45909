//! The types of queues, and which arguments each is declared with.

use leveret_wire::value::FieldTable;

/// The argument that says the type.
pub(crate) const QUEUE_TYPE: &str = "x-queue-type";

/// What kind of queue it is: which arguments it takes, and by which rules it works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum QueueType {
    /// Keeps its order, and what else its arguments ask of it.
    #[default]
    Classic,
    /// Always durable, counts attempts, knows priorities without being told.
    Quorum,
    /// A log that is read and not emptied.
    Stream,
}

/// Arguments in the order in which a second declare is compared, which differs from type to type.
const CLASSIC: [&str; 24] = [
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-queue-version",
    "x-single-active-consumer",
    QUEUE_TYPE,
    "x-queue-master-locator",
    "x-queue-leader-locator",
    "x-expiry",
    "x-retry-backoff",
    "x-retry-min",
    "x-retry-max",
    "x-retry-factor",
    "x-retry-jitter",
    "x-retry-delays",
    "x-retry-limit",
    "x-retry-on",
    "x-attempt-counting",
];

const QUORUM: [&str; 30] = [
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-overflow",
    "x-single-active-consumer",
    QUEUE_TYPE,
    "x-quorum-initial-group-size",
    "x-delivery-limit",
    "x-message-ttl",
    "x-queue-leader-locator",
    "x-consumer-disconnected-timeout",
    "x-consumer-timeout",
    "x-delayed-retry-type",
    "x-delayed-retry-min",
    "x-delayed-retry-max",
    "x-expiry",
    "x-retry-backoff",
    "x-retry-min",
    "x-retry-max",
    "x-retry-factor",
    "x-retry-jitter",
    "x-retry-delays",
    "x-retry-limit",
    "x-retry-on",
    "x-attempt-counting",
];

const STREAM: [&str; 7] = [
    "x-max-length-bytes",
    QUEUE_TYPE,
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-stream-filter-size-bytes",
    "x-initial-cluster-size",
    "x-queue-leader-locator",
];

impl QueueType {
    /// Every type there is.
    pub const ALL: [Self; 3] = [Self::Classic, Self::Quorum, Self::Stream];

    /// The word in `x-queue-type`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
            Self::Stream => "stream",
        }
    }

    /// The type of this name, in its exact case.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name().as_bytes() == name)
    }

    /// RabbitMQ's module for it, as some texts name the type.
    #[must_use]
    pub const fn module(self) -> &'static str {
        match self {
            Self::Classic => "rabbit_classic_queue",
            Self::Quorum => "rabbit_quorum_queue",
            Self::Stream => "rabbit_stream_queue",
        }
    }

    /// The type that arguments name which were checked when a queue was declared; classic if they leave it open.
    #[must_use]
    pub fn of(arguments: &FieldTable) -> Self {
        arguments
            .get(QUEUE_TYPE.as_bytes())
            .and_then(|value| Self::from_name(value.as_bytes()?))
            .unwrap_or_default()
    }

    /// The arguments it is declared with, in the order in which a second declare is compared.
    #[must_use]
    pub const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Classic => &CLASSIC,
            Self::Quorum => &QUORUM,
            Self::Stream => &STREAM,
        }
    }

    /// Whether it is declared with this argument.
    #[must_use]
    pub fn takes(self, key: &[u8]) -> bool {
        self.arguments().iter().any(|known| known.as_bytes() == key)
    }

    /// Whether every queue of the type outlives its declaring connection, its consumers and a restart.
    #[must_use]
    pub const fn is_lasting(self) -> bool {
        match self {
            Self::Classic => false,
            Self::Quorum | Self::Stream => true,
        }
    }
}
