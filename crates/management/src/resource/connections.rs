//! `/connections`.

use std::{future::Future, time::Duration};

use leveret_runtime::{ConnectionState, OpenConnection};
use serde_json::{Value, json};
use tokio::{sync::oneshot, time::timeout};

use crate::{
    error::Refused,
    lists::{self, Wanted},
    reply::Reply,
    request::Request,
    resource::{entered, queues::garbage_collection},
    server::Api,
    values::table_to_json,
    visitor::Visitor,
};

/// What has rates.
const OCTETS: [&str; 4] = [
    "recv_oct",
    "recv_oct_details",
    "send_oct",
    "send_oct_details",
];

/// What only the connection itself knows.
const OF_STATE: [&str; 11] = [
    OCTETS[0],
    OCTETS[1],
    OCTETS[2],
    OCTETS[3],
    "state",
    "channel_max",
    "frame_max",
    "timeout",
    "recv_cnt",
    "send_cnt",
    "send_pend",
];

/// A connection, and what it says of itself if it was asked and had time.
type Known = (OpenConnection, Option<ConnectionState>);

/// How long a connection's task has for an answer. One that waits for the disk has not the time.
const PATIENCE: Duration = Duration::from_millis(500);

pub(crate) async fn answer(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    path: &[&str],
) -> Result<Reply, Refused> {
    match (request.method.as_str(), path) {
        ("GET", []) => listed(api, request, visible(api, visitor)).await,
        ("GET", ["username", user]) => {
            check_owner(visitor, user)?;
            let mut connections = visible(api, visitor);
            connections.retain(|known| known.facts.user == **user);
            let show = |known: &OpenConnection, _: &Wanted| {
                json!({
                    "name": known.facts.name(),
                    "vhost": known.facts.vhost.to_string(),
                    "user": known.facts.user.to_string(),
                    "node": api.broker.node().name,
                })
            };
            lists::paged(request, connections, show).await
        }
        ("DELETE", ["username", user]) => {
            check_owner(visitor, user)?;
            for connection in visible(api, visitor) {
                if connection.facts.user == **user {
                    close(&connection, visitor, request)?;
                }
            }
            Ok(Reply::NoContent)
        }
        ("GET", [name]) => {
            let connection = found(api, visitor, name)?;
            let mut list = shown_all(api, request, vec![connection]).await;
            Ok(lists::one(request, list.pop().unwrap_or_default()))
        }
        ("DELETE", [name]) => {
            close(&found(api, visitor, name)?, visitor, request)?;
            Ok(Reply::NoContent)
        }
        ("GET", [name, "sessions"]) => {
            found(api, visitor, name)?;
            Err(Refused::bad_request("connection does not use AMQP 1.0"))
        }
        ("GET", [name, "channels"]) => {
            let connection = found(api, visitor, name)?;
            let list = super::channels::shown_all(api, request, vec![connection]).await;
            Ok(lists::whole(request, list))
        }
        _ => Err(Refused::not_found()),
    }
}

/// `/vhosts/v/connections`.
pub(crate) async fn of_vhost(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    vhost: &str,
) -> Result<Reply, Refused> {
    let vhost = entered(api, visitor, vhost)?;
    let mut connections = visible(api, visitor);
    connections.retain(|known| known.facts.vhost == *vhost.name());
    let known = known_as_wanted(request, connections).await;
    let show = |known: &Known, wanted: &Wanted| in_list(api, request, known, wanted);
    Ok(lists::unpaged(request, known, show).await)
}

/// All of them for who monitors, else one's own.
pub(crate) fn visible(api: &Api, visitor: &Visitor) -> Vec<OpenConnection> {
    let mut connections = api.broker.connections();
    if !visitor.is_monitor() {
        connections.retain(|known| known.facts.user == visitor.name);
    }
    connections
}

fn found(api: &Api, visitor: &Visitor, name: &str) -> Result<OpenConnection, Refused> {
    let mut connections = api.broker.connections().into_iter();
    let found = connections
        .find(|known| known.facts.name() == name)
        .ok_or_else(Refused::not_found)?;
    check_owner(visitor, found.facts.user.as_bytes())?;
    Ok(found)
}

/// A connection is for its user, and for who monitors.
pub(crate) fn check_owner(visitor: &Visitor, user: impl AsRef<[u8]>) -> Result<(), Refused> {
    if visitor.is_monitor() || visitor.name.as_bytes() == user.as_ref() {
        return Ok(());
    }
    Err(Refused::not_authorised(
        "User not authorised to access object",
    ))
}

fn close(connection: &OpenConnection, visitor: &Visitor, request: &Request) -> Result<(), Refused> {
    if connection.facts.user != visitor.name {
        visitor.check(crate::visitor::Needs::Administrator)?;
    }
    let reason = request.header("x-reason").filter(|text| !text.is_empty());
    connection
        .control
        .close(reason.unwrap_or("Closed via management plugin"));
    Ok(())
}

/// What each connection does, asked of all of them at once.
pub(crate) async fn inspected(connections: Vec<OpenConnection>) -> Vec<Known> {
    let asked: Vec<_> = connections
        .into_iter()
        .map(|connection| {
            let (sender, answer) = oneshot::channel();
            connection.control.inspect(sender);
            (connection, answer)
        })
        .collect();
    let patience = tokio::time::Instant::now() + PATIENCE;
    let mut states = Vec::with_capacity(asked.len());
    for (connection, answer) in asked {
        states.push((connection, patiently(answer, patience).await));
    }
    states
}

