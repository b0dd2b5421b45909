//! Which certificates of clients are taken: handshakes in memory.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use leveret_tls::{CertificateFiles, Revocation, Tls, TlsError, TlsSettings, Verify};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConnection,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer},
};

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = params(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// An authority, a broker that believes it, and what its clients show.
struct Ground {
    directory: tempfile::TempDir,
    root: Issuer,
    settings: TlsSettings,
}

/// What a client shows: its own certificate first.
struct Shown {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Ground {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        let key = KeyPair::generate().expect("a key");
        let root = Issuer::self_signed(authority_params("root"), key).expect("an authority");
        fs::write(at("root.pem"), root.as_ref().pem()).expect("written");
        let own = CertificateFiles {
            certificate: at("own.pem"),
            key: at("own.key"),
        };
        let key = KeyPair::generate().expect("a key");
        let certificate = params("broker").signed_by(&key, &root).expect("signed");
        fs::write(&own.certificate, certificate.pem()).expect("written");
        fs::write(&own.key, key.serialize_pem()).expect("written");
        let settings = TlsSettings {
            authorities: Some(at("root.pem")),
            verify: Verify::Peer,
            requires_certificate: true,
            ..TlsSettings::new(own)
        };
        fs::create_dir(at("lists")).expect("made");
        Self {
            directory,
            root,
            settings,
        }
    }

    fn lists(&self) -> PathBuf {
        self.directory.path().join("lists")
    }

    fn with(&self, revocation: Revocation) -> TlsSettings {
        TlsSettings {
            revocation,
            revocation_lists: vec![self.lists()],
            ..self.settings.clone()
        }
    }
}

fn client(number: u64, issuer: &Issuer, between: &[&Issuer]) -> Shown {
    let key = KeyPair::generate().expect("a key");
    let mut params = params("client");
    params.serial_number = Some(SerialNumber::from(number));
    let own = params.signed_by(&key, issuer).expect("signed");
    let own = std::iter::once(own.der().clone());
    let between = between.iter().map(|issuer| issuer.as_ref().der().clone());
    Shown {
        chain: own.chain(between).collect(),
        key: PrivateKeyDer::try_from(key.serialize_der()).expect("a key"),
    }
}

fn intermediate(number: u64, issuer: &Issuer) -> Issuer {
    let key = KeyPair::generate().expect("a key");
    let mut params = authority_params(&format!("intermediate {number}"));
    params.serial_number = Some(SerialNumber::from(number));
    Issuer::signed_by(params, key, issuer).expect("signed")
}

/// The list of an authority, with these numbers on it.
fn write_list(path: &Path, issuer: &Issuer, numbers: &[u64], in_pem: bool) {
    let revoked = numbers.iter().map(|&number| RevokedCertParams {
        serial_number: SerialNumber::from(number),
        revocation_time: date_time_ymd(2026, 1, 1),
        reason_code: None,
        invalidity_date: None,
    });
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2026, 1, 1),
        next_update: date_time_ymd(2126, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: revoked.collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let list = list.signed_by(issuer).expect("signed");
    let bytes = if in_pem {
        list.pem().expect("PEM").into_bytes()
    } else {
        list.der().to_vec()
    };
    fs::write(path, bytes).expect("written");
}

/// Whether the client comes in.
fn enters(tls: &Tls, shown: &Shown) -> bool {
    let mut roots = RootCertStore::empty();
    let path = tls.settings().authorities.as_ref().expect("some");
    let pem = fs::read(path).expect("read");
    let root = <CertificateDer<'_> as rustls::pki_types::pem::PemObject>::from_pem_slice(&pem);
    roots.add(root.expect("PEM")).expect("an authority");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("there are some")
        .with_root_certificates(roots)
        .with_client_auth_cert(shown.chain.clone(), shown.key.clone_key())
        .expect("a pair");
    let name = "localhost".try_into().expect("a name");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut server = ServerConnection::new(tls.config()).expect("a server");
    while client.is_handshaking() || server.is_handshaking() {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).expect("a vector");
        }
        let mut read = bytes.as_slice();
        while !read.is_empty() {
            server.read_tls(&mut read).expect("a slice");
            if server.process_new_packets().is_err() {
                return false;
            }
        }
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).expect("a vector");
        }
        let mut read = bytes.as_slice();
        while !read.is_empty() {
            client.read_tls(&mut read).expect("a slice");
            client.process_new_packets().expect("a good server");
        }
    }
    true
}

