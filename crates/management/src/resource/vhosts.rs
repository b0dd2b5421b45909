//! `/vhosts`.

use leveret_core::{
    arguments::QueueType,
    record::{PermissionRecord, VhostRecord},
};
use leveret_runtime::VhostKept;
use leveret_wire::value::ShortString;
use serde_json::{Map, Value, json};

use axum::http::StatusCode;

use crate::{
    error::Refused,
    lists::{self, Wanted},
    reply::Reply,
    request::{self, Request, boolean, name, optional_text, tags},
    resource::queues::{Totals, total},
    server::Api,
    visitor::Visitor,
};

/// What a vhost shows that nobody counts.
const OF_RECORD: [&str; 8] = [
    "name",
    "description",
    "tags",
    "default_queue_type",
    "metadata",
    "protected_from_deletion",
    "tracing",
    "cluster_state",
];

pub(crate) async fn answer(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    path: &[&str],
) -> Result<Reply, Refused> {
    match (request.method.as_str(), path) {
        ("GET", []) => {
            let directory = api.broker.directory();
            let is_shown = |vhost: &VhostRecord| {
                visitor.is_monitor() || visitor.may_enter(&directory, &vhost.name)
            };
            let vhosts = directory.vhosts().filter(|vhost| is_shown(vhost));
            let vhosts = vhosts.cloned().collect();
            lists::paged(request, vhosts, |vhost, wanted| {
                shown(api, request, vhost, wanted)
            })
            .await
        }
        ("GET", [vhost]) => {
            let directory = api.broker.directory();
            let vhost = directory.vhost(&name(vhost)?);
            let vhost = vhost.ok_or_else(Refused::not_found)?;
            Ok(lists::one(
                request,
                shown(api, request, vhost, &Wanted::all()),
            ))
        }
        ("PUT", [vhost]) => {
            let name = name(vhost)?;
            let known = api.broker.directory().vhost(&name).cloned();
            let vhost = read(name, &request.object()?, known.as_deref())?;
            room_for(api, &vhost.name)?;
            let is_users = known.is_none() && !visitor.is_of_machine;
            put(api, vhost, is_users.then_some(&visitor.name)).await;
            Ok(Reply::put(known.is_none()))
        }
        ("DELETE", [vhost]) => match api.broker.delete_vhost(&name(vhost)?).await {
            Ok(()) => Ok(Reply::NoContent),
            Err(VhostKept::NotFound) => Err(Refused::not_found()),
            Err(VhostKept::Protected) => Err(Refused::new(
                StatusCode::PRECONDITION_FAILED,
                "precondition_failed",
                format!(
                    "Refusing to delete virtual host '{vhost}' because it is protected from deletion"
                ),
            )),
        },
        ("POST", [vhost, "start", node]) => {
            let own = &api.broker.node().name;
            if node != own {
                return Err(Refused::bad_request(format!("Unknown node: {node}")));
            }
            api.broker.vhost(&name(vhost)?).map_err(|_| {
                Refused::bad_request(format!(
                    "Request to node {node} failed with {{no_such_vhost,<<\"{vhost}\">>}}"
                ))
            })?;
            Ok(Reply::NoContent)
        }
        (method, [vhost, "deletion", "protection"]) => {
            let directory = api.broker.directory();
            let known = directory.vhost(&name(vhost)?).ok_or_else(|| match method {
                "POST" => Refused::missing(format!(
                    "Cannot enable deletion protection of virtual host '{vhost}' because it does not exist"
                )),
                _ => Refused::not_found(),
            })?;
            let vhost = VhostRecord {
                protected: method == "POST",
                ..VhostRecord::clone(known)
            };
            api.broker.put_vhost(vhost).await;
            Ok(Reply::NoContent)
        }
        _ => Err(Refused::not_found()),
    }
}

/// Whether there may be another vhost, if it is another one.
pub(crate) fn room_for(api: &Api, name: &ShortString) -> Result<(), Refused> {
    let directory = api.broker.directory();
    match api.broker.node().vhost_max {
        Some(max)
            if directory.vhost(name).is_none() && directory.vhosts().count() as u64 >= max =>
        {
            Err(Refused::bad_request(format!(
                "cannot create vhost '{name}': vhost limit of {max} is reached"
            )))
        }
        _ => Ok(()),
    }
}

