//! A command line of rabbitmqadmin, taken apart.

use std::{collections::BTreeMap, env, fs, path::PathBuf};

use super::Ended;

/// Which grammar was spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Generation {
    First,
    Second,
}

/// What was said.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) generation: Generation,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) username: String,
    pub(super) password: String,
    /// As it was given; commands have defaults of their own.
    pub(super) vhost: Option<String>,
    pub(super) path_prefix: String,
    pub(super) format: String,
    pub(super) sort: Option<String>,
    pub(super) sort_reverse: bool,
    pub(super) depth: usize,
    pub(super) is_quiet: bool,
    /// Verb, object, and words that are neither an option nor a field.
    pub(super) words: Vec<String>,
    /// Fields by their names, with `_` between words.
    pub(super) fields: BTreeMap<String, String>,
}

/// Options with a value, by their long name and letter.
const WITH_VALUE: &[(&str, &str)] = &[
    ("--host", "-H"),
    ("--port", "-P"),
    ("--username", "-u"),
    ("--password", "-p"),
    ("--vhost", "-V"),
    ("--node", "-N"),
    ("--config", "-c"),
    ("--format", "-f"),
    ("--sort", "-S"),
    ("--depth", "-d"),
    ("--base-uri", "-U"),
    ("--path-prefix", ""),
    ("--request-timeout", "-k"),
    ("--table-style", ""),
];

/// Of these, those that are a user's or a health check's when they stand behind it.
const OF_OBJECTS: &[&str] = &["--password", "--port"];

/// Fields of the second generation without a value.
const SWITCHES: &[&str] = &["idempotently", "stdout", "local"];

/// Verbs that only the second generation has.
const SECOND_VERBS: &[&str] = &[
    "health_check",
    "definitions",
    "passwords",
    "rebalance",
    "users",
    "vhosts",
    "queues",
    "exchanges",
    "bindings",
    "policies",
    "parameters",
    "nodes",
    "connections",
    "channels",
    "permissions",
    "user_limits",
    "feature_flags",
    "deprecated_features",
    "auth_attempts",
    "streams",
];

/// Files of settings, of the first and of the second generation.
const CONFIG: &str = ".rabbitmqadmin.conf";

