//! What a user may do in a vhost: three patterns for names, and per topic exchange two for routing keys.
//!
//! A value that never changes; who holds one asks for a newer one when the users changed.

mod operation;

use std::collections::BTreeMap;

use leveret_wire::value::ShortString;

use crate::{
    pattern::{Pattern, PatternError},
    record::{PermissionRecord, TopicPermissionRecord},
    refusal::{ObjectKind, Refusal},
    scope::{Grant, Scopes},
};

/// How the default exchange is called in patterns and texts.
const DEFAULT_EXCHANGE: &str = "amq.default";

/// What an operation needs on a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Make it and delete it.
    Configure,
    /// Put messages into it.
    Write,
    /// Get messages out of it.
    Read,
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Configure => "configure",
            Self::Write => "write",
            Self::Read => "read",
        })
    }
}

/// One user's rights in one vhost.
#[derive(Debug, Clone)]
pub struct Rights {
    vhost: ShortString,
    user: ShortString,
    names: Option<Names>,
    topics: BTreeMap<ShortString, Topics>,
    /// Of who came with a token: then this is all there is.
    by_token: Option<Box<[Grant]>>,
}

#[derive(Debug, Clone)]
struct Names {
    configure: Pattern,
    write: Pattern,
    read: Pattern,
}

#[derive(Debug, Clone)]
struct Topics {
    write: Pattern,
    read: Pattern,
}

impl Rights {
    /// No rights at all: not even to be in the vhost.
    #[must_use]
    pub const fn none(vhost: ShortString, user: ShortString) -> Self {
        Self {
            vhost,
            user,
            names: None,
            topics: BTreeMap::new(),
            by_token: None,
        }
    }

    /// What a token's scopes give.
    #[must_use]
    pub fn by_token(vhost: ShortString, user: ShortString, scopes: &Scopes) -> Self {
        let grants = scopes.grants(vhost.as_bytes());
        Self {
            by_token: Some(grants.into()),
            ..Self::none(vhost, user)
        }
    }

    /// All rights.
    ///
    /// # Panics
    ///
    /// Never: the pattern is a constant.
    #[must_use]
    pub fn all(vhost: ShortString, user: ShortString) -> Self {
        let everything = Pattern::new(".*").expect("a pattern");
        Self {
            names: Some(Names {
                configure: everything.clone(),
                write: everything.clone(),
                read: everything,
            }),
            ..Self::none(vhost, user)
        }
    }

    /// The same with these permissions, or without any.
    ///
    /// # Errors
    ///
    /// When a pattern is none.
    pub fn with_permission(
        mut self,
        permission: Option<&PermissionRecord>,
    ) -> Result<Self, PatternError> {
        self.names = permission
            .map(|permission| {
                Ok(Names {
                    configure: Pattern::of_permission(&permission.configure)?,
                    write: Pattern::of_permission(&permission.write)?,
                    read: Pattern::of_permission(&permission.read)?,
                })
            })
            .transpose()?;
        Ok(self)
    }

    /// The same with these topic permissions on one exchange.
    ///
    /// # Errors
    ///
    /// When a pattern is none.
    pub fn with_topic_permission(
        mut self,
        permission: &TopicPermissionRecord,
    ) -> Result<Self, PatternError> {
        let pattern = |text: &str| Pattern::of_permission(&self.expanded(text));
        let topics = Topics {
            write: pattern(&permission.write)?,
            read: pattern(&permission.read)?,
        };
        self.topics.insert(permission.exchange.clone(), topics);
        Ok(self)
    }

    /// Whose rights these are.
    #[must_use]
    pub const fn user(&self) -> &ShortString {
        &self.user
    }

    /// Whether the user may be in the vhost at all.
    #[must_use]
    pub fn is_member(&self) -> bool {
        match &self.by_token {
            Some(grants) => !grants.is_empty(),
            None => self.names.is_some(),
        }
    }

