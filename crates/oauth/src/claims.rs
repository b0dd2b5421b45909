//! Where a token says its scopes: in `scope`, in places that the operator names, and in those of some issuers.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::{error::TokenError, token::TokenSettings};

pub(crate) type Claims = Map<String, Value>;

/// More than this are refused, as in RabbitMQ.
const SCOPES_MAX: usize = 2048;

/// Where a requesting party token (UMA 2) has them.
const REQUESTING_PARTY: &str = "authorization.permissions.scopes";

/// The scopes that are ours, without their prefix.
pub(crate) fn scopes(
    claims: &Claims,
    settings: &TokenSettings,
) -> Result<BTreeSet<String>, TokenError> {
    let mut scopes = Vec::new();
    match claims.get("scope") {
        None => {}
        Some(value @ (Value::String(_) | Value::Array(_))) => {
            collect(value, settings, &mut scopes);
        }
        Some(_) => return Err(TokenError::Malformed),
    }
    let more = settings.additional_scopes_key.as_deref();
    let places = more.unwrap_or_default().split_ascii_whitespace();
    for place in places.chain([REQUESTING_PARTY]) {
        let path: Vec<&str> = place.split('.').filter(|name| !name.is_empty()).collect();
        if let Some((first, rest)) = path.split_first()
            && let Some(value) = claims.get(*first)
        {
            walk(value, rest, settings, &mut scopes);
        }
    }
    let meant = scopes
        .iter()
        .filter_map(|scope| settings.scope_aliases.get(scope));
    let meant: Vec<String> = meant.flatten().cloned().collect();
    scopes.extend(meant);
    let prefix = settings.scope_prefix();
    let ours = scopes
        .iter()
        .filter_map(|scope| scope.strip_prefix(&prefix));
    let ours: BTreeSet<String> = ours.map(str::to_owned).collect();
    if ours.len() > SCOPES_MAX {
        return Err(TokenError::TooManyScopes);
    }
    Ok(ours)
}

/// What is found behind these names, also in each member of a list.
fn walk(value: &Value, path: &[&str], settings: &TokenSettings, scopes: &mut Vec<String>) {
    match (path, value) {
        ([], value) => collect(value, settings, scopes),
        ([name, rest @ ..], Value::Object(fields)) => {
            if let Some(value) = fields.get(*name) {
                walk(value, rest, settings, scopes);
            }
        }
        (path, Value::Array(members)) => {
            for member in members {
                walk(member, path, settings, scopes);
            }
        }
        _ => {}
    }
}

/// A text with spaces, a list, or an object that has some for each resource server.
fn collect(value: &Value, settings: &TokenSettings, scopes: &mut Vec<String>) {
    let id = &settings.resource_server_id;
    match value {
        Value::Object(by_server) => {
            let mut ours = Vec::new();
            if let Some(value @ (Value::String(_) | Value::Array(_))) = by_server.get(id) {
                collect(value, settings, &mut ours);
            }
            scopes.extend(ours.into_iter().map(|scope| format!("{id}.{scope}")));
        }
        Value::String(text) => {
            let parts = text.split(' ').filter(|scope| !scope.is_empty());
            scopes.extend(parts.map(str::to_owned));
        }
        Value::Array(members) => {
            let texts = members.iter().filter_map(Value::as_str);
            scopes.extend(texts.map(str::to_owned));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
