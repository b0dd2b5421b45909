//! The binary: command line, logging, signals. Everything else is in the crates it wires together.

mod cli;
mod logging;
mod run;

use std::process::ExitCode;

use clap::Parser;

/// The broker did not start; the last line says why.
const START_FAILED: u8 = 1;

fn main() -> ExitCode {
    let arguments = cli::Arguments::parse();
    logging::start(arguments.log_level, arguments.log_format);
    match run::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leveret: {error}");
            ExitCode::from(START_FAILED)
        }
    }
}
