//! What the node is told: to stop, to start, to forget, where its limits are.

use std::{
    fs,
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    call::{Call, Switch},
    client::{Client, as_told, segment},
    command::{Command, still_running},
    commands::parameters::json_of,
    failure::{DATA, Failure, TIMEOUT, UNAVAILABLE, USAGE},
    format::{Output, Rows},
    term::Term,
};

const GROUP: &str = "Nodes";
const SETTINGS: &str = "Configuration and Environment";

/// Between two looks whether the process has ended.
const LOOK: Duration = Duration::from_millis(20);

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "stop_app",
        "Stops the broker and leaves its process running",
        stop_app,
    )
    .group(GROUP)
    .says(|call| format!("Stopping rabbit application on node {} ...", call.node())),
    Command::new(
        "start_app",
        "Starts the broker again that stop_app has stopped",
        start_app,
    )
    .group(GROUP)
    .says(|call| format!("Starting node {} ...", call.node())),
    Command::new("reset", "Forgets everything stored; after stop_app", reset)
        .group(GROUP)
        .says(|call| format!("Resetting node {} ...", call.node())),
    Command::new("force_reset", "The same as reset", reset)
        .group("Cluster")
        .says(|call| format!("Forcefully resetting node {} ...", call.node())),
    Command::new(
        "force_boot",
        "Has nothing to do: the node waits for no others",
        force_boot,
    )
    .group("Cluster"),
    Command::new("stop", "Ends the broker's process in order", stop)
        .group(GROUP)
        .switches(&[Switch("idempotent", None, false)])
        .says(|call| match call.arguments.first() {
            Some(file) => format!(
                "Stopping and halting node {} (will monitor pid file {file}) ...",
                call.node()
            ),
            None => format!("Stopping and halting node {} ...", call.node()),
        })
        .takes(0, 1, "[--idempotent] [<pidfile>]"),
    Command::new(
        "shutdown",
        "Ends the broker's process in order and waits for it",
        shutdown,
    )
    .group(GROUP)
    .switches(&[Switch("wait", None, false), Switch("no-wait", None, false)])
    .timed()
    .takes(0, 0, "[--wait]"),
    Command::new("set_log_level", "Sets how much is logged", set_log_level)
        .group(GROUP)
        .says(|call| format!("Setting log level to \"{}\" ...", call.arguments[0]))
        .takes(1, 1, "<log_level>"),
    Command::new("rotate_logs", "Does nothing", rotate_logs).group(GROUP),
    Command::new(
        "force_gc",
        "Has nothing to do: memory is given back as it gets free",
        only_asks,
    )
    .group("Operations")
    .timed()
    .says(|call| {
        let node = call.node();
        format!("Will ask all processes on node {node} to schedule a full sweep GC")
    }),
    Command::new(
        "reset_stats_db",
        "Has nothing to do: counts are read when somebody asks",
        only_asks,
    )
    .group("Management plugin")
    .switches(&[Switch("all", None, false)])
    .says(|call| format!("Resetting statistics database on node {}", call.node()))
    .takes(0, 0, "[--all]"),
    Command::new(
        "reconcile_vhosts",
        "Has nothing to do: all vhosts run",
        only_asks,
    )
    .group("Virtual hosts")
    .timed()
    .says(|_| {
        "Will try to initiate virtual host reconciliation on all reachable cluster nodes..."
            .to_owned()
    }),
    Command::new(
        "set_vm_memory_high_watermark",
        "Sets from how much memory on publishers wait",
        set_memory,
    )
    .group(SETTINGS)
    .says(|call| match call.argument(0) {
        "absolute" => {
            format!(
                "Setting memory threshold on {} to {} bytes ...",
                call.node(),
                call.argument(1)
            )
        }
        fraction => format!(
            "Setting memory threshold on {} to {fraction} ...",
            call.node()
        ),
    })
    .takes(1, 2, "<fraction> | absolute <value>"),
    Command::new(
        "set_disk_free_limit",
        "Sets below how much free space publishers wait",
        set_disk,
    )
    .group(SETTINGS)
    .says(|call| match call.argument(0) {
        "mem_relative" => format!(
            "Setting disk free limit on {} to {} times the total RAM ...",
            call.node(),
            call.argument(1)
        ),
        bytes => format!(
            "Setting disk free limit on {} to {bytes} bytes ...",
            call.node()
        ),
    })
    .takes(1, 2, "<disk_limit> | mem_relative <fraction>"),
    Command::new(
        "enable_feature_flag",
        "Has nothing to do: all features are on",
        enable_feature,
    )
    .group("Feature flags")
    .switches(&[
        Switch("experimental", Some('e'), false),
        Switch("opt-in", Some('o'), false),
    ])
    .says(|call| match call.argument(0) {
        "all" => "Enabling all feature flags ...".to_owned(),
        name => format!("Enabling feature flag \"{name}\" ..."),
    })
    .takes(1, 1, "[--opt-in] <all | feature_flag>"),
    Command::new(
        "list_feature_flags",
        "Lists features that tools look for",
        list_features,
    )
    .group("Feature flags")
    .of_both()
    .timed()
    .says(|_| "Listing feature flags ...".to_owned())
    .takes(0, usize::MAX, "[<column> ...]"),
    Command::new(
        "list_deprecated_features",
        "Lists features that will go, or went",
        list_deprecated,
    )
    .group("Feature flags")
    .of_both()
    .pretty()
    .switches(&[Switch("used", None, false)])
    .says(|_| "Listing deprecated features ...".to_owned())
    .takes(0, usize::MAX, "[--used] [<column> ...]"),
    Command::new(
        "check_if_any_deprecated_features_are_used",
        "Checks whether features are in use that will go",
        no_deprecated,
    )
    .group("Monitoring, observability and health checks")
    .of_both()
    .timed()
    .says(|_| "Checking if any deprecated features are used ...".to_owned()),
];

