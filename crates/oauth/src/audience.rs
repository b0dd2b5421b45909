//! For whom a token is: one of the resource servers that this broker is.

use serde_json::Value;

use crate::{claims::Claims, error::TokenError, token::TokenSettings};

/// Which provider signs the tokens of a resource server: its place among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderId(pub usize);

/// Somebody that a token may be for, and who signs those tokens.
#[derive(Debug, Clone)]
pub struct ResourceServer {
    /// How its tokens are read.
    pub settings: TokenSettings,
    /// Who signs them.
    pub provider: ProviderId,
}

/// The one that a token is for: named by it, or the only one that takes tokens of any audience.
///
/// Nothing of the token has been verified yet; what is chosen here says with whose keys that is done.
pub(crate) fn meant<'a>(
    servers: &'a [ResourceServer],
    claims: &Claims,
) -> Result<&'a ResourceServer, TokenError> {
    let audience = claims.get("aud");
    let is_named = |server: &&ResourceServer| {
        let id = &server.settings.resource_server_id;
        // Without an id of its own there is nothing that could be meant.
        !id.is_empty()
            && match audience {
                Some(Value::String(ids)) => ids.split(' ').any(|named| named == id),
                Some(Value::Array(ids)) => ids.iter().any(|named| named.as_str() == Some(id)),
                _ => false,
            }
    };
    if !matches!(audience, None | Some(Value::String(_) | Value::Array(_))) {
        return Err(TokenError::Malformed);
    }
    let mut named = servers.iter().filter(is_named);
    match (named.next(), named.next()) {
        (Some(server), None) => return Ok(server),
        (Some(_), Some(_)) => return Err(TokenError::SeveralAudiences),
        (None, _) => {}
    }
    let is_open = |server: &&ResourceServer| {
        !server.settings.verify_aud && !server.settings.resource_server_id.is_empty()
    };
    let mut open = servers.iter().filter(is_open);
    match (open.next(), open.next(), audience) {
        (Some(server), None, _) => Ok(server),
        (_, _, Some(_)) => Err(TokenError::NoMatchingAudience),
        (Some(_), Some(_), None) | (None, _, None) => Err(TokenError::NoAudience),
    }
}
