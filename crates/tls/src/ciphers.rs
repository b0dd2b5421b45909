//! Cipher suites by the names that configuration files have, and as the HTTP API shows them.

use rustls::{CipherSuite, ProtocolVersion, SupportedCipherSuite, crypto::ring};
use tracing::warn;

use crate::server_config::TlsError;

/// The suites of these OpenSSL names, in their order; all there are for no name.
///
/// A list written for another library has names that are not there: they are left out, as long as one is left.
pub(crate) fn suites(names: &[String]) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    if names.is_empty() {
        return Ok(ring::ALL_CIPHER_SUITES.to_vec());
    }
    let mut found = Vec::new();
    for name in names {
        let known = ring::ALL_CIPHER_SUITES
            .iter()
            .find(|suite| openssl_name(suite.suite()) == Some(name));
        match known {
            Some(suite) => found.push(*suite),
            None => warn!(cipher = %name, "this cipher suite is not there, going on without it"),
        }
    }
    if found.is_empty() {
        return Err(TlsError::Settings(
            "none of the configured cipher suites is there",
        ));
    }
    Ok(found)
}

fn openssl_name(suite: CipherSuite) -> Option<&'static str> {
    Some(match suite {
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => {
            "ECDHE-ECDSA-CHACHA20-POLY1305"
        }
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        _ => return None,
    })
}

/// What was agreed in a handshake, by the words of RabbitMQ's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CipherFacts {
    /// `tlsv1.2` or `tlsv1.3`.
    pub protocol: &'static str,
    /// How the key was agreed on.
    pub key_exchange: &'static str,
    /// What encrypts.
    pub cipher: &'static str,
    /// What authenticates.
    pub hash: &'static str,
}

impl CipherFacts {
    /// In words.
    #[must_use]
    pub fn of(protocol: ProtocolVersion, suite: CipherSuite) -> Self {
        let name = openssl_name(suite).unwrap_or_default();
        let is_tls13 = protocol == ProtocolVersion::TLSv1_3;
        let key_exchange = match name {
            _ if is_tls13 => "any",
            _ if name.starts_with("ECDHE-ECDSA") => "ecdhe_ecdsa",
            _ => "ecdhe_rsa",
        };
        let cipher = match name {
            _ if name.contains("CHACHA20") => "chacha20_poly1305",
            _ if name.contains("256-GCM") || name.contains("256_GCM") => "aes_256_gcm",
            _ => "aes_128_gcm",
        };
        Self {
            protocol: if is_tls13 { "tlsv1.3" } else { "tlsv1.2" },
            key_exchange,
            cipher,
            // Every suite there is encrypts and authenticates in one.
            hash: "aead",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_has_a_name() {
        for suite in ring::ALL_CIPHER_SUITES {
            assert!(openssl_name(suite.suite()).is_some(), "{suite:?}");
        }
    }

    #[test]
    fn names_of_other_libraries_are_left_out_unless_nothing_is_left() {
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        let found = suites(&names(&[
            "ECDHE-RSA-AES256-SHA384",
            "ECDHE-RSA-AES256-GCM-SHA384",
        ]));
        let found: Vec<_> = found
            .expect("one is left")
            .iter()
            .map(|suite| suite.suite())
            .collect();
        assert_eq!(found, [CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384]);
        assert!(suites(&names(&["RC4-MD5"])).is_err());
    }

    #[test]
    fn what_was_agreed_is_told_in_the_words_of_the_api() {
        let facts = CipherFacts::of(
            ProtocolVersion::TLSv1_2,
            CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        );
        assert_eq!(
            (facts.protocol, facts.key_exchange, facts.cipher),
            ("tlsv1.2", "ecdhe_rsa", "chacha20_poly1305")
        );
    }
}
