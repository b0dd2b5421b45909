//! What the settings of the table can be, beyond numbers, texts and files: words to choose from, and lists.

use std::path::PathBuf;

use leveret_management::HeaderValue;

use crate::logging::{CategoryLevel, Moments};

use super::super::{
    keyed::parts,
    value::{Range, Value, words},
};

words! {
    /// Where queues and messages are kept.
    Storage {
        /// In the data directory
        Disk = "disk",
        /// In memory
        Memory = "memory",
    }
}

words! {
    /// When a message counts as stored.
    StorageSync {
        /// When it is on the disk: survives a power cut
        Always = "always",
        /// When the system has it; on the disk a second later. Survives a kill of the broker
        Interval = "interval",
        /// When the system has it, which writes it when it likes. Survives a kill of the broker
        Never = "never",
    }
}

words! {
    /// How clients prove who they are.
    AuthMechanism {
        /// User and password
        Plain = "plain",
        /// User and password, as a table
        Amqplain = "amqplain",
        /// The user of `anonymous_login_user`, without a password
        Anonymous = "anonymous",
        /// The user whom the client's certificate names; on TLS listeners only
        External = "external",
        /// User, then the password in a second round; as secure as `plain`, for tests of clients
        CrDemo = "rabbit-cr-demo",
    }
}

words! {
    /// Who is asked whether somebody may come in.
    AuthBackendName {
        /// The users of this broker
        Internal = "internal" | "rabbit_auth_backend_internal",
        /// The issuer of access tokens
        Oauth2 = "oauth2" | "oauth" | "rabbit_auth_backend_oauth2",
        /// Nobody: there is none here, which is told at the start
        Ldap = "ldap" | "rabbit_auth_backend_ldap",
        /// As ldap
        Http = "http" | "rabbit_auth_backend_http",
        /// As ldap
        Cache = "cache" | "rabbit_auth_backend_cache",
    }
}

words! {
    /// How a password is stored.
    PasswordHashing {
        /// SHA-256, as RabbitMQ does
        Sha256 = "sha256" | "rabbit_password_hashing_sha256",
        /// SHA-512, which RabbitMQ has too
        Sha512 = "sha512" | "rabbit_password_hashing_sha512",
        /// MD5, as RabbitMQ did before 3.6
        Md5 = "md5" | "rabbit_password_hashing_md5",
        /// Argon2id, which takes memory
        Argon2id = "argon2id" | "leveret_password_hashing_argon2id",
    }
}

words! {
    /// What is looked at in a new password.
    PasswordValidator {
        /// Nothing
        Nothing = "accept-everything" | "rabbit_credential_validator_accept_everything",
        /// Its length
        MinLength = "min-length" | "rabbit_credential_validator_min_password_length",
        /// Whether a pattern matches
        Regexp = "regexp" | "rabbit_credential_validator_password_regexp",
    }
}

words! {
    /// How a token is signed.
    TokenAlgorithm {
        Rs256 = "rs256",
        Rs384 = "rs384",
        Rs512 = "rs512",
        Ps256 = "ps256",
        Ps384 = "ps384",
        Ps512 = "ps512",
        Es256 = "es256",
        Es384 = "es384",
        EdDsa = "eddsa",
        /// Never accepted: what is signed with a shared secret
        Hs256 = "hs256",
        Hs384 = "hs384",
        Hs512 = "hs512",
    }
}

/// Names with words each.
#[derive(Debug, Default)]
pub(crate) struct Wordlists(pub(crate) Vec<(String, Vec<String>)>);

impl Value for Wordlists {
    const IS_LIST: bool = true;

    fn read(text: &str, _range: Range) -> Option<Self> {
        let parts = parts(text);
        let parts = parts.iter().map(String::as_str);
        let lists = parts.map(|part| {
            let (name, words) = part.split_once('=')?;
            let words = words.split_ascii_whitespace().map(str::to_owned);
            Some((unescaped(name), words.collect()))
        });
        lists.collect::<Option<Vec<_>>>().map(Self)
    }

