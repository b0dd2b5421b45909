//! Why an operation on a vhost or queue is refused: RabbitMQ's code and text for each.
//!
//! A refusal closes the channel, or the connection where its code is a hard one. The texts are those
//! of RabbitMQ 4.3, which clients and people match on.

use leveret_wire::{reply_code::ReplyCode, value::ShortString};

use crate::{arguments::QueueType, rights::Right};

/// What kind of object an error speaks of, as it stands in the texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// A queue.
    Queue,
    /// An exchange.
    Exchange,
}

impl std::fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Queue => "queue",
            Self::Exchange => "exchange",
        })
    }
}

/// An operation that is not carried out; `Display` is the text behind `NAME - `.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// A queue or exchange that does not exist.
    #[error("no {kind} '{name}' in vhost '{vhost}'")]
    NotFound {
        /// Queue or exchange.
        kind: ObjectKind,
        /// Its name.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
    },
    /// An empty queue name on a channel that has not declared a queue.
    #[error("no previously declared queue")]
    NoPreviouslyDeclaredQueue,
    /// Anything that changes the nameless exchange or binds it.
    #[error("operation not permitted on the default exchange")]
    DefaultExchange,
    /// A new object with a name kept for the broker.
    #[error("{kind} name '{name}' contains reserved prefix 'amq.*'")]
    ReservedName {
        /// Queue or exchange.
        kind: ObjectKind,
        /// The name asked for.
        name: ShortString,
    },
    /// Deletion of a predeclared exchange.
    #[error("deletion of system exchange '{name}' in vhost '{vhost}' not allowed")]
    SystemExchange {
        /// Its name.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
    },
    /// Publish to an exchange that only takes messages from other exchanges.
    #[error("cannot publish to internal exchange '{name}' in vhost '{vhost}'")]
    InternalExchange {
        /// Its name.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
    },
    /// A consume that meets an exclusive consumer, or wants to be one beside others.
    #[error("queue '{name}' in vhost '{vhost}' in exclusive use")]
    ExclusiveUse {
        /// The queue.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
    },
    /// An exclusive queue of another connection, or a redeclare with another exclusive flag.
    #[error(
        "cannot obtain exclusive access to locked queue '{name}' in vhost '{vhost}'. It could be \
         originally declared on another connection or the exclusive property value does not match \
         that of the original declaration."
    )]
    Locked {
        /// The queue.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
    },
    /// `exchange.declare` with the empty type.
    #[error("invalid exchange type ''")]
    EmptyExchangeType,
    /// `exchange.declare` with a type that RabbitMQ has heard of, but has only with a plugin.
    #[error("invalid exchange type '{name}'")]
    ExchangeTypeOfPlugin {
        /// The type asked for.
        name: ShortString,
    },
    /// `exchange.declare` with a type nobody knows.
    #[error("unknown exchange type '{name}'")]
    UnknownExchangeType {
        /// The type asked for.
        name: ShortString,
    },
    /// A redeclare with another flag or argument.
    #[error(
        "inequivalent arg '{arg}' for {kind} '{name}' in vhost '{vhost}': received {received} but \
         current is {current}"
    )]
    Inequivalent {
        /// Queue or exchange.
        kind: ObjectKind,
        /// Its name.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
        /// The flag or argument.
        arg: String,
        /// As asked for now: in quotes, with its type, or `none`.
        received: String,
        /// As declared before.
        current: String,
    },
    /// An argument of a type the object cannot take.
    #[error("invalid type '{type_name}' for arg '{arg}' in {kind} '{name}' in vhost '{vhost}'")]
    InvalidArgumentType {
        /// Queue or exchange.
        kind: ObjectKind,
        /// Its name.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
        /// The argument.
        arg: String,
        /// RabbitMQ's name of the type received.
        type_name: &'static str,
    },
    /// An argument out of its range; `detail` is RabbitMQ's term for it.
    #[error("invalid arg '{arg}' for queue '{name}' in vhost '{vhost}': {detail}")]
    InvalidArgument {
        /// The queue.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
        /// The argument.
        arg: String,
        /// For example `{value_negative,-1}`.
        detail: String,
    },
    /// A known argument that queues of this type do not take.
    #[error(
        "invalid arg '{arg}' for queue '{name}' in vhost '{vhost}' of queue type {}",
        .queue_type.module()
    )]
    ArgumentOfOtherType {
        /// The queue.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
        /// The argument.
        arg: String,
        /// Its type.
        queue_type: QueueType,
    },
    /// A flag that queues of this type cannot have.
    #[error("invalid property '{property}' for queue '{name}' in vhost '{vhost}'")]
    InvalidProperty {
        /// RabbitMQ's word for it.
        property: &'static str,
        /// The queue.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
    },
    /// A queue without a name of a type that there is not.
    #[error("unknown queue type '{asked}'")]
    UnknownQueueType {
        /// The word for it.
        asked: String,
    },
    /// A queue without a name of a type that lasts.
    #[error("Cannot declare a server-named queue for type {}", .queue_type.module())]
    ServerNamed {
        /// The type.
        queue_type: QueueType,
    },
    /// A size out of its range on a stream; `what` is a whole sentence.
    #[error("{what}")]
    StreamSize {
        /// Which size.
        what: String,
    },
    /// Something that cannot be done to a queue of this type.
    #[error("{operation} not supported by {} queues queue '{name}' in vhost '{vhost}'", .queue_type.name())]
    UnsupportedByType {
        /// The method, `basic.get` for example.
        operation: &'static str,
        /// The type.
        queue_type: QueueType,
        /// The queue.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
    },
    /// A consumer of a stream that may hold any number of messages.
    #[error("consumer prefetch count is not set for stream queue '{name}' in vhost '{vhost}'")]
    StreamWithoutPrefetch {
        /// The stream.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
    },
    /// A consumer of a stream that would never settle.
    #[error("automatic acknowledgement not supported by stream queue '{name}' in vhost '{vhost}'")]
    StreamWithoutAcks {
        /// The stream.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
    },
    /// Something RabbitMQ had once and does not permit any more.
    #[error(
        "Feature `{feature}` is deprecated.\nBy default, this feature is not permitted anymore.\nThe \
         feature will be removed from a future major RabbitMQ version, regardless of the \
         configuration; actual version to be determined.\nTo continue using this feature when it is \
         not permitted by default, set the following parameter in your configuration"
    )]
    DeprecatedFeature {
        /// RabbitMQ's name of it.
        feature: &'static str,
    },
    /// Something RabbitMQ is to stop doing, and does not do here because the configuration says so.
    #[error(
        "Feature `{feature}` is deprecated.\nIts use is not permitted per the configuration (overriding \
         the default, which is permitted):\n    \"deprecated_features.permit.{feature} = false\"\nIts \
         use will not be permitted by default in a future release"
    )]
    FeatureNotPermitted {
        /// RabbitMQ's name of it.
        feature: &'static str,
    },
    /// A type of queues that this node was told not to have.
    #[error(
        "Cannot declare a queue 'queue '{name}' in vhost '{vhost}'' of type '{}' on node '{node}': the \
         corresponding feature flag is disabled",
        .queue_type.module()
    )]
    QueueTypeOff {
        /// The queue.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
        /// The type.
        queue_type: QueueType,
        /// The node.
        node: String,
    },
    /// `if-unused` on an object in use.
    #[error("{kind} '{name}' in vhost '{vhost}' in use")]
    InUse {
        /// Queue or exchange.
        kind: ObjectKind,
        /// Its name.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
    },
    /// `if-empty` on a queue with ready messages.
    #[error("queue '{name}' in vhost '{vhost}' not empty")]
    NotEmpty {
        /// The queue.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
    },
    /// A topic binding with more `#` than the broker matches.
    #[error("Topic binding key '{key}' uses {count} '#' wildcards, at most 2 are allowed")]
    TooManyWildcards {
        /// The binding key.
        key: ShortString,
        /// How often `#` stands in it.
        count: usize,
    },
    /// A headers binding with an `x-match` nobody knows.
    #[error("Invalid x-match field value {value}; expected all, any, all-with-x, or any-with-x")]
    InvalidMatch {
        /// As RabbitMQ prints binaries.
        value: String,
    },
    /// A headers binding with an `x-match` that is not a string.
    #[error("Invalid x-match field type {type_name} (value {value}); expected longstr")]
    InvalidMatchType {
        /// RabbitMQ's name of the type.
        type_name: &'static str,
        /// The value as RabbitMQ prints it.
        value: String,
    },
    /// What only one exchange type refuses.
    #[error(transparent)]
    ExchangeType(#[from] ExchangeTypeRefusal),
    /// A queue or exchange that the user may not use in this way.
    #[error("{right} access to {kind} '{name}' in vhost '{vhost}' refused for user '{user}'")]
    AccessRefused {
        /// What was wanted.
        right: Right,
        /// Queue or exchange.
        kind: ObjectKind,
        /// Its name; that of the default exchange is `amq.default` here.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
        /// The user.
        user: ShortString,
    },
    /// A routing or binding key that the user may not use.
    #[error(
        "{right} access to topic '{topic}' in exchange '{name}' in vhost '{vhost}' refused for user \
         '{user}'"
    )]
    TopicRefused {
        /// Write for a publish, read for a binding.
        right: Right,
        /// The key.
        topic: ShortString,
        /// The exchange.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
        /// The user.
        user: ShortString,
    },
    /// The vhost has as many queues as it may.
    #[error("cannot declare queue '{name}': queue limit in vhost '{vhost}' ({max}) is reached")]
    QueueLimit {
        /// The queue.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
        /// The limit.
        max: u64,
    },
    /// The vhost was deleted under a connection that is still about to learn of it.
    #[error("vhost '{vhost}' is deleted")]
    VhostDeleted {
        /// The vhost.
        vhost: ShortString,
    },
    /// A binding to or from a reply address.
    #[error("cannot bind or unbind to a volatile (direct reply-to) queue")]
    ReplyAddressBound,
    /// `basic.get` on a reply address.
    #[error("basic.get not supported by volatile queue '{name}' in vhost '{vhost}'")]
    ReplyAddressGet {
        /// The address.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
    },
    /// A consume from somebody else's reply address.
    #[error("only creator channel may consume from queue '{name}' in vhost '{vhost}'")]
    ReplyAddressOfAnother {
        /// The address.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
    },
    /// A second consumer of a reply address.
    #[error("multiple consumers are unsupported for queue '{name}' in vhost '{vhost}'")]
    ReplyAddressInUse {
        /// The address.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
    },
    /// A delete with a condition that queues of this type know nothing of.
    #[error(
        "cannot delete queue '{name}' in vhost '{vhost}'. queue.delete operations with {condition} flag \
         set are not supported by {} queues", .queue_type.name()
    )]
    UnsupportedCondition {
        /// `if-unused` or `if-empty`.
        condition: &'static str,
        /// The type.
        queue_type: QueueType,
        /// The queue.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
    },
    /// `basic.get` past the consumer that a queue serves alone.
    #[error(
        "cannot obtain access to locked queue '{name}' in vhost '{vhost}'. basic.get operations are not \
         supported by <<\"{}\">> queues with single active consumer", .queue_type.name()
    )]
    GetPastActiveConsumer {
        /// The type.
        queue_type: QueueType,
        /// The queue.
        name: ShortString,
        /// Its vhost.
        vhost: ShortString,
    },
    /// Something this broker does not do yet; `what` is a whole sentence.
    #[error("{what}")]
    NotImplemented {
        /// What is missing.
        what: String,
    },
    /// The storage refused the change; nothing was done.
    #[error("{what}")]
    Storage {
        /// What happened.
        what: String,
    },
}

