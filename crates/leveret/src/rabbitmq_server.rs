//! The binary under the name `rabbitmq-server`: RabbitMQ's places for files and data.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    config::{Endpoint, Environment, OptionalEndpoint, Settings},
    run::{HTTP_PORT, METRICS_PORT},
};

/// Where RabbitMQ's packages and image keep data.
const DATA_BASE: &str = "/var/lib/rabbitmq/mnesia";

/// Where they have logs, if there are any in files.
const LOG_DIR: &str = "/var/log/rabbitmq";

/// Where they keep the list of plugins.
const ENABLED_PLUGINS: &str = "/etc/rabbitmq/enabled_plugins";

/// What it is called.
const NAME: &str = "rabbitmq-server";

/// Whether that is what the binary was called.
pub(crate) fn is_called(program: Option<&OsString>) -> bool {
    let name = program.and_then(|program| Path::new(program).file_name());
    name.is_some_and(|name| name == NAME)
}

/// The directory of a log whose name is no path, where there is that of RabbitMQ's packages.
pub(crate) fn log_dir() -> Option<PathBuf> {
    let dir = PathBuf::from(LOG_DIR);
    dir.is_dir().then_some(dir)
}

/// Fills in RabbitMQ's places and ports where nobody named any.
///
/// `has_plugins` is false when somebody chose a list of plugins that is not there: RabbitMQ runs without any then.
pub(crate) fn settle(settings: &mut Settings, node: &str, has_plugins: bool) {
    let base = settings
        .storage
        .data_base
        .get_or_insert_with(|| DATA_BASE.into());
    if settings.storage.data_dir.is_none() {
        settings.storage.data_dir = Some(data_dir(base, node, settings.node.node_name.is_some()));
    }
    // Also beside an AMQP address that was chosen: RABBITMQ_NODE_IP_ADDRESS says nothing of the others.
    let by_default = |port| match has_plugins {
        true => OptionalEndpoint::At(Endpoint::Port(port)),
        false => OptionalEndpoint::Off,
    };
    let (listeners, tls) = (&mut settings.listeners, &settings.tls);
    let plain = [
        (&mut listeners.http_listen, tls.http_tls_listen, HTTP_PORT),
        (
            &mut listeners.metrics_listen,
            tls.metrics_tls_listen,
            METRICS_PORT,
        ),
    ];
    for (plain, with_tls, port) in plain {
        // Who asks for TLS alone gets nothing beside it.
        if with_tls.is_none() {
            plain.get_or_insert(by_default(port));
        }
    }
    if settings.listeners.pid_file.is_none() {
        settings.listeners.pid_file = Some(base.join(format!("{node}.pid")));
    }
}

/// The directory of a node. Containers get a new host name with every start: where nobody chose a name for the node, the
/// only data of a node of the usual name are its own.
fn data_dir(base: &Path, node: &str, is_chosen: bool) -> PathBuf {
    let own = base.join(node);
    if is_chosen || own.exists() {
        return own;
    }
    let Some((name, _)) = node.split_once('@') else {
        return own;
    };
    let prefix = format!("{name}@");
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    let mut others = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .filter(|path| path.join("rocksdb").is_dir());
    match (others.next(), others.next()) {
        (Some(only), None) => only,
        _ => own,
    }
}

/// The names in the file of plugins; `None` if somebody named a file that is not there.
pub(crate) fn enabled_plugins(environment: &Environment) -> Option<Vec<String>> {
    let named = environment.path("RABBITMQ_ENABLED_PLUGINS_FILE");
    let is_named = named.is_some();
    let path = named.unwrap_or_else(|| ENABLED_PLUGINS.into());
    let listed = environment.get("RABBITMQ_ENABLED_PLUGINS");
    let text = match (listed, fs::read_to_string(path)) {
        (Some(listed), _) => listed.to_owned(),
        (None, Ok(text)) => text,
        (None, Err(_)) if is_named => return None,
        (None, Err(_)) => String::new(),
    };
    Some(plugins(&text))
}

/// What an operator misses of the plugins they have enabled, in words.
pub(crate) fn missing(plugins: &[String]) -> Vec<String> {
    let missed = plugins
        .iter()
        .filter_map(|plugin| leveret_ctl::missed_of_plugin(plugin));
    missed.collect()
}

/// Whether the plugin is among them that is the event exchange.
pub(crate) fn has_event_exchange(plugins: &[String]) -> bool {
    plugins.iter().any(|name| name == "rabbitmq_event_exchange")
}

/// The atoms of an Erlang list, or the names between commas. Comments begin with `%`.
fn plugins(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .map(|line| line.split('%').next().unwrap_or(""));
    let mut names: Vec<String> = lines
        .flat_map(|line| line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')))
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn the_list_of_plugins_is_read_in_any_spacing() {
        for text in [
            "[rabbitmq_management,rabbitmq_prometheus].",
            "[ rabbitmq_prometheus , \n  rabbitmq_management ]. % x, y\n",
            "rabbitmq_management,rabbitmq_prometheus",
        ] {
            let expected = ["rabbitmq_management", "rabbitmq_prometheus"];
            assert_eq!(plugins(text), expected, "{text}");
        }
        assert!(plugins("[].").is_empty());
    }

    #[test]
    fn data_are_found_again_under_another_host_name() {
        let base = TempDir::new().expect("a directory");
        let of = |node: &str| base.path().join(node);
        let found = |node, is_chosen| data_dir(base.path(), node, is_chosen);
        assert_eq!(found("rabbit@new", false), of("rabbit@new"));
        fs::create_dir_all(of("rabbit@old").join("rocksdb")).expect("data");
        fs::create_dir_all(of("rabbit@theirs").join("msg_stores")).expect("data of RabbitMQ");
        assert_eq!(found("rabbit@new", false), of("rabbit@old"));
        assert_eq!(found("rabbit@new", true), of("rabbit@new"));
        fs::create_dir_all(of("rabbit@third").join("rocksdb")).expect("data");
        assert_eq!(found("rabbit@new", false), of("rabbit@new"));
        assert_eq!(found("rabbit@third", false), of("rabbit@third"));
    }
}
