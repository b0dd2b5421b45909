//! Settings that are said under names: `default_users.alice.tags = monitoring` and `default_users.alice.password = ...`
//! are two things about one user.
//!
//! As one text they are `alice.tags=monitoring,alice.password=...`; a comma within a value is written `\,`.

use leveret_runtime::{Amount, DefaultLimits, DefaultPolicy, DefaultUser, Pattern};
use serde_json::{Map, json};

use super::{
    setting::words,
    value::{ANY, Millis, Range, Value},
};

/// One thing under a name, as it stands in the text of the setting. `key` ends in what it is about.
pub(super) fn entry(member: &str, key: &str, value: &str) -> String {
    let about = key.rsplit('.').next().unwrap_or_default();
    let member = member.replace("\\.", ".");
    format!("{member}.{about}={}", value.replace(',', "\\,"))
}

/// The same where there are further names behind the first: all of the key from the first word on that stands for a
/// name, its points as they are.
pub(super) fn branch(pattern: &str, key: &str, value: &str) -> String {
    let fixed = pattern.split('.').take_while(|word| !word.starts_with('$'));
    let place: Vec<&str> = words(key).skip(fixed.count()).collect();
    format!("{}={}", place.join("."), value.replace(',', "\\,"))
}

/// What stands between commas.
pub(super) fn parts(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('\\', Some(',')) => part.extend(letters.next()),
            (',', _) => parts.push(std::mem::take(&mut part)),
            _ => part.push(letter),
        }
    }
    parts.push(part);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Name, what it is about, and the value of each.
fn entries(text: &str) -> Option<Vec<(String, String, String)>> {
    let parts = parts(text);
    let entries = parts.iter().map(|part| {
        let (place, value) = part.split_once('=')?;
        let (name, about) = place.trim().rsplit_once('.')?;
        (!name.is_empty()).then(|| (name.to_owned(), about.to_owned(), value.trim().to_owned()))
    });
    entries.collect()
}

/// What each name has, in the order in which they were said first. `set` answers `None` to what is not possible.
fn by_name<T>(
    text: &str,
    new: impl Fn(&str) -> Option<T>,
    set: impl Fn(&mut T, &str, &str) -> Option<()>,
) -> Option<Vec<T>> {
    let mut found: Vec<(String, T)> = Vec::new();
    for (name, about, value) in entries(text)? {
        let place = match found.iter().position(|(known, _)| *known == name) {
            Some(place) => place,
            None => {
                let made = new(&name)?;
                found.push((name, made));
                found.len() - 1
            }
        };
        set(&mut found[place].1, &about, &value)?;
    }
    Some(found.into_iter().map(|(_, one)| one).collect())
}

fn everything() -> Pattern {
    Pattern::new(".*").expect("it is a pattern")
}

/// A pattern that can be read, as text.
#[derive(Debug)]
pub(crate) struct PatternText(pub(crate) String);

impl Value for PatternText {
    fn read(text: &str, _range: Range) -> Option<Self> {
        Pattern::new(text).ok().map(|_| Self(text.to_owned()))
    }

    fn allowed(_range: Range) -> String {
        "a regular expression".to_owned()
    }
}

/// Users of new vhosts.
#[derive(Debug)]
pub(crate) struct DefaultUsers(pub(crate) Vec<DefaultUser>);

impl Value for DefaultUsers {
    const IS_LIST: bool = true;

    fn read(text: &str, _range: Range) -> Option<Self> {
        let new = |name: &str| {
            Some(DefaultUser {
                name: name.try_into().ok()?,
                vhosts: everything(),
                password: None,
                tags: Vec::new(),
                configure: ".*".to_owned(),
                write: ".*".to_owned(),
                read: ".*".to_owned(),
            })
        };
        let users = by_name(text, new, |user, about, value| {
            let pattern = || PatternText::read(value, ANY).map(|pattern| pattern.0);
            match about {
                "vhost_pattern" => user.vhosts = Pattern::new(value).ok()?,
                "password" => user.password = Some(value.to_owned()),
                "tags" => {
                    let tags = value.split(',').map(|tag| tag.trim().to_owned());
                    user.tags = tags.filter(|tag| !tag.is_empty()).collect();
                }
                "configure" => user.configure = pattern()?,
                "write" => user.write = pattern()?,
                "read" => user.read = pattern()?,
                _ => return None,
            }
            Some(())
        });
        users.map(Self)
    }

    fn allowed(_range: Range) -> String {
        "USER.KEY=VALUE, where KEY is vhost_pattern, password, tags, configure, write or read"
            .to_owned()
    }
}

/// Operator policies of new vhosts.
#[derive(Debug)]
pub(crate) struct DefaultOperatorPolicies(pub(crate) Vec<DefaultPolicy>);

impl Value for DefaultOperatorPolicies {
    const IS_LIST: bool = true;

