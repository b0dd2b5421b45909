//! `eval`: there is no Erlang here. What scripts in public ask for most is answered; all else is refused in words.

use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::json;

use crate::{
    call::Call,
    client::{Client, as_told},
    command::Command,
    failure::{DATA, Failure, USAGE},
    format::Output,
};

const GROUP: &str = "Operations";

/// Where the broker tells and takes the time that consumers have for an ack.
const CONSUMER_TIMEOUT: &str = "x/node/consumer-timeout";

/// Where it tells and takes who may log in from its own machine only.
const LOOPBACK_USERS: &str = "x/node/loopback-users";

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "eval",
        "Answers some expressions of Erlang that scripts ask for",
        eval,
    )
    .group(GROUP)
    .takes(1, 1, "<expression>"),
    Command::new("eval_file", "The same with a file", eval_file)
        .group(GROUP)
        .takes(1, 1, "<file path>"),
];

/// What an expression asks for.
#[derive(Debug, PartialEq, Eq)]
enum Asked<'a> {
    Node,
    True,
    DataDir,
    Now,
    SetAlarm(&'a str),
    ClearAlarm(&'a str),
    ConsumerTimeout,
    /// `None` is no timeout.
    SetConsumerTimeout(Option<u64>),
    /// Without the `ok` around them.
    LoopbackUsers,
    SetLoopbackUsers(Vec<&'a str>),
    SetChannelMax(u16),
    Unknown,
}

fn eval_file(call: &Call, client: &Client) -> Result<Output, Failure> {
    let path = call.argument(0);
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::validation(call, DATA, &format!("Bad argument: File {path}: {error}"))
    })?;
    answer(call, client, &text)
}

fn eval(call: &Call, client: &Client) -> Result<Output, Failure> {
    answer(call, client, call.argument(0))
}

fn answer(call: &Call, client: &Client, expression: &str) -> Result<Output, Failure> {
    let expression = normal(expression);
    let text = match asked(&expression) {
        Asked::Unknown => {
            return Err(Failure::validation(
                call,
                USAGE,
                "this broker does not run on Erlang and answers a few expressions only; docs/cli.md lists them",
            ));
        }
        Asked::Node => {
            client.get("x/node")?;
            format!("'{}'", client.node)
        }
        Asked::True => {
            client.get("x/node")?;
            "true".to_owned()
        }
        Asked::DataDir => {
            let status = client.get("x/node/status")?;
            format!("{}", status["data_directory"])
        }
        Asked::Now => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.unwrap_or_default().as_nanos().to_string()
        }
        Asked::SetAlarm(source) => {
            let path = format!("x/node/alarms/{source}");
            client.change("PUT", &path, Some(&json!({})), as_told)?;
            "ok".to_owned()
        }
        Asked::ClearAlarm(source) => {
            client.change("DELETE", &format!("x/node/alarms/{source}"), None, as_told)?;
            "ok".to_owned()
        }
        Asked::ConsumerTimeout => {
            let timeout = client.get(CONSUMER_TIMEOUT)?;
            match timeout["milliseconds"].as_u64() {
                Some(0) | None => "{ok,undefined}".to_owned(),
                Some(millis) => format!("{{ok,{millis}}}"),
            }
        }
        Asked::SetConsumerTimeout(millis) => {
            let told = json!({"milliseconds": millis.unwrap_or(0)});
            client.change("PUT", CONSUMER_TIMEOUT, Some(&told), as_told)?;
            "ok".to_owned()
        }
        Asked::LoopbackUsers => {
            let told = client.get(LOOPBACK_USERS)?;
            let users = told["users"].as_array().into_iter().flatten();
            let users: Vec<_> = users.map(|user| format!("<<{user}>>")).collect();
            format!("[{}]", users.join(","))
        }
        Asked::SetLoopbackUsers(users) => {
            let told = json!({"users": users});
            client.change("PUT", LOOPBACK_USERS, Some(&told), as_told)?;
            "ok".to_owned()
        }
        Asked::SetChannelMax(max) => {
            let told = json!({"channels": max});
            client.change("PUT", "x/node/channel-max", Some(&told), as_told)?;
            "ok".to_owned()
        }
    };
    Ok(Output::Verbatim(text))
}

/// Without spaces outside of texts, quotes around atoms and the full stop.
fn normal(expression: &str) -> String {
    let mut is_text = false;
    let kept = expression.chars().filter(|c| {
        is_text ^= *c == '"';
        is_text || !c.is_whitespace() && *c != '\''
    });
    let kept: String = kept.collect();
    kept.trim_end_matches('.').to_owned()
}

