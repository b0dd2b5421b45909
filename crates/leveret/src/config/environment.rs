//! The environment, and the file that stands in for it: rabbitmq-env.conf, with RabbitMQ's names without their prefix.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

/// Variables by their names. What is set to nothing is not there, as in RabbitMQ.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// That of this process. A variable that is no text is not there.
    pub(crate) fn of_process() -> Self {
        env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str)
    }

    /// Adds what a file in the syntax of a shell says and the environment does not; a missing file says nothing.
    pub(crate) fn add_file(&mut self, path: &Path) {
        let text = fs::read_to_string(path).unwrap_or_default();
        for (name, value) in text.lines().filter_map(assignment) {
            let name = if name.starts_with("RABBITMQ_") {
                name.to_owned()
            } else {
                format!("RABBITMQ_{name}")
            };
            if !value.is_empty() {
                self.variables.entry(name).or_insert(value);
            }
        }
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(pairs: T) -> Self {
        let pairs = pairs.into_iter();
        Self {
            variables: pairs.filter(|(_, value)| !value.is_empty()).collect(),
        }
    }
}

/// `NAME=value` of a line, with or without quotes and `export`. Anything else of a shell says nothing.
fn assignment(line: &str) -> Option<(&str, String)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
    let (name, value) = line.split_once('=')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    for quote in ['\'', '"'] {
        if let Some(quoted) = value.strip_prefix(quote) {
            return Some((name, quoted.split(quote).next()?.to_owned()));
        }
    }
    let end = value.find([' ', '\t', '#']).unwrap_or(value.len());
    Some((name, value[..end].to_owned()))
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
            ("# NODENAME=x", None),
            ("if [ -e x ]; then", None),
            ("", None),
        ] {
            let expected = expected.map(|(name, value)| (name, value.to_owned()));
            assert_eq!(assignment(line), expected, "{line}");
        }
    }

    #[test]
    fn what_is_set_to_nothing_is_not_there() {
        let pairs = [
            ("A".to_owned(), String::new()),
            ("B".to_owned(), "b".to_owned()),
        ];
        let environment: Environment = pairs.into_iter().collect();
        assert_eq!(environment.get("A"), None);
        assert_eq!(environment.get("B"), Some("b"));
    }
}
