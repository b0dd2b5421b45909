//! `/x/node`: what RabbitMQ offers on its command line only. For administrators, also through their socket.

use std::{collections::HashMap, time::Duration};

use leveret_runtime::{Alarm, Amount, Limits, OpenConnection};
use serde_json::{Value, json};

use crate::{
    error::Refused,
    lists::{self, Turns, Wanted},
    node::{Node, Order, Phase},
    reply::Reply,
    request::{self, Request},
    resource::{
        channels, connections, consumers,
        node::{self as shown, ERLANG_VERSION, Process},
        queues,
    },
    server::Api,
};

/// The plugin that is the event exchange.
const EVENT_EXCHANGE: &str = "rabbitmq_event_exchange";

/// The longest that one request waits for a phase.
const WAIT_MAX: Duration = Duration::from_secs(3600);

pub(crate) async fn answer(
    node: &Node,
    api: Option<&Api>,
    request: &Request,
    path: &[&str],
) -> Result<Reply, Refused> {
    match (request.method.as_str(), path) {
        ("GET", []) => phase(node, request).await,
        ("POST", ["stop-app"]) => order(node, Order::StopApp).await,
        ("POST", ["start-app"]) => order(node, Order::StartApp).await,
        ("POST", ["reset"]) => order(node, Order::Reset).await,
        ("POST", ["stop"]) => order(node, Order::Stop).await,
        ("PUT", ["log-level"]) => {
            let object = request.object()?;
            let level = request::text(&object, "level")?;
            let log = node.facts().log.as_ref();
            match log.is_some_and(|log| log.set_level(level)) {
                true => Ok(Reply::NoContent),
                false => Err(Refused::bad_request(format!(
                    "level {level} is not supported"
                ))),
            }
        }
        ("GET", ["log"]) => {
            let number = |name: &str| request.parameter(name).and_then(|text| text.parse().ok());
            let at_most = number("lines").and_then(|lines: u64| usize::try_from(lines).ok());
            let log = node.facts().log.as_ref();
            let (lines, last) = log.map_or_else(Default::default, |log| {
                log.lines_after(number("after").unwrap_or(0), at_most.unwrap_or(usize::MAX))
            });
            Ok(Reply::Json(json!({"lines": lines, "last": last})))
        }
        ("GET", ["status"]) => Ok(Reply::Json(status(node, api))),
        (_, rest) => of_broker(node, api.ok_or_else(Refused::stopped)?, request, rest).await,
    }
}

