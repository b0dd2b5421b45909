//! TLS as listeners have it: from files to what a handshake needs, anew when the files change, and what a client's
//! certificate says; and what this broker asks of others' certificates where it is the client.
//!
//! Nothing here is a socket. Protocol versions 1.2 and 1.3 by rustls, cryptography by ring alone (ADR 9): no other
//! provider is compiled in, so none can be chosen by accident.

mod ciphers;
mod client_config;
mod client_verifier;
mod depth;
mod names;
mod reload;
mod server_config;
mod settings;
mod validity;

pub use rustls::{ClientConfig, ServerConfig};

pub use self::{
    ciphers::CipherFacts,
    client_config::ClientTlsSettings,
    names::PeerCertificate,
    reload::Tls,
    server_config::TlsError,
    settings::{
        AlternativeName, CertificateFiles, DEPTH, LoginFrom, Revocation, TlsSettings, Verify,
        Version,
    },
    validity::Validity,
};
