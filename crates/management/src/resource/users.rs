//! `/users` and what hangs on them.

use base64::{Engine, engine::general_purpose::STANDARD};
use leveret_core::record::{HashAlgorithm, UserRecord};
use leveret_runtime::{PasswordRefused, hash_password};
use leveret_wire::value::ShortString;
use serde_json::{Map, Value, json};

use crate::{
    error::Refused,
    lists,
    reply::{self, Reply},
    request::{self, Request},
    server::Api,
    visitor::Visitor,
};

pub(crate) async fn answer(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    path: &[&str],
) -> Result<Reply, Refused> {
    match (request.method.as_str(), path) {
        ("GET", []) => {
            let directory = api.broker.directory();
            let users = directory.users().cloned().collect();
            lists::paged(request, users, |user, _| shown(user)).await
        }
        ("GET", ["without-permissions"]) => {
            let directory = api.broker.directory();
            let has_none = |user: &&std::sync::Arc<UserRecord>| {
                !directory.permissions().any(|known| known.user == user.name)
            };
            let users = directory.users().filter(has_none).cloned().collect();
            lists::paged(request, users, |user, _| shown(user)).await
        }
        ("POST", ["bulk-delete"]) => {
            let object = request.object()?;
            let users = object.get("users").and_then(Value::as_array);
            let users = users.ok_or_else(|| Refused::key_missing("users"))?;
            for user in users.iter().filter_map(Value::as_str) {
                let name = request::name(user)?;
                // Those that are protected stay, and the others go.
                if check_unprotected(api, visitor, &name).is_ok() {
                    api.broker.delete_user(&name).await;
                }
            }
            Ok(Reply::NoContent)
        }
        ("GET", [user]) => {
            let directory = api.broker.directory();
            let user = directory.user(&request::name(user)?);
            let user = user.ok_or_else(Refused::not_found)?;
            Ok(lists::one(request, shown(user)))
        }
        ("PUT", [user]) => {
            let name = request::name(user)?;
            check_unprotected(api, visitor, &name)?;
            let known = api.broker.directory().user(&name).cloned();
            let known = known.as_deref();
            let hashing = api.broker.password_hashing();
            let object = request.object()?;
            check_password(api, &object).map_err(|refused| {
                // Who asks at the machine itself is told why, as by RabbitMQ's command line; others are not.
                if visitor.is_of_machine {
                    Refused::bad_request(refused.to_string())
                } else {
                    Refused::bad_request(PASSWORD_REFUSED)
                }
            })?;
            let user = read(name, &object, known, (hashing, unnamed(hashing)))?;
            api.broker.put_user(user).await;
            Ok(Reply::put(known.is_none()))
        }
        ("DELETE", [user]) => {
            let name = request::name(user)?;
            check_unprotected(api, visitor, &name)?;
            reply::deleted(api.broker.delete_user(&name).await)
        }
        _ => Err(Refused::not_found()),
    }
}

/// The tag that keeps a user from being changed by others than the administrators of this machine.
const PROTECTED: &str = "protected";

fn check_unprotected(api: &Api, visitor: &Visitor, name: &ShortString) -> Result<(), Refused> {
    let directory = api.broker.directory();
    let is_protected =
        |user: &std::sync::Arc<UserRecord>| user.tags.iter().any(|tag| tag == PROTECTED);
    if !visitor.is_of_machine && directory.user(name).is_some_and(is_protected) {
        return Err(Refused::bad_request(
            "Protected users cannot be modified via the HTTP API",
        ));
    }
    Ok(())
}

/// What RabbitMQ's API says of a password that breaks the rule.
pub(crate) const PASSWORD_REFUSED: &str = "credential_validation_failed";

/// Whether the password of a user may be given to them, if there is one; a hash is taken as it is.
pub(crate) fn check_password(api: &Api, user: &Map<String, Value>) -> Result<(), PasswordRefused> {
    match user.get("password").and_then(Value::as_str) {
        Some(password) if !user.contains_key("password_hash") => {
            api.broker.password_rule().check(password)
        }
        _ => Ok(()),
    }
}

/// What a hash is that comes without the name of its algorithm: RabbitMQ's usual one, also where new passwords are hashed
/// otherwise than RabbitMQ can.
const fn unnamed(hashing: HashAlgorithm) -> HashAlgorithm {
    match hashing {
        HashAlgorithm::Argon2id => HashAlgorithm::Sha256,
        HashAlgorithm::Sha256 | HashAlgorithm::Sha512 | HashAlgorithm::Md5 => hashing,
    }
}

/// `/auth/hash_password`.
pub(crate) fn hash(api: &Api, password: &str) -> Reply {
    let hash = hash_password(api.broker.password_hashing(), password.as_bytes());
    Reply::Json(json!({ "ok": STANDARD.encode(hash) }))
}

/// A user as the API and definitions show it.
pub(crate) fn shown(user: &UserRecord) -> Value {
    json!({
        "name": user.name.to_string(),
        "password_hash": STANDARD.encode(&user.password_hash),
        "hashing_algorithm": user.algorithm.name(),
        "tags": user.tags,
        "limits": limits(user),
    })
}

/// A user's limits that are set.
pub(crate) fn limits(user: &UserRecord) -> Value {
    let set = [
        ("max-connections", user.max_connections),
        ("max-channels", user.max_channels),
    ];
    let set = set
        .into_iter()
        .filter_map(|(name, limit)| Some((name.to_owned(), limit?.into())));
    Value::Object(set.collect())
}

/// A user out of a request or definitions: a password is hashed as the first of the algorithms says, and the second is
/// meant where a hash comes without a name.
pub(crate) fn read(
    name: ShortString,
    object: &Map<String, Value>,
    known: Option<&UserRecord>,
    (hashing, algorithm): (HashAlgorithm, HashAlgorithm),
) -> Result<UserRecord, Refused> {
    let tags = request::tags(object)?.ok_or_else(|| Refused::bad_request("tags_not_present"))?;
    let password = request::optional_text(object, "password")?;
    let hash = request::optional_text(object, "password_hash")?;
    let named = request::optional_text(object, "hashing_algorithm")?;
    let (password_hash, algorithm) = match (password, hash) {
        (Some(_), Some(_)) => {
            return Err(Refused::bad_request(
                "both_password_and_password_hash_are_provided",
            ));
        }
        (Some(password), None) => (hash_password(hashing, password.as_bytes()), hashing),
        (None, Some(hash)) => {
            let bytes = STANDARD
                .decode(hash)
                .map_err(|_| Refused::bad_request(json!(["not_base64", hash])))?;
            match named.map(HashAlgorithm::from_name) {
                None => (bytes, algorithm),
                Some(Some(algorithm)) => (bytes, algorithm),
                // Nothing made by an algorithm that nobody knows can ever verify.
                Some(None) => (Vec::new(), algorithm),
            }
        }
        (None, None) => (Vec::new(), algorithm),
    };
    let mut user = UserRecord {
        name,
        password_hash,
        algorithm,
        tags,
        max_connections: known.and_then(|known| known.max_connections),
        max_channels: known.and_then(|known| known.max_channels),
    };
    let limits = request::nested(object, "limits")?;
    if !limits.is_empty() {
        user.max_connections = request::integer(&limits, "max-connections")?;
        user.max_channels = request::integer(&limits, "max-channels")?;
    }
    Ok(user)
}
