//! What is done with a data directory while no broker uses it.

use std::{
    io::{Write, stdout},
    path::Path,
};

use leveret_store::Options;

use crate::run::RunError;

/// Saves what is whole of a damaged directory.
pub(crate) fn repair(dir: &Path) -> Result<(), RunError> {
    print(&leveret_store::repair(dir, &Options::default())?.to_string())
}

/// Says what is stored.
pub(crate) fn stat(dir: &Path) -> Result<(), RunError> {
    print(&leveret_store::stat(dir, &Options::default())?.to_string())
}

fn print(text: &str) -> Result<(), RunError> {
    Ok(writeln!(stdout(), "{text}")?)
}
