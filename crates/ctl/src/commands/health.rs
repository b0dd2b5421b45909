//! Health checks: a sentence and 0, or a reason and 69.

use std::net::{TcpStream, ToSocketAddrs};

use serde_json::{Value, json};

use crate::{
    call::{Call, Switch},
    client::Client,
    command::Command,
    failure::{Failure, UNAVAILABLE, USAGE},
    format::Output,
    program::Program,
};

const GROUP: &str = "Monitoring, observability and health checks";
const DIAGNOSTICS: &[Program] = &[Program::Diagnostics];

pub(super) const COMMANDS: &[Command] = &[
    Command::new("ping", "Checks that the broker's process answers", ping)
        .group(GROUP)
        .of_both()
        .timed()
        .announces(|call| {
            format!(
                "Will ping {}. This only checks if the OS process is running and registered with epmd. Timeout: {} ms.",
                call.node(),
                call.timeout().as_millis()
            )
        }),
    Command::new("check_running", "Checks that the broker serves", check_running)
        .group(GROUP)
        .of(DIAGNOSTICS)
        .timed()
        .announces(|call| format!("Checking if RabbitMQ is running on node {} ...", call.node())),
    Command::new("is_running", "Tells whether the broker serves", is_running)
        .group(GROUP)
        .of(DIAGNOSTICS)
        .timed()
        .says(|call| format!("Asking node {} for its status ...", call.node())),
    Command::new("is_booting", "Tells whether the broker starts", is_booting)
        .group(GROUP)
        .of(DIAGNOSTICS)
        .timed()
        .says(|call| format!("Asking node {} for its boot status ...", call.node())),
    Command::new("check_port_connectivity", "Connects to every port the broker listens on", check_connectivity)
        .group(GROUP)
        .of(DIAGNOSTICS)
        .timed()
        .switches(&[Switch("address", Some('a'), true)])
        .says(|call| {
            format!(
                "Testing TCP connections to all active listeners on node {} using hostname resolution ...",
                call.node()
            )
        })
        .takes(0, 0, "[--address <target address>]"),
    Command::new("check_port_listener", "Checks that the broker listens on a port", check_port)
        .group(GROUP)
        .of(DIAGNOSTICS)
        .timed()
        .says(|call| {
            let (node, port) = (call.node(), call.argument(0));
            format!("Asking node {node} if there's an active listener on port {port} ...")
        })
        .takes(1, 1, "<port>"),
    Command::new("check_protocol_listener", "Checks that the broker listens for a protocol", check_protocol)
        .group(GROUP)
        .of(DIAGNOSTICS)
        .timed()
        .says(|call| {
            let (node, protocol) = (call.node(), call.argument(0));
            format!("Asking node {node} if there's an active listener for protocol {protocol} ...")
        })
        .takes(1, 1, "<protocol>"),
    Command::new("listeners", "Lists what the broker listens on", listeners)
        .group(GROUP)
        .of(DIAGNOSTICS)
        .timed()
        .says(|call| format!("Asking node {} to report its protocol listeners ...", call.node())),
    Command::new("alarms", "Tells which alarms are on", alarms)
        .group(GROUP)
        .of(DIAGNOSTICS)
        .timed()
        .says(|call| format!("Asking node {} to report any known resource alarms ...", call.node())),
    Command::new("check_alarms", "Checks that no alarm is on", check_alarms)
        .group(GROUP)
        .of(DIAGNOSTICS)
        .timed()
        .says(|call| format!("Asking node {} to report any local resource alarms ...", call.node())),
    Command::new("check_local_alarms", "Is always well, as RabbitMQ's: use check_alarms", check_local_alarms)
        .group(GROUP)
        .of(DIAGNOSTICS)
        .timed(),
    Command::new("check_virtual_hosts", "Checks that all vhosts run", check_vhosts)
        .group(GROUP)
        .of(DIAGNOSTICS)
        .timed()
        .says(|call| format!("Checking if all vhosts are running on node {} ...", call.node())),
    Command::new("check_certificate_expiration", "Checks that no certificate runs out soon", check_certificates)
        .group(GROUP)
        .of(DIAGNOSTICS)
        .switches(&[Switch("unit", None, true), Switch("within", None, true)])
        .says(|call| {
            format!("Checking certificate expiration for all certificates on node {} ...", call.node())
        })
        .takes(0, 0, "[--within <period>] [--unit <unit>]"),
    Command::new("check_if_metadata_store_is_initialized", "Checks that the broker knows its data", initialized)
        .group(GROUP)
        .of(DIAGNOSTICS)
        .timed(),
    Command::new("check_if_cluster_has_classic_queue_mirroring_policy", "Checks that no policy has keys of mirroring", no_mirroring)
        .group(GROUP)
        .of(&[Program::Diagnostics, Program::Queues])
        .timed()
        .says(|_| "Checking if cluster has any classic queue mirroring policy ...".to_owned()),
    Command::new("node_health_check", "Does nothing and is always well, as RabbitMQ's", node_health_check)
        .group("Deprecated")
        .of_both()
        .timed(),
];

