//! `/queues`.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use leveret_core::{
    arguments::QueueType,
    ids::{ConnectionId, QueueId, Timestamp},
    queue::{Counters, Report},
    refusal::ObjectKind,
    rights::Right,
    vhost::QueueDeclare,
};
use leveret_runtime::{QueueHandle, TrafficCounts, VhostHandle};
use leveret_wire::value::ShortString;
use serde_json::{Map, Value, json};

use crate::{
    error::Refused,
    lists::{self, Wanted},
    reply::Reply,
    request::{self, Request, boolean},
    resource::{bindings, consumers, entered, entered_if_there, entered_of},
    server::Api,
    values::{table_from_json, table_to_json},
    visitor::Visitor,
};

/// Nobody's connection: what is exclusive to one is not for the API.
pub(crate) const NO_CONNECTION: ConnectionId = ConnectionId::new(0);

/// Who has a queue for itself.
const EXCLUSIVE_TAG: &str = "exclusive_consumer_tag";
const SINGLE_ACTIVE_TAG: &str = "single_active_consumer_tag";

/// Without a command for so long a queue counts as idle.
const IDLE_MILLIS: u64 = 5000;

pub(crate) async fn answer(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    path: &[&str],
) -> Result<Reply, Refused> {
    match (request.method.as_str(), path) {
        ("GET", [] | [_]) => {
            let is_detailed = path == ["detailed"];
            let path = if is_detailed { &[] } else { path };
            let mut handles = Vec::new();
            for vhost in entered_of(api, visitor, path)? {
                handles.extend(all(api, &vhost));
            }
            let show =
                |handle: &Arc<QueueHandle>, wanted: &Wanted| shown(api, request, handle, wanted);
            let selected = lists::select(request, handles, show).await?;
            let marked = marked(api, request, &selected.items).await;
            let reply = selected.shown(request, |handle, wanted| {
                let mut object = show(handle, wanted);
                if let Some(of_queue) = marked.get(&handle.record().id)
                    && let Value::Object(object) = &mut object
                {
                    put_marked_tags(handle, of_queue, object);
                }
                object
            });
            Ok(reply.await)
        }
        ("GET", [vhost, queue]) => {
            let vhost = entered(api, visitor, vhost)?;
            let (_, handle) = found(api, &vhost, queue)?;
            let mut object = shown(api, request, &handle, &Wanted::all());
            if let Value::Object(object) = &mut object {
                details(api, &handle, object).await;
            }
            Ok(lists::one(request, object))
        }
        ("PUT", [vhost, queue]) => put(api, visitor, request, vhost, queue).await,
        ("DELETE", [vhost, queue]) => {
            let (vhost, name, _) = granted(api, visitor, vhost, queue, Right::Configure)?;
            let (unused, empty) = (request.flag("if-unused"), request.flag("if-empty"));
            let deleted = vhost
                .delete_queue(&name, NO_CONNECTION, unused, empty)
                .await?;
            api.broker.tell_cancelled(&deleted.cancelled);
            if visitor.is_of_machine {
                return Ok(Reply::Json(json!({"messages": deleted.ready})));
            }
            Ok(Reply::NoContent)
        }
        ("DELETE", [vhost, queue, "contents"]) => {
            let (vhost, name, _) = granted(api, visitor, vhost, queue, Right::Read)?;
            vhost.purge_queue(&name, NO_CONNECTION).await?;
            Ok(Reply::NoContent)
        }
        ("GET", [vhost, queue, "bindings"]) => {
            let vhost = entered_if_there(api, visitor, vhost)?;
            let name = match &vhost {
                Some(vhost) => found(api, vhost, queue)?.0,
                None => request::name(queue)?,
            };
            let list = bindings::to_queue(vhost.as_deref(), &name);
            Ok(lists::whole(request, list))
        }
        _ => Err(Refused::not_found()),
    }
}

/// The queues of a vhost.
pub(crate) fn all(api: &Api, vhost: &VhostHandle) -> Vec<Arc<QueueHandle>> {
    let snapshot = vhost.snapshot();
    let handles = snapshot.queues().map(|record| api.broker.queue(record.id));
    // One or the other may just have gone.
    handles.flatten().collect()
}

