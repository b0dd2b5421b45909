//! The data directory: whose it is, what is in it, who may look.
//!
//! ```text
//!   <directory>/        0700
//!     lock              locked while a broker runs; holds its process id
//!     format            "leveret data, format 1"; if it is missing or empty: 1
//!     synced            the side file: newest commit known to be on disk
//!     rocksdb/          everything else
//! ```

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use crate::{error::OpenError, schema::FORMAT};

const LOCK: &str = "lock";
const FORMAT_FILE: &str = "format";
const FORMAT_TEXT: &str = "leveret data, format ";
pub(crate) const ROCKSDB: &str = "rocksdb";
pub(crate) const SIDE_FILE: &str = "synced";
/// A repaired database that is to take the place of the damaged one.
pub(crate) const REPAIRED: &str = "rocksdb.new";

/// Names that say nothing about whose the directory is: what an aborted first start leaves, and what a new file system
/// brings.
const HARMLESS: [&str; 4] = [LOCK, FORMAT_FILE, "format.new", "lost+found"];

/// A data directory that is ours alone as long as this value lives.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Directories that got new entries when this one was made.
    parents: Vec<PathBuf>,
    /// Closing the file lets go of the lock.
    _lock: File,
}

impl Directory {
    /// Takes the directory, and makes it if it is not there.
    pub(crate) fn claim(path: &Path) -> Result<Self, OpenError> {
        // RocksDB makes its files readable for all and offers no choice; this is the only other way to tell it.
        rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
        let parents = parents_of_missing(path);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|source| file_error("create", path, source))?;
        refuse_foreign(path)?;
        let lock = take_lock(path)?;
        check_format(path)?;
        let directory = Self {
            path: path.to_owned(),
            parents,
            _lock: lock,
        };
        directory.make_private()?;
        Ok(directory)
    }

    /// Takes a directory that a broker has made; changes nothing else in it.
    pub(crate) fn claim_existing(path: &Path) -> Result<Self, OpenError> {
        if !path.join(ROCKSDB).is_dir() {
            refuse_half_repaired(path)?;
            return Err(OpenError::NoData {
                dir: path.to_owned(),
            });
        }
        rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
        refuse_foreign(path)?;
        let lock = take_lock(path)?;
        check_format(path)?;
        Ok(Self {
            path: path.to_owned(),
            parents: Vec::new(),
            _lock: lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn side_file(&self) -> PathBuf {
        self.path.join(SIDE_FILE)
    }

    pub(crate) fn rocksdb(&self) -> PathBuf {
        self.path.join(ROCKSDB)
    }

    /// Makes sure that the directory and what is in it are found after a power cut. RocksDB syncs what lies below.
    pub(crate) fn sync_entries(&self) -> io::Result<()> {
        for parent in &self.parents {
            // It may be closed to us for reading, and then there is nothing we could do.
            if let Ok(parent) = File::open(parent) {
                parent.sync_all()?;
            }
        }
        File::open(&self.path)?.sync_all()
    }

    /// Bytes a process like ours could still write here.
    pub(crate) fn free_bytes(&self) -> io::Result<u64> {
        let space = rustix::fs::statvfs(&self.path)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    /// For directories that others made, or that were restored from a backup.
    fn make_private(&self) -> Result<(), OpenError> {
        // A directory mounted into a container may belong to somebody else. Then it stays as it is; the files in it are
        // ours and closed to others.
        match fs::set_permissions(&self.path, Permissions::from_mode(0o700)) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                tracing::warn!(
                    directory = %self.path.display(),
                    "the data directory belongs to another user and stays as open as it is"
                );
            }
            Err(error) => return Err(file_error("restrict", &self.path, error)),
            Ok(()) => {}
        }
        let rocksdb = self.rocksdb();
        if rocksdb.is_dir() {
            set_mode(&rocksdb, 0o700)?;
            restrict_files(&rocksdb)?;
        }
        restrict_files(&self.path)
    }
}

/// Writes a file so that either the old or the new content is there after a power cut, never a mixture.
pub(crate) fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&new, path)
}