fn ping(call: &Call, client: &Client) -> Result<Output, Failure> {
    match client.try_ask("GET", "x/node", None) {
        Ok(answer) if answer.is_good() => Ok(Output::Text("Ping succeeded".to_owned())),
        Ok(_) | Err(_) => Err(Failure::error(
            UNAVAILABLE,
            format!(
                "Failed to connect and authenticate to {} in {} ms",
                client.node,
                call.timeout().as_millis()
            ),
        )),
    }
}

fn runs(client: &Client) -> Result<bool, Failure> {
    Ok(client.get("x/node")?["state"] == "running")
}

fn running(node: &str) -> String {
    format!("RabbitMQ on node {node} is fully booted and running")
}

fn not_running(node: &str) -> String {
    format!(
        "RabbitMQ on node {node} is not running or has not fully booted yet (check with is_booting)"
    )
}

fn check_running(_: &Call, client: &Client) -> Result<Output, Failure> {
    if runs(client)? {
        return Ok(Output::Text(running(&client.node)));
    }
    Err(Failure::error(UNAVAILABLE, not_running(&client.node)))
}

fn is_running(_: &Call, client: &Client) -> Result<Output, Failure> {
    let runs = runs(client)?;
    let text = if runs {
        running(&client.node)
    } else {
        not_running(&client.node)
    };
    Ok(Output::Text(text))
}

fn is_booting(_: &Call, client: &Client) -> Result<Output, Failure> {
    let node = &client.node;
    let is_booting = client.get("x/node")?["state"] == "booting";
    Ok(Output::Text(if is_booting {
        format!("RabbitMQ on node {node} is booting")
    } else {
        format!(
            "RabbitMQ on node {node} is fully booted (check with is_running), stopped or has not started booting yet"
        )
    }))
}

/// The status of a broker that serves.
pub(super) fn status(client: &Client) -> Result<Value, Failure> {
    let status = client.get("x/node/status")?;
    if status["state"] == "running" {
        Ok(status)
    } else {
        Err(crate::command::not_running())
    }
}

fn all_listeners(client: &Client) -> Result<Vec<Value>, Failure> {
    let mut status = status(client)?;
    match status["listeners"].take() {
        Value::Array(list) => Ok(list),
        _ => Ok(Vec::new()),
    }
}

