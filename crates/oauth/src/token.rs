//! From the text of a token to its owner.

use std::{collections::BTreeMap, fmt};

use arc_swap::ArcSwap;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use leveret_core::scope::{Scope, Scopes};
use leveret_wire::value::ShortString;
use serde_json::Value;

use crate::{
    audience::{self, ProviderId, ResourceServer},
    claims::{self, Claims},
    error::TokenError,
    key::Algorithm,
    keys::Keys,
};

/// Longest token that is looked at; a frame or a header of HTTP has less room.
const TOKEN_BYTES_MAX: usize = 128 * 1024;

/// The scope that gives a tag begins so.
const TAG: &str = "tag:";

/// Who has none of the claims that may name a user.
const NAMELESS: &str = "unknown";

/// What an operator says of tokens, by the words of `auth_oauth2`.
#[derive(Debug, Clone)]
pub struct TokenSettings {
    /// Who we are: one of a token's audiences.
    pub resource_server_id: String,
    /// What our scopes begin with; else our id and a point.
    pub scope_prefix: Option<String>,
    /// Claims that have further scopes, with spaces between them and points within a path.
    pub additional_scopes_key: Option<String>,
    /// Scopes that stand for others.
    pub scope_aliases: BTreeMap<String, Vec<String>>,
    /// The claims that may name the user; the first one that is there does.
    pub username_claims: Vec<String>,
    /// A token for nobody, or for somebody else, is refused.
    pub verify_aud: bool,
    /// A token without an end is refused.
    pub require_exp: bool,
    /// The key of tokens that name none.
    pub default_key: Option<String>,
    /// Algorithms that are accepted; `None` for all that fit the key.
    pub algorithms: Option<Vec<Algorithm>>,
}

impl TokenSettings {
    /// Those of a resource server of this id.
    #[must_use]
    pub fn new(resource_server_id: impl Into<String>) -> Self {
        Self {
            resource_server_id: resource_server_id.into(),
            scope_prefix: None,
            additional_scopes_key: None,
            scope_aliases: BTreeMap::new(),
            username_claims: vec!["sub".to_owned(), "client_id".to_owned()],
            verify_aud: true,
            require_exp: true,
            default_key: None,
            algorithms: None,
        }
    }

    pub(crate) fn scope_prefix(&self) -> String {
        self.scope_prefix
            .clone()
            .unwrap_or_else(|| format!("{}.", self.resource_server_id))
    }
}

/// What a good token says.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Whose it is.
    pub user: ShortString,
    /// Tags of the user.
    pub tags: Vec<String>,
    /// What it allows.
    pub scopes: Scopes,
    /// When it ends, in seconds since 1970; `None` for never.
    pub expires_at: Option<i64>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("user", &self.user)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

impl Token {
    /// Whether it has ended.
    ///
    /// # Errors
    ///
    /// [`TokenError::Expired`].
    pub fn check_expiry(&self, now: i64) -> Result<(), TokenError> {
        match self.expires_at {
            Some(expired_at) if expired_at <= now => Err(TokenError::Expired { expired_at, now }),
            _ => Ok(()),
        }
    }
}

/// Reads tokens with the keys that are known.
#[derive(Debug)]
pub struct Tokens {
    servers: Vec<ResourceServer>,
    providers: Vec<Provider>,
}

/// Who signs tokens.
#[derive(Debug)]
struct Provider {
    own_keys: Keys,
    keys: ArcSwap<Keys>,
}

impl Tokens {
    /// For one resource server and with one provider, of whom the configuration has these keys.
    #[must_use]
    pub fn new(settings: TokenSettings, keys: Keys) -> Self {
        let provider = ProviderId(0);
        Self::of_several(vec![ResourceServer { settings, provider }], vec![keys])
    }

    /// For these resource servers; `providers` has the keys of the configuration, each at the place of its
    /// [`ProviderId`].
    #[must_use]
    pub fn of_several(servers: Vec<ResourceServer>, providers: Vec<Keys>) -> Self {
        let providers = providers.into_iter().map(|keys| Provider {
            keys: ArcSwap::from_pointee(keys.clone()),
            own_keys: keys,
        });
        Self {
            servers,
            providers: providers.collect(),
        }
    }

    /// A provider has published these: they replace what it published before.
    pub fn published(&self, provider: ProviderId, keys: Keys) {
        if let Some(provider) = self.providers.get(provider.0) {
            provider.keys.store(provider.own_keys.with(keys).into());
        }
    }

