//! Metrics for Prometheus: sums of the node, or one series per object.

mod connections;
mod detailed;
mod protocol;

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header},
};
use leveret_core::{ids::Timestamp, queue::Report};
use leveret_runtime::QueueHandle;
use std::sync::Arc;

use self::connections::Live;
use crate::{
    metrics_text::{
        Kind::{self, Counter, Gauge, Untyped},
        Page,
    },
    node::Node,
    resource::{
        logins,
        memory::Breakdown,
        node::{self, Process},
    },
    server::Api,
};

/// What a metric of messages is told by.
const PROTOCOL: (&str, &str) = ("protocol", "amqp091");

/// Every queue with what it tells.
type Queues = [(Arc<QueueHandle>, Report)];

/// What is told of every queue: name, help, value.
type OfQueue = (&'static str, &'static str, fn(&Report) -> u64);

const GAUGES: [OfQueue; 16] = [
    (
        "messages",
        "Sum of ready and unacknowledged messages",
        |report| report.depth.ready + report.depth.unacked,
    ),
    (
        "messages_ready",
        "Messages ready to be delivered",
        |report| report.depth.ready,
    ),
    (
        "messages_unacked",
        "Messages delivered but not yet acknowledged",
        |report| report.depth.unacked,
    ),
    ("consumers", "Consumers on a queue", |report| {
        report.consumers as u64
    }),
    (
        "consumer_capacity",
        "1 if messages go out at once",
        |report| u64::from(report.consumers > 0),
    ),
    (
        "consumer_utilisation",
        "1 if messages go out at once",
        |report| u64::from(report.consumers > 0),
    ),
    ("messages_ram", "Messages in memory", |report| {
        report.ready_in_memory + report.depth.unacked
    }),
    ("messages_ready_ram", "Ready messages in memory", |report| {
        report.ready_in_memory
    }),
    (
        "messages_unacked_ram",
        "Unacknowledged messages in memory",
        |report| report.depth.unacked,
    ),
    (
        "messages_ram_bytes",
        "Size in bytes of messages in memory",
        |report| report.memory_bytes,
    ),
    (
        "messages_bytes",
        "Size in bytes of ready and unacknowledged messages",
        |report| report.ready_bytes + report.unacked_bytes,
    ),
    (
        "messages_ready_bytes",
        "Size in bytes of ready messages",
        |report| report.ready_bytes,
    ),
    (
        "messages_unacked_bytes",
        "Size in bytes of unacknowledged messages",
        |report| report.unacked_bytes,
    ),
    ("messages_persistent", "Persistent messages", |report| {
        report.stored
    }),
    (
        "messages_persistent_bytes",
        "Size in bytes of persistent messages",
        |report| report.stored_bytes,
    ),
    (
        "process_memory_bytes",
        "Memory in bytes used by the messages of the queue",
        |report| report.memory_bytes,
    ),
];

const COUNTERS: [OfQueue; 8] = [
    (
        "messages_published_total",
        "Messages published to a queue",
        |report| report.counters.publish,
    ),
    (
        "messages_delivered_ack_total",
        "Messages delivered in manual acknowledgement mode",
        |report| report.counters.deliver,
    ),
    (
        "messages_delivered_total",
        "Messages delivered in automatic acknowledgement mode",
        |report| report.counters.deliver_no_ack,
    ),
    (
        "get_ack_total",
        "Messages fetched in manual acknowledgement mode",
        |report| report.counters.get,
    ),
    (
        "get_total",
        "Messages fetched in automatic acknowledgement mode",
        |report| report.counters.get_no_ack,
    ),
    (
        "get_empty_total",
        "Fetches that found no message",
        |report| report.counters.get_empty,
    ),
    (
        "messages_redelivered_total",
        "Messages redelivered",
        |report| report.counters.redeliver,
    ),
    ("messages_acked_total", "Messages acknowledged", |report| {
        report.counters.ack
    }),
];

