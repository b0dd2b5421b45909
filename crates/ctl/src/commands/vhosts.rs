//! Vhosts and their limits.

use serde_json::{Map, Value, json};

use crate::{
    call::{Call, Switch},
    client::{Client, as_told, segment},
    command::Command,
    commands::{
        lists::{Column, rows},
        users::limits,
    },
    failure::{DATA, Failure, UNAVAILABLE},
    format::{Output, Rows},
    term::Term,
};

const GROUP: &str = "Virtual hosts";

const METADATA: &[Switch] = &[
    Switch("description", Some('d'), true),
    Switch("tags", None, true),
    Switch("default-queue-type", None, true),
    Switch("protected-from-deletion", None, true),
];

pub(super) const COMMANDS: &[Command] = &[
    Command::new("add_vhost", "Makes a vhost; nobody has permissions in it yet", add)
        .group(GROUP)
        .switches(METADATA)
        .says(|call| format!("Adding vhost \"{}\" ...", call.argument(0)))
        .takes(
            1,
            1,
            "<vhost> [--description <description> --tags \"<tag1>,<tag2>,<...>\" --default-queue-type <quorum|classic|stream>]",
        ),
    Command::new("clear_vhost_limits", "Takes a vhost's limits away", clear_limits)
        .group(GROUP)
        .says(|call| format!("Clearing vhost \"{}\" limits ...", call.vhost()))
        .takes(0, 0, "[--vhost <vhost>]"),
    Command::new("delete_vhost", "Deletes a vhost with everything in it", delete)
        .group(GROUP)
        .says(|call| format!("Deleting vhost \"{}\" ...", call.argument(0)))
        .takes(1, 1, "<vhost>"),
    Command::new("disable_vhost_deletion_protection", "Allows a vhost to be deleted again", unprotect)
        .group(GROUP)
        .says(|call| {
            let vhost = call.argument(0);
            format!("Removing deletion protection from virtual host \"{vhost}\" by updating its metadata...")
        })
        .takes(1, 1, "<vhost>"),
    Command::new("enable_vhost_deletion_protection", "Keeps a vhost from being deleted", protect)
        .group(GROUP)
        .says(|call| {
            let vhost = call.argument(0);
            format!("Protecting virtual host \"{vhost}\" from removal by updating its metadata...")
        })
        .takes(1, 1, "<vhost>"),
    Command::new("list_vhost_limits", "Shows limits of vhosts", list_limits)
        .group(GROUP)
        .of_both()
        .switches(&[Switch("global", None, false)])
        .says(|call| {
            if call.has("global") {
                return "Listing limits for all vhosts ...".to_owned();
            }
            format!("Listing limits for vhost \"{}\" ...", call.vhost())
        })
        .takes(0, 0, "[--vhost <vhost>] [--global] [--no-table-headers]"),
    Command::new("list_vhosts", "Lists vhosts", list)
        .group("Access Control")
        .of_both()
        .timed()
        .says(|_| "Listing vhosts ...".to_owned())
        .takes(0, usize::MAX, "[--no-table-headers] [<column> ...]"),
    Command::new("restart_vhost", "Tells that a vhost runs: it always does", restart)
        .group(GROUP)
        .timed()
        .says(|call| {
            let (vhost, node) = (call.vhost(), call.node());
            format!("Trying to restart vhost '{vhost}' on node '{node}' ...")
        })
        .takes(0, 0, "[--vhost <vhost>]"),
    Command::new("set_vhost_limits", "Limits a vhost's connections and queues", set_limits)
        .group(GROUP)
        .says(|call| {
            let (vhost, limits) = (call.vhost(), call.argument(0));
            format!("Setting vhost limits to \"{limits}\" for vhost \"{vhost}\" ...")
        })
        .takes(1, 1, "[--vhost <vhost>] <definition>"),
    Command::new("set_vhost_tags", "Sets a vhost's tags", set_tags)
        .group(GROUP)
        .says(|call| {
            let tags = call.arguments.get(1..).unwrap_or_default().join(", ");
            format!("Setting tags for virtual host \"{}\" to [{tags}] ...", call.argument(0))
        })
        .takes(1, usize::MAX, "<vhost> <tag> [...]"),
    Command::new("trace_off", "Ends the copies of a vhost's messages to amq.rabbitmq.trace", trace_off)
        .group(GROUP)
        .says(|call| format!("Stopping tracing for vhost \"{}\" ...", call.vhost()))
        .takes(0, 0, "[--vhost <vhost>]"),
    Command::new("trace_on", "Copies a vhost's messages to amq.rabbitmq.trace", trace_on)
        .group(GROUP)
        .says(|call| format!("Starting tracing for vhost \"{}\" ...", call.vhost()))
        .takes(0, 0, "[--vhost <vhost>]"),
    Command::new("update_vhost_metadata", "Changes a vhost's description, tags or default queue type", update)
        .group(GROUP)
        .switches(METADATA)
        .says(|call| format!("Updating metadata of vhost \"{}\" ...", call.argument(0)))
        .takes(
            1,
            1,
            "<vhost> [--description <description>] [--tags \"<tag1>,<tag2>,<...>\"] [--default-queue-type <quorum|classic|stream>] [--protected-from-deletion <true|false>]",
        ),
];

