//! The binary: command line, logging, signals. Everything else is in the crates it wires together.

mod app;
mod boot;
mod certificates;
mod cli;
mod config;
mod config_command;
mod connection_settings;
mod descriptors;
mod logging;
mod oauth_settings;
mod offline;
mod rabbitmq_server;
mod run;
mod service_manager;
mod signals;
mod tls_settings;

use std::{env, ffi::OsString, fmt::Display, process::ExitCode};

use clap::Parser;
use leveret_ctl::{Called, Ran};

use crate::{
    boot::Boot,
    cli::{Arguments, Command, StorageCommand},
    config::{Environment, LogTo, Places, Problem, Severity, SyslogTransport, load},
    run::RunError,
};

/// RocksDB allocates here as well. Memory that a backlog took goes back to the system; with the C library's
/// allocator twice as much stayed (`.cargo/config.toml` has its settings, ADR 8 the figures).
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The broker did not start; the last line says why.
const START_FAILED: u8 = 1;

/// It was told to end, and did so before everything was in order: told twice, or by a disk that does not answer. Nothing
/// that was confirmed is lost.
const ENDED_AT_ONCE: u8 = 4;

fn main() -> ExitCode {
    let code = run();
    logging::flush();
    code
}

fn run() -> ExitCode {
    // First of all: a health check of every few seconds should cost no more than its question.
    if let Some(called) = Called::from_environment()
        && let Ran::Ended(code) = called.run()
    {
        return code;
    }
    let words: Vec<OsString> = env::args_os().collect();
    let as_rabbitmq = rabbitmq_server::is_called(words.first());
    if let Some(help) = Arguments::help_asked_for(&words) {
        print!("{help}");
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::parse_from(words);
    match &arguments.command {
        None => serve(&arguments, as_rabbitmq),
        Some(Command::Config { command }) => {
            config_command::run(command).unwrap_or_else(|error| failed(&error))
        }
        Some(Command::Repair { dir }) => offline(|| offline::repair(dir)),
        Some(Command::Storage {
            command: StorageCommand::Stat { dir },
        }) => offline(|| offline::stat(dir)),
    }
}

/// Runs the broker; as RabbitMQ's program of that name with RabbitMQ's places for everything.
fn serve(arguments: &Arguments, as_rabbitmq: bool) -> ExitCode {
    let (places, log_to, failed): (_, _, fn(&dyn Display) -> ExitCode) = if as_rabbitmq {
        (Places::of_rabbitmq(), LogTo::Stdout, boot_failed)
    } else {
        (Places::default(), LogTo::Stderr, failed)
    };
    let loaded = load(&arguments.given, Environment::of_process(), &places);
    let Some(mut settings) = loaded.settings() else {
        let problems: Vec<String> = loaded.errors().map(Problem::to_string).collect();
        return failed(&problems.join("\n"));
    };
    if let Some(contradiction) = settings.contradiction() {
        return failed(&contradiction);
    }
    if as_rabbitmq && settings.logging.log_dir.is_none() {
        settings.logging.log_dir = rabbitmq_server::log_dir();
    }
    let plan = logging::Plan::of(&settings, log_to);
    let log_files = plan.names();
    let (log, for_exchange) = match plan.start() {
        Ok(started) => started,
        Err(reason) => return failed(&format!("cannot write the log: {reason}")),
    };
    for problem in &loaded.problems {
        match problem.severity {
            Severity::Note => tracing::info!("{problem}"),
            _ => tracing::warn!("{problem}"),
        }
    }
    let logging = &settings.logging;
    if logging.log_syslog && logging.log_syslog_transport == SyslogTransport::Tls {
        tracing::warn!("nothing goes to syslog: it is not reached over TLS from here");
    }
    for (row, text, origin) in loaded.rows().filter(|(_, text, _)| !text.is_empty()) {
        tracing::debug!("{} = {text}, from {origin}", row.name);
    }
    let mut boot = Boot {
        config_files: loaded.files.clone(),
        log_files,
        log: Some(log),
        for_exchange,
        ..Boot::default()
    };
    if as_rabbitmq {
        let node = leveret_ctl::node_name(settings.node.node_name.as_deref());
        let plugins = rabbitmq_server::enabled_plugins(&loaded.environment);
        rabbitmq_server::settle(&mut settings, &node, plugins.is_some());
        boot.plugins = plugins.unwrap_or_default();
        for words in rabbitmq_server::missing(&boot.plugins) {
            tracing::warn!("{words}");
        }
        settings.node.event_exchange |= rabbitmq_server::has_event_exchange(&boot.plugins);
    }
    match run::run(&settings, boot) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ RunError::Stop(_)) => {
            tracing::error!("{error}");
            ExitCode::from(ENDED_AT_ONCE)
        }
        Err(error) => failed(&error),
    }
}

/// Something with a data directory that no broker uses.
fn offline(work: impl FnOnce() -> Result<(), RunError>) -> ExitCode {
    if let Err(reason) = logging::Plan::on_stderr().start() {
        return failed(&reason);
    }
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &dyn Display) -> ExitCode {
    // It is the last word.
    logging::flush();
    for line in error.to_string().lines() {
        eprintln!("leveret: {line}");
    }
    ExitCode::from(START_FAILED)
}

/// In the form that scripts look for.
fn boot_failed(error: &dyn Display) -> ExitCode {
    logging::flush();
    eprintln!("\nBOOT FAILED\n===========\nError during startup: {error}\n");
    ExitCode::from(START_FAILED)
}
