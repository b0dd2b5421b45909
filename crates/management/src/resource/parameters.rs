//! `/parameters`, `/global-parameters`, `/cluster-name`.

use leveret_core::record::{ParameterRecord, VhostRecord};
use leveret_wire::value::ShortString;
use serde_json::{Map, Value, json};

use crate::{
    error::Refused,
    lists,
    reply::{self, Reply},
    request::{self, Request, text},
    resource::{limits, parameter_values, policies, policy_values::erlang, vhosts},
    server::Api,
    visitor::Visitor,
};

/// Components whose parameters are kept for who reads them back.
const COMPONENTS: [&str; 3] = ["shovel", "federation-upstream", "federation-upstream-set"];

pub(crate) async fn answer(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    path: &[&str],
) -> Result<Reply, Refused> {
    let directory = api.broker.directory();
    match (request.method.as_str(), path) {
        ("GET", [] | [_] | [_, _]) => {
            if let [_, vhost] = path {
                super::entered(api, visitor, vhost)?;
            }
            let mut list = shown_to(api, visitor);
            if path.first() == Some(&policies::USER) {
                // In no list but their own.
                list.extend(of_policies(api));
            }
            list.retain(|item| {
                let is =
                    |key: &str, at: usize| path.get(at).is_none_or(|asked| item[key] == **asked);
                is("component", 0) && is("vhost", 1)
            });
            list.retain(|item| {
                let vhost = item["vhost"].as_str().unwrap_or_default();
                request::name(vhost).is_ok_and(|vhost| visitor.may_enter(&directory, &vhost))
            });
            Ok(lists::whole(request, list))
        }
        ("GET", [component, vhost, name]) => {
            super::entered(api, visitor, vhost)?;
            let mut list = shown_to(api, visitor).into_iter();
            let found = list.find(|item| {
                item["component"] == **component
                    && item["vhost"] == **vhost
                    && item["name"] == **name
            });
            Ok(lists::one(request, found.ok_or_else(Refused::not_found)?))
        }
        ("DELETE", [LIMITS, vhost, "limits"]) => {
            super::entered(api, visitor, vhost)?;
            let known = directory.vhost(&request::name(vhost)?);
            let known = known.filter(|known| !has_no_limits(known));
            let known = known.ok_or_else(Refused::not_found)?;
            api.broker
                .put_vhost(with_limits(known, "limits", &json!({}))?)
                .await;
            Ok(Reply::NoContent)
        }
        ("PUT", [component, vhost, name]) => {
            let vhost = super::entered(api, visitor, vhost)?.name().clone();
            let value = value_set(request)?;
            if *component == policies::OPERATOR {
                // They have a path of their own, which is for administrators.
                return Err(unknown(component));
            }
            let is_new = put_checked(api, component, &vhost, name, &value).await?;
            Ok(Reply::put(is_new))
        }
        ("DELETE", [component, vhost, name]) => {
            let vhost = super::entered(api, visitor, vhost)?.name().clone();
            if [policies::USER, policies::OPERATOR].contains(component) {
                return Err(Refused::not_found());
            }
            reply::deleted(api.broker.delete_parameter(component, &vhost, name).await)
        }
        _ => Err(Refused::not_found()),
    }
}

/// The value that a request sets.
pub(crate) fn value_set(request: &Request) -> Result<Value, Refused> {
    let value = request.object()?.remove("value");
    value.ok_or_else(|| Refused::key_missing("value"))
}

/// The component under which limits of vhosts are parameters.
const LIMITS: &str = "vhost-limits";

fn has_no_limits(vhost: &VhostRecord) -> bool {
    vhost.max_connections.is_none() && vhost.max_queues.is_none()
}

/// The vhost with these limits and no others; the texts are RabbitMQ's.
fn with_limits(vhost: &VhostRecord, name: &str, value: &Value) -> Result<VhostRecord, Refused> {
    if name != "limits" {
        return Err(invalid(format!("{name} are not recognised limits")));
    }
    let nothing = Map::new();
    let set = match value {
        Value::Object(set) => set,
        // As RabbitMQ writes limits that were taken back.
        Value::Array(list) if list.is_empty() => &nothing,
        other => return Err(invalid(format!("limits not a list {}", erlang(other)))),
    };
    let mut vhost = VhostRecord {
        max_connections: None,
        max_queues: None,
        ..vhost.clone()
    };
    let mut places = [
        ("max-connections", &mut vhost.max_connections),
        ("max-queues", &mut vhost.max_queues),
    ];
    for (name, value) in set {
        limits::set(&mut places, name, value, "limits").map_err(invalid)?;
    }
    Ok(vhost)
}