async fn of_broker(
    node: &Node,
    api: &Api,
    request: &Request,
    path: &[&str],
) -> Result<Reply, Refused> {
    match (request.method.as_str(), path) {
        ("POST", ["authenticate"]) => authenticate(api, request).await,
        ("POST", ["close-connections"]) => close(node, api, request),
        ("GET", ["connections"]) => {
            let open = api.broker.connections();
            let ids: Vec<_> = open.iter().map(|known| known.facts.id.get()).collect();
            let mut list = connections::shown_all(api, request, open).await;
            for (object, id) in list.iter_mut().zip(ids) {
                object["pid"] = node.pid(id, 0).into();
            }
            Ok(lists::whole(request, list))
        }
        ("GET", ["channels"]) => {
            let open = api.broker.connections();
            let ids = ids(&open);
            let mut list = channels::shown_all(api, request, open).await;
            for object in &mut list {
                let id = id(&ids, &object["connection_details"]["name"]);
                object["connection"] = node.pid(id, 0).into();
                object["pid"] = node.pid(id, number(&object["number"])).into();
            }
            Ok(lists::whole(request, list))
        }
        ("GET", ["consumers"]) => {
            let open = api.broker.connections();
            let ids = ids(&open);
            let mut list = consumers::all(api, open).await;
            list.retain(|object| is_in_asked(request, &object["queue"]["vhost"]));
            for object in &mut list {
                let channel = &object["channel_details"];
                let id = id(&ids, &channel["connection_name"]);
                object["channel_pid"] = node.pid(id, number(&channel["number"])).into();
            }
            Ok(lists::whole(request, list))
        }
        ("GET", ["queues"]) => {
            let (mut list, mut turns) = (Vec::new(), Turns::default());
            for vhost in api.broker.vhosts() {
                for queue in queues::all(api, &vhost) {
                    let record = queue.record();
                    let mut object = queues::shown(api, request, &queue, &Wanted::all());
                    object["pid"] = node.pid(record.id.get(), 0).into();
                    if let Some(owner) = record.exclusive_to {
                        object["owner_pid"] = node.pid(owner.get(), 0).into();
                    }
                    list.push(object);
                    turns.done().await;
                }
            }
            list.retain(|object| is_in_asked(request, &object["vhost"]));
            Ok(lists::whole(request, list))
        }
        ("PUT", ["plugins"]) => {
            let object = request.object()?;
            let Some(Value::Array(enabled)) = object.get("enabled") else {
                return Err(Refused::key_missing("enabled"));
            };
            let is_on = enabled.iter().any(|name| name == EVENT_EXCHANGE);
            // Told while somebody can hear it: before the exchange goes, or when it has come.
            if is_on {
                api.broker.set_event_exchange(true).await;
            }
            let enabled = enabled.iter().filter_map(Value::as_str);
            let (more, less) = api
                .facts
                .plugins
                .enable(enabled.map(str::to_owned).collect());
            if !more.is_empty() || !less.is_empty() {
                api.broker.tell_plugins(&more, &less);
            }
            if !is_on {
                api.broker.set_event_exchange(false).await;
            }
            Ok(Reply::NoContent)
        }
        ("PUT", ["memory-limit"]) => {
            let memory = amount(request)?;
            api.broker.set_limits(Limits {
                memory,
                ..api.broker.limits()
            });
            Ok(Reply::NoContent)
        }
        ("PUT", ["disk-free-limit"]) => {
            let disk_free = amount(request)?;
            api.broker.set_limits(Limits {
                disk_free,
                ..api.broker.limits()
            });
            Ok(Reply::NoContent)
        }
        ("GET", ["consumer-timeout"]) => Ok(Reply::Json(json!({
            "milliseconds": api.broker.consumer_timeout_millis(),
        }))),
        ("PUT", ["consumer-timeout"]) => {
            let millis = request::integer(&request.object()?, "milliseconds")?;
            let millis = millis.and_then(|millis| u64::try_from(millis).ok());
            let millis = millis.ok_or_else(|| Refused::key_missing("milliseconds"))?;
            api.broker.set_consumer_timeout_millis(millis);
            Ok(Reply::NoContent)
        }
        ("PUT", ["channel-max"]) => {
            let max = request::integer(&request.object()?, "channels")?;
            let max = max.and_then(|max| u16::try_from(max).ok());
            let max = max.ok_or_else(|| Refused::key_missing("channels"))?;
            api.broker.offer_channel_max(max);
            Ok(Reply::NoContent)
        }
        ("GET", ["loopback-users"]) => Ok(Reply::Json(json!({
            "users": *api.broker.loopback_users(),
        }))),
        ("PUT", ["loopback-users"]) => {
            let object = request.object()?;
            let users = object.get("users").and_then(Value::as_array);
            let users = users.ok_or_else(|| Refused::key_missing("users"))?;
            let names = users.iter().filter_map(Value::as_str).map(str::to_owned);
            api.broker.set_loopback_users(names.collect());
            Ok(Reply::NoContent)
        }
        (method, ["alarms", source]) => {
            let is_on = method == "PUT";
            let change: fn(&mut Alarm, bool) = match *source {
                "memory" => |alarm, is_on| alarm.memory = is_on,
                "disk" => |alarm, is_on| alarm.disk = is_on,
                _ => return Err(Refused::not_found()),
            };
            api.broker.set_alarm_by_hand(|alarm| change(alarm, is_on));
            Ok(Reply::NoContent)
        }
        _ => Err(Refused::not_found()),
    }
}

fn is_in_asked(request: &Request, vhost: &Value) -> bool {
    request
        .parameter("vhost")
        .is_none_or(|asked| vhost == asked)
}