/// Makes or changes a vhost; who makes it over the API may do everything in it.
pub(crate) async fn put(api: &Api, vhost: VhostRecord, maker: Option<&ShortString>) {
    let name = vhost.name.clone();
    api.broker.put_vhost(vhost).await;
    if let Some(maker) = maker {
        let everything = || ".*".to_owned();
        let permission = PermissionRecord {
            vhost: name,
            user: maker.clone(),
            configure: everything(),
            write: everything(),
            read: everything(),
        };
        // The maker may have been deleted meanwhile.
        let _ = api.broker.put_permission(permission).await;
    }
}

fn shown(api: &Api, request: &Request, vhost: &VhostRecord, wanted: &Wanted) -> Value {
    let mut object = Map::new();
    object.insert("name".to_owned(), vhost.name.to_string().into());
    object.insert("description".to_owned(), vhost.description.clone().into());
    object.insert("tags".to_owned(), json!(vhost.tags));
    object.insert(
        "default_queue_type".to_owned(),
        queue_type(api, vhost).into(),
    );
    object.insert("metadata".to_owned(), metadata(api, vhost));
    object.insert("protected_from_deletion".to_owned(), vhost.protected.into());
    object.insert("tracing".to_owned(), vhost.tracing.into());
    let node = api.broker.node().name.clone();
    object.insert("cluster_state".to_owned(), json!({ node: "running" }));
    // The rest is summed over all queues.
    if wanted.is_within(&OF_RECORD) {
        return object.into();
    }
    let mut totals = Totals::default();
    let mut octets = (0, 0);
    if let Ok(handle) = api.broker.vhost(&vhost.name) {
        totals = total(api, &handle);
        octets = handle.traffic().octets();
    }
    let key = format!("vhost {}", vhost.name);
    totals.put_into(api, request, &key, &mut object);
    let octets = [("recv_oct", octets.0), ("send_oct", octets.1)];
    api.rates
        .put_with(&mut object, &key, &octets, request.age("data_rates"));
    Value::Object(object)
}

/// As definitions have it.
pub(crate) fn metadata(api: &Api, vhost: &VhostRecord) -> Value {
    let mut metadata = json!({
        "description": vhost.description,
        "tags": vhost.tags,
        "default_queue_type": queue_type(api, vhost),
    });
    if vhost.protected {
        metadata["protected_from_deletion"] = true.into();
    }
    metadata
}

fn queue_type(api: &Api, vhost: &VhostRecord) -> &'static str {
    let of_node = api.broker.node().default_queue_type;
    vhost.default_queue_type.unwrap_or(of_node).name()
}

/// A vhost out of a request or definitions.
pub(crate) fn read(
    name: ShortString,
    object: &Map<String, Value>,
    known: Option<&VhostRecord>,
) -> Result<VhostRecord, Refused> {
    let mut vhost = known
        .cloned()
        .unwrap_or_else(|| VhostRecord::named(name.clone()));
    let nested = request::nested(object, "metadata")?;
    for object in [&nested, object] {
        if let Some(description) = optional_text(object, "description")? {
            description.clone_into(&mut vhost.description);
        }
        if let Some(tags) = tags(object)? {
            vhost.tags = tags;
        }
        if let Some(queue_type) = optional_text(object, "default_queue_type")? {
            vhost.default_queue_type =
                match (queue_type, QueueType::from_name(queue_type.as_bytes())) {
                    ("" | "undefined", _) => None,
                    (_, Some(known)) => Some(known),
                    (other, None) => {
                        return Err(Refused::bad_request(format!(
                            "Unsupported default queue type: {other}"
                        )));
                    }
                };
        }
        if let Some(protected) = boolean(object, "protected_from_deletion")? {
            vhost.protected = protected;
        }
        if let Some(tracing) = boolean(object, "tracing")? {
            vhost.tracing = tracing;
        }
    }
    // Earlier releases have a list here, which says nothing.
    if let Some(Value::Object(limits)) = object.get("limits")
        && !limits.is_empty()
    {
        vhost.max_connections = request::integer(limits, "max-connections")?;
        vhost.max_queues = request::integer(limits, "max-queues")?;
    }
    Ok(vhost)
}

/// A vhost's limits that are set.
pub(crate) fn limits(vhost: &VhostRecord) -> Value {
    let set = [
        ("max-connections", vhost.max_connections),
        ("max-queues", vhost.max_queues),
    ];
    let set = set
        .into_iter()
        .filter_map(|(name, limit)| Some((name.to_owned(), limit?.into())));
    Value::Object(set.collect())
}
