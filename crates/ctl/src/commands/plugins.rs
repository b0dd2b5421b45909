//! rabbitmq-plugins: works with the file of enabled plugins, and without a broker.

use std::io::Write;

use regex::Regex;
use serde_json::{Value, json};

use crate::{
    call::{Call, Switch},
    client::Client,
    command::Command,
    commands::help::VERSION,
    failure::{DATA, Failure, UNAVAILABLE, USAGE},
    format::Output,
    plugins::{enabled_plugins_file, is_known, known, missed, read, with_implied, write},
    program::Program,
};

const GROUP: &str = "Plugin Management";
const PLUGINS: &[Program] = &[Program::Plugins];
const ONLINE: Switch = Switch("online", None, false);
const OFFLINE: Switch = Switch("offline", None, false);

pub(super) const COMMANDS: &[Command] = &[
    Command::new("list", "Lists plugins and which are enabled", list)
        .group(GROUP)
        .of(PLUGINS)
        .timed()
        .switches(&[
            Switch("verbose", Some('v'), false),
            Switch("minimal", Some('m'), false),
            Switch("enabled", Some('E'), false),
            Switch("implicitly-enabled", Some('e'), false),
        ])
        .says(|call| format!("Listing plugins with pattern \"{}\" ...", pattern(call)))
        .takes(
            0,
            1,
            "[pattern] [--verbose] [--minimal] [--enabled] [--implicitly-enabled]",
        ),
    Command::new("enable", "Enables plugins", enable)
        .group(GROUP)
        .of(PLUGINS)
        .switches(&[ONLINE, OFFLINE, Switch("all", None, false)])
        .says(|call| changing(call, "Enabling"))
        .takes(
            0,
            usize::MAX,
            "<plugin1> [ <plugin2>] | --all [--offline] [--online]",
        ),
    Command::new("disable", "Disables plugins", disable)
        .group(GROUP)
        .of(PLUGINS)
        .switches(&[ONLINE, OFFLINE, Switch("all", None, false)])
        .says(|call| changing(call, "Disabling"))
        .takes(
            0,
            usize::MAX,
            "<plugin1> [ <plugin2>] | --all [--offline] [--online]",
        ),
    Command::new("set", "Enables these plugins and disables all others", set)
        .group(GROUP)
        .of(PLUGINS)
        .switches(&[ONLINE, OFFLINE])
        .says(|call| changing(call, "Enabling"))
        .takes(
            0,
            usize::MAX,
            "<plugin1> [ <plugin2>] [--offline] [--online]",
        ),
    Command::new("is_enabled", "Checks that plugins are enabled", is_enabled)
        .group(GROUP)
        .of(PLUGINS)
        .switches(&[ONLINE, OFFLINE])
        .says(|call| {
            let (plugins, are) = named(call);
            if call.has("offline") {
                return format!("Inferring if {plugins} {are} from local environment...");
            }
            format!("Asking node {} if {plugins} {are} enabled...", call.node())
        })
        .takes(
            1,
            usize::MAX,
            "<plugin1> [ <plugin2>] [--offline] [--online]",
        ),
    Command::new(
        "directories",
        "Shows where plugins and the list of enabled ones are",
        directories,
    )
    .group(GROUP)
    .of(PLUGINS)
    .switches(&[ONLINE, OFFLINE])
    .says(|call| {
        if call.has("offline") {
            return "Listing plugin directories inferred from local environment...".to_owned();
        }
        format!("Listing plugin directories used by node {}", call.node())
    })
    .takes(0, 0, "[--offline] [--online]"),
];

fn named(call: &Call) -> (String, &'static str) {
    match call.arguments.as_slice() {
        [one] => (format!("plugin {one}"), "is"),
        several => (format!("plugins {}", several.join(", ")), "are"),
    }
}

fn changing(call: &Call, what: &str) -> String {
    if call.has("all") {
        return format!("{what} ALL plugins on node {}", call.node());
    }
    let names = call.arguments.join("\n");
    format!("{what} plugins on node {}:\n{names}", call.node())
}

fn unreadable(error: &std::io::Error) -> Failure {
    let file = enabled_plugins_file();
    Failure::error(
        DATA,
        format!(
            "cannot use the file of enabled plugins {}: {error}",
            file.display()
        ),
    )
}

fn enabled() -> Result<Vec<String>, Failure> {
    read(&enabled_plugins_file()).map_err(|error| unreadable(&error))
}

/// Whether a broker answers that is not to be left alone.
fn is_online(call: &Call, client: &Client) -> Result<bool, Failure> {
    if call.has("offline") {
        if call.has("online") {
            let why = "Cannot set both online and offline";
            return Err(Failure::validation(call, USAGE, why));
        }
        return Ok(false);
    }
    match client.try_ask("GET", "x/node", None) {
        Ok(_) => Ok(true),
        Err(error) if call.has("online") => Err(Failure::unreachable(&client.node, &error)),
        Err(_) => Ok(false),
    }
}

