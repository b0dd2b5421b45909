//! What is kept about vhosts, exchanges, queues, bindings and users, and how it changes.
//!
//! A record is the whole truth about one object; `store` writes it, the routing tables are made from it.

mod access;

use leveret_wire::value::{FieldTable, FieldValue, ShortString};

pub use self::access::{
    HashAlgorithm, ParameterRecord, PermissionRecord, TopicPermissionRecord, UserRecord,
    VhostRecord, limit,
};

use crate::{
    arguments::{QUEUE_TYPE, QueueType},
    ids::{ConnectionId, QueueId, Seq, Timestamp},
};

/// How an exchange chooses among its bindings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExchangeKind {
    /// Binding key equals routing key.
    Direct,
    /// Every binding.
    Fanout,
    /// Binding key is a pattern of words.
    Topic,
    /// Binding arguments are compared with the message's headers.
    Headers,
    /// One destination by a hash of the message; binding keys are weights.
    ConsistentHash,
    /// One destination by a hash of the routing keys, modulo the number of destinations.
    ModulusHash,
    /// The destination of one binding by chance.
    Random,
    /// The same for queues of this node only.
    LocalRandom,
    /// Every binding; the newest messages are kept for bindings to come.
    RecentHistory,
}

impl ExchangeKind {
    const ALL: [Self; 9] = [
        Self::Direct,
        Self::Fanout,
        Self::Topic,
        Self::Headers,
        Self::ConsistentHash,
        Self::ModulusHash,
        Self::Random,
        Self::LocalRandom,
        Self::RecentHistory,
    ];

    /// The name in `exchange.declare`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
            Self::Headers => "headers",
            Self::ConsistentHash => "x-consistent-hash",
            Self::ModulusHash => "x-modulus-hash",
            Self::Random => "x-random",
            Self::LocalRandom => "x-local-random",
            Self::RecentHistory => "x-recent-history",
        }
    }

    /// The kind with this name, if there is one.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name().as_bytes() == name)
    }
}

/// One exchange.
#[derive(Debug, Clone, PartialEq)]
pub struct ExchangeRecord {
    /// Its vhost.
    pub vhost: ShortString,
    /// Its name; unique in the vhost. Empty for the default exchange.
    pub name: ShortString,
    /// How it routes; see [`Self::type_name`].
    pub kind: ExchangeKind,
    /// Outlives a restart.
    pub durable: bool,
    /// Goes with its last binding as a source.
    pub auto_delete: bool,
    /// Clients may bind it but not publish to it.
    pub internal: bool,
    /// Arguments of the declare, also those nobody knows.
    pub arguments: FieldTable,
    /// It may keep messages until their time.
    pub delay: Option<DelayRecord>,
}

/// What an exchange has that keeps messages until their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayRecord {
    /// The number its messages are stored under, from the counter of queues.
    pub id: QueueId,
    /// It was declared as [`DELAYED_MESSAGE`]; else by an argument.
    pub by_type: bool,
}

/// The type of an exchange that delays, and routes as another type does.
pub const DELAYED_MESSAGE: &str = "x-delayed-message";

impl ExchangeRecord {
    /// Whether exchanges of this type can be declared.
    #[must_use]
    pub fn is_type(name: &[u8]) -> bool {
        ExchangeKind::from_name(name).is_some() || name == DELAYED_MESSAGE.as_bytes()
    }

    /// The name of the type it was declared with.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self.delay {
            Some(DelayRecord { by_type: true, .. }) => DELAYED_MESSAGE,
            Some(_) | None => self.kind.name(),
        }
    }

    /// How an exchange routes that was declared as [`DELAYED_MESSAGE`] with these arguments.
    #[must_use]
    pub fn delayed_kind(arguments: &FieldTable) -> Option<ExchangeKind> {
        ExchangeKind::from_name(arguments.get(b"x-delayed-type")?.as_bytes()?)
    }
}

/// One queue; its messages are elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueRecord {
    /// Its number, never given twice.
    pub id: QueueId,
    /// Its vhost.
    pub vhost: ShortString,
    /// Its name; unique in the vhost.
    pub name: ShortString,
    /// Outlives a restart. An exclusive queue never does.
    pub durable: bool,
    /// Only this connection may use it, and it ends with it.
    pub exclusive_to: Option<ConnectionId>,
    /// Goes with its last consumer.
    pub auto_delete: bool,
    /// What it is. Its arguments may leave that open.
    pub queue_type: QueueType,
    /// Arguments of the declare as they were sent, also those nobody knows; with a type, if none was named.
    pub arguments: FieldTable,
}

impl QueueRecord {
    /// Its arguments as they take effect: with the type that it is of, also where its declare left that open.
    #[must_use]
    pub fn typed_arguments(&self) -> FieldTable {
        let mut arguments = self.arguments.clone();
        let key = ShortString::from_static(QUEUE_TYPE);
        arguments.set(key, FieldValue::text(self.queue_type.name()));
        arguments
    }
}

/// Where a binding leads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Destination {
    /// A queue of the same vhost.
    Queue(ShortString),
    /// Another exchange of the same vhost.
    Exchange(ShortString),
}

