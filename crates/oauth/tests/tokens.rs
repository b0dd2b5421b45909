//! Tokens of an issuer whose keys the test makes.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use leveret_core::{
    refusal::ObjectKind,
    rights::{Right, Rights},
};
use leveret_oauth::{
    Algorithm, Key, KeyError, Keys, ProviderId, ResourceServer, Token, TokenError, TokenSettings,
    Tokens,
};
use leveret_wire::value::ShortString;
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair},
};
use serde_json::{Value, json};

const LATER: i64 = 4_000_000_000;

/// An issuer with a key of P-256.
struct Issuer {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl Issuer {
    fn new() -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("good");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).expect("good");
        Self { pair, random }
    }

    fn pem(&self) -> String {
        let head = [
            0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06,
            0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
        ];
        pem(&[&head, self.pair.public_key().as_ref()].concat())
    }

    fn jwk(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let (x, y) = (base64(&point[1..33]), base64(&point[33..]));
        json!({"kty": "EC", "crv": "P-256", "use": "sig", "kid": "key", "x": x, "y": y})
    }

    fn signs(&self, header: &Value, claims: &Value) -> String {
        let text = unsigned(header, claims);
        let signature = self.pair.sign(&self.random, text.as_bytes()).expect("good");
        format!("{text}.{}", base64(signature.as_ref()))
    }

    /// A token with these claims beside those that every one has.
    fn token(&self, more: Value) -> String {
        let mut claims = json!({
            "aud": "rabbitmq", "sub": "alice", "exp": LATER, "scope": "rabbitmq.read:*/*",
        });
        for (name, value) in more.as_object().expect("good") {
            if value.is_null() {
                claims.as_object_mut().expect("good").remove(name);
            } else {
                claims[name] = value.clone();
            }
        }
        self.signs(&header("ES256"), &claims)
    }

    fn tokens(&self, change: impl FnOnce(&mut TokenSettings)) -> Tokens {
        let mut settings = TokenSettings::new("rabbitmq");
        change(&mut settings);
        let key = Key::from_pem(self.pem().as_bytes()).expect("good");
        Tokens::new(settings, Keys::from_iter([("key".to_owned(), key)]))
    }

    fn read(&self, claims: Value) -> Result<Token, TokenError> {
        self.tokens(|_| {}).read(self.token(claims).as_bytes())
    }
}

fn header(algorithm: &str) -> Value {
    json!({"alg": algorithm, "kid": "key", "typ": "JWT"})
}

fn base64(octets: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(octets)
}

fn unsigned(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| base64(value.to_string().as_bytes());
    format!("{}.{}", part(header), part(claims))
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n")
}

fn claims() -> Value {
    json!({"aud": "rabbitmq", "sub": "alice", "exp": LATER, "scope": "rabbitmq.read:*/*"})
}

fn may(token: &Token, right: Right, vhost: &str, name: &str) -> bool {
    let short = |text: &str| ShortString::try_from(text).expect("good");
    Rights::by_token(short(vhost), token.user.clone(), &token.scopes)
        .check(right, ObjectKind::Queue, &short(name))
        .is_ok()
}

#[test]
fn a_good_token_names_its_user_and_says_what_they_may() {
    let issuer = Issuer::new();
    let scopes =
        "rabbitmq.read:v/q%2F* rabbitmq.tag:monitoring other.write:*/* rabbitmq.tag:management";
    let token = issuer.read(json!({"scope": scopes})).expect("good");
    assert_eq!(token.user.as_bytes(), b"alice");
    assert_eq!(token.tags, ["management", "monitoring"]);
    assert_eq!(token.expires_at, Some(LATER));
    assert!(may(&token, Right::Read, "v", "q/1"));
    assert!(!may(&token, Right::Read, "w", "q/1"));
    assert!(!may(&token, Right::Write, "v", "q/1"));
}