/// `/users/u/queues`: those that the user's connections have for themselves. Who declared another queue is not
/// remembered.
pub(crate) async fn of_user(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    user: &str,
) -> Result<Reply, Refused> {
    let name = request::name(user)?;
    let connections = api.broker.connections().into_iter();
    let theirs = connections.filter(|known| known.facts.user == name);
    let theirs: HashSet<ConnectionId> = theirs.map(|known| known.facts.id).collect();
    let mut list = Vec::new();
    for vhost in super::entered_all(api, visitor) {
        let owner = |handle: &Arc<QueueHandle>| handle.record().exclusive_to;
        let of_vhost = all(api, &vhost).into_iter();
        list.extend(of_vhost.filter(|queue| owner(queue).is_some_and(|id| theirs.contains(&id))));
    }
    lists::paged(request, list, |handle, wanted| {
        shown(api, request, handle, wanted)
    })
    .await
}

/// `/queues/v/q/actions`: those of mirrored queues are gone, in RabbitMQ too.
pub(crate) fn act(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    vhost: &str,
    queue: &str,
) -> Result<Reply, Refused> {
    let vhost = entered(api, visitor, vhost)?;
    found(api, &vhost, queue).map_err(|_| Refused::missing("queue_not_found"))?;
    let object = request.object()?;
    let action = request::text(&object, "action")?;
    Err(Refused::bad_request(json!(["unknown", action])))
}

/// The queue of a path.
pub(crate) fn found(
    api: &Api,
    vhost: &VhostHandle,
    queue: &str,
) -> Result<(ShortString, Arc<QueueHandle>), Refused> {
    let name = request::name(queue)?;
    let snapshot = vhost.snapshot();
    let record = snapshot.queue(&name).map_err(|_| Refused::not_found())?;
    let handle = api.broker.queue(record.id).ok_or_else(Refused::not_found)?;
    Ok((name, handle))
}

/// Vhost and queue of a path, for who has this right on the queue.
pub(crate) fn granted(
    api: &Api,
    visitor: &Visitor,
    vhost: &str,
    queue: &str,
    right: Right,
) -> Result<(Arc<VhostHandle>, ShortString, Arc<QueueHandle>), Refused> {
    let vhost = entered(api, visitor, vhost)?;
    let (name, queue) = found(api, &vhost, queue)?;
    let rights = visitor.rights(&api.broker, vhost.name());
    rights.check(right, ObjectKind::Queue, &name)?;
    Ok((vhost, name, queue))
}

async fn put(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    vhost: &str,
    queue: &str,
) -> Result<Reply, Refused> {
    let vhost = entered(api, visitor, vhost)?;
    let object = request.object()?;
    let name = request::name(queue)?;
    let mut declare = QueueDeclare {
        name: name.clone(),
        server_named: false,
        durable: boolean(&object, "durable")?.unwrap_or(false),
        exclusive: false,
        auto_delete: boolean(&object, "auto_delete")?.unwrap_or(false),
        arguments: table_from_json(&request::nested(&object, "arguments")?)?,
        refused_if_new: None,
    };
    let rights = visitor.rights(&api.broker, vhost.name());
    let is_new = vhost.snapshot().queue(&name).is_err();
    declare.refused_if_new = rights.check_queue_declare(&name, &declare.arguments)?;
    vhost.declare_queue(declare, NO_CONNECTION).await?;
    Ok(Reply::put(is_new))
}