/// One binding. All fields together are its identity.
#[derive(Debug, Clone, PartialEq)]
pub struct BindingRecord {
    /// Its vhost.
    pub vhost: ShortString,
    /// The exchange that is asked.
    pub source: ShortString,
    /// Where a matching message goes.
    pub destination: Destination,
    /// The binding key.
    pub key: ShortString,
    /// Arguments, compared with their types; their order does not matter.
    pub arguments: FieldTable,
}

/// One change of what outlives a restart. A list of them is applied as a whole or not at all.
#[derive(Debug, Clone, PartialEq)]
pub enum MetaChange {
    /// A vhost exists from now on, or with other settings.
    PutVhost(VhostRecord),
    /// A vhost is gone; what was in it is listed on its own.
    DeleteVhost(ShortString),
    /// An exchange exists from now on, or with other properties.
    PutExchange(ExchangeRecord),
    /// An exchange is gone; its bindings are listed on their own.
    DeleteExchange {
        /// Its vhost.
        vhost: ShortString,
        /// Its name.
        name: ShortString,
    },
    /// A queue exists from now on.
    PutQueue(QueueRecord),
    /// A queue and all its messages are gone.
    DeleteQueue(QueueId),
    /// The queue ends with the process; what it stores is freed at the next start.
    FreeAtStart(QueueId),
    /// A binding exists from now on.
    PutBinding(BindingRecord),
    /// A binding is gone.
    DeleteBinding(BindingRecord),
    /// A user exists from now on, or with another password or tags.
    PutUser(UserRecord),
    /// A user is gone.
    DeleteUser(ShortString),
    /// A user may do this from now on.
    PutPermission(PermissionRecord),
    /// A user may do nothing in this vhost.
    DeletePermission {
        /// The vhost.
        vhost: ShortString,
        /// The user.
        user: ShortString,
    },
    /// A user may use these keys from now on.
    PutTopicPermission(TopicPermissionRecord),
    /// Nothing is said about a user's keys with this exchange any more.
    DeleteTopicPermission {
        /// The vhost.
        vhost: ShortString,
        /// The user.
        user: ShortString,
        /// The exchange.
        exchange: ShortString,
    },
    /// A parameter has this value from now on.
    PutParameter(ParameterRecord),
    /// A parameter is gone; its value does not matter.
    DeleteParameter(ParameterRecord),
    /// Queue numbers below this one have been given.
    NextQueueId(QueueId),
}

/// The stored counters of one queue, written in the batch of the rows they count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueState {
    /// No row is stored below this position.
    pub head: Seq,
    /// The position the next message gets.
    pub next: Seq,
    /// Stored rows, ready or unacked.
    pub messages: u64,
    /// Bytes of these rows, as the queue counts them.
    pub message_bytes: u64,
    /// Where properties count as well as bodies, from this position on: messages before it came when they did not.
    pub properties_count_from: Option<Seq>,
    /// Messages below this position may have been handed to somebody.
    pub delivered_below: Seq,
    /// Somebody may have been handed any message: there were consumers or gets since the queue was
    /// last written down cleanly.
    pub consumed: bool,
    /// There may be rows that are not counted here: of messages that end with the process.
    pub spilled: bool,
}

/// How often a message came back to its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attempts {
    /// In all.
    pub all: u32,
    /// Because somebody tried in vain.
    pub failed: u32,
    /// Until when it is held back.
    pub due: Timestamp,
}

/// One change of a queue's stored rows.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Store a message; this place was never used before.
    Put {
        /// The queue.
        queue: QueueId,
        /// Priority within the queue, 0 for queues without.
        priority: u8,
        /// Its position.
        seq: Seq,
        /// When it entered the queue.
        enqueued_at: Timestamp,
        /// When it is to leave, which was decided when it came; [`Timestamp::NEVER`] for most.
        due: Timestamp,
        /// The message.
        message: crate::message::Message,
    },
    /// Remove a message that was put exactly once.
    Forget {
        /// The queue.
        queue: QueueId,
        /// Its priority.
        priority: u8,
        /// Its position.
        seq: Seq,
    },
    /// Remove every stored row of a priority with `from <= seq < until`; none of them is removed
    /// by a `Forget` later.
    ForgetRange {
        /// The queue.
        queue: QueueId,
        /// Their priority.
        priority: u8,
        /// First position.
        from: Seq,
        /// Position behind the last.
        until: Seq,
    },
    /// A message that was put and not removed came back; what was written of it before is replaced.
    Attempts {
        /// The queue.
        queue: QueueId,
        /// Its position.
        seq: Seq,
        /// How often, and until when it waits.
        attempts: Attempts,
    },
    /// The message is gone that attempts were written of.
    ForgetAttempts {
        /// The queue.
        queue: QueueId,
        /// Its position.
        seq: Seq,
    },
    /// The counters after all writes before this one.
    State {
        /// The queue.
        queue: QueueId,
        /// Its counters.
        state: QueueState,
    },
    /// A change of metadata.
    Meta(MetaChange),
}
