//! Whose certificates clients may show.

use std::{fs, io, path::Path, sync::Arc};

use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime, pem::PemObject},
    server::{
        NoClientAuth, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};

use crate::{
    depth,
    server_config::{TlsError, roots},
    settings::{Revocation, TlsSettings, Verify},
};

pub(crate) fn of(
    settings: &TlsSettings,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    if settings.verify == Verify::None {
        if settings.requires_certificate {
            return Err(TlsError::Settings(
                "fail_if_no_peer_cert needs verify_peer: nobody is asked for a certificate with verify_none",
            ));
        }
        if settings.revocation != Revocation::Ignored {
            return Err(TlsError::Settings(
                "crl_check needs verify_peer: nobody is asked for a certificate with verify_none",
            ));
        }
        return Ok(Arc::new(NoClientAuth));
    }
    let Some(path) = &settings.authorities else {
        return Err(TlsError::Settings(
            "verify_peer needs cacertfile: certificates of clients must lead to somebody",
        ));
    };
    let roots = Arc::new(roots(path)?);
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
    let builder = if settings.requires_certificate {
        builder
    } else {
        builder.allow_unauthenticated()
    };
    let lists = || revocation_lists(settings.directories());
    let builder = match settings.revocation {
        Revocation::Ignored => builder,
        Revocation::OfAll => builder.with_crls(lists()?),
        Revocation::OfPeer => builder
            .with_crls(lists()?)
            .only_check_end_entity_revocation(),
        Revocation::WhereKnown => builder
            .with_crls(lists()?)
            .allow_unknown_revocation_status(),
    };
    let inner = builder.build().map_err(|error| TlsError::Authorities {
        path: path.clone(),
        text: error.to_string(),
    })?;
    Ok(Arc::new(OfAuthority {
        depth: settings.depth,
        inner,
    }))
}

/// The lists in these directories. Without any, nothing would be checked at all.
fn revocation_lists(
    directories: &[impl AsRef<Path>],
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let mut lists = Vec::new();
    for directory in directories {
        let directory = directory.as_ref();
        let wrong = |text: String| TlsError::RevocationLists {
            path: directory.to_owned(),
            text,
        };
        let before = lists.len();
        for path in files_of(directory).map_err(|error| wrong(error.to_string()))? {
            let bytes = fs::read(&path).map_err(|error| wrong(error.to_string()))?;
            if bytes.starts_with(b"-----BEGIN ") {
                let found = CertificateRevocationListDer::pem_slice_iter(&bytes);
                for list in found {
                    lists
                        .push(list.map_err(|error| wrong(format!("{}: {error}", path.display())))?);
                }
            } else {
                lists.push(bytes.into());
            }
        }
        if lists.len() == before {
            return Err(wrong("there is none".to_owned()));
        }
    }
    if lists.is_empty() {
        return Err(TlsError::Settings(
            "crl_check needs a directory with lists: crl_sources.1 = dir, crl_sources.1.path = DIRECTORY",
        ));
    }
    Ok(lists)
}

/// Files that are not hidden, in the order of their names.
pub(crate) fn files_of(directory: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !is_hidden && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// Takes who leads to an authority over not too many others.
#[derive(Debug)]
struct OfAuthority {
    depth: u32,
    inner: Arc<dyn ClientCertVerifier>,
}

impl ClientCertVerifier for OfAuthority {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.inner.verify_client_cert(own, between, now)?;
        depth::check(between, self.depth)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, own, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, own, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
