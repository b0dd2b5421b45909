//! The binary: command line, logging, signals. Everything else is in the crates it wires together.

mod app;
mod certificates;
mod cli;
mod config;
mod config_command;
mod connection_settings;
mod descriptors;
mod logging;
mod offline;
mod run;
mod tls_settings;

use std::{fmt::Display, process::ExitCode};

use clap::Parser;
use leveret_ctl::{Called, Ran};

use crate::{
    cli::{Arguments, Command, StorageCommand},
    config::{Environment, LogFormat, LogLevel, Places, load},
};

/// RocksDB allocates here as well. Memory that a backlog took goes back to the system; with the C library's
/// allocator twice as much stayed (`.cargo/config.toml` has its settings, ADR 8 the figures).
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The broker did not start; the last line says why.
const START_FAILED: u8 = 1;

fn main() -> ExitCode {
    // First of all: a health check of every few seconds should cost no more than its question.
    if let Some(called) = Called::from_environment()
        && let Ran::Ended(code) = called.run()
    {
        return code;
    }
    let arguments = Arguments::parse();
    match &arguments.command {
        None => serve(&arguments),
        Some(Command::Config { command }) => {
            config_command::run(command).unwrap_or_else(|error| failed(&error))
        }
        Some(Command::Repair { dir }) => offline(|| offline::repair(dir)),
        Some(Command::Storage {
            command: StorageCommand::Stat { dir },
        }) => offline(|| offline::stat(dir)),
    }
}

fn serve(arguments: &Arguments) -> ExitCode {
    let loaded = load(
        &arguments.given,
        Environment::of_process(),
        &Places::default(),
    );
    let Some(settings) = loaded.settings() else {
        for problem in loaded.errors() {
            eprintln!("leveret: {problem}");
        }
        return ExitCode::from(START_FAILED);
    };
    if let Some(contradiction) = settings.contradiction() {
        return failed(&contradiction);
    }
    logging::start(settings.log_level, settings.log_format);
    for problem in &loaded.problems {
        tracing::warn!("{problem}");
    }
    done(run::run(&settings))
}

/// Something with a data directory that no broker uses.
fn offline(work: impl FnOnce() -> Result<(), run::RunError>) -> ExitCode {
    logging::start(LogLevel::Info, LogFormat::Text);
    done(work())
}

fn done(done: Result<(), run::RunError>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &dyn Display) -> ExitCode {
    eprintln!("leveret: {error}");
    ExitCode::from(START_FAILED)
}
