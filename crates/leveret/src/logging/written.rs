//! Lines that are written: on the console, or into a file.

use std::{fmt, io::Write};

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    Layer,
    fmt::{MakeWriter, writer::BoxMakeWriter},
    layer::Context,
    registry::LookupSpan,
};

use super::line;
use crate::config::LogFormat;

/// Writes lines, each as a whole.
///
/// Of spans only the numbers are told, so nothing else of them is kept: every connection has one.
pub(super) struct WriterLayer {
    pub(super) writer: BoxMakeWriter,
    pub(super) format: LogFormat,
    /// It is read on a terminal.
    pub(super) has_colours: bool,
}

impl fmt::Debug for WriterLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterLayer")
            .field("format", &self.format)
            .field("has_colours", &self.has_colours)
            .finish_non_exhaustive()
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for WriterLayer {
    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let level = *event.metadata().level();
        let pid = line::pid(ctx.lookup_current());
        let line = match self.format {
            LogFormat::Text if self.has_colours => coloured(level, &line::plain(event, &pid)),
            LogFormat::Text => line::plain(event, &pid),
            LogFormat::Json => line::json(event, &pid),
        };
        let mut writer = self.writer.make_writer_for(event.metadata());
        // There is nobody left to tell.
        let _ = writer.write_all((line + "\n").as_bytes());
    }
}

fn coloured(level: Level, line: &str) -> String {
    let colour = match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::DEBUG | Level::TRACE => "\x1b[2m",
        Level::INFO => return line.to_owned(),
    };
    format!("{colour}{line}\x1b[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_ordinary_has_a_colour() {
        assert_eq!(coloured(Level::INFO, "started"), "started");
        assert_eq!(coloured(Level::ERROR, "lost"), "\x1b[31mlost\x1b[0m");
    }
}
