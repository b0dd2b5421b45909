//! `/consumers`: queues know how a consumer wants its messages, connections know its tag.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use leveret_core::{
    arguments::QueueType,
    ids::{ConnectionId, ConsumerId, QueueId},
};
use leveret_runtime::{ConsumerState, OpenConnection, QueueHandle};
use leveret_wire::value::FieldValue;
use serde_json::{Value, json};

use crate::{
    error::Refused,
    lists::{self, Turns},
    reply::Reply,
    request::Request,
    resource::{channels, connections, entered, queues},
    server::Api,
    values::table_to_json,
    visitor::{Needs, Visitor},
};

pub(crate) async fn answer(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    path: &[&str],
) -> Result<Reply, Refused> {
    if request.flag("disable_stats") {
        return Err(Refused::without_stats());
    }
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

/// `/x/consumers/CONNECTION/CHANNEL/TAG`: cancels it. Own ones are for everybody, others for administrators.
pub(crate) async fn cancel(
    api: &Api,
    visitor: &Visitor,
    connection: &str,
    channel: &str,
    tag: &str,
) -> Result<Reply, Refused> {
    let mut open = api.broker.connections();
    open.retain(|known| known.facts.name() == connection);
    let owner = open.first().ok_or_else(Refused::not_found)?;
    if owner.facts.user != visitor.name {
        visitor.check(Needs::Administrator)?;
    }
    let known = known(open).await;
    let mut known = known.into_values();
    let wanted = known
        .find(|(_, state)| state.tag == *tag && state.id.channel.channel.to_string() == channel);
    let (connection, state) = wanted.ok_or_else(Refused::not_found)?;
    let vhost = api.broker.vhost(&connection.facts.vhost);
    let vhost = vhost.map_err(|_| Refused::not_found())?;
    let mut queues = queues::all(api, &vhost).into_iter();
    let of_consumer =
        queues.find(|queue| queue.consumers().iter().any(|known| known.id == state.id));
    let queue = of_consumer.ok_or_else(Refused::not_found)?;
    api.broker.cancel_consumer(&queue, state.id);
    Ok(Reply::NoContent)
}

/// The consumers of these connections.
pub(crate) async fn all(api: &Api, connections: Vec<OpenConnection>) -> Vec<Value> {
    let known = known(connections).await;
    let (mut list, mut turns) = (Vec::new(), Turns::default());
    for vhost in api.broker.vhosts() {
        for queue in queues::all(api, &vhost) {
            list.extend(on_queue(api, &queue, &known));
            turns.done().await;
        }
    }
    list
}

/// The consumers of one queue, whoever has them.
pub(crate) async fn of_queue(api: &Api, queue: &Arc<QueueHandle>) -> Vec<Value> {
    let mut of_queues = of_queues(api, &[queue]).await.into_values();
    of_queues.next().unwrap_or_default()
}

/// The same of several queues; each connection is asked once.
pub(crate) async fn of_queues(
    api: &Api,
    queues: &[&Arc<QueueHandle>],
) -> HashMap<QueueId, Vec<Value>> {
    let consumers = queues.iter().flat_map(|queue| queue.consumers());
    let owners: HashSet<ConnectionId> = consumers
        .map(|consumer| consumer.id.channel.connection)
        .collect();
    let mut connections = Vec::new();
    if !owners.is_empty() {
        connections = api.broker.connections();
        connections.retain(|known| owners.contains(&known.facts.id));
    }
    let known = known(connections).await;
    queues
        .iter()
        .map(|queue| (queue.record().id, on_queue(api, queue, &known)))
        .collect()
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

/// Whether only one consumer of the queue is served at a time.
pub(crate) fn has_single_active(queue: &QueueHandle) -> bool {
    let setting = queue.record().arguments.get(b"x-single-active-consumer");
    setting.and_then(FieldValue::as_bool) == Some(true)
}

fn on_queue(api: &Api, queue: &QueueHandle, known: &Known) -> Vec<Value> {
    let record = queue.record();
    let is_single = has_single_active(queue);
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
            "activity_status": match (consumer.is_active, consumer.has_credit) {
                (false, _) => "waiting",
                (true, _) if is_single => "single_active",
                // Those of other types are never told to be.
                (true, false) if queue.queue_type() == QueueType::Classic => "blocked",
                (true, _) => "up",
            },
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
