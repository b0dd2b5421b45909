//! What a certificate says of its user, and files that change.

use std::{fs, path::Path};

use leveret_tls::{
    AlternativeName, CertificateFiles, LoginFrom, PeerCertificate, Tls, TlsError, TlsSettings,
    Verify,
};
use rcgen::{CertificateParams, DnType, DnValue, KeyPair, SanType};

fn params(names: &[(DnType, &str)]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    for (kind, value) in names {
        let value = DnValue::Utf8String((*value).to_owned());
        params.distinguished_name.push(kind.clone(), value);
    }
    params
}

#[track_caller]
fn login(params: CertificateParams, from: LoginFrom) -> Option<String> {
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    PeerCertificate::read(certificate.der(), from)
        .expect("it can be read")
        .login
}

#[test]
fn the_subject_is_told_from_its_end() {
    let names = [
        (DnType::CommonName, "alice"),
        (DnType::OrganizationName, "client"),
    ];
    assert_eq!(
        login(params(&names), LoginFrom::DistinguishedName).as_deref(),
        Some("O=client,CN=alice")
    );
}

#[test]
fn a_value_cannot_pass_for_two_parts() {
    let names = [(DnType::CommonName, "alice,CN=admin")];
    assert_eq!(
        login(params(&names), LoginFrom::DistinguishedName).as_deref(),
        Some("CN=alice\\,CN=admin")
    );
}

#[test]
fn a_common_name_is_a_user() {
    let names = [
        (DnType::OrganizationName, "client"),
        (DnType::CommonName, "alice"),
    ];
    assert_eq!(
        login(params(&names), LoginFrom::CommonName).as_deref(),
        Some("alice")
    );
    let nobody = [(DnType::OrganizationName, "client")];
    assert_eq!(login(params(&nobody), LoginFrom::CommonName), None);
}

#[test]
fn an_alternative_name_is_a_user() {
    let mut certificate = params(&[(DnType::CommonName, "x")]);
    certificate.subject_alt_names = vec![
        SanType::DnsName("one.example".try_into().unwrap()),
        SanType::Rfc822Name("alice@example".try_into().unwrap()),
        SanType::DnsName("two.example".try_into().unwrap()),
        SanType::URI("spiffe://example/alice".try_into().unwrap()),
        SanType::IpAddress("10.0.0.7".parse().unwrap()),
    ];
    for (kind, index, user) in [
        (AlternativeName::Dns, 0, Some("one.example")),
        (AlternativeName::Dns, 1, Some("two.example")),
        (AlternativeName::Dns, 2, None),
        (AlternativeName::Email, 0, Some("alice@example")),
        (AlternativeName::Uri, 0, Some("spiffe://example/alice")),
        (AlternativeName::Ip, 0, Some("10.0.0.7")),
    ] {
        let from = LoginFrom::AlternativeName(kind, index);
        assert_eq!(
            login(certificate.clone(), from).as_deref(),
            user,
            "{kind:?} {index}"
        );
    }
}

fn write_pair(directory: &Path) -> CertificateFiles {
    let key = KeyPair::generate().expect("a key");
    let certificate = params(&[(DnType::CommonName, "broker")])
        .self_signed(&key)
        .expect("a certificate");
    let files = CertificateFiles {
        certificate: directory.join("cert.pem"),
        key: directory.join("key.pem"),
    };
    fs::write(&files.certificate, certificate.pem()).expect("written");
    fs::write(&files.key, key.serialize_pem()).expect("written");
    files
}

#[test]
fn files_that_changed_are_read_anew_and_broken_ones_change_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let files = write_pair(directory.path());
    let tls = Tls::load(TlsSettings::new(files.clone())).unwrap();
    assert!(!tls.reload_if_changed().unwrap());

    let before = tls.config();
    fs::write(&files.key, "nothing").unwrap();
    assert!(matches!(
        tls.reload_if_changed(),
        Err(TlsError::File { .. })
    ));
    assert!(std::sync::Arc::ptr_eq(&before, &tls.config()));
    // The complaint comes once, not with each look.
    assert!(!tls.reload_if_changed().unwrap());

    write_pair(directory.path());
    assert!(tls.reload_if_changed().unwrap());
    assert!(!std::sync::Arc::ptr_eq(&before, &tls.config()));
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let files = write_pair(directory.path());
    fs::write(
        &files.key,
        KeyPair::generate().expect("a key").serialize_pem(),
    )
    .unwrap();
    let refused = Tls::load(TlsSettings::new(files)).unwrap_err();
    assert!(matches!(refused, TlsError::Certificate { .. }), "{refused}");
}

#[test]
fn settings_that_cannot_be_meant_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let settings = TlsSettings::new(write_pair(directory.path()));
    let required = TlsSettings {
        requires_certificate: true,
        ..settings.clone()
    };
    assert!(matches!(Tls::load(required), Err(TlsError::Settings(_))));
    let nobody = TlsSettings {
        verify: Verify::Peer,
        ..settings
    };
    assert!(matches!(Tls::load(nobody), Err(TlsError::Settings(_))));
}

#[test]
fn an_encrypted_key_is_named_as_such() {
    let directory = tempfile::tempdir().unwrap();
    let files = write_pair(directory.path());
    fs::write(
        &files.key,
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    )
    .unwrap();
    let refused = Tls::load(TlsSettings::new(files)).unwrap_err();
    assert!(matches!(refused, TlsError::EncryptedKey(_)), "{refused}");
}