/// A queue as lists show it.
pub(crate) fn shown(api: &Api, request: &Request, handle: &QueueHandle, wanted: &Wanted) -> Value {
    let record = handle.record();
    let mut fields = Map::new();
    fields.insert("name".to_owned(), record.name.to_string().into());
    fields.insert("vhost".to_owned(), record.vhost.to_string().into());
    if wanted.is_within(&["name", "vhost"]) {
        return fields.into();
    }
    if wanted.has("arguments") {
        fields.insert("arguments".to_owned(), table_to_json(&record.arguments));
    }
    let of_record = [
        ("type", record.queue_type.name().into()),
        ("durable", record.durable.into()),
        ("auto_delete", record.auto_delete.into()),
        ("exclusive", record.exclusive_to.is_some().into()),
        ("node", api.broker.node().name.as_str().into()),
        ("state", "running".into()),
        ("internal", false.into()),
        ("internal_owner", false.into()),
    ];
    wanted.put(&mut fields, of_record);
    if wanted.has_any(&["policy", "operator_policy", "effective_policy_definition"]) {
        let policy = handle.policy();
        let (user, operator) = (policy.user, policy.operator);
        let of_policy = [
            ("policy", json!(user.map(|policy| policy.name.clone()))),
            (
                "operator_policy",
                json!(operator.map(|policy| policy.name.clone())),
            ),
            ("effective_policy_definition", json!(policy.definition)),
        ];
        wanted.put(&mut fields, of_policy);
    }
    let report = handle.report();
    of_type(api, &mut fields, handle, &report, wanted);
    let (ready, unacked) = (report.depth.ready, report.depth.unacked);
    let depths = [
        ("messages", ready + unacked),
        ("messages_ready", ready),
        ("messages_unacknowledged", unacked),
    ];
    if request.flag("disable_stats") {
        if request.flag("enable_queue_totals") {
            // RabbitMQ's answer has it for every type here.
            fields.entry("online").or_insert(Value::Null);
            wanted.put(
                &mut fields,
                depths.map(|(name, count)| (name, count.into())),
            );
        }
        return fields.into();
    }
    wanted.put(&mut fields, statistics(api, &report));
    if wanted.has("idle_since") {
        let last_active = report.last_active.get();
        if api.broker.now().get().saturating_sub(last_active) > IDLE_MILLIS {
            let since = crate::values::iso_time(last_active);
            fields.insert("idle_since".to_owned(), since.into());
        }
    }
    let key = format!("queue {}", record.id);
    let has_rates = |name: &str| wanted.has(name) || wanted.has(&format!("{name}_details"));
    if depths.iter().any(|(name, _)| has_rates(name)) {
        api.rates
            .put_with(&mut fields, &key, &depths, request.age("lengths"));
    }
    if api.has_message_stats() && wanted.has("message_stats") {
        let mut message_stats = Map::new();
        api.rates.put_with(
            &mut message_stats,
            &key,
            &of_counters(&report.counters),
            request.age("msg_rates"),
        );
        fields.insert("message_stats".to_owned(), message_stats.into());
    }
    fields.into()
}

