//! Who signs access tokens and whom they are for, each said under a name:
//! `auth_oauth2.oauth_providers.keycloak.issuer = https://...`.
//!
//! As one text they are `keycloak.issuer=https://...,keycloak.https.depth=2`, as those of `keyed.rs` are; a point within a
//! name is written `\.`.

use std::path::PathBuf;

use leveret_issuer::Address;

use super::{
    keyed::parts,
    setting::words as words_of,
    value::{ANY, Range, Value, words},
};
use crate::config::{TokenAlgorithm, VerifyWhom};

words! {
    /// Whether certificates are looked for in lists of those that were taken back.
    CrlCheck {
        /// No list is asked for
        No = "false" | "best_effort",
        /// Not there: the broker does not start
        Yes = "true" | "peer",
    }
}

/// An address of https.
impl Value for Address {
    fn read(text: &str, _range: Range) -> Option<Self> {
        Self::read(text).ok()
    }

    fn allowed(_range: Range) -> String {
        "a URL that begins with https:// and has no credentials in it".to_owned()
    }
}

/// Names with a text each.
#[derive(Debug, Clone, Default)]
pub(crate) struct NamedTexts(pub(crate) Vec<(String, String)>);

impl Value for NamedTexts {
    const IS_LIST: bool = true;

    fn read(text: &str, _range: Range) -> Option<Self> {
        let parts = parts(text);
        let parts = parts.iter().map(String::as_str);
        let texts = parts.map(|part| {
            let (name, text) = part.split_once('=')?;
            Some((name.replace("\\.", "."), text.to_owned()))
        });
        texts.collect::<Option<Vec<_>>>().map(Self)
    }

    fn allowed(_range: Range) -> String {
        "NAME=TEXT".to_owned()
    }
}

/// A provider of keys, beside the one that the settings without a name are about.
#[derive(Debug, Clone)]
pub(crate) struct Provider {
    pub(crate) name: String,
    pub(crate) issuer: Option<Address>,
    pub(crate) jwks_uri: Option<Address>,
    pub(crate) discovery_path: Option<String>,
    pub(crate) discovery_params: Vec<(String, String)>,
    pub(crate) default_key: Option<String>,
    pub(crate) signing_keys: Vec<(String, PathBuf)>,
    pub(crate) algorithms: Vec<TokenAlgorithm>,
    pub(crate) verify: VerifyWhom,
    pub(crate) cacertfile: Option<PathBuf>,
    pub(crate) depth: u32,
    pub(crate) crl_check: CrlCheck,
}

/// Further providers of keys.
#[derive(Debug)]
pub(crate) struct Providers(pub(crate) Vec<Provider>);

impl Value for Providers {
    const IS_LIST: bool = true;

    fn read(text: &str, _range: Range) -> Option<Self> {
        let new = |name: &str| Provider {
            name: name.to_owned(),
            issuer: None,
            jwks_uri: None,
            discovery_path: None,
            discovery_params: Vec::new(),
            default_key: None,
            signing_keys: Vec::new(),
            algorithms: Vec::new(),
            verify: VerifyWhom::Peer,
            cacertfile: None,
            depth: 10,
            crl_check: CrlCheck::No,
        };
        let providers = by_name(text, new, |provider, about, value| {
            match about {
                ["issuer"] => provider.issuer = Some(Address::read(value).ok()?),
                ["jwks_uri"] => provider.jwks_uri = Some(Address::read(value).ok()?),
                ["discovery_endpoint_path"] => provider.discovery_path = Some(value.to_owned()),
                ["discovery_endpoint_params", name] => {
                    let pair = ((*name).to_owned(), value.to_owned());
                    provider.discovery_params.push(pair);
                }
                ["default_key"] => provider.default_key = Some(value.to_owned()),
                ["signing_keys", id] => {
                    let path = <PathBuf as Value>::read(value, ANY)?;
                    provider.signing_keys.push(((*id).to_owned(), path));
                }
                ["algorithms", _] => {
                    provider.algorithms.push(TokenAlgorithm::read(value, ANY)?);
                }
                ["https", "verify" | "peer_verification"] => {
                    provider.verify = VerifyWhom::read(value, ANY)?;
                }
                ["https", "cacertfile"] => {
                    provider.cacertfile = Some(<PathBuf as Value>::read(value, ANY)?);
                }
                ["https", "depth"] => provider.depth = <u32 as Value>::read(value, ANY)?,
                ["https", "crl_check"] => provider.crl_check = CrlCheck::read(value, ANY)?,
                _ => return None,
            }
            Some(())
        });
        providers.map(Self)
    }

    fn allowed(_range: Range) -> String {
        "PROVIDER.KEY=VALUE, where KEY is issuer, jwks_uri, discovery_endpoint_path, \
         discovery_endpoint_params.NAME, default_key, signing_keys.ID, algorithms.N, https.verify, \
         https.cacertfile, https.depth or https.crl_check, and a URL begins with https://"
            .to_owned()
    }
}

/// Somebody that tokens are for, beside the one of `oauth2_resource_server_id`. What is not said is as it is there.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) id: String,
    pub(crate) provider: Option<String>,
    pub(crate) scope_prefix: Option<String>,
    pub(crate) additional_scopes_key: Option<String>,
    pub(crate) verify_aud: Option<bool>,
    pub(crate) require_exp: Option<bool>,
    pub(crate) username_claims: Vec<String>,
    /// Alias and scopes.
    pub(crate) scope_aliases: Vec<(String, Vec<String>)>,
    /// Number and alias.
    pub(crate) alias_names: Vec<(String, String)>,
    /// Number and scopes.
    pub(crate) alias_scopes: Vec<(String, Vec<String>)>,
}

