//! The numbers that say why something was closed or returned.

use std::fmt;

/// Why a channel or connection is closed, or a message returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum ReplyCode {
    /// A close without a complaint.
    Success = 200,
    /// Content larger than the peer takes. RabbitMQ never sends it.
    ContentTooLarge = 311,
    /// Returned: mandatory, and no queue was found.
    NoRoute = 312,
    /// Returned: immediate, and no consumer was ready. RabbitMQ never sends it.
    NoConsumers = 313,
    /// The broker or its operator ended the connection.
    ConnectionForced = 320,
    /// An unknown virtual host, long ago. RabbitMQ never sends it.
    InvalidPath = 402,
    /// The user may not do this.
    AccessRefused = 403,
    /// There is no such queue or exchange.
    NotFound = 404,
    /// Another connection has it for itself.
    ResourceLocked = 405,
    /// The request contradicts what exists, or carries a bad value.
    PreconditionFailed = 406,
    /// A frame that cannot be read.
    FrameError = 501,
    /// A field with an illegal value.
    SyntaxError = 502,
    /// A method that is not meant for this direction or channel.
    CommandInvalid = 503,
    /// A channel used against its state.
    ChannelError = 504,
    /// A frame out of order.
    UnexpectedFrame = 505,
    /// The broker lacks what this needs.
    ResourceError = 506,
    /// Refused by a rule or limit of the broker.
    NotAllowed = 530,
    /// A part of the protocol that this broker does not offer.
    NotImplemented = 540,
    /// A fault of the broker.
    InternalError = 541,
}

impl ReplyCode {
    /// Every code, in the order of the numbers.
    pub const ALL: [Self; 19] = [
        Self::Success,
        Self::ContentTooLarge,
        Self::NoRoute,
        Self::NoConsumers,
        Self::ConnectionForced,
        Self::InvalidPath,
        Self::AccessRefused,
        Self::NotFound,
        Self::ResourceLocked,
        Self::PreconditionFailed,
        Self::FrameError,
        Self::SyntaxError,
        Self::CommandInvalid,
        Self::ChannelError,
        Self::UnexpectedFrame,
        Self::ResourceError,
        Self::NotAllowed,
        Self::NotImplemented,
        Self::InternalError,
    ];

    /// The number on the wire.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The code that has this number.
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.code() == code)
    }

    /// The name that opens a reply text, as in `NOT_FOUND - no queue 'q' in vhost '/'`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "SUCCESS",
            Self::ContentTooLarge => "CONTENT_TOO_LARGE",
            Self::NoRoute => "NO_ROUTE",
            Self::NoConsumers => "NO_CONSUMERS",
            Self::ConnectionForced => "CONNECTION_FORCED",
            Self::InvalidPath => "INVALID_PATH",
            Self::AccessRefused => "ACCESS_REFUSED",
            Self::NotFound => "NOT_FOUND",
            Self::ResourceLocked => "RESOURCE_LOCKED",
            Self::PreconditionFailed => "PRECONDITION_FAILED",
            Self::FrameError => "FRAME_ERROR",
            Self::SyntaxError => "SYNTAX_ERROR",
            Self::CommandInvalid => "COMMAND_INVALID",
            Self::ChannelError => "CHANNEL_ERROR",
            Self::UnexpectedFrame => "UNEXPECTED_FRAME",
            Self::ResourceError => "RESOURCE_ERROR",
            Self::NotAllowed => "NOT_ALLOWED",
            Self::NotImplemented => "NOT_IMPLEMENTED",
            Self::InternalError => "INTERNAL_ERROR",
        }
    }

    /// Whether the code closes the connection, and not only the channel.
    pub const fn is_hard(self) -> bool {
        match self {
            Self::Success
            | Self::ContentTooLarge
            | Self::NoRoute
            | Self::NoConsumers
            | Self::AccessRefused
            | Self::NotFound
            | Self::ResourceLocked
            | Self::PreconditionFailed => false,
            Self::ConnectionForced
            | Self::InvalidPath
            | Self::FrameError
            | Self::SyntaxError
            | Self::CommandInvalid
            | Self::ChannelError
            | Self::UnexpectedFrame
            | Self::ResourceError
            | Self::NotAllowed
            | Self::NotImplemented
            | Self::InternalError => true,
        }
    }
}

impl fmt::Display for ReplyCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.code())
    }
}
