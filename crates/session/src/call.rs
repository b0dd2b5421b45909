//! What a connection asks of the server, and the answers.
//!
//! Nothing in a [`Call`] is a slice of the read buffer, so that names and arguments can be kept.

use std::fmt;

use bytes::Bytes;
use leveret_core::{
    ids::{ChannelKey, ConsumerId, HandedOut, QueueId},
    message::Message,
    refusal::Refusal,
};
use leveret_wire::value::{FieldTable, ShortString};

use crate::{error::OpenRefusal, settings::Mechanism};

/// Something that needs an answer before the connection goes on.
///
/// Behind each variant stands the [`Answer`] it takes. A refusal of a soft code comes back as a
/// [`Call::CloseChannel`], one of a hard code as a [`Call::CloseConnection`].
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// Who is this? [`Answer::LoggedIn`] or [`Answer::LoginRefused`].
    Login(Login),
    /// The user wants to work in this vhost. [`Answer::Done`] or [`Answer::OpenRefused`].
    OpenVhost {
        /// The vhost, exactly as it was asked for.
        vhost: ShortString,
        /// The user who was logged in.
        user: ShortString,
    },
    /// A channel opens; nobody may know of it before. [`Answer::Done`] or [`Answer::OpenRefused`].
    OpenChannel(ChannelKey),
    /// [`Answer::Done`] or [`Answer::Refused`].
    ExchangeDeclare(ExchangeDeclare),
    /// [`Answer::Done`], also when missing, or [`Answer::Refused`].
    ExchangeDelete(ExchangeDelete),
    /// [`Answer::Done`] or [`Answer::Refused`].
    ExchangeBind(ExchangeBind),
    /// [`Answer::Done`], also when missing, or [`Answer::Refused`].
    ExchangeUnbind(ExchangeUnbind),
    /// [`Answer::QueueDeclared`] or [`Answer::Refused`].
    QueueDeclare(QueueDeclare),
    /// [`Answer::Done`] or [`Answer::Refused`].
    QueueBind(QueueBind),
    /// [`Answer::Done`], also when missing, or [`Answer::Refused`].
    QueueUnbind(QueueUnbind),
    /// [`Answer::Count`] of dropped messages or [`Answer::Refused`].
    QueuePurge(QueuePurge),
    /// [`Answer::Count`] of dropped messages, 0 when missing, or [`Answer::Refused`]. Consumers are
    /// cancelled after the answer was given.
    QueueDelete(QueueDelete),
    /// [`Answer::ConsumeOk`] or [`Answer::Refused`]. The queue hands nothing to the consumer before
    /// the answer was given: that is what makes it known to [`crate::Outgoing`].
    Consume(Consume),
    /// [`Answer::Done`], also when the consumer is gone already. The queue hands it nothing any more.
    Cancel(Cancel),
    /// The consumers of a channel have another bound together. [`Answer::Done`]; then those that wait for room may
    /// have some: see [`crate::Outgoing::next_waiting`].
    SharePrefetch(SharePrefetch),
    /// From now on what is published to the address in [`Answer::ReplyAddress`] is handed straight to
    /// this consumer, at most once. A channel has one such consumer; it goes with its channel.
    ConsumeReplies(ConsumerId),
    /// [`Answer::Done`]. The address is nobody's any more.
    CancelReplies(ConsumerId),
    /// [`Answer::Got`], [`Answer::GetEmpty`] or [`Answer::Refused`].
    Get(Get),
    /// A commit was staged: waits until every queue has answered its publishes, persistent ones after the
    /// sync. [`Answer::Committed`].
    Commit(ChannelKey),
    /// Nothing to carry out: the session has to learn what was delivered meanwhile, which giving the
    /// answer does. [`Answer::Done`].
    CatchUp,
    /// A channel ends, by the client or by an error. Its consumers go and what it holds goes back to
    /// the queues, all before [`Answer::Done`]: nothing is delivered behind the close frame.
    CloseChannel(ChannelEnd),
    /// The connection ends: every channel as in [`Call::CloseChannel`], then its exclusive queues, all
    /// before [`Answer::Done`].
    CloseConnection {
        /// The channels that are open.
        channels: Vec<ChannelEnd>,
    },
    /// A new secret for the credentials of this connection. [`Answer::SecretUpdated`] or
    /// [`Answer::OpenRefused`].
    UpdateSecret {
        /// The secret.
        secret: Password,
    },
}

/// Credentials of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct Login {
    /// How it came; [`Mechanism::Anonymous`] and [`Mechanism::External`] need no password.
    pub mechanism: Mechanism,
    /// The user.
    pub user: ShortString,
    /// The password.
    pub password: Password,
    /// What the client says of itself, `connection_name` for example.
    pub client_properties: FieldTable,
}

/// Bytes that no output may show.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Password(Bytes);

impl Password {
    /// Wraps the bytes.
    #[must_use]
    pub const fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The bytes, to be compared and not to be shown.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// `exchange.declare`.
#[derive(Debug, Clone, PartialEq)]
pub struct ExchangeDeclare {
    /// Its name, without line breaks.
    pub exchange: ShortString,
    /// The type asked for.
    pub kind: ShortString,
    /// Only ask whether it exists.
    pub passive: bool,
    /// Outlives a restart.
    pub durable: bool,
    /// Goes with its last binding.
    pub auto_delete: bool,
    /// No publishes by clients.
    pub internal: bool,
    /// Further settings.
    pub arguments: FieldTable,
    /// What refuses it unless it is there already. Boxed, because it hardly ever is.
    pub refused_if_new: Option<Box<Refusal>>,
}

/// `exchange.delete`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeDelete {
    /// Its name, without line breaks.
    pub exchange: ShortString,
    /// Only if it has no bindings as a source.
    pub if_unused: bool,
}

