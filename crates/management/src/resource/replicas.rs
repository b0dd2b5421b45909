//! `/queues/quorum`: replicas of quorum queues. Each queue has one, on the one node there is.

use axum::http::StatusCode;
use leveret_core::arguments::QueueType;
use serde_json::json;

use crate::{
    error::Refused,
    reply::Reply,
    request::{self, Request},
    resource::{entered, node, queues},
    server::Api,
    visitor::Visitor,
};

/// The version of what RabbitMQ 4.3 makes of a log.
const MACHINE_VERSION: u32 = 8;

pub(crate) fn answer(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    path: &[&str],
) -> Result<Reply, Refused> {
    match (request.method.as_str(), path) {
        ("POST", ["replicas", "on", on, "grow"]) => {
            node::of_path(api, &[*on])?;
            let keys = ["vhost_pattern", "queue_pattern", "strategy"];
            request::required(&request.object()?, &keys)?;
            // They are all here already.
            Ok(Reply::NoContent)
        }
        // Whoever is the last one stays.
        ("DELETE", ["replicas", "on", on, "shrink"]) => {
            node::of_path(api, &[*on]).map(|()| Reply::Accepted)
        }
        ("GET", [vhost, queue, "status"]) => status(api, visitor, vhost, queue),
        ("POST", [vhost, queue, "replicas", "add"]) => {
            check_node(api, request)?;
            let queue_type = type_of(api, visitor, vhost, queue);
            // RabbitMQ's word for a queue that is not there, where there was to be something new.
            let queue_type = queue_type.map_err(|_| unavailable("not_found"))?;
            check(queue_type).map_err(unavailable)?;
            Ok(Reply::NoContent)
        }
        ("DELETE", [vhost, queue, "replicas", "delete"]) => {
            let queue_type = type_of(api, visitor, vhost, queue)?;
            check_node(api, request)?;
            check(queue_type).map_err(unavailable)?;
            Err(unavailable("last_node"))
        }
        _ => Err(Refused::not_found()),
    }
}

/// How the replicas are. There is no log of Raft, and so nothing in it.
fn status(api: &Api, visitor: &Visitor, vhost: &str, queue: &str) -> Result<Reply, Refused> {
    if let Err(reason) = check(type_of(api, visitor, vhost, queue)?) {
        let failed = json!({"status": "failed", "reason": reason});
        return Ok(Reply::Status(StatusCode::SERVICE_UNAVAILABLE, failed));
    }
    Ok(Reply::Json(json!([{
        "Node Name": api.broker.node().name,
        "Raft State": "leader",
        "Membership": "voter",
        "Last Log Index": 0,
        "Last Written": 0,
        "Last Applied": 0,
        "Commit Index": 0,
        "Snapshot Index": -1,
        "Term": 1,
        "Machine Version": MACHINE_VERSION,
    }])))
}

fn type_of(api: &Api, visitor: &Visitor, vhost: &str, queue: &str) -> Result<QueueType, Refused> {
    let vhost = entered(api, visitor, vhost)?;
    let (_, queue) = queues::found(api, &vhost, queue)?;
    Ok(queue.queue_type())
}

/// Whether a queue has replicas, or RabbitMQ's word for why not.
const fn check(queue_type: QueueType) -> Result<(), &'static str> {
    match queue_type {
        QueueType::Quorum => Ok(()),
        QueueType::Classic => Err("classic_queue_not_supported"),
        QueueType::Stream => Err("not_quorum_queue"),
    }
}

/// A request names the node there is.
fn check_node(api: &Api, request: &Request) -> Result<(), Refused> {
    let object = request.object()?;
    if request::text(&object, "node")? == api.broker.node().name {
        return Ok(());
    }
    Err(Refused::bad_request("Node is not a cluster member"))
}

fn unavailable(reason: &str) -> Refused {
    Refused::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "service_unavailable",
        reason,
    )
}