impl Options {
    pub(super) fn parse(words: &[String]) -> Result<Self, Ended> {
        let mut options = Self {
            generation: Generation::First,
            host: "localhost".to_owned(),
            port: 15672,
            username: "guest".to_owned(),
            password: "guest".to_owned(),
            vhost: None,
            path_prefix: String::new(),
            format: "table".to_owned(),
            sort: None,
            sort_reverse: false,
            depth: 1,
            is_quiet: false,
            words: Vec::new(),
            fields: BTreeMap::new(),
        };
        let value_of = |names: &[&str]| {
            let at = words
                .iter()
                .position(|word| names.contains(&word.as_str()))?;
            words.get(at + 1).cloned()
        };
        let node = value_of(&["--node", "-N"]).unwrap_or_else(|| "default".to_owned());
        options.read_config(value_of(&["--config", "-c"]).map(PathBuf::from), &node)?;
        for (key, name) in [
            ("host", "RABBITMQADMIN_TARGET_HOST"),
            ("port", "RABBITMQADMIN_TARGET_PORT"),
            ("username", "RABBITMQADMIN_USERNAME"),
            ("password", "RABBITMQADMIN_PASSWORD"),
            ("vhost", "RABBITMQADMIN_TARGET_VHOST"),
            ("base-uri", "RABBITMQADMIN_BASE_URI"),
        ] {
            if let Ok(value) = env::var(name) {
                options.set(key, value)?;
            }
        }
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            options.take(word, &mut rest)?;
        }
        if let Some(verb) = options.words.first()
            && SECOND_VERBS.contains(&verb.as_str())
        {
            options.generation = Generation::Second;
        }
        if matches!(options.words.as_slice(), [verb, object, ..]
            if (verb == "get" && object == "messages") || (verb == "publish" && object == "message"))
        {
            options.generation = Generation::Second;
        }
        Ok(options)
    }

    fn take<'a>(
        &mut self,
        word: &str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), Ended> {
        let usage = |text: String| Ended::new(2, text);
        let (name, given) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (word, None),
        };
        match name {
            "-q" | "--quiet" => self.is_quiet = true,
            "-R" | "--sort-reverse" => self.sort_reverse = true,
            "--non-interactive" => {
                self.is_quiet = true;
                "tsv".clone_into(&mut self.format);
            }
            "--version" => self.words.insert(0, "version".to_owned()),
            "-h" | "--help" => self.words.insert(0, "help".to_owned()),
            "--bash-completion" => self.words.insert(0, "bash-completion".to_owned()),
            "-s" | "--ssl" | "--use-tls" => {
                return Err(Ended::new(
                    1,
                    "*** TLS is not supported here: use the address of the plain HTTP API",
                ));
            }
            _ => {
                let known = WITH_VALUE
                    .iter()
                    .find(|(long, short)| name == *long || (!short.is_empty() && name == *short));
                if let Some((long, _)) = known {
                    let value = given.or_else(|| rest.next().cloned());
                    let value =
                        value.ok_or_else(|| usage(format!("a value is required for '{name}'")))?;
                    // In front of the verb it is about the API, behind the object about that.
                    if self.words.len() >= 2 && OF_OBJECTS.contains(long) {
                        self.generation = Generation::Second;
                        let field = long.trim_start_matches("--");
                        self.fields.insert(field.to_owned(), value);
                        return Ok(());
                    }
                    return self.set(long.trim_start_matches("--"), value);
                }
                if let Some(field) = name.strip_prefix("--") {
                    self.generation = Generation::Second;
                    let field = field.replace('-', "_");
                    let value = if SWITCHES.contains(&field.as_str()) {
                        given.unwrap_or_else(|| "true".to_owned())
                    } else {
                        let value = given.or_else(|| rest.next().cloned());
                        value.ok_or_else(|| usage(format!("a value is required for '{name}'")))?
                    };
                    self.fields.insert(field, value);
                    return Ok(());
                }
                match word.split_once('=') {
                    Some((key, value)) if !self.words.is_empty() && is_field(key) => {
                        self.fields.insert(key.replace('-', "_"), value.to_owned());
                    }
                    _ => self.words.push(word.to_owned()),
                }
            }
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), Ended> {
        let wrong = |what: &str| Ended::new(1, format!("*** {what}"));
        match name {
            "host" | "hostname" => self.host = value,
            "port" => self.port = value.parse().map_err(|_| wrong("the port is no number"))?,
            "username" => self.username = value,
            "password" => self.password = value,
            "vhost" | "declare_vhost" => self.vhost = Some(value),
            "path-prefix" | "path_prefix" => self.path_prefix = value,
            "format" => self.format = value,
            "sort" => self.sort = Some(value),
            "depth" => self.depth = value.parse().map_err(|_| wrong("the depth is no number"))?,
            "base-uri" | "base_uri" => self.set_base(&value)?,
            // Of a table's looks, and of how long to wait.
            _ => {}
        }
        Ok(())
    }

    /// `http://host:port/prefix`.
    fn set_base(&mut self, uri: &str) -> Result<(), Ended> {
        let Some(rest) = uri.strip_prefix("http://") else {
            return Err(Ended::new(
                1,
                format!("*** no address of a plain HTTP API: {uri}"),
            ));
        };
        let (host, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = host.rsplit_once(':').unwrap_or((host, "15672"));
        host.trim_matches(['[', ']']).clone_into(&mut self.host);
        self.set("port", port.to_owned())?;
        let prefix = prefix.trim_end_matches('/').trim_end_matches("api");
        let prefix = prefix.trim_end_matches('/');
        self.path_prefix = if prefix.is_empty() {
            String::new()
        } else {
            format!("/{prefix}")
        };
        Ok(())
    }

    /// `[section]` and `key = value`, which both generations write.
    fn read_config(&mut self, named: Option<PathBuf>, section: &str) -> Result<(), Ended> {
        let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(CONFIG));
        let is_named = named.is_some();
        let Some(path) = named.or_else(home) else {
            return Ok(());
        };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(_) if !is_named => return Ok(()),
            Err(error) => {
                let text = format!(
                    "*** Could not read config file '{}': {error}",
                    path.display()
                );
                return Err(Ended::new(1, text));
            }
        };
        let mut is_in_section = false;
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('[') {
                is_in_section = name.trim_end_matches(']').trim() == section;
            } else if let Some((key, value)) = line.split_once('=')
                && is_in_section
                && !line.starts_with(['#', ';'])
            {
                let value = value.trim().trim_matches(['"', '\'']);
                self.set(key.trim(), value.to_owned())?;
            }
        }
        Ok(())
    }

    /// The vhost that is meant where one must be.
    pub(super) fn vhost_or_root(&self) -> &str {
        self.vhost.as_deref().unwrap_or("/")
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

/// A name in front of an equals sign, not part of a value.
fn is_field(key: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !key.is_empty() && key.chars().all(is_of_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Options {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        Options::parse(&words).expect("a command line")
    }

    #[test]
    fn words_with_equals_signs_are_of_the_first_generation() {
        let options = options(
            "-H h -P 1 -u a -p b -V v declare queue name=q durable=true arguments={\"a=b\":1}",
        );
        assert_eq!(options.generation, Generation::First);
        assert_eq!((options.host.as_str(), options.port), ("h", 1));
        assert_eq!(options.vhost.as_deref(), Some("v"));
        assert_eq!(options.words, ["declare", "queue"]);
        assert_eq!(options.field("arguments"), Some("{\"a=b\":1}"));
    }

    #[test]
    fn options_behind_the_object_are_of_the_second() {
        let options =
            options("--vhost v declare queue --name q --type classic --auto-delete false");
        assert_eq!(options.generation, Generation::Second);
        assert_eq!(options.field("auto_delete"), Some("false"));
        assert_eq!(options.vhost.as_deref(), Some("v"));
        let user = self::options("-p admin declare user --name u --password theirs");
        assert_eq!(
            (user.password.as_str(), user.field("password")),
            ("admin", Some("theirs"))
        );
        let deleted = self::options("delete queue --name q --idempotently");
        assert_eq!(deleted.field("idempotently"), Some("true"));
    }

    #[test]
    fn an_address_can_be_said_in_one() {
        let options = options("-U http://broker:8080/prefix/ list queues");
        assert_eq!((options.host.as_str(), options.port), ("broker", 8080));
        assert_eq!(options.path_prefix, "/prefix");
    }
}
