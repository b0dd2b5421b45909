//! Plugins of RabbitMQ. What they do is built in or not there; enabling one is a note in a file that tools read.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// The variable that names the file.
const FILE_VARIABLE: &str = "RABBITMQ_ENABLED_PLUGINS_FILE";

/// Where it is otherwise.
const FILE: &str = "/etc/rabbitmq/enabled_plugins";

/// What is on while there is no file.
const DEFAULT: [&str; 2] = ["rabbitmq_management", "rabbitmq_prometheus"];

/// A plugin of RabbitMQ's, and what becomes of it here.
#[derive(Debug)]
struct Plugin {
    name: &'static str,
    /// Others that it brings along.
    brings: &'static [&'static str],
    /// What whoever enables it does not get.
    missed: Option<&'static str>,
}

/// What it does is built in, or is nothing that anybody would miss.
const fn built_in(name: &'static str, brings: &'static [&'static str]) -> Plugin {
    Plugin {
        name,
        brings,
        missed: None,
    }
}

/// Nobody does its work.
const fn missing(
    name: &'static str,
    brings: &'static [&'static str],
    missed: &'static str,
) -> Plugin {
    Plugin {
        name,
        brings,
        missed: Some(missed),
    }
}

/// All that RabbitMQ comes with, and the one of others that most people add.
static KNOWN: &[Plugin] = &[
    missing("rabbitmq_amqp1_0", &[], "AMQP 1.0 clients are not served"),
    built_in("rabbitmq_auth_backend_cache", &[]),
    missing(
        "rabbitmq_auth_backend_http",
        &[],
        "users are those of the broker itself",
    ),
    missing(
        "rabbitmq_auth_backend_internal_loopback",
        &[],
        "loopback_users says who may come from this machine only",
    ),
    missing(
        "rabbitmq_auth_backend_ldap",
        &[],
        "users are those of the broker itself",
    ),
    built_in("rabbitmq_auth_backend_oauth2", &[]),
    built_in("rabbitmq_auth_mechanism_ssl", &[]),
    built_in("rabbitmq_consistent_hash_exchange", &[]),
    built_in("rabbitmq_delayed_message_exchange", &[]),
    built_in("rabbitmq_event_exchange", &[]),
    missing(
        "rabbitmq_exchange_federation",
        &["rabbitmq_federation_common"],
        "upstreams are kept as parameters and nothing is fetched from them",
    ),
    missing(
        "rabbitmq_federation",
        &[
            "rabbitmq_exchange_federation",
            "rabbitmq_federation_common",
            "rabbitmq_queue_federation",
        ],
        "upstreams are kept as parameters and nothing is fetched from them",
    ),
    built_in("rabbitmq_federation_common", &[]),
    missing(
        "rabbitmq_federation_management",
        &["rabbitmq_federation", "rabbitmq_management"],
        "there are no federation links to show",
    ),
    missing(
        "rabbitmq_federation_prometheus",
        &["rabbitmq_federation", "rabbitmq_prometheus"],
        "there are no federation links to measure",
    ),
    missing(
        "rabbitmq_jms_topic_exchange",
        &[],
        "there is no exchange type x-jms-topic",
    ),
    built_in(
        "rabbitmq_management",
        &["rabbitmq_management_agent", "rabbitmq_web_dispatch"],
    ),
    built_in("rabbitmq_management_agent", &[]),
    missing("rabbitmq_mqtt", &[], "MQTT clients are not served"),
    missing(
        "rabbitmq_peer_discovery_aws",
        &["rabbitmq_peer_discovery_common"],
        "nodes do not find each other: each is a broker of its own",
    ),
    built_in("rabbitmq_peer_discovery_common", &[]),
    missing(
        "rabbitmq_peer_discovery_consul",
        &["rabbitmq_peer_discovery_common"],
        "nodes do not find each other: each is a broker of its own",
    ),
    missing(
        "rabbitmq_peer_discovery_etcd",
        &["rabbitmq_peer_discovery_common"],
        "nodes do not find each other: each is a broker of its own",
    ),
    missing(
        "rabbitmq_peer_discovery_k8s",
        &["rabbitmq_peer_discovery_common"],
        "nodes do not find each other: each is a broker of its own",
    ),
    built_in(
        "rabbitmq_prometheus",
        &["rabbitmq_management_agent", "rabbitmq_web_dispatch"],
    ),
    missing(
        "rabbitmq_queue_federation",
        &["rabbitmq_federation_common"],
        "upstreams are kept as parameters and nothing is fetched from them",
    ),
    built_in("rabbitmq_random_exchange", &[]),
    built_in("rabbitmq_recent_history_exchange", &[]),
    missing(
        "rabbitmq_sharding",
        &[],
        "the exchange type x-modulus-hash is there, and nobody makes queues for its shards",
    ),
    missing(
        "rabbitmq_shovel",
        &[],
        "shovels are kept as parameters and move nothing",
    ),
    missing(
        "rabbitmq_shovel_management",
        &["rabbitmq_management", "rabbitmq_shovel"],
        "there are no shovels to show",
    ),
    missing(
        "rabbitmq_shovel_prometheus",
        &["rabbitmq_prometheus", "rabbitmq_shovel"],
        "there are no shovels to measure",
    ),
    missing("rabbitmq_stomp", &[], "STOMP clients are not served"),
    missing(
        "rabbitmq_stream",
        &[],
        "clients of the stream protocol are not served; streams are there for AMQP clients",
    ),
    missing(
        "rabbitmq_stream_management",
        &["rabbitmq_management", "rabbitmq_stream"],
        "streams show as queues do",
    ),
    missing(
        "rabbitmq_top",
        &["rabbitmq_management"],
        "there are no Erlang processes to list",
    ),
    missing(
        "rabbitmq_tracing",
        &["rabbitmq_management"],
        "traces go to the exchange amq.rabbitmq.trace and to no file",
    ),
    missing(
        "rabbitmq_trust_store",
        &[],
        "certificates that are trusted are those of tls_ca",
    ),
    built_in("rabbitmq_web_dispatch", &[]),
    missing(
        "rabbitmq_web_mqtt",
        &["rabbitmq_mqtt", "rabbitmq_web_dispatch"],
        "MQTT clients in browsers are not served",
    ),
    missing(
        "rabbitmq_web_mqtt_examples",
        &["rabbitmq_web_dispatch", "rabbitmq_web_mqtt"],
        "MQTT clients in browsers are not served",
    ),
    missing(
        "rabbitmq_web_stomp",
        &["rabbitmq_stomp", "rabbitmq_web_dispatch"],
        "STOMP clients in browsers are not served",
    ),
    missing(
        "rabbitmq_web_stomp_examples",
        &["rabbitmq_web_dispatch", "rabbitmq_web_stomp"],
        "STOMP clients in browsers are not served",
    ),
];

