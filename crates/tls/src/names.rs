//! What a client's certificate says, in the forms of RabbitMQ.

use std::net::{Ipv4Addr, Ipv6Addr};

use rustls::pki_types::CertificateDer;
use x509_parser::{
    certificate::X509Certificate,
    extensions::GeneralName,
    prelude::FromDer,
    time::ASN1Time,
    x509::{AttributeTypeAndValue, X509Name},
};

use crate::settings::{AlternativeName, LoginFrom};

/// Short names of what a subject is made of.
const SHORT_NAMES: [(&str, &str); 18] = [
    ("2.5.4.4", "SN"),
    ("2.5.4.42", "GIVENNAME"),
    ("2.5.4.43", "INITIALS"),
    ("2.5.4.44", "GENERATIONQUALIFIER"),
    (COMMON_NAME, "CN"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "TITLE"),
    ("2.5.4.6", "C"),
    ("2.5.4.46", "DNQUALIFIER"),
    ("2.5.4.5", "SERIALNUMBER"),
    ("2.5.4.65", "PSEUDONYM"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "EMAILADDRESS"),
    ("2.5.4.9", "STREET"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];

const COMMON_NAME: &str = "2.5.4.3";

/// A certificate that a client has shown and that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate {
    /// Whose it is.
    pub subject: String,
    /// Who made it.
    pub issuer: String,
    /// From when to when it is good.
    pub validity: String,
    /// The user it stands for, if it has the part that [`LoginFrom`] names.
    pub login: Option<String>,
}

impl PeerCertificate {
    /// Reads a certificate; `None` for one that only rustls understood.
    #[must_use]
    pub fn read(der: &CertificateDer<'_>, login_from: LoginFrom) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let validity = certificate.validity();
        let (from, to) = (validity.not_before, validity.not_after);
        Some(Self {
            subject: distinguished_name(certificate.subject()),
            issuer: distinguished_name(certificate.issuer()),
            validity: format!("{} - {}", moment(from), moment(to)),
            login: login(&certificate, login_from).filter(|name| !name.is_empty()),
        })
    }
}

fn login(certificate: &X509Certificate<'_>, from: LoginFrom) -> Option<String> {
    match from {
        LoginFrom::DistinguishedName => Some(distinguished_name(certificate.subject())),
        LoginFrom::CommonName => {
            let attributes = certificate.subject().iter_attributes();
            let names: Vec<String> = attributes
                .filter(|attribute| attribute.attr_type().to_id_string() == COMMON_NAME)
                .map(value)
                .collect();
            Some(names.join(","))
        }
        LoginFrom::AlternativeName(kind, index) => {
            let extension = certificate.subject_alternative_name().ok()??;
            let mut names = extension
                .value
                .general_names
                .iter()
                .filter_map(|name| alternative_name(name, kind));
            names.nth(index)
        }
    }
}

fn alternative_name(name: &GeneralName<'_>, kind: AlternativeName) -> Option<String> {
    match (kind, name) {
        (AlternativeName::Dns, GeneralName::DNSName(text))
        | (AlternativeName::Email, GeneralName::RFC822Name(text))
        | (AlternativeName::Uri, GeneralName::URI(text)) => Some((*text).to_owned()),
        (AlternativeName::Ip, GeneralName::IPAddress(octets)) => {
            if let Ok(octets) = <[u8; 4]>::try_from(*octets) {
                return Some(Ipv4Addr::from(octets).to_string());
            }
            let octets = <[u8; 16]>::try_from(*octets).ok()?;
            Some(Ipv6Addr::from(octets).to_string())
        }
        _ => None,
    }
}

/// The last part first, as RabbitMQ has it.
fn distinguished_name(name: &X509Name<'_>) -> String {
    let mut parts: Vec<String> = name
        .iter_rdn()
        .map(|part| {
            let attributes: Vec<String> = part.iter().map(attribute).collect();
            attributes.join("+")
        })
        .collect();
    parts.reverse();
    parts.join(",")
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let id = attribute.attr_type().to_id_string();
    let short = SHORT_NAMES.iter().find(|(known, _)| *known == id);
    let escaped = escaped(&value(attribute));
    match short {
        Some((_, short)) => format!("{short}={escaped}"),
        None => format!("{id}={escaped}"),
    }
}

fn value(attribute: &AttributeTypeAndValue<'_>) -> String {
    attribute.as_str().map_or_else(
        |_| String::from_utf8_lossy(attribute.attr_value().data).into_owned(),
        str::to_owned,
    )
}

/// By RFC 4514: a value cannot pass for two parts.
fn escaped(value: &str) -> String {
    let last = value.chars().count().saturating_sub(1);
    let mut escaped = String::with_capacity(value.len());
    for (at, letter) in value.chars().enumerate() {
        let is_special = matches!(letter, ',' | '+' | '"' | '\\' | '<' | '>' | ';')
            || (at == 0 && matches!(letter, '#' | ' '))
            || (at == last && letter == ' ');
        if is_special {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

fn moment(time: ASN1Time) -> String {
    let time = time.to_datetime();
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        time.year(),
        u8::from(time.month()),
        time.day(),
        time.hour(),
        time.minute(),
        time.second()
    )
}
