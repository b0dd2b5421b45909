//! rabbitmq-env.conf: a script that sets variables, with RABBITMQ's names or without their prefix.
//!
//! Most are assignments and no more, and are read here. What asks a shell for more, as `NODENAME=rabbit@$(hostname -s)`
//! does, is given to one, as RabbitMQ does it.

use std::{
    collections::HashMap,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Where it is unless its variable says otherwise.
pub const ENVIRONMENT_FILE: &str = "/etc/rabbitmq/rabbitmq-env.conf";

/// Says where it is.
pub const ENVIRONMENT_FILE_VARIABLE: &str = "RABBITMQ_CONF_ENV_FILE";

/// What a script may ask for, as RabbitMQ tells it.
const GIVEN: [(&str, &str); 5] = [
    ("RABBITMQ_HOME", "/usr/lib/rabbitmq"),
    ("CONFIG_FILE", "/etc/rabbitmq/rabbitmq"),
    ("ADVANCED_CONFIG_FILE", "/etc/rabbitmq/advanced.config"),
    ("MNESIA_BASE", "/var/lib/rabbitmq/mnesia"),
    ("ENABLED_PLUGINS_FILE", "/etc/rabbitmq/enabled_plugins"),
];

/// The file that is looked at when somebody else than the broker asks.
pub(crate) fn path() -> PathBuf {
    let named = env::var_os(ENVIRONMENT_FILE_VARIABLE).filter(|path| !path.is_empty());
    named.map_or_else(|| ENVIRONMENT_FILE.into(), PathBuf::from)
}

/// What a file sets, each with its whole name. A file that is not there sets nothing, and neither does a script that
/// fails.
#[must_use]
pub fn variables(path: &Path) -> Vec<(String, String)> {
    let Ok(text) = fs::read_to_string(path) else {
        return Vec::new();
    };
    let lines = text.lines().map(str::trim);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let set = if lines.clone().all(is_plain) {
        lines.by_ref().filter_map(assignment).collect()
    } else {
        by_shell(path)
    };
    let whole = |name: String| match name.starts_with("RABBITMQ_") {
        true => name,
        false => format!("RABBITMQ_{name}"),
    };
    set.into_iter()
        .map(|(name, value)| (whole(name), value))
        .collect()
}

/// An assignment that says all of its value.
fn is_plain(line: &str) -> bool {
    let behind = line.split_once('=').map_or("", |(_, value)| value);
    let quotes = |quote: char| behind.matches(quote).count();
    let is_whole = match behind.chars().next() {
        Some(quote @ ('\'' | '"')) => quotes(quote) == 2,
        _ => !behind.contains(['\'', '"']),
    };
    is_whole
        && !behind.contains(['$', '`', '\\', ';', '&', '|', '(', '<', '>'])
        && assignment(line).is_some()
}

/// `NAME=value` of a line, with or without quotes and `export`.
fn assignment(line: &str) -> Option<(String, String)> {
    let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
    let (name, value) = line.split_once('=')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    for quote in ['\'', '"'] {
        if let Some(quoted) = value.strip_prefix(quote) {
            return Some((name.to_owned(), quoted.split(quote).next()?.to_owned()));
        }
    }
    let end = value.find([' ', '\t', '#']).unwrap_or(value.len());
    Some((name.to_owned(), value[..end].to_owned()))
}

/// What a shell has set, and otherwise than before, when it is through with the file.
fn by_shell(path: &Path) -> Vec<(String, String)> {
    let before: HashMap<String, String> = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .chain(GIVEN.map(|(name, value)| (name.to_owned(), value.to_owned())))
        .collect();
    // A name without a slash would be looked for where programs are.
    let path = match path.parent() {
        Some(parent) if parent != Path::new("") => path.to_owned(),
        _ => Path::new(".").join(path),
    };
    let script = "set -a; . \"$1\" >/dev/null && exec env -0";
    let told = Command::new("sh")
        .args(["-e", "-c", script, "sh"])
        .arg(path)
        .envs(GIVEN)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let text = match told {
        Ok(told) if told.status.success() => told.stdout,
        Ok(_) | Err(_) => return Vec::new(),
    };
    let text = String::from_utf8_lossy(&text);
    let set = text.split('\0').filter_map(|one| one.split_once('='));
    set.filter(|(name, value)| before.get(*name).is_none_or(|known| known != value))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_of_a_shell_are_read() {
        for (line, expected) in [
            ("NODENAME=rabbit@here", Some(("NODENAME", "rabbit@here"))),
            ("export NODE_PORT=5673 # other", Some(("NODE_PORT", "5673"))),
            ("LOGS='a b'", Some(("LOGS", "a b"))),
            ("LOGS=\"-\"", Some(("LOGS", "-"))),
            ("if [ -e x ]; then", None),
            ("", None),
        ] {
            let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
            assert_eq!(assignment(line), expected, "{line}");
        }
    }

    #[test]
    fn a_script_is_given_to_a_shell() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("env.conf");
        let read = |text: &str| {
            fs::write(&path, text).expect("a file");
            variables(&path)
        };
        let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        let plain = read("# x\nNODENAME=a@b\nRABBITMQ_NODE_PORT='5673'\n");
        let expected = owned(&[("RABBITMQ_NODENAME", "a@b"), ("RABBITMQ_NODE_PORT", "5673")]);
        assert_eq!(plain, expected);
        let scripted = read(
            "if true; then NODENAME=rabbit@$(echo here); fi\n\
             SERVER_ADDITIONAL_ERL_ARGS=\"-rabbit a 1 \\\n -rabbit b 2\"\necho noise\n\
             LOGS=$MNESIA_BASE/log\n",
        );
        for (name, value) in [
            ("RABBITMQ_NODENAME", "rabbit@here"),
            (
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "-rabbit a 1  -rabbit b 2",
            ),
            ("RABBITMQ_LOGS", "/var/lib/rabbitmq/mnesia/log"),
        ] {
            let pair = (name.to_owned(), value.to_owned());
            assert!(scripted.contains(&pair), "{name}: {scripted:?}");
        }
        let untouched = scripted
            .iter()
            .any(|(name, _)| name == "RABBITMQ_MNESIA_BASE");
        assert!(!untouched, "{scripted:?}");
        assert!(read("NODENAME=$(echo x)\nexit 1\n").is_empty());
        assert!(variables(&dir.path().join("nowhere")).is_empty());
    }
}