/// What is counted of a queue, but for what has a rate.
fn statistics(api: &Api, report: &Report) -> [(&'static str, Value); 22] {
    let unacked = report.depth.unacked;
    let capacity = if report.consumers == 0 {
        json!(0)
    } else {
        json!(1.0)
    };
    [
        ("messages_ready_ram", report.ready_in_memory.into()),
        ("messages_unacknowledged_ram", unacked.into()),
        ("messages_ram", (report.ready_in_memory + unacked).into()),
        ("messages_persistent", report.stored.into()),
        (
            "message_bytes",
            (report.ready_bytes + report.unacked_bytes).into(),
        ),
        ("message_bytes_ready", report.ready_bytes.into()),
        ("message_bytes_unacknowledged", report.unacked_bytes.into()),
        ("message_bytes_ram", report.memory_bytes.into()),
        ("message_bytes_persistent", report.stored_bytes.into()),
        ("consumers", report.consumers.into()),
        ("consumer_utilisation", capacity.clone()),
        ("consumer_capacity", capacity),
        ("memory", report.memory_bytes.into()),
        ("reductions", 0.into()),
        ("reductions_details", json!({"rate": 0.0})),
        ("head_message_timestamp", report.head_timestamp_secs.into()),
        ("head_message_age", age(api, report.oldest_ready)),
        (
            "unacknowledged_message_age",
            age(api, report.oldest_unacked),
        ),
        (EXCLUSIVE_TAG, Value::Null),
        (SINGLE_ACTIVE_TAG, Value::Null),
        ("garbage_collection", garbage_collection()),
        ("storage_version", 2.into()),
    ]
}

/// What only queues of one type show.
fn of_type(
    api: &Api,
    fields: &mut Map<String, Value>,
    handle: &QueueHandle,
    report: &Report,
    wanted: &Wanted,
) {
    let node = &api.broker.node().name;
    let of_members = |fields: &mut Map<String, Value>| {
        let nodes = json!([node]);
        let members = [
            ("leader", node.as_str().into()),
            ("members", nodes.clone()),
            ("online", nodes),
        ];
        wanted.put(fields, members);
    };
    match QueueType::of(&handle.record().arguments) {
        QueueType::Classic => {}
        QueueType::Quorum => {
            of_members(fields);
            // What RabbitMQ has for none.
            let limit = match report.delivery_limit {
                Some(limit) => json!(limit),
                None => json!(-1),
            };
            let retries = match report.retrying {
                0 => "disabled",
                _ => "enabled",
            };
            let of_quorum = [
                ("delivery_limit", limit),
                ("delayed_retry", retries.into()),
                ("messages_delayed", report.retrying.into()),
                ("messages_dlx", report.dying.into()),
                ("message_bytes_dlx", report.dying_bytes.into()),
                ("messages_ready_returned", report.returned.into()),
                ("publishers", 0.into()),
                ("open_files", json!({node: 0})),
            ];
            wanted.put(fields, of_quorum);
            if wanted.has_any(&["messages_active_priorities", "messages_by_priority"]) {
                let priorities = handle.ready_by_priority();
                let by_priority: Map<String, Value> = priorities
                    .iter()
                    .map(|(priority, messages)| (priority.to_string(), (*messages).into()))
                    .collect();
                let of_priorities = [
                    ("messages_active_priorities", priorities.len().into()),
                    ("messages_by_priority", by_priority.into()),
                ];
                wanted.put(fields, of_priorities);
            }
        }
        QueueType::Stream => {
            of_members(fields);
            let first = report.oldest_ready.map_or(0, Timestamp::get);
            let of_stream = [
                ("readers", json!({node: report.consumers})),
                ("segments", report.segments.max(1).into()),
                ("first_timestamp", first.into()),
            ];
            wanted.put(fields, of_stream);
        }
    }
}

/// Consumers of those queues that one of them has for itself, where this is to be shown.
async fn marked(
    api: &Api,
    request: &Request,
    queues: &[Arc<QueueHandle>],
) -> HashMap<QueueId, Vec<Value>> {
    let is_shown = Wanted::of(request).has_any(&[EXCLUSIVE_TAG, SINGLE_ACTIVE_TAG]);
    if !is_shown || request.flag("disable_stats") {
        return HashMap::new();
    }
    let is_marked = |handle: &&Arc<QueueHandle>| {
        let mut of_queue = handle.consumers().into_iter();
        let is_single = consumers::has_single_active(handle);
        of_queue.any(|consumer| is_single || consumer.settings.exclusive)
    };
    let marked: Vec<_> = queues.iter().filter(is_marked).collect();
    consumers::of_queues(api, &marked).await
}

/// The tags of a consumer that has the queue for itself.
fn put_marked_tags(handle: &QueueHandle, of_queue: &[Value], object: &mut Map<String, Value>) {
    if let [only] = of_queue
        && only["exclusive"] == true
    {
        object.insert(EXCLUSIVE_TAG.to_owned(), only["consumer_tag"].clone());
    }
    if consumers::has_single_active(handle) {
        let active = of_queue.iter().find(|consumer| consumer["active"] == true);
        let tag = active.map(|consumer| consumer["consumer_tag"].clone());
        object.insert(SINGLE_ACTIVE_TAG.to_owned(), tag.unwrap_or_default());
    }
}

/// What only one queue alone shows.
async fn details(api: &Api, handle: &Arc<QueueHandle>, object: &mut Map<String, Value>) {
    let of_queue = consumers::of_queue(api, handle).await;
    put_marked_tags(handle, &of_queue, object);
    object.insert("consumer_details".to_owned(), of_queue.into());
    object.insert("incoming".to_owned(), json!([]));
    object.insert("deliveries".to_owned(), json!([]));
    if let Some(owner) = handle.record().exclusive_to {
        let connections = api.broker.connections();
        let owner = connections.iter().find(|known| known.facts.id == owner);
        if let Some(owner) = owner {
            let peer = &owner.facts.peer;
            let details = json!({
                "name": owner.facts.name(),
                "peer_host": peer.ip().to_string(),
                "peer_port": peer.port(),
            });
            object.insert("owner_pid_details".to_owned(), details);
        }
    }
}

/// Milliseconds since something came; null when nothing is there, or it is not known.
fn age(api: &Api, came: Option<Timestamp>) -> Value {
    let now = api.broker.now().get();
    came.map_or(Value::Null, |came| now.saturating_sub(came.get()).into())
}

/// What tools read of a process that is none here.
pub(crate) fn garbage_collection() -> Value {
    json!({
        "fullsweep_after": 0,
        "max_heap_size": 0,
        "min_bin_vheap_size": 0,
        "min_heap_size": 0,
        "minor_gcs": 0,
    })
}

/// RabbitMQ's names of the counters.
pub(crate) fn of_counters(counters: &Counters) -> [(&'static str, u64); 9] {
    [
        ("publish", counters.publish),
        ("deliver", counters.deliver),
        ("deliver_no_ack", counters.deliver_no_ack),
        (
            "deliver_get",
            counters.deliver + counters.deliver_no_ack + counters.get + counters.get_no_ack,
        ),
        ("get", counters.get),
        ("get_no_ack", counters.get_no_ack),
        ("get_empty", counters.get_empty),
        ("redeliver", counters.redeliver),
        ("ack", counters.ack),
    ]
}

/// What went through, published and delivered, each with its rate.
pub(crate) fn message_stats(
    api: &Api,
    request: &Request,
    key: &str,
    counters: &Counters,
    published: &TrafficCounts,
) -> Value {
    let mut stats = Map::new();
    let age = request.age("msg_rates");
    // The first is that of publishes, which counts once per queue.
    api.rates
        .put_with(&mut stats, key, &of_counters(counters)[1..], age);
    // A publish counts once here, wherever it went.
    api.rates.put_with(
        &mut stats,
        key,
        &[
            ("publish", published.publish),
            ("confirm", published.confirm),
            ("drop_unroutable", published.drop_unroutable),
            ("return_unroutable", published.return_unroutable),
        ],
        age,
    );
    stats.into()
}

/// Sums over queues.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) queues: u64,
    pub(crate) consumers: u64,
    pub(crate) ready: u64,
    pub(crate) unacked: u64,
    pub(crate) counters: Counters,
    /// What no single queue sees.
    pub(crate) traffic: TrafficCounts,
}

impl Totals {
    pub(crate) fn add(&mut self, other: &Self) {
        self.queues += other.queues;
        self.consumers += other.consumers;
        self.ready += other.ready;
        self.unacked += other.unacked;
        self.counters.add(&other.counters);
        self.traffic.add(&other.traffic);
    }

    pub(crate) const fn depths(&self) -> [(&'static str, u64); 3] {
        [
            ("messages", self.ready + self.unacked),
            ("messages_ready", self.ready),
            ("messages_unacknowledged", self.unacked),
        ]
    }

    pub(crate) fn put_into(
        &self,
        api: &Api,
        request: &Request,
        key: &str,
        object: &mut Map<String, Value>,
    ) {
        api.rates
            .put_with(object, key, &self.depths(), request.age("lengths"));
        if api.has_message_stats() {
            object.insert(
                "message_stats".to_owned(),
                self.message_stats(api, request, key),
            );
        }
    }

    pub(crate) fn message_stats(&self, api: &Api, request: &Request, key: &str) -> Value {
        message_stats(api, request, key, &self.counters, &self.traffic)
    }
}

/// The sums of one vhost.
pub(crate) fn total(api: &Api, vhost: &VhostHandle) -> Totals {
    let mut totals = Totals {
        traffic: vhost.traffic().counts(),
        ..Totals::default()
    };
    for queue in all(api, vhost) {
        let report = queue.report();
        totals.add(&Totals {
            queues: 1,
            consumers: report.consumers as u64,
            ready: report.depth.ready,
            unacked: report.depth.unacked,
            counters: report.counters,
            ..Totals::default()
        });
    }
    totals
}
