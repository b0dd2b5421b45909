//! What a password must be for somebody to be given it.

use leveret_core::pattern::Pattern;

/// What a new password must be. Those that users have stay theirs, and a hash is taken as it is.
#[derive(Debug, Clone, Default)]
pub enum PasswordRule {
    /// Anything.
    #[default]
    Any,
    /// At least so many bytes long.
    Length(u64),
    /// Matched by this.
    Like(Box<Pattern>),
}

/// A password that breaks the rule, in RabbitMQ's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PasswordRefused {
    /// It is too short.
    #[error("minimum required password length is {least}")]
    TooShort {
        /// Bytes that it must have.
        least: u64,
    },
    /// It is not like the others.
    #[error("provided password does not match the validator regular expression")]
    Unlike,
}

impl PasswordRule {
    /// Whether somebody may be given this one.
    ///
    /// # Errors
    ///
    /// What is asked of it and is not so.
    pub fn check(&self, password: &str) -> Result<(), PasswordRefused> {
        match self {
            Self::Any => Ok(()),
            Self::Length(least) if password.len() as u64 >= *least => Ok(()),
            Self::Length(least) => Err(PasswordRefused::TooShort { least: *least }),
            Self::Like(pattern) if pattern.is_match(password.as_bytes()) => Ok(()),
            Self::Like(_) => Err(PasswordRefused::Unlike),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_counts_bytes_and_a_pattern_is_looked_for_anywhere() {
        let length = PasswordRule::Length(4);
        assert_eq!(length.check("\u{e9}\u{e9}"), Ok(()));
        let refused = length.check("abc").expect_err("too short");
        assert_eq!(refused.to_string(), "minimum required password length is 4");
        let pattern = Pattern::new("[0-9]{2}").expect("a pattern");
        let like = PasswordRule::Like(Box::new(pattern));
        assert_eq!(like.check("a12b"), Ok(()));
        assert_eq!(like.check("a1b2"), Err(PasswordRefused::Unlike));
        assert_eq!(PasswordRule::Any.check(""), Ok(()));
    }
}
