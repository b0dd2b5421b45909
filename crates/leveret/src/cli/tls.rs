//! What the command line says about TLS, proxies and sockets in the file system. Names follow `ssl_options` of
//! rabbitmq.conf.

use std::{net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use clap::{Args, ValueEnum};
use leveret_server::ServerOptions;
use leveret_tls::{AlternativeName, CertificateFiles, LoginFrom, TlsSettings, Verify, Version};

#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct TlsArguments {
    /// The broker's certificate and its chain, in PEM; with it AMQP clients can use TLS
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_key",
        env = "LEVERET_TLS_CERT"
    )]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The key of that certificate, in PEM, not encrypted
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_cert",
        env = "LEVERET_TLS_KEY"
    )]
    pub(crate) tls_key: Option<PathBuf>,

    /// Another certificate and key, for clients that ask for this host; may be given several times
    #[arg(long, value_name = "HOST=CERT,KEY", requires = "tls_cert")]
    pub(crate) tls_host: Vec<HostFiles>,

    /// Authorities whose certificates clients may show, in PEM
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_cert",
        env = "LEVERET_TLS_CA"
    )]
    pub(crate) tls_ca: Option<PathBuf>,

    /// Whether clients are asked for a certificate
    #[arg(
        long,
        value_name = "WHOM",
        default_value = "none",
        env = "LEVERET_TLS_VERIFY"
    )]
    pub(crate) tls_verify: VerifyWhom,

    /// Send clients away that show no certificate
    #[arg(long, requires = "tls_cert", env = "LEVERET_TLS_REQUIRE_CLIENT_CERT")]
    pub(crate) tls_require_client_cert: bool,

    /// Versions offered (default: both)
    #[arg(
        long,
        value_name = "VERSIONS",
        value_delimiter = ',',
        env = "LEVERET_TLS_VERSIONS"
    )]
    pub(crate) tls_versions: Vec<TlsVersion>,

    /// Cipher suites offered, by OpenSSL's names, best first (default: all that are known to be good)
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        env = "LEVERET_TLS_CIPHERS"
    )]
    pub(crate) tls_ciphers: Vec<String>,

    /// Take the first of these suites that the client has, not the first of the client's
    #[arg(long, env = "LEVERET_TLS_HONOR_CIPHER_ORDER")]
    pub(crate) tls_honor_cipher_order: bool,

    /// How long a TLS handshake may take, in milliseconds
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 5000,
        env = "LEVERET_SSL_HANDSHAKE_TIMEOUT"
    )]
    pub(crate) ssl_handshake_timeout: u64,

    /// Which part of a client's certificate is the user's name, for the mechanism EXTERNAL
    #[arg(
        long,
        value_name = "PART",
        default_value = "distinguished-name",
        env = "LEVERET_SSL_CERT_LOGIN_FROM"
    )]
    pub(crate) ssl_cert_login_from: LoginPart,

    /// Which of several alternative names of that type, from 0
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        env = "LEVERET_SSL_CERT_LOGIN_SAN_INDEX"
    )]
    pub(crate) ssl_cert_login_san_index: usize,

    /// Address and port for AMQP clients that use TLS; may be given several times (default with a
    /// certificate: port 5671 of every address, and none when --listen is given)
    #[arg(
        long,
        value_name = "ADDR:PORT",
        requires = "tls_cert",
        value_delimiter = ',',
        env = "LEVERET_TLS_LISTEN",
        hide_env = true
    )]
    pub(crate) tls_listen: Vec<SocketAddr>,

    /// Address and port of the HTTP API with TLS (default: none)
    #[arg(
        long,
        value_name = "ADDR:PORT",
        requires = "tls_cert",
        env = "LEVERET_HTTP_TLS_LISTEN",
        hide_env = true
    )]
    pub(crate) http_tls_listen: Option<SocketAddr>,

    /// Address and port of the metrics with TLS (default: none)
    #[arg(
        long,
        value_name = "ADDR:PORT",
        requires = "tls_cert",
        env = "LEVERET_METRICS_TLS_LISTEN",
        hide_env = true
    )]
    pub(crate) metrics_tls_listen: Option<SocketAddr>,

    /// A socket in the file system for AMQP clients of this machine; may be given several times
    #[arg(
        long,
        value_name = "PATH",
        value_delimiter = ',',
        env = "LEVERET_UNIX_LISTEN",
        hide_env = true
    )]
    pub(crate) unix_listen: Vec<PathBuf>,

    /// AMQP clients come by TCP through a proxy only, which tells who they are by the PROXY protocol
    #[arg(long, env = "LEVERET_PROXY_PROTOCOL")]
    pub(crate) proxy_protocol: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum VerifyWhom {
    /// Nobody
    None,
    /// Every client; what it shows must lead to an authority of --tls-ca
    Peer,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum TlsVersion {
    /// TLS 1.2
    #[value(name = "tlsv1.2")]
    Tls12,
    /// TLS 1.3
    #[value(name = "tlsv1.3")]
    Tls13,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum LoginPart {
    /// The whole subject, such as O=client,CN=alice
    DistinguishedName,
    /// The common name
    CommonName,
    /// An alternative name that is a host
    SanDns,
    /// An alternative name that is an address
    SanIp,
    /// An alternative name that is a mailbox
    SanEmail,
    /// An alternative name that is a URI
    SanUri,
}

/// A host with what is shown to those who ask for it.
#[derive(Debug, Clone)]
pub(crate) struct HostFiles(String, CertificateFiles);

impl FromStr for HostFiles {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('=').and_then(|(host, files)| {
            let (certificate, key) = files.split_once(',')?;
            let files = CertificateFiles {
                certificate: certificate.into(),
                key: key.into(),
            };
            Some(Self(host.to_owned(), files))
        });
        parts.ok_or("not of the form HOST=CERT,KEY")
    }
}

impl TlsArguments {
    /// What a TLS listener for AMQP needs, if there is to be one.
    pub(crate) fn settings(&self) -> Option<TlsSettings> {
        let (certificate, key) = self.tls_cert.clone().zip(self.tls_key.clone())?;
        let hosts = self.tls_host.iter();
        Some(TlsSettings {
            by_host: hosts
                .map(|HostFiles(host, files)| (host.clone(), files.clone()))
                .collect(),
            authorities: self.tls_ca.clone(),
            verify: match self.tls_verify {
                VerifyWhom::None => Verify::None,
                VerifyWhom::Peer => Verify::Peer,
            },
            requires_certificate: self.tls_require_client_cert,
            versions: self
                .tls_versions
                .iter()
                .map(|version| match version {
                    TlsVersion::Tls12 => Version::Tls12,
                    TlsVersion::Tls13 => Version::Tls13,
                })
                .collect(),
            ciphers: self.tls_ciphers.clone(),
            own_cipher_order: self.tls_honor_cipher_order,
            ..TlsSettings::new(CertificateFiles { certificate, key })
        })
    }

    /// The same certificate for browsers and scrapers, who are not asked for theirs.
    pub(crate) fn http_settings(&self) -> Option<TlsSettings> {
        Some(TlsSettings {
            authorities: None,
            verify: Verify::None,
            requires_certificate: false,
            ..self.settings()?
        })
    }

    pub(crate) fn server_options(&self) -> ServerOptions {
        let index = self.ssl_cert_login_san_index;
        ServerOptions {
            tls_handshake_timeout: Duration::from_millis(self.ssl_handshake_timeout),
            login_from: match self.ssl_cert_login_from {
                LoginPart::DistinguishedName => LoginFrom::DistinguishedName,
                LoginPart::CommonName => LoginFrom::CommonName,
                LoginPart::SanDns => LoginFrom::AlternativeName(AlternativeName::Dns, index),
                LoginPart::SanIp => LoginFrom::AlternativeName(AlternativeName::Ip, index),
                LoginPart::SanEmail => LoginFrom::AlternativeName(AlternativeName::Email, index),
                LoginPart::SanUri => LoginFrom::AlternativeName(AlternativeName::Uri, index),
            },
        }
    }
}
