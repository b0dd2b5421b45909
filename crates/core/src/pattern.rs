//! A pattern that names are matched with: of a permission, of a policy.
//!
//! RabbitMQ's patterns are those of PCRE, matched anywhere in the name, byte by byte. Most of them are `.*` or nothing at
//! all, which need no engine; look-around and back-references, which few need, run in an engine with a bound on its steps.

mod dialect;

use fancy_regex::RegexBuilder;
use regex::bytes;

use self::dialect::{END, END_AHEAD, translated};

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
    /// Whatever has no line feed but at its end.
    OneLine,
    /// Matches the empty name only, and a line feed.
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
            "" | ".*" | "^.*" | ".*$" => Engine::Everything,
            "^.*$" => Engine::OneLine,
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
            Engine::OneLine => !name.strip_suffix(b"\n").unwrap_or(name).contains(&b'\n'),
            Engine::Empty => matches!(name, b"" | b"\n"),
            Engine::Plain(regex) => regex.is_match(name),
            Engine::LookAround(regex) => {
                // It wants text: each byte is one character of it.
                let name: String = name.iter().copied().map(char::from).collect();
                regex.is_match(&name).unwrap_or(false)
            }
        }
    }

    fn compile(text: &str) -> Result<Engine, PatternError> {
        let plain = |text: &str| {
            bytes::RegexBuilder::new(text)
                .unicode(false)
                .size_limit(COMPILED_BYTES_MAX)
                .build()
        };
        match plain(&translated(text, END)) {
            Ok(regex) => Ok(Engine::Plain(regex)),
            Err(error) => RegexBuilder::new(&translated(text, END_AHEAD))
                .backtrack_limit(STEPS_MAX)
                .delegate_size_limit(COMPILED_BYTES_MAX)
                .build()
                .map(|regex| Engine::LookAround(Box::new(regex)))
                // Told of the pattern as it was written, if that is wrong too.
                .map_err(|_| plain(text).err().unwrap_or(error))
                .map_err(|error| PatternError(error.to_string())),
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

    /// As RabbitMQ answers, see `conformance/python/frames/test_permissions.py`.
    #[test]
    fn a_pattern_is_matched_with_bytes_and_ends_before_a_last_line_feed() {
        for (pattern, name) in [
            ("^ab$", "ab\n"),
            ("^(ab$|c)", "ab\n"),
            ("^$", "\n"),
            ("^.*$", "ab\n"),
            (".*$", "a\nb"),
            (r"^ab\Z", "ab\n"),
            ("^(?!.*b$)", "ab\nc"),
            ("(?m)^b$", "a\nb\nc"),
            ("^[$]", "$"),
            ("^[]$]", "$"),
            ("^[[]$", "["),
            ("^[[:alpha:]$]+$", "a$"),
            (r"^a\$$", "a$\n"),
            (r"^a\\$", "a\\\n"),
            ("^..$", "\u{e9}"),
            ("^[\u{e9}]{2}$", "\u{e9}"),
            ("^\u{e9}$", "\u{e9}"),
            ("^\\\u{e9}$", "\u{e9}"),
            (r"^\W{2}$", "\u{e9}"),
            ("^(?=..$).*", "\u{e9}"),
            ("^(?=\u{e9}).*$", "\u{e9}\n"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name:?}");
        }
        for (pattern, name) in [
            ("^ab$", "ab\n\n"),
            ("^$", "\n\n"),
            ("^.*$", "a\nb"),
            (r"^ab\z", "ab\n"),
            ("^(?!.*b$)", "ab\n"),
            ("^[$]", "\n"),
            ("^.$", "\u{e9}"),
            (r"^\w+$", "\u{e9}"),
            ("^(?=.$).*", "\u{e9}"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name:?}");
        }
    }
}
