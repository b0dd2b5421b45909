//! From all that was said to one text for each row of the table.
//!
//! ```text
//!   default ◀ RabbitMQ's variables that yield ◀ rabbitmq.conf ◀ conf.d ◀ TOML ◀ RabbitMQ's variables ◀ LEVERET_ ◀ flags
//! ```
//!
//! What stands further right wins. Keys of rabbitmq.conf are merged among themselves first, whole key by whole key, before
//! the settings are read from them: `listeners.tcp.1` of a later file replaces that of an earlier one and leaves
//! `listeners.tcp.2` as it is.

use std::{cmp::Ordering, collections::BTreeMap, fs};

use leveret_runtime::Amount;

use super::{
    environment::Environment,
    erlang_terms::ENCRYPTED,
    keyed,
    origin::{Origin, Problem, Severity},
    setting::{Form, Key, Row, WithoutEffect},
    suggest,
    table::{ROWS, WITHOUT_EFFECT},
    theirs,
    value::{self, ANY, Value},
};

/// Variables of RabbitMQ that have nothing to say here. What is not in this list and looks like one of those that have is
/// told, so that a misspelt name is seen.
const SILENT_VARIABLES: [&str; 1] = ["RABBITMQ_NODE_TYPE"];

/// Variables of Bitnami's image, which people take along when they change the image, and how the same is said here.
const BITNAMI_VARIABLES: [(&str, &str); 14] = [
    ("RABBITMQ_USERNAME", "RABBITMQ_DEFAULT_USER"),
    ("RABBITMQ_PASSWORD", "RABBITMQ_DEFAULT_PASS"),
    ("RABBITMQ_SECURE_PASSWORD", "RABBITMQ_DEFAULT_PASS"),
    ("RABBITMQ_VHOST", "RABBITMQ_DEFAULT_VHOST"),
    ("RABBITMQ_VHOSTS", "a file of definitions"),
    ("RABBITMQ_ERL_COOKIE", "RABBITMQ_ERLANG_COOKIE"),
    ("RABBITMQ_NODE_NAME", "RABBITMQ_NODENAME"),
    ("RABBITMQ_NODE_PORT_NUMBER", "RABBITMQ_NODE_PORT"),
    (
        "RABBITMQ_MANAGER_PORT_NUMBER",
        "management.tcp.port in rabbitmq.conf",
    ),
    (
        "RABBITMQ_MANAGEMENT_ALLOW_WEB_ACCESS",
        "loopback_users in rabbitmq.conf",
    ),
    (
        "RABBITMQ_LOAD_DEFINITIONS",
        "load_definitions in rabbitmq.conf",
    ),
    (
        "RABBITMQ_DEFINITIONS_FILE",
        "load_definitions in rabbitmq.conf",
    ),
    ("RABBITMQ_PLUGINS", "the file enabled_plugins"),
    (
        "RABBITMQ_DISK_FREE_ABSOLUTE_LIMIT",
        "disk_free_limit in rabbitmq.conf",
    ),
];

/// A value and where it comes from.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// What one key said of a row.
struct Said {
    /// Its place in the row's list.
    rank: usize,
    form: Form,
    syntax: Syntax,
    member: String,
    text: String,
    origin: Origin,
}

impl Said {
    /// Whether it is, or is one of, what the setting is as a whole.
    const fn is_of_the_whole(&self) -> bool {
        matches!(
            self.form,
            Form::Whole | Form::Member | Form::Named | Form::Share | Form::Size
        )
    }
}

/// In which syntax a key was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    /// That of rabbitmq.conf, whose values RabbitMQ checks.
    Conf,
    /// Erlang terms, which say more and which it takes as they are.
    Terms,
}

/// What is known so far.
#[derive(Debug)]
pub(crate) struct Merge {
    texts: Vec<Text>,
    conf: BTreeMap<String, (Syntax, Text)>,
    problems: Vec<Problem>,
}

impl Merge {
    /// The defaults.
    pub(crate) fn of_defaults() -> Self {
        let texts = ROWS.iter().map(|row| Text {
            text: row.default.to_owned(),
            origin: Origin::Default,
        });
        Self {
            texts: texts.collect(),
            conf: BTreeMap::new(),
            problems: Vec::new(),
        }
    }

    /// The texts in the order of the table, and what was wrong.
    pub(crate) fn into_parts(self) -> (Vec<Text>, Vec<Problem>) {
        (self.texts, self.problems)
    }

    pub(crate) fn complain(&mut self, severity: Severity, origin: Origin, text: String) {
        self.problems.push(Problem {
            severity,
            origin,
            text,
        });
    }