pub(crate) async fn answer(
    node: &Node,
    api: &Api,
    path: &str,
    query: Option<&str>,
) -> Response<Body> {
    let place = api.settings.metrics_path.trim_end_matches('/');
    let text = match path.trim_end_matches('/').strip_prefix(place) {
        Some("") if !api.settings.metrics_per_object => page(api, None),
        Some("" | "/per-object") => page(api, Some((node, Live::asked(api).await))),
        Some("/detailed") => detailed::page(node, api, query.unwrap_or_default()).await,
        Some("/memory-breakdown") => memory(api),
        Some(_) | None => {
            let mut response = Response::new(Body::from("Not Found"));
            *response.status_mut() = StatusCode::NOT_FOUND;
            return response;
        }
    };
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; version=0.0.4"),
    );
    response
}

/// Every queue with what it tells.
fn queues(api: &Api) -> Vec<(Arc<QueueHandle>, Report)> {
    let mut list = Vec::new();
    for vhost in api.broker.vhosts() {
        for record in vhost.snapshot().queues() {
            if let Some(queue) = api.broker.queue(record.id) {
                let report = queue.report();
                list.push((queue, report));
            }
        }
    }
    list
}

/// Sums, or the series of every object.
fn page(api: &Api, objects: Option<(&Node, Live)>) -> String {
    let per_object = objects.is_some();
    let mut page = Page::default();
    let queues = queues(api);
    let endpoint = if per_object {
        "per-object"
    } else {
        "aggregated"
    };
    identity(api, &mut page, endpoint);
    of_queues(
        &mut page,
        "rabbitmq_queue_",
        &queues,
        &GAUGES,
        Gauge,
        per_object,
    );
    of_queues(
        &mut page,
        "rabbitmq_queue_",
        &queues,
        &COUNTERS,
        Counter,
        per_object,
    );
    if let Some((node, live)) = &objects {
        of_each_queue(api, &mut page, "rabbitmq_", &queues);
        for family in connections::FAMILIES {
            live.put(node, &mut page, "rabbitmq_", family, &|_| true);
        }
    } else {
        of_all_channels(api, &mut page, &queues);
    }
    churn(api, &mut page, "rabbitmq_");
    totals(api, &mut page, &queues);
    auth_attempts(api, &mut page, "rabbitmq_");
    protocol::messages(api, &mut page, &queues);
    protocol::deaths(api, &mut page);
    protocol::sizes(api, &mut page);
    protocol::exchanges(api, &mut page, "rabbitmq_", per_object, &|_| true);
    resources(api, &mut page, "rabbitmq_");
    alarms(api, &mut page);
    page.into_text()
}

fn identity(api: &Api, page: &mut Page, endpoint: &str) {
    let node = &api.broker.node().name;
    let cluster = node::cluster_name(api);
    let id = format!("rabbitmq-cluster-id-{node}");
    page.family(
        "rabbitmq_identity_info",
        Untyped,
        "RabbitMQ node & cluster identity info",
    );
    page.series(
        "rabbitmq_identity_info",
        &[
            ("rabbitmq_node", node),
            ("rabbitmq_cluster", &cluster),
            ("rabbitmq_cluster_permanent_id", &id),
            ("rabbitmq_endpoint", endpoint),
        ],
        1,
    );
    page.family(
        "rabbitmq_build_info",
        Untyped,
        "RabbitMQ & Erlang/OTP version info",
    );
    page.series(
        "rabbitmq_build_info",
        &[
            ("rabbitmq_version", &api.facts.version),
            ("prometheus_plugin_version", &api.facts.version),
            ("prometheus_client_version", env!("CARGO_PKG_VERSION")),
            ("erlang_version", node::ERLANG_VERSION),
        ],
        1,
    );
}

fn of_queues(
    page: &mut Page,
    prefix: &str,
    queues: &Queues,
    families: &[OfQueue],
    kind: Kind,
    per_object: bool,
) {
    for (name, help, value) in families {
        let name = format!("{prefix}{name}");
        page.family(&name, kind, help);
        if !per_object {
            let sum = queues.iter().map(|(_, report)| value(report)).sum();
            page.series(&name, &[], sum);
            continue;
        }
        for (queue, report) in queues {
            let record = queue.record();
            let (vhost, queue) = (record.vhost.to_string(), record.name.to_string());
            let labels = [("vhost", vhost.as_str()), ("queue", queue.as_str())];
            page.series(&name, &labels, value(report));
        }
    }
}

