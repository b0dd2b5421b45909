//! The environment, and the file that stands in for it: rabbitmq-env.conf, with RabbitMQ's names without their prefix.

use std::{
    collections::BTreeMap,
    env,
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
        for (name, value) in leveret_ctl::variables_of_file(path) {
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

#[cfg(test)]
mod tests {
    use super::*;

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
