//! From what the operator set to who is asked whether somebody may come in.

use std::{borrow::Cow, collections::BTreeMap, fs, io, iter, path::PathBuf, sync::Arc};

use leveret_issuer::{NoAddress, Published, Publishers, Source};
use leveret_oauth::{
    Algorithm, Key, KeyError, Keys, ProviderId, ResourceServer, TokenSettings, Tokens,
};
use leveret_runtime::{AuthBackend, Issuer};
use leveret_tls::{ClientTlsSettings, TlsError, Verify};
use tracing::warn;

use crate::config::{
    AuthBackendName, CrlCheck, Provider, Server, Settings, TokenAlgorithm, VerifyWhom,
};

/// Why tokens cannot be checked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OauthError {
    #[error("none of the auth_backends is one that this broker has")]
    NoBackend,
    #[error("cannot read the signing key {id} in {path}: {source}")]
    Unreadable {
        id: String,
        path: PathBuf,
        source: io::Error,
    },
    #[error("the signing key {id} in {path} {source}")]
    NoKey {
        id: String,
        path: PathBuf,
        source: KeyError,
    },
    #[error("the discovery_endpoint_path of {0} {1}")]
    Discovery(String, NoAddress),
    #[error("cannot verify those who publish the keys of {0}: {1}")]
    Tls(String, TlsError),
    #[error(
        "crl_check asks for lists of certificates that were taken back, which are not looked at here; set it to \
         false or best_effort"
    )]
    Crl,
    #[error("there is no provider {0} among oauth2_providers (auth_oauth2.oauth_providers)")]
    NoProvider(String),
}

/// Those who are asked whether somebody may come in.
pub(crate) struct Backends {
    /// One after the other.
    pub(crate) asked: Vec<AuthBackend>,
    /// Who keeps the keys of tokens fresh.
    pub(crate) publishers: Vec<Arc<Publishers>>,
}

/// Those of the configuration, in its order.
pub(crate) fn backends(settings: &Settings) -> Result<Backends, OauthError> {
    let mut backends = Backends {
        asked: Vec::new(),
        publishers: Vec::new(),
    };
    for name in &settings.connections.auth_backends {
        match name {
            AuthBackendName::Internal => backends.asked.push(AuthBackend::Internal),
            AuthBackendName::Oauth2 => {
                let (tokens, publishers) = of_tokens(settings)?;
                let issuer: Arc<dyn Issuer> = publishers.clone();
                let tokens = AuthBackend::Tokens(tokens, Some(issuer));
                backends.asked.push(tokens);
                backends.publishers.push(publishers);
            }
            AuthBackendName::Ldap | AuthBackendName::Http | AuthBackendName::Cache => {
                warn!("there is no auth backend {name:?} here; nobody is asked in its place");
            }
        }
    }
    if backends.asked.is_empty() {
        return Err(OauthError::NoBackend);
    }
    Ok(backends)
}

fn of_tokens(settings: &Settings) -> Result<(Arc<Tokens>, Arc<Publishers>), OauthError> {
    let providers = providers(settings);
    let (mut own_keys, mut published) = (Vec::new(), Vec::new());
    for (at, provider) in providers.iter().enumerate() {
        let keys = keys(&provider.signing_keys)?;
        let is_used =
            !provider.name.is_empty() || settings.tokens.oauth2_default_provider.is_none();
        let of = of_whom(&provider.name);
        match source(provider)? {
            Some(source) => published.push(Published {
                name: of.clone(),
                id: ProviderId(at),
                source,
                tls: https(provider)?,
            }),
            None if keys.is_empty() && is_used => {
                warn!("{of} has no keys, no jwks_uri and no issuer: every token of it is refused");
            }
            None => {}
        }
        own_keys.push(keys);
    }
    let servers = resource_servers(settings, &providers)?;
    if servers
        .iter()
        .all(|server| server.settings.resource_server_id.is_empty())
    {
        warn!("there is no auth_oauth2.resource_server_id: every token is refused");
    }
    let tokens = Arc::new(Tokens::of_several(servers, own_keys));
    let publishers = Arc::new(Publishers::new(published, &tokens));
    Ok((tokens, publishers))
}

