//! A file of log lines: rotated when it gets large, and found again when somebody else has rotated it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use flate2::{Compression, write::GzEncoder};

use super::syslog::Moment;

/// For the broker's user and group, as RabbitMQ has it.
const MODE: u32 = 0o640;

/// When a file is put aside, and how many are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rotation {
    /// Bytes above which it is; `None` for never.
    pub(super) bytes_max: Option<u64>,
    /// Files that are kept beside the one in use.
    pub(super) kept: u32,
    /// Moments at which it is.
    pub(super) at: Option<Moments>,
    /// Those that are kept are packed with gzip.
    pub(super) packs: bool,
}

/// The file in use.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    rotation: Rotation,
    file: File,
    /// When it is put aside, if it has lines then: seconds since 1970.
    until_secs: Option<u64>,
    /// The thread that packs the file before.
    packing: Option<JoinHandle<()>>,
}

impl LogFile {
    /// Opens it, and makes the directory if there is none.
    pub(super) fn open(path: PathBuf, rotation: Rotation) -> io::Result<Self> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        Ok(Self {
            file: open(&path)?,
            until_secs: rotation.at.map(|at| at.next_after(now_secs())),
            packing: None,
            path,
            rotation,
        })
    }

    /// Writes a line, which is never cut in two.
    pub(super) fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        self.write_line_at(line, now_secs())
    }

    fn write_line_at(&mut self, line: &[u8], now_secs: u64) -> io::Result<()> {
        let known = self.file.metadata()?;
        let at_path = fs::metadata(&self.path);
        let is_ours =
            at_path.is_ok_and(|there| (there.dev(), there.ino()) == (known.dev(), known.ino()));
        let is_full = self
            .rotation
            .bytes_max
            .is_some_and(|max| known.len() > 0 && known.len() + line.len() as u64 > max);
        let is_over = self.until_secs.is_some_and(|until| now_secs >= until);
        if is_over {
            self.until_secs = self.rotation.at.map(|at| at.next_after(now_secs));
        }
        let goes = is_full || is_over && known.len() > 0;
        if is_ours && goes {
            self.put_aside()?;
        }
        if !is_ours || goes {
            self.file = open(&self.path)?;
        }
        self.file.write_all(line)
    }

    /// `log` becomes `log.0`, `log.0` becomes `log.1`; the oldest goes. Packed, they are `log.0.gz` and so on.
    fn put_aside(&mut self) -> io::Result<()> {
        let Some(oldest) = self.rotation.kept.checked_sub(1) else {
            return fs::remove_file(&self.path);
        };
        if let Some(before) = self.packing.take() {
            // It packs under the name that is about to change. One that panicked has left its file as it was.
            let _ = before.join();
        }
        for form in [numbered, packed] {
            // What is there of the other form, from before the setting was changed, makes room too.
            let _ = fs::remove_file(form(&self.path, oldest));
            for number in (0..oldest).rev() {
                let from = form(&self.path, number);
                if from.exists() {
                    fs::rename(from, form(&self.path, number + 1))?;
                }
            }
        }
        let newest = numbered(&self.path, 0);
        fs::rename(&self.path, &newest)?;
        if self.rotation.packs {
            let to = packed(&self.path, 0);
            let work = move || {
                // Without space, say, it stays as it is: there is nowhere to tell of it but this log.
                let _ = pack(&newest, &to);
            };
            let thread = thread::Builder::new().name("log-packer".to_owned());
            self.packing = thread.spawn(work).ok();
        }
        Ok(())
    }
}

/// Puts a packed copy in the place of a file; at every moment one of the two is whole.
fn pack(from: &Path, to: &Path) -> io::Result<()> {
    let mut unfinished = to.as_os_str().to_owned();
    unfinished.push(".new");
    let unfinished = PathBuf::from(unfinished);
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(true).mode(MODE);
    let mut packer = GzEncoder::new(options.open(&unfinished)?, Compression::default());
    io::copy(&mut File::open(from)?, &mut packer)?;
    packer.finish()?.sync_all()?;
    fs::rename(&unfinished, to)?;
    fs::remove_file(from)
}

fn now_secs() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

/// Moments that come again: `$H30` at half past every hour, `$D0` at every midnight, `$W1D5` every Monday at five,
/// `$M1D0` at the beginning of every month. In UTC, as the lines themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moments {
    every: Every,
    hour: u8,
    minute: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Every {
    Hour,
    Day,
    /// Sunday is 0.
    Week(u8),
    Month(u8),
}

