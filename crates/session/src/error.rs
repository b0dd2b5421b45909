//! What goes wrong on a channel or a connection, and how the peer is told.

use leveret_core::refusal::Refusal;
use leveret_wire::{
    content::ContentError,
    frame::FrameError,
    ids::{ClassId, DeliveryTag, MethodId},
    method::{Method, MethodError, channel, connection},
    reply_code::ReplyCode,
    value::ShortString,
};

/// Class and method a close frame blames.
pub(crate) type MethodIds = (ClassId, MethodId);

/// The ids of a close frame that blames no method.
pub(crate) const NO_METHOD: MethodIds = (ClassId::new(0), MethodId::new(0));

/// Closes the channel and leaves the connection open. `Display` is the text behind `NAME - `.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ChannelError {
    /// A queue or exchange operation was refused.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// A delivery that was settled before, or never made on this channel.
    #[error("unknown delivery tag {tag}")]
    UnknownDeliveryTag {
        /// As the client sent it.
        tag: DeliveryTag,
    },
    /// A body above [`crate::Settings::message_size_max`]; it was read and thrown away.
    #[error("message size {size} is larger than configured max size {max}")]
    MessageTooLarge {
        /// The body's size.
        size: u64,
        /// The largest that would have been taken.
        max: u64,
    },
    /// Half-received contents of the connection above [`crate::Settings::unfinished_content_max`].
    #[error("unfinished messages on this connection exceed {max} bytes")]
    TooMuchUnfinished {
        /// The largest sum that would have been kept.
        max: u64,
    },
    /// A reply consumer that wants to acknowledge.
    #[error("reply consumer cannot acknowledge")]
    ReplyConsumerAcks,
    /// A second reply consumer on a channel.
    #[error("reply consumer already set")]
    ReplyConsumerSet,
    /// A publish that wants replies where there is no reply consumer.
    #[error("fast reply consumer does not exist")]
    NoReplyConsumer,
    /// An expiration that is no number of milliseconds.
    #[error("invalid expiration '{expiration}': {detail}")]
    InvalidExpiration {
        /// As the client sent it.
        expiration: String,
        /// RabbitMQ's term for what is wrong.
        detail: String,
    },
    /// A header with extra routing keys that is not an array.
    #[error("invalid message: {{unacceptable_type_in_header,\"{header}\",{type_name}}}")]
    UnacceptableTypeInHeader {
        /// `CC` or `BCC`.
        header: &'static str,
        /// RabbitMQ's name of the type.
        type_name: &'static str,
    },
    /// A message in somebody else's name.
    #[error("user_id property set to '{user_id}' but authenticated user was '{user}'")]
    ForeignUserId {
        /// As the client sent it.
        user_id: String,
        /// Who the client is.
        user: ShortString,
    },
    /// `confirm.select` on a transactional channel.
    #[error("cannot switch from tx to confirm mode")]
    ConfirmInTx,
    /// `tx.select` on a confirming channel.
    #[error("cannot switch from confirm to tx mode")]
    TxInConfirm,
    /// A queue refused a publish of a transaction; what others accepted stays.
    #[error("partial tx completion")]
    PartialCommit,
    /// More waits for commits on this connection than [`crate::Settings::transaction_max`].
    #[error("open transactions on this connection exceed {max} bytes")]
    TransactionTooLarge {
        /// The largest sum that would have been kept.
        max: u64,
    },
    /// A message was not acked in time, and the client cannot be told that its consumer ended, or has none.
    #[error(
        "delivery acknowledgement on channel {channel} timed out. Timeout value used: {timeout_millis} ms. This \
         timeout value can be configured, see consumers doc guide to learn more"
    )]
    AckTimeout {
        /// The channel.
        channel: u16,
        /// How long it had the message.
        timeout_millis: u64,
    },
    /// `tx.commit` or `tx.rollback` without `tx.select`.
    #[error("channel is not transactional")]
    NotTransactional,
}

impl ChannelError {
    /// What the peer sees. No other function turns a channel's failure into a number.
    #[must_use]
    pub fn reply_code(&self) -> ReplyCode {
        match self {
            Self::Refused(refusal) => refusal.reply_code(),
            Self::UnknownDeliveryTag { .. }
            | Self::MessageTooLarge { .. }
            | Self::TooMuchUnfinished { .. }
            | Self::ReplyConsumerAcks
            | Self::ReplyConsumerSet
            | Self::NoReplyConsumer
            | Self::InvalidExpiration { .. }
            | Self::UnacceptableTypeInHeader { .. }
            | Self::ForeignUserId { .. }
            | Self::ConfirmInTx
            | Self::TxInConfirm
            | Self::PartialCommit
            | Self::TransactionTooLarge { .. }
            | Self::AckTimeout { .. }
            | Self::NotTransactional => ReplyCode::PreconditionFailed,
        }
    }
}

