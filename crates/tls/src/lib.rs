//! TLS as listeners have it: from files to what a handshake needs, anew when the files change, and what a client's
//! certificate says.
//!
//! Nothing here is a socket. Protocol versions 1.2 and 1.3 by rustls, cryptography by ring alone (ADR 9): no other
//! provider is compiled in, so none can be chosen by accident.

mod ciphers;
mod names;
mod reload;
mod server_config;
mod settings;

pub use rustls::ServerConfig;

pub use self::{
    ciphers::CipherFacts,
    names::PeerCertificate,
    reload::Tls,
    server_config::TlsError,
    settings::{AlternativeName, CertificateFiles, LoginFrom, TlsSettings, Verify, Version},
};
