//! `/vhost-limits` and `/user-limits`.

use leveret_core::record::{UserRecord, VhostRecord};
use serde_json::{Value, json};

use crate::{
    error::Refused,
    lists,
    reply::Reply,
    request::{Request, integer, name},
    resource::{users, vhosts},
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
        (_, [vhost, limit]) => {
            let vhost = directory.vhost(&name(vhost)?);
            let mut vhost = VhostRecord::clone(vhost.ok_or_else(Refused::not_found)?);
            let value = value(request)?;
            match *limit {
                "max-connections" => vhost.max_connections = value,
                "max-queues" => vhost.max_queues = value,
                other => return Err(unknown(other)),
            }
            api.broker.put_vhost(vhost).await;
            Ok(Reply::NoContent)
        }
        _ => Err(Refused::not_found()),
    }
}

pub(crate) async fn of_users(
    api: &Api,
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
            let user = directory.user(&name(user)?);
            let user = user.ok_or_else(Refused::not_found)?;
            Ok(lists::whole(request, limited(user).into_iter().collect()))
        }
        (_, [user, limit]) => {
            let user = directory.user(&name(user)?);
            let mut user = UserRecord::clone(user.ok_or_else(Refused::not_found)?);
            let value = value(request)?;
            match *limit {
                "max-connections" => user.max_connections = value,
                "max-channels" => user.max_channels = value,
                other => return Err(unknown(other)),
            }
            api.broker.put_user(user).await;
            Ok(Reply::NoContent)
        }
        _ => Err(Refused::not_found()),
    }
}

/// What a PUT sets; a DELETE sets nothing.
fn value(request: &Request) -> Result<Option<i64>, Refused> {
    if request.method == axum::http::Method::DELETE {
        return Ok(None);
    }
    let value = integer(&request.object()?, "value")?;
    value.map(Some).ok_or_else(|| Refused::key_missing("value"))
}

fn unknown(limit: &str) -> Refused {
    let list: Value = json!([limit]);
    Refused::bad_request(format!(
        "Validation failed\n\n{list} are not recognised limits\n"
    ))
}