/// Closes the connection. `Display` is the text behind `NAME - `.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConnectionError {
    /// A frame that cannot be read; nothing behind it can be read either.
    #[error("{0}")]
    Frame(FrameError),
    /// A method that cannot be read.
    #[error("{0}")]
    Method(MethodError),
    /// A method nobody knows, or one that is not meant for this direction or this kind of channel.
    #[error("unimplemented method")]
    UnimplementedMethod,
    /// A content header that cannot be read.
    #[error("{0}")]
    Content(ContentError),
    /// A frame on a channel where its kind cannot be; the text describes it.
    #[error("{description}")]
    UnexpectedFrame {
        /// Kind and first octets.
        description: String,
    },
    /// A content header or body without a method before it.
    #[error("expected method frame, got non method frame instead")]
    ExpectedMethod,
    /// Something else between a publish and its content header.
    #[error("expected content header for class 60, got non content header frame instead")]
    ExpectedHeader,
    /// A content header of another class than the method.
    #[error("expected content header for class 60, got one for class {class} instead")]
    HeaderOfAnotherClass {
        /// The class it names.
        class: ClassId,
    },
    /// Something else while a body is due.
    #[error("expected content body, got non content body frame instead")]
    ExpectedBody,
    /// More body than the header announced.
    #[error("content body frame exceeds remaining content size")]
    BodyTooLong,
    /// A method that the connection's state has no use for.
    #[error("unexpected method in connection state {state}")]
    UnexpectedMethod {
        /// `opening` or `running`.
        state: &'static str,
    },
    /// A method on a channel that is not open.
    #[error("expected 'channel.open'")]
    ExpectedChannelOpen,
    /// `channel.open` on a channel that is open, or waits for `close-ok`.
    #[error("second 'channel.open' seen")]
    SecondChannelOpen,
    /// More channels than agreed.
    #[error("number of channels opened ({max}) has reached the negotiated channel_max ({max})")]
    TooManyChannels {
        /// The agreed number.
        max: u16,
    },
    /// A limit in `tune-ok` that was not offered.
    #[error(
        "negotiated {field} = {value}{remark} is {comparison} than the {bound} allowed value ({limit})"
    )]
    Tuning {
        /// `frame_max` or `channel_max`.
        field: &'static str,
        /// What the client asked for.
        value: u32,
        /// What a 0 means.
        remark: &'static str,
        /// `lower` or `higher`.
        comparison: &'static str,
        /// `minimum` or `maximum`.
        bound: &'static str,
        /// The bound.
        limit: u32,
    },
    /// Credentials that are not good.
    #[error(
        "Login was refused using authentication mechanism {mechanism}. For details see the broker \
         logfile."
    )]
    LoginRefused {
        /// The mechanism's name.
        mechanism: &'static str,
    },
    /// No work in this vhost.
    #[error("{0}")]
    Open(OpenRefusal),
    /// A queue or exchange operation was refused by a hard code.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// A second consumer of the same tag on a channel.
    #[error("attempt to reuse consumer tag '{tag}'")]
    ConsumerTagInUse {
        /// The tag.
        tag: ShortString,
    },
    /// `basic.publish` with `immediate`.
    #[error("immediate=true")]
    Immediate,
    /// `basic.qos` with a limit in bytes.
    #[error("prefetch_size!=0 ({size})")]
    PrefetchSize {
        /// The limit asked for.
        size: u32,
    },
    /// `basic.recover` without requeue.
    #[error("requeue=false")]
    RecoverWithoutRequeue,
    /// `channel.flow` that asks for silence.
    #[error("active=false")]
    FlowStop,
    /// A class of methods this broker does not offer yet.
    #[error("{what}")]
    NotImplemented {
        /// What is missing.
        what: &'static str,
    },
    /// Somebody else ended the connection: an operator, a shutdown.
    #[error("{text}")]
    Forced {
        /// The code the peer sees.
        code: ReplyCode,
        /// Why.
        text: String,
    },
}

impl ConnectionError {
    /// Whether no frame can be found behind this one.
    pub(crate) const fn is_deafening(&self) -> bool {
        matches!(
            self,
            Self::Frame(FrameError::TooLarge { .. } | FrameError::BadEnd { .. })
        )
    }