/// A line for those that are listed and unknown, as they may be of a later version or of somebody's own.
fn missing(names: &[String]) -> String {
    let missing: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| !is_known(name))
        .collect();
    if missing.is_empty() {
        return String::new();
    }
    format!(
        "WARNING - plugins currently enabled but missing: {}\n\n",
        missing.join(",")
    )
}

/// Tells whoever enables plugins what they do not get by it: beside what RabbitMQ prints, which scripts read.
fn tell_what_is_missed(names: &[String]) {
    // Those that nobody knows are in what RabbitMQ prints.
    let known = names.iter().filter(|name| is_known(name));
    for words in known.filter_map(|name| missed(name)) {
        // Who no longer reads misses nothing.
        let _ = writeln!(std::io::stderr(), "WARNING - {words}");
    }
}

/// What a change did.
struct Changed {
    before: Vec<String>,
    after: Vec<String>,
    is_online: bool,
    warning: String,
}

fn change(
    call: &Call,
    client: &Client,
    to: impl FnOnce(&[String]) -> Vec<String>,
) -> Result<Changed, Failure> {
    let is_online = is_online(call, client)?;
    let before = enabled()?;
    let after = to(&before);
    write(&enabled_plugins_file(), &after).map_err(|error| unreadable(&error))?;
    if is_online {
        let enabled = json!({ "enabled": with_implied(&after) });
        let answer = client.try_ask("PUT", "x/node/plugins", Some(&enabled));
        // A broker that was stopped by stop_app reads the file when it starts.
        match answer {
            Ok(answer) if !answer.is_good() && answer.status != 503 => {
                return Err(Failure::error(UNAVAILABLE, answer.why()));
            }
            Ok(_) | Err(_) => {}
        }
    }
    let effective = |names: &[String]| {
        let mut names = with_implied(names);
        names.retain(|name| is_known(name));
        names
    };
    let mut mentioned = after.clone();
    mentioned.extend(call.arguments.iter().cloned());
    mentioned.sort();
    mentioned.dedup();
    Ok(Changed {
        before: effective(&before),
        after: effective(&after),
        is_online,
        warning: missing(&mentioned),
    })
}

fn lines(names: &[String]) -> String {
    names.iter().map(|name| format!("  {name}\n")).collect()
}

fn without(names: &[String], others: &[String]) -> Vec<String> {
    let left = names.iter().filter(|name| !others.contains(name));
    left.cloned().collect()
}

impl Changed {
    fn told(&self, call: &Call) -> String {
        format!(
            "{}The following plugins have been configured:\n{}Applying plugin configuration to {}...\n",
            self.warning,
            lines(&self.after),
            call.node()
        )
    }

    fn report(&self, call: &Call, verb: &str, online: &str, changed: &[String]) -> Output {
        let told = self.told(call);
        if changed.is_empty() {
            return Output::Text(format!("{told}Plugin configuration unchanged."));
        }
        let told = format!(
            "{told}The following plugins have been {verb}:\n{}\n",
            lines(changed)
        );
        if self.is_online {
            return Output::Text(format!("{told}{online} {} plugins.", changed.len()));
        }
        Output::Text(format!(
            "{told}set {} plugins.\nOffline change; changes will take effect at broker restart.",
            self.after.len()
        ))
    }
}

fn need_names(call: &Call) -> Result<(), Failure> {
    if call.arguments.is_empty() && !call.has("all") {
        return Err(Failure::validation(call, USAGE, "not enough arguments."));
    }
    Ok(())
}

fn enable(call: &Call, client: &Client) -> Result<Output, Failure> {
    need_names(call)?;
    let changed = change(call, client, |before| {
        let mut after = before.to_vec();
        if call.has("all") {
            after.extend(known().map(str::to_owned));
        }
        after.extend(call.arguments.iter().cloned());
        after
    })?;
    tell_what_is_missed(&call.arguments);
    let new = without(&changed.after, &changed.before);
    Ok(changed.report(call, "enabled", "started", &new))
}

fn disable(call: &Call, client: &Client) -> Result<Output, Failure> {
    need_names(call)?;
    let changed = change(call, client, |before| {
        if call.has("all") {
            return Vec::new();
        }
        // What others bring along goes only with them.
        let mut after = without(before, &call.arguments);
        after.retain(|name| {
            let brought = with_implied(std::slice::from_ref(name));
            !brought.iter().any(|name| call.arguments.contains(name))
        });
        after
    })?;
    let gone = without(&changed.before, &changed.after);
    Ok(changed.report(call, "disabled", "stopped", &gone))
}

