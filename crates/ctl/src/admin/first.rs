//! The first generation: says what it did, and `*** ` why not, with exit code 1.

use std::{
    fs,
    io::{self, Read},
};

use serde_json::{Value, json};

use super::{
    Api, Ended, Unreached,
    options::Options,
    show,
    things::{self, Asked, Payload, Wrong},
};
use crate::http::Answer;

fn die(text: impl std::fmt::Display) -> Ended {
    Ended::new(1, format!("*** {text}"))
}

fn ask(api: &Api<'_>, asked: &Asked) -> Result<Answer, Ended> {
    let answer = api
        .ask(asked.method, &asked.path, asked.body.as_ref())
        .map_err(|Unreached(error)| die(format!("Could not connect: {error}")))?;
    let path = asked.path.split('?').next().unwrap_or_default();
    match answer.status {
        200..300 => Ok(answer),
        401 => Err(die(format!("Access refused: {path}"))),
        404 => Err(die(format!("Not found: {path}"))),
        status if answer.json()["error"].is_string() => {
            let (error, why) = (answer.json()["error"].clone(), answer.why());
            let error = error.as_str().unwrap_or_default().to_owned();
            Err(die(format!("{status} {}\n{error}: {why}", answer.reason)))
        }
        status => Err(die(format!("{status} {}", answer.reason))),
    }
}

fn wrong(verb: &str, thing: &str, wrong: Wrong) -> Ended {
    match wrong {
        Wrong::Thing => Ended::new(1, format!("ERROR: {verb} {thing}: not possible\n\n{HELP}")),
        Wrong::Missing(name) => Ended::new(
            1,
            format!("ERROR: mandatory argument \"{name}\" required\n\n{HELP}"),
        ),
        Wrong::NoJson(name, why) => die(format!("Could not parse JSON in {name}: {why}")),
    }
}

const HELP: &str = "\
Usage: rabbitmqadmin [options] subcommand

  list <things> [<column>...]     connections channels consumers exchanges queues bindings users
                                  vhosts permissions nodes parameters policies operator_policies
                                  vhost_limits
  show overview
  declare <thing> key=value...    exchange queue binding vhost user permission parameter policy
                                  operator_policy vhost_limit
  delete <thing> key=value...
  close connection name=
  purge queue name=
  publish routing_key= [exchange= payload= properties= payload_encoding=]
  get queue= [count= ackmode= payload_file= encoding=]
  export <file>, import <file>

Options: -H host -P port -u user -p password -V vhost -c config-file -N section
         -f table|tsv|long|kvp|raw_json|pretty_json|bash -S sort-key -R -d depth -q

The second generation's grammar is understood as well: declare queue --name q --type classic
";