    /// A key of rabbitmq.conf; counts when all of them are there.
    pub(crate) fn conf(&mut self, key: String, value: String, origin: Origin) {
        self.add(Syntax::Conf, key, value, origin);
    }

    /// The same, of a file of Erlang terms.
    pub(crate) fn terms(&mut self, key: String, value: String, origin: Origin) {
        self.add(Syntax::Terms, key, value, origin);
    }

    fn add(&mut self, syntax: Syntax, key: String, value: String, origin: Origin) {
        let text = Text {
            text: value,
            origin,
        };
        self.conf.insert(key, (syntax, text));
    }

    /// Reads the settings from the keys of rabbitmq.conf.
    pub(crate) fn settle_conf(&mut self) {
        self.listener_of_old();
        let mut said: Vec<Vec<Said>> = ROWS.iter().map(|_| Vec::new()).collect();
        for (key, (syntax, text)) in std::mem::take(&mut self.conf) {
            let Some(text) = self.as_rabbitmq_takes_it(syntax, &key, text) else {
                continue;
            };
            let found = ROWS.iter().enumerate().find_map(|(index, row)| {
                let keys = row.keys.iter().enumerate();
                let matching = |(rank, one): (usize, &'static Key)| {
                    one.matches(&key)
                        .map(|member| (index, rank, one, member.to_owned()))
                };
                keys.filter_map(matching).next()
            });
            if let Some((index, rank, one, member)) = found {
                let (row, form) = (&ROWS[index], one.form);
                let text = match form {
                    Form::Pair => Text {
                        text: format!("{member}={}", text.text.replace(',', "\\,")),
                        ..text
                    },
                    Form::Leaf => Text {
                        text: keyed::entry(&member, &key, &text.text),
                        ..text
                    },
                    Form::Branch => Text {
                        text: keyed::branch(one.pattern, &key, &text.text),
                        ..text
                    },
                    _ => text,
                };
                if let Some(text) = self.checked(row, form, &key, &text) {
                    said[index].push(Said {
                        rank,
                        form,
                        syntax,
                        member,
                        text: text.text,
                        origin: text.origin,
                    });
                }
            } else if let Some(keys) = WITHOUT_EFFECT.iter().find(|keys| keys.has(&key)) {
                if !WithoutEffect::asks_for_nothing(&text.text) {
                    let words = format!("{key} has no effect: {}", keys.reason);
                    self.complain(keys.told, text.origin, words);
                }
            } else {
                let known = ROWS.iter().flat_map(|row| row.keys).map(|key| key.pattern);
                let known = known.chain(theirs::patterns());
                self.unknown("setting", &key, known, text.origin);
            }
        }
        for (index, said) in said.into_iter().enumerate() {
            self.apply(index, said);
        }
    }

    /// The one listener of the HTTP API that there was before it had two: with TLS it is what the second is now.
    fn listener_of_old(&mut self) {
        let Some((_, ssl)) = self.conf.get("management.listener.ssl") else {
            return;
        };
        if ssl.text != "true" {
            return;
        }
        self.conf.remove("management.listener.ssl");
        for part in ["port", "ip"] {
            if let Some(said) = self.conf.remove(&format!("management.listener.{part}")) {
                let key = format!("management.ssl.{part}");
                self.conf.entry(key).or_insert(said);
            }
        }
    }

    /// The value, if RabbitMQ would start with it; complains if not. A key that it does not have is looked at elsewhere.
    fn as_rabbitmq_takes_it(&mut self, syntax: Syntax, key: &str, said: Text) -> Option<Text> {
        let read = match syntax {
            Syntax::Conf => theirs::read(key, &said.text),
            Syntax::Terms => None,
        };
        match read {
            None => Some(said),
            Some(Ok(text)) => Some(Text { text, ..said }),
            Some(Err(allowed)) => {
                let blank = match said.text.ends_with(char::is_whitespace) {
                    true => ", and no blank behind it",
                    false => "",
                };
                let text = &said.text;
                let words = format!("{key} = {text} is not possible; allowed is {allowed}{blank}");
                self.complain(Severity::Error, said.origin, words);
                None
            }
        }
    }

