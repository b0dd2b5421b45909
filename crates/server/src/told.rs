//! How often it is told that a socket came to nothing: whoever has not logged in must not fill the log.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lines in one [`WINDOW`], of all listeners together.
const LINES_MAX: u32 = 300;

/// Lines are counted for so long, from the first of them on.
const WINDOW: Duration = Duration::from_secs(60);

/// Counts lines.
#[derive(Debug, Default)]
pub(crate) struct Told {
    window: Mutex<Option<(Instant, u32)>>,
}

/// What to do with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tell {
    Line,
    /// And that no further ones come for a while.
    LastLine,
    Nothing,
}

impl Told {
    /// One more line is due.
    pub(crate) fn next(&self, now: Instant) -> Tell {
        let mut window = self.window.lock();
        let count = match *window {
            Some((since, count)) if now.duration_since(since) < WINDOW => {
                let count = count.saturating_add(1);
                *window = Some((since, count));
                count
            }
            Some(_) | None => {
                *window = Some((now, 1));
                1
            }
        };
        match count {
            ..LINES_MAX => Tell::Line,
            LINES_MAX => Tell::LastLine,
            _ => Tell::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sc57_lines_of_peers_who_got_nowhere_are_bounded_in_each_minute() {
        let (told, start) = (Told::default(), Instant::now());
        let lines = |at: Instant| {
            let lines: Vec<Tell> = (0..1000).map(|_| told.next(at)).collect();
            let of = |kind| lines.iter().filter(|line| **line == kind).count();
            (of(Tell::Line), of(Tell::LastLine))
        };
        assert_eq!(lines(start), (299, 1));
        assert_eq!(lines(start + WINDOW / 2), (0, 0));
        assert_eq!(lines(start + WINDOW), (299, 1));
    }
}
