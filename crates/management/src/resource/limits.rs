//! `/vhost-limits` and `/user-limits`.

use leveret_core::record::{UserRecord, VhostRecord};
use serde_json::{Value, json};

use crate::{
    error::Refused,
    lists,
    reply::Reply,
    request::{Request, name},
    resource::{connections::check_owner, parameters::value_set, users, vhosts},
    server::Api,
    visitor::Visitor,
};

pub(crate) async fn of_vhosts(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    path: &[&str],
) -> Result<Reply, Refused> {
    let directory = api.broker.directory();
    let limited = |vhost: &VhostRecord| {
        let value = vhosts::limits(vhost);
        let is_set = value.as_object().is_some_and(|set| !set.is_empty());
        is_set.then(|| json!({ "vhost": vhost.name.to_string(), "value": value }))
    };
    match (request.method.as_str(), path) {
        ("GET", []) => {
            let vhosts = directory.vhosts();
            let vhosts = vhosts.filter(|vhost| visitor.may_enter(&directory, &vhost.name));
            let list = vhosts.filter_map(|vhost| limited(vhost)).collect();
            Ok(lists::whole(request, list))
        }
        ("GET", [vhost]) => {
            super::entered(api, visitor, vhost)?;
            let vhost = directory.vhost(&name(vhost)?);
            let vhost = vhost.ok_or_else(Refused::not_found)?;
            Ok(lists::whole(request, limited(vhost).into_iter().collect()))
        }
        (method, [vhost, limit]) => {
            let vhost = directory.vhost(&name(vhost)?);
            let mut vhost = VhostRecord::clone(vhost.ok_or_else(no_vhost)?);
            let mut places = [
                ("max-connections", &mut vhost.max_connections),
                ("max-queues", &mut vhost.max_queues),
            ];
            if method == "DELETE" {
                remove(&mut places, limit);
            } else {
                set(&mut places, limit, &value_set(request)?, "limits").map_err(|reason| {
                    Refused::bad_request(format!("Validation failed\n\n{reason}\n"))
                })?;
            }
            api.broker.put_vhost(vhost).await;
            Ok(Reply::NoContent)
        }
        _ => Err(Refused::not_found()),
    }
}

pub(crate) async fn of_users(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    path: &[&str],
) -> Result<Reply, Refused> {
    let directory = api.broker.directory();
    let limited = |user: &UserRecord| {
        let value = users::limits(user);
        let is_set = value.as_object().is_some_and(|set| !set.is_empty());
        is_set.then(|| json!({ "user": user.name.to_string(), "value": value }))
    };
    match (request.method.as_str(), path) {
        ("GET", []) => {
            let list = directory.users().filter_map(|user| limited(user)).collect();
            Ok(lists::whole(request, list))
        }
        ("GET", [user]) => {
            check_owner(visitor, user)?;
            let user = directory.user(&name(user)?);
            let user = user.ok_or_else(Refused::not_found)?;
            Ok(lists::whole(request, limited(user).into_iter().collect()))
        }
        (method, [user, limit]) => {
            let known = directory.user(&name(user)?);
            let is_removed = method == "DELETE";
            let absent = || {
                if is_removed {
                    no_vhost()
                } else {
                    Refused::bad_request(json!(["no_such_user", user]))
                }
            };
            let value = if is_removed {
                None
            } else {
                Some(value_set(request)?)
            };
            let mut user = UserRecord::clone(known.ok_or_else(absent)?);
            let mut places = [
                ("max-connections", &mut user.max_connections),
                ("max-channels", &mut user.max_channels),
            ];
            match value {
                None => remove(&mut places, limit),
                Some(value) => {
                    set(&mut places, limit, &value, "user-limits").map_err(Refused::bad_request)?;
                }
            }
            api.broker.put_user(user).await;
            Ok(Reply::NoContent)
        }
        _ => Err(Refused::not_found()),
    }
}

/// Sets one of the limits there are. The reasons why not are RabbitMQ's.
pub(crate) fn set(
    places: &mut [(&str, &mut Option<i64>)],
    name: &str,
    value: &Value,
    of: &str,
) -> Result<(), String> {
    let shown = match value {
        Value::String(text) => format!("<<\"{text}\">>"),
        other => other.to_string(),
    };
    let place = places.iter_mut().find(|(known, _)| *known == name);
    let (_, place) =
        place.ok_or_else(|| format!("Unrecognised terms [{{<<\"{name}\">>,{shown}}}] in {of}"))?;
    let number = value.as_i64();
    **place =
        Some(number.ok_or_else(|| format!("{name} should be a number, actually was {shown}"))?);
    Ok(())
}

/// Removes a limit. One that is none is not there, which is as well.
fn remove(places: &mut [(&str, &mut Option<i64>)], name: &str) {
    for (known, place) in places {
        if *known == name {
            **place = None;
        }
    }
}

/// What RabbitMQ says of a user that is not there, too.
fn no_vhost() -> Refused {
    Refused::missing("vhost_not_found")
}
