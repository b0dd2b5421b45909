//! Public keys, and which signatures they check.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::Value;
use x509_parser::{
    certificate::X509Certificate,
    pem::Pem,
    prelude::FromDer,
    public_key::{PublicKey, RSAPublicKey},
    x509::SubjectPublicKeyInfo,
};

const ED25519: &str = "1.3.101.112";
const P256: &str = "1.2.840.10045.3.1.7";
const P384: &str = "1.3.132.0.34";

/// How a token is signed. Those with a shared secret are not here: a public key can never be taken for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// RSA, PKCS#1, SHA-256.
    Rs256,
    /// RSA, PKCS#1, SHA-384.
    Rs384,
    /// RSA, PKCS#1, SHA-512.
    Rs512,
    /// RSA, PSS, SHA-256.
    Ps256,
    /// RSA, PSS, SHA-384.
    Ps384,
    /// RSA, PSS, SHA-512.
    Ps512,
    /// ECDSA on P-256.
    Es256,
    /// ECDSA on P-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// By its name in a token's header.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "PS384" => Self::Ps384,
            "PS512" => Self::Ps512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            "EdDSA" => Self::EdDsa,
            _ => return None,
        })
    }

    const fn of_rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Self::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Self::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Self::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Self::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Self::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Self::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            Self::Es256 | Self::Es384 | Self::EdDsa => return None,
        })
    }
}

/// Why a file is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No PEM.
    #[error("is no public key and no certificate in PEM")]
    NotPem,
    /// A key of another kind.
    #[error("is no RSA key, none of the curves P-256 and P-384, and none of Ed25519")]
    Kind,
}

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key(Kind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl Key {
    /// From `PUBLIC KEY`, `RSA PUBLIC KEY` or `CERTIFICATE`.
    ///
    /// # Errors
    ///
    /// [`KeyError`].
    pub fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        let pem = Pem::iter_from_buffer(text).next();
        let pem = pem.and_then(Result::ok).ok_or(KeyError::NotPem)?;
        let der = &pem.contents[..];
        let kind = match pem.label.as_str() {
            "PUBLIC KEY" => {
                let (_, key) = SubjectPublicKeyInfo::from_der(der).map_err(|_| KeyError::NotPem)?;
                of_info(&key)
            }
            "CERTIFICATE" => {
                let (_, found) = X509Certificate::from_der(der).map_err(|_| KeyError::NotPem)?;
                of_info(found.public_key())
            }
            "RSA PUBLIC KEY" => {
                let (_, key) = RSAPublicKey::from_der(der).map_err(|_| KeyError::NotPem)?;
                Some(of_rsa(&key))
            }
            _ => return Err(KeyError::NotPem),
        };
        kind.map(Self).ok_or(KeyError::Kind)
    }

    /// From one member of a set of keys (RFC 7517); `None` for one that no token is checked with here.
    #[must_use]
    pub fn from_jwk(jwk: &Value) -> Option<Self> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let octets = |name| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        let point = || Some([vec![4], octets("x")?, octets("y")?].concat());
        Some(Self(
            match (text("kty")?, text("crv").unwrap_or_default()) {
                ("RSA", _) => Kind::Rsa {
                    modulus: without_zeros(&octets("n")?),
                    exponent: without_zeros(&octets("e")?),
                },
                ("EC", "P-256") => Kind::P256(point()?),
                ("EC", "P-384") => Kind::P384(point()?),
                ("OKP", "Ed25519") => Kind::Ed25519(octets("x")?),
                _ => return None,
            },
        ))
    }

    /// Whether this algorithm is one of the key.
    #[must_use]
    pub const fn takes(&self, algorithm: Algorithm) -> bool {
        match &self.0 {
            Kind::Rsa { .. } => algorithm.of_rsa().is_some(),
            Kind::P256(_) => matches!(algorithm, Algorithm::Es256),
            Kind::P384(_) => matches!(algorithm, Algorithm::Es384),
            Kind::Ed25519(_) => matches!(algorithm, Algorithm::EdDsa),
        }
    }

    /// Whether the owner of the key has signed this.
    #[must_use]
    pub fn has_signed(&self, algorithm: Algorithm, text: &[u8], signature: &[u8]) -> bool {
        if !self.takes(algorithm) {
            return false;
        }
        let checked = match &self.0 {
            Kind::Rsa { modulus, exponent } => {
                let Some(parameters) = algorithm.of_rsa() else {
                    return false;
                };
                let key = RsaPublicKeyComponents {
                    n: modulus,
                    e: exponent,
                };
                key.verify(parameters, text, signature)
            }
            Kind::P256(point) => UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point)
                .verify(text, signature),
            Kind::P384(point) => UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point)
                .verify(text, signature),
            Kind::Ed25519(key) => {
                UnparsedPublicKey::new(&signature::ED25519, key).verify(text, signature)
            }
        };
        checked.is_ok()
    }
}

fn of_info(key: &SubjectPublicKeyInfo<'_>) -> Option<Kind> {
    let octets = key.subject_public_key.data.to_vec();
    if key.algorithm.algorithm.to_id_string() == ED25519 {
        return Some(Kind::Ed25519(octets));
    }
    match key.parsed().ok()? {
        PublicKey::RSA(key) => Some(of_rsa(&key)),
        PublicKey::EC(_) => {
            let curve = key.algorithm.parameters.as_ref()?.as_oid().ok()?;
            match curve.to_id_string().as_str() {
                P256 => Some(Kind::P256(octets)),
                P384 => Some(Kind::P384(octets)),
                _ => None,
            }
        }
        _ => None,
    }
}

fn of_rsa(key: &RSAPublicKey<'_>) -> Kind {
    Kind::Rsa {
        modulus: without_zeros(key.modulus),
        exponent: without_zeros(key.exponent),
    }
}

/// A number as ring takes it.
fn without_zeros(number: &[u8]) -> Vec<u8> {
    let zeros = number.iter().take_while(|octet| **octet == 0).count();
    number[zeros..].to_vec()
}
