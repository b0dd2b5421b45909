//! One command line, taken apart.

use std::{collections::HashMap, env, sync::OnceLock, time::Duration};

use crate::{
    client::Client,
    command::{self, Command},
    environment_file,
    failure::{Failure, USAGE},
    format::Format,
    http::FOR_EVER,
    program::{Program, node_name},
};

/// How long a command waits for the node unless told otherwise.
const TIMEOUT_SECS: u64 = 60;

/// The variable that names the node that is meant.
const NODE_VARIABLE: &str = "RABBITMQ_NODENAME";

/// An option: its long name, its letter, whether a value follows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Switch(
    pub(crate) &'static str,
    pub(crate) Option<char>,
    pub(crate) bool,
);

/// Options of every command.
const COMMON: &[Switch] = &[
    Switch("node", Some('n'), true),
    Switch("quiet", Some('q'), false),
    Switch("silent", Some('s'), false),
    Switch("longnames", Some('l'), false),
    Switch("timeout", Some('t'), true),
    Switch("vhost", Some('p'), true),
    Switch("formatter", None, true),
    Switch("no-table-headers", None, false),
    Switch("table-headers", None, false),
    Switch("erlang-cookie", None, true),
    Switch("dry-run", None, false),
    Switch("print-stacktrace", None, false),
    Switch("script-name", None, true),
    Switch("help", Some('?'), false),
    Switch("version", None, false),
];

/// A command with all that was said with it.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) program: Program,
    /// As they were given.
    pub(crate) words: Vec<String>,
    pub(crate) command: &'static Command,
    pub(crate) arguments: Vec<String>,
    options: HashMap<&'static str, String>,
    pub(crate) format: Format,
}

impl Call {
    /// Reads a command line.
    pub(crate) fn parse(program: Program, words: &[String]) -> Result<Self, Failure> {
        let mut found: Option<&'static Command> = None;
        let mut arguments = Vec::new();
        let mut options = HashMap::new();
        let mut invalid = Vec::new();
        let mut rest = words.iter();
        let mut only_arguments = false;
        while let Some(word) = rest.next() {
            if word == "--" && !only_arguments {
                only_arguments = true;
                continue;
            }
            if only_arguments || !is_option(word) {
                if found.is_some() {
                    arguments.push(word.clone());
                } else {
                    found = Some(command::find(program, word)?);
                }
                continue;
            }
            let own = found.map(|command| command.switches).unwrap_or_default();
            let (name, given) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => (word.as_str(), None),
            };
            let Some(Switch(name, _, has_value)) = switch(own, name) else {
                invalid.push(word.clone());
                continue;
            };
            let value = match (has_value, given) {
                (true, Some(value)) => value,
                (true, None) => match rest.next() {
                    Some(value) => value.clone(),
                    None => {
                        invalid.push(word.clone());
                        continue;
                    }
                },
                (false, given) => given.unwrap_or_else(|| "true".to_owned()),
            };
            options.insert(name, value);
        }
        let command = match found {
            Some(command) => command,
            None if options.contains_key("version") => command::find(program, "version")?,
            None if options.contains_key("help") => command::find(program, "help")?,
            None => return Err(Failure::plain(USAGE, command::overview(program))),
        };
        let mut call = Self {
            program,
            words: words.to_vec(),
            command,
            arguments,
            options,
            format: command.format,
        };
        if call.has("help") && command.name != "help" {
            call.arguments = vec![command.name.to_owned()];
            call.command = command::find(program, "help")?;
            return Ok(call);
        }
        if !invalid.is_empty() {
            let list: Vec<String> = invalid.iter().map(|word| format!("{word} : ")).collect();
            let why = format!("Invalid options for this command:\n{}", list.join("\n"));
            return Err(Failure::validation(&call, USAGE, &why));
        }
        if let Some(name) = call.option("formatter") {
            call.format = Format::named(name).ok_or_else(|| {
                let why = format!("unknown formatter {name:?}, known are {}", Format::NAMES);
                Failure::validation(&call, USAGE, &why)
            })?;
        }
        if call.option("timeout").is_some() && call.seconds("timeout").is_none() {
            return Err(Failure::validation(
                &call,
                USAGE,
                "timeout must be a number of seconds",
            ));
        }
        let count = call.arguments.len();
        let (least, most) = command.arguments;
        if count < least {
            return Err(Failure::validation(&call, USAGE, "not enough arguments."));
        }
        if count > most {
            return Err(Failure::validation(&call, USAGE, "too many arguments."));
        }
        Ok(call)
    }

    pub(crate) fn has(&self, option: &str) -> bool {
        self.options
            .get(option)
            .is_some_and(|value| value != "false")
    }

    pub(crate) fn option(&self, option: &str) -> Option<&str> {
        self.options.get(option).map(String::as_str)
    }

    /// An option that is a whole number.
    pub(crate) fn number(&self, option: &str) -> Result<Option<i64>, Failure> {
        let Some(text) = self.option(option) else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| {
            let why = format!("Invalid options for this command:\n--{option} : {text}");
            Failure::validation(self, USAGE, &why)
        })
    }

    /// The argument at this place; nothing where there is none.
    pub(crate) fn argument(&self, at: usize) -> &str {
        self.arguments
            .get(at)
            .map(String::as_str)
            .unwrap_or_default()
    }

    pub(crate) fn vhost(&self) -> &str {
        self.option("vhost").unwrap_or("/")
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.has("silent")
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.has("quiet") || self.is_silent()
    }

    pub(crate) fn has_headers(&self) -> bool {
        !self.is_silent() && !self.has("no-table-headers")
    }

    /// The node that is meant.
    pub(crate) fn node(&self) -> String {
        match self.option("node") {
            Some(said) => node_name(Some(said)),
            None => node_name(named_elsewhere()),
        }
    }

    fn seconds(&self, option: &str) -> Option<Duration> {
        let text = self.option(option)?;
        if text == "infinity" {
            return Some(FOR_EVER);
        }
        let secs: f64 = text.parse().ok()?;
        Duration::try_from_secs_f64(secs)
            .ok()
            .map(|time| time.min(FOR_EVER))
    }

    /// How long the command may take, `default` seconds unless said.
    pub(crate) fn timeout_or(&self, default: u64) -> Duration {
        let default = Duration::from_secs(default);
        self.seconds("timeout").unwrap_or(default)
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout_or(TIMEOUT_SECS)
    }

    pub(crate) fn client(&self) -> Client {
        Client {
            node: self.node(),
            timeout: self.timeout(),
        }
    }

    /// How the command is written.
    pub(crate) fn usage(&self) -> String {
        command::usage(self.program, self.command)
    }
}