/// What one of the exchange types beyond those of AMQP does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeTypeRefusal {
    /// A consistent hash by a header and by a property.
    #[error("hash-header and hash-property are mutually exclusive")]
    TwoHashes,
    /// A consistent hash by a property that cannot be hashed.
    #[error("Unsupported property: {name}")]
    UnsupportedProperty {
        /// The property asked for.
        name: String,
    },
    /// The weight of a consistent hash is a word.
    #[error("The binding key must be an integer: {key}")]
    WeightNotInteger {
        /// As RabbitMQ prints binaries.
        key: String,
    },
    /// The weight of a consistent hash is nothing.
    #[error("The binding key must be greater than 0")]
    WeightTooSmall,
    /// The weight of a consistent hash is more than any may have.
    #[error("The binding key must not exceed 10000")]
    WeightTooLarge,
    /// A key where there may be none.
    #[error("Non empty binding '{key}' key not permitted")]
    BindingKeyNotEmpty {
        /// The binding key.
        key: ShortString,
    },
    /// A binding that leads to an exchange where only queues are taken.
    #[error("Destination not found")]
    DestinationNotQueue,
    /// A binding that leads to a queue of a type that is not taken.
    #[error("Queue type {} not valid for this exchange type", .queue_type.module())]
    QueueTypeNotValid {
        /// The queue's type.
        queue_type: QueueType,
    },
    /// A delayed exchange that does not say as what it routes.
    #[error("Invalid argument, 'x-delayed-type' must be an existing exchange type")]
    NoDelayedType,
    /// A history of no messages.
    #[error("Invalid argument {value}, 'x-recent-history-length' must be a positive integer")]
    InvalidHistoryLength {
        /// The value as RabbitMQ prints it.
        value: String,
    },
}

