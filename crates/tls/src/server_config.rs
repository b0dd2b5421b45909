//! From files to the configuration of a handshake.

use std::{path::PathBuf, sync::Arc};

use rustls::{
    RootCertStore, ServerConfig, SupportedProtocolVersion,
    crypto::{CryptoProvider, ring},
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};

use crate::{
    ciphers, client_verifier,
    settings::{CertificateFiles, TlsSettings, Version},
};

/// Why there is no TLS. The text is for the operator.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read or holds no such thing.
    #[error("cannot read a {what} from {path}: {source}")]
    File {
        /// What was looked for.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: pem::Error,
    },
    /// A file without what was looked for.
    #[error("there is no {what} in {path}")]
    Nothing {
        /// What was looked for.
        what: &'static str,
        /// Where.
        path: PathBuf,
    },
    /// A key that needs a password.
    #[error(
        "the key in {0} is encrypted: store it without a password, readable by the broker's user only"
    )]
    EncryptedKey(PathBuf),
    /// A certificate or key that is not good, or two that do not belong together.
    #[error("cannot use the certificate {path}: {source}")]
    Certificate {
        /// Of the certificate.
        path: PathBuf,
        /// Why not.
        source: rustls::Error,
    },
    /// An authority that is none.
    #[error("cannot use the authorities in {path}: {text}")]
    Authorities {
        /// Where.
        path: PathBuf,
        /// Why not.
        text: String,
    },
    /// Lists of certificates that were taken back, and are none.
    #[error("cannot read lists of certificates that were taken back from {path}: {text}")]
    RevocationLists {
        /// Where.
        path: PathBuf,
        /// Why not.
        text: String,
    },
    /// Nobody that another one's certificate could lead to.
    #[error("the system has no authorities: name a file with them")]
    NoAuthorities,
    /// Settings that exclude each other, or leave nothing.
    #[error("{0}")]
    Settings(&'static str),
    /// Anything else rustls says.
    #[error("cannot set up TLS: {0}")]
    Other(#[from] rustls::Error),
}

/// Reads all files and makes of them what listeners need.
pub(crate) fn load(settings: &TlsSettings) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(CryptoProvider {
        cipher_suites: ciphers::suites(&settings.ciphers)?,
        ..ring::default_provider()
    });
    let certificates = Certificates {
        own: certified(&settings.own, &provider)?,
        by_host: settings
            .by_host
            .iter()
            .map(|(host, files)| Ok((host.to_ascii_lowercase(), certified(files, &provider)?)))
            .collect::<Result<_, TlsError>>()?,
    };
    let verifier = client_verifier::of(settings, &provider)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions(&settings.versions))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(certificates));
    config.ignore_client_order = settings.own_cipher_order;
    Ok(config)
}

/// What is shown to whom.
#[derive(Debug)]
struct Certificates {
    own: Arc<CertifiedKey>,
    by_host: Vec<(String, Arc<CertifiedKey>)>,
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = hello.server_name().unwrap_or_default();
        let named = self
            .by_host
            .iter()
            .find(|(host, _)| host.eq_ignore_ascii_case(asked));
        Some(named.map_or(&self.own, |(_, certified)| certified).clone())
    }
}

fn certified(
    files: &CertificateFiles,
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = certificates(&files.certificate, "certificate")?;
    let key = private_key(&files.key)?;
    // Also says whether the two belong together.
    let certified =
        CertifiedKey::from_der(chain, key, provider).map_err(|source| TlsError::Certificate {
            path: files.certificate.clone(),
            source,
        })?;
    Ok(Arc::new(certified))
}

fn certificates(
    path: &PathBuf,
    what: &'static str,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable = |source| TlsError::File {
        what,
        path: path.clone(),
        source,
    };
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(unreadable)?
        .collect::<Result<_, _>>()
        .map_err(unreadable)?;
    if found.is_empty() {
        let path = path.clone();
        return Err(TlsError::Nothing { what, path });
    }
    Ok(found)
}

fn private_key(path: &PathBuf) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|source| {
        let is_encrypted = std::fs::read(path).is_ok_and(|text| {
            let has = |word: &[u8]| text.windows(word.len()).any(|part| part == word);
            has(b"ENCRYPTED PRIVATE KEY") || has(b"Proc-Type: 4,ENCRYPTED")
        });
        if is_encrypted {
            return TlsError::EncryptedKey(path.clone());
        }
        TlsError::File {
            what: "private key",
            path: path.clone(),
            source,
        }
    })
}

/// The authorities of a file.
pub(crate) fn roots(path: &PathBuf) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(path, "certificate of an authority")? {
        roots
            .add(authority)
            .map_err(|error| TlsError::Authorities {
                path: path.clone(),
                text: error.to_string(),
            })?;
    }
    Ok(roots)
}

pub(crate) fn versions(asked: &[Version]) -> Vec<&'static SupportedProtocolVersion> {
    if asked.is_empty() {
        return vec![&TLS13, &TLS12];
    }
    asked
        .iter()
        .map(|version| match version {
            Version::Tls12 => &TLS12,
            Version::Tls13 => &TLS13,
        })
        .collect()
}