#[test]
fn a_token_without_a_signature_is_refused_whatever_its_header_says() {
    let issuer = Issuer::new();
    let tokens = issuer.tokens(|_| {});
    for algorithm in ["none", "None", "NONE", ""] {
        let text = unsigned(&header(algorithm), &claims());
        for text in [format!("{text}."), format!("{text}.AAAA")] {
            assert_eq!(tokens.read(text.as_bytes()), Err(TokenError::Algorithm));
        }
    }
    let text = unsigned(&header("ES256"), &claims());
    let empty = tokens.read(format!("{text}.").as_bytes());
    assert_eq!(empty, Err(TokenError::Signature));
    assert_eq!(tokens.read(text.as_bytes()), Err(TokenError::Malformed));
}

#[test]
fn a_public_key_is_never_taken_for_a_shared_secret() {
    let issuer = Issuer::new();
    let tokens = issuer.tokens(|_| {});
    let pem = issuer.pem();
    let raw = issuer.pair.public_key().as_ref();
    for (name, algorithm) in [
        ("HS256", hmac::HMAC_SHA256),
        ("HS384", hmac::HMAC_SHA384),
        ("HS512", hmac::HMAC_SHA512),
    ] {
        for secret in [pem.as_bytes(), pem.trim_end().as_bytes(), raw] {
            let text = unsigned(&header(name), &claims());
            let tag = hmac::sign(&hmac::Key::new(algorithm, secret), text.as_bytes());
            let token = format!("{text}.{}", base64(tag.as_ref()));
            assert_eq!(tokens.read(token.as_bytes()), Err(TokenError::Algorithm));
        }
    }
    let shared = json!({"keys": [{"kty": "oct", "kid": "key", "k": base64(b"secret")}]});
    let shared = Keys::from_published(shared.to_string().as_bytes()).expect("good");
    assert!(shared.is_empty());
}

#[test]
fn the_key_says_which_algorithms_there_are_and_not_the_token() {
    let issuer = Issuer::new();
    let tokens = issuer.tokens(|_| {});
    for algorithm in ["RS256", "PS256", "ES384", "EdDSA"] {
        let token = issuer.signs(&header(algorithm), &claims());
        assert_eq!(tokens.read(token.as_bytes()), Err(TokenError::Algorithm));
    }
    let only_rsa = issuer.tokens(|settings| settings.algorithms = Some(vec![Algorithm::Rs256]));
    let token = issuer.signs(&header("ES256"), &claims());
    assert_eq!(only_rsa.read(token.as_bytes()), Err(TokenError::Algorithm));
    let mut critical = header("ES256");
    critical["crit"] = json!(["b64"]);
    let token = issuer.signs(&critical, &claims());
    assert_eq!(tokens.read(token.as_bytes()), Err(TokenError::Algorithm));
}

#[test]
fn another_issuers_or_a_changed_token_is_refused() {
    let (issuer, other) = (Issuer::new(), Issuer::new());
    let tokens = issuer.tokens(|_| {});
    let token = other.token(json!({}));
    assert_eq!(tokens.read(token.as_bytes()), Err(TokenError::Signature));
    let token = issuer.token(json!({}));
    let (head, tail) = token.split_once('.').expect("good");
    let (_, signature) = tail.split_once('.').expect("good");
    let more = json!({"aud": "rabbitmq", "sub": "root", "exp": LATER});
    let changed = format!("{head}.{}.{signature}", base64(more.to_string().as_bytes()));
    assert_eq!(tokens.read(changed.as_bytes()), Err(TokenError::Signature));
}

#[test]
fn what_is_no_token_is_refused_without_a_panic() {
    let issuer = Issuer::new();
    let tokens = issuer.tokens(|_| {});
    let token = issuer.token(json!({}));
    for end in 0..token.len() {
        assert!(tokens.read(&token.as_bytes()[..end]).is_err());
    }
    for text in [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "e30.e30.e30",
        "guest",
        "W10.W10.W10",
    ] {
        assert!(tokens.read(text.as_bytes()).is_err(), "{text}");
    }
    let deep = "[".repeat(100_000);
    let text = format!("{}.{}.", base64(deep.as_bytes()), base64(deep.as_bytes()));
    assert_eq!(tokens.read(text.as_bytes()), Err(TokenError::Malformed));
}