/// The file that lists the plugins somebody has enabled.
#[must_use]
pub fn enabled_plugins_file() -> PathBuf {
    env::var_os(FILE_VARIABLE).map_or_else(|| FILE.into(), PathBuf::from)
}

/// Names of all plugins that are known.
pub(crate) fn known() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|plugin| plugin.name)
}

/// Whether there is a plugin of this name.
pub(crate) fn is_known(name: &str) -> bool {
    known().any(|known| known == name)
}

/// What somebody who enables this plugin does not get, in words; `None` when they get what they asked for.
#[must_use]
pub fn missed(name: &str) -> Option<String> {
    let Some(plugin) = KNOWN.iter().find(|plugin| plugin.name == name) else {
        return Some(format!("there is no plugin {name}"));
    };
    let missed = plugin.missed?;
    Some(format!("{name} has no counterpart here: {missed}"))
}

/// What a file lists, whatever its spaces and ends of line.
pub(crate) fn read(file: &Path) -> io::Result<Vec<String>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(parse(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(DEFAULT.map(str::to_owned).to_vec())
        }
        Err(error) => Err(error),
    }
}

fn parse(text: &str) -> Vec<String> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    // A comment ends with its line.
    let lines = text
        .lines()
        .map(|line| line.split('%').next().unwrap_or_default());
    let mut names: Vec<String> = lines
        .flat_map(|line| line.split(|c| !is_of_name(c)))
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Writes the list, whole or not at all.
pub(crate) fn write(file: &Path, names: &[String]) -> io::Result<()> {
    let mut names = names.to_vec();
    names.sort();
    names.dedup();
    let text = format!("[{}].\n", names.join(","));
    let aside = file.with_extension("new");
    let renamed = fs::write(&aside, &text).and_then(|()| fs::rename(&aside, file));
    match renamed {
        // A file that was mounted can be written and not replaced.
        Err(_) => {
            let _ = fs::remove_file(&aside);
            fs::write(file, &text)
        }
        Ok(()) => Ok(()),
    }
}

/// These and all they bring along, by name.
pub(crate) fn with_implied(names: &[String]) -> Vec<String> {
    let mut all = names.to_vec();
    let mut at = 0;
    while at < all.len() {
        let plugin = KNOWN.iter().find(|plugin| plugin.name == all[at]);
        for name in plugin.map(|plugin| plugin.brings).unwrap_or_default() {
            if !all.iter().any(|known| known == name) {
                all.push((*name).to_owned());
            }
        }
        at += 1;
    }
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_however_it_is_spaced() {
        for text in [
            "[rabbitmq_management,rabbitmq_prometheus].",
            "[rabbitmq_management , rabbitmq_prometheus ] .\n",
            "[\n  rabbitmq_prometheus,\n  rabbitmq_management % the pages\n].\n",
            "['rabbitmq_management','rabbitmq_prometheus'].",
        ] {
            assert_eq!(parse(text), DEFAULT, "{text}");
        }
        assert!(parse("[].").is_empty());
    }

    #[test]
    fn a_list_is_written_sorted_in_one_line() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("enabled_plugins");
        let names = ["rabbitmq_stomp", "rabbitmq_mqtt", "rabbitmq_stomp"].map(str::to_owned);
        write(&file, &names).expect("it is written");
        assert_eq!(
            fs::read_to_string(&file).expect("it is there"),
            "[rabbitmq_mqtt,rabbitmq_stomp].\n"
        );
    }

    #[test]
    fn plugins_bring_others_along() {
        let all = with_implied(&["rabbitmq_shovel_management".to_owned()]);
        assert_eq!(
            all,
            [
                "rabbitmq_management",
                "rabbitmq_management_agent",
                "rabbitmq_shovel",
                "rabbitmq_shovel_management",
                "rabbitmq_web_dispatch"
            ]
        );
        for Plugin { name, brings, .. } in KNOWN {
            assert!(brings.iter().all(|other| is_known(other)), "{name}");
        }
    }

    #[test]
    fn whoever_enables_what_is_not_there_is_told() {
        assert_eq!(missed("rabbitmq_management"), None);
        assert_eq!(missed("rabbitmq_consistent_hash_exchange"), None);
        assert_eq!(
            missed("rabbitmq_mqtt").as_deref(),
            Some("rabbitmq_mqtt has no counterpart here: MQTT clients are not served")
        );
        assert_eq!(
            missed("rabbitmq_mangement").as_deref(),
            Some("there is no plugin rabbitmq_mangement")
        );
    }
}
