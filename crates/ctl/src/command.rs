//! The table of commands, and how one is run.

use std::io::Write;

use crate::{
    call::{Call, Switch},
    client::Client,
    commands,
    failure::{Failure, SOFTWARE, USAGE},
    format::{self, Format, Output},
    program::Program,
};

/// Does what a command is for.
pub(crate) type Run = fn(&Call, &Client) -> Result<Output, Failure>;

/// The line that says what is about to happen.
pub(crate) type Banner = fn(&Call) -> String;

/// One command.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// Its arguments and options, as its usage shows them.
    pub(crate) usage: &'static str,
    pub(crate) about: &'static str,
    pub(crate) group: &'static str,
    pub(crate) programs: &'static [Program],
    /// Of how many arguments it knows what to make, from and to.
    pub(crate) arguments: (usize, usize),
    pub(crate) switches: &'static [Switch],
    /// Its usage mentions a time limit.
    pub(crate) has_timeout: bool,
    pub(crate) format: Format,
    pub(crate) banner: Option<Banner>,
    /// The line appears also when the node cannot be reached: finding that out is what the command is for.
    pub(crate) announces: bool,
    pub(crate) run: Run,
}

const CTL: &[Program] = &[Program::Ctl];
const BOTH: &[Program] = &[Program::Ctl, Program::Diagnostics];

impl Command {
    /// A command of rabbitmqctl without arguments.
    pub(crate) const fn new(name: &'static str, about: &'static str, run: Run) -> Self {
        Self {
            name,
            usage: "",
            about,
            group: "Other",
            programs: CTL,
            arguments: (0, 0),
            switches: &[],
            has_timeout: false,
            format: Format::Table,
            banner: None,
            announces: false,
            run,
        }
    }

    pub(crate) const fn takes(mut self, from: usize, to: usize, usage: &'static str) -> Self {
        self.arguments = (from, to);
        self.usage = usage;
        self
    }

    pub(crate) const fn switches(mut self, switches: &'static [Switch]) -> Self {
        self.switches = switches;
        self
    }

    pub(crate) const fn says(mut self, banner: Banner) -> Self {
        self.banner = Some(banner);
        self
    }

    pub(crate) const fn announces(mut self, banner: Banner) -> Self {
        self.banner = Some(banner);
        self.announces = true;
        self
    }

    pub(crate) const fn of(mut self, programs: &'static [Program]) -> Self {
        self.programs = programs;
        self
    }

    pub(crate) const fn of_both(self) -> Self {
        self.of(BOTH)
    }

    pub(crate) const fn group(mut self, group: &'static str) -> Self {
        self.group = group;
        self
    }

    pub(crate) const fn timed(mut self) -> Self {
        self.has_timeout = true;
        self
    }

    pub(crate) const fn pretty(mut self) -> Self {
        self.format = Format::Pretty;
        self
    }
}

/// What the node says when its broker was stopped, and what a command makes of it.
const NOT_RUNNING: &str = "Error: this command requires the 'rabbit' app to be running on the target node. \
     Start it with 'rabbitmqctl start_app'.";

/// The same of commands that want it stopped.
const STILL_RUNNING: &str = "Error: this command requires the 'rabbit' app to be stopped on the target node. \
     Stop it with 'rabbitmqctl stop_app'.";

/// The broker was stopped, and the command needs it.
pub(crate) fn not_running() -> Failure {
    Failure::plain(USAGE, NOT_RUNNING)
}

/// The broker runs, and the command needs it stopped.
pub(crate) fn still_running() -> Failure {
    Failure::plain(USAGE, STILL_RUNNING)
}

/// Runs a command and writes what came of it.
pub(crate) fn run(call: &Call) -> Result<(), Failure> {
    let command = call.command;
    let client = call.client();
    let outcome = (command.run)(call, &client);
    let is_silent = call.is_quiet() || call.format.is_for_programs();
    let is_told = match &outcome {
        Ok(_) => true,
        Err(failure) => command.announces || !is_about_the_call(failure),
    };
    if let Some(banner) = command.banner.filter(|_| is_told && !is_silent) {
        let line = banner(call);
        if !line.is_empty() {
            // Who no longer reads misses nothing.
            let _ = writeln!(std::io::stdout(), "{line}");
        }
    }
    let output = outcome.map_err(|failure| with_usage(call, failure))?;
    format::write(call, &output)
        .map_err(|error| Failure::plain(SOFTWARE, format!("Error:\ncannot write: {error}")))
}