fn path(vhost: &str) -> String {
    format!("vhosts/{}", segment(vhost))
}

fn metadata(call: &Call) -> Value {
    let mut object = Map::new();
    for (option, key) in [
        ("description", "description"),
        ("tags", "tags"),
        ("default-queue-type", "default_queue_type"),
        ("protected-from-deletion", "protected_from_deletion"),
    ] {
        if let Some(value) = call.option(option) {
            object.insert(key.to_owned(), value.into());
        }
    }
    Value::Object(object)
}

fn add(call: &Call, client: &Client) -> Result<Output, Failure> {
    let body = metadata(call);
    client.change("PUT", &path(call.argument(0)), Some(&body), as_told)?;
    Ok(Output::Nothing)
}

fn update(call: &Call, client: &Client) -> Result<Output, Failure> {
    client.need_vhost(call.argument(0))?;
    add(call, client)
}

fn set_tags(call: &Call, client: &Client) -> Result<Output, Failure> {
    let vhost = call.argument(0);
    client.need_vhost(vhost)?;
    let body = json!({"tags": call.arguments.get(1..).unwrap_or_default()});
    client.change("PUT", &path(vhost), Some(&body), as_told)?;
    Ok(Output::Nothing)
}

fn delete(call: &Call, client: &Client) -> Result<Output, Failure> {
    let vhost = call.argument(0);
    client.change("DELETE", &path(vhost), None, |answer| match answer.status {
        404 => Failure::no_vhost(vhost),
        412 => Failure::error(
            DATA,
            "Cannot delete this virtual host: it is protected from deletion. \
             To lift the protection, inspect and update its metadata",
        ),
        _ => as_told(answer),
    })?;
    Ok(Output::Nothing)
}

fn set_protection(call: &Call, client: &Client, method: &str) -> Result<Output, Failure> {
    let vhost = call.argument(0);
    let path = format!("{}/deletion/protection", path(vhost));
    client.change(method, &path, None, |answer| match answer.status {
        404 => Failure::no_vhost(vhost),
        _ => as_told(answer),
    })?;
    Ok(Output::Nothing)
}

fn protect(call: &Call, client: &Client) -> Result<Output, Failure> {
    set_protection(call, client, "POST")
}

fn unprotect(call: &Call, client: &Client) -> Result<Output, Failure> {
    set_protection(call, client, "DELETE")
}

