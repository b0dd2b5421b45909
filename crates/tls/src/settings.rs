//! What an operator says about a TLS listener, by the words of `ssl_options`.

use std::path::PathBuf;

/// A certificate with its chain, and its key, both in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate first, then those that lead to its authority.
    pub certificate: PathBuf,
    /// The private key, not encrypted.
    pub key: PathBuf,
}

/// Whether clients are asked for a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Verify {
    /// Clients are not asked: `verify_none`.
    #[default]
    None,
    /// Clients are asked, and what they show must lead to an authority of ours: `verify_peer`.
    Peer,
}

/// Whether a certificate that leads to an authority may have been taken back since: `crl_check`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Revocation {
    /// Nobody asks: `false`.
    #[default]
    Ignored,
    /// Every certificate on the way must be on no list, and there must be a list that would have it: `true`.
    OfAll,
    /// The same of the client's own: `peer`.
    OfPeer,
    /// None may be on a list; where there is no list nobody asks: `best_effort`.
    WhereKnown,
}

/// A version that may be spoken. Older ones are not there at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// What stands in a certificate beside its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlternativeName {
    /// A host.
    Dns,
    /// An address.
    Ip,
    /// A mailbox.
    Email,
    /// Anything with a scheme.
    Uri,
}

/// Which part of a certificate is the user's name: `ssl_cert_login_from`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LoginFrom {
    /// The whole subject, its most special part first: `O=client,CN=alice`.
    #[default]
    DistinguishedName,
    /// The common names, with commas between.
    CommonName,
    /// One of the alternative names of a type, counted from 0.
    AlternativeName(AlternativeName, usize),
}

/// Certificates between one and its authority, unless said otherwise: as in Erlang.
pub const DEPTH: u32 = 10;

/// Settings of a listener.
#[derive(Debug, Clone)]
pub struct TlsSettings {
    /// What is shown to clients that name no host, or none of ours.
    pub own: CertificateFiles,
    /// What is shown to clients that ask for these hosts.
    pub by_host: Vec<(String, CertificateFiles)>,
    /// The authorities that clients' certificates must lead to, in PEM.
    pub authorities: Option<PathBuf>,
    /// Whether clients are asked for a certificate.
    pub verify: Verify,
    /// Whether a client that shows none is sent away: `fail_if_no_peer_cert`.
    pub requires_certificate: bool,
    /// Certificates that may lie between a client's own and an authority: `depth`.
    pub depth: u32,
    /// Whether they may have been taken back.
    pub revocation: Revocation,
    /// Directories with the lists of those, in PEM or DER: `crl_sources`.
    pub revocation_lists: Vec<PathBuf>,
    /// Versions offered; all there are when empty.
    pub versions: Vec<Version>,
    /// Cipher suites offered, by OpenSSL's names, best first; all there are when empty.
    pub ciphers: Vec<String>,
    /// Whether the order of [`Self::ciphers`] counts and not that of the client: `honor_cipher_order`.
    pub own_cipher_order: bool,
}

impl TlsSettings {
    /// A certificate, and everything else as it is without a word.
    #[must_use]
    pub const fn new(own: CertificateFiles) -> Self {
        Self {
            own,
            by_host: Vec::new(),
            authorities: None,
            verify: Verify::None,
            requires_certificate: false,
            depth: DEPTH,
            revocation: Revocation::Ignored,
            revocation_lists: Vec::new(),
            versions: Vec::new(),
            ciphers: Vec::new(),
            own_cipher_order: false,
        }
    }

    /// Every file that is read.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let own = std::iter::once(&self.own);
        let pairs = own.chain(self.by_host.iter().map(|(_, files)| files));
        pairs
            .flat_map(|files| [&files.certificate, &files.key])
            .chain(&self.authorities)
    }

    /// Every directory of which all files are read.
    pub(crate) fn directories(&self) -> &[PathBuf] {
        &self.revocation_lists
    }
}
