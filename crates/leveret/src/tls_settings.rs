//! From what the operator set to what TLS listeners need.

use std::time::Duration;

use leveret_server::ServerOptions;
use leveret_tls::{
    AlternativeName, CertificateFiles, LoginFrom, Revocation, TlsSettings, Verify, Version,
};

use crate::config::{ClientCrlCheck, LoginPart, SanType, Settings, TlsVersion, VerifyWhom};

/// What a TLS listener for AMQP needs, if there is a certificate.
pub(crate) fn amqp(settings: &Settings) -> Option<TlsSettings> {
    let (certificate, key) = settings
        .tls
        .tls_cert
        .clone()
        .zip(settings.tls.tls_key.clone())?;
    Some(of(settings, CertificateFiles { certificate, key }))
}

/// The same for browsers and scrapers, who are not asked for theirs; with a certificate of its own or that of AMQP.
pub(crate) fn http(settings: &Settings) -> Option<TlsSettings> {
    let own = settings
        .tls
        .http_tls_cert
        .clone()
        .zip(settings.tls.http_tls_key.clone());
    let shared = settings
        .tls
        .tls_cert
        .clone()
        .zip(settings.tls.tls_key.clone());
    let (certificate, key) = own.or(shared)?;
    Some(TlsSettings {
        authorities: None,
        verify: Verify::None,
        requires_certificate: false,
        revocation: Revocation::Ignored,
        revocation_lists: Vec::new(),
        ..of(settings, CertificateFiles { certificate, key })
    })
}

fn of(settings: &Settings, own: CertificateFiles) -> TlsSettings {
    let by_host = settings.tls.tls_host.0.iter();
    let by_host = by_host.map(|(host, certificate, key)| {
        let files = CertificateFiles {
            certificate: certificate.clone(),
            key: key.clone(),
        };
        (host.clone(), files)
    });
    let versions = settings
        .tls
        .tls_versions
        .iter()
        .filter_map(|version| match version {
            TlsVersion::Tls12 => Some(Version::Tls12),
            TlsVersion::Tls13 => Some(Version::Tls13),
            TlsVersion::Older => None,
        });
    TlsSettings {
        by_host: by_host.collect(),
        authorities: settings.tls.tls_ca.clone(),
        verify: match settings.tls.tls_verify {
            VerifyWhom::None => Verify::None,
            VerifyWhom::Peer => Verify::Peer,
        },
        requires_certificate: settings.tls.tls_require_client_cert,
        depth: settings.tls.tls_depth,
        revocation: match settings.tls.tls_crl_check {
            ClientCrlCheck::No => Revocation::Ignored,
            ClientCrlCheck::All => Revocation::OfAll,
            ClientCrlCheck::Peer => Revocation::OfPeer,
            ClientCrlCheck::BestEffort => Revocation::WhereKnown,
        },
        revocation_lists: settings.tls.tls_crl_dirs.clone(),
        versions: versions.collect(),
        ciphers: settings.tls.tls_ciphers.clone(),
        own_cipher_order: settings.tls.tls_honor_cipher_order,
        ..TlsSettings::new(own)
    }
}

/// What the server needs to know beside AMQP.
pub(crate) fn server_options(settings: &Settings, sockets_max: usize) -> ServerOptions {
    let index = usize::from(settings.tls.ssl_cert_login_san_index);
    let alternative = |name| LoginFrom::AlternativeName(name, index);
    ServerOptions {
        sockets_max,
        trusted_proxies: settings.tls.proxy_protocol_trusted.clone(),
        tls_handshake_timeout: Duration::from_millis(settings.tls.ssl_handshake_timeout.0),
        login_from: match settings.tls.ssl_cert_login_from {
            LoginPart::DistinguishedName => LoginFrom::DistinguishedName,
            LoginPart::CommonName => LoginFrom::CommonName,
            LoginPart::SanDns => alternative(AlternativeName::Dns),
            LoginPart::SanIp => alternative(AlternativeName::Ip),
            LoginPart::SanEmail => alternative(AlternativeName::Email),
            LoginPart::SanUri => alternative(AlternativeName::Uri),
            LoginPart::San => alternative(match settings.tls.ssl_cert_login_san_type {
                SanType::Dns => AlternativeName::Dns,
                SanType::Ip => AlternativeName::Ip,
                SanType::Email => AlternativeName::Email,
                SanType::Uri => AlternativeName::Uri,
            }),
        },
    }
}