    /// Who is said to have signed a token; `None` when it is none, or for nobody here. Nothing of it is verified.
    #[must_use]
    pub fn provider_of(&self, text: &[u8]) -> Option<ProviderId> {
        let parts = Parts::of(text).ok()?;
        let server = audience::meant(&self.servers, &parts.claims).ok()?;
        Some(server.provider)
    }

    /// Reads a token, also one that has ended.
    ///
    /// # Errors
    ///
    /// [`TokenError`], in RabbitMQ's order.
    pub fn read(&self, text: &[u8]) -> Result<Token, TokenError> {
        let parts = Parts::of(text)?;
        let server = audience::meant(&self.servers, &parts.claims)?;
        let settings = &server.settings;
        let (algorithm, id) = signed_how(settings, &parts.header)?;
        let provider = self.providers.get(server.provider.0);
        let keys = provider.ok_or(TokenError::UnknownKey)?.keys.load();
        let key = keys.of(&id).ok_or(TokenError::UnknownKey)?;
        if !key.takes(algorithm) {
            return Err(TokenError::Algorithm);
        }
        if !key.has_signed(algorithm, parts.signed, &octets(parts.signature)?) {
            return Err(TokenError::Signature);
        }
        token(settings, &parts.claims)
    }
}

/// A token taken apart; nothing of it is verified.
struct Parts<'a> {
    header: Claims,
    claims: Claims,
    /// What the signature is made over.
    signed: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(text: &'a [u8]) -> Result<Self, TokenError> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::Malformed);
        }
        let mut parts = text.split(|octet| *octet == b'.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(TokenError::Malformed);
        };
        Ok(Self {
            header: object(header)?,
            claims: object(payload)?,
            signed: &text[..header.len() + 1 + payload.len()],
            signature,
        })
    }
}

/// The algorithm, and the id of the key.
fn signed_how(
    settings: &TokenSettings,
    header: &Claims,
) -> Result<(Algorithm, String), TokenError> {
    let text = |name: &str| header.get(name).and_then(Value::as_str);
    // Whoever names something that must be understood (RFC 7515, 4.1.11) means what we do not know.
    if header.contains_key("crit") {
        return Err(TokenError::Algorithm);
    }
    let algorithm = text("alg").and_then(Algorithm::named);
    let algorithm = algorithm.ok_or(TokenError::Algorithm)?;
    let allowed = settings.algorithms.as_ref();
    if allowed.is_some_and(|allowed| !allowed.contains(&algorithm)) {
        return Err(TokenError::Algorithm);
    }
    let id = match header.get("kid") {
        None => settings.default_key.clone(),
        Some(id) => id.as_str().map(str::to_owned),
    };
    Ok((algorithm, id.ok_or(TokenError::UnknownKey)?))
}

fn token(settings: &TokenSettings, claims: &Claims) -> Result<Token, TokenError> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let expires_at = match claims.get("exp") {
        Some(Value::Number(at)) => Some(whole(at)?),
        Some(_) => return Err(TokenError::ExpiryIsNoNumber),
        None if settings.require_exp => return Err(TokenError::NoExpiry),
        None => None,
    };
    let mut names = settings.username_claims.iter();
    let user = names.find_map(|claim| text(claim)).unwrap_or(NAMELESS);
    let scopes = claims::scopes(claims, settings)?;
    let tags = scopes.iter().filter_map(|scope| scope.strip_prefix(TAG));
    Ok(Token {
        user: ShortString::try_from(user).map_err(|_| TokenError::Malformed)?,
        tags: tags.map(str::to_owned).collect(),
        scopes: scopes
            .iter()
            .filter_map(|scope| Scope::read(scope, text))
            .collect(),
        expires_at,
    })
}

/// A number of seconds; parts of one do not count.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a cast of a float keeps to the range, and what lies beyond it is never"
)]
fn whole(number: &serde_json::Number) -> Result<i64, TokenError> {
    let as_float = || number.as_f64().map(|seconds| seconds as i64);
    let whole = number.as_i64().or_else(as_float);
    whole.ok_or(TokenError::ExpiryIsNoNumber)
}

fn octets(part: &[u8]) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD
        .decode(part)
        .map_err(|_| TokenError::Malformed)
}

fn object(part: &[u8]) -> Result<Claims, TokenError> {
    serde_json::from_slice(&octets(part)?).map_err(|_| TokenError::Malformed)
}