/// The provider that has no name first.
fn providers(settings: &Settings) -> Vec<Cow<'_, Provider>> {
    let nameless = Provider {
        name: String::new(),
        issuer: settings.tokens.oauth2_issuer.clone(),
        jwks_uri: settings.tokens.oauth2_jwks_uri.clone(),
        discovery_path: settings.tokens.oauth2_discovery_endpoint_path.clone(),
        discovery_params: settings.tokens.oauth2_discovery_endpoint_params.0.clone(),
        default_key: settings.tokens.oauth2_default_key.clone(),
        signing_keys: settings.tokens.oauth2_signing_keys.0.clone(),
        algorithms: settings.tokens.oauth2_algorithms.clone(),
        verify: settings.tokens.oauth2_https_verify,
        cacertfile: settings.tokens.oauth2_https_cacertfile.clone(),
        depth: settings.tokens.oauth2_https_depth,
        crl_check: settings.tokens.oauth2_https_crl_check,
    };
    let named = settings.tokens.oauth2_providers.0.iter().map(Cow::Borrowed);
    iter::once(Cow::Owned(nameless)).chain(named).collect()
}

fn of_whom(provider: &str) -> String {
    if provider.is_empty() {
        "the issuer of tokens".to_owned()
    } else {
        format!("the provider {provider} of tokens")
    }
}

fn source(provider: &Provider) -> Result<Option<Source>, OauthError> {
    if let Some(place) = &provider.jwks_uri {
        return Ok(Some(Source::Keys(place.clone())));
    }
    let Some(issuer) = &provider.issuer else {
        return Ok(None);
    };
    let path = provider.discovery_path.as_deref();
    let document = issuer.discovery(path, &provider.discovery_params);
    let wrong = |reason| OauthError::Discovery(of_whom(&provider.name), reason);
    document.map(Source::Discovery).map(Some).map_err(wrong)
}

/// Read once, so that what is wrong is told at the start.
fn https(provider: &Provider) -> Result<ClientTlsSettings, OauthError> {
    if provider.crl_check == CrlCheck::Yes {
        return Err(OauthError::Crl);
    }
    let of = of_whom(&provider.name);
    let verify = match provider.verify {
        VerifyWhom::Peer => Verify::Peer,
        VerifyWhom::None => {
            warn!("whoever answers in the place of {of} is believed: nobody verifies certificates");
            Verify::None
        }
    };
    let tls = ClientTlsSettings {
        verify,
        authorities: provider.cacertfile.clone(),
        depth: provider.depth,
    };
    match tls.load() {
        Ok(_) => Ok(tls),
        Err(reason) => Err(OauthError::Tls(of, reason)),
    }
}