fn set(call: &Call, client: &Client) -> Result<Output, Failure> {
    let changed = change(call, client, |_| call.arguments.clone())?;
    tell_what_is_missed(&call.arguments);
    let (new, gone) = (
        without(&changed.after, &changed.before),
        without(&changed.before, &changed.after),
    );
    let told = changed.told(call);
    if !changed.is_online {
        return Ok(Output::Text(format!(
            "{told}set {} plugins.",
            changed.after.len()
        )));
    }
    let mut done = Vec::new();
    if !new.is_empty() {
        done.push(format!("started {} plugins.", new.len()));
    }
    if !gone.is_empty() {
        done.push(format!("stopped {} plugins.", gone.len()));
    }
    if done.is_empty() {
        done.push("Plugin configuration unchanged.".to_owned());
    }
    Ok(Output::Text(format!("{told}{}", done.join("\n"))))
}

fn is_enabled(call: &Call, client: &Client) -> Result<Output, Failure> {
    let is_offline = call.has("offline");
    if !is_offline {
        client.get("x/node")?;
    }
    let enabled = with_implied(&enabled()?);
    let missing = without(&call.arguments, &enabled);
    let place = if is_offline {
        String::new()
    } else {
        format!(" on node {}", client.node)
    };
    if missing.is_empty() {
        let (plugins, are) = named(call);
        return Ok(Output::Text(format!(
            "P{} {are} enabled{place}",
            &plugins[1..]
        )));
    }
    let plugins = match missing.as_slice() {
        [one] => format!("Plugin {one} is"),
        several => format!("Plugins {} are", several.join(", ")),
    };
    Err(Failure::error(
        UNAVAILABLE,
        format!(
            "{plugins} not enabled{place}. Enabled plugins and dependencies: {}",
            enabled.join(", ")
        ),
    ))
}

fn directories(_: &Call, _: &Client) -> Result<Output, Failure> {
    Ok(Output::Text(format!(
        "Plugin archives directory: (built in)\nPlugin expansion directory: (built in)\nEnabled plugins file: {}",
        enabled_plugins_file().display()
    )))
}

fn pattern(call: &Call) -> &str {
    call.arguments.first().map_or(".*", String::as_str)
}

fn list(call: &Call, client: &Client) -> Result<Output, Failure> {
    let pattern = Regex::new(pattern(call))
        .map_err(|error| Failure::validation(call, USAGE, &format!("Bad argument: {error}")))?;
    let explicit = enabled()?;
    let all = with_implied(&explicit);
    let (only_explicit, only_enabled) = (call.has("enabled"), call.has("implicitly-enabled"));
    let is_running = client
        .try_ask("GET", "x/node", None)
        .is_ok_and(|answer| answer.json()["state"] == "running");
    let mut shown: Vec<&str> = known().collect();
    shown.retain(|name| {
        let is_explicit = explicit.iter().any(|known| known == name);
        let is_on = all.iter().any(|known| known == name);
        pattern.is_match(name) && (!only_explicit || is_explicit) && (!only_enabled || is_on)
    });
    let state = |name: &str| {
        if explicit.iter().any(|known| known == name) {
            ("E", "enabled")
        } else if all.iter().any(|known| known == name) {
            ("e", "implicit")
        } else {
            (" ", "not_enabled")
        }
    };
    let runs = |name: &str| is_running && all.iter().any(|known| known == name);
    let plugins = shown.iter().map(|name| {
        json!({
            "enabled": state(name).1,
            "name": name,
            "running": runs(name),
            "version": VERSION,
            "running_version": if runs(name) { VERSION } else { "" },
        })
    });
    let json = json!({
        "status": if is_running { "running" } else { "node_down" },
        "format": "normal",
        "plugins": plugins.collect::<Value>(),
    });
    let mut text = missing(&explicit);
    if call.has("minimal") {
        text += &shown.join("\n");
        return Ok(Output::Report { text, json });
    }
    if !call.is_silent() {
        let status = if is_running {
            format!("* = running on {}", client.node)
        } else {
            format!("[failed to contact {} - status not shown]", client.node)
        };
        text += &format!(
            " Configured: E = explicitly enabled; e = implicitly enabled\n | Status: {status}\n |/\n"
        );
    }
    let width = shown
        .iter()
        .map(|name| name.len())
        .max()
        .unwrap_or_default();
    let lines = shown.iter().map(|name| {
        let mark = if runs(name) { "*" } else { " " };
        let state = state(name).0;
        if call.has("verbose") {
            return format!("[{state}{mark}] {name}\n     Version:     \t{VERSION}");
        }
        format!("[{state}{mark}] {name:width$} {VERSION}")
    });
    text += &lines.collect::<Vec<_>>().join("\n");
    Ok(Output::Report {
        text: text.trim_end_matches('\n').to_owned(),
        json,
    })
}
