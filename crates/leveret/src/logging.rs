//! Where log lines go and how they look.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    fmt,
    io::{IsTerminal, stderr, stdout},
    panic::{self, PanicHookInfo},
};

use tracing::error;

use tracing_subscriber::{
    field::MakeExt,
    filter::LevelFilter,
    fmt::{
        format::{Writer, debug_fn},
        writer::BoxMakeWriter,
    },
};

use crate::config::{LogFormat, LogLevel, LogTo};

/// Starts logging; once per process.
pub(crate) fn start(level: LogLevel, format: LogFormat, to: LogTo) {
    let level = match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let (writer, is_terminal) = match to {
        LogTo::Stderr => (BoxMakeWriter::new(stderr), stderr().is_terminal()),
        LogTo::Stdout => (BoxMakeWriter::new(stdout), stdout().is_terminal()),
    };
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(writer);
    match format {
        LogFormat::Text => log
            .fmt_fields(
                debug_fn(|writer, field, value| match field.name() {
                    "message" => write_escaped(writer, value),
                    name => {
                        write!(writer, "{name}=")?;
                        write_escaped(writer, value)
                    }
                })
                .delimited(" "),
            )
            .with_ansi(is_terminal)
            .with_target(false)
            .init(),
        LogFormat::Json => log.json().init(),
    }
    panic::set_hook(Box::new(log_panic));
}

/// A bug of the broker. What it happened in ends, which is told there; here is where to look for it.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    let text = panic.payload_as_str().unwrap_or("without a text");
    let backtrace = Backtrace::capture();
    match backtrace.status() {
        BacktraceStatus::Captured => {
            error!(place, %backtrace, "panicked, which is a bug of the broker: {text}");
        }
        _ => error!(place, "panicked, which is a bug of the broker: {text}"),
    }
}

/// Names that peers chose must not end the line, colour the terminal or turn the text around.
fn write_escaped(writer: &mut Writer<'_>, value: &dyn fmt::Debug) -> fmt::Result {
    for letter in format!("{value:?}").chars() {
        if letter.is_control() || turns_text_around(letter) {
            write!(writer, "{}", letter.escape_default())?;
        } else {
            writer.write_char(letter)?;
        }
    }
    Ok(())
}

const fn turns_text_around(letter: char) -> bool {
    matches!(
        letter,
        '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_wrote_stays_on_its_line_and_in_its_direction() {
        let mut line = String::new();
        let name = format_args!("a\r\nb\x1b[31m\u{9b}1m\u{202e}c\u{e9}");
        write_escaped(&mut Writer::new(&mut line), &name).expect("a string takes everything");
        assert_eq!(line, "a\\r\\nb\\u{1b}[31m\\u{9b}1m\\u{202e}c\u{e9}");
    }
}