fn asked(expression: &str) -> Asked<'_> {
    match expression {
        "node()" | "erlang:node()" => return Asked::Node,
        "rabbit_nodes:reached_target_cluster_size()"
        | "rabbit:is_running()"
        | "lists:keymember(rabbit,1,application:which_applications())" => return Asked::True,
        "rabbit_mnesia:dir()" | "rabbit:data_dir()" => return Asked::DataDir,
        "application:get_env(rabbit,consumer_timeout)" => return Asked::ConsumerTimeout,
        "os:system_time()" | "erlang:system_time()" => return Asked::Now,
        "{ok,V}=application:get_env(rabbit,loopback_users),V" => return Asked::LoopbackUsers,
        _ => {}
    }
    let set_env = |key: &str| {
        let rest = expression.strip_prefix("application:set_env(rabbit,")?;
        rest.strip_prefix(key)?.strip_prefix(',')?.strip_suffix(')')
    };
    if let Some(value) = set_env("channel_max") {
        return value.parse().map_or(Asked::Unknown, Asked::SetChannelMax);
    }
    if let Some(value) = set_env("loopback_users") {
        return binaries(value).map_or(Asked::Unknown, Asked::SetLoopbackUsers);
    }
    if let Some(value) = set_env("consumer_timeout") {
        return match value {
            "undefined" | "infinity" | "false" => Asked::SetConsumerTimeout(None),
            millis => millis.parse().map_or(Asked::Unknown, |millis| {
                Asked::SetConsumerTimeout(Some(millis))
            }),
        };
    }
    let between = |head: &str, tail: &str| {
        let source = expression.strip_prefix(head)?.strip_suffix(tail)?;
        ["memory", "disk"]
            .into_iter()
            .find(|known| *known == source)
    };
    if let Some(source) = between("rabbit_alarm:set_alarm({{resource_limit,", ",node()},[]})") {
        return Asked::SetAlarm(source);
    }
    if let Some(source) = between("rabbit_alarm:clear_alarm({resource_limit,", ",node()})") {
        return Asked::ClearAlarm(source);
    }
    Asked::Unknown
}

/// A list of binaries: `[<<"one">>,<<"two">>]`. Texts with quotes or escapes inside are not known.
fn binaries(list: &str) -> Option<Vec<&str>> {
    let members = list.strip_prefix('[')?.strip_suffix(']')?;
    if members.is_empty() {
        return Some(Vec::new());
    }
    let texts = members.strip_prefix("<<\"")?.strip_suffix("\">>")?;
    let texts: Vec<&str> = texts.split("\">>,<<\"").collect();
    let is_plain = |text: &&str| !text.contains(['"', '\\']);
    texts.iter().all(is_plain).then_some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_known_however_they_are_spaced() {
        for (text, expected) in [
            ("node().", Asked::Node),
            ("rabbit_nodes:reached_target_cluster_size().", Asked::True),
            (
                "lists:keymember(rabbit, 1, application:which_applications()).",
                Asked::True,
            ),
            ("rabbit_mnesia:dir().", Asked::DataDir),
            (
                "rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []}).",
                Asked::SetAlarm("memory"),
            ),
            (
                "rabbit_alarm:clear_alarm({resource_limit,disk,node()}).",
                Asked::ClearAlarm("disk"),
            ),
            (
                "application:get_env(rabbit, consumer_timeout).",
                Asked::ConsumerTimeout,
            ),
            (
                "application:set_env(rabbit, consumer_timeout, 36000000).",
                Asked::SetConsumerTimeout(Some(36_000_000)),
            ),
            (
                "application:set_env(rabbit,consumer_timeout,undefined)",
                Asked::SetConsumerTimeout(None),
            ),
            (
                "application:set_env(rabbit, consumer_timeout, -1).",
                Asked::Unknown,
            ),
            (
                "{ok, V} = application:get_env(rabbit, loopback_users), V.",
                Asked::LoopbackUsers,
            ),
            (
                "application:set_env(rabbit, loopback_users, []).",
                Asked::SetLoopbackUsers(Vec::new()),
            ),
            (
                "application:set_env(rabbit, loopback_users, [<<\"guest\">>, <<\"it's me\">>]).",
                Asked::SetLoopbackUsers(vec!["guest", "it's me"]),
            ),
            (
                "application:set_env(rabbit, loopback_users, [<<\"a\\\"b\">>]).",
                Asked::Unknown,
            ),
            (
                "application:set_env(rabbit, loopback_users, guest).",
                Asked::Unknown,
            ),
            (
                "application:set_env(rabbit, channel_max, 2048).",
                Asked::SetChannelMax(2048),
            ),
            (
                "application:set_env(rabbit, channel_max, 65536).",
                Asked::Unknown,
            ),
            ("erlang:halt().", Asked::Unknown),
            (
                "rabbit_alarm:set_alarm({{resource_limit, ../x, node()}, []}).",
                Asked::Unknown,
            ),
        ] {
            assert_eq!(asked(&normal(text)), expected, "{text}");
        }
    }
}