/// What the process is at; with `await` the answer comes when it is there, at the latest after `timeout` seconds.
async fn phase(node: &Node, request: &Request) -> Result<Reply, Refused> {
    if let Some(wanted) = request.parameter("await") {
        let phases = [Phase::Booting, Phase::Running, Phase::Stopped];
        let mut phases = phases.into_iter();
        let wanted = phases.find(|phase| phase.name() == wanted);
        let wanted = wanted.ok_or_else(|| Refused::bad_request("unknown state"))?;
        let secs = request.parameter("timeout").unwrap_or("0");
        let secs: f64 = secs.parse().map_err(|_| Refused::bad_request("timeout"))?;
        let patience = Duration::try_from_secs_f64(secs).unwrap_or_default();
        node.reached(wanted, patience.min(WAIT_MAX)).await;
    }
    Ok(Reply::Json(json!({
        "name": node.facts().name,
        "state": node.phase().name(),
        "pid": std::process::id(),
    })))
}

async fn order(node: &Node, order: Order) -> Result<Reply, Refused> {
    match node.order(order).await {
        Ok(()) => Ok(Reply::NoContent),
        Err(reason) => Err(Refused::new(
            axum::http::StatusCode::CONFLICT,
            "not_possible",
            reason,
        )),
    }
}

async fn authenticate(api: &Api, request: &Request) -> Result<Reply, Refused> {
    let object = request.object()?;
    let name = request::text(&object, "username")?;
    let password = request::text(&object, "password")?;
    let here = std::net::Ipv4Addr::LOCALHOST.into();
    let login = api.broker.login(name.as_bytes(), password.as_bytes(), here);
    match login.await {
        Ok(user) => Ok(Reply::Json(
            json!({"username": user.name.to_string(), "tags": user.tags}),
        )),
        Err(_) => Err(Refused::bad_request("invalid credentials")),
    }
}

/// Closes connections, told by vhost, by user, or one by its name or pid.
fn close(node: &Node, api: &Api, request: &Request) -> Result<Reply, Refused> {
    let object = request.object()?;
    let text = |key| request::optional_text(&object, key);
    let (vhost, user, name) = (text("vhost")?, text("user")?, text("connection")?);
    let limit = request::integer(&object, "limit")?.and_then(|limit| usize::try_from(limit).ok());
    let reason = text("reason")?.unwrap_or("Closed via management plugin");
    let is_meant = |known: &&OpenConnection| {
        let facts = &known.facts;
        vhost.is_none_or(|vhost| facts.vhost == *vhost)
            && user.is_none_or(|user| facts.user == *user)
            && name.is_none_or(|name| {
                node.of_pid(name) == Some(facts.id.get()) || facts.name() == name
            })
    };
    let open = api.broker.connections();
    let meant = open.iter().filter(is_meant);
    let mut closed = 0;
    for connection in meant.take(limit.unwrap_or(usize::MAX)) {
        connection.control.close(reason);
        closed += 1;
    }
    Ok(Reply::Json(json!({ "closed": closed })))
}

/// `{"bytes": "512MB"}` or `{"fraction": 0.4}`, of the memory there is.
fn amount(request: &Request) -> Result<Amount, Refused> {
    let object = request.object()?;
    if let Some(fraction) = object.get("fraction").and_then(Value::as_f64) {
        return Ok(Amount::Share(fraction));
    }
    let bytes = match object.get("bytes") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => return Err(Refused::key_missing("bytes")),
    };
    match bytes.parse() {
        Ok(amount @ Amount::Bytes(_)) => Ok(amount),
        Ok(Amount::Share(_)) | Err(_) => Err(Refused::bad_request(format!(
            "{bytes} is no number of bytes: give 536870912, 512MB or 512MiB"
        ))),
    }
}

fn ids(open: &[OpenConnection]) -> HashMap<String, u64> {
    open.iter()
        .map(|known| (known.facts.name(), known.facts.id.get()))
        .collect()
}

