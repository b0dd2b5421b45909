//! Health checks: 200 when all is well, 503 with the reason when not.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::{error::Refused, reply::Reply, request, resource::node, server::Api, visitor::Visitor};

/// Names of one protocol.
const AMQP_NAMES: [&str; 6] = [
    "amqp",
    "amqp091",
    "amqp0.9.1",
    "amqp0-9-1",
    "amqp1.0",
    "amqp10",
];

pub(crate) fn aliveness(api: &Api, visitor: &Visitor, vhost: &str) -> Result<Reply, Refused> {
    super::entered(api, visitor, vhost).map_err(|_| Refused::not_found())?;
    Ok(ok(json!({})))
}

pub(crate) fn check(api: &Api, path: &[&str]) -> Result<Reply, Refused> {
    match path {
        [
            "alarms"
            | "local-alarms"
            | "virtual-hosts"
            | "is-in-service"
            | "ready-to-serve-clients",
        ] => Ok(ok(json!({}))),
        ["node-is-quorum-critical"] => Ok(ok(json!({"reason": "single node cluster"}))),
        ["below-node-connection-limit"] => {
            let (open, _) = api.broker.connection_counts();
            match api.broker.node().connection_max {
                Some(max) if open >= max => Ok(failed(json!({
                    "reason": format!("node connection limit ({max}) is reached"),
                    "limit": max,
                    "connections": open,
                }))),
                Some(_) | None => Ok(ok(json!({}))),
            }
        }
        ["port-listener", port] => port_listener(api, port),
        ["protocol-listener", protocols] => Ok(protocol_listener(api, protocols)),
        [
            "certificate-expiration",
            _,
            "days" | "weeks" | "months" | "years",
        ] => Ok(ok(json!({}))),
        ["certificate-expiration", _, unit] => Err(Refused::bad_request(format!(
            "Invalid expiration unit: {unit}"
        ))),
        _ => Err(Refused::not_found()),
    }
}

fn port_listener(api: &Api, port: &str) -> Result<Reply, Refused> {
    let asked: u16 = request::name(port)?
        .to_str()
        .ok()
        .and_then(|port| port.parse().ok())
        .ok_or_else(|| Refused::bad_request("Invalid port"))?;
    let mut ports: Vec<u16> = node::all_listeners(api)
        .iter()
        .map(|(_, address)| address.port())
        .collect();
    ports.dedup();
    if ports.contains(&asked) {
        return Ok(ok(json!({"port": asked})));
    }
    Ok(failed(json!({
        "reason": "No active listener",
        "missing": asked,
        "ports": ports,
    })))
}

fn protocol_listener(api: &Api, protocols: &str) -> Reply {
    let mut known: Vec<&str> = node::all_listeners(api)
        .iter()
        .map(|(protocol, _)| *protocol)
        .collect();
    known.dedup();
    let normal = |name: &str| {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "amqps" => "amqp/ssl".to_owned(),
            amqp if AMQP_NAMES.contains(&amqp) => "amqp".to_owned(),
            _ => name,
        }
    };
    let asked: Vec<String> = protocols.split(',').map(normal).collect();
    let (there, missing): (Vec<_>, Vec<_>) = asked
        .into_iter()
        .partition(|name| known.contains(&name.as_str()));
    if missing.is_empty() || !there.is_empty() {
        return ok(json!({"protocol": there.first().cloned().unwrap_or_default()}));
    }
    failed(json!({
        "reason": "No active listener",
        "missing": missing,
        "protocols": known,
    }))
}

fn ok(mut extras: Value) -> Reply {
    extras["status"] = "ok".into();
    Reply::Json(extras)
}

fn failed(mut extras: Value) -> Reply {
    extras["status"] = "failed".into();
    Reply::Status(StatusCode::SERVICE_UNAVAILABLE, extras)
}