pub(super) fn run(api: &Api<'_>, options: &Options) -> Result<String, Ended> {
    let words: Vec<&str> = options.words.iter().map(String::as_str).collect();
    let told = |text: String| {
        if options.is_quiet {
            String::new()
        } else {
            text + "\n"
        }
    };
    match words.as_slice() {
        ["help", ..] => Ok(HELP.to_owned()),
        ["version", ..] => Ok(format!("rabbitmqadmin {}\n", env!("CARGO_PKG_VERSION"))),
        ["bash-completion", ..] => Ok(COMPLETION.to_owned()),
        ["declare", thing] => {
            let asked =
                things::declare(thing, options).map_err(|why| wrong("declare", thing, why))?;
            ask(api, &asked)?;
            Ok(told(format!("{thing} declared")))
        }
        ["delete", thing] => {
            let asked =
                things::delete(thing, options).map_err(|why| wrong("delete", thing, why))?;
            ask(api, &asked)?;
            Ok(told(format!("{thing} deleted")))
        }
        ["close", thing @ "connection"] => {
            let asked = things::delete(thing, options).map_err(|why| wrong("close", thing, why))?;
            ask(api, &asked)?;
            Ok(told("connection closed".to_owned()))
        }
        ["purge", thing @ "queue"] => {
            let asked =
                things::delete("contents", options).map_err(|why| wrong("purge", thing, why))?;
            ask(api, &asked)?;
            Ok(told("queue purged".to_owned()))
        }
        ["list", thing, columns @ ..] => list(api, options, thing, columns),
        ["show", "overview", columns @ ..] => {
            let answer = ask(api, &get("/api/overview"))?;
            let columns = match columns {
                [] => &[
                    "rabbitmq_version",
                    "cluster_name",
                    "queue_totals.messages",
                    "object_totals.queues",
                ],
                columns => columns,
            };
            shown(options, &[answer.json()], columns)
        }
        ["publish"] => {
            let payload = match Payload::said(options) {
                Some(payload) => payload,
                None => of_input().map_err(|error| die(error.to_string()))?,
            };
            let asked =
                things::publish(options, &payload).map_err(|why| wrong("publish", "", why))?;
            let answer = ask(api, &asked)?;
            Ok(told(if answer.json()["routed"] == true {
                "Message published".to_owned()
            } else {
                "Message published but NOT routed".to_owned()
            }))
        }
        ["get"] => {
            let file = options.field("payload_file");
            if file.is_some() && options.field("count").is_some_and(|count| count != "1") {
                let why = "Cannot get multiple messages using payload_file";
                return Err(Ended::new(1, format!("ERROR: {why}\n\n{HELP}")));
            }
            let asked = things::get(options).map_err(|why| wrong("get", "", why))?;
            let messages = ask(api, &asked)?.json();
            let messages = messages.as_array().cloned().unwrap_or_default();
            let Some(file) = file else {
                return shown(options, &messages, &[]);
            };
            let Some(first) = messages.first() else {
                return Ok(told("No items".to_owned()));
            };
            fs::write(file, Payload::bytes_of(first))
                .map_err(|error| die(format!("Could not write {file}: {error}")))?;
            shown(options, &messages, &OF_MESSAGE_IN_FILE)
        }
        ["export", file] => {
            let path = with_vhost("/api/definitions", options);
            let definitions = ask(api, &get(&path))?;
            fs::write(file, &definitions.body)
                .map_err(|error| die(format!("Could not write {file}: {error}")))?;
            Ok(told(format!(
                "Exported definitions for {} to \"{file}\"",
                options.host
            )))
        }
        ["import", file] => {
            let text = fs::read_to_string(file)
                .map_err(|error| die(format!("Could not read {file}: {error}")))?;
            let body: Value = serde_json::from_str(&text)
                .map_err(|error| die(format!("Could not parse {file}: {error}")))?;
            let asked = Asked {
                method: "POST",
                path: with_vhost("/api/definitions", options),
                body: Some(body),
            };
            ask(api, &asked)?;
            Ok(told(format!(
                "Imported definitions for {} from \"{file}\"",
                options.host
            )))
        }
        [] => Err(Ended::new(
            1,
            format!("ERROR: Action not specified\n\n{HELP}"),
        )),
        other => Err(Ended::new(
            1,
            format!("ERROR: Action {} not understood\n\n{HELP}", other.join(" ")),
        )),
    }
}

fn with_vhost(path: &str, options: &Options) -> String {
    match &options.vhost {
        Some(vhost) => format!("{path}/{}", crate::client::segment(vhost)),
        None => path.to_owned(),
    }
}

fn get(path: &str) -> Asked {
    Asked {
        method: "GET",
        path: path.to_owned(),
        body: None,
    }
}

/// What is shown of a message whose body is in a file.
const OF_MESSAGE_IN_FILE: [&str; 5] = [
    "routing_key",
    "exchange",
    "message_count",
    "payload_bytes",
    "redelivered",
];

/// A body from standard input, which may be any bytes.
fn of_input() -> io::Result<Payload> {
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes)?;
    Ok(Payload::of_bytes(&bytes))
}

fn list(api: &Api<'_>, options: &Options, thing: &str, asked: &[&str]) -> Result<String, Ended> {
    let Some((path, default)) = things::list(thing, options) else {
        return Err(wrong("list", thing, Wrong::Thing));
    };
    let columns = if asked.is_empty() { default } else { asked };
    let mut query = Vec::new();
    if !columns.is_empty() {
        query.push(format!("columns={}", columns.join(",")));
    }
    if let Some(sort) = &options.sort {
        query.push(format!("sort={sort}"));
    }
    if options.sort_reverse {
        query.push("sort_reverse=true".to_owned());
    }
    let path = if query.is_empty() {
        path
    } else {
        format!("{path}?{}", query.join("&"))
    };
    let answer = ask(api, &get(&path))?;
    let items = match answer.json() {
        Value::Array(items) => items,
        other => vec![json!(other)],
    };
    shown(options, &items, columns)
}

fn shown(options: &Options, items: &[Value], columns: &[&str]) -> Result<String, Ended> {
    show::items(options, items, columns).ok_or_else(|| {
        Ended::new(
            1,
            format!("ERROR: Format {} not recognised\n\n{HELP}", options.format),
        )
    })
}

const COMPLETION: &str = "\
_rabbitmqadmin() {
  local words
  case $COMP_CWORD in
  1) words='list show declare delete close purge publish get export import help' ;;
  2) words='connections channels consumers exchanges queues bindings users vhosts permissions nodes
    parameters policies overview exchange queue binding vhost user permission parameter policy connection' ;;
  *) return 0 ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\")
}
complete -o default -F _rabbitmqadmin rabbitmqadmin
";
