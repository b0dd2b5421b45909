//! `/nodes`: the one node there is, measured where there is something to measure.

use std::{fs, net::SocketAddr};

use serde_json::{Map, Value, json};

use crate::{
    error::Refused,
    lists,
    reply::Reply,
    request::Request,
    resource::{disk::Disk, memory},
    server::{Api, Listening, ListeningHttp},
};

/// The version of RabbitMQ whose API this is.
pub(crate) const VERSION: &str = "4.3.6";

/// Tools want one and print it.
pub(crate) const ERLANG_VERSION: &str = "29.1.1";

/// Features that tools look for.
const FEATURES: [&str; 24] = [
    "classic_mirrored_queue_version",
    "classic_queue_type_delivery_support",
    "direct_exchange_routing_v2",
    "drop_unroutable_metric",
    "empty_basic_get_metric",
    "feature_flags_v2",
    "implicit_default_bindings",
    "listener_records_in_ets",
    "maintenance_mode_status",
    "message_containers",
    "quorum_queue",
    "rabbitmq_4.0.0",
    "rabbitmq_4.1.0",
    "rabbitmq_4.2.0",
    "rabbitmq_4.3.0",
    "restart_streams",
    "stream_filtering",
    "stream_queue",
    "stream_sac_coordinator_unblock_group",
    "stream_single_active_consumer",
    "stream_update_config_command",
    "tracking_records_in_ets",
    "user_limits",
    "virtual_host_metadata",
];

pub(crate) fn answer(api: &Api, request: &Request, path: &[&str]) -> Result<Reply, Refused> {
    match path {
        [] => Ok(lists::whole(request, vec![shown(api, request)])),
        [name, rest @ ..] if *name == api.broker.node().name => match rest {
            [] => {
                let mut node = shown(api, request);
                if request.flag("memory") {
                    let memory = memory::Breakdown::measured(api);
                    node["memory"] = memory.absolute()["memory"].take();
                }
                Ok(lists::one(request, node))
            }
            ["memory"] => memory::absolute(api, request),
            ["memory", "relative"] => memory::relative(api, request),
            // There is no Erlang machine that would have any.
            ["memory", "ets"] | ["memory", "ets", _] | ["memory", "ets", _, "relative"] => {
                Ok(Reply::Json(json!({"ets_tables_memory": "no_tables"})))
            }
            _ => Err(Refused::not_found()),
        },
        _ => Err(Refused::not_found()),
    }
}

/// `/reset`: all counters begin anew.
pub(crate) fn forget_rates(api: &Api, path: &[&str]) -> Result<Reply, Refused> {
    of_path(api, path)?;
    api.rates.forget();
    Ok(Reply::NoContent)
}

/// Whether the node of a path that may name one is this one.
pub(crate) fn of_path(api: &Api, path: &[&str]) -> Result<(), Refused> {
    match path {
        [] => Ok(()),
        [name] if *name == api.broker.node().name => Ok(()),
        _ => Err(Refused::not_found()),
    }
}

