//! Where a value comes from, and what is wrong with one.

use std::{
    fmt::{self, Display, Formatter},
    path::PathBuf,
    sync::Arc,
};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody said anything.
    Default,
    /// A line of a file, counted from 1; 0 is the file as a whole.
    File(Arc<PathBuf>, usize),
    /// A variable of the environment.
    Variable(String),
    /// A flag.
    Flag(String),
}

impl Display for Origin {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(out, "default"),
            Self::File(path, 0) => write!(out, "{}", path.display()),
            Self::File(path, line) => write!(out, "{}:{line}", path.display()),
            Self::Variable(name) => write!(out, "{name}"),
            Self::Flag(name) => write!(out, "--{name}"),
        }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The broker does not start.
    Error,
    /// Worth knowing, nothing to do.
    Note,
    /// Somebody should look.
    Warning,
    /// A name that does not exist: a warning, or an error if that was asked for.
    Unknown,
}

/// Something wrong in a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) severity: Severity,
    pub(crate) origin: Origin,
    pub(crate) text: String,
}

impl Display for Problem {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.origin, self.text)
    }
}