/// Parameters as this visitor sees them: URIs tell their credentials to administrators only.
fn shown_to(api: &Api, visitor: &Visitor) -> Vec<Value> {
    let mut list = listed(api);
    if !visitor.is_administrator() {
        for item in &mut list {
            if let Some(fields) = item["value"].as_object_mut() {
                let uris = fields.iter_mut().filter(|(name, _)| name.ends_with("uri"));
                uris.for_each(|(_, uri)| remove_credentials(uri));
            }
        }
    }
    list
}

/// What stands between the scheme of a URI and its host, in one text or in a list of them.
fn remove_credentials(uri: &mut Value) {
    match uri {
        Value::String(text) => {
            let start = text.find("://").map_or(0, |at| at + 3);
            // The last one: an unescaped one may stand in the password.
            let end = text[start..]
                .find(['/', '?'])
                .map_or(text.len(), |at| start + at);
            let of_host = text[start..end]
                .rfind('@')
                .or_else(|| text[start..].rfind('@'));
            if let Some(at) = of_host {
                text.replace_range(start..=start + at, "");
            }
        }
        Value::Array(members) => members.iter_mut().for_each(remove_credentials),
        _ => {}
    }
}

/// `/shovels`: those that were set up, so that nobody takes one for running.
pub(crate) fn shovels(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    path: &[&str],
) -> Result<Reply, Refused> {
    if let [vhost] = path {
        super::entered(api, visitor, vhost)?;
    }
    let directory = api.broker.directory();
    let is_shown = |known: &&std::sync::Arc<ParameterRecord>| {
        known.component == "shovel"
            && path.first().is_none_or(|vhost| known.vhost == **vhost)
            && visitor.may_enter(&directory, &known.vhost)
    };
    let list = directory.parameters().filter(is_shown).map(|known| {
        json!({
            "node": api.broker.node().name,
            "name": known.name,
            "vhost": known.vhost.to_string(),
            "type": "dynamic",
            "state": "terminated",
            "reason": "\"this broker runs no shovels\"",
        })
    });
    Ok(lists::whole(request, list.collect()))
}

/// Policies as the parameters that they are too.
fn of_policies(api: &Api) -> Vec<Value> {
    let directory = api.broker.directory();
    let policies = directory.parameters();
    let policies = policies.filter(|known| known.component == policies::USER);
    policies.map(|known| shown(known)).collect()
}

/// Sets a parameter, whoever asks for it and however, if it can be one of its component; tells whether it is new.
pub(crate) async fn put_checked(
    api: &Api,
    component: &str,
    vhost: &ShortString,
    name: &str,
    value: &Value,
) -> Result<bool, Refused> {
    let directory = api.broker.directory();
    let is_new = directory.parameter(component, vhost, name).is_none();
    match component {
        LIMITS => {
            let known = directory.vhost(vhost).ok_or_else(Refused::no_vhost)?;
            api.broker.put_vhost(with_limits(known, name, value)?).await;
            return Ok(has_no_limits(known));
        }
        policies::USER => {
            return Err(Refused::bad_request(
                "policies may not be set using this method",
            ));
        }
        policies::OPERATOR => {
            let policy = value.as_object();
            let policy =
                policy.ok_or_else(|| invalid(format!("{name} not a list {}", erlang(value))))?;
            let policy = policies::read(component, policy)?;
            put(api, component, vhost.clone(), name, &policy).await;
        }
        _ if COMPONENTS.contains(&component) => {
            parameter_values::check(component, name, value).map_err(invalid)?;
            put(api, component, vhost.clone(), name, value).await;
        }
        _ => return Err(unknown(component)),
    }
    Ok(is_new)
}

fn unknown(component: &str) -> Refused {
    invalid(format!("component {component} not found"))
}

fn invalid(reason: impl std::fmt::Display) -> Refused {
    Refused::bad_request(format!("Validation failed\n\n{reason}\n"))
}

