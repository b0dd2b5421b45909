//! What every command does; one file per thing that commands are about.

mod connections;
mod control;
mod definitions;
mod eval;
mod health;
mod help;
mod lists;
mod parameters;
mod permissions;
mod plugins;
mod policies;
mod queues;
mod report;
mod users;
mod vhosts;
mod waiting;

use crate::command::Command;

/// All commands of all programs.
pub(crate) const ALL: &[&[Command]] = &[
    help::COMMANDS,
    waiting::COMMANDS,
    control::COMMANDS,
    users::COMMANDS,
    permissions::COMMANDS,
    vhosts::COMMANDS,
    health::COMMANDS,
    report::COMMANDS,
    lists::COMMANDS,
    parameters::COMMANDS,
    policies::COMMANDS,
    queues::COMMANDS,
    connections::COMMANDS,
    definitions::COMMANDS,
    eval::COMMANDS,
    plugins::COMMANDS,
];
