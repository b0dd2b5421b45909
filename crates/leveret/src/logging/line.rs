//! How a line looks: RabbitMQ's, or an object in JSON with RabbitMQ's names.

use std::fmt::{self, Write};

use serde_json::{Map, Value};
use tracing::{
    Event, Level,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{
        format::Writer,
        time::{FormatTime, SystemTime},
    },
    registry::{LookupSpan, SpanRef},
};

use super::levels::Category;

/// A line for people, without its end: `2026-11-29 19:21:36.973271+00:00 [info] <0.969.0> text name=value`.
pub(super) fn plain(event: &Event<'_>, pid: &str) -> String {
    let level = *event.metadata().level();
    format!("{} [{}] {pid} {}", now(), word(level), said(event))
}

/// What an event says: its text, and its fields behind it.
pub(super) fn said(event: &Event<'_>) -> String {
    let said = Said::of(event);
    let mut text = said.text;
    for (name, value) in said.fields {
        // A string takes everything.
        let _ = write!(text, " {name}={value}");
    }
    text
}

/// A line for machines, without its end: `{"time": …, "level": "info", "msg": …}`.
pub(super) fn json(event: &Event<'_>, pid: &str) -> String {
    let metadata = event.metadata();
    let said = Said::of(event);
    let mut object: Map<String, Value> = said
        .fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    for (name, value) in [
        ("time", now()),
        ("level", word(*metadata.level()).to_owned()),
        ("msg", said.text),
        ("domain", Category::of(metadata.target()).to_owned()),
        ("pid", pid.to_owned()),
        ("mfa", metadata.target().to_owned()),
    ] {
        object.insert(name.to_owned(), value.into());
    }
    if let Some(file) = metadata.file() {
        object.insert("file".to_owned(), file.into());
    }
    if let Some(line) = metadata.line() {
        object.insert("line".to_owned(), line.into());
    }
    Value::Object(object).to_string()
}

/// RabbitMQ's word for a level.
pub(super) const fn word(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "info",
        _ => "debug",
    }
}

/// `2026-11-29 19:21:36.973271+00:00`
fn now() -> String {
    let mut text = String::new();
    // A string takes everything.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text.replacen('T', " ", 1).replacen('Z', "+00:00", 1)
}

/// What tells the lines of one connection from those of another, in the shape of an Erlang process id.
pub(super) fn pid<S>(span: Option<SpanRef<'_, S>>) -> String
where
    S: for<'a> LookupSpan<'a>,
{
    let number = span.map_or(0, |span| span.id().into_u64() & 0xffff_ffff);
    format!("<0.{number}.0>")
}

/// What an event says.
#[derive(Debug, Default)]
struct Said {
    text: String,
    fields: Vec<(&'static str, String)>,
}

impl Said {
    fn of(event: &Event<'_>) -> Self {
        let mut said = Self::default();
        event.record(&mut said);
        said
    }
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = escaped(value);
        match field.name() {
            "message" => self.text = text,
            name => self.fields.push((name, text)),
        }
    }
}

/// Names that peers chose must not end the line, colour the terminal or turn the text around.
fn escaped(value: &dyn fmt::Debug) -> String {
    let mut escaped = String::new();
    for letter in format!("{value:?}").chars() {
        if letter.is_control() || turns_text_around(letter) {
            let _ = write!(escaped, "{}", letter.escape_default());
        } else {
            escaped.push(letter);
        }
    }
    escaped
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
        let name = format_args!("a\r\nb\x1b[31m\u{9b}1m\u{202e}c\u{e9}");
        assert_eq!(
            escaped(&name),
            "a\\r\\nb\\u{1b}[31m\\u{9b}1m\\u{202e}c\u{e9}"
        );
    }

    #[test]
    fn the_time_is_as_rabbitmq_writes_it() {
        let now = now();
        let shape: String = now
            .chars()
            .map(|letter| if letter.is_ascii_digit() { '0' } else { letter })
            .collect();
        assert_eq!(shape, "0000-00-00 00:00:00.000000+00:00", "{now}");
    }
}
