//! A pattern that names are matched with: of a permission, of a policy.
//!
//! RabbitMQ's patterns are those of PCRE, matched anywhere in the name. Most of them are `.*` or nothing at
//! all, which need no engine; look-around and back-references, which few need, run in an engine with a bound on its steps.

use fancy_regex::RegexBuilder;
use regex::bytes;

/// Steps that a pattern with look-around may take on one name; then it does not match.
const STEPS_MAX: usize = 100_000;

/// The bytes that one compiled pattern may take.
const COMPILED_BYTES_MAX: usize = 1024 * 1024;

/// A pattern that cannot be read; the text says why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(String);

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct Pattern(Engine);

#[derive(Debug, Clone)]
enum Engine {
    Everything,
    /// Matches the empty name only.
    Empty,
    Plain(bytes::Regex),
    LookAround(Box<fancy_regex::Regex>),
}

impl Pattern {
    /// Compiles a pattern. The empty one matches everything, as in RabbitMQ's policies; in permissions it does not, see
    /// [`Self::of_permission`].
    ///
    /// # Errors
    ///
    /// When it is none.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        let engine = match text {
            "^$" => Engine::Empty,
            "" | ".*" | "^.*" | ".*$" | "^.*$" => Engine::Everything,
            _ => Self::compile(text)?,
        };
        Ok(Self(engine))
    }

    /// The same for a right of a user: an empty one is the same as `^$`, a right to nothing.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub fn of_permission(text: &str) -> Result<Self, PatternError> {
        Self::new(if text.is_empty() { "^$" } else { text })
    }

    /// Whether it matches anywhere in the name.
    #[must_use]
    pub fn is_match(&self, name: &[u8]) -> bool {
        match &self.0 {
            Engine::Everything => true,
            Engine::Empty => name.is_empty(),
            Engine::Plain(regex) => regex.is_match(name),
            Engine::LookAround(regex) => regex
                .is_match(&String::from_utf8_lossy(name))
                .unwrap_or(false),
        }
    }

    fn compile(text: &str) -> Result<Engine, PatternError> {
        let plain = bytes::RegexBuilder::new(text)
            .size_limit(COMPILED_BYTES_MAX)
            .build();
        match plain {
            Ok(regex) => Ok(Engine::Plain(regex)),
            Err(plain) => RegexBuilder::new(text)
                .backtrack_limit(STEPS_MAX)
                .delegate_size_limit(COMPILED_BYTES_MAX)
                .build()
                .map(|regex| Engine::LookAround(Box::new(regex)))
                .map_err(|_| PatternError(plain.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[track_caller]
    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::new(pattern)
            .expect("a pattern")
            .is_match(name.as_bytes())
    }

    #[test]
    fn a_pattern_matches_anywhere_unless_it_has_anchors() {
        assert!(matches("job", "my-jobs"));
        assert!(!matches("^job", "my-jobs"));
        assert!(matches("^(jobs|amq\\.default)$", "amq.default"));
        assert!(matches(".*", ""));
        assert!(matches(".*", "anything"));
    }

    #[test]
    fn an_empty_pattern_matches_everything_and_gives_a_right_to_nothing() {
        assert!(matches("", "jobs"));
        assert!(!matches("^$", "jobs"));
        let permission = Pattern::of_permission("").expect("a pattern");
        assert!(permission.is_match(b"") && !permission.is_match(b"jobs"));
    }

    #[test]
    fn patterns_may_look_around() {
        assert!(matches("^(?!amq\\.).*", "jobs"));
        assert!(!matches("^(?!amq\\.).*", "amq.gen-1"));
    }

    #[test]
    fn names_need_not_be_text() {
        let pattern = Pattern::new("^a.*z$").expect("a pattern");
        assert!(pattern.is_match("a\u{e9}z".as_bytes()));
        assert!(Pattern::new("^a").expect("a pattern").is_match(b"a\xff"));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for broken in ["(", "[a", "*"] {
            assert!(Pattern::new(broken).is_err(), "{broken}");
        }
    }
}
