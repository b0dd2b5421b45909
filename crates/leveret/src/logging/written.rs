//! Lines that are written: on the console, or into a file.

use std::{io, io::Write};

use tracing::Level;

use super::{
    carried::{Carried, carry},
    file::LogFile,
};

/// Starts to write lines on the console.
pub(super) fn console(
    mut to: impl Write + Send + 'static,
    has_colours: bool,
) -> io::Result<Carried> {
    carry("log to the console", move |entry| {
        let line = if has_colours {
            coloured(entry.level, &entry.line)
        } else {
            entry.line.clone()
        };
        to.write_all((line + "\n").as_bytes())?;
        to.flush()
    })
}

/// Starts to write lines into a file.
pub(super) fn file(mut file: LogFile) -> io::Result<Carried> {
    carry("log to the file", move |entry| {
        file.write_line(format!("{}\n", entry.line).as_bytes())
    })
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