/// What no sum can be told of.
fn of_each_queue(api: &Api, page: &mut Page, prefix: &str, queues: &Queues) {
    let now = api.broker.now().get();
    let age = |came: Option<Timestamp>| came.map(|came| now.saturating_sub(came.get()) / 1000);
    let ages = |report: &Report| (age(report.oldest_ready), age(report.oldest_unacked));
    type OfQueue<'a> = &'a dyn Fn(&Report) -> Option<u64>;
    let families: [(String, &str, OfQueue<'_>); 3] = [
        (
            format!("{prefix}queue_head_message_timestamp"),
            "Timestamp of the first message in the queue, if any",
            &|report| report.head_timestamp_secs,
        ),
        (
            format!("{prefix}queue_head_message_age_seconds"),
            "How long the oldest ready message has been in the queue",
            &|report| ages(report).0,
        ),
        (
            format!("{prefix}queue_unacked_message_age_seconds"),
            "How long the oldest unacknowledged message has been in the queue",
            &|report| ages(report).1,
        ),
    ];
    for (name, help, value) in families {
        page.family(&name, Gauge, help);
        for (queue, report) in queues {
            let record = queue.record();
            let (vhost, queue) = (record.vhost.to_string(), record.name.to_string());
            let labels = [("vhost", vhost.as_str()), ("queue", queue.as_str())];
            page.series_or_nan(&name, &labels, value(report));
        }
    }
    let name = format!("{prefix}queue_info");
    page.family(
        &name,
        Gauge,
        "A metric with a constant '1' value, with the type of each queue",
    );
    for (queue, _) in queues {
        let record = queue.record();
        let (vhost, queue) = (record.vhost.to_string(), record.name.to_string());
        let labels = [
            ("vhost", vhost.as_str()),
            ("queue", queue.as_str()),
            ("queue_type", protocol::type_name(record)),
            ("membership", "leader"),
        ];
        page.series(&name, &labels, 1);
    }
}

/// Sums over channels, as far as they need not be asked.
fn of_all_channels(api: &Api, page: &mut Page, queues: &Queues) {
    let unacked = queues.iter().map(|(_, report)| report.depth.unacked);
    let consumers = queues.iter().map(|(_, report)| report.consumers as u64);
    for (name, help, value) in [
        (
            "channel_consumers",
            "Consumers on channels",
            consumers.sum(),
        ),
        (
            "channel_messages_unacked",
            "Messages delivered but not yet acknowledged",
            unacked.sum(),
        ),
        (
            "connection_channels",
            "Channels on connections",
            api.broker.connection_counts().1,
        ),
    ] {
        page.single(&format!("rabbitmq_{name}"), Gauge, help, value);
    }
}

/// What came and went.
fn churn(api: &Api, page: &mut Page, prefix: &str) {
    let churn = api.broker.churn();
    let queues = api.broker.queue_churn();
    for (name, help, value) in [
        (
            "connections_opened_total",
            "Connections opened",
            churn.connections_created,
        ),
        (
            "connections_closed_total",
            "Connections closed or lost",
            churn.connections_closed,
        ),
        (
            "channels_opened_total",
            "Channels opened",
            churn.channels_created,
        ),
        (
            "channels_closed_total",
            "Channels closed",
            churn.channels_closed,
        ),
        ("queues_declared_total", "Queues declared", queues.declared),
        ("queues_created_total", "Queues created", queues.created),
        ("queues_deleted_total", "Queues deleted", queues.deleted),
    ] {
        page.single(&format!("{prefix}{name}"), Counter, help, value);
    }
}

/// What there is.
fn totals(api: &Api, page: &mut Page, queues: &Queues) {
    let (connections, channels) = api.broker.connection_counts();
    let consumers = queues.iter().map(|(_, report)| report.consumers as u64);
    for (name, help, value) in [
        ("connections", "Connections currently open", connections),
        ("channels", "Channels currently open", channels),
        (
            "consumers",
            "Consumers currently connected",
            consumers.sum(),
        ),
        ("queues", "Queues available", queues.len() as u64),
        // A name of earlier versions, which old dashboards read.
        ("process_open_tcp_sockets", "Open TCP sockets", connections),
    ] {
        page.single(&format!("rabbitmq_{name}"), Gauge, help, value);
    }
}

fn auth_attempts(api: &Api, page: &mut Page, prefix: &str) {
    type Value = fn(u64, u64) -> u64;
    let families: [(&str, &str, Value); 3] = [
        (
            "auth_attempts_total",
            "Logins tried",
            |succeeded, failed| succeeded + failed,
        ),
        (
            "auth_attempts_succeeded_total",
            "Logins that were let in",
            |succeeded, _| succeeded,
        ),
        (
            "auth_attempts_failed_total",
            "Logins that were refused",
            |_, failed| failed,
        ),
    ];
    for (name, help, value) in families {
        let name = format!("{prefix}{name}");
        page.family(&name, Counter, help);
        for (protocol, succeeded, failed) in logins::of_protocols(api) {
            page.series(&name, &[("protocol", protocol)], value(succeeded, failed));
        }
    }
}

fn resources(api: &Api, page: &mut Page, prefix: &str) {
    let process = Process::measured();
    let gauges = api.broker.gauges();
    for (name, help, value) in [
        (
            "process_resident_memory_bytes",
            "Memory used in bytes",
            gauges.memory_used,
        ),
        (
            "resident_memory_limit_bytes",
            "Memory high watermark in bytes",
            gauges.memory_limit,
        ),
        (
            "disk_space_available_bytes",
            "Disk space available in bytes",
            gauges.disk_free,
        ),
        (
            "disk_space_available_limit_bytes",
            "Free disk space low watermark in bytes",
            gauges.disk_free_limit,
        ),
        ("process_open_fds", "Open file descriptors", process.fd_used),
        (
            "process_max_fds",
            "Open file descriptors limit",
            process.fd_total,
        ),
        (
            "process_max_tcp_sockets",
            "Open TCP sockets limit",
            process.fd_total,
        ),
        (
            "erlang_uptime_seconds",
            "Node uptime",
            api.started.elapsed().as_secs(),
        ),
    ] {
        page.single(&format!("{prefix}{name}"), Gauge, help, value);
    }
}

fn alarms(api: &Api, page: &mut Page) {
    let alarm = api.broker.alarm();
    for (name, is_on) in [
        ("memory_used_watermark", alarm.memory),
        ("free_disk_space_watermark", alarm.disk),
        ("file_descriptor_limit", false),
    ] {
        let name = format!("rabbitmq_alarms_{name}");
        page.single(
            &name,
            Untyped,
            "is 1 if the alarm is in effect",
            is_on.into(),
        );
    }
    page.single(
        "rabbitmq_unreachable_cluster_peers_count",
        Gauge,
        "Nodes that this one cannot reach",
        0,
    );
}

/// What the memory of the process is for.
fn memory(api: &Api) -> String {
    let mut page = Page::default();
    identity(api, &mut page, "memory-breakdown");
    let breakdown = Breakdown::measured(api);
    for (category, bytes) in breakdown.categories() {
        let name = match category {
            "queue_procs" => "classic_queue_erlang_process",
            "quorum_queue_procs" => "quorum_queue_erlang_process",
            "stream_queue_procs" => "stream_erlang_process",
            "other_system" => "other_system",
            "reserved_unallocated" => "runtime_reserved_unallocated",
            // The others are of the Erlang machine.
            _ => continue,
        };
        let name = format!("rabbitmq_memory_{name}_bytes");
        page.single(&name, Gauge, "Memory in use", bytes);
    }
    page.into_text()
}