    fn allowed(_range: Range) -> String {
        "NAME=WORDS".to_owned()
    }
}

/// Files by their names.
#[derive(Debug, Default)]
pub(crate) struct NamedFiles(pub(crate) Vec<(String, PathBuf)>);

impl Value for NamedFiles {
    const IS_LIST: bool = true;

    fn read(text: &str, _range: Range) -> Option<Self> {
        let parts = parts(text);
        let parts = parts.iter().map(String::as_str);
        let files = parts.map(|part| {
            let (name, path) = part.split_once('=')?;
            (!path.is_empty()).then(|| (unescaped(name), path.into()))
        });
        files.collect::<Option<Vec<_>>>().map(Self)
    }

    fn allowed(_range: Range) -> String {
        "NAME=FILE".to_owned()
    }
}

/// A word of a key, in which `\.` is a point.
fn unescaped(word: &str) -> String {
    word.replace("\\.", ".")
}

words! {
    /// Whether clients are asked for a certificate.
    VerifyWhom {
        /// Nobody
        None = "none" | "verify_none",
        /// Every client; what it shows must lead to an authority of `tls_ca`
        Peer = "peer" | "verify_peer",
    }
}

words! {
    /// Which certificates must be on no list of those that were taken back.
    ClientCrlCheck {
        /// Nobody looks
        No = "false",
        /// Each on the way to the authority, and there must be a list for each
        All = "true",
        /// The client's own, and there must be a list for it
        Peer = "peer",
        /// Each for which there is a list
        BestEffort = "best_effort",
    }
}

words! {
    /// A version of TLS.
    TlsVersion {
        Tls12 = "tlsv1.2",
        Tls13 = "tlsv1.3",
        /// Not there: left out of a list
        Older = "tlsv1.1" | "tlsv1",
    }
}

words! {
    /// The part of a certificate that names its user.
    LoginPart {
        /// The whole subject, such as O=client,CN=alice
        DistinguishedName = "distinguished-name" | "distinguished_name",
        /// The common name
        CommonName = "common-name" | "common_name",
        /// The alternative name of the type of `ssl_cert_login_san_type`
        San = "subject-alternative-name" | "subject_alternative_name" | "subject_alt_name",
        SanDns = "san-dns",
        SanIp = "san-ip",
        SanEmail = "san-email",
        SanUri = "san-uri",
    }
}

words! {
    /// The type of an alternative name.
    SanType {
        Dns = "dns",
        Ip = "ip",
        Email = "email",
        Uri = "uri",
    }
}

/// Hosts with what is shown to those who ask for them: certificate and key.
#[derive(Debug, Default)]
pub(crate) struct HostFiles(pub(crate) Vec<(String, PathBuf, PathBuf)>);

impl Value for HostFiles {
    const IS_LIST: bool = true;

    fn read(text: &str, _range: Range) -> Option<Self> {
        let parts: Vec<&str> = text.split(',').filter(|part| !part.is_empty()).collect();
        let hosts = parts.chunks(2).map(|pair| {
            let [certificate, key] = pair else {
                return None;
            };
            let (host, certificate) = certificate.split_once('=')?;
            Some((host.to_owned(), certificate.into(), (*key).into()))
        });
        hosts.collect::<Option<Vec<_>>>().map(Self)
    }

    fn allowed(_range: Range) -> String {
        "HOST=CERT,KEY".to_owned()
    }
}

words! {
    /// What is logged, from "somebody must look" to every step of the protocol.
    LogLevel {
        Off = "off" | "none",
        Error = "error" | "critical" | "alert" | "emergency",
        Warn = "warn" | "warning",
        Info = "info" | "notice",
        Debug = "debug",
        Trace = "trace",
    }
}

