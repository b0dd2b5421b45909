//! What an operator can set about connections, with the defaults of RabbitMQ 4.3.

use leveret_wire::value::ShortString;

/// Frame size the server offers.
pub const FRAME_MAX: u32 = 131_072;
/// Frame size below which no client is taken. RabbitMQ 4.3 asks for 8192; older clients offer this.
pub const FRAME_MAX_LOWEST: u32 = 4096;
/// Largest frame before `connection.open`; the credentials have to fit.
pub const INITIAL_FRAME_MAX: u32 = 8192;
/// Channels a client may have open at once.
pub const CHANNEL_MAX: u16 = 2047;
/// Heartbeat interval the server offers, in seconds.
pub const HEARTBEAT_SECS: u16 = 60;
/// From accept to `connection.open`, in milliseconds.
pub const HANDSHAKE_TIMEOUT_MILLIS: u64 = 10_000;
/// Largest body a client may publish, in bytes.
pub const MESSAGE_SIZE_MAX: u64 = 16 * 1024 * 1024;
/// Bytes of contents that are only half received, over all channels of a connection.
///
/// Four of the largest messages: a client that publishes large bodies on several channels at once
/// sends their frames in turn.
pub const UNFINISHED_CONTENT_MAX: u64 = 4 * MESSAGE_SIZE_MAX;
/// Bytes that wait for `tx.commit`, over all channels of a connection.
pub const TRANSACTION_MAX: u64 = 4 * MESSAGE_SIZE_MAX;
/// Silence before a socket is dropped whose client cannot be told why, in milliseconds.
pub const SILENT_DROP_MILLIS: u64 = 3000;
/// The longest wait for a peer's `close-ok`, in milliseconds. A shorter heartbeat shortens it.
pub const CLOSE_TIMEOUT_MILLIS: u64 = 30_000;

/// How a client proves who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// User and password between NUL bytes.
    Plain,
    /// User and password as a field table without its length.
    AmqPlain,
    /// Whoever comes is [`Settings::anonymous_user`].
    Anonymous,
    /// The user whom the client's certificate names.
    External,
    /// User, then the password when it was asked for; only there to show that a login can take two rounds.
    CrDemo,
}

impl Mechanism {
    /// Its name on the wire and in texts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::AmqPlain => "AMQPLAIN",
            Self::Anonymous => "ANONYMOUS",
            Self::External => "EXTERNAL",
            Self::CrDemo => "RABBIT-CR-DEMO",
        }
    }
}

/// Settings shared by all connections of a listener.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `product` of the server-properties; some clients expect `RabbitMQ`.
    pub product: String,
    /// `version` of the server-properties, dotted numbers.
    pub version: String,
    /// `platform` of the server-properties.
    pub platform: String,
    /// `copyright` of the server-properties.
    pub copyright: String,
    /// `information` of the server-properties.
    pub information: String,
    /// `cluster_name` of the server-properties.
    pub cluster_name: String,
    /// Mechanisms offered, in this order.
    pub mechanisms: Vec<Mechanism>,
    /// Who an anonymous client is.
    pub anonymous_user: ShortString,
    /// Frame size offered; at least [`FRAME_MAX_LOWEST`].
    pub frame_max: u32,
    /// Largest frame before `connection.open`.
    pub initial_frame_max: u32,
    /// Channels offered; 0 is no limit.
    pub channel_max: u16,
    /// Heartbeat interval offered, in seconds; 0 for none. The client's answer counts.
    pub heartbeat_secs: u16,
    /// From accept to `connection.open`, in milliseconds.
    pub handshake_timeout_millis: u64,
    /// Largest body a client may publish, in bytes.
    pub message_size_max: u64,
    /// Bytes of half-received contents over all channels; at least [`Self::message_size_max`].
    pub unfinished_content_max: u64,
    /// Bytes of publishes and returns that wait for `tx.commit`, over all channels.
    pub transaction_max: u64,
    /// `basic.qos` with `global` is one bound of each consumer, as RabbitMQ 4.3 has it by default, and not of all
    /// consumers of the channel.
    pub has_own_prefetch_only: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            product: "RabbitMQ".to_owned(),
            version: "4.3.6".to_owned(),
            platform: "Leveret".to_owned(),
            copyright: "Copyright (c) the Leveret authors".to_owned(),
            information: "Licensed under the Apache License 2.0".to_owned(),
            cluster_name: "leveret".to_owned(),
            mechanisms: vec![Mechanism::Plain, Mechanism::Anonymous, Mechanism::AmqPlain],
            anonymous_user: ShortString::from_static("guest"),
            frame_max: FRAME_MAX,
            initial_frame_max: INITIAL_FRAME_MAX,
            channel_max: CHANNEL_MAX,
            heartbeat_secs: HEARTBEAT_SECS,
            handshake_timeout_millis: HANDSHAKE_TIMEOUT_MILLIS,
            message_size_max: MESSAGE_SIZE_MAX,
            unfinished_content_max: UNFINISHED_CONTENT_MAX,
            transaction_max: TRANSACTION_MAX,
            has_own_prefetch_only: false,
        }
    }
}
