//! What the scopes of an access token allow.
//!
//! A scope gives one right on the names that its patterns match: `read:VHOST/NAME`, `write:VHOST/NAME/KEY`. Only one
//! with a third pattern says anything of routing keys. `*` stands for any text, also none; everything else is
//! URL-encoded, so that a name may have a slash or a star in it.

use crate::rights::Right;

/// Scopes of a token; those that give no right in a vhost are not kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scopes(Box<[Scope]>);

impl FromIterator<Scope> for Scopes {
    fn from_iter<T: IntoIterator<Item = Scope>>(scopes: T) -> Self {
        Self(scopes.into_iter().collect())
    }
}

impl Scopes {
    /// Whether any of them speaks of this vhost.
    #[must_use]
    pub fn is_member(&self, vhost: &[u8]) -> bool {
        self.0
            .iter()
            .any(|scope| Grant::of(scope, vhost).is_some_and(|grant| grant.vhost.is_match(vhost)))
    }

    /// What they give in this vhost.
    pub(crate) fn grants(&self, vhost: &[u8]) -> Vec<Grant> {
        let grants = self.0.iter().filter_map(|scope| Grant::of(scope, vhost));
        grants.filter(|grant| grant.vhost.is_match(vhost)).collect()
    }
}

/// One scope, without its prefix; the vhost may still have to be put in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    right: Right,
    /// Encoded text, with the vhost's name between one and the next.
    texts: Box<[Box<str>]>,
}

impl Scope {
    /// Reads a scope; `None` for one that gives no right in a vhost. `{vhost}` stands for the vhost and any other name
    /// in braces for what `claim` has to say; a name that it does not know stands for itself.
    pub fn read<'a>(text: &str, claim: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        let (right, mut rest) = [
            ("read:", Right::Read),
            ("write:", Right::Write),
            ("configure:", Right::Configure),
        ]
        .into_iter()
        .find_map(|(word, right)| text.strip_prefix(word).map(|rest| (right, rest)))?;
        let mut texts = vec![String::new()];
        while let Some((before, behind)) = rest.split_once('{') {
            let (name, behind) = behind.split_once('}')?;
            if name.contains(['.', '*', '{']) {
                return None;
            }
            let last = texts.last_mut()?;
            last.push_str(before);
            if name == VHOST {
                texts.push(String::new());
            } else {
                last.push_str(&encoded(claim(name).unwrap_or(name).as_bytes()));
            }
            rest = behind;
        }
        texts.last_mut()?.push_str(rest);
        let texts = texts.into_iter().map(Into::into).collect();
        Some(Self { right, texts })
    }
}

const VHOST: &str = "vhost";

/// What is put in for a name in braces is text and no pattern, whatever its owner chose.
fn encoded(text: &[u8]) -> String {
    let octet = |octet: &u8| {
        if octet.is_ascii_alphanumeric() {
            char::from(*octet).to_string()
        } else {
            format!("%{octet:02X}")
        }
    };
    text.iter().map(octet).collect()
}

/// What one scope gives in a vhost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) right: Right,
    vhost: Wildcard,
    pub(crate) name: Wildcard,
    /// Of routing keys; without it nothing is said of them.
    pub(crate) key: Option<Wildcard>,
}

impl Grant {
    fn of(scope: &Scope, vhost: &[u8]) -> Option<Self> {
        let text = scope.texts.join(&encoded(vhost));
        let patterns: Vec<Wildcard> = text.split('/').map(Wildcard::new).collect();
        let (vhost, name, key) = match <[Wildcard; 2]>::try_from(patterns) {
            Ok([vhost, name]) => (vhost, name, None),
            Err(patterns) => {
                let [vhost, name, key] = patterns.try_into().ok()?;
                (vhost, name, Some(key))
            }
        };
        Some(Self {
            right: scope.right,
            vhost,
            name,
            key,
        })
    }
}

/// A pattern of a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wildcard {
    /// What stands between the stars; without any part nothing matches.
    parts: Box<[Box<[u8]>]>,
}

impl Wildcard {
    fn new(text: &str) -> Self {
        let parts: Option<Box<[_]>> = text.split('*').map(decoded).collect();
        Self {
            parts: parts.unwrap_or_default(),
        }
    }

    /// Each part is looked for once, from left to right: as in RabbitMQ `*a` does not match `aba`, whose first `a` is
    /// not at the end.
    pub(crate) fn is_match(&self, subject: &[u8]) -> bool {
        let [first, parts @ ..] = &*self.parts else {
            return false;
        };
        let Some(mut rest) = subject.strip_prefix(&**first) else {
            return false;
        };
        for (at, part) in parts.iter().enumerate() {
            if part.is_empty() && at + 1 == parts.len() {
                return true;
            }
            if rest.is_empty() {
                return false;
            }
            if part.is_empty() {
                continue;
            }
            let mut places = rest.windows(part.len());
            let Some(found) = places.position(|place| place == &**part) else {
                return false;
            };
            rest = &rest[found + part.len()..];
        }
        rest.is_empty()
    }
}

/// The octets of URL-encoded text; `None` when it is none.
fn decoded(text: &str) -> Option<Box<[u8]>> {
    let mut octets = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(octet) = octets.next() {
        decoded.push(match octet {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(octets.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            octet => octet,
        });
    }
    Some(decoded.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, subject: &str) -> bool {
        Wildcard::new(pattern).is_match(subject.as_bytes())
    }

    fn scopes(texts: &[&str]) -> Scopes {
        let claim = |name: &str| (name == "sub").then_some("a*/b");
        let scopes = texts.iter().filter_map(|text| Scope::read(text, claim));
        scopes.collect()
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, subject) in [
            ("*", ""),
            ("*", "anything"),
            ("a", "a"),
            ("", ""),
            ("a*", "a"),
            ("a*", "abc"),
            ("*c", "abc"),
            ("a*c", "abbc"),
            ("a*b*c", "a1b2c"),
            ("**", "x"),
            ("a%2Ab", "a*b"),
            ("a%2fb", "a/b"),
            ("a+b", "a b"),
        ] {
            assert!(matches(pattern, subject), "{pattern} {subject}");
        }
        for (pattern, subject) in [
            ("", "a"),
            ("a", ""),
            ("a", "ab"),
            ("a", "b"),
            ("*c", "abcd"),
            ("a*c", "ab"),
            ("*a", "aba"),
            ("a**", "a"),
            ("%zz", "%zz"),
            ("%2", "%2"),
            ("a%2Ab", "axb"),
        ] {
            assert!(!matches(pattern, subject), "{pattern} {subject}");
        }
    }

    #[test]
    fn only_what_has_two_or_three_patterns_gives_anything() {
        let scopes = scopes(&[
            "read:v/q",
            "write:v/x/k",
            "read:v",
            "read:v/a/b/c",
            "tag:administrator",
            "grant:v/q",
            "read:w/q",
        ]);
        assert_eq!(scopes.grants(b"v").len(), 2);
        assert!(scopes.is_member(b"w"));
        assert!(!scopes.is_member(b"u"));
    }

    #[test]
    fn what_is_put_in_for_a_name_is_text_and_no_pattern() {
        let scopes = scopes(&["read:{vhost}/{sub}-*", "write:*/{other}", "read:{a.b}/x"]);
        for vhost in [&b"/"[..], b"v", b"*"] {
            let [read, write] = &scopes.grants(vhost)[..] else {
                panic!("two scopes give something");
            };
            assert!(read.name.is_match(b"a*/b-1"));
            assert!(!read.name.is_match(b"axx/b-1"));
            assert!(write.name.is_match(b"other"));
        }
    }
}
