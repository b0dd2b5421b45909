//! `/channels`.

use leveret_runtime::{ChannelState, OpenConnection};
use serde_json::{Value, json};

use crate::{
    error::Refused,
    lists::{self, Wanted},
    reply::Reply,
    request::Request,
    resource::{
        connections, consumers, entered,
        queues::{garbage_collection, message_stats},
    },
    server::Api,
    visitor::Visitor,
};

/// A channel with its connection.
type Known = (OpenConnection, ChannelState);

pub(crate) async fn answer(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    path: &[&str],
) -> Result<Reply, Refused> {
    match path {
        [] => {
            let channels = known(connections::visible(api, visitor)).await;
            let show = |known: &Known, wanted: &Wanted| shown(api, request, known, wanted);
            lists::paged(request, channels, show).await
        }
        [name] => {
            let mut of_name = api.broker.connections();
            of_name.retain(|known| name.starts_with(&known.facts.name()));
            let list = shown_all(api, request, of_name.clone()).await;
            let mut found = list
                .into_iter()
                .find(|channel| channel["name"] == **name)
                .ok_or_else(Refused::not_found)?;
            connections::check_owner(visitor, found["user"].as_str().unwrap_or_default())?;
            let of_channel = consumers::all(api, of_name).await.into_iter();
            let of_channel = of_channel.filter(|known| known["channel_details"]["name"] == **name);
            found["consumer_details"] = of_channel.collect();
            found["publishes"] = json!([]);
            found["deliveries"] = json!([]);
            Ok(lists::one(request, found))
        }
        _ => Err(Refused::not_found()),
    }
}

/// `/vhosts/v/channels`.
pub(crate) async fn of_vhost(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    vhost: &str,
) -> Result<Reply, Refused> {
    let vhost = entered(api, visitor, vhost)?;
    if request.flag("disable_stats") {
        return Err(Refused::without_stats());
    }
    let mut visible = connections::visible(api, visitor);
    visible.retain(|known| known.facts.vhost == *vhost.name());
    let show = |known: &Known, wanted: &Wanted| shown(api, request, known, wanted);
    Ok(lists::unpaged(request, known(visible).await, show).await)
}

/// The channels of these connections.
async fn known(connections: Vec<OpenConnection>) -> Vec<Known> {
    let mut channels = Vec::new();
    for (connection, state) in connections::inspected(connections).await {
        let of_connection = state.unwrap_or_default().channels.into_iter();
        channels.extend(of_connection.map(|channel| (connection.clone(), channel)));
    }
    channels
}

pub(crate) async fn shown_all(
    api: &Api,
    request: &Request,
    connections: Vec<OpenConnection>,
) -> Vec<Value> {
    let all = Wanted::all();
    let channels = known(connections).await;
    let show = |known: &Known| shown(api, request, known, &all);
    channels.iter().map(show).collect()
}

/// The name under which operators find a channel.
pub(crate) fn name(connection: &OpenConnection, number: u16) -> String {
    format!("{} ({number})", connection.facts.name())
}

fn shown(api: &Api, request: &Request, (connection, channel): &Known, wanted: &Wanted) -> Value {
    let name = name(connection, channel.key.channel);
    // A number is opened again and again; each time it counts from nothing.
    let key = format!("channel {name} {}", channel.key.opening);
    let (counters, published) = (&channel.counters, &channel.published);
    let facts = &connection.facts;
    let mut object = json!({
        "name": name,
        "number": channel.key.channel,
        "node": api.broker.node().name,
        "vhost": facts.vhost.to_string(),
        "user": facts.user.to_string(),
        "user_who_performed_action": facts.user.to_string(),
        "state": "running",
        "consumer_count": channel.consumers.len(),
        "confirm": channel.is_confirming,
        "transactional": channel.is_transactional,
        "prefetch_count": channel.prefetch,
        "global_prefetch_count": channel.shared_prefetch,
        "messages_unacknowledged": channel.unacked,
        "messages_unconfirmed": channel.unconfirmed,
        "messages_uncommitted": channel.uncommitted,
        "acks_uncommitted": channel.acks_uncommitted,
        "cached_segments": 0,
        "pending_raft_commands": 0,
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "garbage_collection": garbage_collection(),
        "connection_details": connections::details(connection),
    });
    if api.has_message_stats() && wanted.has("message_stats") {
        object["message_stats"] = message_stats(api, request, &key, counters, published);
    }
    object
}
