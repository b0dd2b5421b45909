//! A file of log lines: rotated when it gets large, and found again when somebody else has rotated it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use tracing_subscriber::fmt::MakeWriter;

/// For the broker's user and group, as RabbitMQ has it.
const MODE: u32 = 0o640;

/// When a file is put aside, and how many are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rotation {
    /// Bytes above which it is; `None` for never.
    pub(super) bytes_max: Option<u64>,
    /// Files that are kept beside the one in use.
    pub(super) kept: u32,
}

/// The file in use.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    rotation: Rotation,
    open: Mutex<File>,
}

impl LogFile {
    /// Opens it, and makes the directory if there is none.
    pub(super) fn open(path: PathBuf, rotation: Rotation) -> io::Result<Self> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let open = Mutex::new(open(&path)?);
        Ok(Self {
            path,
            rotation,
            open,
        })
    }

    /// Writes a line, which is never cut in two.
    fn write_line(&self, line: &[u8]) -> io::Result<()> {
        let mut file = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = file.metadata()?;
        let at_path = fs::metadata(&self.path);
        let is_ours =
            at_path.is_ok_and(|there| (there.dev(), there.ino()) == (known.dev(), known.ino()));
        let is_full = self
            .rotation
            .bytes_max
            .is_some_and(|max| known.len() > 0 && known.len() + line.len() as u64 > max);
        if is_ours && is_full {
            self.put_aside()?;
        }
        if !is_ours || is_full {
            *file = open(&self.path)?;
        }
        file.write_all(line)
    }

    /// `log` becomes `log.0`, `log.0` becomes `log.1`; the oldest goes.
    fn put_aside(&self) -> io::Result<()> {
        let Some(oldest) = self.rotation.kept.checked_sub(1) else {
            return fs::remove_file(&self.path);
        };
        for number in (0..oldest).rev() {
            let from = numbered(&self.path, number);
            if from.exists() {
                fs::rename(from, numbered(&self.path, number + 1))?;
            }
        }
        fs::rename(&self.path, numbered(&self.path, 0))
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

/// One line on its way.
#[derive(Debug)]
pub(super) struct LineWriter<'a>(&'a LogFile);

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_line(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogFile {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        LineWriter(self)
    }
}

#[cfg(test)]
mod tests {
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
        let (_dir, path, log) = in_new_directory(Rotation {
            bytes_max: Some(8),
            kept: 2,
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
    fn with_nothing_to_be_kept_it_begins_anew() {
        let (_dir, path, log) = in_new_directory(Rotation {
            bytes_max: Some(8),
            kept: 0,
        });
        log.write_line(b"first\n").expect("written");
        log.write_line(b"second\n").expect("written");
        assert_eq!(lines(&path), "second\n");
        assert!(!numbered(&path, 0).exists());
    }

    #[test]
    fn a_file_that_somebody_moved_is_left_to_them() {
        let (_dir, path, log) = in_new_directory(Rotation::default());
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
