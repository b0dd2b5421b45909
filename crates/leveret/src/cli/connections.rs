//! What the command line says about connections. Names are those of rabbitmq.conf where it has one.

use clap::{Args, ValueEnum, value_parser};
use leveret_session::{Mechanism, Settings};

/// No operator can allow a larger body.
const MESSAGE_SIZE_CAP: u64 = 512 * 1024 * 1024;

#[derive(Debug, Args)]
#[command(next_help_heading = "Connections")]
pub(crate) struct ConnectionArguments {
    /// Largest body in bytes, up to 536870912; a larger one closes the channel
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = Settings::default().message_size_max,
        value_parser = value_parser!(u64).range(1..=MESSAGE_SIZE_CAP),
        env = "LEVERET_MAX_MESSAGE_SIZE"
    )]
    max_message_size: u64,

    /// Largest frame in bytes
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = Settings::default().frame_max,
        value_parser = value_parser!(u32).range(8192..=0x7fff_ffff),
        env = "LEVERET_FRAME_MAX"
    )]
    frame_max: u32,

    /// Channels that a client may have open at once
    #[arg(
        long,
        value_name = "N",
        default_value_t = Settings::default().channel_max,
        value_parser = value_parser!(u16).range(1..),
        env = "LEVERET_CHANNEL_MAX"
    )]
    channel_max: u16,

    /// Heartbeat interval that clients are offered, in seconds; 0 offers none
    #[arg(long, value_name = "SECS", default_value_t = Settings::default().heartbeat_secs, env = "LEVERET_HEARTBEAT")]
    heartbeat: u16,

    /// Ways to log in that clients are offered
    #[arg(
        long,
        value_name = "NAMES",
        default_value = "plain,anonymous,amqplain",
        value_delimiter = ',',
        env = "LEVERET_AUTH_MECHANISMS"
    )]
    auth_mechanisms: Vec<AuthMechanism>,

    /// Who an anonymous client is
    #[arg(
        long,
        value_name = "USER",
        default_value = "guest",
        value_parser = user_name,
        env = "LEVERET_ANONYMOUS_LOGIN_USER"
    )]
    anonymous_login_user: String,

    /// Product that clients are told; some libraries look for RabbitMQ
    #[arg(long, value_name = "NAME", default_value_t = Settings::default().product, env = "LEVERET_COMPAT_PRODUCT")]
    compat_product: String,

    /// Version that clients are told
    #[arg(long, value_name = "VERSION", default_value_t = Settings::default().version, env = "LEVERET_COMPAT_VERSION")]
    compat_version: String,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum AuthMechanism {
    /// User and password
    Plain,
    /// User and password, as a table
    Amqplain,
    /// The user of --anonymous-login-user, without a password
    Anonymous,
    /// The user whom the client's certificate names; on TLS listeners only
    External,
}

impl ConnectionArguments {
    /// The settings of all connections.
    pub(crate) fn settings(&self) -> Settings {
        let mechanisms = self
            .auth_mechanisms
            .iter()
            .map(|mechanism| match mechanism {
                AuthMechanism::Plain => Mechanism::Plain,
                AuthMechanism::Amqplain => Mechanism::AmqPlain,
                AuthMechanism::Anonymous => Mechanism::Anonymous,
                AuthMechanism::External => Mechanism::External,
            });
        let defaults = Settings::default();
        Settings {
            product: self.compat_product.clone(),
            version: self.compat_version.clone(),
            mechanisms: mechanisms.collect(),
            anonymous_user: self
                .anonymous_login_user
                .as_str()
                .try_into()
                .expect("its length was checked"),
            frame_max: self.frame_max,
            channel_max: self.channel_max,
            heartbeat_secs: self.heartbeat,
            message_size_max: self.max_message_size,
            unfinished_content_max: defaults.unfinished_content_max.max(self.max_message_size),
            transaction_max: defaults.transaction_max.max(self.max_message_size),
            ..defaults
        }
    }
}

fn user_name(text: &str) -> Result<String, &'static str> {
    if text.len() > 255 {
        return Err("a name has at most 255 bytes");
    }
    Ok(text.to_owned())
}
