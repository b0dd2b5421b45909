//! Parameters, global parameters, the name of the cluster.

use serde_json::{Value, json};

use crate::{
    call::Call,
    client::{Client, as_told, segment},
    command::Command,
    failure::{Failure, UNAVAILABLE},
    format::{Output, Rows},
    term::Term,
};

const GROUP: &str = "Parameters";

pub(super) const COMMANDS: &[Command] = &[
    Command::new("clear_global_parameter", "Removes a global parameter", clear_global)
        .group(GROUP)
        .says(|call| format!("Clearing global runtime parameter \"{}\" ...", call.argument(0)))
        .takes(1, 1, "<name>"),
    Command::new("clear_parameter", "Removes a parameter of a vhost", clear)
        .group(GROUP)
        .says(|call| {
            let (component, name) = (call.argument(0), call.argument(1));
            let vhost = call.vhost();
            format!(
                "Clearing runtime parameter \"{name}\" for component \"{component}\" on vhost \"{vhost}\" ..."
            )
        })
        .takes(2, 2, "[--vhost <vhost>] <component_name> <name>"),
    Command::new("list_global_parameters", "Lists global parameters", list_global)
        .group(GROUP)
        .of_both()
        .timed()
        .says(|_| "Listing global runtime parameters ...".to_owned())
        .takes(0, 0, "[--no-table-headers]"),
    Command::new("list_parameters", "Lists parameters of a vhost", list)
        .group(GROUP)
        .of_both()
        .timed()
        .says(|call| format!("Listing runtime parameters for vhost \"{}\" ...", call.vhost()))
        .takes(0, 0, "[--vhost <vhost>] [--no-table-headers]"),
    Command::new("set_global_parameter", "Sets a global parameter", set_global)
        .group(GROUP)
        .says(|call| {
            let (name, value) = (call.argument(0), call.argument(1));
            format!("Setting global runtime parameter \"{name}\" to \"{value}\" ...")
        })
        .takes(2, 2, "<name> <value>"),
    Command::new("set_parameter", "Sets a parameter of a vhost", set)
        .group(GROUP)
        .says(|call| {
            let (component, name) = (call.argument(0), call.argument(1));
            let (value, vhost) = (call.argument(2), call.vhost());
            format!(
                "Setting runtime parameter \"{name}\" for component \"{component}\" to \"{value}\" in vhost \"{vhost}\" ..."
            )
        })
        .takes(3, 3, "[--vhost <vhost>] <component_name> <name> <value>"),
    Command::new("set_cluster_name", "Gives the cluster, which is this node, a name", set_cluster_name)
        .group("Configuration and Environment")
        .says(|call| format!("Setting cluster name to {} ...", call.argument(0)))
        .takes(1, 1, "<name>"),
];

/// What RabbitMQ says to text that is no JSON.
pub(super) fn no_json(text: &str) -> Failure {
    Failure::error(
        UNAVAILABLE,
        format!(
            "Could not parse JSON document: {{error,{{failed_to_decode_json,<<\"{text}\">>}}}}"
        ),
    )
}

/// A value that is JSON.
pub(super) fn json_of(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|_| no_json(text))
}

/// Removes it, and says when it was not there.
pub(super) fn remove(client: &Client, path: &str) -> Result<Output, Failure> {
    client.change("DELETE", path, None, |answer| match answer.status {
        404 => Failure::error(UNAVAILABLE, "Parameter does not exist"),
        _ => as_told(answer),
    })?;
    Ok(Output::Nothing)
}

fn path(call: &Call) -> String {
    let component = segment(call.argument(0));
    let (vhost, name) = (segment(call.vhost()), segment(call.argument(1)));
    format!("parameters/{component}/{vhost}/{name}")
}

fn set(call: &Call, client: &Client) -> Result<Output, Failure> {
    let value = json_of(call.argument(2))?;
    client.need_vhost(call.vhost())?;
    let body = json!({
        "component": call.argument(0),
        "vhost": call.vhost(),
        "name": call.argument(1),
        "value": value,
    });
    client.change("PUT", &path(call), Some(&body), as_told)?;
    Ok(Output::Nothing)
}

fn clear(call: &Call, client: &Client) -> Result<Output, Failure> {
    client.need_vhost(call.vhost())?;
    remove(client, &path(call))
}

fn list(call: &Call, client: &Client) -> Result<Output, Failure> {
    client.need_vhost(call.vhost())?;
    let list = client.list("parameters")?;
    let of_vhost = list.iter().filter(|row| row["vhost"] == call.vhost());
    let rows = of_vhost.map(|row| {
        vec![
            Term::plain(&row["component"]),
            Term::plain(&row["name"]),
            Term::Json(row["value"].clone()),
        ]
    });
    let rows = Rows::whole(&["component", "name", "value"], rows.collect());
    Ok(Output::Rows(rows))
}

fn set_global(call: &Call, client: &Client) -> Result<Output, Failure> {
    let value = json_of(call.argument(1))?;
    let body = json!({"name": call.argument(0), "value": value});
    let path = format!("global-parameters/{}", segment(call.argument(0)));
    client.change("PUT", &path, Some(&body), as_told)?;
    Ok(Output::Nothing)
}

fn clear_global(call: &Call, client: &Client) -> Result<Output, Failure> {
    let path = format!("global-parameters/{}", segment(call.argument(0)));
    remove(client, &path)
}

fn list_global(_: &Call, client: &Client) -> Result<Output, Failure> {
    let list = client.list("global-parameters")?;
    let rows = list
        .iter()
        .map(|row| vec![Term::plain(&row["name"]), Term::Json(row["value"].clone())]);
    Ok(Output::Rows(Rows::whole(
        &["name", "value"],
        rows.collect(),
    )))
}

fn set_cluster_name(call: &Call, client: &Client) -> Result<Output, Failure> {
    let body = json!({"name": call.argument(0)});
    client.change("PUT", "cluster-name", Some(&body), as_told)?;
    Ok(Output::Nothing)
}