    /// RabbitMQ's variables, of one of the two kinds.
    pub(crate) fn variables(
        &mut self,
        environment: &Environment,
        keys_of: fn(&'static Row) -> &'static [Key],
    ) {
        for (index, row) in ROWS.iter().enumerate() {
            let mut said = Vec::new();
            for (rank, key) in keys_of(row).iter().enumerate() {
                let Some(value) = environment.get(key.pattern) else {
                    continue;
                };
                let text = Text {
                    text: value.to_owned(),
                    origin: Origin::Variable(key.pattern.to_owned()),
                };
                if let Some(text) = self.checked(row, key.form, key.pattern, &text) {
                    said.push(Said {
                        rank,
                        form: key.form,
                        syntax: Syntax::Conf,
                        member: String::new(),
                        text: text.text,
                        origin: text.origin,
                    });
                }
            }
            self.apply(index, said);
        }
    }

    /// `LEVERET_` variables; of what must not be shown also their `_FILE` form.
    pub(crate) fn own_variables(&mut self, environment: &Environment) {
        for (index, row) in ROWS.iter().enumerate() {
            let name = row.variable();
            let file = format!("{name}_FILE");
            let forms = [(file, Form::Contents), (name, Form::Whole)];
            for (name, form) in forms {
                if form == Form::Contents && !row.is_secret {
                    continue;
                }
                if let Some(value) = environment.get(&name) {
                    let origin = Origin::Variable(name.clone());
                    self.own(index, form, &name, value.to_owned(), origin);
                }
            }
        }
    }

    /// Tells of variables that look like one of ours and are none.
    pub(crate) fn look_for_misspelt_variables(&mut self, environment: &Environment) {
        let own: Vec<String> = ROWS.iter().map(Row::variable).collect();
        let theirs = ROWS
            .iter()
            .flat_map(|row| row.under.iter().chain(row.over))
            .map(|key| key.pattern);
        let known: Vec<&str> = theirs
            .chain(own.iter().map(String::as_str))
            .chain(SILENT_VARIABLES)
            .collect();
        for name in environment.names() {
            let is_like_ours = name.starts_with("LEVERET_") || name.starts_with("RABBITMQ_");
            let is_file = name
                .strip_suffix("_FILE")
                .is_some_and(|name| known.contains(&name));
            if !is_like_ours || is_file || known.contains(&name) {
                continue;
            }
            let mut of_bitnami = BITNAMI_VARIABLES.iter();
            if let Some((_, here)) = of_bitnami.find(|(theirs, _)| *theirs == name) {
                self.problems.push(Problem {
                    severity: Severity::Warning,
                    origin: Origin::Variable(name.to_owned()),
                    text: format!(
                        "it has no effect: it is one of Bitnami's image; here the same is said by {here}"
                    ),
                });
                continue;
            }
            if let Some(meant) = suggest::misspelt(name, known.iter().copied()) {
                self.problems.push(Problem {
                    severity: Severity::Warning,
                    origin: Origin::Variable(name.to_owned()),
                    text: format!("there is no variable of that name; did you mean {meant}?"),
                });
            }
        }
    }

    /// A setting under its own name.
    pub(crate) fn named(&mut self, name: &str, value: String, origin: Origin) {
        if let Some(index) = ROWS.iter().position(|row| row.name == name) {
            self.own(index, Form::Whole, name, value, origin);
        } else {
            self.unknown("setting", name, ROWS.iter().map(|row| row.name), origin);
        }
    }

    fn own(&mut self, index: usize, form: Form, name: &str, value: String, origin: Origin) {
        let text = Text {
            text: value,
            origin,
        };
        if let Some(text) = self.checked(&ROWS[index], form, name, &text) {
            self.texts[index] = text;
        }
    }

    fn unknown<'a>(
        &mut self,
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
        origin: Origin,
    ) {
        let meant = suggest::nearest(name, known)
            .map(|meant| format!("; did you mean {meant}?"))
            .unwrap_or_default();
        let text = format!("there is no {what} {name}{meant}");
        self.complain(Severity::Unknown, origin, text);
    }