async fn patiently<T>(
    answer: impl Future<Output = Result<T, oneshot::error::RecvError>>,
    until: tokio::time::Instant,
) -> Option<T> {
    let left = until.saturating_duration_since(tokio::time::Instant::now());
    timeout(left, answer).await.ok()?.ok()
}

/// Of these connections those that are asked for. They are asked what they do only where that is to be shown, and only
/// those of the page where it has nothing to do with what is on it.
async fn listed(
    api: &Api,
    request: &Request,
    connections: Vec<OpenConnection>,
) -> Result<Reply, Refused> {
    let show = |known: &Known, wanted: &Wanted| in_list(api, request, known, wanted);
    if lists::is_cut_by(request, &OF_STATE) {
        return lists::paged(request, inspected(connections).await, show).await;
    }
    let unasked = connections.into_iter().map(|known| (known, None)).collect();
    let mut selected = lists::select(request, unasked, show).await?;
    let connections = selected.items.into_iter().map(|(known, _)| known);
    selected.items = known_as_wanted(request, connections.collect()).await;
    Ok(selected.shown(request, show).await)
}

/// Connections that were asked what they do, if that is to be shown.
async fn known_as_wanted(request: &Request, connections: Vec<OpenConnection>) -> Vec<Known> {
    if Wanted::of(request).has_any(&OF_STATE) {
        return inspected(connections).await;
    }
    connections.into_iter().map(|known| (known, None)).collect()
}

/// As a list shows it: what is only said of TLS is nothing at all where there is none.
fn in_list(api: &Api, request: &Request, known: &Known, wanted: &Wanted) -> Value {
    let (connection, state) = known;
    let mut object = shown(api, request, connection, state.as_ref(), wanted);
    if object["ssl"] == false {
        for key in [
            "ssl_protocol",
            "ssl_key_exchange",
            "ssl_cipher",
            "ssl_hash",
            "peer_cert_subject",
            "peer_cert_issuer",
            "peer_cert_validity",
            "peer_cert_serial_number",
        ] {
            object[key] = Value::Null;
        }
    }
    object
}

pub(crate) async fn shown_all(
    api: &Api,
    request: &Request,
    connections: Vec<OpenConnection>,
) -> Vec<Value> {
    let states = inspected(connections).await;
    let all = Wanted::all();
    let show = |(connection, state): &Known| shown(api, request, connection, state.as_ref(), &all);
    states.iter().map(show).collect()
}

fn shown(
    api: &Api,
    request: &Request,
    connection: &OpenConnection,
    state: Option<&ConnectionState>,
    wanted: &Wanted,
) -> Value {
    let facts = &connection.facts;
    let state = state.cloned().unwrap_or_default();
    let has_properties = wanted.has_any(&["client_properties", "user_provided_name"]);
    let properties = match has_properties {
        true => table_to_json(&facts.client_properties.table()),
        false => Value::Null,
    };
    let tls = facts.tls.as_deref().cloned().unwrap_or_default();
    let certificate = tls.peer.as_ref();
    let mut object = json!({
        "name": facts.name(),
        "node": api.broker.node().name,
        "protocol": "AMQP 0-9-1",
        "type": "network",
        "user": facts.user.to_string(),
        "user_who_performed_action": facts.user.to_string(),
        "vhost": facts.vhost.to_string(),
        "state": if state.is_blocked { "blocked" } else { "running" },
        "connected_at": facts.connected_at.get(),
        "host": facts.local.ip().to_string(),
        "port": facts.local.port(),
        "peer_host": facts.peer.ip().to_string(),
        "peer_port": facts.peer.port(),
        "auth_mechanism": facts.mechanism,
        "channels": connection.channels,
        "channel_max": state.channel_max,
        "frame_max": state.frame_max,
        "timeout": state.heartbeat_secs,
        "recv_cnt": state.reads,
        "send_cnt": state.writes,
        "send_pend": state.pending_bytes,
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "garbage_collection": garbage_collection(),
        "ssl": facts.tls.is_some(),
        "ssl_protocol": tls.protocol,
        "ssl_key_exchange": tls.key_exchange,
        "ssl_cipher": tls.cipher,
        "ssl_hash": tls.hash,
        "peer_cert_subject": certificate.map_or("", |known| known.subject.as_str()),
        "peer_cert_issuer": certificate.map_or("", |known| known.issuer.as_str()),
        "peer_cert_validity": certificate.map_or("", |known| known.validity.as_str()),
        "peer_cert_serial_number": "",
    });
    if let Value::Object(fields) = &mut object {
        fields.insert(
            "user_provided_name".to_owned(),
            properties
                .get("connection_name")
                .cloned()
                .unwrap_or_default(),
        );
        if fields["user_provided_name"].is_null() {
            fields.remove("user_provided_name");
        }
        fields.insert("client_properties".to_owned(), properties);
        if wanted.has_any(&OCTETS) {
            let key = format!("connection {}", facts.id);
            let octets = [
                ("recv_oct", state.received_bytes),
                ("send_oct", state.sent_bytes),
            ];
            let age = request.age("data_rates");
            api.rates.put_with(fields, &key, &octets, age);
        }
    }
    object
}

/// A connection as other objects name it.
pub(crate) fn details(connection: &OpenConnection) -> Value {
    json!({
        "name": connection.facts.name(),
        "peer_host": connection.facts.peer.ip().to_string(),
        "peer_port": connection.facts.peer.port(),
    })
}