/// Parameters as tools see them: limits of vhosts and operator policies among them, policies not.
pub(crate) fn listed(api: &Api) -> Vec<Value> {
    let directory = api.broker.directory();
    let limits = directory.vhosts().filter_map(|vhost| {
        let value = vhosts::limits(vhost);
        let is_set = value.as_object().is_some_and(|set| !set.is_empty());
        is_set.then(|| {
            json!({
                "component": "vhost-limits",
                "vhost": vhost.name.to_string(),
                "name": "limits",
                "value": value,
            })
        })
    });
    let is_shown = |known: &&std::sync::Arc<ParameterRecord>| {
        !known.component.is_empty() && known.component != policies::USER
    };
    let others = directory.parameters().filter(is_shown);
    limits.chain(others.map(|known| shown(known))).collect()
}

fn shown(parameter: &ParameterRecord) -> Value {
    json!({
        "component": parameter.component,
        "vhost": parameter.vhost.to_string(),
        "name": parameter.name,
        "value": value_of(parameter),
    })
}

/// A parameter's value.
pub(crate) fn value_of(parameter: &ParameterRecord) -> Value {
    serde_json::from_str(&parameter.value).unwrap_or_default()
}

/// Stores what was checked.
pub(crate) async fn put(api: &Api, component: &str, vhost: ShortString, name: &str, value: &Value) {
    let parameter = ParameterRecord {
        component: component.to_owned(),
        vhost,
        name: name.to_owned(),
        value: value.to_string(),
    };
    api.broker.put_parameter(parameter).await;
}

pub(crate) async fn global(api: &Api, request: &Request, path: &[&str]) -> Result<Reply, Refused> {
    match (request.method.as_str(), path) {
        ("GET", []) => Ok(lists::whole(request, globals(api))),
        ("GET", [name]) => {
            let mut list = globals(api).into_iter();
            let found = list.find(|item| item["name"] == **name);
            Ok(lists::one(request, found.ok_or_else(Refused::not_found)?))
        }
        ("PUT", [name]) => {
            let value = value_set(request)?;
            let directory = api.broker.directory();
            let is_new = directory
                .parameter("", &ShortString::empty(), name)
                .is_none();
            put(api, "", ShortString::empty(), name, &value).await;
            Ok(Reply::put(is_new))
        }
        ("DELETE", [name]) => {
            let nowhere = ShortString::empty();
            reply::deleted(api.broker.delete_parameter("", &nowhere, name).await)
        }
        _ => Err(Refused::not_found()),
    }
}

/// Global parameters that were set, and two that tools expect.
pub(crate) fn globals(api: &Api) -> Vec<Value> {
    let directory = api.broker.directory();
    let set = directory
        .parameters()
        .filter(|known| known.component.is_empty() && known.vhost.is_empty());
    let mut list: Vec<Value> = set
        .map(|known| json!({"name": known.name, "value": value_of(known)}))
        .collect();
    let node = &api.broker.node().name;
    for (name, value) in [
        ("cluster_tags", json!({})),
        (
            "internal_cluster_id",
            format!("rabbitmq-cluster-id-{node}").into(),
        ),
    ] {
        if !list.iter().any(|item| item["name"] == *name) {
            list.push(json!({"name": name, "value": value}));
        }
    }
    list.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    list
}

pub(crate) async fn cluster_name(api: &Api, request: &Request) -> Result<Reply, Refused> {
    if request.method == axum::http::Method::PUT {
        let object = request.object()?;
        let name: Value = text(&object, "name")?.into();
        put(api, "", ShortString::empty(), "cluster_name", &name).await;
        return Ok(Reply::NoContent);
    }
    Ok(Reply::Json(json!({"name": super::node::cluster_name(api)})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sc43_a_uri_is_shown_without_credentials() {
        for (uri, shown) in [
            ("amqp://u:p@h:5672/v?a=b", "amqp://h:5672/v?a=b"),
            ("amqps://u:p@ss@h", "amqps://h"),
            ("amqp://u:p/w@h/v", "amqp://h/v"),
            ("amqp://h/v", "amqp://h/v"),
            ("amqp:///v", "amqp:///v"),
            ("u:p@h", "h"),
            ("amqp://", "amqp://"),
        ] {
            let mut list = json!([uri]);
            remove_credentials(&mut list);
            assert_eq!(list, json!([shown]), "{uri}");
        }
    }
}