#[test]
fn sc10_a_chain_has_no_more_certificates_between_than_it_may() {
    let ground = Ground::new();
    let first = intermediate(1, &ground.root);
    let second = intermediate(2, &first);
    let shown = [
        client(10, &ground.root, &[]),
        client(11, &first, &[&first]),
        client(12, &second, &[&second, &first]),
    ];
    for depth in 0..3 {
        let settings = TlsSettings {
            depth,
            ..ground.settings.clone()
        };
        let tls = Tls::load(settings).expect("good");
        let entered: Vec<bool> = shown.iter().map(|shown| enters(&tls, shown)).collect();
        let expected: Vec<bool> = (0..3).map(|between| between <= depth).collect();
        assert_eq!(entered, expected, "depth {depth}");
    }
    // The authority itself, sent along, does not count.
    let settings = TlsSettings {
        depth: 0,
        ..ground.settings.clone()
    };
    let tls = Tls::load(settings).expect("good");
    assert!(enters(&tls, &client(13, &ground.root, &[&ground.root])));
}

#[test]
fn sc10_a_certificate_that_was_taken_back_lets_nobody_in() {
    let ground = Ground::new();
    let between = intermediate(1, &ground.root);
    let good = client(10, &ground.root, &[]);
    let bad = client(11, &ground.root, &[]);
    let behind = client(12, &between, &[&between]);
    write_list(&ground.lists().join("root.crl"), &ground.root, &[11], true);
    let entered = |revocation| {
        let tls = Tls::load(ground.with(revocation)).expect("good");
        [&good, &bad, &behind].map(|shown| enters(&tls, shown))
    };
    assert_eq!(entered(Revocation::Ignored), [true, true, true]);
    // Of the authority between there is no list, and so nobody knows of its clients.
    assert_eq!(entered(Revocation::OfAll), [true, false, false]);
    assert_eq!(entered(Revocation::OfPeer), [true, false, false]);
    assert_eq!(entered(Revocation::WhereKnown), [true, false, true]);
    write_list(&ground.lists().join("between.crl"), &between, &[], false);
    assert_eq!(entered(Revocation::OfAll), [true, false, true]);
    assert_eq!(entered(Revocation::OfPeer), [true, false, true]);
    // The authority between is taken back itself.
    write_list(
        &ground.lists().join("root.crl"),
        &ground.root,
        &[1, 11],
        true,
    );
    assert_eq!(entered(Revocation::OfAll), [true, false, false]);
    assert_eq!(entered(Revocation::WhereKnown), [true, false, false]);
    assert_eq!(entered(Revocation::OfPeer), [true, false, true]);
}

#[test]
fn lists_that_change_are_read_anew() {
    let ground = Ground::new();
    let shown = client(10, &ground.root, &[]);
    write_list(&ground.lists().join("root.crl"), &ground.root, &[], true);
    let tls = Tls::load(ground.with(Revocation::OfAll)).expect("good");
    assert!(enters(&tls, &shown));
    assert!(!tls.reload_if_changed().expect("good"));
    write_list(&ground.lists().join("root.crl"), &ground.root, &[10], true);
    assert!(tls.reload_if_changed().expect("good"));
    assert!(!enters(&tls, &shown));
    // One that comes in its place under another name.
    fs::remove_file(ground.lists().join("root.crl")).expect("gone");
    write_list(&ground.lists().join("newer.crl"), &ground.root, &[], false);
    assert!(tls.reload_if_changed().expect("good"));
    assert!(enters(&tls, &shown));
}

#[test]
fn without_lists_nobody_looks_and_so_there_is_no_tls() {
    let ground = Ground::new();
    let refused = Tls::load(ground.with(Revocation::OfAll)).expect_err("an empty directory");
    assert!(
        matches!(refused, TlsError::RevocationLists { .. }),
        "{refused}"
    );
    fs::write(ground.lists().join("root.crl"), "no list").expect("written");
    assert!(Tls::load(ground.with(Revocation::OfAll)).is_err());
    let nowhere = TlsSettings {
        revocation: Revocation::WhereKnown,
        ..ground.settings.clone()
    };
    assert!(matches!(Tls::load(nowhere), Err(TlsError::Settings(_))));
    let unasked = TlsSettings {
        verify: Verify::None,
        requires_certificate: false,
        ..ground.with(Revocation::OfPeer)
    };
    assert!(matches!(Tls::load(unasked), Err(TlsError::Settings(_))));
}