impl Refusal {
    /// What the peer sees. No other function turns a refusal into a number.
    #[must_use]
    pub const fn reply_code(&self) -> ReplyCode {
        match self {
            Self::NotFound { .. } | Self::NoPreviouslyDeclaredQueue => ReplyCode::NotFound,
            Self::DefaultExchange
            | Self::ReservedName { .. }
            | Self::SystemExchange { .. }
            | Self::InternalExchange { .. }
            | Self::ExclusiveUse { .. }
            | Self::AccessRefused { .. }
            | Self::TopicRefused { .. }
            | Self::ReplyAddressBound => ReplyCode::AccessRefused,
            Self::Locked { .. } | Self::GetPastActiveConsumer { .. } => ReplyCode::ResourceLocked,
            Self::EmptyExchangeType
            | Self::ExchangeTypeOfPlugin { .. }
            | Self::UnknownExchangeType { .. }
            | Self::Inequivalent { .. }
            | Self::InvalidArgumentType { .. }
            | Self::InvalidArgument { .. }
            | Self::ArgumentOfOtherType { .. }
            | Self::InvalidProperty { .. }
            | Self::UnknownQueueType { .. }
            | Self::ServerNamed { .. }
            | Self::StreamSize { .. }
            | Self::StreamWithoutPrefetch { .. }
            | Self::InUse { .. }
            | Self::NotEmpty { .. }
            | Self::TooManyWildcards { .. }
            | Self::InvalidMatch { .. }
            | Self::InvalidMatchType { .. }
            | Self::ExchangeType(_)
            | Self::QueueLimit { .. }
            | Self::ReplyAddressOfAnother { .. }
            | Self::ReplyAddressInUse { .. } => ReplyCode::PreconditionFailed,
            Self::ReplyAddressGet { .. }
            | Self::UnsupportedByType { .. }
            | Self::StreamWithoutAcks { .. }
            | Self::UnsupportedCondition { .. }
            | Self::NotImplemented { .. } => ReplyCode::NotImplemented,
            Self::VhostDeleted { .. } => ReplyCode::ConnectionForced,
            Self::DeprecatedFeature { .. }
            | Self::FeatureNotPermitted { .. }
            | Self::QueueTypeOff { .. }
            | Self::Storage { .. } => ReplyCode::InternalError,
        }
    }
}
