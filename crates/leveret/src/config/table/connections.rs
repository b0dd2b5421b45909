//! What clients are offered and bound to, and how they log in.

use super::super::{
    keyed::PatternText,
    setting::{Form::Member, Row, in_form, key},
    value::{Bytes, Millis, Secs, Value},
};
use super::MESSAGE_SIZE_CAP;
use super::types::{AuthBackendName, AuthMechanism, PasswordHashing, PasswordValidator};

settings! {
    ConnectionSettings "Connections"

    /// Largest body in bytes; a larger one closes the channel
    max_message_size: Bytes {
        value_name: "BYTES",
        default: "16777216",
        range: (1, MESSAGE_SIZE_CAP),
        keys: &[key("max_message_size")],
    }
    /// Largest frame in bytes
    frame_max: Bytes {
        value_name: "BYTES",
        default: "131072",
        range: (8192, 0x7fff_ffff),
        keys: &[key("frame_max")],
    }
    /// How long a consumer of a quorum queue may keep a message without an ack, in milliseconds, when neither the queue,
    /// its policy nor the consumer says; then the message goes to another. 0 is as long as it likes
    consumer_timeout: Millis {
        value_name: "TIME",
        default: "1800000",
        range: (0, u64::MAX),
        keys: &[key("consumer_timeout")],
    }
    /// Channels that a client may have open at once; 0 is as many as there are numbers for
    channel_max: u16 {
        value_name: "N",
        default: "2047",
        range: (0, 65535),
        keys: &[key("max_channels_per_connection"), key("channel_max")],
    }
    /// Heartbeat interval that clients are offered, in seconds; 0 offers none
    heartbeat: Secs {
        value_name: "SECS",
        default: "60",
        keys: &[key("heartbeat")],
    }
    /// From accept to the end of the login, in milliseconds
    handshake_timeout: Millis {
        value_name: "MILLIS",
        default: "10000",
        range: (1, 3_600_000),
        keys: &[key("handshake_timeout")],
    }
    /// Ways to log in that clients are offered
    auth_mechanisms: Vec<AuthMechanism> {
        value_name: "NAMES",
        default: "plain,anonymous,amqplain",
        keys: &[in_form("auth_mechanisms.$n", Member)],
    }
    /// Who is asked, one after the other, whether somebody may come in: `internal` are the users of this broker,
    /// `oauth2` takes an access token as the password. There are no others, which is told at the start
    auth_backends: Vec<AuthBackendName> {
        value_name: "NAMES",
        default: "internal",
        range: (1, 64),
        keys: &[in_form("auth_backends.$n", Member)],
    }
    /// Logins from one address (of IPv6: one network of 64 bits) that may fail within a minute; then for the rest of it
    /// nobody from there is listened to. 0 is any number
    login_failures_max: u32 {
        value_name: "N",
        default: "1000",
    }
    /// How new passwords are hashed; those that are stored stay as they are, and each user logs in with theirs. Definitions go
    /// to RabbitMQ and back with all but `argon2id`, which makes a stolen hash hard to guess from: it takes 19 MiB and some
    /// ten milliseconds for each login, of which two at a time
    password_hashing: PasswordHashing {
        value_name: "NAME",
        default: "sha256",
        keys: &[key("password_hashing_module")],
    }
    /// What new passwords must be, of users who are made or changed over HTTP, by the command line or by definitions: as long
    /// as `password_min_length` says, or matched by `password_regexp`. Hashes are taken as they are
    password_validator: PasswordValidator {
        value_name: "NAME",
        default: "accept-everything",
        keys: &[key("credential_validator.validation_backend")],
    }
    /// Bytes that a new password must have, if `password_validator` is `min-length`
    password_min_length: u64 {
        value_name: "BYTES",
        default: "5",
        keys: &[key("credential_validator.min_length")],
    }
    /// What a new password must match, if `password_validator` is `regexp`
    password_regexp: Option<PatternText> {
        value_name: "PATTERN",
        default_words: "none",
        keys: &[key("credential_validator.regexp")],
    }
    /// Whether there may be new classic queues; those that are there stay
    queue_types_classic: bool {
        value_name: "BOOL",
        default: "true",
        keys: &[key("queue_types.classic.enabled")],
    }
    /// Whether there may be new quorum queues
    queue_types_quorum: bool {
        value_name: "BOOL",
        default: "true",
        keys: &[key("queue_types.quorum.enabled")],
    }
    /// Whether there may be new streams
    queue_types_stream: bool {
        value_name: "BOOL",
        default: "true",
        keys: &[key("queue_types.stream.enabled")],
    }
    /// Largest frame before a client has logged in; an access token must have room in it
    initial_frame_max: Bytes {
        value_name: "BYTES",
        default: "8192",
        range: (4096, 0x7fff_ffff),
        keys: &[key("initial_frame_max")],
    }
    /// Who an anonymous client is; `none` for nobody
    anonymous_login_user: String {
        value_name: "USER",
        default: "guest",
        range: (1, 255),
        keys: &[key("anonymous_login_user")],
    }
    /// Product that clients are told; some libraries look for RabbitMQ
    compat_product: String {
        value_name: "NAME",
        default: "RabbitMQ",
    }
    /// Version that clients are told
    compat_version: String {
        value_name: "VERSION",
        default: "4.3.6",
    }
    /// Whether what RabbitMQ 4.3 does not do any more, or permits for the time being only, is refused: queues that
    /// neither last nor are exclusive, `x-queue-mode`, and a prefetch that all consumers of a channel share, which is
    /// then one of each consumer. Older releases do all of that
    compat_strict: bool {
        value_name: "BOOL",
        default: "false",
    }
    /// Whether consumers of a channel may share a prefetch (`basic.qos` with `global`); if not, it is one of each
    /// consumer. RabbitMQ permits it only if told to
    permit_global_qos: bool {
        value_name: "BOOL",
        default: "true",
        keys: &[key("deprecated_features.permit.global_qos")],
    }
    /// Whether there may be new queues that neither last nor are exclusive
    permit_transient_nonexcl_queues: bool {
        value_name: "BOOL",
        default: "true",
        keys: &[key("deprecated_features.permit.transient_nonexcl_queues")],
    }
    /// Whether classic queues take `x-queue-master-locator`, which has no effect
    permit_queue_master_locator: bool {
        value_name: "BOOL",
        default: "false",
        keys: &[key("deprecated_features.permit.queue_master_locator")],
    }
}
