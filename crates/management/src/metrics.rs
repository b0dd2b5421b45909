//! Metrics for Prometheus: sums of the node, or one series per queue.

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header},
};
use leveret_core::queue::Report;
use leveret_runtime::{QueueHandle, TrafficCounts};
use std::sync::Arc;

use crate::{
    metrics_text::{
        Kind::{Counter, Gauge, Untyped},
        Page,
    },
    resource::{
        node::{self, Process},
        queues::Totals,
    },
    server::Api,
};

const PROTOCOL: (&str, &str) = ("protocol", "amqp091");
const QUEUE_TYPE: (&str, &str) = ("queue_type", "rabbit_classic_queue");

/// What is told of every queue: name, help, value.
type OfQueue = (&'static str, &'static str, fn(&Report) -> u64);

const GAUGES: [OfQueue; 10] = [
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

pub(crate) fn answer(api: &Api, path: &str, query: Option<&str>) -> Response<Body> {
    let text = match path.trim_end_matches('/') {
        "/metrics" => page(api, false),
        "/metrics/per-object" => page(api, true),
        "/metrics/detailed" => detailed(api, query.unwrap_or_default()),
        _ => {
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

fn page(api: &Api, per_object: bool) -> String {
    let mut page = Page::default();
    let queues = queues(api);
    identity(api, &mut page);
    of_queues(&mut page, "rabbitmq_queue_", &queues, per_object);
    of_node(api, &mut page, &queues);
    of_protocol(api, &mut page, &queues);
    resources(api, &mut page);
    page.into_text()
}

fn identity(api: &Api, page: &mut Page) {
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
            ("rabbitmq_endpoint", "aggregated"),
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
            ("rabbitmq_version", node::VERSION),
            ("prometheus_plugin_version", node::VERSION),
            ("prometheus_client_version", env!("CARGO_PKG_VERSION")),
            ("erlang_version", node::ERLANG_VERSION),
        ],
        1,
    );
}

fn of_queues(
    page: &mut Page,
    prefix: &str,
    queues: &[(Arc<QueueHandle>, Report)],
    per_object: bool,
) {
    let kinds = [(Gauge, &GAUGES[..]), (Counter, &COUNTERS[..])];
    for (kind, families) in kinds {
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
}

fn of_node(api: &Api, page: &mut Page, queues: &[(Arc<QueueHandle>, Report)]) {
    let (connections, channels) = api.broker.connection_counts();
    let churn = api.broker.churn();
    let of_queues = api.broker.queue_churn();
    let consumers = queues
        .iter()
        .map(|(_, report)| report.consumers as u64)
        .sum();
    for (name, kind, help, value) in [
        (
            "connections",
            Gauge,
            "Connections currently open",
            connections,
        ),
        ("channels", Gauge, "Channels currently open", channels),
        (
            "consumers",
            Gauge,
            "Consumers currently connected",
            consumers,
        ),
        ("queues", Gauge, "Queues available", queues.len() as u64),
        (
            "connections_opened_total",
            Counter,
            "Total number of connections opened",
            churn.connections_created,
        ),
        (
            "connections_closed_total",
            Counter,
            "Total number of connections closed or terminated",
            churn.connections_closed,
        ),
        (
            "channels_opened_total",
            Counter,
            "Total number of channels opened",
            churn.channels_created,
        ),
        (
            "channels_closed_total",
            Counter,
            "Total number of channels closed",
            churn.channels_closed,
        ),
        (
            "queues_declared_total",
            Counter,
            "Total number of queues declared",
            of_queues.declared,
        ),
        (
            "queues_created_total",
            Counter,
            "Total number of queues created",
            of_queues.created,
        ),
        (
            "queues_deleted_total",
            Counter,
            "Total number of queues deleted",
            of_queues.deleted,
        ),
    ] {
        page.single(&format!("rabbitmq_{name}"), kind, help, value);
    }
}

/// What the protocol did: sums over queues, and over vhosts what no queue sees.
fn of_protocol(api: &Api, page: &mut Page, queues: &[(Arc<QueueHandle>, Report)]) {
    let mut totals = Totals::default();
    for (_, report) in queues {
        totals.counters.add(&report.counters);
        totals.consumers += report.consumers as u64;
    }
    let counters = &totals.counters;
    let delivered = counters.deliver + counters.deliver_no_ack + counters.get + counters.get_no_ack;
    for (name, value) in [
        ("delivered_total", delivered),
        ("delivered_consume_manual_ack_total", counters.deliver),
        ("delivered_consume_auto_ack_total", counters.deliver_no_ack),
        ("delivered_get_manual_ack_total", counters.get),
        ("delivered_get_auto_ack_total", counters.get_no_ack),
        ("get_empty_total", counters.get_empty),
        ("redelivered_total", counters.redeliver),
        ("acknowledged_total", counters.ack),
    ] {
        let name = format!("rabbitmq_global_messages_{name}");
        page.family(&name, Counter, "Sum over the queues there are");
        page.series(&name, &[PROTOCOL, QUEUE_TYPE], value);
    }
    page.family(
        "rabbitmq_global_messages_routed_total",
        Counter,
        "Messages put into queues, once per queue",
    );
    page.series(
        "rabbitmq_global_messages_routed_total",
        &[PROTOCOL],
        counters.publish,
    );
    let mut traffic = TrafficCounts::default();
    for vhost in api.broker.vhosts() {
        traffic.add(&vhost.traffic().counts());
    }
    for (name, value) in [
        ("received_total", traffic.publish),
        ("confirmed_total", traffic.confirm),
        ("unroutable_dropped_total", traffic.drop_unroutable),
        ("unroutable_returned_total", traffic.return_unroutable),
    ] {
        let name = format!("rabbitmq_global_messages_{name}");
        page.family(&name, Counter, "Sum over the vhosts there are");
        page.series(&name, &[PROTOCOL], value);
    }
    page.family(
        "rabbitmq_global_consumers",
        Gauge,
        "The current number of consumers",
    );
    page.series("rabbitmq_global_consumers", &[PROTOCOL], totals.consumers);
}

fn resources(api: &Api, page: &mut Page) {
    let process = Process::measured();
    for (name, help, value) in [
        (
            "rabbitmq_process_resident_memory_bytes",
            "Memory used in bytes",
            process.memory_used,
        ),
        (
            "rabbitmq_resident_memory_limit_bytes",
            "Memory high watermark in bytes",
            process.memory_total,
        ),
        (
            "rabbitmq_process_open_fds",
            "Open file descriptors",
            process.fd_used,
        ),
        (
            "rabbitmq_process_max_fds",
            "Open file descriptors limit",
            process.fd_total,
        ),
        (
            "rabbitmq_erlang_uptime_seconds",
            "Node uptime",
            api.started.elapsed().as_secs(),
        ),
    ] {
        page.single(name, Gauge, help, value);
    }
    for name in [
        "rabbitmq_alarms_memory_used_watermark",
        "rabbitmq_alarms_free_disk_space_watermark",
    ] {
        page.single(name, Untyped, "is 1 if the alarm is in effect", 0);
    }
}

/// Only the families that are asked for, of the vhosts that are asked for.
fn detailed(api: &Api, query: &str) -> String {
    let query: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    let asked = |name: &str| -> Vec<&str> {
        let found = query.iter().filter(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).collect()
    };
    let mut page = Page::default();
    identity(api, &mut page);
    let vhosts = asked("vhost");
    let mut queues = queues(api);
    queues.retain(|(queue, _)| {
        let vhost = queue.record().vhost.to_string();
        vhosts.is_empty() || vhosts.contains(&vhost.as_str())
    });
    let of_queue = [
        "queue_coarse_metrics",
        "queue_metrics",
        "queue_consumer_count",
        "queue_delivery_metrics",
    ];
    if asked("family")
        .iter()
        .any(|family| of_queue.contains(family))
    {
        of_queues(&mut page, "rabbitmq_detailed_queue_", &queues, true);
    }
    page.into_text()
}