#[test]
fn a_token_is_for_us_or_it_is_refused() {
    let issuer = Issuer::new();
    for aud in [
        json!("rabbitmq"),
        json!("a rabbitmq"),
        json!(["a", "rabbitmq"]),
    ] {
        assert!(issuer.read(json!({"aud": aud})).is_ok());
    }
    for aud in [json!("other"), json!(["a", "b"]), json!([])] {
        let refused = issuer.read(json!({"aud": aud}));
        assert_eq!(refused, Err(TokenError::NoMatchingAudience));
    }
    assert_eq!(
        issuer.read(json!({"aud": null})),
        Err(TokenError::NoAudience)
    );
    assert_eq!(issuer.read(json!({"aud": 1})), Err(TokenError::Malformed));
    let anybody = issuer.tokens(|settings| settings.verify_aud = false);
    for aud in [json!("other"), json!(null)] {
        assert!(
            anybody
                .read(issuer.token(json!({"aud": aud})).as_bytes())
                .is_ok()
        );
    }
    let nobody = issuer.tokens(|settings| settings.resource_server_id = String::new());
    let refused = nobody.read(issuer.token(json!({"aud": ""})).as_bytes());
    assert_eq!(refused, Err(TokenError::NoMatchingAudience));
}

#[test]
fn sc37_an_end_of_the_wrong_type_is_no_end() {
    let issuer = Issuer::new();
    for exp in [json!("4000000000"), json!(true), json!([LATER]), json!({})] {
        let refused = issuer.read(json!({"exp": exp}));
        assert_eq!(refused, Err(TokenError::ExpiryIsNoNumber));
    }
    assert_eq!(issuer.read(json!({"exp": null})), Err(TokenError::NoExpiry));
    let token = issuer.read(json!({"exp": 1_000.9})).expect("good");
    assert_eq!(token.expires_at, Some(1_000));
    assert_eq!(token.check_expiry(999), Ok(()));
    let (expired_at, now) = (1_000, 1_000);
    let expired = Err(TokenError::Expired { expired_at, now });
    assert_eq!(token.check_expiry(1_000), expired);
    let endless = issuer.tokens(|settings| settings.require_exp = false);
    let token = endless.read(issuer.token(json!({"exp": null})).as_bytes());
    assert_eq!(token.expect("good").expires_at, None);
}

#[test]
fn a_key_is_found_by_its_id_and_else_is_the_default_one() {
    let issuer = Issuer::new();
    let tokens = issuer.tokens(|_| {});
    let nameless = issuer.signs(&json!({"alg": "ES256"}), &claims());
    let of_other = issuer.signs(&json!({"alg": "ES256", "kid": "x"}), &claims());
    let of_none = issuer.signs(&json!({"alg": "ES256", "kid": 1}), &claims());
    for token in [&nameless, &of_other, &of_none] {
        assert_eq!(tokens.read(token.as_bytes()), Err(TokenError::UnknownKey));
    }
    let tokens = issuer.tokens(|settings| settings.default_key = Some("key".to_owned()));
    assert!(tokens.read(nameless.as_bytes()).is_ok());
    assert_eq!(
        tokens.read(of_other.as_bytes()),
        Err(TokenError::UnknownKey)
    );
}

#[test]
fn published_keys_replace_those_that_were_published_before() {
    let (issuer, next) = (Issuer::new(), Issuer::new());
    let tokens = Tokens::new(TokenSettings::new("rabbitmq"), Keys::default());
    let publish = |issuer: &Issuer| {
        let set = json!({"keys": [issuer.jwk(), {"kty": "RSA"}, {"kid": "odd", "kty": "odd"}]});
        let keys = Keys::from_published(set.to_string().as_bytes()).expect("good");
        assert_eq!(keys.len(), 1);
        tokens.published(ProviderId(0), keys);
    };
    let good = |issuer: &Issuer| tokens.read(issuer.token(json!({})).as_bytes()).is_ok();
    assert!(!good(&issuer));
    publish(&issuer);
    assert!(good(&issuer));
    publish(&next);
    assert!(good(&next) && !good(&issuer));
    assert_eq!(Keys::from_published(b"{}"), None);
    assert_eq!(Keys::from_published(b"<html>"), None);
}

