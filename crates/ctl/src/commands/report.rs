//! The node at a glance, for people.

use std::{
    io::{Write, stdout},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    call::{Call, Switch},
    client::Client,
    command::Command,
    commands::{
        health::{alarm_lines, listener, status},
        help::VERSION,
    },
    failure::{Failure, USAGE},
    format::Output,
    program::Program,
    term::text_of,
};

const GROUP: &str = "Monitoring, observability and health checks";
const DIAGNOSTICS: &[Program] = &[Program::Diagnostics];
const UNIT: &[Switch] = &[Switch("unit", None, true)];

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "status",
        "Shows the node: version, memory, disk, listeners, totals",
        show_status,
    )
    .group(GROUP)
    .of_both()
    .timed()
    .switches(UNIT)
    .says(|call| format!("Status of node {} ...", call.node()))
    .takes(0, 0, "[--unit <unit>]"),
    Command::new(
        "cluster_status",
        "Shows the cluster, which is this node",
        cluster_status,
    )
    .group("Cluster")
    .of_both()
    .timed()
    .says(|call| format!("Cluster status of node {} ...", call.node())),
    Command::new(
        "server_version",
        "Shows the version of RabbitMQ that the node stands in for",
        server_version,
    )
    .group(GROUP)
    .of(DIAGNOSTICS)
    .timed()
    .says(|call| format!("Asking node {} for its RabbitMQ version...", call.node())),
    Command::new(
        "erlang_version",
        "Shows what tools are told where RabbitMQ has Erlang's version",
        erlang_version,
    )
    .group(GROUP)
    .of(DIAGNOSTICS)
    .timed()
    .switches(&[
        Switch("details", None, false),
        Switch("offline", None, false),
    ])
    .says(|call| format!("Asking node {} for its Erlang/OTP version...", call.node())),
    Command::new("log_location", "Shows where log lines go", log_location)
        .group(GROUP)
        .of(DIAGNOSTICS)
        .timed()
        .switches(&[Switch("all", Some('a'), false)])
        .says(|call| format!("Log file location(s) on node {} ...", call.node()))
        .takes(0, 0, "[--all|-a]"),
    Command::new("log_tail", "Shows the newest lines of the log", log_tail)
        .group(GROUP)
        .of(DIAGNOSTICS)
        .timed()
        .switches(&[Switch("number", Some('N'), true)])
        .says(|call| {
            let lines = call.option("number").unwrap_or("50");
            format!("Last {lines} log lines on node {} ...", call.node())
        })
        .takes(0, 0, "[--number|-N <number>]"),
    Command::new(
        "log_tail_stream",
        "Shows lines of the log as they come",
        log_tail_stream,
    )
    .group(GROUP)
    .of(DIAGNOSTICS)
    .timed()
    .switches(&[Switch("duration", Some('d'), true)])
    .says(|call| match call.option("duration") {
        Some(secs) => format!(
            "Streaming logs from node {} for {secs} seconds ...",
            call.node()
        ),
        None => format!("Streaming logs from node {} ...", call.node()),
    })
    .takes(0, 0, "[--duration|-d <seconds>]"),
    Command::new(
        "memory_breakdown",
        "Shows what memory is used for, as far as it is known",
        memory_breakdown,
    )
    .group(GROUP)
    .of(DIAGNOSTICS)
    .timed()
    .switches(UNIT)
    .says(|call| format!("Reporting memory breakdown on node {}...", call.node()))
    .takes(0, 0, "[--unit <unit>]"),
    Command::new(
        "report",
        "Shows everything there is to know, for who helps",
        report,
    )
    .group(GROUP)
    .of_both()
    .timed()
    .says(|call| format!("Reporting server status of node {} ...\n", call.node())),
    Command::new(
        "discover_peers",
        "Lists nodes of the cluster: this one",
        discover_peers,
    )
    .group(GROUP)
    .of(DIAGNOSTICS)
    .timed()
    .says(|_| "Discovering peers nodes ...".to_owned()),
];

