//! Health checks: 200 when all is well, 503 with the reason when not.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::{
    error::Refused,
    reply::Reply,
    request,
    resource::{certificates, node},
    server::Api,
    visitor::Visitor,
};

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

/// `/healthchecks/node`: what answers is well.
pub(crate) fn old(api: &Api, path: &[&str]) -> Result<Reply, Refused> {
    node::of_path(api, path)?;
    Ok(ok(json!({})))
}

pub(crate) fn check(api: &Api, visitor: &Visitor, path: &[&str]) -> Result<Reply, Refused> {
    match path {
        ["quorum-queues-without-elected-leaders", "vhost", vhost, ..] => {
            super::entered_if_there(api, visitor, vhost)?;
            Ok(ok(json!({})))
        }
        ["alarms"] => Ok(alarms(api, "alarm(s) in effect in the cluster")),
        ["local-alarms"] => Ok(alarms(api, "alarm(s) in effect on this node")),
        // One node that answers has its vhosts, its leaders and its whole cluster.
        [
            "virtual-hosts"
            | "is-in-service"
            | "ready-to-serve-clients"
            | "reached-target-cluster-size",
        ]
        | ["metadata-store", "initialized", ..]
        | ["quorum-queues-without-elected-leaders", ..] => Ok(ok(json!({}))),
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
        ["certificate-expiration", within, unit] => certificate_expiration(api, within, unit),
        _ => Err(Refused::not_found()),
    }
}

fn certificate_expiration(api: &Api, within: &str, unit: &str) -> Result<Reply, Refused> {
    let within: i64 = within
        .parse()
        .map_err(|_| Refused::bad_request("Invalid expiration value."))?;
    let within = certificates::seconds(within, unit).ok_or_else(|| {
        Refused::bad_request(
            "Time unit not recognised. Supported units: days, weeks, months, years.",
        )
    })?;
    let now = i64::try_from(api.broker.now().get() / 1000).unwrap_or(i64::MAX);
    let expired = certificates::expiring(api, now, within);
    if expired.is_empty() {
        return Ok(ok(json!({})));
    }
    Ok(failed(
        json!({"reason": "Certificates expiring", "expired": expired}),
    ))
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

/// `/x/ready`: nothing is answered before everything that was stored or defined is in its place. While the disk does not
/// answer nothing durable can be done for anybody.
pub(crate) fn ready(api: &Api) -> Reply {
    match api.broker.disk_silence() {
        Some(silence) => failed(json!({"reason": told(silence)})),
        None => ok(json!({})),
    }
}

fn told(silence: Duration) -> String {
    format!("the disk has not answered for {} s", silence.as_secs())
}

/// Which resources are low, or hang.
fn alarms(api: &Api, reason: &str) -> Reply {
    let mut alarm = api.broker.alarm();
    let silence = api.broker.disk_silence();
    let reason = match silence {
        Some(silence) if !alarm.is_on() => told(silence),
        Some(_) | None => reason.to_owned(),
    };
    alarm.disk |= silence.is_some();
    let node = &api.broker.node().name;
    let resources = [(alarm.memory, "memory"), (alarm.disk, "disk")];
    let on: Vec<Value> = resources
        .iter()
        .filter(|(is_on, _)| *is_on)
        .map(|(_, resource)| json!({"node": node, "resource": resource}))
        .collect();
    if on.is_empty() {
        return ok(json!({}));
    }
    failed(json!({"reason": reason, "alarms": on}))
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
    let missing: Vec<_> = asked
        .into_iter()
        .filter(|name| !known.contains(&name.as_str()))
        .collect();
    if missing.is_empty() {
        return ok(json!({"protocols": known}));
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
