//! How this broker comes to others as a client: whom it believes that they are who they say.

use std::{path::PathBuf, sync::Arc};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{
        CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature,
        verify_tls13_signature,
    },
    pki_types::{CertificateDer, ServerName, UnixTime},
};

use crate::{
    depth,
    server_config::{TlsError, roots, versions},
    settings::{DEPTH, Verify},
};

/// What a client asks of a server's certificate.
#[derive(Debug, Clone)]
pub struct ClientTlsSettings {
    /// With [`Verify::None`] anybody may be the server.
    pub verify: Verify,
    /// The authorities that the certificate must lead to, in PEM; those of the system when there are none.
    pub authorities: Option<PathBuf>,
    /// Certificates that may lie between the server's own and an authority.
    pub depth: u32,
}

impl Default for ClientTlsSettings {
    fn default() -> Self {
        Self {
            verify: Verify::Peer,
            authorities: None,
            depth: DEPTH,
        }
    }
}

impl ClientTlsSettings {
    /// Reads the authorities and makes of them what a handshake needs, for HTTP.
    ///
    /// # Errors
    ///
    /// When there are none, or their file is no good.
    pub fn load(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let verifier: Arc<dyn ServerCertVerifier> = match self.verify {
            Verify::None => Arc::new(Anybody(algorithms)),
            Verify::Peer => Arc::new(OfAuthority {
                depth: self.depth,
                inner: self.of_authority(&provider)?,
            }),
        };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions(&[]))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    fn of_authority(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
        let roots = match &self.authorities {
            Some(path) => roots(path)?,
            None => of_system()?,
        };
        WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone())
            .build()
            .map_err(|_| TlsError::NoAuthorities)
    }
}

/// Those that the system trusts. Some are of kinds that are not known here; who is left must be somebody.
fn of_system() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err(TlsError::NoAuthorities);
    }
    Ok(roots)
}

/// Takes who leads to an authority, has the name that was asked for, and not too many between.
#[derive(Debug)]
struct OfAuthority {
    depth: u32,
    inner: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for OfAuthority {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self
            .inner
            .verify_server_cert(own, between, name, ocsp, now)?;
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

/// Takes everybody: `verify_none`, which an operator has to say.
#[derive(Debug)]
struct Anybody(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _own: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, own, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, own, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