/// How many bytes one unit is.
fn unit(call: &Call) -> Result<(&str, f64), Failure> {
    let name = call.option("unit").unwrap_or("gb");
    let bytes = match name.to_ascii_lowercase().as_str() {
        "bytes" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => {
            let why = format!("unit '{name}' is not supported. Please use one of: bytes, mb, gb");
            return Err(Failure::validation(call, USAGE, &why));
        }
    };
    Ok((name, bytes))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "four digits behind the point are shown"
)]
fn amount(value: &Value, (name, unit): (&str, f64)) -> String {
    let bytes = value.as_u64().unwrap_or_default();
    if unit <= 1.0 {
        return format!("{bytes} {name}");
    }
    format!("{} {name}", rounded(bytes as f64 / unit, 1e4))
}

/// As Erlang writes a rounded number: `0.05`, `57.9639`, `0.0`.
fn rounded(number: f64, digits: f64) -> String {
    format!("{:?}", (number * digits).round() / digits)
}

fn items(list: &Value) -> String {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        return "(none)\n".to_owned();
    }
    let lines = items.iter().map(|item| format!(" * {}\n", text_of(item)));
    lines.collect()
}

fn lines(list: &[String]) -> String {
    if list.is_empty() {
        return "(none)\n".to_owned();
    }
    list.iter().map(|line| format!("{line}\n")).collect()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "shares of a hundred need no more"
)]
fn breakdown(status: &Value, unit: (&str, f64), between: &str) -> String {
    let memory = &status["memory"];
    let total = memory["total"]["rss"].as_u64().unwrap_or_default().max(1);
    let parts = memory.as_object().into_iter().flatten();
    let mut parts: Vec<(&String, u64)> = parts
        .filter_map(|(name, value)| Some((name, value.as_u64()?)))
        .collect();
    parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let lines = parts.iter().map(|(name, bytes)| {
        let share = rounded(*bytes as f64 * 100.0 / total as f64, 1e2);
        format!(
            "{name}: {} ({share}{between}%)\n",
            amount(&json!(bytes), unit)
        )
    });
    lines.collect()
}

fn watermark(status: &Value, unit: (&str, f64)) -> String {
    let setting = &status["vm_memory_high_watermark_setting"];
    let limit = amount(&status["vm_memory_high_watermark_limit"], unit);
    match setting.get("relative") {
        Some(share) => format!("{share} of available memory, computed to: {limit}"),
        None => limit,
    }
}

fn show_status(call: &Call, client: &Client) -> Result<Output, Failure> {
    let unit = unit(call)?;
    let mut status = status(client)?;
    let text = status_text(&status, client, unit);
    if let Value::Object(fields) = &mut status {
        // What other commands need of it.
        fields.retain(|key, _| !["node", "state", "processors"].contains(&key.as_str()));
    }
    Ok(Output::Report { text, json: status })
}

