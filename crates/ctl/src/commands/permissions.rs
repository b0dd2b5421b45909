//! What users may do where.

use serde_json::{Value, json};

use crate::{
    call::Call,
    client::{Client, as_told, segment},
    command::Command,
    failure::{Failure, NO_USER, UNAVAILABLE},
    format::{Output, Rows},
    term::Term,
};

const GROUP: &str = "Access Control";

pub(super) const COMMANDS: &[Command] = &[
    Command::new("clear_permissions", "Takes a user's permissions in a vhost away", clear)
        .group(GROUP)
        .says(|call| {
            let (user, vhost) = (call.argument(0), call.vhost());
            format!("Clearing permissions for user \"{user}\" in vhost \"{vhost}\" ...")
        })
        .takes(1, 1, "[--vhost <vhost>] <username>"),
    Command::new("clear_topic_permissions", "Takes a user's topic permissions in a vhost away", clear_topic)
        .group(GROUP)
        .says(|call| {
            let (user, vhost) = (call.argument(0), call.vhost());
            match call.arguments.get(1) {
                Some(exchange) => format!(
                    "Clearing topic permissions on \"{exchange}\" for user \"{user}\" in vhost \"{vhost}\" ..."
                ),
                None => format!("Clearing topic permissions for user \"{user}\" in vhost \"{vhost}\" ..."),
            }
        })
        .takes(1, 2, "[--vhost <vhost>] <username> [<exchange>]"),
    Command::new("list_permissions", "Lists who may do what in a vhost", list)
        .group(GROUP)
        .of_both()
        .timed()
        .says(|call| format!("Listing permissions for vhost \"{}\" ...", call.vhost()))
        .takes(0, 0, "[--vhost <vhost>] [--no-table-headers]"),
    Command::new("list_topic_permissions", "Lists topic permissions in a vhost", list_topic)
        .group(GROUP)
        .of_both()
        .timed()
        .says(|call| format!("Listing topic permissions for vhost \"{}\" ...", call.vhost()))
        .takes(0, 0, "[--vhost <vhost>] [--no-table-headers]"),
    Command::new("list_user_permissions", "Lists what a user may do where", list_of_user)
        .group(GROUP)
        .of_both()
        .timed()
        .says(|call| format!("Listing permissions for user \"{}\" ...", call.argument(0)))
        .takes(1, 1, "[--no-table-headers] <username>"),
    Command::new("list_user_topic_permissions", "Lists a user's topic permissions", list_topic_of_user)
        .group(GROUP)
        .of_both()
        .timed()
        .says(|call| format!("Listing topic permissions for user \"{}\" ...", call.argument(0)))
        .takes(1, 1, "[--no-table-headers] <username>"),
    Command::new("set_permissions", "Sets what a user may configure, write and read in a vhost", set)
        .group(GROUP)
        .says(|call| {
            let (user, vhost) = (call.argument(0), call.vhost());
            format!("Setting permissions for user \"{user}\" in vhost \"{vhost}\" ...")
        })
        .takes(4, 4, "[--vhost <vhost>] <username> <conf> <write> <read>"),
    Command::new("set_permissions_globally", "Sets a user's permissions in every vhost", set_globally)
        .group(GROUP)
        .says(|call| {
            let user = call.argument(0);
            format!("Setting permissions for user \"{user}\" in all virtual hosts ...")
        })
        .takes(4, 4, "<username> <conf> <write> <read>"),
    Command::new("set_topic_permissions", "Sets which routing keys a user may write and read on an exchange", set_topic)
        .group(GROUP)
        .says(|call| {
            let (user, exchange, vhost) = (call.argument(0), call.argument(1), call.vhost());
            format!(
                "Setting topic permissions on \"{exchange}\" for user \"{user}\" in vhost \"{vhost}\" ..."
            )
        })
        .takes(4, 4, "[--vhost <vhost>] <username> <exchange> <write> <read>"),
];

fn path(vhost: &str, user: &str) -> String {
    format!("permissions/{}/{}", segment(vhost), segment(user))
}

/// That vhost and user are there; as RabbitMQ, the user is looked for first.
fn need_both(call: &Call, client: &Client) -> Result<(), Failure> {
    need_user(client, call.argument(0))?;
    let vhost = call.vhost();
    if client.has_vhost(vhost)? {
        return Ok(());
    }
    Err(Failure::error(
        UNAVAILABLE,
        format!("Virtual host {vhost} does not exist"),
    ))
}

fn need_user(client: &Client, user: &str) -> Result<(), Failure> {
    match client.user(user)? {
        Some(_) => Ok(()),
        None => Err(Failure::error(
            NO_USER,
            format!("User {user} does not exist"),
        )),
    }
}

