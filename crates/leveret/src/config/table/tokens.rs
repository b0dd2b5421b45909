//! Who signs access tokens, and what is asked of them.

use std::path::PathBuf;

use leveret_issuer::Address;

use super::super::{
    setting::{
        Form::{Branch, Member, Pair},
        Row, in_form, key,
    },
    tokens::{CrlCheck, NamedTexts, Providers, Servers},
    value::Value,
};
use super::types::{NamedFiles, TokenAlgorithm, VerifyWhom, Wordlists};

settings! {
    TokenSettings "Access tokens (OAuth 2)"

    /// Who this broker is: one of the audiences of a token that is for it
    oauth2_resource_server_id: Option<String> {
        value_name: "ID",
        default_words: "none: every token is refused",
        range: (1, 4096),
        keys: &[key("auth_oauth2.resource_server_id")],
    }
    /// What scopes that are for this broker begin with
    oauth2_scope_prefix: Option<String> {
        value_name: "TEXT",
        default_words: "oauth2_resource_server_id and a point",
        range: (0, 4096),
        keys: &[key("auth_oauth2.scope_prefix")],
    }
    /// Claims beside `scope` that have scopes, with spaces between them; a point leads into an object
    oauth2_additional_scopes_key: Option<String> {
        value_name: "CLAIMS",
        default_words: "none",
        range: (1, 4096),
        keys: &[key("auth_oauth2.additional_scopes_key")],
    }
    /// Scopes that stand for others: `ALIAS=SCOPE SCOPE`
    oauth2_scope_aliases: Wordlists {
        value_name: "ALIAS=SCOPES",
        default_words: "none",
        keys: &[in_form("auth_oauth2.scope_aliases.$alias", Pair)],
    }
    /// The alias of `oauth2_scope_alias_scopes` with the same number: `1=ALIAS`, as rabbitmq.conf has them
    oauth2_scope_alias_names: Wordlists {
        value_name: "N=ALIAS",
        default_words: "none",
        keys: &[in_form("auth_oauth2.scope_aliases.$index.alias", Pair)],
    }
    /// What the alias of that number stands for: `1=SCOPE SCOPE`
    oauth2_scope_alias_scopes: Wordlists {
        value_name: "N=SCOPES",
        default_words: "none",
        keys: &[in_form("auth_oauth2.scope_aliases.$index.scope", Pair)],
    }
    /// Claims that may name the user; the first of them that a token has does
    oauth2_preferred_username_claims: Vec<String> {
        value_name: "CLAIMS",
        default: "sub,client_id",
        range: (1, 4096),
        keys: &[in_form("auth_oauth2.preferred_username_claims.$n", Member)],
    }
    /// Whether a token that is not for this broker is refused
    oauth2_verify_aud: bool {
        value_name: "BOOL",
        default: "true",
        keys: &[key("auth_oauth2.verify_aud")],
    }
    /// Whether a token without an end is refused
    oauth2_require_exp: bool {
        value_name: "BOOL",
        default: "true",
        keys: &[key("auth_oauth2.require_exp")],
    }
    /// Public keys that tokens are signed with, in PEM: `ID=FILE`
    oauth2_signing_keys: NamedFiles {
        value_name: "ID=FILE",
        default_words: "none",
        keys: &[in_form("auth_oauth2.signing_keys.$id", Pair)],
    }
    /// The key of tokens that name none
    oauth2_default_key: Option<String> {
        value_name: "ID",
        default_words: "none: such a token is refused",
        range: (1, 4096),
        keys: &[key("auth_oauth2.default_key")],
    }
    /// Algorithms that are accepted; what is signed with a shared secret is never accepted
    oauth2_algorithms: Vec<TokenAlgorithm> {
        value_name: "NAMES",
        default_words: "all that fit the key",
        keys: &[in_form("auth_oauth2.algorithms.$n", Member)],
    }
    /// Where the issuer publishes its keys, as a URL of https. They are asked for at the start, every hour, and when a token
    /// has a key that is not known, then at most once in five seconds
    oauth2_jwks_uri: Option<Address> {
        value_name: "URL",
        default_words: "none",
        keys: &[key("auth_oauth2.jwks_url"), key("auth_oauth2.jwks_uri")],
    }
    /// The issuer, as a URL of https: what it says of itself below that tells where its keys are, unless
    /// `oauth2_jwks_uri` does
    oauth2_issuer: Option<Address> {
        value_name: "URL",
        default_words: "none",
        keys: &[key("auth_oauth2.issuer")],
    }
    /// Where below its URL the issuer says that
    oauth2_discovery_endpoint_path: Option<String> {
        value_name: "PATH",
        default_words: ".well-known/openid-configuration",
        range: (1, 4096),
        keys: &[key("auth_oauth2.discovery_endpoint_path")],
    }
    /// What is put behind that as its query: `NAME=TEXT`
    oauth2_discovery_endpoint_params: NamedTexts {
        value_name: "NAME=TEXT",
        default_words: "none",
        keys: &[in_form("auth_oauth2.discovery_endpoint_params.$param", Pair)],
    }
    /// The authorities that certificates of those who publish keys must lead to, in PEM; read each time
    oauth2_https_cacertfile: Option<PathBuf> {
        value_name: "FILE",
        default_words: "those of the system",
        keys: &[key("auth_oauth2.https.cacertfile")],
    }
    /// Whether that is asked of them at all. Without it whoever is between them and this broker says who may come in
    oauth2_https_verify: VerifyWhom {
        value_name: "WHOM",
        default: "peer",
        keys: &[
            key("auth_oauth2.https.peer_verification"),
            key("auth_oauth2.https.verify"),
        ],
    }
    /// Certificates that may lie between theirs and the authority's
    oauth2_https_depth: u32 {
        value_name: "N",
        default: "10",
        keys: &[key("auth_oauth2.https.depth")],
    }
    /// Whether certificates are looked for in lists of those that were taken back. There is no such look here: whoever
    /// asks for it is told at the start, which fails
    oauth2_https_crl_check: CrlCheck {
        value_name: "WORD",
        default: "false",
        keys: &[key("auth_oauth2.https.crl_check")],
    }
    /// The one of `oauth2_providers` that signs tokens for those who name none
    oauth2_default_provider: Option<String> {
        value_name: "PROVIDER",
        default_words: "the one of the settings above",
        range: (1, 4096),
        keys: &[key("auth_oauth2.default_oauth_provider")],
    }
    /// Further providers of keys: `PROVIDER.KEY=VALUE`, with the keys of rabbitmq.conf
    oauth2_providers: Providers {
        value_name: "PROVIDER.KEY=VALUE",
        default_words: "none",
        keys: &[
            in_form("auth_oauth2.oauth_providers.$name.issuer", Branch),
            in_form("auth_oauth2.oauth_providers.$name.jwks_uri", Branch),
            in_form("auth_oauth2.oauth_providers.$name.discovery_endpoint_path", Branch),
            in_form("auth_oauth2.oauth_providers.$name.discovery_endpoint_params.$param", Branch),
            in_form("auth_oauth2.oauth_providers.$name.default_key", Branch),
            in_form("auth_oauth2.oauth_providers.$name.signing_keys.$id", Branch),
            in_form("auth_oauth2.oauth_providers.$name.algorithms.$n", Branch),
            in_form("auth_oauth2.oauth_providers.$name.https.verify", Branch),
            in_form("auth_oauth2.oauth_providers.$name.https.peer_verification", Branch),
            in_form("auth_oauth2.oauth_providers.$name.https.cacertfile", Branch),
            in_form("auth_oauth2.oauth_providers.$name.https.depth", Branch),
            in_form("auth_oauth2.oauth_providers.$name.https.crl_check", Branch),
        ],
    }
    /// Further resource servers that this broker is: `NAME.KEY=VALUE`, with the keys of rabbitmq.conf. What is not said of
    /// one is as it is for `oauth2_resource_server_id`
    oauth2_resource_servers: Servers {
        value_name: "NAME.KEY=VALUE",
        default_words: "none",
        keys: &[
            in_form("auth_oauth2.resource_servers.$name.id", Branch),
            in_form("auth_oauth2.resource_servers.$name.oauth_provider_id", Branch),
            in_form("auth_oauth2.resource_servers.$name.scope_prefix", Branch),
            in_form("auth_oauth2.resource_servers.$name.additional_scopes_key", Branch),
            in_form("auth_oauth2.resource_servers.$name.verify_aud", Branch),
            in_form("auth_oauth2.resource_servers.$name.require_exp", Branch),
            in_form("auth_oauth2.resource_servers.$name.preferred_username_claims.$n", Branch),
            in_form("auth_oauth2.resource_servers.$name.scope_aliases.$alias", Branch),
            in_form("auth_oauth2.resource_servers.$name.scope_aliases.$index.alias", Branch),
            in_form("auth_oauth2.resource_servers.$name.scope_aliases.$index.scope", Branch),
        ],
    }
}
