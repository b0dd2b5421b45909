//! What a row of the table says of a setting.

use super::{
    origin::Severity,
    value::{ANY, Range, Value},
};

/// One setting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// Its name: as it is in TOML, with hyphens as a flag, in capitals behind `LEVERET_` as a variable.
    pub(crate) name: &'static str,
    /// The heading it stands under.
    pub(crate) section: &'static str,
    /// What it does, one sentence or two.
    pub(crate) doc: &'static str,
    /// What its flag calls the value.
    pub(crate) value_name: &'static str,
    /// Its value when nobody says anything.
    pub(crate) default: &'static str,
    /// The same in words, where the text is empty or does not speak for itself.
    pub(crate) default_words: &'static str,
    /// Bounds of the value.
    pub(crate) range: Range,
    /// Its keys in rabbitmq.conf. Of several that stand for the whole the last one of this list counts.
    pub(crate) keys: &'static [Key],
    /// RabbitMQ's variables that a configuration file overrides.
    pub(crate) under: &'static [Key],
    /// RabbitMQ's variables that override a configuration file.
    pub(crate) over: &'static [Key],
    /// The port when only an address is given.
    pub(crate) port: u16,
    /// Not to be shown.
    pub(crate) is_secret: bool,
    /// Several values, with commas between them.
    pub(crate) is_list: bool,
    /// The flag alone means true.
    pub(crate) is_switch: bool,
    /// Whether a text is allowed.
    pub(crate) check: fn(&str, Range) -> bool,
    /// What is allowed.
    pub(crate) allowed: fn(Range) -> String,
}

impl Row {
    /// A setting of this type with nothing but its name.
    pub(crate) const fn of<T: Value>(
        name: &'static str,
        section: &'static str,
        doc: &'static str,
    ) -> Self {
        Self {
            name,
            section,
            doc,
            value_name: "VALUE",
            default: "",
            default_words: "",
            range: ANY,
            keys: &[],
            under: &[],
            over: &[],
            port: 0,
            is_secret: false,
            is_list: T::IS_LIST,
            is_switch: T::IS_SWITCH,
            check: |text, range| T::read(text, range).is_some(),
            allowed: T::allowed,
        }
    }

    /// `--data-dir`, without the dashes.
    pub(crate) fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// `LEVERET_DATA_DIR`.
    pub(crate) fn variable(&self) -> String {
        format!("LEVERET_{}", self.name.to_ascii_uppercase())
    }

    /// The lines of the doc comment as one.
    pub(crate) fn sentence(&self) -> String {
        let lines: Vec<&str> = self.doc.lines().map(str::trim).collect();
        lines.join(" ").trim().to_owned()
    }

    /// What it is when nobody says anything, for people.
    pub(crate) fn default_for_people(&self) -> &'static str {
        if self.default_words.is_empty() {
            self.default
        } else {
            self.default_words
        }
    }

    /// What is allowed, for people.
    pub(crate) fn allowed_for_people(&self) -> String {
        (self.allowed)(self.range)
    }
}

/// A name that RabbitMQ has for a setting: a key of rabbitmq.conf or a variable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    /// The name; a part that begins with `$` stands for any word.
    pub(crate) pattern: &'static str,
    /// What its value says of the setting.
    pub(crate) form: Form,
}

/// What the value of a key says of its setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// It is the setting.
    Whole,
    /// It is one of several: `auth_mechanisms.1 = PLAIN`.
    Member,
    /// The name and its value are one of several: `log.connection.level = debug`.
    Pair,
    /// One of the things said under a name: `default_users.alice.tags = monitoring`.
    Leaf,
    /// The same with further names behind the first: `auth_oauth2.oauth_providers.keycloak.https.depth = 2`.
    Branch,
    /// `true` puts the name into the list: `loopback_users.guest = true`.
    Named,
    /// The port of an address.
    Port,
    /// The address of a port.
    Ip,
    /// A share, also when it is a whole number.
    Share,
    /// Bytes, never a share.
    Size,
    /// It names a file in which the value stands.
    Contents,
    /// It is the setting if it can be read, and else says something that there is no setting for.
    IfAllowed,
}

/// A key that is the setting.
pub(crate) const fn key(pattern: &'static str) -> Key {
    in_form(pattern, Form::Whole)
}

/// A key that says something of the setting.
pub(crate) const fn in_form(pattern: &'static str, form: Form) -> Key {
    Key { pattern, form }
}

impl Key {
    /// Whether that is this key, and the words that stand in it for `$`.
    pub(crate) fn matches<'a>(&self, key: &'a str) -> Option<&'a str> {
        let mut member = "";
        let mut given = words(key);
        for wanted in self.pattern.split('.') {
            let word = given.next()?;
            if wanted.starts_with('$') {
                member = word;
            } else if wanted != word {
                return None;
            }
        }
        given.next().is_none().then_some(member)
    }
}

/// The words of a key; `\.` is a point within a word.
pub(super) fn words(key: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(key);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text
            .match_indices('.')
            .map(|(at, _)| at)
            .find(|&at| !text[..at].ends_with('\\'));
        if let Some(at) = end {
            rest = Some(&text[at + 1..]);
            Some(&text[..at])
        } else {
            rest = None;
            Some(text)
        }
    })
}

/// Keys that are taken and change nothing.
#[derive(Debug)]
pub(crate) struct WithoutEffect {
    /// The keys; `*` at the end stands for anything, `$` for any word.
    pub(crate) patterns: &'static [&'static str],
    /// Why they change nothing.
    pub(crate) reason: &'static str,
    /// How loudly that is told to who sets one of them to something.
    pub(crate) told: Severity,
}

impl WithoutEffect {
    /// Whether this value asks for nothing.
    pub(crate) fn asks_for_nothing(value: &str) -> bool {
        matches!(
            value,
            "" | "false"
                | "off"
                | "none"
                | "verify_none"
                | "dir"
                | "rabbit_password_hashing_sha256"
                | "rabbit_credential_validator_accept_everything"
        )
    }

    /// Whether a key is among them.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.patterns
            .iter()
            .any(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => key.starts_with(prefix),
                None => self::key(pattern).matches(key).is_some(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_word_by_word() {
        let any = key("listeners.tcp.$name");
        assert_eq!(any.matches("listeners.tcp.default"), Some("default"));
        assert_eq!(any.matches("listeners.tcp"), None);
        assert_eq!(any.matches("listeners.tcp.a.b"), None);
        assert_eq!(any.matches("listeners.ssl.default"), None);
        let escaped = key("loopback_users.$user");
        assert_eq!(escaped.matches(r"loopback_users.a\.b"), Some(r"a\.b"));
    }

    #[test]
    fn a_star_stands_for_the_rest() {
        let keys = WithoutEffect {
            patterns: &["mqtt.*", "net_ticktime"],
            reason: "",
            told: Severity::Note,
        };
        assert!(keys.has("mqtt.listeners.tcp.1"));
        assert!(keys.has("net_ticktime"));
        assert!(!keys.has("net_ticktimes"));
        assert!(!keys.has("mqtt"));
    }
}
