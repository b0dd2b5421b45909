//! Lines as values, for whoever carries them on.

use std::{
    cell::Cell,
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

use super::line;
use crate::config::LogFormat;

/// One line, whole but for its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) level: Level,
    /// What is said, without when, by whom and how loudly.
    pub(crate) said: String,
    /// As it would stand in a file.
    pub(crate) line: String,
}

/// Who takes lines. Never waits: the broker's own work is what writes them.
pub(crate) trait Outlet: fmt::Debug + Send + Sync + 'static {
    fn take(&self, entry: Entry);
}

thread_local! {
    static IS_CARRYING: Cell<bool> = const { Cell::new(false) };
}

/// Does what would log about itself without end: lines of it go to the console and the file only.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let before = IS_CARRYING.replace(true);
    let done = work();
    IS_CARRYING.set(before);
    done
}

/// Makes lines for an outlet.
///
/// Of spans only the numbers are told, so nothing else of them is kept: every connection has one.
#[derive(Debug)]
pub(super) struct OutletLayer {
    pub(super) outlet: Arc<dyn Outlet>,
    pub(super) format: LogFormat,
    /// It gets what is said [`quietly`] too.
    pub(super) hears_all: bool,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for OutletLayer {
    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        if IS_CARRYING.get() && !self.hears_all {
            return;
        }
        let pid = line::pid(ctx.lookup_current());
        let line = match self.format {
            LogFormat::Text => line::plain(event, &pid),
            LogFormat::Json => line::json(event, &pid),
        };
        self.outlet.take(Entry {
            level: *event.metadata().level(),
            said: line::said(event),
            line,
        });
    }
}

/// Bytes of lines that are remembered.
const RECENT_BYTES_MAX: usize = 128 * 1024;

/// The newest lines, for whoever asks what happened.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    lines: VecDeque<String>,
    bytes: usize,
    /// Lines that are no longer there.
    forgotten: u64,
}

impl Outlet for Recent {
    fn take(&self, entry: Entry) {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.bytes += entry.line.len();
        remembered.lines.push_back(entry.line);
        while remembered.bytes > RECENT_BYTES_MAX {
            let Some(oldest) = remembered.lines.pop_front() else {
                break;
            };
            remembered.bytes -= oldest.len();
            remembered.forgotten += 1;
        }
    }
}

impl Recent {
    /// The lines behind the one of this number, at most so many of the newest, and the number of the last one.
    pub(super) fn after(&self, number: u64, at_most: usize) -> (Vec<String>, u64) {
        let remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = remembered.forgotten + remembered.lines.len() as u64;
        let known = usize::try_from(number.saturating_sub(remembered.forgotten));
        let fresh = remembered
            .lines
            .len()
            .saturating_sub(known.unwrap_or(usize::MAX));
        let skipped = remembered.lines.len() - fresh.min(at_most);
        let lines = remembered.lines.iter().skip(skipped);
        (lines.cloned().collect(), last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(recent: &Recent, line: &str) {
        recent.take(Entry {
            level: Level::INFO,
            said: line.to_owned(),
            line: line.to_owned(),
        });
    }

    #[test]
    fn the_newest_lines_are_told_and_then_what_came_after_them() {
        let recent = Recent::default();
        for line in ["one", "two", "three"] {
            said(&recent, line);
        }
        let (lines, last) = recent.after(0, 2);
        assert_eq!(lines, ["two", "three"]);
        assert!(recent.after(last, 10).0.is_empty());
        said(&recent, "four");
        assert_eq!(recent.after(last, 10).0, ["four"]);
    }

    #[test]
    fn old_lines_are_forgotten() {
        let recent = Recent::default();
        let long = "x".repeat(RECENT_BYTES_MAX / 2);
        for _ in 0..4 {
            said(&recent, &long);
        }
        let (lines, last) = recent.after(0, 10);
        assert_eq!((lines.len(), last), (2, 4));
    }
}