    /// What the peer sees. No other function turns a connection's failure into a number.
    #[must_use]
    pub fn reply_code(&self) -> ReplyCode {
        match self {
            Self::Frame(_) | Self::Content(_) | Self::BodyTooLong => ReplyCode::FrameError,
            Self::Method(error) => match error {
                MethodError::Unknown { .. } => ReplyCode::CommandInvalid,
                MethodError::Malformed { .. }
                | MethodError::MalformedUtf8 { .. }
                | MethodError::Table { .. } => ReplyCode::FrameError,
            },
            Self::UnimplementedMethod => ReplyCode::CommandInvalid,
            Self::UnexpectedFrame { .. }
            | Self::ExpectedMethod
            | Self::ExpectedHeader
            | Self::HeaderOfAnotherClass { .. }
            | Self::ExpectedBody => ReplyCode::UnexpectedFrame,
            Self::UnexpectedMethod { .. } | Self::ExpectedChannelOpen | Self::SecondChannelOpen => {
                ReplyCode::ChannelError
            }
            Self::TooManyChannels { .. } | Self::Tuning { .. } | Self::ConsumerTagInUse { .. } => {
                ReplyCode::NotAllowed
            }
            Self::LoginRefused { .. } => ReplyCode::AccessRefused,
            Self::Open(refusal) => refusal.reply_code(),
            Self::Refused(refusal) => refusal.reply_code(),
            Self::Immediate
            | Self::PrefetchSize { .. }
            | Self::RecoverWithoutRequeue
            | Self::FlowStop
            | Self::NotImplemented { .. } => ReplyCode::NotImplemented,
            Self::Forced { code, .. } => *code,
        }
    }

    /// Whether the close frame blames the method at hand. Faults of frames, of the login and of limits
    /// blame none.
    pub(crate) const fn blames_method(&self) -> bool {
        match self {
            Self::Frame(_)
            | Self::UnexpectedFrame { .. }
            | Self::ExpectedMethod
            | Self::TooManyChannels { .. }
            | Self::LoginRefused { .. }
            | Self::Forced { .. } => false,
            Self::Method(_)
            | Self::UnimplementedMethod
            | Self::Content(_)
            | Self::ExpectedHeader
            | Self::HeaderOfAnotherClass { .. }
            | Self::ExpectedBody
            | Self::BodyTooLong
            | Self::UnexpectedMethod { .. }
            | Self::ExpectedChannelOpen
            | Self::SecondChannelOpen
            | Self::Tuning { .. }
            | Self::Open(_)
            | Self::Refused(_)
            | Self::ConsumerTagInUse { .. }
            | Self::Immediate
            | Self::PrefetchSize { .. }
            | Self::RecoverWithoutRequeue
            | Self::FlowStop
            | Self::NotImplemented { .. } => true,
        }
    }
}

/// Why a user does not get into a vhost, or gets no further channel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenRefusal {
    /// There is no such vhost.
    #[error("vhost {vhost} not found")]
    VhostNotFound {
        /// As the client asked for it.
        vhost: ShortString,
    },
    /// The user has no permissions there.
    #[error("access to vhost '{vhost}' refused for user '{user}'")]
    NoPermission {
        /// The vhost.
        vhost: ShortString,
        /// The user.
        user: ShortString,
    },
    /// The vhost has as many connections as it may.
    #[error(
        "access to vhost '{vhost}' refused for user '{user}': connection limit ({max}) is reached"
    )]
    VhostConnections {
        /// The vhost.
        vhost: ShortString,
        /// The user.
        user: ShortString,
        /// The limit.
        max: u64,
    },
    /// The user has as many connections as they may.
    #[error("connection refused for user '{user}': user connection limit ({max}) is reached")]
    UserConnections {
        /// The user.
        user: ShortString,
        /// The limit.
        max: u64,
    },
    /// The node has as many connections as it may.
    #[error("connection refused: node connection limit ({max}) is reached")]
    NodeConnections {
        /// The limit.
        max: u64,
    },
    /// The vhost exists and does not work.
    #[error("access to vhost '{vhost}' refused for user '{user}': vhost '{vhost}' is down")]
    VhostDown {
        /// The vhost.
        vhost: ShortString,
        /// The user.
        user: ShortString,
    },
    /// The user has as many channels as they may.
    #[error(
        "number of channels opened for user '{user}' has reached the maximum allowed user limit of \
         {max}"
    )]
    UserChannels {
        /// The user.
        user: ShortString,
        /// The limit.
        max: u64,
    },
    /// The node has as many channels as it may.
    #[error(
        "number of channels opened on node '{node}' has reached the maximum allowed limit of {max}"
    )]
    NodeChannels {
        /// The node's name.
        node: String,
        /// The limit.
        max: u64,
    },
    /// A new secret that is not good.
    #[error("New secret was refused by one of the backends")]
    NewSecret,
    /// A new secret that cannot be read.
    #[error("Secret update failed")]
    SecretUpdate,
    /// A new secret that has ended.
    #[error(
        "access to vhost '{vhost}' refused for user '{user}', backend rabbit_auth_backend_oauth2 returned an error: \
         \"{reason}\""
    )]
    SecretEnded {
        /// The vhost.
        vhost: ShortString,
        /// The user.
        user: ShortString,
        /// How it ended.
        reason: String,
    },
}

