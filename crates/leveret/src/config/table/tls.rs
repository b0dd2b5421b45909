//! Certificates, and listeners beside TCP.

use std::path::PathBuf;

use leveret_server::Network;

use super::super::{
    setting::{
        Form::{Ip, Member, Port},
        Row, in_form, key,
    },
    value::{Endpoint, Millis, Value},
};
use super::types::{ClientCrlCheck, HostFiles, LoginPart, SanType, TlsVersion, VerifyWhom};

settings! {
    TlsSettings "TLS"

    /// The broker's certificate and its chain, in PEM; with it AMQP clients can use TLS
    tls_cert: Option<PathBuf> {
        value_name: "FILE",
        default_words: "none",
        keys: &[key("ssl_options.certfile")],
        over: &[key("RABBITMQ_SSL_CERTFILE")],
    }
    /// The key of that certificate, in PEM, not encrypted
    tls_key: Option<PathBuf> {
        value_name: "FILE",
        default_words: "none",
        keys: &[key("ssl_options.keyfile")],
        over: &[key("RABBITMQ_SSL_KEYFILE")],
    }
    /// Another certificate and key, for clients that ask for this host; may be given several times
    tls_host: HostFiles {
        value_name: "HOST=CERT,KEY",
        default_words: "none",
    }
    /// Authorities whose certificates clients may show, in PEM
    tls_ca: Option<PathBuf> {
        value_name: "FILE",
        default_words: "none",
        keys: &[key("ssl_options.cacertfile")],
        over: &[key("RABBITMQ_SSL_CACERTFILE")],
    }
    /// Whether clients are asked for a certificate
    tls_verify: VerifyWhom {
        value_name: "WHOM",
        default: "none",
        keys: &[key("ssl_options.verify")],
        over: &[key("RABBITMQ_SSL_VERIFY")],
    }
    /// Send clients away that show no certificate
    tls_require_client_cert: bool {
        value_name: "BOOL",
        default: "false",
        keys: &[key("ssl_options.fail_if_no_peer_cert")],
        over: &[key("RABBITMQ_SSL_FAIL_IF_NO_PEER_CERT")],
    }
    /// Certificates that may lie between a client's own and an authority
    tls_depth: u32 {
        value_name: "N",
        default: "10",
        keys: &[key("ssl_options.depth")],
    }
    /// Whether certificates of clients are looked for in lists of those that were taken back
    tls_crl_check: ClientCrlCheck {
        value_name: "WORD",
        default: "false",
        keys: &[key("ssl_options.crl_check")],
    }
    /// Directories with these lists, in PEM or DER; read anew when they change
    tls_crl_dirs: Vec<PathBuf> {
        value_name: "DIRECTORIES",
        default_words: "none",
        keys: &[in_form("ssl_options.crl_sources.$n.path", Member)],
    }
    /// Versions offered; those before 1.2 are not there and are left out of the list
    tls_versions: Vec<TlsVersion> {
        value_name: "VERSIONS",
        default_words: "both",
        keys: &[in_form("ssl_options.versions.$n", Member)],
    }
    /// Cipher suites offered, by OpenSSL's names, best first
    tls_ciphers: Vec<String> {
        value_name: "NAMES",
        default_words: "all that are known to be good",
        keys: &[in_form("ssl_options.ciphers.$n", Member)],
    }
    /// Take the first of these suites that the client has, not the first of the client's
    tls_honor_cipher_order: bool {
        value_name: "BOOL",
        default: "false",
        keys: &[key("ssl_options.honor_cipher_order")],
    }
    /// How long a TLS handshake may take, in milliseconds
    ssl_handshake_timeout: Millis {
        value_name: "MILLIS",
        default: "5000",
        range: (1, 3_600_000),
        keys: &[key("ssl_handshake_timeout")],
    }
    /// Which part of a client's certificate is the user's name, for the mechanism EXTERNAL
    ssl_cert_login_from: LoginPart {
        value_name: "PART",
        default: "distinguished-name",
        keys: &[key("ssl_cert_login_from")],
    }
    /// The type of that alternative name, where ssl_cert_login_from names none
    ssl_cert_login_san_type: SanType {
        value_name: "TYPE",
        default: "dns",
        keys: &[key("ssl_cert_login_san_type")],
    }
    /// Which of several alternative names of that type, from 0
    ssl_cert_login_san_index: u16 {
        value_name: "N",
        default: "0",
        keys: &[key("ssl_cert_login_san_index")],
    }
    /// Address and port for AMQP clients that use TLS; may be given several times
    tls_listen: Option<Vec<Endpoint>> {
        value_name: "ADDR:PORT",
        default_words: "5671 if there is a certificate; none beside --listen",
        port: 5671,
        keys: &[in_form("listeners.ssl.$name", Member), key("listeners.ssl")],
    }
    /// The certificate of the HTTP API and of the metrics, where it is another than that of AMQP
    http_tls_cert: Option<PathBuf> {
        value_name: "FILE",
        default_words: "that of AMQP",
        keys: &[key("management.listener.ssl_opts.certfile"), key("management.ssl.certfile")],
        over: &[key("RABBITMQ_MANAGEMENT_SSL_CERTFILE")],
    }
    /// The key of that certificate
    http_tls_key: Option<PathBuf> {
        value_name: "FILE",
        default_words: "that of AMQP",
        keys: &[key("management.listener.ssl_opts.keyfile"), key("management.ssl.keyfile")],
        over: &[key("RABBITMQ_MANAGEMENT_SSL_KEYFILE")],
    }
    /// Address and port of the HTTP API with TLS
    http_tls_listen: Option<Endpoint> {
        value_name: "ADDR:PORT",
        default_words: "none",
        port: 15671,
        keys: &[in_form("management.ssl.port", Port), in_form("management.ssl.ip", Ip)],
    }
    /// Address and port of the metrics with TLS
    metrics_tls_listen: Option<Endpoint> {
        value_name: "ADDR:PORT",
        default_words: "none",
        port: 15691,
        keys: &[in_form("prometheus.ssl.port", Port), in_form("prometheus.ssl.ip", Ip)],
    }
    /// A socket in the file system for AMQP clients of this machine; may be given several times
    unix_listen: Vec<PathBuf> {
        value_name: "PATH",
        default_words: "none",
    }
    /// AMQP clients come by TCP through a proxy only, which tells who they are by the PROXY protocol
    proxy_protocol: bool {
        value_name: "BOOL",
        default: "false",
        keys: &[key("proxy_protocol")],
    }
    /// Addresses or networks, such as `10.0.0.0/8`, from which such a proxy may come; who comes from elsewhere is hung
    /// up on
    proxy_protocol_trusted: Vec<Network> {
        value_name: "NETWORK",
        default_words: "everywhere",
    }
}