fn resource_servers(
    settings: &Settings,
    providers: &[Cow<'_, Provider>],
) -> Result<Vec<ResourceServer>, OauthError> {
    let default = settings.tokens.oauth2_default_provider.as_deref();
    let default = default.unwrap_or_default();
    let first = of_the_settings(settings);
    let mut servers = vec![signed_by(first.clone(), default, providers)?];
    for server in &settings.tokens.oauth2_resource_servers.0 {
        let provider = server.provider.as_deref().unwrap_or(default);
        servers.push(signed_by(of_server(server, &first), provider, providers)?);
    }
    Ok(servers)
}

fn signed_by(
    mut settings: TokenSettings,
    name: &str,
    providers: &[Cow<'_, Provider>],
) -> Result<ResourceServer, OauthError> {
    let at = providers.iter().position(|provider| provider.name == name);
    let at = at.ok_or_else(|| OauthError::NoProvider(name.to_owned()))?;
    settings.default_key.clone_from(&providers[at].default_key);
    settings.algorithms = algorithms(&providers[at].algorithms);
    let provider = ProviderId(at);
    Ok(ResourceServer { settings, provider })
}

/// The resource server that has no name.
fn of_the_settings(settings: &Settings) -> TokenSettings {
    let id = settings.tokens.oauth2_resource_server_id.clone();
    let mut ours = TokenSettings {
        scope_prefix: settings.tokens.oauth2_scope_prefix.clone(),
        additional_scopes_key: settings.tokens.oauth2_additional_scopes_key.clone(),
        scope_aliases: settings
            .tokens
            .oauth2_scope_aliases
            .0
            .iter()
            .cloned()
            .collect(),
        verify_aud: settings.tokens.oauth2_verify_aud,
        require_exp: settings.tokens.oauth2_require_exp,
        ..TokenSettings::new(id.unwrap_or_default())
    };
    let names = &settings.tokens.oauth2_scope_alias_names.0;
    for (number, scopes) in &settings.tokens.oauth2_scope_alias_scopes.0 {
        if let Some((_, alias)) = names.iter().find(|(known, _)| known == number) {
            ours.scope_aliases.insert(alias.join(" "), scopes.clone());
        }
    }
    if !settings.tokens.oauth2_preferred_username_claims.is_empty() {
        let claims = &settings.tokens.oauth2_preferred_username_claims;
        ours.username_claims.clone_from(claims);
    }
    ours
}

/// Another one; what is not said of it is as it is for the first.
fn of_server(server: &Server, first: &TokenSettings) -> TokenSettings {
    let mut ours = TokenSettings {
        resource_server_id: server.id.clone(),
        ..first.clone()
    };
    if let Some(prefix) = &server.scope_prefix {
        ours.scope_prefix = Some(prefix.clone());
    }
    if let Some(claims) = &server.additional_scopes_key {
        ours.additional_scopes_key = Some(claims.clone());
    }
    if !server.username_claims.is_empty() {
        ours.username_claims.clone_from(&server.username_claims);
    }
    ours.verify_aud = server.verify_aud.unwrap_or(ours.verify_aud);
    ours.require_exp = server.require_exp.unwrap_or(ours.require_exp);
    let numbered = server.alias_scopes.iter().filter_map(|(number, scopes)| {
        let mut names = server.alias_names.iter();
        let (_, alias) = names.find(|(known, _)| known == number)?;
        Some((alias.clone(), scopes.clone()))
    });
    let aliases: BTreeMap<_, _> = server
        .scope_aliases
        .iter()
        .cloned()
        .chain(numbered)
        .collect();
    if !aliases.is_empty() {
        ours.scope_aliases = aliases;
    }
    ours
}

fn keys(files: &[(String, PathBuf)]) -> Result<Keys, OauthError> {
    let keys = files.iter().map(|(id, path)| {
        let (id, path) = (id.clone(), path.clone());
        let pem = match fs::read(&path) {
            Ok(pem) => pem,
            Err(source) => return Err(OauthError::Unreadable { id, path, source }),
        };
        match Key::from_pem(&pem) {
            Ok(key) => Ok((id, key)),
            Err(source) => Err(OauthError::NoKey { id, path, source }),
        }
    });
    keys.collect()
}

/// `None` for those that fit the key, when nothing is said.
fn algorithms(said: &[TokenAlgorithm]) -> Option<Vec<Algorithm>> {
    let known = said.iter().filter_map(|algorithm| {
        let known = match algorithm {
            TokenAlgorithm::Rs256 => Algorithm::Rs256,
            TokenAlgorithm::Rs384 => Algorithm::Rs384,
            TokenAlgorithm::Rs512 => Algorithm::Rs512,
            TokenAlgorithm::Ps256 => Algorithm::Ps256,
            TokenAlgorithm::Ps384 => Algorithm::Ps384,
            TokenAlgorithm::Ps512 => Algorithm::Ps512,
            TokenAlgorithm::Es256 => Algorithm::Es256,
            TokenAlgorithm::Es384 => Algorithm::Es384,
            TokenAlgorithm::EdDsa => Algorithm::EdDsa,
            TokenAlgorithm::Hs256 | TokenAlgorithm::Hs384 | TokenAlgorithm::Hs512 => {
                warn!("tokens signed with a shared secret are not accepted: {algorithm:?}");
                return None;
            }
        };
        Some(known)
    });
    let known: Vec<Algorithm> = known.collect();
    (!said.is_empty()).then_some(known)
}