/// Further resource servers.
#[derive(Debug)]
pub(crate) struct Servers(pub(crate) Vec<Server>);

impl Value for Servers {
    const IS_LIST: bool = true;

    fn read(text: &str, _range: Range) -> Option<Self> {
        let new = |name: &str| Server {
            id: name.to_owned(),
            provider: None,
            scope_prefix: None,
            additional_scopes_key: None,
            verify_aud: None,
            require_exp: None,
            username_claims: Vec::new(),
            scope_aliases: Vec::new(),
            alias_names: Vec::new(),
            alias_scopes: Vec::new(),
        };
        let servers = by_name(text, new, |server, about, value| {
            let own = || value.to_owned();
            let scopes = || value.split_ascii_whitespace().map(str::to_owned).collect();
            match about {
                ["id"] => server.id = own(),
                ["oauth_provider_id"] => server.provider = Some(own()),
                ["scope_prefix"] => server.scope_prefix = Some(own()),
                ["additional_scopes_key"] => server.additional_scopes_key = Some(own()),
                ["verify_aud"] => server.verify_aud = Some(bool::read(value, ANY)?),
                ["require_exp"] => server.require_exp = Some(bool::read(value, ANY)?),
                ["preferred_username_claims", _] => server.username_claims.push(own()),
                ["scope_aliases", alias] => {
                    server.scope_aliases.push(((*alias).to_owned(), scopes()));
                }
                ["scope_aliases", number, "alias"] => {
                    server.alias_names.push(((*number).to_owned(), own()));
                }
                ["scope_aliases", number, "scope"] => {
                    server.alias_scopes.push(((*number).to_owned(), scopes()));
                }
                _ => return None,
            }
            Some(())
        });
        servers.map(Self)
    }

    fn allowed(_range: Range) -> String {
        "NAME.KEY=VALUE, where KEY is id, oauth_provider_id, scope_prefix, additional_scopes_key, \
         verify_aud, require_exp, preferred_username_claims.N or scope_aliases.ALIAS"
            .to_owned()
    }
}

/// What each name has, in the order in which they were said first. `set` answers `None` to what is not possible.
fn by_name<T>(
    text: &str,
    new: impl Fn(&str) -> T,
    set: impl Fn(&mut T, &[&str], &str) -> Option<()>,
) -> Option<Vec<T>> {
    let mut found: Vec<(String, T)> = Vec::new();
    for part in parts(text) {
        let (place, value) = part.split_once('=')?;
        let place: Vec<String> = words_of(place.trim())
            .map(|word| word.replace("\\.", "."))
            .collect();
        let (name, about) = place.split_first()?;
        if name.is_empty() {
            return None;
        }
        let known = found.iter().position(|(known, _)| known == name);
        let at = known.unwrap_or(found.len());
        if known.is_none() {
            found.push((name.clone(), new(name)));
        }
        let about: Vec<&str> = about.iter().map(String::as_str).collect();
        set(&mut found[at].1, &about, value.trim())?;
    }
    Some(found.into_iter().map(|(_, one)| one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_under_one_name_is_about_one_provider() {
        let text = "a.issuer=https://a/r,b.https.depth=3,a.algorithms.1=RS256,a.signing_keys.k\\.1=/key,\
                    a.discovery_endpoint_params.p=x\\,y,a.https.verify=verify_none";
        let Providers(providers) = Providers::read(text, ANY).expect("allowed");
        let [a, b] = providers.as_slice() else {
            panic!("{providers:?}");
        };
        assert_eq!((a.name.as_str(), b.name.as_str()), ("a", "b"));
        let issuer = a.issuer.as_ref().expect("said");
        assert_eq!(issuer.to_string(), "https://a/r");
        assert_eq!(a.algorithms, [TokenAlgorithm::Rs256]);
        assert_eq!(a.signing_keys, [("k.1".to_owned(), PathBuf::from("/key"))]);
        assert_eq!(a.discovery_params, [("p".to_owned(), "x,y".to_owned())]);
        assert_eq!((a.verify, b.verify), (VerifyWhom::None, VerifyWhom::Peer));
        assert_eq!((a.depth, b.depth), (10, 3));
    }

    #[test]
    fn what_is_said_under_one_name_is_about_one_server() {
        let text = "a.id=other,a.scope_aliases.1.alias=x,a.scope_aliases.1.scope=p q,a.verify_aud=false,b.scope_prefix=";
        let Servers(servers) = Servers::read(text, ANY).expect("allowed");
        let [a, b] = servers.as_slice() else {
            panic!("{servers:?}");
        };
        assert_eq!((a.id.as_str(), b.id.as_str()), ("other", "b"));
        assert_eq!(a.alias_names, [("1".to_owned(), "x".to_owned())]);
        let scopes = vec!["p".to_owned(), "q".to_owned()];
        assert_eq!(a.alias_scopes, [("1".to_owned(), scopes)]);
        assert_eq!((a.verify_aud, b.verify_aud), (Some(false), None));
        assert_eq!(b.scope_prefix.as_deref(), Some(""));
    }

    #[test]
    fn what_cannot_be_is_not_taken() {
        for text in [
            "a.issuer=http://a",
            "a.jwks_uri=file:///etc/passwd",
            "a.https.verify=perhaps",
            "a.https.depth=-1",
            "a.nothing=1",
            "issuer=https://a",
            ".issuer=https://a",
            "a.algorithms.1=none",
        ] {
            assert!(Providers::read(text, ANY).is_none(), "{text}");
        }
        for text in ["a.verify_aud=perhaps", "a.scope_aliases=x", "a"] {
            assert!(Servers::read(text, ANY).is_none(), "{text}");
        }
    }
}