    /// The text as its row would have it; complains if it is not allowed.
    fn checked(&mut self, row: &Row, form: Form, name: &str, said: &Text) -> Option<Text> {
        let text = said.text.as_str();
        if row.is_secret && text.starts_with(ENCRYPTED) {
            let words = format!(
                "{name} is encrypted, which cannot be read here; write it as it is, or in a file that $(<FILE) names"
            );
            self.complain(Severity::Error, said.origin.clone(), words);
            return None;
        }
        let own = |text: &str| (row.check)(text, row.range).then(|| text.to_owned());
        let read = match form {
            Form::Whole | Form::Member | Form::Pair | Form::Leaf | Form::Branch => {
                own(text).ok_or_else(|| row.allowed_for_people())
            }
            Form::IfAllowed => {
                return own(text).map(|text| Text {
                    text,
                    origin: said.origin.clone(),
                });
            }
            Form::Named => bool::read(text, ANY)
                .map(|is_in| is_in.to_string())
                .ok_or_else(|| bool::allowed(ANY)),
            Form::Port => u16::read(text, ANY)
                .map(|port| port.to_string())
                .ok_or_else(|| u16::allowed(ANY)),
            Form::Ip if text == "auto" => return None,
            Form::Ip => value::ip(text)
                .map(|ip| ip.to_string())
                .ok_or_else(|| "an IPv4 or IPv6 address".to_owned()),
            Form::Share => share(text).ok_or_else(|| "a share like 0.4 or 40%".to_owned()),
            Form::Size => matches!(text.parse(), Ok(Amount::Bytes(_)))
                .then(|| text.to_owned())
                .ok_or_else(|| "bytes, or a size like 512MB or 512MiB".to_owned()),
            Form::Contents => match fs::read_to_string(text) {
                Ok(contents) => own(contents.trim_end_matches(['\r', '\n']))
                    .ok_or_else(|| row.allowed_for_people()),
                Err(reason) => {
                    let text = format!("cannot read {text}: {reason}");
                    self.complain(Severity::Error, said.origin.clone(), text);
                    return None;
                }
            },
        };
        match read {
            Ok(text) => Some(Text {
                text,
                origin: said.origin.clone(),
            }),
            Err(allowed) => {
                let shown = if row.is_secret { "..." } else { text };
                let text = format!("{name} = {shown} is not possible; allowed is {allowed}");
                // What is among arguments of a virtual machine that is not there never keeps from starting.
                let severity = match &said.origin {
                    Origin::Variable(name) if name.ends_with("ERL_ARGS") => Severity::Warning,
                    _ => Severity::Error,
                };
                self.complain(severity, said.origin.clone(), text);
                None
            }
        }
    }

    /// Makes one text of what several keys said of a row.
    fn apply(&mut self, index: usize, mut said: Vec<Said>) {
        let row = &ROWS[index];
        said.sort_by_key(|said| said.rank);
        // Terms replace what rabbitmq.conf says of the same, and do not add to it.
        let by_terms = |said: &Said| said.syntax == Syntax::Terms && said.is_of_the_whole();
        if said.iter().any(by_terms) {
            said.retain(|said| said.syntax == Syntax::Terms || !said.is_of_the_whole());
        }
        let of = |form: Form| said.iter().filter(move |said| said.form == form);
        let whole = said.iter().rev().find(|said| {
            !matches!(
                said.form,
                Form::Member
                    | Form::Pair
                    | Form::Leaf
                    | Form::Branch
                    | Form::Named
                    | Form::Port
                    | Form::Ip
            )
        });
        let mut members: Vec<&Said> = of(Form::Member)
            .chain(of(Form::Pair))
            .chain(of(Form::Leaf))
            .chain(of(Form::Branch))
            .collect();
        members.sort_by(|one, other| as_people_count(&one.member, &other.member));
        let named: Vec<&Said> = of(Form::Named).collect();
        let (port, ip) = (of(Form::Port).next_back(), of(Form::Ip).next_back());
        let (text, origin) = if let Some(whole) = whole {
            (whole.text.clone(), &whole.origin)
        } else if let Some(last) = members.last() {
            let texts: Vec<&str> = members.iter().map(|said| said.text.as_str()).collect();
            (texts.join(","), &last.origin)
        } else if let Some(last) = named.last() {
            let names = named.iter().filter(|said| said.text == "true");
            let names: Vec<String> = names.map(|said| said.member.replace("\\.", ".")).collect();
            let text = if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(",")
            };
            (text, &last.origin)
        } else if let Some(last) = port.or(ip) {
            let port = port.map_or_else(|| row.port.to_string(), |said| said.text.clone());
            let text = match ip {
                Some(ip) if ip.text.contains(':') => format!("[{}]:{port}", ip.text),
                Some(ip) => format!("{}:{port}", ip.text),
                None => port,
            };
            (text, &last.origin)
        } else {
            return;
        };
        self.texts[index] = Text {
            text,
            origin: origin.clone(),
        };
    }
}

/// `a2` before `a10`, as people count.
fn as_people_count(one: &str, other: &str) -> Ordering {
    match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) => one.cmp(&other),
        _ => one.cmp(other),
    }
}

/// A share in the text that is none without a point.
fn share(text: &str) -> Option<String> {
    let is_whole = text.parse::<u32>().is_ok();
    let text = if is_whole {
        format!("{text}.0")
    } else {
        text.to_owned()
    };
    matches!(text.parse(), Ok(Amount::Share(_))).then_some(text)
}
