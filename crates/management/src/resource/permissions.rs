//! `/permissions`.

use leveret_core::record::PermissionRecord;
use serde_json::{Map, Value, json};

use crate::{
    error::Refused,
    lists,
    reply::{self, Reply},
    request::{Request, name, required, text},
    server::Api,
};

pub(crate) async fn answer(api: &Api, request: &Request, path: &[&str]) -> Result<Reply, Refused> {
    match (request.method.as_str(), path) {
        ("GET", []) => Ok(list(api, request, |_| true)),
        ("GET", [vhost, user]) => {
            let (vhost, user) = (name(vhost)?, name(user)?);
            let directory = api.broker.directory();
            let permission = directory.permission(&vhost, &user);
            let permission = permission.ok_or_else(Refused::not_found)?;
            Ok(lists::one(request, shown(permission)))
        }
        ("PUT", [vhost, user]) => {
            check_ends(api, vhost, user)?;
            let object = request.object()?;
            let permission = read(vhost, user, &object)?;
            let directory = api.broker.directory();
            let is_new = directory
                .permission(&permission.vhost, &permission.user)
                .is_none();
            api.broker.put_permission(permission).await?;
            Ok(Reply::put(is_new))
        }
        ("DELETE", [vhost, user]) => {
            let (vhost, user) = (name(vhost)?, name(user)?);
            reply::deleted(api.broker.delete_permission(&vhost, &user).await)
        }
        _ => Err(Refused::not_found()),
    }
}

/// Whether both the vhost and the user of a permission are there.
pub(crate) fn check_ends(api: &Api, vhost: &str, user: &str) -> Result<(), Refused> {
    let directory = api.broker.directory();
    match (directory.vhost(&name(vhost)?), directory.user(&name(user)?)) {
        (Some(_), Some(_)) => Ok(()),
        _ => Err(Refused::bad_request("vhost_or_user_not_found")),
    }
}

pub(crate) fn of_user(api: &Api, request: &Request, user: &str) -> Result<Reply, Refused> {
    let user = name(user)?;
    let directory = api.broker.directory();
    directory.user(&user).ok_or_else(Refused::not_found)?;
    Ok(list(api, request, |known| known.user == user))
}

pub(crate) fn of_vhost(api: &Api, request: &Request, vhost: &str) -> Result<Reply, Refused> {
    let vhost = name(vhost)?;
    let directory = api.broker.directory();
    directory.vhost(&vhost).ok_or_else(Refused::not_found)?;
    Ok(list(api, request, |known| known.vhost == vhost))
}

fn list(api: &Api, request: &Request, is_meant: impl Fn(&PermissionRecord) -> bool) -> Reply {
    let directory = api.broker.directory();
    let permissions = directory.permissions().filter(|known| is_meant(known));
    lists::whole(request, permissions.map(|known| shown(known)).collect())
}

pub(crate) fn shown(permission: &PermissionRecord) -> Value {
    json!({
        "user": permission.user.to_string(),
        "vhost": permission.vhost.to_string(),
        "configure": permission.configure,
        "write": permission.write,
        "read": permission.read,
    })
}

pub(crate) fn read(
    vhost: &str,
    user: &str,
    object: &Map<String, Value>,
) -> Result<PermissionRecord, Refused> {
    required(object, &["configure", "write", "read"])?;
    Ok(PermissionRecord {
        vhost: name(vhost)?,
        user: name(user)?,
        configure: text(object, "configure")?.to_owned(),
        write: text(object, "write")?.to_owned(),
        read: text(object, "read")?.to_owned(),
    })
}
