//! `leveret config`.

use std::{
    io::{self, Write, stdout},
    process::ExitCode,
};

use crate::{
    cli::{ConfigCommand, ConfigRead, ShowFormat},
    config::{Environment, Loaded, Places, Severity, document, load},
};

/// The broker would not start.
const WOULD_NOT_START: u8 = 1;

/// Does it and prints what came of it.
pub(crate) fn run(command: &ConfigCommand) -> io::Result<ExitCode> {
    match command {
        ConfigCommand::Check { read } => check(&loaded(read)),
        ConfigCommand::Show { format, read } => show(&loaded(read), *format),
        ConfigCommand::Document => {
            write!(stdout(), "{}", document())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn loaded(read: &ConfigRead) -> Loaded {
    let places = if read.rabbitmq {
        Places::of_rabbitmq()
    } else {
        Places::default()
    };
    load(&read.given, Environment::of_process(), &places)
}

fn check(loaded: &Loaded) -> io::Result<ExitCode> {
    let mut out = stdout().lock();
    for problem in &loaded.problems {
        let severity = match problem.severity {
            Severity::Note => "note",
            Severity::Error => "error",
            Severity::Warning | Severity::Unknown => "warning",
        };
        writeln!(out, "{severity}: {problem}")?;
    }
    for path in &loaded.files {
        writeln!(out, "read {}", path.display())?;
    }
    let errors = loaded.errors().count();
    if errors > 0 {
        writeln!(
            out,
            "the broker would not start: {errors} of these are errors"
        )?;
        return Ok(ExitCode::from(WOULD_NOT_START));
    }
    writeln!(out, "the broker would start")?;
    Ok(ExitCode::SUCCESS)
}

fn show(loaded: &Loaded, format: ShowFormat) -> io::Result<ExitCode> {
    let mut out = stdout().lock();
    match format {
        ShowFormat::Text => {
            for (row, text, origin) in loaded.rows() {
                let text = if text.is_empty() { "-" } else { text };
                let words = if text == "-" { row.default_words } else { "" };
                let words = if words.is_empty() {
                    String::new()
                } else {
                    format!(": {words}")
                };
                writeln!(out, "{} = {text}  # {origin}{words}", row.name)?;
            }
        }
        ShowFormat::Json => {
            let rows = loaded.rows().map(|(row, text, origin)| {
                let value = serde_json::json!({"value": text, "from": origin.to_string()});
                (row.name.to_owned(), value)
            });
            let rows: serde_json::Map<String, serde_json::Value> = rows.collect();
            writeln!(out, "{}", serde_json::Value::Object(rows))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