fn status_text(status: &Value, client: &Client, unit: (&str, f64)) -> String {
    let field = |key: &str| text_of(&status[key]);
    let node = &client.node;
    let mut text = format!(
        "Runtime\n\nOS PID: {}\nOS: {}\nUptime (seconds): {}\nIs under maintenance?: {}\n\
         RabbitMQ version: {}\nNode name: {node}\nErlang configuration: {}\nCrypto library: {}\n\
         Erlang processes: {} used, {} limit\nScheduler run queue: {}\n\
         Cluster heartbeat timeout (net_ticktime): {}\nProduct: {} {}\n",
        field("pid"),
        field("os"),
        field("uptime"),
        field("is_under_maintenance"),
        field("rabbitmq_version"),
        field("erlang_version"),
        field("crypto_lib_version"),
        status["processes"]["used"],
        status["processes"]["limit"],
        field("run_queue"),
        field("net_ticktime"),
        field("product_name"),
        field("product_version"),
    );
    text += &format!(
        "\nPlugins\n\nEnabled plugin file: {}\nEnabled plugins:\n\n{}",
        field("enabled_plugin_file"),
        items(&status["active_plugins"])
    );
    text += &format!(
        "\nData directory\n\nNode data directory: {}\nRaft data directory: {}\n",
        field("data_directory"),
        field("raft_data_directory")
    );
    text += &format!("\nConfig files\n\n{}", items(&status["config_files"]));
    text += &format!("\nLog file(s)\n\n{}", items(&status["log_files"]));
    text += &format!("\nAlarms\n\n{}", lines(&alarm_lines(status, node)));
    text += &format!("\nTags\n\n{}", items(&status["tags"]));
    text += &format!(
        "\nMemory\n\nTotal memory used: {}\nCalculation strategy: {}\nMemory high watermark setting: {}\n\n{}",
        amount(&status["memory"]["total"]["rss"], unit),
        field("vm_memory_calculation_strategy"),
        watermark(status, unit),
        breakdown(status, unit, " ")
    );
    text += &format!(
        "\nFree Disk Space\n\nLow free disk space watermark: {}\nFree disk space: {}\n",
        amount(&status["disk_free_limit"], unit),
        amount(&status["disk_free"], unit)
    );
    let totals = &status["totals"];
    text += &format!(
        "\nTotals\n\nConnection count: {}\nQueue count: {}\nVirtual host count: {}\n",
        totals["connection_count"], totals["queue_count"], totals["virtual_host_count"]
    );
    let listeners = status["listeners"].as_array().map(Vec::as_slice);
    let listeners: Vec<String> = listeners.unwrap_or_default().iter().map(listener).collect();
    text + format!("\nListeners\n\n{}", lines(&listeners)).trim_end()
}

fn cluster_status(_: &Call, client: &Client) -> Result<Output, Failure> {
    let status = status(client)?;
    let node = &client.node;
    let name = client.get("cluster-name")?;
    let flags = client.list("feature-flags")?;
    let cores = &status["processors"];
    let listeners = status["listeners"].as_array().map(Vec::as_slice);
    let listeners = listeners.unwrap_or_default();
    let of_node: Vec<String> = listeners
        .iter()
        .map(|known| format!("Node: {node}, i{}", &listener(known)[1..]))
        .collect();
    let flag_lines: Vec<String> = flags
        .iter()
        .map(|flag| {
            format!(
                "Flag: {}, state: {}",
                text_of(&flag["name"]),
                text_of(&flag["state"])
            )
        })
        .collect();
    let text = format!(
        "Basics\n\nCluster name: {}\nTotal CPU cores available cluster-wide: {cores}\n\n\
         Cluster Tags\n\n(none)\n\nDisk Nodes\n\n{node}\n\nRunning Nodes\n\n{node}\n\n\
         Versions\n\n{node}: RabbitMQ {VERSION} on {}\n\n\
         CPU Cores\n\nNode: {node}, available CPU cores: {cores}\n\n\
         Maintenance status\n\nNode: {node}, status: not under maintenance\n\n\
         Alarms\n\n{}\nNetwork Partitions\n\n(none)\n\nListeners\n\n{}\nFeature flags\n\n{}",
        text_of(&name["name"]),
        text_of(&status["erlang_version"]).replace("Erlang/OTP", "Erlang"),
        lines(&alarm_lines(&status, node)),
        lines(&of_node),
        lines(&flag_lines).trim_end(),
    );
    let erlang = text_of(&status["erlang_version"]).replace("Erlang/OTP ", "");
    let json = json!({
        "cluster_name": name["name"],
        "disk_nodes": [node],
        "running_nodes": [node],
        "partitions": {},
        "versions": { node: {
            "rabbitmq_name": "RabbitMQ",
            "rabbitmq_version": VERSION,
            "erlang_version": erlang,
        }},
        "alarms": status["alarms"],
        "listeners": { node: listeners },
        "cpu_cores": { node: cores },
        "feature_flags": flags,
        "maintenance_status": { node: "not under maintenance" },
        "cluster_tags": [],
    });
    Ok(Output::Report { text, json })
}

fn server_version(_: &Call, client: &Client) -> Result<Output, Failure> {
    Ok(Output::Text(text_of(&status(client)?["rabbitmq_version"])))
}

