//! The binary: command line, logging, signals. Everything else is in the crates it wires together.

mod certificates;
mod cli;
mod logging;
mod offline;
mod run;

use std::process::ExitCode;

use clap::Parser;

/// RocksDB allocates here as well. Memory that a backlog took goes back to the system; with the C library's
/// allocator twice as much stayed (`.cargo/config.toml` has its settings, ADR 8 the figures).
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The broker did not start; the last line says why.
const START_FAILED: u8 = 1;

fn main() -> ExitCode {
    let arguments = cli::Arguments::parse();
    logging::start(arguments.log_level, arguments.log_format);
    let done = match &arguments.command {
        None => run::run(&arguments),
        Some(command) => offline::run(command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leveret: {error}");
            ExitCode::from(START_FAILED)
        }
    }
}
