//! Where log lines go and how they look.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::filter::LevelFilter;

use crate::config::{LogFormat, LogLevel};

/// Starts logging to standard error; once per process.
pub(crate) fn start(level: LogLevel, format: LogFormat) {
    let level = match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(stderr);
    match format {
        LogFormat::Text => log
            .with_ansi(stderr().is_terminal())
            .with_target(false)
            .init(),
        LogFormat::Json => log.json().init(),
    }
}
