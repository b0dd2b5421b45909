//! Every setting there is, once. From this come the flags and their help, the variables, the keys of rabbitmq.conf and
//! of TOML, what `leveret config` prints, what is suggested for a name that does not exist, and docs/configuration.md.
//!
//! To add one: a row in the file of its group; it is then a field there, a flag, a `LEVERET_` variable and a key
//! in TOML under its own name. `keys` are its names in rabbitmq.conf, `over` and `under` RabbitMQ's own variables for it,
//! which a configuration file yields to or overrides. Then `leveret config document > docs/configuration.md`.

/// A group of settings: its struct, with a field for each row, and its rows.
macro_rules! settings {
    ($(#[$outer:meta])* $group:ident $section:literal $(
        $(#[doc = $doc:literal])+
        $name:ident: $type:ty { $($attribute:ident: $value:expr),* $(,)? }
    )*) => {
        /// What this group is set to.
        #[derive(Debug)]
        $(#[$outer])*
        pub(crate) struct $group {
            $( $(#[doc = $doc])+ pub(crate) $name: $type, )*
        }

        impl $group {
            /// Their part of the table.
            pub(super) const ROWS: &[Row] = &[$(
                Row {
                    $($attribute: $value,)*
                    ..Row::of::<$type>(stringify!($name), $section, concat!($($doc, "\n"),+))
                },
            )*];

            /// From the next texts; `None` if one of them is not allowed.
            pub(super) fn read(
                texts: &mut dyn Iterator<Item = (&'static Row, &str)>,
            ) -> Option<Self> {
                Some(Self { $(
                    $name: {
                        let (row, text) = texts.next()?;
                        <$type as Value>::read(text, row.range)?
                    },
                )* })
            }
        }
    };
}

mod configuration;
mod connections;
mod http;
mod listeners;
mod logging;
mod node;
mod storage;
mod tls;
mod tokens;
mod types;
mod without_effect;

use self::{
    configuration::ConfigurationSettings, connections::ConnectionSettings, http::HttpSettings,
    listeners::ListenerSettings, logging::LogSettings, node::NodeSettings,
    storage::StorageSettings, tls::TlsSettings, tokens::TokenSettings,
};
pub(crate) use self::{
    types::{
        AuthBackendName, AuthMechanism, ClientCrlCheck, LogFileName, LogFormat, LogLevel,
        LogMoments, LogTo, LoginPart, PasswordHashing, PasswordValidator, QueueType, RatesMode,
        SanType, Storage, StorageSync, SyslogFacility, SyslogProtocol, SyslogTransport, TlsVersion,
        TokenAlgorithm, VerifyWhom,
    },
    without_effect::WITHOUT_EFFECT,
};
use super::{
    setting::Row,
    value::{Endpoint, OptionalEndpoint},
};

/// No operator can allow a larger body.
const MESSAGE_SIZE_CAP: u64 = 512 * 1024 * 1024;

macro_rules! groups {
    ($($(#[doc = $doc:literal])+ $name:ident: $group:ident,)*) => {
        /// What everything is set to.
        #[derive(Debug)]
        #[expect(dead_code, reason = "those about configuration itself are read while the others are merged")]
        pub(crate) struct Settings {
            $( $(#[doc = $doc])+ pub(crate) $name: $group, )*
        }

        const GROUPS: &[&[Row]] = &[$($group::ROWS),*];

        impl Settings {
            /// From one text for each row; `None` if one of them is not allowed.
            pub(crate) fn read<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<Self> {
                let mut texts = ROWS.iter().zip(texts);
                Some(Self { $( $name: $group::read(&mut texts)?, )* })
            }
        }
    };
}

groups! {
    /// Where settings are read from.
    configuration: ConfigurationSettings,
    /// What is kept where, and from when on publishers wait.
    storage: StorageSettings,
    /// Addresses, and what tells others of them.
    listeners: ListenerSettings,
    /// Names, what an empty broker begins with, and bounds of the whole.
    node: NodeSettings,
    /// What clients are offered and bound to, and how they log in.
    connections: ConnectionSettings,
    /// Who signs access tokens, and what is asked of them.
    tokens: TokenSettings,
    /// Certificates, and listeners beside TCP.
    tls: TlsSettings,
    /// The HTTP API and the metrics.
    http: HttpSettings,
    /// What is logged, where, and in which form.
    logging: LogSettings,
}

/// The table.
pub(crate) static ROWS: &[Row] = &joined::<{ count(GROUPS) }>(GROUPS);

const fn count(groups: &[&[Row]]) -> usize {
    let mut count = 0;
    let mut at = 0;
    while at < groups.len() {
        count += groups[at].len();
        at += 1;
    }
    count
}

/// The rows of all groups, one behind the other.
const fn joined<const COUNT: usize>(groups: &[&[Row]]) -> [Row; COUNT] {
    let mut rows = [Row::of::<bool>("", "", ""); COUNT];
    let mut count = 0;
    let mut at = 0;
    while at < groups.len() {
        let mut row = 0;
        while row < groups[at].len() {
            rows[count] = groups[at][row];
            count += 1;
            row += 1;
        }
        at += 1;
    }
    rows
}

impl Settings {
    /// What cannot be together, in words for the operator.
    pub(crate) fn contradiction(&self) -> Option<&'static str> {
        let has_certificate = self.tls.tls_cert.is_some();
        if has_certificate != self.tls.tls_key.is_some() {
            return Some("tls_cert and tls_key go together: one of them is missing");
        }
        if self.tls.http_tls_cert.is_some() != self.tls.http_tls_key.is_some() {
            return Some("http_tls_cert and http_tls_key go together: one of them is missing");
        }
        if self.tls.tls_listen.iter().flatten().next().is_some() && !has_certificate {
            return Some("tls_listen needs a certificate: tls_cert and tls_key");
        }
        let serves_https =
            self.tls.http_tls_listen.is_some() || self.tls.metrics_tls_listen.is_some();
        if serves_https && !has_certificate && self.tls.http_tls_cert.is_none() {
            return Some("an HTTP listener with TLS needs a certificate: tls_cert and tls_key");
        }
        let mut versions = self.tls.tls_versions.iter();
        if !self.tls.tls_versions.is_empty() && versions.all(|one| *one == TlsVersion::Older) {
            return Some("tls_versions has none that is there: they are tlsv1.2 and tlsv1.3");
        }
        if self.connections.password_validator == PasswordValidator::Regexp
            && self.connections.password_regexp.is_none()
        {
            return Some("password_validator is regexp, and there is no password_regexp");
        }
        None
    }

    /// Whether a port is any free one, so that nobody knows it before it is told.
    pub(crate) fn lets_system_choose_ports(&self) -> bool {
        let amqp = self
            .listeners
            .listen
            .iter()
            .chain(&self.tls.tls_listen)
            .flatten();
        let plain = [self.listeners.http_listen, self.listeners.metrics_listen]
            .into_iter()
            .flatten();
        let plain = plain.filter_map(|endpoint| match endpoint {
            OptionalEndpoint::At(endpoint) => Some(endpoint),
            OptionalEndpoint::Off => None,
        });
        let encrypted = [self.tls.http_tls_listen, self.tls.metrics_tls_listen];
        let http = plain.chain(encrypted.into_iter().flatten());
        let mut all = amqp.copied().chain(http);
        all.any(|endpoint| endpoint.addresses().0.port() == 0)
    }

    /// Whether AMQP clients are served at addresses of the operator's choice, as brokers that live side by side are. A port
    /// alone is none: that is how RabbitMQ's own image is told to use another.
    pub(crate) fn has_chosen_addresses(&self) -> bool {
        let listen = self.listeners.listen.iter().flatten();
        listen
            .into_iter()
            .any(|endpoint| matches!(endpoint, Endpoint::At(_)))
    }
}