#[test]
fn each_resource_server_takes_tokens_of_its_provider_only() {
    let (ours, theirs) = (Issuer::new(), Issuer::new());
    let server = |id: &str, provider| ResourceServer {
        settings: TokenSettings::new(id),
        provider: ProviderId(provider),
    };
    let servers = vec![
        server("rabbitmq", 0),
        server("other", 1),
        server("nobody", 2),
    ];
    let tokens = Tokens::of_several(servers, vec![Keys::default(), Keys::default()]);
    for (provider, issuer) in [(0, &ours), (1, &theirs), (7, &ours)] {
        let set = json!({"keys": [issuer.jwk()]}).to_string();
        let keys = Keys::from_published(set.as_bytes()).expect("good");
        tokens.published(ProviderId(provider), keys);
    }
    let read = |issuer: &Issuer, aud: Value| {
        let scope = "rabbitmq.tag:one other.tag:two";
        let token = issuer.token(json!({"aud": aud, "scope": scope}));
        let provider = tokens.provider_of(token.as_bytes());
        let token = tokens.read(token.as_bytes());
        (token.map(|token| token.tags.join(",")), provider)
    };
    let (first, second) = (Some(ProviderId(0)), Some(ProviderId(1)));
    assert_eq!(
        read(&ours, json!("rabbitmq")),
        (Ok("one".to_owned()), first)
    );
    assert_eq!(
        read(&theirs, json!(["other", "x"])),
        (Ok("two".to_owned()), second)
    );
    // The key has the same id: it is the other provider's nevertheless.
    assert_eq!(
        read(&theirs, json!("rabbitmq")),
        (Err(TokenError::Signature), first)
    );
    assert_eq!(
        read(&ours, json!("other")),
        (Err(TokenError::Signature), second)
    );
    assert_eq!(
        read(&ours, json!("nobody")),
        (Err(TokenError::UnknownKey), Some(ProviderId(2)))
    );
    let both = read(&ours, json!(["rabbitmq", "other"]));
    assert_eq!(both, (Err(TokenError::SeveralAudiences), None));
    assert_eq!(
        read(&ours, json!("x")),
        (Err(TokenError::NoMatchingAudience), None)
    );
    assert_eq!(tokens.provider_of(b"no token"), None);
}

#[test]
fn a_token_for_anybody_needs_one_server_that_takes_it() {
    let issuer = Issuer::new();
    let tokens = |is_open: &[bool]| {
        let servers = is_open.iter().enumerate().map(|(n, is_open)| {
            let mut settings = TokenSettings::new(format!("server-{n}"));
            settings.verify_aud = !is_open;
            let provider = ProviderId(0);
            ResourceServer { settings, provider }
        });
        let key = Key::from_pem(issuer.pem().as_bytes()).expect("good");
        let keys = Keys::from_iter([("key".to_owned(), key)]);
        Tokens::of_several(servers.collect(), vec![keys])
    };
    let read = |is_open: &[bool], aud: Value| {
        let token = issuer.token(json!({"aud": aud}));
        tokens(is_open).read(token.as_bytes()).map(|_| ())
    };
    for aud in [json!(null), json!("x")] {
        assert_eq!(read(&[false, true], aud), Ok(()));
    }
    for is_open in [[false, false], [true, true]] {
        assert_eq!(read(&is_open, json!(null)), Err(TokenError::NoAudience));
        assert_eq!(
            read(&is_open, json!("x")),
            Err(TokenError::NoMatchingAudience)
        );
    }
}

#[test]
fn a_key_may_be_one_of_ed25519() {
    let random = SystemRandom::new();
    let document = Ed25519KeyPair::generate_pkcs8(&random).expect("good");
    let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("good");
    let head = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
    let pem = pem(&[&head, pair.public_key().as_ref()].concat());
    let key = Key::from_pem(pem.as_bytes()).expect("good");
    let signature = pair.sign(b"text");
    assert!(key.has_signed(Algorithm::EdDsa, b"text", signature.as_ref()));
    assert!(!key.has_signed(Algorithm::EdDsa, b"other", signature.as_ref()));
    assert!(!key.has_signed(Algorithm::Es256, b"text", signature.as_ref()));
    assert_eq!(Key::from_pem(b"nothing"), Err(KeyError::NotPem));
}