words! {
    /// Lines for people, or one JSON object a line.
    LogFormat {
        Text = "text" | "plaintext",
        Json = "json",
    }
}

words! {
    /// Where the log goes.
    LogTo {
        Stderr = "stderr",
        Stdout = "stdout",
    }
}

words! {
    /// How syslog is reached.
    SyslogTransport {
        Udp = "udp",
        Tcp = "tcp",
        /// Not there: nothing is sent then
        Tls = "tls" | "ssl",
    }
}

words! {
    /// The form of messages to syslog.
    SyslogProtocol {
        Rfc3164 = "rfc3164",
        Rfc5424 = "rfc5424",
    }
}

words! {
    /// Parts of a system, in the words of syslog.
    SyslogFacility {
        Kern = "kern" | "kernel",
        User = "user" | "userlevel",
        Mail = "mail",
        Daemon = "daemon" | "system",
        Auth = "auth",
        Syslog = "syslog",
        Lpr = "lpr",
        News = "news",
        Uucp = "uucp",
        Cron = "cron",
        Authpriv = "authpriv",
        Ftp = "ftp",
        Ntp = "ntp",
        Audit = "audit",
        Alert = "alert",
        Clock = "clock",
        Local0 = "local0",
        Local1 = "local1",
        Local2 = "local2",
        Local3 = "local3",
        Local4 = "local4",
        Local5 = "local5",
        Local6 = "local6",
        Local7 = "local7",
    }
}

/// Moments at which a file of log lines is put aside.
#[derive(Debug)]
pub(crate) struct LogMoments(pub(crate) Moments);

impl Value for LogMoments {
    fn read(text: &str, _range: Range) -> Option<Self> {
        Moments::read(text).map(Self)
    }

    fn allowed(_range: Range) -> String {
        "moments such as $D0, $W0D23, $M1D0 or $H30".to_owned()
    }
}

/// Levels of categories.
#[derive(Debug, Default)]
pub(crate) struct LogCategories(pub(crate) Vec<CategoryLevel>);

impl Value for LogCategories {
    const IS_LIST: bool = true;

    fn read(text: &str, range: Range) -> Option<Self> {
        let parts = parts(text);
        let parts = parts.iter().map(String::as_str);
        let levels = parts.map(|part| CategoryLevel::read(part, range));
        levels.collect::<Option<Vec<_>>>().map(Self)
    }

    fn allowed(_range: Range) -> String {
        "CATEGORY=LEVEL".to_owned()
    }
}

/// A file of log lines, if there is one.
#[derive(Debug)]
pub(crate) enum LogFileName {
    /// None.
    None,
    /// None, and the console although it may be off.
    ConsoleOnly,
    /// This one.
    At(PathBuf),
}

impl Value for LogFileName {
    fn read(text: &str, _range: Range) -> Option<Self> {
        match text {
            "" | "false" => Some(Self::None),
            "-" => Some(Self::ConsoleOnly),
            // RabbitMQ's name for the file is that of its node.
            "true" => Some(Self::At("leveret.log".into())),
            name => Some(Self::At(name.into())),
        }
    }

    fn allowed(_range: Range) -> String {
        "the name of a file, false or -".to_owned()
    }
}

words! {
    /// Which rates tools are told that they are shown.
    RatesMode {
        None = "none",
        Basic = "basic",
        Detailed = "detailed",
    }
}

/// The value of a header.
#[derive(Debug)]
pub(crate) struct HeaderText(pub(crate) HeaderValue);

impl Value for HeaderText {
    fn read(text: &str, _range: Range) -> Option<Self> {
        HeaderValue::from_str(text).ok().map(Self)
    }

    fn allowed(_range: Range) -> String {
        "the value of an HTTP header".to_owned()
    }
}

words! {
    /// The type of a queue that asks for none.
    QueueType {
        Classic = "classic",
        Quorum = "quorum",
        Stream = "stream",
    }
}
