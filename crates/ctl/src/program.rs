//! Which of the programs this binary was called as.

use std::{
    env, fs,
    io::Write,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use crate::{admin, call::Call, command, failure::Failure};

/// One of RabbitMQ's programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    Ctl,
    Diagnostics,
    Plugins,
    Queues,
    Streams,
    Upgrade,
}

impl Program {
    pub(crate) const ALL: [Self; 6] = [
        Self::Ctl,
        Self::Diagnostics,
        Self::Plugins,
        Self::Queues,
        Self::Streams,
        Self::Upgrade,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ctl => "rabbitmqctl",
            Self::Diagnostics => "rabbitmq-diagnostics",
            Self::Plugins => "rabbitmq-plugins",
            Self::Queues => "rabbitmq-queues",
            Self::Streams => "rabbitmq-streams",
            Self::Upgrade => "rabbitmq-upgrade",
        }
    }
}

/// A program of administrators that was called, with its arguments.
#[derive(Debug)]
pub struct Called {
    as_what: As,
    arguments: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum As {
    Tool(Program),
    Admin,
    Server,
}

/// What came of it.
#[derive(Debug)]
pub enum Ran {
    /// The program has done its work.
    Ended(ExitCode),
    /// It is the broker that was meant; its arguments are the process's.
    IsServer,
}

impl Called {
    /// By the name this process was called by, or by `ctl` as its first argument; `None` when it is just the broker.
    #[must_use]
    pub fn from_environment() -> Option<Self> {
        let mut words = env::args_os().map(|word| word.to_string_lossy().into_owned());
        let first = words.next()?;
        let name = Path::new(&first).file_name()?.to_str()?;
        let arguments: Vec<String> = words.collect();
        if let Some(as_what) = by_name(name) {
            return Some(Self { as_what, arguments });
        }
        let (verb, rest) = arguments.split_first()?;
        let as_what = match verb.as_str() {
            "ctl" => As::Tool(Program::Ctl),
            other => by_name(other)?,
        };
        Some(Self {
            as_what,
            arguments: rest.to_vec(),
        })
    }

    /// Does what was asked.
    #[must_use]
    pub fn run(self) -> Ran {
        match self.as_what {
            As::Tool(program) => Ran::Ended(run_tool(program, &self.arguments).into()),
            As::Admin => Ran::Ended(admin::run(&self.arguments).into()),
            As::Server if self.arguments.iter().any(|word| word == DETACHED) => {
                Ran::Ended(detach(&self.arguments).into())
            }
            As::Server => Ran::IsServer,
        }
    }
}

fn by_name(name: &str) -> Option<As> {
    match name {
        "rabbitmqadmin" => return Some(As::Admin),
        SERVER => return Some(As::Server),
        _ => {}
    }
    let mut programs = Program::ALL.into_iter();
    programs
        .find(|program| program.name() == name)
        .map(As::Tool)
}

const DETACHED: &str = "-detached";

const SERVER: &str = "rabbitmq-server";

/// Starts the broker in the background and ends; it does not wait until it serves.
fn detach(arguments: &[String]) -> u8 {
    let rest = arguments.iter().filter(|word| *word != DETACHED);
    let started = env::current_exe().and_then(|program| {
        Command::new(program)
            // By this name it looks where RabbitMQ's settings are.
            .arg0(SERVER)
            .args(rest)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // No signal of this terminal's reaches it.
            .process_group(0)
            .spawn()
    });
    match started {
        Ok(_) => 0,
        Err(error) => {
            eprintln!("rabbitmq-server: cannot start in the background: {error}");
            1
        }
    }
}

/// Runs one command and says with which code the process ends.
fn run_tool(program: Program, words: &[String]) -> u8 {
    let outcome = match Call::parse(program, words) {
        Ok(call) => command::run(&call),
        Err(failure) => Err(failure),
    };
    // Nobody may read any longer, as behind `| head`.
    let _ = std::io::stdout().flush();
    match outcome {
        Ok(()) => 0,
        Err(failure) => tell(&failure),
    }
}

fn tell(failure: &Failure) -> u8 {
    let _ = writeln!(std::io::stderr(), "{}", failure.text);
    failure.code
}

/// The variable that makes it the machine's whole name, for broker and command alike.
const LONG_NAMES_VARIABLE: &str = "RABBITMQ_USE_LONGNAME";

/// As RabbitMQ names its nodes: what stands behind the sign is the machine's name unless said otherwise.
#[must_use]
pub fn node_name(given: Option<&str>) -> String {
    let name = given.filter(|name| !name.is_empty()).unwrap_or("rabbit");
    match name.split_once('@') {
        Some((_, host)) if !host.is_empty() => return name.to_owned(),
        _ => {}
    }
    let name = name.trim_end_matches('@');
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let is_long = env::var(LONG_NAMES_VARIABLE).is_ok_and(|value| value == "true");
    format!("{name}@{}", host_part(host.trim(), is_long))
}

fn host_part(host: &str, is_long: bool) -> &str {
    let host = if is_long {
        host
    } else {
        host.split('.').next().unwrap_or_default()
    };
    if host.is_empty() { "localhost" } else { host }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_known_by_their_names() {
        for program in Program::ALL {
            assert_eq!(by_name(program.name()), Some(As::Tool(program)));
        }
        assert_eq!(by_name("rabbitmqadmin"), Some(As::Admin));
        assert_eq!(by_name("rabbitmq-server"), Some(As::Server));
        assert_eq!(by_name("leveret"), None);
    }

    #[test]
    fn the_machines_name_is_cut_unless_long_names_are_asked_for() {
        assert_eq!(host_part("mq.example.com", false), "mq");
        assert_eq!(host_part("mq.example.com", true), "mq.example.com");
        assert_eq!(host_part("", true), "localhost");
    }

    #[test]
    fn a_bare_node_name_is_of_this_machine() {
        assert_eq!(node_name(Some("a@b.c")), "a@b.c");
        assert!(node_name(Some("other")).starts_with("other@"));
        assert!(node_name(Some("other@")).starts_with("other@"));
        assert!(node_name(None).starts_with("rabbit@"));
    }
}
