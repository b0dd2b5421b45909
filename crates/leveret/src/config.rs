//! What the broker is set to: one table of settings, read from flags, the environment, and files.
//!
//! ```text
//!   table ─┬─▶ flags and their help
//!          ├─▶ merge: defaults, files, environment, flags ─▶ Settings, and what is wrong
//!          ├─▶ `leveret config check`, `leveret config show`
//!          └─▶ docs/configuration.md
//! ```
//!
//! Nothing of what is wrong hides anything else that is: all of it is told at once.

mod conf_file;
mod document;
mod environment;
mod erlang_terms;
mod given;
mod keyed;
mod merge;
mod origin;
mod setting;
mod suggest;
mod table;
mod theirs;
mod tokens;
mod toml_file;
mod value;

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use self::{
    conf_file::{Item, Malformed},
    merge::{Merge, Text},
    setting::Row,
};
pub(crate) use self::{
    document::document,
    environment::Environment,
    given::Given,
    origin::{Origin, Problem, Severity},
    table::{
        AuthBackendName, AuthMechanism, ClientCrlCheck, LogFileName, LogFormat, LogLevel,
        LogMoments, LogTo, LoginPart, PasswordHashing, PasswordValidator, QueueType, ROWS,
        RatesMode, SanType, Settings, Storage, StorageSync, SyslogFacility, SyslogProtocol,
        SyslogTransport, TlsVersion, TokenAlgorithm, VerifyWhom,
    },
    tokens::{CrlCheck, Provider, Server},
    value::{ANY, Bytes, Endpoint, OptionalEndpoint, Range, Value},
};

/// No configuration is larger; what is was named by mistake.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where files are looked for when nobody names any.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    /// rabbitmq.conf, with or without its extension.
    pub(crate) main: Option<PathBuf>,
    /// The directory of further files.
    pub(crate) more: Option<PathBuf>,
    /// The file of Erlang terms that is read last.
    pub(crate) advanced: Option<PathBuf>,
    /// The file that stands in for the environment.
    pub(crate) environment: Option<PathBuf>,
}

/// Arguments of RabbitMQ's virtual machine, in which people set what is in no file of theirs.
const MACHINE_ARGUMENTS: [&str; 2] = [
    "RABBITMQ_SERVER_ERL_ARGS",
    "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
];

impl Places {
    /// Those of RabbitMQ's packages and image.
    pub(crate) fn of_rabbitmq() -> Self {
        Self {
            main: Some("/etc/rabbitmq/rabbitmq".into()),
            more: Some("/etc/rabbitmq/conf.d/*.conf".into()),
            advanced: Some("/etc/rabbitmq/advanced.config".into()),
            environment: Some(leveret_ctl::ENVIRONMENT_FILE.into()),
        }
    }
}

/// What was read.
#[derive(Debug)]
pub(crate) struct Loaded {
    texts: Vec<Text>,
    /// Everything that is wrong.
    pub(crate) problems: Vec<Problem>,
    /// The files that were read, in their order.
    pub(crate) files: Vec<PathBuf>,
    /// The environment, with the file that stands in for it.
    pub(crate) environment: Environment,
}

impl Loaded {
    /// What keeps the broker from starting.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &Problem> {
        let errors = self.problems.iter();
        errors.filter(|problem| problem.severity == Severity::Error)
    }

    /// The settings, if nothing is wrong with any of them.
    pub(crate) fn settings(&self) -> Option<Settings> {
        if self.errors().next().is_some() {
            return None;
        }
        Settings::read(self.texts.iter().map(|text| text.text.as_str()))
    }

    /// Every row with what it is set to and by whom. What must not be shown is not.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&'static Row, &str, &Origin)> {
        ROWS.iter().zip(&self.texts).map(|(row, text)| {
            let shown = if row.is_secret { "..." } else { &text.text };
            (row, shown, &text.origin)
        })
    }

    fn text(&self, name: &str) -> &str {
        let row = ROWS.iter().position(|row| row.name == name);
        row.map_or("", |row| &self.texts[row].text)
    }
}

