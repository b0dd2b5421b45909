//! The second generation: silent when all went well, with the exit codes of rabbitmqctl.

use std::{
    fs,
    io::{self, Read},
};

use serde_json::Value;

use super::{
    Api, Ended, Unreached,
    options::Options,
    show,
    things::{self, Asked, Payload, Wrong},
};
use crate::{
    client::segment,
    failure::{DATA, SOFTWARE, UNAVAILABLE},
    http::Answer,
};

/// The command line is wrong.
const USAGE: u8 = 2;

fn unreached(Unreached(error): Unreached) -> Ended {
    Ended::new(UNAVAILABLE, format!("error sending request: {error}"))
}

fn refused(answer: &Answer) -> Ended {
    let mut text = format!("API responded with a {} {}", answer.status, answer.reason);
    if let Some(why) = answer.json()["reason"].as_str()
        && why != answer.reason
    {
        text = format!("{text}: {why}");
    }
    let code = if answer.status < 500 { DATA } else { SOFTWARE };
    Ended::new(code, text)
}

fn ask(api: &Api<'_>, asked: &Asked) -> Result<Answer, Ended> {
    let answer = api.ask(asked.method, &asked.path, asked.body.as_ref());
    let answer = answer.map_err(unreached)?;
    if answer.is_good() {
        return Ok(answer);
    }
    Err(refused(&answer))
}

fn wrong(wrong: Wrong) -> Ended {
    match wrong {
        Wrong::Thing => Ended::new(USAGE, "error: unrecognized subcommand"),
        Wrong::Missing(name) => Ended::new(
            USAGE,
            format!(
                "error: the following required arguments were not provided:\n  --{} <{}>",
                name.replace('_', "-"),
                name.to_uppercase()
            ),
        ),
        Wrong::NoJson(name, why) => Ended::new(DATA, format!("`{name}` is not valid JSON: {why}")),
    }
}

fn get(path: impl Into<String>) -> Asked {
    Asked {
        method: "GET",
        path: path.into(),
        body: None,
    }
}

pub(super) fn run(api: &Api<'_>, options: &Options) -> Result<String, Ended> {
    let words: Vec<&str> = options.words.iter().map(String::as_str).collect();
    let words = turned(&words);
    match words.as_slice() {
        ["declare", thing] => done(api, &things::declare(thing, options).map_err(wrong)?),
        ["delete" | "close", thing] => delete(api, options, thing),
        ["purge", "queue"] => done(api, &things::delete("contents", options).map_err(wrong)?),
        ["list", thing] => {
            let thing = thing.replace('-', "_");
            let (path, columns) =
                things::list(&thing, options).ok_or_else(|| wrong(Wrong::Thing))?;
            let items = ask(api, &get(path))?.json();
            shown(
                options,
                items.as_array().map(Vec::as_slice).unwrap_or_default(),
                columns,
            )
        }
        ["show", "overview"] => {
            let columns = ["product_name", "rabbitmq_version", "cluster_name", "node"];
            shown(
                options,
                &[ask(api, &get("/api/overview"))?.json()],
                &columns,
            )
        }
        ["publish", "message"] => publish(api, options),
        ["get", "messages"] => {
            let messages = ask(api, &things::get(options).map_err(wrong)?)?.json();
            shown(
                options,
                messages.as_array().map(Vec::as_slice).unwrap_or_default(),
                &[],
            )
        }
        [
            "definitions",
            verb @ ("export" | "import" | "export_from_vhost" | "import_into_vhost"),
        ] => definitions(api, options, verb),
        ["export" | "import", "definitions"] => definitions(api, options, words[0]),
        ["rebalance", "queues" | "all"] => done(
            api,
            &Asked {
                method: "POST",
                path: "/api/rebalance/queues".to_owned(),
                body: None,
            },
        ),
        ["health_check", check] => health(api, options, check),
        ["version", ..] => Ok(format!("rabbitmqadmin {}\n", env!("CARGO_PKG_VERSION"))),
        _ => Err(wrong(Wrong::Thing)),
    }
}

/// `queues declare` is another way to say `declare queue`.
fn turned<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let things = [
        ("queues", "queue"),
        ("exchanges", "exchange"),
        ("bindings", "binding"),
        ("vhosts", "vhost"),
        ("users", "user"),
        ("policies", "policy"),
        ("permissions", "permissions"),
        ("parameters", "parameter"),
        ("streams", "stream"),
        ("connections", "connection"),
        ("nodes", "node"),
        ("channels", "channel"),
        ("user_limits", "user_limit"),
        ("feature_flags", "feature_flag"),
    ];
    if let [thing, verb, ..] = words
        && let Some((plural, singular)) = things.iter().find(|(plural, _)| plural == thing)
    {
        return match *verb {
            "list" | "list_all" => vec![verb.strip_suffix("_all").unwrap_or(verb), plural],
            verb => vec![verb, singular],
        };
    }
    words.to_vec()
}

fn done(api: &Api<'_>, asked: &Asked) -> Result<String, Ended> {
    ask(api, asked)?;
    Ok(String::new())
}