/// Tells the process something; the text of a conflict says why not.
fn tell(client: &Client, order: &str) -> Result<Output, Failure> {
    let path = format!("x/node/{order}");
    client.change("POST", &path, None, |answer| match answer.status {
        409 if order == "reset" && answer.why().contains("still runs") => still_running(),
        _ => as_told(answer),
    })?;
    Ok(Output::Nothing)
}

fn stop_app(_: &Call, client: &Client) -> Result<Output, Failure> {
    tell(client, "stop-app")
}

fn start_app(_: &Call, client: &Client) -> Result<Output, Failure> {
    tell(client, "start-app")
}

fn reset(_: &Call, client: &Client) -> Result<Output, Failure> {
    tell(client, "reset")
}

fn force_boot(_: &Call, client: &Client) -> Result<Output, Failure> {
    if client.get("x/node")?["state"] == "running" {
        return Err(still_running());
    }
    Ok(Output::Nothing)
}

/// Ends the process and waits until it is gone.
fn end(client: &Client, until: Option<Instant>) -> Result<(), Failure> {
    let pid = client.get("x/node")?["pid"].to_string();
    tell(client, "stop")?;
    let process = Path::new("/proc").join(pid);
    while process.is_dir() && !is_zombie(&process) {
        if until.is_some_and(|until| Instant::now() >= until) {
            return Err(Failure::error(TIMEOUT, "the process still runs"));
        }
        sleep(LOOK);
    }
    Ok(())
}

/// It has ended, and whoever started it has not looked yet.
fn is_zombie(process: &Path) -> bool {
    let status = fs::read_to_string(process.join("stat")).unwrap_or_default();
    let state = status
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .trim_start()
        .to_owned();
    state.starts_with('Z') || state.starts_with('X')
}

