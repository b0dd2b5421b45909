//! Why a command failed: what standard error says and the exit code.

use crate::call::Call;

/// The command line is wrong, or there is no such command.
pub(crate) const USAGE: u8 = 64;
/// A value is wrong, or a thing it speaks of is missing.
pub(crate) const DATA: u8 = 65;
/// No such user.
pub(crate) const NO_USER: u8 = 67;
/// The node cannot be reached, a check failed, or the node refuses.
pub(crate) const UNAVAILABLE: u8 = 69;
/// It is there already.
pub(crate) const SOFTWARE: u8 = 70;
/// It took longer than allowed.
pub(crate) const TIMEOUT: u8 = 75;

/// A command that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// All that standard error says, without the last end of line.
    pub(crate) text: String,
}

impl Failure {
    /// The text as it is.
    pub(crate) fn plain(code: u8, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { code, text }
    }

    /// Under a line that says `Error:`.
    pub(crate) fn error(code: u8, text: impl AsRef<str>) -> Self {
        Self::plain(code, format!("Error:\n{}", text.as_ref()))
    }

    /// The command line is wrong in itself: with how it should be.
    pub(crate) fn validation(call: &Call, code: u8, why: &str) -> Self {
        let words = call.words.join(" ");
        let usage = call.usage();
        Self::plain(
            code,
            format!(
                "Error (argument validation): {why}\nArguments given:\n\t{words}\n\nUsage\n\n{usage}"
            ),
        )
    }

    /// There is no such vhost.
    pub(crate) fn no_vhost(vhost: &str) -> Self {
        Self::plain(DATA, format!("Virtual host '{vhost}' does not exist"))
    }

    /// No node of this name answers.
    pub(crate) fn unreachable(node: &str, why: &std::io::Error) -> Self {
        let hint = if why.kind() == std::io::ErrorKind::PermissionDenied {
            " * It is there, and not for this user: run this as root or as the broker's user"
        } else {
            " * No broker of this name runs on this machine, or it runs under another name (-n, RABBITMQ_NODENAME)"
        };
        Self::plain(
            UNAVAILABLE,
            format!(
                "Error: unable to perform an operation on node '{node}'. \
                 Please see diagnostics information and suggestions below.\n\n\
                 {hint}\n \
                 * A broker of another machine or container is reached by its HTTP API, as with rabbitmqadmin\n\n\
                 attempted to contact: [{node}]\n\n{node}:\n  * {why}\n"
            ),
        )
    }
}