fn shown(api: &Api, request: &Request) -> Value {
    let process = Process::measured();
    let (gauges, alarm) = (api.broker.gauges(), api.broker.alarm());
    let uptime = u64::try_from(api.started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut object = json!({
        "name": api.broker.node().name,
        "type": "disc",
        "running": true,
        "being_drained": false,
        "os_pid": std::process::id().to_string(),
        "uptime": uptime,
        "run_queue": 0,
        "processors": std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        "fd_total": process.fd_total,
        "sockets_total": 0,
        "proc_total": 1_048_576,
        "mem_limit": gauges.memory_limit,
        "mem_alarm": alarm.memory,
        "mem_calculation_strategy": "rss",
        "disk_free_limit": gauges.disk_free_limit,
        "disk_free_alarm": alarm.disk,
        "rates_mode": api.settings.rates_mode,
        "exchange_types": exchange_types(),
        "auth_mechanisms": mechanisms(api),
        "applications": [{
            "name": "leveret",
            "description": "Leveret",
            "version": env!("CARGO_PKG_VERSION"),
        }],
        "contexts": contexts(api, false),
        "log_files": api.facts.log_files,
        "db_dir": api.broker.data_dir().map(|dir| dir.display().to_string()),
        "config_files": api.facts.config_files,
        "net_ticktime": 60,
        "enabled_plugins": api.facts.plugins.enabled(),
        "partitions": [],
        "cluster_links": [],
        "metrics_gc_queue_length": {},
        "ra_open_file_metrics": {},
        "rabbitmq_version": api.facts.version,
        "erlang_version": ERLANG_VERSION,
        "erlang_full_version": ERLANG_VERSION,
        "crypto_lib_version": "",
    });
    if let Value::Object(fields) = &mut object {
        let (churn, disk) = (api.broker.churn(), Disk::measured(api));
        let queues = api.broker.queue_churn();
        api.rates.put_with(
            fields,
            "node",
            &[
                ("mem_used", gauges.memory_used),
                ("fd_used", process.fd_used),
                ("disk_free", gauges.disk_free),
                ("sockets_used", 0),
                ("proc_used", process.threads),
                ("gc_num", 0),
                ("gc_bytes_reclaimed", 0),
                ("context_switches", 0),
                ("io_read_count", 0),
                ("io_read_bytes", disk.read_bytes),
                ("io_write_count", disk.writes),
                ("io_write_bytes", disk.written_bytes),
                ("io_sync_count", disk.syncs),
                ("io_seek_count", 0),
                ("io_reopen_count", 0),
                ("mnesia_ram_tx_count", 0),
                ("mnesia_disk_tx_count", 0),
                ("msg_store_read_count", 0),
                ("msg_store_write_count", 0),
                ("queue_index_read_count", 0),
                ("queue_index_write_count", 0),
                ("connection_created", churn.connections_created),
                ("connection_closed", churn.connections_closed),
                ("channel_created", churn.channels_created),
                ("channel_closed", churn.channels_closed),
                ("queue_declared", queues.declared),
                ("queue_created", queues.created),
                ("queue_deleted", queues.deleted),
            ],
            request.age("node_stats"),
        );
        for time in [
            "io_read_avg_time",
            "io_write_avg_time",
            "io_sync_avg_time",
            "io_seek_avg_time",
        ] {
            fields.insert(time.to_owned(), json!(0.0));
            fields.insert(format!("{time}_details"), json!({"rate": 0.0}));
        }
    }
    object
}

/// All ways to log in in RabbitMQ's order, and whether clients are offered them.
fn mechanisms(api: &Api) -> Value {
    let known = [
        ("ANONYMOUS", "SASL ANONYMOUS authentication mechanism"),
        (
            "EXTERNAL",
            "TLS peer verification-based authentication plugin. Used in combination with the EXTERNAL SASL mechanism.",
        ),
        ("AMQPLAIN", "QPid AMQPLAIN mechanism"),
        ("PLAIN", "SASL PLAIN authentication mechanism"),
        (
            "RABBIT-CR-DEMO",
            "RabbitMQ Demo challenge-response authentication mechanism",
        ),
    ];
    let shown = known.map(|(name, description)| {
        let enabled = api.facts.mechanisms.contains(&name);
        json!({"name": name, "description": description, "enabled": enabled})
    });
    shown.into_iter().collect()
}

/// What the system says of this process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Process {
    pub(crate) memory_used: u64,
    pub(crate) fd_used: u64,
    pub(crate) fd_total: u64,
    pub(crate) threads: u64,
}

impl Process {
    pub(crate) fn measured() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let fd_used = fs::read_dir("/proc/self/fd").map_or(0, |list| list.count() as u64);
        let fd_total = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max open files"))
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        Self {
            memory_used: number(&status, "VmRSS:") * 1024,
            fd_used,
            fd_total: fd_total.unwrap_or(0),
            threads: number(&status, "Threads:"),
        }
    }
}