fn stop(call: &Call, client: &Client) -> Result<Output, Failure> {
    match end(client, None) {
        Err(failure) if call.has("idempotent") && failure.code == UNAVAILABLE => Ok(Output::Text(
            format!("Node {} is no longer running", call.node()),
        )),
        Err(failure) => Err(failure),
        Ok(()) => Ok(Output::Nothing),
    }
}

fn shutdown(call: &Call, client: &Client) -> Result<Output, Failure> {
    let pid = client.get("x/node")?["pid"].to_string();
    if call.has("no-wait") {
        tell(client, "stop")?;
        return Ok(Output::Text(format!(
            "Shutting down RabbitMQ node {} running at PID {pid}",
            call.node()
        )));
    }
    end(client, Some(Instant::now() + call.timeout()))?;
    let node = call.node();
    Ok(Output::Text(format!(
        "Shutting down RabbitMQ node {node} running at PID {pid}\n\
         Waiting for PID {pid} to terminate\n\
         RabbitMQ node {node} running at PID {pid} successfully shut down"
    )))
}

/// The levels that RabbitMQ knows.
const LEVELS: [&str; 6] = ["debug", "info", "warning", "error", "critical", "none"];

fn set_log_level(call: &Call, client: &Client) -> Result<Output, Failure> {
    let level = &call.arguments[0];
    if !LEVELS.contains(&level.as_str()) {
        let levels = LEVELS.join(", ");
        let why = format!("level {level} is not supported. Try one of {levels}");
        return Err(Failure::error(UNAVAILABLE, why));
    }
    let body = json!({ "level": level });
    client.change("PUT", "x/node/log-level", Some(&body), as_told)?;
    Ok(Output::Nothing)
}

fn rotate_logs(_: &Call, _: &Client) -> Result<Output, Failure> {
    Err(Failure::error(
        UNAVAILABLE,
        "This command does not rotate logs anymore [deprecated]",
    ))
}

fn only_asks(_: &Call, client: &Client) -> Result<Output, Failure> {
    client.get("x/node")?;
    Ok(Output::Nothing)
}

/// A share of the memory there is.
fn fraction(call: &Call, text: &str) -> Result<Value, Failure> {
    let bad = |why: &str| Failure::validation(call, DATA, why);
    let fraction: f64 = text.parse().map_err(|_| bad("Bad argument."))?;
    if !(0.0..=1.0).contains(&fraction) {
        return Err(bad(
            "Bad argument: The threshold should be a fraction between 0.0 and 1.0",
        ));
    }
    Ok(json!({ "fraction": fraction }))
}

/// Bytes, with a unit or without.
fn bytes(call: &Call, text: &str) -> Result<Value, Failure> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let units = [
        "", "b", "k", "kb", "kib", "m", "mb", "mib", "g", "gb", "gib", "t", "tb", "tib",
    ];
    let unit = text[digits..].trim().to_ascii_lowercase();
    if digits == 0 || !units.contains(&unit.as_str()) {
        return Err(Failure::validation(call, DATA, "Bad argument."));
    }
    Ok(json!({ "bytes": text }))
}

fn limit(
    call: &Call,
    client: &Client,
    path: &str,
    relative: Option<&str>,
    absolute: Option<&str>,
) -> Result<Output, Failure> {
    let body = match (relative, absolute) {
        (Some(text), _) => fraction(call, text)?,
        (None, Some(text)) => bytes(call, text)?,
        (None, None) => return Err(Failure::validation(call, USAGE, "not enough arguments.")),
    };
    client.change("PUT", path, Some(&body), as_told)?;
    Ok(Output::Nothing)
}

fn set_memory(call: &Call, client: &Client) -> Result<Output, Failure> {
    let second = call.arguments.get(1).map(String::as_str);
    let path = "x/node/memory-limit";
    match (call.argument(0), second) {
        ("absolute", bytes) => limit(call, client, path, None, bytes),
        (_, Some(_)) => Err(Failure::validation(call, USAGE, "too many arguments.")),
        (fraction, None) => limit(call, client, path, Some(fraction), None),
    }
}

