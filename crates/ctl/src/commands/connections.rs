//! Closing connections.

use serde_json::{Map, Value, json};

use crate::{
    call::{Call, Switch},
    client::{Client, as_told},
    command::Command,
    failure::{Failure, UNAVAILABLE},
    format::Output,
};

const GROUP: &str = "Operations";

pub(super) const COMMANDS: &[Command] = &[
    Command::new("close_all_connections", "Closes all connections, or those of a vhost", close_all)
        .group(GROUP)
        .switches(&[
            Switch("global", None, false),
            Switch("per-connection-delay", None, true),
            Switch("limit", None, true),
        ])
        .says(|call| {
            let reason = call.argument(0);
            match call.option("vhost") {
                Some(vhost) => format!("Closing all connections in vhost {vhost}, reason: {reason}..."),
                None if call.has("global") => {
                    format!("Closing all connections to node {} (global), reason: {reason}...", call.node())
                }
                None => format!("Closing all connections in vhost /, reason: {reason}..."),
            }
        })
        .takes(
            1,
            1,
            "[--vhost <vhost> --limit <limit>] [-n <node> --global] [--per-connection-delay <delay>] <explanation>",
        ),
    Command::new("close_all_user_connections", "Closes all connections of a user", close_users)
        .group(GROUP)
        .says(|call| {
            let (user, reason) = (call.argument(0), call.argument(1));
            format!("Closing connections of user {user}, reason: {reason}...")
        })
        .takes(2, 2, "<username> <explanation>"),
    Command::new("close_connection", "Closes one connection, told by its pid or its name", close_one)
        .group(GROUP)
        .says(|call| {
            let (pid, reason) = (call.argument(0), call.argument(1));
            format!("Closing connection {pid}, reason: {reason}...")
        })
        .takes(2, 2, "<connection pid> <explanation>"),
];

fn close(client: &Client, which: Value) -> Result<u64, Failure> {
    let answer = client.change("POST", "x/node/close-connections", Some(&which), as_told)?;
    Ok(answer.json()["closed"].as_u64().unwrap_or_default())
}

fn close_all(call: &Call, client: &Client) -> Result<Output, Failure> {
    let mut which = Map::new();
    which.insert("reason".to_owned(), call.argument(0).into());
    if !call.has("global") {
        which.insert("vhost".to_owned(), call.vhost().into());
    }
    if let Some(limit) = call.number("limit")?.filter(|limit| *limit > 0) {
        which.insert("limit".to_owned(), limit.into());
    }
    let closed = close(client, which.into())?;
    Ok(Output::Text(format!("Closed {closed} connections")))
}

fn close_users(call: &Call, client: &Client) -> Result<Output, Failure> {
    let (user, reason) = (call.argument(0), call.argument(1));
    close(client, json!({"user": user, "reason": reason}))?;
    Ok(Output::Nothing)
}

fn close_one(call: &Call, client: &Client) -> Result<Output, Failure> {
    let (which, reason) = (call.argument(0), call.argument(1));
    let closed = close(client, json!({"connection": which, "reason": reason}))?;
    // A pid may be that of a connection which has gone; anything else was meant for a name.
    if closed == 0 && !(which.starts_with('<') && which.ends_with('>')) {
        return Err(Failure::error(
            UNAVAILABLE,
            format!("Error:\n{{:invalid_pid_syntax, \"{which}\"}}"),
        ));
    }
    Ok(Output::Nothing)
}