fn erlang_version(_: &Call, client: &Client) -> Result<Output, Failure> {
    Ok(Output::Text(text_of(&status(client)?["erlang_version"])))
}

fn log_location(call: &Call, client: &Client) -> Result<Output, Failure> {
    let status = status(client)?;
    let files = status["log_files"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let mut files: Vec<String> = files.iter().map(text_of).collect();
    if !call.has("all") {
        files.truncate(1);
    }
    Ok(Output::Text(files.join("\n")))
}

/// Lines of the log that RabbitMQ shows when nobody says how many.
const LOG_LINES: i64 = 50;

/// How often a log is asked for more of it.
const LOG_LOOK: Duration = Duration::from_millis(200);

fn log_tail(call: &Call, client: &Client) -> Result<Output, Failure> {
    let lines = call.number("number")?.unwrap_or(LOG_LINES).max(0);
    let log = client.get(&format!("x/node/log?lines={lines}"))?;
    Ok(Output::Text(log_lines(&log).join("\n")))
}

fn log_tail_stream(call: &Call, client: &Client) -> Result<Output, Failure> {
    let secs = call.number("duration")?;
    let secs = secs.and_then(|secs| u64::try_from(secs).ok());
    let until = secs.map(|secs| Instant::now() + Duration::from_secs(secs));
    let mut last = client.get("x/node/log?lines=0")?["last"].clone();
    while until.is_none_or(|until| Instant::now() < until) {
        let log = client.get(&format!("x/node/log?after={last}"))?;
        for line in log_lines(&log) {
            if writeln!(stdout(), "{line}").is_err() {
                // Nobody reads them any more.
                return Ok(Output::Nothing);
            }
        }
        last = log["last"].clone();
        thread::sleep(LOG_LOOK);
    }
    Ok(Output::Nothing)
}

fn log_lines(log: &Value) -> Vec<&str> {
    let lines = log["lines"].as_array().map(Vec::as_slice);
    let lines = lines.unwrap_or_default().iter();
    lines.filter_map(Value::as_str).collect()
}

fn memory_breakdown(call: &Call, client: &Client) -> Result<Output, Failure> {
    let unit = unit(call)?;
    let status = status(client)?;
    Ok(Output::Report {
        text: breakdown(&status, unit, ""),
        json: status["memory"].clone(),
    })
}

fn report(call: &Call, client: &Client) -> Result<Output, Failure> {
    let mut text = String::new();
    for (name, list) in [
        ("status", None),
        ("cluster_status", None),
        ("list_vhosts", None),
        ("list_users", None),
        ("list_connections", None),
        ("list_queues", Some(())),
        ("list_exchanges", Some(())),
        ("list_bindings", Some(())),
        ("list_policies", Some(())),
        ("list_permissions", Some(())),
    ] {
        let vhosts = match list {
            None => vec!["/".to_owned()],
            Some(()) => client
                .list("vhosts?columns=name")?
                .iter()
                .map(|vhost| text_of(&vhost["name"]))
                .collect(),
        };
        for vhost in vhosts {
            let words = [name.to_owned(), "-p".to_owned(), vhost];
            let part = Call::parse(Program::Ctl, &words)?;
            if let Some(banner) = part.command.banner {
                text += &banner(&part).replace(&part.node(), &call.node());
                text.push('\n');
            }
            text += &crate::format::text(&part, &(part.command.run)(&part, client)?);
            text.push('\n');
        }
    }
    Ok(Output::Text(text))
}

fn discover_peers(_: &Call, client: &Client) -> Result<Output, Failure> {
    status(client)?;
    Ok(Output::Text(format!("[:\"{}\"]", client.node)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_rounded_as_in_rabbitmq() {
        let gb = ("gb", 1e9);
        assert_eq!(amount(&json!(50_000_000), gb), "0.05 gb");
        assert_eq!(amount(&json!(57_963_912_345_u64), gb), "57.9639 gb");
        assert_eq!(amount(&json!(0), gb), "0.0 gb");
        assert_eq!(amount(&json!(7), ("bytes", 1.0)), "7 bytes");
    }
}
