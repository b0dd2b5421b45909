//! The command line of administrators: `rabbitmqctl` and its relatives, as a client of the HTTP API.
//!
//! ```text
//!   argv ─▶ Called: which program ─▶ Call: command, options, arguments ─▶ command of the table
//!                                                                             │ asks
//!            stdout, stderr, exit code ◀─ format ◀─ rows, text or failure ◀───┴─▶ the node's socket
//! ```
//!
//! Nothing here runs a broker, and nothing starts a thread or a runtime: a health check connects, asks once and ends.
//! Commands, their order, columns and texts are those of RabbitMQ; `docs/cli.md` tells what differs.

mod admin;
mod call;
mod client;
mod command;
mod commands;
mod environment_file;
mod failure;
mod format;
mod http;
mod plugins;
mod program;
pub mod socket;
mod table;
mod term;

pub use self::{
    environment_file::{
        ENVIRONMENT_FILE, ENVIRONMENT_FILE_VARIABLE, variables as variables_of_file,
    },
    plugins::{enabled_plugins_file, missed as missed_of_plugin},
    program::{Called, Ran, node_name},
};
