//! Access tokens: whatever comes, only what our key has signed is a token, and it says what its claims do.
//!
//! An input has four lines: claims, header, a token as it came, a set of keys as it was published. The claims are signed
//! here, so that a run gets behind the signature.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use leveret_core::{
    refusal::ObjectKind,
    rights::{Right, Rights},
};
use leveret_oauth::{Algorithm, Key, Keys, ProviderId, TokenError, TokenSettings, Tokens};
use leveret_wire::value::ShortString;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

const ID: &str = "key";

/// Keys of a set that are kept, and scopes of a token.
const KEYS_MAX: usize = 64;
const TAGS_MAX: usize = 2048;

/// Runs one input.
pub fn token(input: &[u8]) {
    let mut lines = input.splitn(4, |octet| *octet == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let (claims, header, came, set) = (line(), line(), line(), line());
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("32 octets are a seed");
    let tokens = tokens(&pair, &set_of(&pair));
    signed(&pair, &tokens, claims);
    of_any_header(&pair, &tokens, header, claims);
    // No key of ours has signed what came.
    assert!(tokens.read(came).is_err());
    published(&tokens, set);
}

fn tokens(pair: &Ed25519KeyPair, set: &[u8]) -> Tokens {
    let mut settings = TokenSettings::new("rabbitmq");
    settings.additional_scopes_key = Some("roles realm.access".to_owned());
    let meant = vec!["rabbitmq.tag:administrator".to_owned()];
    settings.scope_aliases.insert("admin".to_owned(), meant);
    let tokens = Tokens::new(settings, Keys::default());
    let keys = Keys::from_published(set).expect("a set");
    assert_eq!(keys.len(), 1, "of {:?}", pair.public_key());
    tokens.published(ProviderId(0), keys);
    tokens
}

fn set_of(pair: &Ed25519KeyPair) -> Vec<u8> {
    let x = URL_SAFE_NO_PAD.encode(pair.public_key());
    let key = json!({"kty": "OKP", "crv": "Ed25519", "kid": ID, "x": x});
    json!({"keys": [key]}).to_string().into_bytes()
}

fn sign(pair: &Ed25519KeyPair, header: &[u8], claims: &[u8]) -> (String, Vec<u8>) {
    let part = |octets: &[u8]| URL_SAFE_NO_PAD.encode(octets);
    let text = format!("{}.{}", part(header), part(claims));
    let signature = pair.sign(text.as_bytes()).as_ref().to_vec();
    (text, signature)
}

/// With our key and a good header: what is read is what the claims say.
fn signed(pair: &Ed25519KeyPair, tokens: &Tokens, claims: &[u8]) {
    let header = json!({"alg": "EdDSA", "kid": ID}).to_string();
    let (text, mut signature) = sign(pair, header.as_bytes(), claims);
    let whole = |signature: &[u8]| format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature));
    let good = whole(&signature);
    let read = tokens.read(good.as_bytes());
    assert_eq!(read, tokens.read(good.as_bytes()));
    signature[0] ^= 1;
    assert!(tokens.read(whole(&signature).as_bytes()).is_err());
    let Ok(token) = read else {
        assert_ne!(read, Err(TokenError::Signature));
        return;
    };
    assert_eq!(tokens.provider_of(good.as_bytes()), Some(ProviderId(0)));
    let claims: Value = serde_json::from_slice(claims).expect("they were read");
    assert!(claims["aud"].to_string().contains("rabbitmq"));
    assert!(claims["exp"].is_number() && token.expires_at.is_some());
    let user = token.user.to_string();
    let names = [&claims["sub"], &claims["client_id"]];
    let is_named = names.iter().any(|name| name.as_str() == Some(&user));
    assert!(is_named || user == "unknown", "{user:?}");
    assert!(token.tags.len() <= TAGS_MAX);
    // A tag stands in the claims, or an alias for it does.
    let all = claims.to_string();
    for tag in &token.tags {
        let text = Value::from(tag.as_str()).to_string();
        let is_there = all.contains(text.trim_matches('"'));
        assert!(is_there || tag == "administrator", "{tag:?}");
    }
    rights(&token.user, &token.scopes);
}

/// Whatever the scopes are, asking them ends.
fn rights(user: &ShortString, scopes: &leveret_core::scope::Scopes) {
    for name in ["", "/", "a", "{vhost}", "*", "%2F"] {
        let name = ShortString::from_static(name);
        let rights = Rights::by_token(name.clone(), user.clone(), scopes);
        for right in [Right::Configure, Right::Write, Right::Read] {
            let may = rights.check(right, ObjectKind::Queue, &name).is_ok();
            assert!(
                !may || scopes.is_member(name.as_bytes()),
                "a right where it is no member"
            );
        }
    }
}

/// With our key and any header: only the algorithm of the key is good, and a key that is ours.
fn of_any_header(pair: &Ed25519KeyPair, tokens: &Tokens, header: &[u8], claims: &[u8]) {
    let (text, signature) = sign(pair, header, claims);
    let whole = format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature));
    if tokens.read(whole.as_bytes()).is_ok() {
        let header: Value = serde_json::from_slice(header).expect("it was read");
        assert_eq!(
            (&header["alg"], &header["kid"]),
            (&json!("EdDSA"), &json!(ID))
        );
        assert!(header.get("crit").is_none());
    }
}

/// A set of keys, and the same as a file of one key.
fn published(tokens: &Tokens, set: &[u8]) {
    if let Some(keys) = Keys::from_published(set) {
        assert!(keys.len() <= KEYS_MAX);
        tokens.published(ProviderId(0), keys.clone());
        tokens.published(ProviderId(9), keys);
    }
    if let Ok(key) = Key::from_pem(set) {
        for algorithm in [
            Algorithm::Rs256,
            Algorithm::Ps512,
            Algorithm::Es256,
            Algorithm::EdDsa,
        ] {
            assert!(!key.has_signed(algorithm, b"text", set));
        }
    }
}
