//! Why a command failed: what standard error says and the exit code.

use std::io::ErrorKind;

use crate::{
    call::Call,
    socket::{self, Ambiguous},
};

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

    /// No node of this name answers, or more than one.
    pub(crate) fn unreachable(node: &str, why: &std::io::Error) -> Self {
        let inside = why.get_ref();
        let ambiguous = inside.and_then(|inside| inside.downcast_ref::<Ambiguous>());
        let hint = match (ambiguous, why.kind()) {
            (Some(ambiguous), _) => which(ambiguous),
            (None, ErrorKind::PermissionDenied) => {
                "It is there, and not for this user: run this as root or as the broker's user"
                    .to_owned()
            }
            (None, _) => elsewhere(&socket::listening()),
        };
        Self::plain(
            UNAVAILABLE,
            format!(
                "Error: unable to perform an operation on node '{node}'. \
                 Please see diagnostics information and suggestions below.\n\n \
                 * {hint}\n \
                 * A broker of another machine or container is reached by its HTTP API, as with rabbitmqadmin\n\n\
                 attempted to contact: [{node}]\n\n{node}:\n  * {why}\n"
            ),
        )
    }
}

/// What to do where several brokers have one name.
fn which(ambiguous: &Ambiguous) -> String {
    let Ambiguous { node, pids } = ambiguous;
    let names: Vec<String> = pids.iter().map(|pid| format!("-n {node}+{pid}")).collect();
    format!(
        "Say which of the {} brokers of this name is meant, by its process id: {}. With names of their own \
         (RABBITMQ_NODENAME, --node-name) nobody has to",
        pids.len(),
        names.join(", ")
    )
}

/// What to do where nobody has the name.
fn elsewhere(listening: &[String]) -> String {
    if listening.is_empty() {
        return "No broker runs on this machine, or none that this user may know of".to_owned();
    }
    let names: Vec<String> = listening.iter().map(|name| format!("-n {name}")).collect();
    format!(
        "No broker of this name runs on this machine; these do: {} (RABBITMQ_NODENAME says the same for good)",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_does_not_lead_to_one_broker_says_what_does() {
        let ambiguous = Ambiguous {
            node: "n@h".to_owned(),
            pids: vec![7, 8],
        };
        let failure = Failure::unreachable("n@h", &std::io::Error::other(ambiguous));
        assert_eq!(failure.code, UNAVAILABLE);
        assert!(
            failure.text.contains("-n n@h+7, -n n@h+8"),
            "{}",
            failure.text
        );
        assert!(
            failure
                .text
                .contains("2 brokers of this machine are called n@h")
        );
        let told = elsewhere(&["a@h".to_owned(), "b@h+9".to_owned()]);
        assert!(told.contains("these do: -n a@h, -n b@h+9"), "{told}");
        let refused = std::io::Error::from(ErrorKind::PermissionDenied);
        let refused = Failure::unreachable("n@h", &refused).text;
        assert!(refused.contains("not for this user"), "{refused}");
    }
}