/// The node that the environment names, or the file that stands in for it; asked once.
fn named_elsewhere() -> Option<&'static str> {
    static NAMED: OnceLock<Option<String>> = OnceLock::new();
    let named = NAMED.get_or_init(|| {
        let given = env::var(NODE_VARIABLE).ok().filter(|name| !name.is_empty());
        given.or_else(|| {
            let mut set = environment_file::variables(&environment_file::path()).into_iter();
            set.find(|(name, _)| name == NODE_VARIABLE)
                .map(|(_, value)| value)
        })
    });
    named.as_deref()
}

/// A word that is an option; a negative number is none.
fn is_option(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next() == Some('-')
        && letters
            .next()
            .is_some_and(|second| !second.is_ascii_digit())
}

fn switch(own: &'static [Switch], word: &str) -> Option<Switch> {
    let all = own.iter().chain(COMMON);
    let long = word.strip_prefix("--").map(|name| name.replace('_', "-"));
    let letter = word.strip_prefix('-').filter(|_| long.is_none());
    let mut fitting = all.filter(|Switch(name, short, _)| match (&long, letter) {
        (Some(long), _) => long == name,
        (None, Some(letter)) => {
            let mut letters = letter.chars();
            short.is_some() && letters.next() == *short && letters.next().is_none()
        }
        (None, None) => false,
    });
    fitting.next().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(program: Program, text: &str) -> Result<Call, Failure> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        Call::parse(program, &words)
    }

    #[test]
    fn options_stand_before_and_behind_the_command() {
        let call = call(
            Program::Ctl,
            "-q list_queues -p v1 --formatter=json name -n a@b",
        )
        .expect("a command");
        assert_eq!(call.command.name, "list_queues");
        assert_eq!(call.arguments, ["name"]);
        assert!(call.is_quiet() && call.has_headers());
        assert_eq!((call.vhost(), call.node().as_str()), ("v1", "a@b"));
        assert_eq!(call.format, Format::Json);
    }

    #[test]
    fn a_wrong_command_line_says_how_it_should_be() {
        let failure = call(Program::Ctl, "add_user").expect_err("the name is missing");
        assert_eq!(failure.code, USAGE);
        assert_eq!(
            failure.text,
            "Error (argument validation): not enough arguments.\nArguments given:\n\tadd_user\n\n\
             Usage\n\nrabbitmqctl [--node <node>] [--longnames] [--quiet] add_user <username> \
             [<password>] [<password_hash> --pre-hashed-password]"
        );
        let failure = call(Program::Ctl, "list_queues --bogus").expect_err("no such option");
        assert!(failure.text.starts_with(
            "Error (argument validation): Invalid options for this command:\n--bogus : \n"
        ));
    }

    #[test]
    fn a_negative_number_and_what_stands_behind_two_dashes_are_arguments() {
        let one = call(Program::Ctl, "set_vm_memory_high_watermark -1").expect("an argument");
        assert_eq!(one.arguments, ["-1"]);
        let two = call(Program::Ctl, "add_user u -- -secret").expect("an argument");
        assert_eq!(two.arguments, ["u", "-secret"]);
    }

    #[test]
    fn programs_have_their_own_commands() {
        assert!(call(Program::Diagnostics, "ping").is_ok());
        let failure = call(Program::Diagnostics, "add_user a b").expect_err("of another program");
        assert!(
            failure
                .text
                .starts_with("\nCommand 'add_user' not found. \n")
        );
        assert_eq!(failure.code, USAGE);
    }
}