pub(crate) fn file_error(action: &'static str, path: &Path, source: io::Error) -> OpenError {
    OpenError::File {
        action,
        path: path.to_owned(),
        source,
    }
}

/// A wrong path in the configuration must not make somebody's home directory ours.
fn refuse_foreign(path: &Path) -> Result<(), OpenError> {
    let has = |name: &str| path.join(name).exists();
    if has(ROCKSDB) && [LOCK, FORMAT_FILE, SIDE_FILE].into_iter().any(has) {
        return Ok(());
    }
    refuse_half_repaired(path)?;
    let entries = fs::read_dir(path).map_err(|source| file_error("read", path, source))?;
    for entry in entries {
        let name = entry
            .map_err(|source| file_error("read", path, source))?
            .file_name();
        let found = name.to_string_lossy();
        if !HARMLESS.contains(&&*found) {
            return Err(OpenError::NotOurs {
                dir: path.to_owned(),
                found: found.into_owned(),
            });
        }
    }
    Ok(())
}

/// Neither the damaged database nor the repaired one is in its place.
fn refuse_half_repaired(path: &Path) -> Result<(), OpenError> {
    if path.join(REPAIRED).exists() && !path.join(ROCKSDB).exists() {
        return Err(OpenError::RepairCutOff {
            dir: path.to_owned(),
        });
    }
    Ok(())
}

/// Where the entries of directories will be that are made for this path, and of the path itself.
fn parents_of_missing(path: &Path) -> Vec<PathBuf> {
    let missing = path
        .ancestors()
        .take_while(|dir| !dir.exists())
        .count()
        .max(1);
    let parents = path.ancestors().skip(1).take(missing);
    parents
        // A relative path begins in the working directory.
        .map(|dir| {
            if dir.as_os_str().is_empty() {
                PathBuf::from(".")
            } else {
                dir.to_owned()
            }
        })
        .collect()
}

pub(crate) fn take_lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join(LOCK);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(|source| file_error("open", &path, source))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let pid = file
                .read_to_string(&mut text)
                .ok()
                .and_then(|_| text.trim().parse().ok());
            return Err(OpenError::Locked {
                dir: dir.to_owned(),
                pid,
            });
        }
        Err(TryLockError::Error(source)) => return Err(file_error("lock", &path, source)),
    }
    // Only for the message above, and for people.
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(|source| file_error("write", &path, source))?;
    Ok(file)
}

fn check_format(dir: &Path) -> Result<(), OpenError> {
    let path = dir.join(FORMAT_FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(source) => return Err(file_error("read", &path, source)),
    };
    if text.is_empty() {
        // Its content is not synced: a power cut may leave an empty file beside a database of confirmed messages. That
        // reads as format 1, so a start need not wait for the disk. The step to format 2 must sync it.
        return fs::write(&path, format!("{FORMAT_TEXT}{FORMAT}\n"))
            .map_err(|source| file_error("write", &path, source));
    }
    let found: u32 = text
        .strip_prefix(FORMAT_TEXT)
        .and_then(|number| number.trim_end().parse().ok())
        .ok_or_else(|| {
            let source = io::Error::new(io::ErrorKind::InvalidData, "it is not a format file");
            file_error("read", &path, source)
        })?;
    if found > FORMAT {
        return Err(OpenError::NewerFormat {
            dir: dir.to_owned(),
            found,
            supported: FORMAT,
        });
    }
    Ok(())
}

fn restrict_files(dir: &Path) -> Result<(), OpenError> {
    let entries = fs::read_dir(dir).map_err(|source| file_error("read", dir, source))?;
    for entry in entries {
        let entry = entry.map_err(|source| file_error("read", dir, source))?;
        // Of the entry itself, not of what a link leads to.
        let meta = entry
            .metadata()
            .map_err(|source| file_error("read", &entry.path(), source))?;
        if meta.is_file() && meta.permissions().mode() & 0o077 != 0 {
            set_mode(&entry.path(), 0o600)?;
        }
    }
    Ok(())
}

fn set_mode(path: &Path, mode: u32) -> Result<(), OpenError> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(|source| file_error("restrict", path, source))
}