impl Moments {
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut rest = text.strip_prefix('$')?;
        let (mut every, mut hour, mut minute) = (None, 0, 0);
        while let Some(what) = rest.chars().next() {
            let behind = &rest[what.len_utf8()..];
            let end = behind
                .find(|letter: char| !letter.is_ascii_digit())
                .unwrap_or(behind.len());
            let number: u8 = behind[..end].parse().ok()?;
            rest = behind[end..].trim_start_matches('$');
            match what {
                'H' if number < 60 => {
                    minute = number;
                    every.get_or_insert(Every::Hour);
                }
                'D' if number < 24 => {
                    hour = number;
                    every.get_or_insert(Every::Day);
                }
                'W' if number < 7 && every.is_none() => every = Some(Every::Week(number)),
                'M' if (1..=31).contains(&number) && every.is_none() => {
                    every = Some(Every::Month(number));
                }
                _ => return None,
            }
        }
        Some(Self {
            every: every?,
            hour,
            minute,
        })
    }

    /// The first of them behind a moment.
    fn next_after(self, secs: u64) -> u64 {
        let offset = u64::from(self.minute) * 60;
        let hours = secs.saturating_sub(offset) / 3600 + 1;
        // The longest wait is that for the 31st, two months.
        let candidates = (hours..=hours + 62 * 24).map(|hours| hours * 3600 + offset);
        let mut meant = candidates.filter(|candidate| self.has(*candidate));
        meant.next().unwrap_or(u64::MAX)
    }

    fn has(self, secs: u64) -> bool {
        let at = Moment::of(UNIX_EPOCH + Duration::from_secs(secs));
        match self.every {
            Every::Hour => true,
            Every::Day => at.hour == self.hour,
            Every::Week(day) => at.weekday == day && at.hour == self.hour,
            Every::Month(day) => at.day == day && at.hour == self.hour,
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(MODE).open(path)
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

fn packed(path: &Path, number: u32) -> PathBuf {
    let mut name = numbered(path, number).into_os_string();
    name.push(".gz");
    name.into()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use tempfile::TempDir;

    use super::*;

    fn lines(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_default()
    }

    fn in_new_directory(rotation: Rotation) -> (TempDir, PathBuf, LogFile) {
        let dir = TempDir::new().expect("a directory");
        let path = dir.path().join("made").join("log");
        let log = LogFile::open(path.clone(), rotation).expect("opened");
        (dir, path, log)
    }

    #[test]
    fn a_full_file_is_put_aside_and_the_oldest_goes() {
        let (_dir, path, mut log) = in_new_directory(Rotation {
            bytes_max: Some(8),
            kept: 2,
            ..Rotation::default()
        });
        for number in 1..=9 {
            log.write_line(format!("no {number}\n").as_bytes())
                .expect("written");
        }
        // Of five bytes each, so that one fits.
        assert_eq!(lines(&path), "no 9\n");
        assert_eq!(lines(&numbered(&path, 0)), "no 8\n");
        assert_eq!(lines(&numbered(&path, 1)), "no 7\n");
        assert!(!numbered(&path, 2).exists());
    }

    #[test]
    fn what_is_put_aside_is_packed_if_it_should_be() {
        let (_dir, path, mut log) = in_new_directory(Rotation {
            bytes_max: Some(8),
            kept: 3,
            packs: true,
            ..Rotation::default()
        });
        fs::write(numbered(&path, 0), "not packed\n").expect("written");
        for number in 1..=3 {
            log.write_line(format!("no {number}\n").as_bytes())
                .expect("written");
        }
        let packing = log.packing.take();
        packing.expect("the last one").join().expect("it ended");
        let unpacked = |number| {
            let file = File::open(packed(&path, number)).expect("there");
            let mut text = String::new();
            GzDecoder::new(file)
                .read_to_string(&mut text)
                .expect("whole");
            text
        };
        assert_eq!(lines(&path), "no 3\n");
        assert_eq!(
            (unpacked(0), unpacked(1)),
            ("no 2\n".into(), "no 1\n".into())
        );
        assert_eq!(lines(&numbered(&path, 2)), "not packed\n");
        for number in [0, 1] {
            assert!(!numbered(&path, number).exists());
        }
        let there = fs::metadata(packed(&path, 0)).expect("there");
        assert_eq!(there.mode() & 0o7777, MODE);
    }

    #[test]
    fn at_its_time_a_file_is_put_aside_if_it_has_lines() {
        let (_dir, path, mut log) = in_new_directory(Rotation {
            kept: 3,
            at: Moments::read("$D0"),
            ..Rotation::default()
        });
        let day = 24 * 3600;
        let midnight = (now_secs() / day + 1) * day;
        log.write_line_at(b"before\n", midnight - 1)
            .expect("written");
        log.write_line_at(b"after\n", midnight).expect("written");
        log.write_line_at(b"later\n", midnight + 1)
            .expect("written");
        assert_eq!(lines(&path), "after\nlater\n");
        assert_eq!(lines(&numbered(&path, 0)), "before\n");
        assert!(!numbered(&path, 1).exists());
    }

    #[test]
    fn moments_are_those_that_are_meant() {
        let next = |text: &str, secs| Moments::read(text).expect("moments").next_after(secs);
        // The 30th of November 2026, a Monday, at noon.
        let noon = 1_796_040_000;
        let (hour, day) = (3600, 24 * 3600);
        assert_eq!(next("$D0", noon), noon + 12 * hour);
        assert_eq!(next("$D12", noon), noon + day);
        assert_eq!(next("$H30", noon), noon + hour / 2);
        assert_eq!(next("$W2D5", noon), noon + 17 * hour);
        assert_eq!(next("$M1D0", noon), noon + 12 * hour);
        for wrong in ["", "D0", "$X1", "$D24", "$H60", "$W7", "$M0", "$D", "$"] {
            assert_eq!(Moments::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn with_nothing_to_be_kept_it_begins_anew() {
        let (_dir, path, mut log) = in_new_directory(Rotation {
            bytes_max: Some(8),
            kept: 0,
            ..Rotation::default()
        });
        log.write_line(b"first\n").expect("written");
        log.write_line(b"second\n").expect("written");
        assert_eq!(lines(&path), "second\n");
        assert!(!numbered(&path, 0).exists());
    }

    #[test]
    fn a_file_that_somebody_moved_is_left_to_them() {
        let (_dir, path, mut log) = in_new_directory(Rotation::default());
        log.write_line(b"before\n").expect("written");
        let moved = numbered(&path, 7);
        fs::rename(&path, &moved).expect("moved");
        log.write_line(b"after\n").expect("written");
        assert_eq!(
            (lines(&moved), lines(&path)),
            ("before\n".to_owned(), "after\n".to_owned())
        );
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o7777, MODE);
    }
}