    /// Whether a publish to this exchange has to be asked for key by key.
    #[must_use]
    pub fn has_topics(&self, exchange: &ShortString) -> bool {
        self.by_token.is_some() || self.topics.contains_key(exchange)
    }

    /// The right on a queue or an exchange.
    ///
    /// # Errors
    ///
    /// [`Refusal::AccessRefused`].
    pub fn check(&self, right: Right, kind: ObjectKind, name: &ShortString) -> Result<(), Refusal> {
        if self.may(right, kind, name) {
            return Ok(());
        }
        Err(Refusal::AccessRefused {
            right,
            kind,
            name: spoken(kind, name),
            vhost: self.vhost.clone(),
            user: self.user.clone(),
        })
    }

    /// Any right on a queue or an exchange; the refusal speaks of the first.
    ///
    /// # Errors
    ///
    /// [`Refusal::AccessRefused`].
    pub fn check_any(&self, kind: ObjectKind, name: &ShortString) -> Result<(), Refusal> {
        if self.may(Right::Write, kind, name) || self.may(Right::Read, kind, name) {
            return Ok(());
        }
        self.check(Right::Configure, kind, name)
    }

    /// The right on a routing or binding key of a topic exchange; allowed where nothing is said about the
    /// exchange, unless there is a token, which has to say it.
    ///
    /// # Errors
    ///
    /// [`Refusal::TopicRefused`].
    pub fn check_topic(
        &self,
        right: Right,
        exchange: &ShortString,
        key: &ShortString,
    ) -> Result<(), Refusal> {
        if self.may_use_key(right, exchange, key) {
            return Ok(());
        }
        Err(Refusal::TopicRefused {
            right,
            topic: key.clone(),
            name: exchange.clone(),
            vhost: self.vhost.clone(),
            user: self.user.clone(),
        })
    }

    fn may_use_key(&self, right: Right, exchange: &ShortString, key: &ShortString) -> bool {
        let octets = key.as_bytes();
        if let Some(grants) = &self.by_token {
            return grants.iter().any(|grant| {
                grant.right == right
                    && grant.name.is_match(exchange.as_bytes())
                    && grant.key.as_ref().is_some_and(|keys| keys.is_match(octets))
            });
        }
        let Some(topics) = self.topics.get(exchange) else {
            return true;
        };
        let pattern = match right {
            Right::Write => &topics.write,
            Right::Read | Right::Configure => &topics.read,
        };
        pattern.is_match(octets)
    }

    fn may(&self, right: Right, kind: ObjectKind, name: &ShortString) -> bool {
        if let Some(grants) = &self.by_token {
            let name = spoken(kind, name);
            let is_given =
                |grant: &Grant| grant.right == right && grant.name.is_match(name.as_bytes());
            return grants.iter().any(is_given);
        }
        let Some(names) = &self.names else {
            return false;
        };
        let pattern = match right {
            Right::Configure => &names.configure,
            Right::Write => &names.write,
            Right::Read => &names.read,
        };
        pattern.is_match(spoken(kind, name).as_bytes())
    }

    /// The pattern with the names that stand for the user and the vhost.
    fn expanded(&self, text: &str) -> String {
        let name = |name: &ShortString| regex::escape(&String::from_utf8_lossy(name.as_bytes()));
        text.replace("{username}", &name(&self.user))
            .replace("{vhost}", &name(&self.vhost))
    }
}