/// Failures that come before anything was begun.
fn is_about_the_call(failure: &Failure) -> bool {
    let text = &failure.text;
    text.starts_with("Error (argument validation)") || text.starts_with("Error: ")
}

fn with_usage(call: &Call, failure: Failure) -> Failure {
    if failure.text != NOT_RUNNING && failure.text != STILL_RUNNING {
        return failure;
    }
    let (words, usage) = (call.words.join(" "), call.usage());
    Failure::plain(
        failure.code,
        format!(
            "{}\nArguments given:\n\t{words}\n\nUsage\n\n{usage}",
            failure.text
        ),
    )
}

/// The command of this name, among those of the program.
pub(crate) fn find(program: Program, name: &str) -> Result<&'static Command, Failure> {
    if let Some(command) = of(program).find(|command| command.name == name) {
        return Ok(command);
    }
    let near = of(program).find(|command| is_near(command.name, name));
    let text = match near {
        Some(near) => format!(
            "\nCommand '{name}' not found. \nDid you mean '{}'? \n",
            near.name
        ),
        None => format!("\nCommand '{name}' not found. \n{}", overview(program)),
    };
    Err(Failure::plain(USAGE, text))
}

/// Every command of a program.
pub(crate) fn of(program: Program) -> impl Iterator<Item = &'static Command> {
    let all = commands::ALL.iter().flat_map(|group| group.iter());
    all.filter(move |command| command.programs.contains(&program))
}

/// One letter too many, too few or another one, or two of them swapped.
fn is_near(known: &str, given: &str) -> bool {
    let (known, given): (Vec<char>, Vec<char>) = (known.chars().collect(), given.chars().collect());
    if known.len().abs_diff(given.len()) > 1 {
        return false;
    }
    let same = known.iter().zip(&given).take_while(|(a, b)| a == b).count();
    let (known, given) = (&known[same..], &given[same..]);
    match known.len().cmp(&given.len()) {
        std::cmp::Ordering::Less => known == &given[1..],
        std::cmp::Ordering::Greater => &known[1..] == given,
        std::cmp::Ordering::Equal => {
            known.get(1..) == given.get(1..)
                || (known.len() > 1
                    && known[0] == given[1]
                    && known[1] == given[0]
                    && known[2..] == given[2..])
        }
    }
}

/// How a command is written.
pub(crate) fn usage(program: Program, command: &Command) -> String {
    let mut text = format!(
        "{} [--node <node>] [--longnames] [--quiet] {}",
        program.name(),
        command.name
    );
    if !command.usage.is_empty() {
        text = format!("{text} {}", command.usage);
    }
    if command.has_timeout {
        text.push_str(" [--timeout <timeout>]");
    }
    text
}

/// How the program is used and what it can do.
pub(crate) fn overview(program: Program) -> String {
    let name = program.name();
    let mut text = format!(
        "\nUsage\n\n{name} [--node <node>] [--timeout <timeout>] [--longnames] [--quiet] <command> [<command options>]\n\nAvailable commands:\n"
    );
    let width = of(program).map(|command| command.name.len()).max();
    let width = width.unwrap_or_default();
    let mut groups: Vec<&str> = Vec::new();
    for command in of(program) {
        if !groups.contains(&command.group) {
            groups.push(command.group);
        }
    }
    for group in groups {
        text.push_str(&format!("\n{group}:\n\n"));
        let mut commands: Vec<_> = of(program)
            .filter(|command| command.group == group)
            .collect();
        commands.sort_by_key(|command| command.name);
        for command in commands {
            text.push_str(&format!("   {:width$}  {}\n", command.name, command.about));
        }
    }
    text + &format!("\nUse '{name} help <command>' to learn more about a specific command")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_there_once_for_each_program_and_tells_what_it_does() {
        for program in Program::ALL {
            let mut names: Vec<&str> = of(program).map(|command| command.name).collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all, "{}", program.name());
            assert!(of(program).all(|command| !command.about.is_empty()));
        }
    }

    #[test]
    fn a_slip_of_one_letter_is_recognised() {
        assert!(is_near("list_queues", "list_queue"));
        assert!(is_near("list_queues", "list_qeuues"));
        assert!(is_near("ping", "pong"));
        assert!(!is_near("ping", "status"));
        let failure = find(Program::Ctl, "add_usr").expect_err("no such command");
        assert!(failure.text.contains("Did you mean 'add_user'?"));
    }
}