const COLUMNS: &[Column] = &[
    Column("name", |vhost| Term::plain(&vhost["name"])),
    Column("tracing", |vhost| Term::plain(&vhost["tracing"])),
    Column("cluster_state", |vhost| {
        Term::table(&vhost["cluster_state"])
    }),
    Column("description", |vhost| Term::plain(&vhost["description"])),
    Column("tags", |vhost| Term::names(&vhost["tags"])),
    Column("default_queue_type", |vhost| {
        Term::plain(&vhost["default_queue_type"])
    }),
    Column("metadata", |vhost| Term::table(&vhost["metadata"])),
    Column("protected_from_deletion", |vhost| {
        Term::plain(&vhost["protected_from_deletion"])
    }),
];

fn list(call: &Call, client: &Client) -> Result<Output, Failure> {
    let rows = rows(call, COLUMNS, &["name"], || client.list("vhosts"))?;
    Ok(Output::Rows(Rows {
        is_stream: false,
        ..rows
    }))
}

fn set_limits(call: &Call, client: &Client) -> Result<Output, Failure> {
    let vhost = call.vhost();
    let limits = limits(call.argument(0))?;
    client.need_vhost(vhost)?;
    for (name, value) in limits.as_object().into_iter().flatten() {
        let path = format!("vhost-limits/{}/{}", segment(vhost), segment(name));
        client.change("PUT", &path, Some(&json!({"value": value})), as_told)?;
    }
    Ok(Output::Nothing)
}

fn clear_limits(call: &Call, client: &Client) -> Result<Output, Failure> {
    let vhost = call.vhost();
    client.need_vhost(vhost)?;
    for limit in ["max-connections", "max-queues"] {
        let path = format!("vhost-limits/{}/{limit}", segment(vhost));
        let answer = client.ask("DELETE", &path, None)?;
        if !answer.is_good() && answer.status != 404 {
            return Err(as_told(&answer));
        }
    }
    Ok(Output::Nothing)
}

fn list_limits(call: &Call, client: &Client) -> Result<Output, Failure> {
    if call.has("global") {
        let limited = client.list("vhost-limits")?;
        let rows = limited
            .iter()
            .map(|row| vec![Term::plain(&row["vhost"]), Term::Json(row["value"].clone())]);
        let rows = Rows::whole(&["vhost", "limits"], rows.collect());
        return Ok(Output::Rows(rows));
    }
    let vhost = call.vhost();
    client.need_vhost(vhost)?;
    let limited = client.list(&format!("vhost-limits/{}", segment(vhost)))?;
    let value = limited.first().map(|row| row["value"].clone());
    Ok(match value {
        Some(json) => Output::Report {
            text: json.to_string(),
            json,
        },
        None => Output::Report {
            text: String::new(),
            json: json!([]),
        },
    })
}

fn trace(call: &Call, client: &Client, is_on: bool) -> Result<Output, Failure> {
    let vhost = call.vhost();
    // Where there is no vhost there is nothing to trace, and RabbitMQ calls it done.
    if client.has_vhost(vhost)? {
        let body = json!({"tracing": is_on});
        client.change("PUT", &path(vhost), Some(&body), as_told)?;
    }
    let now = if is_on { "enabled" } else { "disabled" };
    Ok(Output::Text(format!("Trace {now} for vhost {vhost}")))
}

fn trace_on(call: &Call, client: &Client) -> Result<Output, Failure> {
    trace(call, client, true)
}

fn trace_off(call: &Call, client: &Client) -> Result<Output, Failure> {
    trace(call, client, false)
}

fn restart(call: &Call, client: &Client) -> Result<Output, Failure> {
    let (vhost, node) = (call.vhost(), call.node());
    if !client.has_vhost(vhost)? {
        return Err(Failure::error(
            UNAVAILABLE,
            format!("Virtual host '{vhost}' does not exist"),
        ));
    }
    Ok(Output::Text(format!(
        "Vhost '{vhost}' is already running on node '{node}'"
    )))
}
