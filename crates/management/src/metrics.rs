//! Metrics for Prometheus: sums of the node, or one series per object.

mod connections;
mod detailed;
mod protocol;

use axum::{
    body::Body,
    http::{HeaderValue, Method, Response, StatusCode, Uri, header},
};
use leveret_core::{arguments::QueueType, ids::Timestamp, queue::Report};
use leveret_runtime::QueueHandle;
use std::sync::Arc;
use tokio::task::yield_now;

use self::connections::Live;
use crate::{
    error::Refused,
    metrics_text::{
        Kind::{self, Counter, Gauge, Untyped},
        Page,
    },
    node::Node,
    reply::{self, Sent},
    resource::{
        disk::Disk,
        logins,
        memory::Breakdown,
        node::{self, Process},
    },
    routes,
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
        "Sum of ready and unacknowledged messages - total queue depth",
        |report| report.depth.ready + report.depth.unacked,
    ),
    (
        "messages_ready",
        "Messages ready to be delivered to consumers",
        |report| report.depth.ready,
    ),
    (
        "messages_unacked",
        "Messages delivered to consumers but not yet acknowledged",
        |report| report.depth.unacked,
    ),
    ("consumers", "Consumers on a queue", |report| {
        report.consumers as u64
    }),
    ("consumer_capacity", "Consumer capacity", |report| {
        u64::from(report.consumers > 0)
    }),
    (
        "consumer_utilisation",
        "Same as consumer capacity",
        |report| u64::from(report.consumers > 0),
    ),
    (
        "messages_ram",
        "Ready and unacknowledged messages stored in memory",
        |report| report.ready_in_memory + report.depth.unacked,
    ),
    (
        "messages_ready_ram",
        "Ready messages stored in memory",
        |report| report.ready_in_memory,
    ),
    (
        "messages_unacked_ram",
        "Unacknowledged messages stored in memory",
        |report| report.depth.unacked,
    ),
    (
        "messages_ram_bytes",
        "Size of ready and unacknowledged messages stored in memory",
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
        "Size in bytes of all unacknowledged messages",
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
        "Memory in bytes used by the Erlang queue process",
        |report| report.memory_bytes,
    ),
];

const COUNTERS: [OfQueue; 8] = [
    (
        "messages_published_total",
        "Total number of messages published into a queue through an exchange on a channel",
        |report| report.counters.publish,
    ),
    (
        "messages_delivered_ack_total",
        "Total number of messages delivered from a queue to consumers in manual acknowledgement mode",
        |report| report.counters.deliver,
    ),
    (
        "messages_delivered_total",
        "Total number of messages delivered from a queue to consumers in automatic acknowledgement mode",
        |report| report.counters.deliver_no_ack,
    ),
    (
        "get_ack_total",
        "Total number of messages fetched from a queue with basic.get in manual acknowledgement mode",
        |report| report.counters.get,
    ),
    (
        "get_total",
        "Total number of messages fetched from a queue with basic.get in automatic acknowledgement mode",
        |report| report.counters.get_no_ack,
    ),
    (
        "get_empty_total",
        "Total number of times basic.get operations fetched no message on a queue",
        |report| report.counters.get_empty,
    ),
    (
        "messages_redelivered_total",
        "Total number of messages redelivered from a queue to consumers",
        |report| report.counters.redeliver,
    ),
    (
        "messages_acked_total",
        "Total number of messages acknowledged by consumers on a queue",
        |report| report.counters.ack,
    ),
];

/// What the store did for every queue.
const OF_DISK: [OfQueue; 2] = [
    (
        "disk_reads_total",
        "Total number of times queue read messages from disk",
        |report| report.counters.disk_reads,
    ),
    (
        "disk_writes_total",
        "Total number of times queue wrote messages to disk",
        |report| report.counters.disk_writes,
    ),
];

