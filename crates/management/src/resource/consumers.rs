//! `/consumers`: queues know how a consumer wants its messages, connections know its tag.

use std::collections::HashMap;

use leveret_core::ids::ConsumerId;
use leveret_runtime::{ConsumerState, OpenConnection, QueueHandle};
use serde_json::{Value, json};

use crate::{
    error::Refused,
    lists,
    reply::Reply,
    request::Request,
    resource::{channels, connections, entered},
    server::Api,
    values::table_to_json,
    visitor::Visitor,
};

pub(crate) async fn answer(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    path: &[&str],
) -> Result<Reply, Refused> {
    let mut visible = connections::visible(api, visitor);
    match path {
        [] => {}
        [vhost] => {
            let vhost = entered(api, visitor, vhost)?;
            visible.retain(|known| known.facts.vhost == *vhost.name());
        }
        _ => return Err(Refused::not_found()),
    }
    Ok(lists::whole(request, all(api, visible).await))
}

/// The consumers of these connections.
pub(crate) async fn all(api: &Api, connections: Vec<OpenConnection>) -> Vec<Value> {
    let known = known(connections).await;
    let mut list = Vec::new();
    for vhost in api.broker.vhosts() {
        for record in vhost.snapshot().queues() {
            if let Some(queue) = api.broker.queue(record.id) {
                list.extend(on_queue(api, &queue, &known));
            }
        }
    }
    list
}

/// The consumers of one queue, whoever has them.
pub(crate) async fn of_queue(api: &Api, queue: &QueueHandle) -> Vec<Value> {
    let mut connections = api.broker.connections();
    let consumers = queue.consumers();
    connections.retain(|known| {
        let mut ids = consumers.iter().map(|consumer| consumer.id);
        ids.any(|id| id.channel.connection == known.facts.id)
    });
    on_queue(api, queue, &known(connections).await)
}

type Known = HashMap<ConsumerId, (OpenConnection, ConsumerState)>;

async fn known(connections: Vec<OpenConnection>) -> Known {
    let mut known = Known::new();
    for (connection, state) in connections::inspected(connections).await {
        for channel in state.unwrap_or_default().channels {
            for consumer in channel.consumers {
                known.insert(consumer.id, (connection.clone(), consumer));
            }
        }
    }
    known
}

fn on_queue(api: &Api, queue: &QueueHandle, known: &Known) -> Vec<Value> {
    let record = queue.record();
    let shown = |consumer: leveret_core::queue::ConsumerReport| {
        let (connection, state) = known.get(&consumer.id)?;
        let facts = &connection.facts;
        let number = consumer.id.channel.channel;
        Some(json!({
            "consumer_tag": state.tag.to_string(),
            "queue": {"name": record.name.to_string(), "vhost": record.vhost.to_string()},
            "ack_required": !consumer.settings.no_ack,
            "exclusive": consumer.settings.exclusive,
            "prefetch_count": consumer.settings.prefetch,
            "active": consumer.is_active,
            "activity_status": if consumer.is_active { "up" } else { "waiting" },
            "arguments": table_to_json(&state.arguments),
            "consumer_timeout": api.broker.consumer_timeout_millis(),
            "channel_details": {
                "connection_name": facts.name(),
                "name": channels::name(connection, number),
                "node": api.broker.node().name,
                "number": number,
                "peer_host": facts.peer.ip().to_string(),
                "peer_port": facts.peer.port(),
                "user": facts.user.to_string(),
            },
        }))
    };
    queue.consumers().into_iter().filter_map(shown).collect()
}
