//! `/topic-permissions`.

use leveret_core::record::TopicPermissionRecord;
use serde_json::{Map, Value, json};

use crate::{
    error::Refused,
    lists,
    reply::{self, Reply},
    request::{Request, name, required, text},
    resource::permissions::check_ends,
    server::Api,
};

pub(crate) async fn answer(api: &Api, request: &Request, path: &[&str]) -> Result<Reply, Refused> {
    match (request.method.as_str(), path) {
        ("GET", []) => Ok(Reply::Json(list(api, |_| true).into())),
        // Those for other exchanges too, whichever the path names.
        ("GET", [vhost, user] | [vhost, user, _]) => {
            let (vhost, user) = (name(vhost)?, name(user)?);
            let found = list(api, |known| known.vhost == vhost && known.user == user);
            if found.is_empty() {
                return Err(Refused::not_found());
            }
            Ok(lists::whole(request, found))
        }
        // The exchange is the one that the body names, whatever the path says.
        ("PUT", [vhost, user] | [vhost, user, _]) => {
            check_ends(api, vhost, user)?;
            let object = request.object()?;
            let permission = read(vhost, user, &object)?;
            check_exchange(api, &permission)?;
            // As in RabbitMQ: what this path shows are all of the user's in the vhost.
            let is_shown = |known: &TopicPermissionRecord| {
                known.vhost == permission.vhost && known.user == permission.user
            };
            let is_new = list(api, is_shown).is_empty();
            api.broker.put_topic_permission(permission).await?;
            Ok(Reply::put(is_new))
        }
        ("DELETE", [vhost, user, rest @ ..]) => {
            let (vhost, user) = (name(vhost)?, name(user)?);
            let exchange = rest.first().map(|exchange| name(exchange)).transpose()?;
            let deleted = api
                .broker
                .delete_topic_permissions(&vhost, &user, exchange.as_ref())
                .await;
            reply::deleted(deleted)
        }
        _ => Err(Refused::not_found()),
    }
}

/// That there is such an exchange. It may go later, and definitions may name one that is not there.
fn check_exchange(api: &Api, permission: &TopicPermissionRecord) -> Result<(), Refused> {
    let vhost = api.broker.vhost(&permission.vhost);
    let snapshot = vhost.map_err(|_| Refused::no_vhost())?.snapshot();
    if permission.exchange.is_empty() || snapshot.exchange(&permission.exchange).is_ok() {
        return Ok(());
    }
    let reason = json!(["no_such_exchange", permission.exchange.to_string()]);
    Err(Refused::bad_request(reason))
}

pub(crate) fn of_user(api: &Api, request: &Request, user: &str) -> Result<Reply, Refused> {
    let user = name(user)?;
    let directory = api.broker.directory();
    directory.user(&user).ok_or_else(Refused::not_found)?;
    Ok(lists::whole(request, list(api, |known| known.user == user)))
}

pub(crate) fn of_vhost(api: &Api, request: &Request, vhost: &str) -> Result<Reply, Refused> {
    let vhost = name(vhost)?;
    let directory = api.broker.directory();
    directory.vhost(&vhost).ok_or_else(Refused::not_found)?;
    Ok(lists::whole(
        request,
        list(api, |known| known.vhost == vhost),
    ))
}

fn list(api: &Api, is_meant: impl Fn(&TopicPermissionRecord) -> bool) -> Vec<Value> {
    let directory = api.broker.directory();
    let permissions = directory
        .topic_permissions()
        .filter(|known| is_meant(known));
    permissions.map(|known| shown(known)).collect()
}

pub(crate) fn shown(permission: &TopicPermissionRecord) -> Value {
    json!({
        "user": permission.user.to_string(),
        "vhost": permission.vhost.to_string(),
        "exchange": permission.exchange.to_string(),
        "write": permission.write,
        "read": permission.read,
    })
}

pub(crate) fn read(
    vhost: &str,
    user: &str,
    object: &Map<String, Value>,
) -> Result<TopicPermissionRecord, Refused> {
    required(object, &["exchange", "write", "read"])?;
    Ok(TopicPermissionRecord {
        vhost: name(vhost)?,
        user: name(user)?,
        exchange: name(text(object, "exchange")?)?,
        write: text(object, "write")?.to_owned(),
        read: text(object, "read")?.to_owned(),
    })
}