fn patterns(call: &Call) -> Value {
    json!({
        "configure": call.argument(1),
        "write": call.argument(2),
        "read": call.argument(3),
    })
}

fn set(call: &Call, client: &Client) -> Result<Output, Failure> {
    need_both(call, client)?;
    let path = path(call.vhost(), call.argument(0));
    client.change("PUT", &path, Some(&patterns(call)), as_told)?;
    Ok(Output::Nothing)
}

fn set_globally(call: &Call, client: &Client) -> Result<Output, Failure> {
    need_user(client, call.argument(0))?;
    for vhost in client.list("vhosts?columns=name")? {
        let path = path(vhost["name"].as_str().unwrap_or_default(), call.argument(0));
        client.change("PUT", &path, Some(&patterns(call)), as_told)?;
    }
    Ok(Output::Nothing)
}

fn gone(answer: &crate::http::Answer) -> Result<Output, Failure> {
    // What is not there is as good as taken away.
    if answer.is_good() || answer.status == 404 {
        return Ok(Output::Nothing);
    }
    Err(as_told(answer))
}

fn clear(call: &Call, client: &Client) -> Result<Output, Failure> {
    need_both(call, client)?;
    gone(&client.ask("DELETE", &path(call.vhost(), call.argument(0)), None)?)
}

fn set_topic(call: &Call, client: &Client) -> Result<Output, Failure> {
    need_both(call, client)?;
    let body = json!({
        "exchange": call.argument(1),
        "write": call.argument(2),
        "read": call.argument(3),
    });
    let path = format!("topic-{}", path(call.vhost(), call.argument(0)));
    client.change("PUT", &path, Some(&body), |answer| {
        let reason = &answer.json()["reason"];
        match (reason[0].as_str(), reason[1].as_str()) {
            (Some("no_such_exchange"), Some(exchange)) => {
                Failure::error(UNAVAILABLE, format!("Exchange {exchange} does not exist"))
            }
            _ => as_told(answer),
        }
    })?;
    Ok(Output::Nothing)
}

fn clear_topic(call: &Call, client: &Client) -> Result<Output, Failure> {
    need_both(call, client)?;
    let mut path = format!("topic-{}", path(call.vhost(), call.argument(0)));
    if let Some(exchange) = call.arguments.get(1) {
        path = format!("{path}/{}", segment(exchange));
    }
    gone(&client.ask("DELETE", &path, None)?)
}

fn rows(list: &[Value], columns: &[&'static str]) -> Rows {
    let rows = list.iter().map(|row| {
        columns
            .iter()
            .map(|name| Term::plain(&row[*name]))
            .collect()
    });
    Rows::whole(columns, rows.collect())
}

fn list(call: &Call, client: &Client) -> Result<Output, Failure> {
    client.need_vhost(call.vhost())?;
    let list = client.list(&format!("vhosts/{}/permissions", segment(call.vhost())))?;
    let rows = rows(&list, &["user", "configure", "write", "read"]);
    Ok(Output::Rows(rows))
}

fn list_topic(call: &Call, client: &Client) -> Result<Output, Failure> {
    client.need_vhost(call.vhost())?;
    let list = client.list(&format!(
        "vhosts/{}/topic-permissions",
        segment(call.vhost())
    ))?;
    let rows = rows(&list, &["user", "exchange", "write", "read"]);
    Ok(Output::Rows(rows))
}

fn of_user(call: &Call, client: &Client, what: &str) -> Result<Vec<Value>, Failure> {
    let user = call.argument(0);
    let found = client.find(&format!("users/{}/{what}", segment(user)))?;
    match found {
        Some(Value::Array(list)) => Ok(list),
        Some(_) | None => Err(Failure::error(
            UNAVAILABLE,
            format!("{{:no_such_user, \"{user}\"}}"),
        )),
    }
}

fn list_of_user(call: &Call, client: &Client) -> Result<Output, Failure> {
    let list = of_user(call, client, "permissions")?;
    let rows = rows(&list, &["vhost", "configure", "write", "read"]);
    Ok(Output::Rows(rows))
}

fn list_topic_of_user(call: &Call, client: &Client) -> Result<Output, Failure> {
    let list = of_user(call, client, "topic-permissions")?;
    let rows = rows(&list, &["vhost", "exchange", "write", "read"]);
    Ok(Output::Rows(Rows {
        // RabbitMQ forgot it, and scripts do not skip a line.
        has_header: false,
        ..rows
    }))
}
