//! How long the certificates of a file are good.

use std::path::Path;

use rustls::pki_types::{CertificateDer, pem::PemObject};
use x509_parser::prelude::{FromDer, X509Certificate};

/// When a certificate begins and ceases to be good, both in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Not before.
    pub from: i64,
    /// Not after.
    pub until: i64,
}

impl Validity {
    /// Those of every certificate in a file in PEM, as it is now; `None` when it cannot be read.
    #[must_use]
    pub fn of_file(path: &Path) -> Option<Vec<Self>> {
        CertificateDer::pem_file_iter(path)
            .ok()?
            .map(|der| Self::of(&der.ok()?))
            .collect()
    }

    fn of(der: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let validity = certificate.validity();
        Some(Self {
            from: validity.not_before.timestamp(),
            until: validity.not_after.timestamp(),
        })
    }
}