impl OpenRefusal {
    /// What the peer sees.
    #[must_use]
    pub const fn reply_code(&self) -> ReplyCode {
        match self {
            Self::VhostDown { .. } => ReplyCode::InternalError,
            Self::VhostNotFound { .. }
            | Self::NoPermission { .. }
            | Self::VhostConnections { .. }
            | Self::UserConnections { .. }
            | Self::NodeConnections { .. }
            | Self::UserChannels { .. }
            | Self::NodeChannels { .. }
            | Self::NewSecret
            | Self::SecretUpdate
            | Self::SecretEnded { .. } => ReplyCode::NotAllowed,
        }
    }
}

/// A failure of either reach. Boxed, since every frame returns a result and hardly one of them this.
#[derive(Debug)]
pub(crate) enum Fault {
    Channel(Box<ChannelError>),
    Connection(Box<ConnectionError>),
}

impl From<ChannelError> for Fault {
    fn from(error: ChannelError) -> Self {
        Self::Channel(Box::new(error))
    }
}

impl From<ConnectionError> for Fault {
    fn from(error: ConnectionError) -> Self {
        Self::Connection(Box::new(error))
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        if refusal.reply_code().is_hard() {
            ConnectionError::Refused(Box::new(refusal)).into()
        } else {
            ChannelError::Refused(Box::new(refusal)).into()
        }
    }
}

/// `NAME - detail`, cut to what a short string carries.
fn reply_text(code: ReplyCode, detail: &dyn std::fmt::Display) -> ShortString {
    /// What stands at the end of a cut text.
    const CUT: &str = "...";
    let text = format!("{} - {detail}", code.name());
    ShortString::try_from(text).unwrap_or_else(|_| {
        let text = format!("{} - {detail}", code.name());
        let end = text.floor_char_boundary(ShortString::LEN_MAX - CUT.len());
        let (start, _) = text.split_at(end);
        ShortString::cut(&format!("{start}{CUT}"))
    })
}

/// The `channel.close` that tells the peer.
pub(crate) fn channel_close(error: &ChannelError, (class_id, method_id): MethodIds) -> Method {
    let code = error.reply_code();
    let reply_text = reply_text(code, error);
    channel::Close {
        reply_code: code.code(),
        reply_text,
        class_id,
        method_id,
    }
    .into()
}

/// The `connection.close` that tells the peer.
pub(crate) fn connection_close(error: &ConnectionError, blamed: MethodIds) -> Method {
    let code = error.reply_code();
    let reply_text = reply_text(code, error);
    let (class_id, method_id) = if error.blames_method() {
        blamed
    } else {
        NO_METHOD
    };
    connection::Close {
        reply_code: code.code(),
        reply_text,
        class_id,
        method_id,
    }
    .into()
}

#[cfg(test)]
mod tests {
    use leveret_wire::{reply_code::ReplyCode, value::ShortString};

    use super::reply_text;

    #[test]
    fn a_text_of_255_bytes_is_whole_and_one_of_256_is_cut() {
        let name = "NOT_FOUND - ".len();
        let whole = reply_text(ReplyCode::NotFound, &"x".repeat(255 - name));
        assert_eq!(whole.len(), 255);
        assert!(whole.as_bytes().ends_with(b"x"));
        let cut = reply_text(ReplyCode::NotFound, &"x".repeat(256 - name));
        assert_eq!(cut.len(), 255);
        assert!(cut.as_bytes().ends_with(b"x..."));
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        for lead in 0..4 {
            let text = format!("{}{}", "x".repeat(lead), "\u{20ac}".repeat(200));
            let cut: ShortString = reply_text(ReplyCode::NotFound, &text);
            assert!(cut.len() <= 255 && cut.len() > 250);
            assert!(
                cut.to_str()
                    .expect("whole characters")
                    .ends_with("\u{20ac}...")
            );
        }
    }
}
