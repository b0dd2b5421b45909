//! The command line.

mod connections;
mod tls;

use std::{
    net::{AddrParseError, SocketAddr},
    path::PathBuf,
    str::FromStr,
};

use clap::{Parser, Subcommand, ValueEnum};
use leveret_runtime::Amount;

use self::{connections::ConnectionArguments, tls::TlsArguments};

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

    /// Directory for everything durable; made if it is missing, used by one broker at a time
    #[arg(
        long,
        value_name = "DIR",
        default_value = "./leveret-data",
        env = "LEVERET_DATA_DIR",
        hide_env = true
    )]
    pub(crate) data_dir: PathBuf,

    /// Where queues and messages are kept: in the data directory, or in memory, for tests: nothing
    /// then outlives the process, and the data directory is not touched
    #[arg(
        long,
        value_name = "WHERE",
        default_value = "disk",
        env = "LEVERET_STORAGE",
        hide_env = true
    )]
    pub(crate) storage: Storage,

    /// When a message counts as stored and is confirmed; docs/durability.md tells what each promises
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "always",
        env = "LEVERET_STORAGE_SYNC",
        hide_env = true
    )]
    pub(crate) storage_sync: StorageSync,

    /// Memory in use from which on publishers wait, told by connection.blocked: a size like 512MiB, or
    /// a share of the memory this machine or container has
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "0.6",
        env = "LEVERET_MEMORY_LIMIT"
    )]
    pub(crate) memory_limit: Amount,

    /// Free space on the disk of the data directory below which publishers wait
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "50MB",
        env = "LEVERET_DISK_FREE_LIMIT"
    )]
    pub(crate) disk_free_limit: Amount,

    /// Address and port for AMQP clients; may be given several times; port 0 takes any free one
    /// (default: port 5672 of every address, IPv4 and IPv6)
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "LEVERET_LISTEN",
        hide_env = true,
        value_delimiter = ','
    )]
    pub(crate) listen: Vec<SocketAddr>,

    /// Address and port of the HTTP API, or `off`; port 0 takes any free one (default: port 15672 of every
    /// address, and off when --listen is given)
    #[arg(
        long,
        value_name = "ADDR:PORT|off",
        env = "LEVERET_HTTP_LISTEN",
        hide_env = true
    )]
    pub(crate) http_listen: Option<OptionalAddress>,

    /// Address and port of the metrics for Prometheus, or `off`; port 0 takes any free one (default: port
    /// 15692 of every address, and off when --listen is given)
    #[arg(
        long,
        value_name = "ADDR:PORT|off",
        env = "LEVERET_METRICS_LISTEN",
        hide_env = true
    )]
    pub(crate) metrics_listen: Option<OptionalAddress>,

    /// Users, vhosts, queues and so on, as the HTTP API exports them: applied at every start, before
    /// anybody is let in; a directory's files in the order of their names. Without data there is then
    /// nobody but those in the file
    #[arg(
        long,
        value_name = "FILE",
        env = "LEVERET_DEFINITIONS",
        hide_env = true
    )]
    pub(crate) definitions: Option<PathBuf>,

    /// The administrator that an empty data directory gets
    #[arg(
        long,
        value_name = "USER",
        default_value = "guest",
        env = "RABBITMQ_DEFAULT_USER"
    )]
    pub(crate) default_user: String,

    /// Their password
    #[arg(
        long,
        value_name = "PASSWORD",
        default_value = "guest",
        env = "RABBITMQ_DEFAULT_PASS",
        hide_env_values = true
    )]
    pub(crate) default_pass: String,

    /// The vhost that an empty data directory gets
    #[arg(
        long,
        value_name = "VHOST",
        default_value = "/",
        env = "RABBITMQ_DEFAULT_VHOST"
    )]
    pub(crate) default_vhost: String,

    /// Name of this node in the HTTP API and in texts (default: rabbit@ and the name of this machine)
    #[arg(long, value_name = "NAME@HOST", env = "RABBITMQ_NODENAME")]
    pub(crate) node_name: Option<String>,

    /// Write the ports in use to this file once connections are accepted, as one line of JSON
    #[arg(long, value_name = "FILE", env = "LEVERET_PORTS_FILE", hide_env = true)]
    pub(crate) ports_file: Option<PathBuf>,

    /// Users who may log in from this machine only; `none` for nobody
    #[arg(
        long,
        value_name = "USER",
        default_value = "guest",
        env = "LEVERET_LOOPBACK_USERS",
        hide_env = true,
        value_delimiter = ','
    )]
    pub(crate) loopback_users: Vec<String>,

    /// Connections that may be open at once (default: any number)
    #[arg(
        long,
        value_name = "N",
        env = "LEVERET_CONNECTION_MAX",
        hide_env = true
    )]
    pub(crate) connection_max: Option<u64>,

    /// Channels that may be open at once, over all connections (default: any number)
    #[arg(
        long,
        value_name = "N",
        env = "LEVERET_CHANNEL_MAX_PER_NODE",
        hide_env = true
    )]
    pub(crate) channel_max_per_node: Option<u64>,

    #[command(flatten)]
    pub(crate) connections: ConnectionArguments,

    #[command(flatten)]
    pub(crate) tls: TlsArguments,

    /// How much is logged to standard error
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "info",
        env = "LEVERET_LOG_LEVEL",
        hide_env = true
    )]
    pub(crate) log_level: LogLevel,

    /// Lines for people or for machines
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        env = "LEVERET_LOG_FORMAT",
        hide_env = true
    )]
    pub(crate) log_format: LogFormat,
}

/// What can be done with a data directory while no broker uses it.
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

const EXAMPLES: &str = "\
Examples:
  leveret                                       listen on 5672, keep data in ./leveret-data
  leveret --data-dir /var/lib/leveret           keep data elsewhere
  leveret --listen 127.0.0.1:0 --ports-file p   a private broker on a free port, for tests
  leveret storage stat /var/lib/leveret         what a stopped broker has stored
  leveret repair /var/lib/leveret               save what is whole of a damaged directory

Environment:
  every option has a variable, LEVERET_ and its name, such as LEVERET_DATA_DIR; those with a name of
  RabbitMQ's own stand beside their options

Exit codes:
  0  stopped by SIGTERM or SIGINT, everything stored
  1  could not start: port in use, data directory locked, not writable or of a newer version
  2  the command line is wrong
  3  storage failed while running; nothing confirmed is lost";

/// Where queues and messages are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Storage {
    /// In the data directory
    Disk,
    /// In memory
    Memory,
}

/// When a message counts as stored.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum StorageSync {
    /// When it is on the disk: survives a power cut
    Always,
    /// When the system has it; on the disk a second later. Survives a kill of the broker
    Interval,
    /// When the system has it, which writes it when it likes. Survives a kill of the broker
    Never,
}

/// An address, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OptionalAddress {
    At(SocketAddr),
    Off,
}

impl FromStr for OptionalAddress {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "off" {
            Ok(Self::Off)
        } else {
            text.parse().map(Self::At)
        }
    }
}

/// What is logged, from "somebody must look" to every step of the protocol.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// Lines for people, or one JSON object a line.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}