pub(super) fn number(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// The name of the cluster: as it was set last, or that of the node.
pub(crate) fn cluster_name(api: &Api) -> String {
    let node = api.broker.node();
    let configured = || node.cluster_name.clone();
    let name = api.broker.given_cluster_name().or_else(configured);
    name.unwrap_or_else(|| node.name.clone())
}

pub(crate) fn exchange_types() -> Value {
    let types = [
        (
            "direct",
            "AMQP direct exchange, as per the AMQP specification",
        ),
        (
            "fanout",
            "AMQP fanout exchange, as per the AMQP specification",
        ),
        (
            "headers",
            "AMQP headers exchange, as per the AMQP specification",
        ),
        (
            "topic",
            "AMQP topic exchange, as per the AMQP specification",
        ),
        (
            "x-consistent-hash",
            "By a hash, in proportion to binding keys that are numbers",
        ),
        (
            "x-delayed-message",
            "Keeps messages for as long as their x-delay header says",
        ),
        ("x-local-random", "To one queue by chance, on this node"),
        ("x-modulus-hash", "By a hash, to one of the queues"),
        ("x-random", "To one queue by chance"),
        (
            "x-recent-history",
            "Hands its newest messages to new bindings",
        ),
    ]
    .map(|(name, description)| json!({"name": name, "description": description, "enabled": true}));
    types.into_iter().collect()
}

/// Where the API and the metrics are.
pub(crate) fn contexts(api: &Api, with_node: bool) -> Value {
    let listening = &api.listening;
    let http = listening.http.iter().map(|at| (at, "RabbitMQ Management"));
    let metrics = listening
        .metrics
        .iter()
        .map(|at| (at, "RabbitMQ Prometheus"));
    let shown = http.chain(metrics).map(|(at, description)| {
        let mut context = Map::new();
        context.insert("description".to_owned(), description.into());
        context.insert("path".to_owned(), "/".into());
        context.insert("ip".to_owned(), at.address.ip().to_string().into());
        context.insert("cowboy_opts".to_owned(), "[{sendfile,false}]".into());
        context.insert("port".to_owned(), at.address.port().to_string().into());
        if at.tls.is_some() {
            context.insert("protocol".to_owned(), "https".into());
        }
        if with_node {
            context.insert("ssl_opts".to_owned(), json!([]));
            context.insert("node".to_owned(), api.broker.node().name.clone().into());
        }
        Value::Object(context)
    });
    shown.collect()
}

/// Every listener with RabbitMQ's name of its protocol.
pub(crate) fn all_listeners(api: &Api) -> Vec<(&'static str, SocketAddr)> {
    let Listening {
        amqp,
        amqps,
        http,
        metrics,
        amqp_tls: _,
    } = &api.listening;
    let amqp = amqp.iter().map(|address| ("amqp", *address));
    let amqps = amqps.iter().map(|address| ("amqp/ssl", *address));
    let named = |plain, encrypted| {
        move |at: &ListeningHttp| {
            let protocol = if at.tls.is_some() { encrypted } else { plain };
            (protocol, at.address)
        }
    };
    let http = http.iter().map(named("http", "https"));
    let metrics = metrics
        .iter()
        .map(named("http/prometheus", "https/prometheus"));
    amqp.chain(amqps).chain(http).chain(metrics).collect()
}

pub(crate) fn listeners(api: &Api) -> Value {
    let shown = all_listeners(api).into_iter().map(|(protocol, address)| {
        json!({
            "node": api.broker.node().name,
            "protocol": protocol,
            "ip_address": address.ip().to_string(),
            "port": address.port(),
            "socket_opts": {"backlog": 1024, "nodelay": true},
            "tls": matches!(protocol, "amqp/ssl" | "https" | "https/prometheus"),
        })
    });
    shown.collect()
}

/// All of them are enabled.
pub(crate) fn enable_feature_flag(flag: &str) -> Result<Reply, Refused> {
    if FEATURES.contains(&flag) {
        Ok(Reply::NoContent)
    } else {
        Err(Refused::bad_request("unsupported"))
    }
}

pub(crate) fn feature_flags() -> Reply {
    let flags = FEATURES.map(|name| {
        json!({
            "name": name,
            "state": "enabled",
            "stability": "stable",
            "desc": "",
            "doc_url": "",
            "provided_by": "rabbit",
            "require_level": "none",
            "experiment_level": "supported",
            "callbacks": [],
        })
    });
    Reply::Json(flags.into_iter().collect())
}