fn delete(api: &Api<'_>, options: &Options, thing: &str) -> Result<String, Ended> {
    let asked = things::delete(thing, options).map_err(wrong)?;
    let answer = api
        .ask(asked.method, &asked.path, None)
        .map_err(unreached)?;
    let is_fine = answer.status == 404 && options.field("idempotently") == Some("true");
    if answer.is_good() || is_fine {
        return Ok(String::new());
    }
    Err(refused(&answer))
}

fn publish(api: &Api<'_>, options: &Options) -> Result<String, Ended> {
    let payload = match (Payload::said(options), options.field("payload_file")) {
        (Some(payload), _) => payload,
        (None, Some(file)) => of_file(file)
            .map_err(|error| Ended::new(DATA, format!("could not read {file}: {error}")))?,
        (None, None) => return Err(wrong(Wrong::Missing("payload"))),
    };
    let asked = things::publish(options, &payload).map_err(wrong)?;
    let is_routed = ask(api, &asked)?.json()["routed"] == true;
    let text = if is_routed {
        "Message published and routed successfully\n"
    } else {
        "Message published but NOT routed\n"
    };
    Ok(text.to_owned())
}

/// The bytes of a file, or with `-` of standard input.
fn of_file(file: &str) -> io::Result<Payload> {
    let mut bytes = Vec::new();
    if file == "-" {
        io::stdin().read_to_end(&mut bytes)?;
    } else {
        bytes = fs::read(file)?;
    }
    Ok(Payload::of_bytes(&bytes))
}

fn definitions(api: &Api<'_>, options: &Options, verb: &str) -> Result<String, Ended> {
    let path = if verb.contains("vhost") {
        format!("/api/definitions/{}", segment(options.vhost_or_root()))
    } else {
        "/api/definitions".to_owned()
    };
    let file = options.field("file");
    let of_file = |error: io::Error| Ended::new(DATA, error.to_string());
    if verb.starts_with("export") {
        let definitions = ask(api, &get(path))?;
        return match file.filter(|file| *file != "-") {
            None => Ok(String::from_utf8_lossy(&definitions.body).into_owned() + "\n"),
            Some(file) => {
                fs::write(file, &definitions.body).map_err(of_file)?;
                Ok(String::new())
            }
        };
    }
    let mut text = String::new();
    match file.filter(|file| *file != "-") {
        None => io::stdin().read_to_string(&mut text).map(|_| ()),
        Some(file) => fs::read_to_string(file).map(|read| text = read),
    }
    .map_err(of_file)?;
    let body: Value = serde_json::from_str(&text)
        .map_err(|error| wrong(Wrong::NoJson("definitions", error.to_string())))?;
    done(
        api,
        &Asked {
            method: "POST",
            path,
            body: Some(body),
        },
    )
}

fn health(api: &Api<'_>, options: &Options, check: &str) -> Result<String, Ended> {
    let check = match check {
        "local_alarms" => "local-alarms".to_owned(),
        "cluster_wide_alarms" => "alarms".to_owned(),
        "node_is_quorum_critical" => "node-is-quorum-critical".to_owned(),
        "virtual_hosts" => "virtual-hosts".to_owned(),
        "ready_to_serve_clients" => "ready-to-serve-clients".to_owned(),
        "port_listener" => {
            let port = options
                .field("port")
                .map_or_else(|| options.port.to_string(), str::to_owned);
            format!("port-listener/{port}")
        }
        "protocol_listener" => {
            let protocol = options.field("protocol");
            format!(
                "protocol-listener/{}",
                segment(protocol.ok_or_else(|| wrong(Wrong::Missing("protocol")))?)
            )
        }
        _ => return Err(wrong(Wrong::Thing)),
    };
    let asked = get(format!("/api/health/checks/{check}"));
    let answer = api.ask("GET", &asked.path, None).map_err(unreached)?;
    match answer.status {
        200..300 => Ok("health check passed\n".to_owned()),
        503 => {
            let options = Options {
                format: "table".to_owned(),
                ..options.clone()
            };
            let table = show::items(&options, &[answer.json()], &["status", "reason"]);
            Err(Ended::new(
                UNAVAILABLE,
                table.unwrap_or_default().trim_end(),
            ))
        }
        _ => Err(refused(&answer)),
    }
}

fn shown(options: &Options, items: &[Value], columns: &[&str]) -> Result<String, Ended> {
    show::items(options, items, columns)
        .ok_or_else(|| Ended::new(USAGE, format!("unknown format {}", options.format)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_may_stand_in_front_of_its_verb() {
        assert_eq!(turned(&["queues", "declare"]), ["declare", "queue"]);
        assert_eq!(turned(&["queues", "list"]), ["list", "queues"]);
        assert_eq!(turned(&["declare", "queue"]), ["declare", "queue"]);
        assert_eq!(
            turned(&["health_check", "local_alarms"]),
            ["health_check", "local_alarms"]
        );
    }

    #[test]
    fn refusals_have_the_codes_of_rabbitmqctl() {
        let answer = |status| Answer {
            status,
            reason: "Not Found".to_owned(),
            body: Vec::new(),
        };
        let ended = refused(&answer(404));
        assert_eq!(
            (ended.code, ended.text.as_str()),
            (DATA, "API responded with a 404 Not Found")
        );
        assert_eq!(refused(&answer(500)).code, SOFTWARE);
    }
}