fn ports(listeners: &[Value]) -> Vec<u16> {
    let ports = listeners.iter().filter_map(|known| known["port"].as_u64());
    let mut ports: Vec<u16> = ports.filter_map(|port| port.try_into().ok()).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

fn list(ports: &[u16]) -> String {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    ports.join(", ")
}

fn check_connectivity(call: &Call, client: &Client) -> Result<Output, Failure> {
    let listeners = all_listeners(client)?;
    let node = &client.node;
    let host = node.split_once('@').map_or("localhost", |(_, host)| host);
    let host = call.option("address").unwrap_or(host);
    let all = ports(&listeners);
    let patience = call.timeout();
    let mut text = String::new();
    let mut closed = Vec::new();
    for &port in &all {
        text.push_str(&format!("Will connect to {host}:{port}\n"));
        // A listener on one address only is asked there, whatever the machine's name stands for.
        let own = listeners.iter().filter(|known| known["port"] == port);
        let own = own.filter_map(|known| known["interface"].as_str());
        let own =
            own.filter(|ip| !["[::]", "0.0.0.0"].contains(ip) && call.option("address").is_none());
        let targets: Vec<String> = own.map(|ip| format!("{ip}:{port}")).collect();
        let targets = if targets.is_empty() {
            vec![format!("{host}:{port}")]
        } else {
            targets
        };
        let addresses = targets
            .iter()
            .filter_map(|target| target.to_socket_addrs().ok());
        let mut addresses = addresses.flatten();
        if !addresses.any(|address| TcpStream::connect_timeout(&address, patience).is_ok()) {
            closed.push(port);
        }
    }
    let listed = list(&all);
    if closed.is_empty() {
        return Ok(Output::Text(format!(
            "{text}Successfully connected to ports {listed} on node {node} (using node hostname resolution)"
        )));
    }
    Err(Failure::error(
        UNAVAILABLE,
        format!(
            "Connection to ports of the following listeners on node {node} failed: {}",
            list(&closed)
        ),
    ))
}

fn check_port(call: &Call, client: &Client) -> Result<Output, Failure> {
    let port: u16 = call
        .argument(0)
        .parse()
        .map_err(|_| Failure::validation(call, USAGE, "Bad argument: port must be a number"))?;
    let ports = ports(&all_listeners(client)?);
    let node = &client.node;
    if ports.contains(&port) {
        return Ok(Output::Text(format!(
            "A listener for port {port} is running on node {node}."
        )));
    }
    Err(Failure::plain(
        UNAVAILABLE,
        format!(
            "No listener for port {port} is active on node {node}. Found listeners that use the following ports: {}",
            list(&ports)
        ),
    ))
}

fn check_protocol(call: &Call, client: &Client) -> Result<Output, Failure> {
    let asked = call.argument(0);
    let listeners = all_listeners(client)?;
    let mut names: Vec<&str> = listeners
        .iter()
        .filter_map(|known| known["protocol"].as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    let normal = match asked.to_ascii_lowercase().as_str() {
        "amqp" | "amqp091" | "amqp0.9.1" | "amqp0-9-1" | "amqp10" | "amqp1.0" => "amqp".to_owned(),
        "amqps" | "amqp/ssl" => "amqp/ssl".to_owned(),
        other => other.to_owned(),
    };
    let node = &client.node;
    if names.contains(&normal.as_str()) {
        return Ok(Output::Text(format!(
            "A listener for protocol {asked} is running on node {node}."
        )));
    }
    Err(Failure::error(
        UNAVAILABLE,
        format!(
            "No listener for protocol {asked} is active on node {node}. Found listeners for the following protocols: {}",
            names.join(", ")
        ),
    ))
}

/// A listener as a line.
pub(super) fn listener(known: &Value) -> String {
    let text = |key: &str| known[key].as_str().unwrap_or_default();
    format!(
        "Interface: {}, port: {}, protocol: {}, purpose: {}",
        text("interface"),
        known["port"],
        text("protocol"),
        text("purpose")
    )
}

fn listeners(_: &Call, client: &Client) -> Result<Output, Failure> {
    let list = all_listeners(client)?;
    let lines: Vec<String> = list.iter().map(listener).collect();
    Ok(Output::Report {
        text: lines.join("\n"),
        json: json!({"result": "ok", "node": client.node, "listeners": list}),
    })
}

/// Alarms as lines.
pub(super) fn alarm_lines(status: &Value, node: &str) -> Vec<String> {
    let alarms = status["alarms"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let lines = alarms.iter().map(|alarm| match alarm["resource"].as_str() {
        Some("memory") => format!("Memory alarm on node {node}"),
        _ => format!("Free disk space alarm on node {node}"),
    });
    lines.collect()
}

fn no_alarms(node: &str) -> String {
    format!("Node {node} reported no alarms, local or clusterwide")
}

fn alarms(_: &Call, client: &Client) -> Result<Output, Failure> {
    let status = status(client)?;
    let lines = alarm_lines(&status, &client.node);
    let text = if lines.is_empty() {
        no_alarms(&client.node)
    } else {
        lines.join("\n")
    };
    Ok(Output::Report {
        text,
        json: json!({"result": "ok", "node": client.node, "local": status["alarms"], "global": status["alarms"]}),
    })
}

fn check_alarms(_: &Call, client: &Client) -> Result<Output, Failure> {
    let status = status(client)?;
    let lines = alarm_lines(&status, &client.node);
    if lines.is_empty() {
        return Ok(Output::Text(no_alarms(&client.node)));
    }
    Err(Failure::plain(UNAVAILABLE, lines.join("\n")))
}

fn check_local_alarms(call: &Call, client: &Client) -> Result<Output, Failure> {
    status(client)?;
    let text = format!("Node {} reported no local alarms", client.node);
    if call.is_quiet() {
        return Ok(Output::Text(text));
    }
    Ok(Output::Text(format!(
        "This command is DEPRECATED and is a no-op. It will be removed in a future version.\n{text}"
    )))
}

fn check_vhosts(_: &Call, client: &Client) -> Result<Output, Failure> {
    // A broker that serves has all its vhosts.
    status(client)?;
    Ok(Output::Text(format!(
        "Node {} reported all vhosts as running",
        client.node
    )))
}

fn check_certificates(call: &Call, client: &Client) -> Result<Output, Failure> {
    let unit = call.option("unit").unwrap_or("weeks");
    let within = call.number("within")?.unwrap_or(4);
    let answer = client.ask(
        "GET",
        &format!("health/checks/certificate-expiration/{within}/{unit}"),
        None,
    )?;
    match answer.status {
        200 => Ok(Output::Text(format!(
            "No certificates are expiring within {within} {unit}."
        ))),
        400 => Err(Failure::validation(call, USAGE, &answer.why())),
        _ => Err(Failure::error(UNAVAILABLE, answer.why())),
    }
}

fn initialized(_: &Call, client: &Client) -> Result<Output, Failure> {
    status(client)?;
    Ok(Output::Text(format!(
        "Metadata store on node {} has completed its initialization",
        client.node
    )))
}

fn no_mirroring(_: &Call, client: &Client) -> Result<Output, Failure> {
    let policies = client.list("policies")?;
    let is_mirroring = |policy: &&Value| {
        let keys = policy["definition"].as_object();
        keys.is_some_and(|keys| keys.keys().any(|key| key.starts_with("ha-")))
    };
    if policies.iter().find(is_mirroring).is_none() {
        return Ok(Output::Text(
            "Cluster reported no policies that enable classic queue mirroring".to_owned(),
        ));
    }
    Err(Failure::error(
        UNAVAILABLE,
        "Cluster reported policies that enable classic queue mirroring: they have no effect",
    ))
}

fn node_health_check(_: &Call, _: &Client) -> Result<Output, Failure> {
    Ok(Output::Verbatim(
        "This command is DEPRECATED and is a no-op. It will be removed in a future version. \n\
         Use one of the options covered in https://www.rabbitmq.com/monitoring.html#health-checks instead."
            .to_owned(),
    ))
}
