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

/// Plugins that can be named without a warning, with those each brings along.
const KNOWN: &[(&str, &[&str])] = &[
    ("rabbitmq_amqp1_0", &[]),
    ("rabbitmq_auth_backend_cache", &[]),
    ("rabbitmq_auth_backend_http", &[]),
    ("rabbitmq_auth_backend_internal_loopback", &[]),
    ("rabbitmq_auth_backend_ldap", &[]),
    ("rabbitmq_auth_backend_oauth2", &[]),
    ("rabbitmq_auth_mechanism_ssl", &[]),
    ("rabbitmq_consistent_hash_exchange", &[]),
    ("rabbitmq_delayed_message_exchange", &[]),
    ("rabbitmq_event_exchange", &[]),
    (
        "rabbitmq_exchange_federation",
        &["rabbitmq_federation_common"],
    ),
    (
        "rabbitmq_federation",
        &[
            "rabbitmq_exchange_federation",
            "rabbitmq_federation_common",
            "rabbitmq_queue_federation",
        ],
    ),
    ("rabbitmq_federation_common", &[]),
    (
        "rabbitmq_federation_management",
        &["rabbitmq_federation", "rabbitmq_management"],
    ),
    (
        "rabbitmq_federation_prometheus",
        &["rabbitmq_federation", "rabbitmq_prometheus"],
    ),
    ("rabbitmq_jms_topic_exchange", &[]),
    (
        "rabbitmq_management",
        &["rabbitmq_management_agent", "rabbitmq_web_dispatch"],
    ),
    ("rabbitmq_management_agent", &[]),
    ("rabbitmq_mqtt", &[]),
    (
        "rabbitmq_peer_discovery_aws",
        &["rabbitmq_peer_discovery_common"],
    ),
    ("rabbitmq_peer_discovery_common", &[]),
    (
        "rabbitmq_peer_discovery_consul",
        &["rabbitmq_peer_discovery_common"],
    ),
    (
        "rabbitmq_peer_discovery_etcd",
        &["rabbitmq_peer_discovery_common"],
    ),
    (
        "rabbitmq_peer_discovery_k8s",
        &["rabbitmq_peer_discovery_common"],
    ),
    (
        "rabbitmq_prometheus",
        &["rabbitmq_management_agent", "rabbitmq_web_dispatch"],
    ),
    ("rabbitmq_queue_federation", &["rabbitmq_federation_common"]),
    ("rabbitmq_random_exchange", &[]),
    ("rabbitmq_recent_history_exchange", &[]),
    ("rabbitmq_sharding", &[]),
    ("rabbitmq_shovel", &[]),
    (
        "rabbitmq_shovel_management",
        &["rabbitmq_management", "rabbitmq_shovel"],
    ),
    (
        "rabbitmq_shovel_prometheus",
        &["rabbitmq_prometheus", "rabbitmq_shovel"],
    ),
    ("rabbitmq_stomp", &[]),
    ("rabbitmq_stream", &[]),
    (
        "rabbitmq_stream_management",
        &["rabbitmq_management", "rabbitmq_stream"],
    ),
    ("rabbitmq_top", &["rabbitmq_management"]),
    ("rabbitmq_tracing", &["rabbitmq_management"]),
    ("rabbitmq_trust_store", &[]),
    ("rabbitmq_web_dispatch", &[]),
    (
        "rabbitmq_web_mqtt",
        &["rabbitmq_mqtt", "rabbitmq_web_dispatch"],
    ),
    (
        "rabbitmq_web_mqtt_examples",
        &["rabbitmq_web_dispatch", "rabbitmq_web_mqtt"],
    ),
    (
        "rabbitmq_web_stomp",
        &["rabbitmq_stomp", "rabbitmq_web_dispatch"],
    ),
    (
        "rabbitmq_web_stomp_examples",
        &["rabbitmq_web_dispatch", "rabbitmq_web_stomp"],
    ),
];

/// The file that lists the plugins somebody has enabled.
#[must_use]
pub fn enabled_plugins_file() -> PathBuf {
    env::var_os(FILE_VARIABLE).map_or_else(|| FILE.into(), PathBuf::from)
}

/// Names of all plugins that are known.
pub(crate) fn known() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|(name, _)| *name)
}

/// Whether there is a plugin of this name.
#[must_use]
pub fn is_known(name: &str) -> bool {
    known().any(|known| known == name)
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
        let brought = KNOWN.iter().find(|(name, _)| *name == all[at]);
        for name in brought.map(|(_, brought)| *brought).unwrap_or_default() {
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
        for (name, brought) in KNOWN {
            assert!(brought.iter().all(|other| is_known(other)), "{name}");
        }
    }
}
