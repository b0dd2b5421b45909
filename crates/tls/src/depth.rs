//! How many certificates may lie between one and its authority.

use rustls::{CertificateError, Error, pki_types::CertificateDer};
use x509_parser::{certificate::X509Certificate, prelude::FromDer};

/// Refuses a chain that is longer than `depth`.
pub(crate) fn check(between: &[CertificateDer<'_>], depth: u32) -> Result<(), Error> {
    // Authorities that somebody sends along although it is not needed do not count.
    let counted = between.iter().filter(|der| !is_of_itself(der)).count();
    if u32::try_from(counted).unwrap_or(u32::MAX) > depth {
        return Err(CertificateError::UnknownIssuer.into());
    }
    Ok(())
}

fn is_of_itself(der: &CertificateDer<'_>) -> bool {
    X509Certificate::from_der(der)
        .is_ok_and(|(_, certificate)| certificate.subject() == certificate.issuer())
}