    fn read(text: &str, _range: Range) -> Option<Self> {
        struct Read {
            name: String,
            vhosts: Pattern,
            queues: String,
            apply_to: String,
            definition: Map<String, serde_json::Value>,
        }
        let new = |name: &str| {
            Some(Read {
                name: name.to_owned(),
                vhosts: everything(),
                queues: ".*".to_owned(),
                apply_to: "all".to_owned(),
                definition: Map::new(),
            })
        };
        let policies = by_name(text, new, |policy, about, value| {
            match about {
                "vhost_pattern" => policy.vhosts = Pattern::new(value).ok()?,
                "queue_pattern" => policy.queues = PatternText::read(value, ANY)?.0,
                "apply_to" => {
                    let known = [
                        "all",
                        "queues",
                        "classic_queues",
                        "quorum_queues",
                        "streams",
                    ];
                    known.contains(&value).then_some(())?;
                    policy.apply_to = value.to_owned();
                }
                _ => {
                    let number = match about {
                        "expires" | "message_ttl" => Millis::read(value, (1, u64::MAX))?.0,
                        "max_length_bytes" | "max_in_memory_bytes" => match value.parse().ok()? {
                            Amount::Bytes(bytes) if bytes > 0 => bytes,
                            Amount::Bytes(_) | Amount::Share(_) => return None,
                        },
                        "max_length" | "max_in_memory_length" | "delivery_limit" => {
                            value.parse().ok().filter(|number| *number > 0)?
                        }
                        _ => return None,
                    };
                    let key = about.replace('_', "-");
                    policy.definition.insert(key, number.into());
                }
            }
            Some(())
        });
        let made = policies?.into_iter().map(|policy| DefaultPolicy {
            name: policy.name,
            vhosts: policy.vhosts,
            value: json!({
                "pattern": policy.queues,
                "definition": policy.definition,
                "apply-to": policy.apply_to,
                "priority": 0,
            })
            .to_string(),
        });
        Some(Self(made.collect()))
    }

    fn allowed(_range: Range) -> String {
        "POLICY.KEY=VALUE, where KEY is vhost_pattern, queue_pattern, apply_to or a limit such as \
         max_length, message_ttl, expires"
            .to_owned()
    }
}

/// Limits of new vhosts.
#[derive(Debug)]
pub(crate) struct DefaultLimitsOfVhosts(pub(crate) Vec<DefaultLimits>);

impl Value for DefaultLimitsOfVhosts {
    const IS_LIST: bool = true;

    fn read(text: &str, _range: Range) -> Option<Self> {
        let new = |_: &str| {
            Some(DefaultLimits {
                vhosts: everything(),
                max_connections: None,
                max_queues: None,
            })
        };
        let limits = by_name(text, new, |limits, about, value| {
            let number = || value.parse().ok().filter(|number| *number > 0);
            match about {
                "pattern" => limits.vhosts = Pattern::new(value).ok()?,
                "max_connections" => limits.max_connections = Some(number()?),
                "max_queues" => limits.max_queues = Some(number()?),
                _ => return None,
            }
            Some(())
        });
        limits.map(Self)
    }

    fn allowed(_range: Range) -> String {
        "NAME.KEY=VALUE, where KEY is pattern, max_connections or max_queues".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_under_one_name_is_about_one_user() {
        let text = [
            entry("a\\.b", "default_users.a\\.b.tags", "monitoring, other"),
            entry("a\\.b", "default_users.a\\.b.write", "^x{1,2}$"),
            entry("c", "default_users.c.password", "p=1,2"),
        ];
        let DefaultUsers(users) = DefaultUsers::read(&text.join(","), ANY).expect("allowed");
        let [first, second] = users.as_slice() else {
            panic!("{users:?}");
        };
        assert_eq!(first.name, *"a.b");
        assert_eq!(first.tags, ["monitoring", "other"]);
        assert_eq!(
            (first.write.as_str(), first.read.as_str()),
            ("^x{1,2}$", ".*")
        );
        assert_eq!(second.password.as_deref(), Some("p=1,2"));
    }

    #[test]
    fn a_policy_has_rabbitmqs_keys() {
        let text = "p.max_length_bytes=1MB,p.message_ttl=5s,p.queue_pattern=^a";
        let DefaultOperatorPolicies(policies) =
            DefaultOperatorPolicies::read(text, ANY).expect("allowed");
        let value: serde_json::Value =
            serde_json::from_str(&policies[0].value).expect("it is JSON");
        let definition = json!({"max-length-bytes": 1_000_000, "message-ttl": 5000});
        assert_eq!(value["definition"], definition);
        assert_eq!(value["pattern"], "^a");
    }

    #[test]
    fn what_cannot_be_is_not_taken() {
        for text in [
            "a.max_queues=0",
            "a.nothing=1",
            "max_queues=1",
            "a.pattern=[",
        ] {
            assert!(DefaultLimitsOfVhosts::read(text, ANY).is_none(), "{text}");
        }
        assert!(DefaultLimitsOfVhosts::read("", ANY).is_some());
        assert!(DefaultUsers::read("a.read=(", ANY).is_none());
    }
}
