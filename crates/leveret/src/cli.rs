//! The command line: the flags of the table of settings, and what can be done beside running a broker.

use std::{ffi::OsString, path::PathBuf};

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

use crate::config::Given;

/// A message broker for AMQP 0-9-1 clients, in place of RabbitMQ.
///
/// Point any AMQP client at port 5672 and log in as guest with the password guest (from this machine
/// only). Queues, exchanges and persistent messages are kept in the data directory.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) given: Given,
}

impl Arguments {
    /// The help with every setting, if these words ask for it.
    pub(crate) fn help_asked_for(words: &[OsString]) -> Option<String> {
        let words: Vec<&str> = words
            .iter()
            .skip(1)
            .filter_map(|word| word.to_str())
            .collect();
        if words != ["help", "settings"] && words != ["--help-all"] {
            return None;
        }
        let mut all = Self::command().mut_args(|arg| arg.hide(false));
        Some(all.render_long_help().to_string())
    }
}

/// What can be done beside running a broker.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Save what is whole of a damaged data directory; the damaged database is put aside, not changed
    Repair {
        /// The data directory
        dir: PathBuf,
    },
    /// Look at what is stored
    Storage {
        #[command(subcommand)]
        command: StorageCommand,
    },
    /// Look at what the broker would be set to by these flags, the environment and the files they name
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
}

/// What there is to look at.
#[derive(Debug, Subcommand)]
pub(crate) enum StorageCommand {
    /// Queues, messages, bytes and the newest commit of a data directory
    Stat {
        /// The data directory
        dir: PathBuf,
    },
}

/// What there is to know of settings.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say what is wrong; exits with 1 if the broker would not start
    Check {
        #[command(flatten)]
        read: ConfigRead,
    },
    /// Every setting, what it is, and where that was said
    Show {
        /// Lines for people or for machines
        #[arg(long, value_name = "FORMAT", default_value = "text")]
        format: ShowFormat,

        #[command(flatten)]
        read: ConfigRead,
    },
    /// The page about all settings, in Markdown
    Document,
}

/// What is read.
#[derive(Debug, Parser)]
pub(crate) struct ConfigRead {
    /// Read also what RabbitMQ's own places have: /etc/rabbitmq/rabbitmq.conf, conf.d and rabbitmq-env.conf, as
    /// rabbitmq-server does
    #[arg(long)]
    pub(crate) rabbitmq: bool,

    #[command(flatten)]
    pub(crate) given: Given,
}

/// How settings are shown.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ShowFormat {
    /// name = value, and where it was said
    Text,
    /// One object
    Json,
}

const EXAMPLES: &str = "\
Examples:
  leveret                                       listen on 5672, keep data in ./leveret-data
  leveret --data-dir /var/lib/leveret           keep data elsewhere
  leveret --listen 127.0.0.1:0 --ports-file p   a private broker on a free port, for tests
  leveret --config /etc/leveret.conf            settings as in rabbitmq.conf
  leveret config check --config leveret.conf    what is wrong with them
  leveret storage stat /var/lib/leveret         what a stopped broker has stored
  leveret repair /var/lib/leveret               save what is whole of a damaged directory
  leveret help settings                         every option there is, a hundred more than here

Environment:
  every option has a variable, LEVERET_ and its name, such as LEVERET_DATA_DIR; those with a name of
  RabbitMQ's own stand beside their options. docs/configuration.md has all of them

Exit codes:
  0  stopped by SIGTERM or SIGINT, everything stored
  1  could not start: port in use, data directory locked, not writable or of a newer version, or a
     setting that is not possible
  2  the command line is wrong
  3  storage failed while running; nothing confirmed is lost
  4  ended before everything was in order, by a second SIGTERM or SIGINT, or because the disk did not
     answer; nothing confirmed is lost";
