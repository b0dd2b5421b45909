//! What is done with a data directory while no broker uses it.

use std::io::{Write, stdout};

use leveret_store::Options;

use crate::{
    cli::{Command, StorageCommand},
    run::RunError,
};

/// Does it and prints what came of it.
pub(crate) fn run(command: &Command) -> Result<(), RunError> {
    let options = Options::default();
    let text = match command {
        Command::Repair { dir } => leveret_store::repair(dir, &options)?.to_string(),
        Command::Storage {
            command: StorageCommand::Stat { dir },
        } => leveret_store::stat(dir, &options)?.to_string(),
    };
    writeln!(stdout(), "{text}")?;
    Ok(())
}