#[test]
fn scopes_stand_where_the_operator_says() {
    let issuer = Issuer::new();
    let read = |claims: Value, change: fn(&mut TokenSettings)| {
        let text = issuer.token(claims);
        issuer.tokens(change).read(text.as_bytes()).expect("good")
    };
    let elsewhere = |settings: &mut TokenSettings| {
        settings.additional_scopes_key = Some("roles realm.access roles_of".to_owned());
    };
    for claims in [
        json!({"scope": null, "roles": "rabbitmq.write:*/*"}),
        json!({"scope": null, "roles": ["x", "rabbitmq.write:*/*"]}),
        json!({"scope": null, "realm": {"access": ["rabbitmq.write:*/*"]}}),
        json!({"scope": null, "realm": [{"access": "x"}, {"access": "rabbitmq.write:*/*"}]}),
        json!({"scope": null, "roles_of": {"rabbitmq": ["write:*/*"], "x": ["read:*/*"]}}),
    ] {
        let token = read(claims.clone(), elsewhere);
        assert!(may(&token, Right::Write, "v", "q"), "{claims}");
        assert!(!may(&token, Right::Read, "v", "q"), "{claims}");
        assert!(!may(&read(claims, |_| {}), Right::Write, "v", "q"));
    }
    let party = json!({"permissions": [{"scopes": ["rabbitmq.write:*/*"]}]});
    let token = read(json!({"authorization": party}), |_| {});
    assert!(may(&token, Right::Write, "v", "q"));
    let token = read(json!({"scope": "admin"}), |settings| {
        let meant = ["rabbitmq.tag:administrator", "rabbitmq.write:v/*"];
        let meant = meant.map(str::to_owned).to_vec();
        settings.scope_aliases.insert("admin".to_owned(), meant);
    });
    assert_eq!(token.tags, ["administrator"]);
    assert!(may(&token, Right::Write, "v", "q"));
    let token = read(
        json!({"scope": "api:write:v/* rabbitmq.read:*/*"}),
        |settings| {
            settings.scope_prefix = Some("api:".to_owned());
        },
    );
    assert!(may(&token, Right::Write, "v", "q") && !may(&token, Right::Read, "v", "q"));
}

#[test]
fn a_scope_may_speak_of_claims() {
    let issuer = Issuer::new();
    let scope = "rabbitmq.read:{vhost}/{sub}-*";
    let token = issuer
        .read(json!({"scope": scope, "sub": "al*"}))
        .expect("good");
    assert!(may(&token, Right::Read, "v", "al*-1"));
    assert!(!may(&token, Right::Read, "v", "alice-1"));
}

#[test]
fn the_user_is_named_by_the_first_claim_that_is_there() {
    let issuer = Issuer::new();
    let name = |claims: Value| issuer.read(claims).expect("good").user.to_string();
    assert_eq!(name(json!({"sub": null, "client_id": "c"})), "c");
    assert_eq!(name(json!({"sub": 1, "client_id": "c"})), "c");
    assert_eq!(name(json!({"sub": null})), "unknown");
    let long = issuer.read(json!({"sub": "x".repeat(256)}));
    assert_eq!(long, Err(TokenError::Malformed));
}

#[test]
fn scopes_have_a_bound() {
    let issuer = Issuer::new();
    let scopes = |count: u32| -> Value {
        let scopes = (0..count).map(|n| format!("rabbitmq.read:v/{n}"));
        scopes.collect::<Vec<_>>().into()
    };
    assert!(issuer.read(json!({"scope": scopes(2048)})).is_ok());
    let refused = issuer.read(json!({"scope": scopes(2049)}));
    assert_eq!(refused, Err(TokenError::TooManyScopes));
}

#[test]
fn no_text_shows_a_token() {
    let issuer = Issuer::new();
    let text = issuer.token(json!({"sub": "alice"}));
    let token = issuer.tokens(|_| {}).read(text.as_bytes());
    let shown = format!("{token:?}");
    assert!(text.split('.').all(|part| !shown.contains(part)), "{shown}");
}