pub(crate) async fn answer(node: &Node, api: &Api, method: &Method, uri: &Uri) -> Response<Body> {
    let place = api.settings.metrics_path.trim_end_matches('/');
    let below = uri.path().trim_end_matches('/').strip_prefix(place);
    // Further words are of nothing, as is another path.
    let below = below.filter(|below| below.is_empty() || below.rfind('/') == Some(0));
    let allowed = below.ok_or_else(Refused::not_found).and_then(|below| {
        routes::of_page(method)?;
        Ok(below)
    });
    let text = match allowed {
        Ok(kind @ ("" | "/default" | "/per-object")) => {
            let per_object = api.settings.metrics_per_object || kind == "/per-object";
            page(node, api, &Live::asked(api).await, per_object).await
        }
        Ok("/detailed") => {
            let query = uri.query().unwrap_or_default();
            match detailed::page(node, api, query).await {
                Ok(text) => text,
                Err(reason) => return refusal(StatusCode::BAD_REQUEST, reason),
            }
        }
        Ok("/memory-breakdown") => memory(api),
        Ok(_) => return refusal(StatusCode::NOT_FOUND, "Unknown Registry"),
        Err(refused) => return reply::response(Err(refused), Sent::default()),
    };
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; version=0.0.4"),
    );
    response
}

fn refusal(status: StatusCode, reason: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(reason.into());
    *response.status_mut() = status;
    let text = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
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
async fn page(node: &Node, api: &Api, live: &Live, per_object: bool) -> String {
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
    )
    .await;
    of_queues(
        &mut page,
        "rabbitmq_queue_",
        &queues,
        &COUNTERS,
        Counter,
        per_object,
    )
    .await;
    of_queues(
        &mut page,
        "rabbitmq_queue_",
        &queues,
        &OF_DISK,
        Counter,
        per_object,
    )
    .await;
    of_streams(&mut page, "rabbitmq_", &queues, per_object).await;
    if per_object {
        of_each_queue(api, &mut page, "rabbitmq_", &queues);
        queue_info(&mut page, "rabbitmq_", &queues);
    }
    for family in connections::FAMILIES {
        if per_object {
            live.put(node, &mut page, "rabbitmq_", family, &|_| true);
        } else {
            live.put_sums(&mut page, "rabbitmq_", family);
        }
    }
    churn(api, &mut page, "rabbitmq_");
    totals(api, &mut page, &queues);
    auth_attempts(api, &mut page, "rabbitmq_");
    protocol::messages(api, &mut page, &queues);
    protocol::deaths(api, &mut page);
    protocol::sizes(api, &mut page);
    if per_object {
        protocol::exchanges(api, &mut page, "rabbitmq_", &|_| true);
    } else {
        protocol::exchange_sums(api, &mut page);
    }
    disk(api, &mut page, "rabbitmq_");
    resources(api, &mut page, "rabbitmq_");
    limits(api, &mut page, "rabbitmq_");
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
    page.family(
        "rabbitmq_storage_sync_info",
        Untyped,
        "What a confirm of a persistent message waits for",
    );
    page.series(
        "rabbitmq_storage_sync_info",
        &[("mode", api.broker.storage_sync())],
        1,
    );
}

/// One family after the other: between two of them others have the thread.
async fn of_queues(
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
        yield_now().await;
    }
}

/// How many segments the logs of streams have.
async fn of_streams(page: &mut Page, prefix: &str, queues: &Queues, per_object: bool) {
    let streams = queues
        .iter()
        .filter(|(queue, _)| queue.queue_type() == QueueType::Stream);
    let streams: Vec<_> = streams.cloned().collect();
    let families: [OfQueue; 1] = [(
        "stream_segments",
        "Total number of stream segment files",
        |report| report.segments.max(1),
    )];
    of_queues(page, prefix, &streams, &families, Counter, per_object).await;
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
}

