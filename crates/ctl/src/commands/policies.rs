//! Policies and operator policies.

use serde_json::{Value, json};

use crate::{
    call::{Call, Switch},
    client::{Client, as_told, segment},
    command::Command,
    commands::parameters::{json_of, remove},
    failure::Failure,
    format::{Output, Rows},
    program::Program,
    term::Term,
};

const GROUP: &str = "Policies";

const SET: &[Switch] = &[
    Switch("priority", None, true),
    Switch("apply-to", None, true),
];

const SET_USAGE: &str = "[--vhost <vhost>] [--priority <priority>] [--apply-to <apply-to>] <name> <pattern> <definition>";

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "clear_operator_policy",
        "Removes an operator policy",
        clear_operator,
    )
    .group(GROUP)
    .says(|call| {
        let (name, vhost) = (call.argument(0), call.vhost());
        format!("Clearing operator policy \"{name}\" on vhost \"{vhost}\" ...")
    })
    .takes(1, 1, "[--vhost <vhost>] <name>"),
    Command::new("clear_policy", "Removes a policy", clear_user)
        .group(GROUP)
        .says(|call| {
            let (name, vhost) = (call.argument(0), call.vhost());
            format!("Clearing policy \"{name}\" on vhost \"{vhost}\" ...")
        })
        .takes(1, 1, "[--vhost <vhost>] <name>"),
    Command::new(
        "list_operator_policies",
        "Lists operator policies of a vhost",
        list_operator,
    )
    .group(GROUP)
    .of_both()
    .timed()
    .says(|call| {
        format!(
            "Listing operator policy overrides for vhost \"{}\" ...",
            call.vhost()
        )
    })
    .takes(0, 0, "[--vhost <vhost>] [--no-table-headers]"),
    Command::new("list_policies", "Lists policies of a vhost", list_user)
        .group(GROUP)
        .of_both()
        .timed()
        .says(|call| format!("Listing policies for vhost \"{}\" ...", call.vhost()))
        .takes(0, 0, "[--vhost <vhost>] [--no-table-headers]"),
    Command::new(
        "set_operator_policy",
        "Sets a policy that users' policies cannot go beyond",
        set_operator,
    )
    .group(GROUP)
    .switches(SET)
    .says(|call| setting(call, "operator policy override"))
    .takes(3, 3, SET_USAGE),
    Command::new(
        "set_policy",
        "Sets a policy: settings of all queues or exchanges of a pattern",
        set_user,
    )
    .group(GROUP)
    .switches(SET)
    .says(|call| setting(call, "policy"))
    .takes(3, 3, SET_USAGE),
    Command::new(
        "remove_classic_queue_mirroring_from_policies",
        "Takes keys of mirroring, which do nothing, out of all policies",
        remove_mirroring,
    )
    .group("Operations")
    .says(|_| "Will remove all classic queue mirroring keys from policies".to_owned()),
    Command::new(
        "list_policies_with_classic_queue_mirroring",
        "Lists policies with keys of mirroring, which do nothing",
        list_mirroring,
    )
    .group(GROUP)
    .of(&[Program::Diagnostics, Program::Queues])
    .timed()
    .says(|_| "Listing policies with classic queue mirroring ...".to_owned())
    .takes(0, 0, "[--no-table-headers]"),
];

const USER: &str = "policies";
const OPERATOR: &str = "operator-policies";

fn setting(call: &Call, what: &str) -> String {
    let (name, pattern, definition) = (call.argument(0), call.argument(1), call.argument(2));
    let (priority, vhost) = (call.option("priority").unwrap_or("0"), call.vhost());
    format!(
        "Setting {what} \"{name}\" for pattern \"{pattern}\" to \"{definition}\" with priority \"{priority}\" for vhost \"{vhost}\" ..."
    )
}

fn path(kind: &str, vhost: &str, name: &str) -> String {
    format!("{kind}/{}/{}", segment(vhost), segment(name))
}

fn set(call: &Call, client: &Client, kind: &str) -> Result<Output, Failure> {
    let definition = json_of(call.argument(2))?;
    let priority = call.number("priority")?.unwrap_or(0);
    client.need_vhost(call.vhost())?;
    let body = json!({
        "pattern": call.argument(1),
        "definition": definition,
        "priority": priority,
        "apply-to": call.option("apply-to").unwrap_or("all"),
    });
    let path = path(kind, call.vhost(), call.argument(0));
    client.change("PUT", &path, Some(&body), as_told)?;
    Ok(Output::Nothing)
}

fn set_user(call: &Call, client: &Client) -> Result<Output, Failure> {
    set(call, client, USER)
}

fn set_operator(call: &Call, client: &Client) -> Result<Output, Failure> {
    set(call, client, OPERATOR)
}

fn clear(call: &Call, client: &Client, kind: &str) -> Result<Output, Failure> {
    client.need_vhost(call.vhost())?;
    remove(client, &path(kind, call.vhost(), call.argument(0)))
}

fn clear_user(call: &Call, client: &Client) -> Result<Output, Failure> {
    clear(call, client, USER)
}

fn clear_operator(call: &Call, client: &Client) -> Result<Output, Failure> {
    clear(call, client, OPERATOR)
}

fn rows<'a>(list: impl Iterator<Item = &'a Value>) -> Rows {
    let rows = list.map(|row| {
        vec![
            Term::plain(&row["vhost"]),
            Term::plain(&row["name"]),
            Term::plain(&row["pattern"]),
            Term::plain(&row["apply-to"]),
            Term::Json(row["definition"].clone()),
            Term::plain(&row["priority"]),
        ]
    });
    let columns = [
        "vhost",
        "name",
        "pattern",
        "apply-to",
        "definition",
        "priority",
    ];
    Rows::whole(&columns, rows.collect())
}

fn list(call: &Call, client: &Client, kind: &str) -> Result<Output, Failure> {
    client.need_vhost(call.vhost())?;
    let list = client.list(&format!("{kind}/{}", segment(call.vhost())))?;
    Ok(Output::Rows(rows(list.iter())))
}

fn list_user(call: &Call, client: &Client) -> Result<Output, Failure> {
    list(call, client, USER)
}

fn list_operator(call: &Call, client: &Client) -> Result<Output, Failure> {
    list(call, client, OPERATOR)
}

fn is_mirroring(key: &str) -> bool {
    key.starts_with("ha-")
}

fn has_mirroring(policy: &Value) -> bool {
    let definition = policy["definition"].as_object();
    definition.is_some_and(|keys| keys.keys().any(|key| is_mirroring(key)))
}

fn list_mirroring(_: &Call, client: &Client) -> Result<Output, Failure> {
    let list = client.list(USER)?;
    Ok(Output::Rows(rows(
        list.iter().filter(|policy| has_mirroring(policy)),
    )))
}

fn remove_mirroring(_: &Call, client: &Client) -> Result<Output, Failure> {
    for kind in [USER, OPERATOR] {
        for mut policy in client.list(kind)? {
            if !has_mirroring(&policy) {
                continue;
            }
            let name = |key: &str| policy[key].as_str().unwrap_or_default().to_owned();
            let path = path(kind, &name("vhost"), &name("name"));
            let Some(definition) = policy["definition"].as_object_mut() else {
                continue;
            };
            definition.retain(|key, _| !is_mirroring(key));
            if definition.is_empty() {
                client.change("DELETE", &path, None, as_told)?;
            } else {
                client.change("PUT", &path, Some(&policy), as_told)?;
            }
        }
    }
    Ok(Output::Nothing)
}
