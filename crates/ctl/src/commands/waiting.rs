//! Waiting until the broker serves.

use std::{
    fs,
    io::{self, Write},
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{
    call::{Call, Switch},
    client::Client,
    command::Command,
    failure::{Failure, TIMEOUT, UNAVAILABLE, USAGE},
    format::Output,
    program::Program,
};

/// Between two looks for a file or a process that is not there yet; a broker that is there tells by itself.
const LOOK: Duration = Duration::from_millis(20);

/// As RabbitMQ's own.
const AWAIT_SECS: u64 = 300;
const WAIT_SECS: u64 = 10;

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "await_startup",
        "Waits until the broker serves",
        await_startup,
    )
    .group("Nodes"),
    Command::new(
        "await_online_nodes",
        "Waits until so many nodes are there: one is, when the broker serves",
        await_nodes,
    )
    .group("Cluster")
    .timed()
    .says(|call| {
        let secs = call.timeout_or(AWAIT_SECS).as_secs();
        format!(
            "Will wait for at least {} nodes to join the cluster of {}. Timeout: {secs} seconds.",
            call.argument(0),
            call.node()
        )
    })
    .takes(1, 1, "<count>"),
    Command::new(
        "wait",
        "Waits until the broker of a pid file or process id serves",
        wait,
    )
    .group("Nodes")
    .of(&[Program::Ctl, Program::Diagnostics])
    .timed()
    .switches(&[Switch("pid", Some('P'), true)])
    .takes(0, 1, "[<pidfile>] [--pid|-P <pid>]"),
];

fn timed_out(call: &Call, patience: Duration) -> Failure {
    let (name, node) = (call.command.name, call.node());
    Failure::plain(
        TIMEOUT,
        format!(
            "Error: operation {name} on node {node} timed out. Timeout value used: {}",
            patience.as_millis()
        ),
    )
}

/// Returns when the broker serves; `may_wait` is asked while there is nobody to ask.
fn serves(
    client: &Client,
    until: Instant,
    mut may_wait: impl FnMut() -> Result<(), Failure>,
) -> Result<bool, Failure> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let asking = Client {
            timeout: left,
            ..client.clone()
        };
        let path = format!("x/node?await=running&timeout={}", left.as_secs_f64());
        match asking.try_ask("GET", &path, None) {
            Ok(answer) if answer.json()["state"] == "running" => return Ok(true),
            // Not for this user: it will not get better.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(Failure::unreachable(&client.node, &error));
            }
            Ok(_) | Err(_) => {}
        }
        may_wait()?;
        if Instant::now() >= until {
            return Ok(false);
        }
        sleep(LOOK);
    }
}

fn await_startup(call: &Call, client: &Client) -> Result<Output, Failure> {
    let patience = call.timeout_or(AWAIT_SECS);
    if serves(client, Instant::now() + patience, || Ok(()))? {
        return Ok(Output::Nothing);
    }
    Err(timed_out(call, patience))
}

fn await_nodes(call: &Call, client: &Client) -> Result<Output, Failure> {
    let count = call.argument(0).parse::<u64>();
    let count = count.map_err(|_| {
        Failure::validation(call, USAGE, "Bad argument: count must be a whole number")
    })?;
    if count > 1 {
        return Err(Failure::error(
            UNAVAILABLE,
            "there will be no second node: a broker is one",
        ));
    }
    await_startup(call, client)
}

fn say(call: &Call, line: &str) {
    if !call.is_quiet() {
        // At once, because it tells what is waited for.
        let _ = writeln!(io::stdout(), "{line}").and_then(|()| io::stdout().flush());
    }
}

fn wait(call: &Call, client: &Client) -> Result<Output, Failure> {
    let patience = call.timeout_or(WAIT_SECS);
    let until = Instant::now() + patience;
    let pid = match (call.arguments.first(), call.number("pid")?) {
        (Some(_), Some(_)) => {
            let why = "\"Cannot specify both pid and pidfile\"";
            return Err(Failure::validation(call, USAGE, why));
        }
        (None, None) => {
            let why = "\"No pid or pidfile specified\"";
            return Err(Failure::validation(call, USAGE, why));
        }
        (None, Some(pid)) => pid,
        (Some(file), None) => {
            say(call, &format!("Waiting for pid file '{file}' to appear"));
            let pid = loop {
                match fs::read_to_string(file).map(|text| text.trim().parse::<i64>()) {
                    Ok(Ok(pid)) => break pid,
                    Ok(Err(_)) | Err(_) if Instant::now() >= until => {
                        return Err(timed_out(call, patience));
                    }
                    Ok(Err(_)) | Err(_) => sleep(LOOK),
                }
            };
            say(call, &format!("pid is {pid}"));
            pid
        }
    };
    let node = call.node();
    say(
        call,
        &format!(
            "Waiting for erlang distribution on node '{node}' while OS process '{pid}' is running"
        ),
    );
    let lives = || {
        if Path::new("/proc").join(pid.to_string()).is_dir() {
            Ok(())
        } else {
            Err(Failure::error(UNAVAILABLE, "process_not_running"))
        }
    };
    lives()?;
    let mut is_announced = false;
    let mut announce = || {
        if !is_announced {
            let line =
                format!("Waiting for applications 'rabbit_and_plugins' to start on node '{node}'");
            say(call, &line);
            is_announced = true;
        }
    };
    if client.try_ask("GET", "x/node", None).is_ok() {
        announce();
    }
    if !serves(client, until, lives)? {
        return Err(timed_out(call, patience));
    }
    announce();
    Ok(Output::Text(format!(
        "Applications 'rabbit_and_plugins' are running on node '{node}'"
    )))
}