/// The name as patterns and texts have it.
fn spoken(kind: ObjectKind, name: &ShortString) -> ShortString {
    if kind == ObjectKind::Exchange && name.is_empty() {
        ShortString::from_static(DEFAULT_EXCHANGE)
    } else {
        name.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::Scope;

    const QUEUE: ObjectKind = ObjectKind::Queue;

    fn name(text: &str) -> ShortString {
        ShortString::try_from(text).expect("short")
    }

    fn rights(configure: &str, write: &str, read: &str) -> Rights {
        let permission = PermissionRecord {
            vhost: name("v"),
            user: name("u"),
            configure: configure.to_owned(),
            write: write.to_owned(),
            read: read.to_owned(),
        };
        Rights::none(name("v"), name("u"))
            .with_permission(Some(&permission))
            .expect("patterns")
    }

    #[test]
    fn a_refusal_names_right_object_vhost_and_user() {
        let rights = rights("^mine", "^mine", ".*");
        let refused = rights
            .check(Right::Configure, QUEUE, &name("yours"))
            .expect_err("refused");
        assert_eq!(
            refused.to_string(),
            "configure access to queue 'yours' in vhost 'v' refused for user 'u'"
        );
        assert_eq!(rights.check(Right::Read, QUEUE, &name("yours")), Ok(()));
        let refused = rights
            .check(Right::Write, ObjectKind::Exchange, &name(""))
            .expect_err("refused");
        assert_eq!(
            refused.to_string(),
            "write access to exchange 'amq.default' in vhost 'v' refused for user 'u'"
        );
    }

    #[test]
    fn a_passive_declare_needs_any_right() {
        let rights = rights("", "", "^seen$");
        assert_eq!(rights.check_any(QUEUE, &name("seen")), Ok(()));
        let refused = rights.check_any(QUEUE, &name("x")).expect_err("refused");
        assert!(refused.to_string().starts_with("configure access"));
    }

    #[test]
    fn topics_are_free_unless_something_is_said_about_the_exchange() {
        let permission = TopicPermissionRecord {
            vhost: name("v"),
            user: name("u"),
            exchange: name("amq.topic"),
            write: "^{username}\\.{vhost}\\.".to_owned(),
            read: "^{username}$".to_owned(),
        };
        let rights = rights(".*", ".*", ".*")
            .with_topic_permission(&permission)
            .expect("patterns");
        let write = |exchange, key| rights.check_topic(Right::Write, &name(exchange), &name(key));
        assert_eq!(write("other", "any"), Ok(()));
        assert_eq!(write("amq.topic", "u.v.1"), Ok(()));
        assert_eq!(
            write("amq.topic", "w.v.1")
                .expect_err("refused")
                .to_string(),
            "write access to topic 'w.v.1' in exchange 'amq.topic' in vhost 'v' refused for user 'u'"
        );
    }

    #[test]
    fn a_token_gives_what_its_scopes_say_and_keys_only_where_they_speak_of_them() {
        let scopes = [
            "write:v/*",
            "read:v/q",
            "write:v/events/a.*",
            "configure:w/*",
        ];
        let scopes = scopes.iter().filter_map(|text| Scope::read(text, |_| None));
        let scopes = scopes.collect();
        let rights = Rights::by_token(name("v"), name("u"), &scopes);
        assert!(rights.is_member());
        assert_eq!(rights.check(Right::Read, QUEUE, &name("q")), Ok(()));
        assert_eq!(rights.check(Right::Write, QUEUE, &name("any")), Ok(()));
        for (right, queue) in [(Right::Read, "other"), (Right::Configure, "q")] {
            assert!(rights.check(right, QUEUE, &name(queue)).is_err());
        }
        let key = |exchange, key| rights.check_topic(Right::Write, &name(exchange), &name(key));
        assert_eq!(key("events", "a.1"), Ok(()));
        assert!(key("events", "b.1").is_err());
        // Nothing is said of this exchange's keys.
        assert!(key("amq.topic", "a.1").is_err());
        assert!(!Rights::by_token(name("x"), name("u"), &scopes).is_member());
    }

    #[test]
    fn without_a_permission_everything_is_refused() {
        let rights = Rights::none(name("v"), name("u"));
        assert!(!rights.is_member());
        assert!(rights.check(Right::Read, QUEUE, &name("q")).is_err());
        let all = Rights::all(name("v"), name("u"));
        assert!(all.is_member());
        assert_eq!(all.check(Right::Read, QUEUE, &name("q")), Ok(()));
    }
}