/// What each queue is.
fn queue_info(page: &mut Page, prefix: &str, queues: &Queues) {
    let name = format!("{prefix}queue_info");
    page.family(
        &name,
        Gauge,
        "A metric with a constant '1' value and labels that provide some queue details",
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

/// What came and went.
fn churn(api: &Api, page: &mut Page, prefix: &str) {
    let churn = api.broker.churn();
    let queues = api.broker.queue_churn();
    for (name, help, value) in [
        (
            "connections_opened_total",
            "Total number of connections opened",
            churn.connections_created,
        ),
        (
            "connections_closed_total",
            "Total number of connections closed or terminated",
            churn.connections_closed,
        ),
        (
            "channels_opened_total",
            "Total number of channels opened",
            churn.channels_created,
        ),
        (
            "channels_closed_total",
            "Total number of channels closed",
            churn.channels_closed,
        ),
        (
            "queues_declared_total",
            "Total number of queues declared",
            queues.declared,
        ),
        (
            "queues_created_total",
            "Total number of queues created",
            queues.created,
        ),
        (
            "queues_deleted_total",
            "Total number of queues deleted",
            queues.deleted,
        ),
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
            "Total number of authentication attempts",
            |succeeded, failed| succeeded + failed,
        ),
        (
            "auth_attempts_succeeded_total",
            "Total number of successful authentication attempts",
            |succeeded, _| succeeded,
        ),
        (
            "auth_attempts_failed_total",
            "Total number of failed authentication attempts",
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

/// What the process uses.
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
            "disk_space_available_bytes",
            "Disk space available in bytes",
            gauges.disk_free,
        ),
        ("process_open_fds", "Open file descriptors", process.fd_used),
    ] {
        page.single(&format!("{prefix}{name}"), Gauge, help, value);
    }
}

/// What was read from the disk and written to it.
fn disk(api: &Api, page: &mut Page, prefix: &str) {
    let disk = Disk::measured(api);
    for (name, help, value) in [
        (
            "io_read_bytes_total",
            "Total number of I/O bytes read",
            disk.read_bytes,
        ),
        (
            "io_write_ops_total",
            "Total number of I/O write operations",
            disk.writes,
        ),
        (
            "io_write_bytes_total",
            "Total number of I/O bytes written",
            disk.written_bytes,
        ),
        (
            "io_sync_ops_total",
            "Total number of I/O sync operations",
            disk.syncs,
        ),
    ] {
        page.single(&format!("{prefix}{name}"), Counter, help, value);
    }
}

/// What it may use, and how long it has been there.
fn limits(api: &Api, page: &mut Page, prefix: &str) {
    let process = Process::measured();
    let gauges = api.broker.gauges();
    for (name, help, value) in [
        (
            "resident_memory_limit_bytes",
            "Memory high watermark in bytes",
            gauges.memory_limit,
        ),
        (
            "disk_space_available_limit_bytes",
            "Free disk space low watermark in bytes",
            gauges.disk_free_limit,
        ),
        (
            "process_max_fds",
            "Open file descriptors limit",
            process.fd_total,
        ),
        // A name of earlier versions.
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
    for (name, help, is_on) in [
        (
            "memory_used_watermark",
            "is 1 if VM memory watermark alarm is in effect",
            alarm.memory,
        ),
        (
            "free_disk_space_watermark",
            "is 1 if free disk space watermark alarm is in effect",
            alarm.disk,
        ),
        (
            "file_descriptor_limit",
            "is 1 if file descriptor limit alarm is in effect",
            false,
        ),
    ] {
        let name = format!("rabbitmq_alarms_{name}");
        page.single(&name, Untyped, help, is_on.into());
    }
    page.single(
        "rabbitmq_unreachable_cluster_peers_count",
        Gauge,
        "Number of peers in the cluster the current node cannot reach.",
        0,
    );
}

/// What the memory of the process is for.
fn memory(api: &Api) -> String {
    let mut page = Page::default();
    identity(api, &mut page, "memory-breakdown");
    let breakdown = Breakdown::measured(api);
    for (category, bytes) in breakdown.categories() {
        let (name, help) = match category {
            "queue_procs" => (
                "classic_queue_erlang_process",
                "Classic queue processes footprint in bytes",
            ),
            "quorum_queue_procs" => (
                "quorum_queue_erlang_process",
                "Quorum queue processes footprint in bytes",
            ),
            "stream_queue_procs" => (
                "stream_erlang_process",
                "Stream processes footprint in bytes",
            ),
            "other_system" => ("other_system", "Other runtime footprint in bytes"),
            "reserved_unallocated" => (
                "runtime_reserved_unallocated",
                "Runtime reserved but unallocated blocks size in bytes",
            ),
            // The others are of the Erlang machine.
            _ => continue,
        };
        let name = format!("rabbitmq_memory_{name}_bytes");
        page.single(&name, Gauge, help, bytes);
    }
    page.into_text()
}