fn set_disk(call: &Call, client: &Client) -> Result<Output, Failure> {
    let second = call.arguments.get(1).map(String::as_str);
    let path = "x/node/disk-free-limit";
    match (call.argument(0), second) {
        ("mem_relative", fraction) => limit(call, client, path, fraction, None),
        (_, Some(_)) => Err(Failure::validation(call, USAGE, "too many arguments.")),
        (bytes, None) => limit(call, client, path, None, Some(bytes)),
    }
}

fn enable_feature(call: &Call, client: &Client) -> Result<Output, Failure> {
    let name = call.argument(0);
    let known = client.list("feature-flags")?;
    if name == "all" {
        // Those that are listed are enabled; the API knows no such word.
        return Ok(Output::Nothing);
    }
    if !known.iter().any(|flag| flag["name"] == name) {
        return Err(Failure::error(
            USAGE,
            format!("This feature flag is not supported by node {}", call.node()),
        ));
    }
    let path = format!("feature-flags/{}/enable", segment(name));
    client.change("PUT", &path, Some(&json_of("{}")?), as_told)?;
    Ok(Output::Nothing)
}

const FEATURE_COLUMNS: &[super::lists::Column] = &[
    super::lists::Column("name", |flag| Term::plain(&flag["name"])),
    super::lists::Column("state", |flag| Term::plain(&flag["state"])),
    super::lists::Column("stability", |flag| Term::plain(&flag["stability"])),
    super::lists::Column("provided_by", |flag| Term::plain(&flag["provided_by"])),
    super::lists::Column("desc", |flag| Term::plain(&flag["desc"])),
    super::lists::Column("doc_url", |flag| Term::plain(&flag["doc_url"])),
];

fn list_features(call: &Call, client: &Client) -> Result<Output, Failure> {
    let list = || client.list("feature-flags");
    let rows = super::lists::rows(call, FEATURE_COLUMNS, &["name", "state"], list)?;
    Ok(Output::Rows(Rows {
        is_stream: false,
        ..rows
    }))
}

const DEPRECATED_COLUMNS: &[super::lists::Column] = &[
    super::lists::Column("name", |feature| Term::plain(&feature["name"])),
    super::lists::Column("deprecation_phase", |feature| {
        Term::plain(&feature["deprecation_phase"])
    }),
    super::lists::Column("provided_by", |feature| {
        Term::plain(&feature["provided_by"])
    }),
    super::lists::Column("desc", |feature| Term::plain(&feature["desc"])),
    super::lists::Column("doc_url", |feature| Term::plain(&feature["doc_url"])),
    super::lists::Column("state", |feature| Term::plain(&feature["state"])),
];

fn list_deprecated(call: &Call, client: &Client) -> Result<Output, Failure> {
    let list = || {
        let mut list = client.list("deprecated-features")?;
        if call.has("used") {
            let used = client.list("deprecated-features/used")?;
            list.retain(|feature| used.iter().any(|other| other["name"] == feature["name"]));
        }
        list.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
        Ok(list)
    };
    let default = &["name", "deprecation_phase", "state"];
    let rows = super::lists::rows(call, DEPRECATED_COLUMNS, default, list)?;
    Ok(Output::Rows(Rows {
        is_stream: false,
        ..rows
    }))
}

fn no_deprecated(_: &Call, client: &Client) -> Result<Output, Failure> {
    let used = client.list("deprecated-features/used")?;
    if used.is_empty() {
        return Ok(Output::Text(
            "Cluster reported no deprecated features in use".to_owned(),
        ));
    }
    let names: Vec<&str> = used.iter().filter_map(|row| row["name"].as_str()).collect();
    Err(Failure::error(UNAVAILABLE, names.join("\n")))
}
