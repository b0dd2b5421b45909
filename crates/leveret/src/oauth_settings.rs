//! From what the operator set to who is asked whether somebody may come in.

use std::{fs, io, path::PathBuf, sync::Arc};

use leveret_oauth::{Algorithm, Key, KeyError, Keys, TokenSettings, Tokens};
use leveret_runtime::AuthBackend;
use tracing::warn;

use crate::config::{AuthBackendName, Settings, TokenAlgorithm};

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
    #[error(
        "oauth2_jwks_uri and oauth2_issuer are not there yet: keys are not fetched. Name them with \
         auth_oauth2.signing_keys.ID = FILE, and remove those settings"
    )]
    NotFetched,
}

/// Those that are asked, in the order of the configuration.
pub(crate) fn backends(settings: &Settings) -> Result<Vec<AuthBackend>, OauthError> {
    let mut backends = Vec::new();
    for name in &settings.auth_backends {
        match name {
            AuthBackendName::Internal => backends.push(AuthBackend::Internal),
            AuthBackendName::Oauth2 => backends.push(of_tokens(settings)?),
            AuthBackendName::Ldap | AuthBackendName::Http | AuthBackendName::Cache => {
                warn!("there is no auth backend {name:?} here; nobody is asked in its place");
            }
        }
    }
    if backends.is_empty() {
        return Err(OauthError::NoBackend);
    }
    Ok(backends)
}

fn of_tokens(settings: &Settings) -> Result<AuthBackend, OauthError> {
    if settings.oauth2_jwks_uri.is_some() || settings.oauth2_issuer.is_some() {
        return Err(OauthError::NotFetched);
    }
    let keys = keys(settings)?;
    if keys.is_empty() {
        warn!("there is no auth_oauth2.signing_keys: every token is refused");
    }
    let id = settings.oauth2_resource_server_id.clone();
    if id.is_none() {
        warn!("there is no auth_oauth2.resource_server_id: every token is refused");
    }
    let mut ours = TokenSettings {
        scope_prefix: settings.oauth2_scope_prefix.clone(),
        additional_scopes_key: settings.oauth2_additional_scopes_key.clone(),
        scope_aliases: settings.oauth2_scope_aliases.0.iter().cloned().collect(),
        verify_aud: settings.oauth2_verify_aud,
        require_exp: settings.oauth2_require_exp,
        default_key: settings.oauth2_default_key.clone(),
        algorithms: algorithms(&settings.oauth2_algorithms),
        ..TokenSettings::new(id.unwrap_or_default())
    };
    let names = &settings.oauth2_scope_alias_names.0;
    for (number, scopes) in &settings.oauth2_scope_alias_scopes.0 {
        if let Some((_, alias)) = names.iter().find(|(known, _)| known == number) {
            ours.scope_aliases.insert(alias.join(" "), scopes.clone());
        }
    }
    if !settings.oauth2_preferred_username_claims.is_empty() {
        let claims = &settings.oauth2_preferred_username_claims;
        ours.username_claims.clone_from(claims);
    }
    Ok(AuthBackend::Tokens(Arc::new(Tokens::new(ours, keys)), None))
}

fn keys(settings: &Settings) -> Result<Keys, OauthError> {
    let files = settings.oauth2_signing_keys.0.iter();
    let keys = files.map(|(id, path)| {
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