/// Reads everything.
pub(crate) fn load(given: &Given, mut environment: Environment, places: &Places) -> Loaded {
    let environment_file = environment.path(leveret_ctl::ENVIRONMENT_FILE_VARIABLE);
    if let Some(path) = environment_file.as_ref().or(places.environment.as_ref()) {
        environment.add_file(path);
    }
    let mut merge = Merge::of_defaults();
    let mut files = Vec::new();
    merge.variables(&environment, |row| row.under);
    let own_files = own_files(given, &environment);
    let is_toml = |path: &PathBuf| path.extension().is_some_and(|end| end == "toml");
    let (toml, conf): (Vec<_>, Vec<_>) = own_files.into_iter().partition(is_toml);
    for name in MACHINE_ARGUMENTS {
        let arguments = environment.get(name).unwrap_or_default();
        for line in erlang_terms::read_arguments(arguments) {
            merge.terms(line.key, line.value, Origin::Variable(name.to_owned()));
        }
    }
    let theirs = their_files(&environment, places, &mut merge);
    for path in theirs.into_iter().chain(conf) {
        read_conf(&mut merge, &path, &environment, 0);
        files.push(path);
    }
    merge.settle_conf();
    for path in toml {
        read_toml(&mut merge, &path);
        files.push(path);
    }
    merge.variables(&environment, |row| row.over);
    merge.own_variables(&environment);
    for (row, value) in given.values() {
        merge.named(row.name, value.to_owned(), Origin::Flag(row.flag()));
    }
    merge.look_for_misspelt_variables(&environment);
    let (texts, problems) = merge.into_parts();
    let mut loaded = Loaded {
        texts,
        problems,
        files,
        environment,
    };
    let strict = matches!(loaded.text("config_strict"), "true" | "on" | "yes");
    for problem in &mut loaded.problems {
        if problem.severity == Severity::Unknown {
            problem.severity = if strict {
                Severity::Error
            } else {
                Severity::Warning
            };
        }
    }
    loaded
}

/// The files that are named as ours: by the flag, else by the variable.
fn own_files(given: &Given, environment: &Environment) -> Vec<PathBuf> {
    let flags = given.values().find(|(row, _)| row.name == "config");
    let named = flags.map(|(_, value)| value);
    let named = named.or_else(|| environment.get("LEVERET_CONFIG"));
    named
        .into_iter()
        .flat_map(|names| names.split(','))
        .map(PathBuf::from)
        .collect()
}

/// rabbitmq.conf and what is beside it, in the order in which they override each other. A main file of Erlang terms is the
/// last of them, and stands in for the one that is read last otherwise.
fn their_files(environment: &Environment, places: &Places, merge: &mut Merge) -> Vec<PathBuf> {
    let named = environment.path("RABBITMQ_CONFIG_FILE");
    let main = named.as_ref().or(places.main.as_ref());
    let found = main.and_then(|path| with_extension(path));
    if let (Some(named), None) = (&named, &found) {
        merge.complain(
            Severity::Warning,
            Origin::Variable("RABBITMQ_CONFIG_FILE".to_owned()),
            format!("there is no file {}", named.display()),
        );
    }
    let more = environment.path("RABBITMQ_CONFIG_FILES");
    let more = more.as_ref().or(places.more.as_ref());
    let more = more.map(|more| files_of(more)).unwrap_or_default();
    let has_terms = |path: &PathBuf| {
        let text = || fs::read_to_string(path).unwrap_or_default();
        path.extension().is_none_or(|end| end != "conf") && is_of_terms(path, &text())
    };
    if found.as_ref().is_some_and(has_terms) {
        return more.into_iter().chain(found).collect();
    }
    let advanced = environment.path("RABBITMQ_ADVANCED_CONFIG_FILE");
    let advanced = advanced.as_ref().or(places.advanced.as_ref());
    let advanced = advanced.and_then(|path| with_extension(path));
    found.into_iter().chain(more).chain(advanced).collect()
}