fn id(ids: &HashMap<String, u64>, name: &Value) -> u64 {
    let id = name.as_str().and_then(|name| ids.get(name));
    id.copied().unwrap_or_default()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// What `rabbitmqctl status --formatter json` shows, of the process and of the broker while there is one.
fn status(node: &Node, api: Option<&Api>) -> Value {
    let facts = node.facts();
    let process = Process::measured();
    let mut object = json!({
        "node": facts.name,
        "state": node.phase().name(),
        "rabbitmq_version": facts.version,
        "erlang_version": format!("Erlang/OTP {ERLANG_VERSION}"),
        "crypto_lib_version": "",
        "product_name": "Leveret",
        "product_version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "os": "Linux",
        "uptime": node.uptime().as_secs(),
        "is_under_maintenance": false,
        "run_queue": 0,
        "net_ticktime": 60,
        "processors": std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        "processes": {"used": process.threads, "limit": 1_048_576},
        "enabled_plugin_file": facts.enabled_plugins_file.as_ref().map(|file| file.display().to_string()),
        "active_plugins": facts.plugins.active(),
        "config_files": facts.config_files,
        "log_files": facts.log_files,
        "data_directory": facts.data_dir.as_ref().map(|dir| dir.display().to_string()),
        "raft_data_directory": facts.data_dir.as_ref().map(|dir| dir.display().to_string()),
        "vm_memory_calculation_strategy": "rss",
        "alarms": [],
        "tags": [],
        "listeners": [],
        "totals": {"connection_count": 0, "queue_count": 0, "virtual_host_count": 0},
        "memory": memory(process, 0),
    });
    let Some(api) = api else {
        return object;
    };
    let vhosts = api.broker.vhosts();
    let mut queue_count = 0_usize;
    let mut queue_bytes = 0;
    for vhost in &vhosts {
        for record in vhost.snapshot().queues() {
            queue_count += 1;
            if let Some(queue) = api.broker.queue(record.id) {
                queue_bytes += queue.report().memory_bytes;
            }
        }
    }
    let gauges = api.broker.gauges();
    let limits = api.broker.limits();
    let alarm = api.broker.alarm();
    let alarms = [("memory", alarm.memory), ("disk", alarm.disk)];
    let alarms = alarms.into_iter().filter(|(_, is_on)| *is_on);
    let alarms: Vec<Value> = alarms
        .map(
            |(source, _)| json!({"node": facts.name, "type": "resource_limit", "resource": source}),
        )
        .collect();
    object["alarms"] = alarms.into();
    object["listeners"] = listeners(node, api);
    object["totals"] = json!({
        "connection_count": api.broker.connection_counts().0,
        "queue_count": queue_count,
        "virtual_host_count": vhosts.len(),
    });
    object["memory"] = memory(process, queue_bytes);
    object["disk_free"] = gauges.disk_free.into();
    object["disk_free_limit"] = gauges.disk_free_limit.into();
    object["vm_memory_high_watermark_limit"] = gauges.memory_limit.into();
    object["vm_memory_high_watermark_setting"] = match limits.memory {
        Amount::Share(share) => json!({"relative": share}),
        Amount::Bytes(bytes) => json!({"absolute": bytes}),
    };
    object
}

fn memory(process: Process, queue_bytes: u64) -> Value {
    let used = process.memory_used;
    json!({
        "strategy": "rss",
        "total": {"rss": used, "allocated": used, "erlang": used},
        "queue_procs": queue_bytes,
        "other_system": used.saturating_sub(queue_bytes),
    })
}

fn listeners(node: &Node, api: &Api) -> Value {
    let shown = shown::all_listeners(api);
    let shown = shown.into_iter().map(|(protocol, address)| {
        let purpose = match protocol {
            "amqp" => "AMQP 0-9-1 and AMQP 1.0",
            "amqp/ssl" => "AMQP 0-9-1 and AMQP 1.0 over TLS",
            "http" => "HTTP API",
            "https" => "HTTP API over TLS (HTTPS)",
            "http/prometheus" => "Prometheus exporter API over HTTP",
            other => other,
        };
        let interface = match address.ip() {
            std::net::IpAddr::V4(ip) => ip.to_string(),
            std::net::IpAddr::V6(ip) => format!("[{ip}]"),
        };
        json!({
            "node": node.facts().name,
            "port": address.port(),
            "protocol": protocol,
            "interface": interface,
            "purpose": purpose,
        })
    });
    shown.collect()
}