/// `exchange.bind`.
#[derive(Debug, Clone, PartialEq)]
pub struct ExchangeBind {
    /// Where messages go.
    pub destination: ShortString,
    /// Where they come from.
    pub source: ShortString,
    /// The binding key.
    pub routing_key: ShortString,
    /// Binding arguments.
    pub arguments: FieldTable,
}

/// `exchange.unbind`.
#[derive(Debug, Clone, PartialEq)]
pub struct ExchangeUnbind {
    /// Where messages go.
    pub destination: ShortString,
    /// Where they come from.
    pub source: ShortString,
    /// The binding key.
    pub routing_key: ShortString,
    /// Binding arguments.
    pub arguments: FieldTable,
}

/// `queue.declare`.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueDeclare {
    /// Its name, without line breaks. Generated, if `server_named`.
    pub queue: ShortString,
    /// The client gave no name; the reserved prefix of this one is ours.
    pub server_named: bool,
    /// Only ask whether it exists.
    pub passive: bool,
    /// Outlives a restart.
    pub durable: bool,
    /// Only for this connection.
    pub exclusive: bool,
    /// Goes with its last consumer.
    pub auto_delete: bool,
    /// Further settings.
    pub arguments: FieldTable,
    /// What refuses it unless it is there already. Boxed, because it hardly ever is.
    pub refused_if_new: Option<Box<Refusal>>,
}

/// `queue.bind`.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueBind {
    /// Where messages go.
    pub queue: ShortString,
    /// Where they come from.
    pub exchange: ShortString,
    /// The binding key.
    pub routing_key: ShortString,
    /// Binding arguments.
    pub arguments: FieldTable,
}

/// `queue.unbind`.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueUnbind {
    /// Where messages go.
    pub queue: ShortString,
    /// Where they come from.
    pub exchange: ShortString,
    /// The binding key.
    pub routing_key: ShortString,
    /// Binding arguments.
    pub arguments: FieldTable,
}

/// `queue.purge`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePurge {
    /// Its name.
    pub queue: ShortString,
}

/// `queue.delete`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueDelete {
    /// Its name, without line breaks.
    pub queue: ShortString,
    /// Only without consumers.
    pub if_unused: bool,
    /// Only without ready messages.
    pub if_empty: bool,
}

/// `basic.consume`.
#[derive(Debug, Clone, PartialEq)]
pub struct Consume {
    /// The consumer's number.
    pub consumer: ConsumerId,
    /// The queue's name.
    pub queue: ShortString,
    /// The consumer's tag, given or generated.
    pub tag: ShortString,
    /// Messages are gone once handed out.
    pub no_ack: bool,
    /// Nobody else may consume.
    pub exclusive: bool,
    /// Unacked messages it may hold; 0 for any number. Means nothing with `no_ack`.
    pub prefetch: u16,
    /// The consumers of its channel share a bound, or did; where its queue cannot have part in that, this is its
    /// own instead of `prefetch`.
    pub shared_else: Option<u16>,
    /// Further settings.
    pub arguments: FieldTable,
}

/// `basic.qos` with `global`, or the end of what it asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharePrefetch {
    /// The channel.
    pub channel: ChannelKey,
    /// Unacked deliveries its consumers may have together.
    pub max: Option<u16>,
    /// How many there are, as far as the session knows.
    pub held: u64,
    /// The queues of its consumers; some may be named twice, some be gone.
    pub queues: Vec<QueueId>,
}

/// `basic.cancel` of a consumer that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    /// The consumer.
    pub consumer: ConsumerId,
    /// Its queue, as [`Answer::ConsumeOk`] told.
    pub queue: QueueId,
}

/// `basic.get`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Get {
    /// The channel that will hold the message.
    pub channel: ChannelKey,
    /// The queue's name.
    pub queue: ShortString,
    /// The message is gone once handed out.
    pub no_ack: bool,
}

/// A channel to be released at these queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelEnd {
    /// The channel.
    pub channel: ChannelKey,
    /// Every queue it consumes from or holds messages of, each once. Some may be gone.
    pub queues: Vec<QueueId>,
}

/// What came of a [`Call`].
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Carried out.
    Done,
    /// Not carried out.
    Refused(Refusal),
    /// The credentials are good.
    LoggedIn {
        /// The user's name, as it stands in texts and in `user-id`.
        user: ShortString,
        /// May publish under another user's id.
        impersonator: bool,
    },
    /// The credentials are not good, whatever the reason.
    LoginRefused,
    /// The new secret is good; the user is the same.
    SecretUpdated {
        /// May publish under another user's id, now.
        impersonator: bool,
    },
    /// Not in this vhost, or not more of these; closes the connection.
    OpenRefused(OpenRefusal),
    /// The queue exists.
    QueueDeclared {
        /// Its name.
        name: ShortString,
        /// Ready messages.
        messages: u32,
        /// Its consumers.
        consumers: u32,
    },
    /// Messages that were dropped.
    Count(u32),
    /// The consumer exists and is not served yet.
    ConsumeOk {
        /// The queue it is on.
        queue: QueueId,
        /// Its deliveries take of the room that the consumers of a channel may share.
        takes_room: bool,
    },
    /// The consumer of replies exists.
    ReplyAddress(ShortString),
    /// A transaction's publishes were answered.
    Committed {
        /// No queue refused one.
        accepted: bool,
    },
    /// A message for `basic.get`.
    Got {
        /// Where it came from.
        at: HandedOut,
        /// Somebody may have had it before.
        redelivered: bool,
        /// The message.
        message: Message,
        /// Ready messages left.
        remaining: u32,
    },
    /// No message for `basic.get`.
    GetEmpty,
}