/// The file as it is named, or with the extension that RabbitMQ lets one leave out; of two files it takes the one of
/// Erlang terms.
fn with_extension(named: &Path) -> Option<PathBuf> {
    let with = |end: &str| {
        let mut name = named.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    [named.to_owned(), with(".config"), with(".conf")]
        .into_iter()
        .find(|path| path.is_file())
}

/// The files of a directory, or those that a pattern like `/etc/rabbitmq/conf.d/*.conf` stands for.
fn files_of(named: &Path) -> Vec<PathBuf> {
    if named.is_dir() {
        files_like(&named.join("*"))
    } else {
        files_like(named)
    }
}

/// The files whose names are like the last part of a path, in which `*` stands for anything, by their names. What begins
/// with a point is hidden.
fn files_like(pattern: &Path) -> Vec<PathBuf> {
    let Some(name) = pattern.file_name().and_then(|name| name.to_str()) else {
        return Vec::new();
    };
    let directory = match pattern.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let parts: Vec<&str> = name.split('*').collect();
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .filter(|entry| {
            let found = entry.file_name();
            found
                .to_str()
                .is_some_and(|found| !found.starts_with('.') && is_like(found, &parts))
        })
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}

/// Whether a name is these parts, in their order, with anything between them.
fn is_like(name: &str, parts: &[&str]) -> bool {
    match parts {
        [] => false,
        [whole] => name == *whole,
        [first, between @ .., last] => {
            let Some(mut rest) = name.strip_prefix(first) else {
                return false;
            };
            for part in between {
                let Some((_, behind)) = rest.split_once(part) else {
                    return false;
                };
                rest = behind;
            }
            rest.ends_with(last)
        }
    }
}

/// How deep files may include each other; deeper they go round in a circle.
const INCLUDES_MAX: usize = 10;

fn read_conf(merge: &mut Merge, path: &Path, environment: &Environment, depth: usize) {
    let Some(text) = text_of(merge, path) else {
        return;
    };
    let at = Arc::new(path.to_owned());
    let origin = |number| Origin::File(at.clone(), number);
    let malformed = |merge: &mut Merge, wrong: Malformed| {
        merge.complain(Severity::Error, origin(wrong.number), wrong.reason);
    };
    if is_of_terms(path, &text) {
        for line in erlang_terms::read(&text) {
            match line {
                Ok(line) => merge.terms(line.key, line.value, origin(line.number)),
                Err(wrong) => malformed(merge, wrong),
            }
        }
        return;
    }
    let beside = |name: &str| path.parent().unwrap_or_else(|| Path::new("")).join(name);
    let variable = |name: &str| match name.strip_prefix('<') {
        Some(file) => fs::read_to_string(beside(file))
            .ok()
            .map(|text| text.trim_end_matches(['\r', '\n']).to_owned()),
        None => environment.get(name).map(str::to_owned),
    };
    for item in conf_file::read(&text, &variable) {
        match item {
            Ok(Item::Setting(line)) => merge.conf(line.key, line.value, origin(line.number)),
            Ok(Item::Include(_)) if depth == INCLUDES_MAX => {
                let words = "files include each other in a circle".to_owned();
                merge.complain(Severity::Error, origin(0), words);
            }
            Ok(Item::Include(pattern)) => {
                for included in files_like(&beside(&pattern)) {
                    read_conf(merge, &included, environment, depth + 1);
                }
            }
            Err(wrong) => malformed(merge, wrong),
        }
    }
}

/// Whether a file is one of Erlang terms: by its name, else by what is in it, as RabbitMQ tells them apart.
fn is_of_terms(path: &Path, text: &str) -> bool {
    match path.extension().and_then(|end| end.to_str()) {
        Some("config") => true,
        Some("conf") => false,
        _ => text.trim_start().starts_with(['[', '%']),
    }
}

fn read_toml(merge: &mut Merge, path: &Path) {
    let Some(text) = text_of(merge, path) else {
        return;
    };
    let at = Arc::new(path.to_owned());
    for line in toml_file::read(&text) {
        match line {
            Ok(line) => merge.named(&line.key, line.value, Origin::File(at.clone(), line.number)),
            Err(wrong) => merge.complain(
                Severity::Error,
                Origin::File(at.clone(), wrong.number),
                wrong.reason,
            ),
        }
    }
}

fn text_of(merge: &mut Merge, path: &Path) -> Option<String> {
    let read = || {
        let mut text = String::new();
        let file = fs::File::open(path)?;
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(io::Error::other("it is larger than any configuration"));
        }
        Ok(text)
    };
    match read() {
        Ok(text) => Some(text),
        Err(reason) => {
            let origin = Origin::File(Arc::new(path.to_owned()), 0);
            merge.complain(Severity::Error, origin, format!("cannot read it: {reason}"));
            None
        }
    }
}

#[cfg(test)]
#[path = "../../../fuzz/src/config/configuration.rs"]
#[expect(unreachable_pub, reason = "in its own place the fuzz targets reach it")]
mod configuration;
#[cfg(test)]
#[path = "../../../fuzz/src/mutation.rs"]
#[expect(unreachable_pub, reason = "in its own place the fuzz targets reach it")]
mod mutation;
#[cfg(test)]
mod published;
#[cfg(test)]
mod tests;
