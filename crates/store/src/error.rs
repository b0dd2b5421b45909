//! What can go wrong with a store, and how far it reaches.

use std::{io, path::PathBuf, time::Duration};

use leveret_core::ids::{QueueId, Seq};
use rocksdb::ErrorKind;

/// Why the bytes of a row are not what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Checksum, key and value do not belong together.
    #[error("its checksum does not match")]
    Checksum,
    /// The row ends before its last field.
    #[error("it ends too early")]
    TooShort,
    /// The row is whole but says something that cannot be.
    #[error("it holds an impossible value")]
    Malformed,
    /// The row was written by a newer release.
    #[error("it has the unknown version {found}")]
    Version {
        /// The version in the row.
        found: u8,
    },
}

/// Why a store was not opened. The text is one line for the operator: what is the case and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the directory.
    #[error(
        "the data directory {} is in use by another broker{}; stop that one or choose another directory",
        dir.display(), process(*.pid)
    )]
    Locked {
        /// The directory.
        dir: PathBuf,
        /// The other process, if it told.
        pid: Option<u32>,
    },
    /// The data were written by a newer release.
    #[error(
        "the data in {} have format {found}, this release knows formats up to {supported}; \
         run the newer release again, or restore a backup made before the upgrade",
        dir.display()
    )]
    NewerFormat {
        /// The directory.
        dir: PathBuf,
        /// Format of the data.
        found: u32,
        /// The newest format this release reads.
        supported: u32,
    },
    /// The directory holds something that is not ours.
    #[error(
        "{} is not empty and holds no data of this broker ({found} was found); give it an empty directory",
        dir.display()
    )]
    NotOurs {
        /// The directory.
        dir: PathBuf,
        /// A name that was found there.
        found: String,
    },
    /// A repair was cut off before what it made was in its place.
    #[error(
        "a repair of {} was cut off; `leveret repair {}` begins it again, and nothing is lost",
        dir.display(), dir.display()
    )]
    RepairCutOff {
        /// The directory.
        dir: PathBuf,
    },
    /// Whoever wanted it opened does not want it any more. What is stored is as it was.
    #[error("{} was not opened: that was called off", dir.display())]
    CalledOff {
        /// The directory.
        dir: PathBuf,
    },
    /// There is nothing to look at or to repair.
    #[error("{} holds no data of this broker", dir.display())]
    NoData {
        /// The directory.
        dir: PathBuf,
    },
    /// Commits that were on disk once are gone (promise DP11).
    #[error(
        "commits are missing from {}: {missing}. Messages that were confirmed are lost, so the broker does not start. \
         Restore a backup, or let `leveret repair {}` save what is left; it keeps a copy of what was there",
        dir.display(), dir.display()
    )]
    MissingCommits {
        /// The directory.
        dir: PathBuf,
        /// What is missing, as far as it is known.
        missing: MissingCommits,
    },
    /// A row that the broker cannot start without is damaged.
    #[error("{row} in {} is damaged: {damage}. Restore a backup, or let `leveret repair {}` save what is whole; \
         it keeps a copy of what was there", dir.display(), dir.display())]
    DamagedRow {
        /// The directory.
        dir: PathBuf,
        /// Which row, in words.
        row: String,
        /// What is wrong with it.
        damage: Damage,
    },
    /// A file or the directory cannot be used.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing is wrong with the data, but nothing can be written where they are.
    #[error("the database in {} cannot be opened: {obstacle}. Its data are as they were ({reason})", dir.display())]
    Obstacle {
        /// The directory.
        dir: PathBuf,
        /// What has to be cleared away.
        obstacle: Obstacle,
        /// RocksDB's words.
        reason: String,
    },
    /// RocksDB refused.
    #[error(
        "the database in {} cannot be opened: {reason}. If files are damaged or missing, restore a backup; \
         `leveret repair {}` may save what is left",
        dir.display(), dir.display()
    )]
    Database {
        /// The directory.
        dir: PathBuf,
        /// RocksDB's words.
        reason: String,
    },
}

fn process(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

/// Which commits are missing at start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissingCommits {
    /// The newest one is older than one that was synced.
    #[error("the newest one is number {newest}, but number {synced} had been synced")]
    Newest {
        /// The newest commit that is there.
        newest: u64,
        /// The newest one known to have been synced.
        synced: u64,
    },
    /// Some are missing in between.
    #[error("number {first} is not there, but number {newest} is")]
    Gap {
        /// The first one missing.
        first: u64,
        /// The newest commit that is there.
        newest: u64,
    },
    /// RocksDB noticed it first.
    #[error("{reason}")]
    Log {
        /// RocksDB's words.
        reason: String,
    },
}

/// Why messages could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// One row is damaged. Those before it were handed out; reading may go on behind it.
    #[error("message {seq} of queue {queue} is damaged on disk: {damage}")]
    Damaged {
        /// The queue.
        queue: QueueId,
        /// The position of the row.
        seq: Seq,
        /// What is wrong with it.
        damage: Damage,
    },
    /// RocksDB could not read on.
    #[error("messages of queue {queue} from {from} on cannot be read: {reason}")]
    Unreadable {
        /// The queue.
        queue: QueueId,
        /// The first position that was not read.
        from: Seq,
        /// What is there is not what was written. Else the system did not give it: the next try may succeed.
        is_damage: bool,
        /// RocksDB's words.
        reason: String,
    },
}

impl ReadError {
    pub(crate) fn of(queue: QueueId, from: Seq, error: rocksdb::Error) -> Self {
        Self::Unreadable {
            queue,
            from,
            is_damage: error.kind() == ErrorKind::Corruption,
            reason: error.into_string(),
        }
    }

    /// What is there is not what was written, so that another try would most likely find the same.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } => true,
            Self::Unreadable { is_damage, .. } => *is_damage,
        }
    }
}

/// What keeps files from being written although nothing is broken. Somebody has to clear it away.
///
/// Of all of them only a full disk is waited for: behind the others RocksDB takes no more writes until it is opened anew,
/// so the process ends, and the next start finds everything confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// The file system is full.
    NoSpace,
    /// The user, the group or the project may not have more of it.
    Quota,
    /// A file may not become larger.
    FileSize,
    /// Nothing may be changed there.
    ReadOnly,
}

impl Obstacle {
    const ALL: [Self; 4] = [Self::NoSpace, Self::Quota, Self::FileSize, Self::ReadOnly];

    /// RocksDB passes the kind of an error on as text only.
    pub(crate) fn of(error: &rocksdb::Error) -> Option<Self> {
        if error.kind() != ErrorKind::IOError {
            return None;
        }
        Self::in_words(error.as_ref())
    }

    fn in_words(text: &str) -> Option<Self> {
        // At the end, or of what RocksDB knows a name for, at the beginning: what stands between are names of files.
        let text = text.trim_end();
        let known = text.strip_prefix("IO error: ").unwrap_or(text);
        let is_it = |obstacle: &Self| {
            let words = obstacle.words_of_the_system();
            text.ends_with(words) || known.starts_with(words)
        };
        Self::ALL.into_iter().find(is_it)
    }

    /// The same on every system there is, and in no other language: nobody here sets a locale.
    const fn words_of_the_system(self) -> &'static str {
        match self {
            Self::NoSpace => "No space left on device",
            Self::Quota => "Disk quota exceeded",
            Self::FileSize => "File too large",
            Self::ReadOnly => "Read-only file system",
        }
    }
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoSpace => "the disk is full; make room",
            Self::Quota => "the quota of disk space is used up; make room or raise it",
            Self::FileSize => {
                "a file has reached the limit on the size of files; raise it (ulimit -f, LimitFSIZE)"
            }
            Self::ReadOnly => {
                "the file system can only be read; mount it for writing, and ask the system's log why it is not"
            }
        })
    }
}

/// Why the committer ended. No promise was released after it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// A write or a sync failed.
    #[error("writing to the store failed: {reason}")]
    Write {
        /// RocksDB's words.
        reason: String,
    },
    /// RocksDB met damage while it rewrote files, and takes no more writes. It would meet it again.
    #[error(
        "a file of the database in {} is damaged, so that it takes no more writes: {reason}. A restart does not mend that. \
         Restore a backup, or let `leveret repair {}` save what is whole; it keeps a copy of what was there",
        dir.display(), dir.display()
    )]
    Damaged {
        /// The directory.
        dir: PathBuf,
        /// RocksDB's words.
        reason: String,
    },
    /// The disk did not answer when the broker was to stop. Nothing of what it owes was promised.
    #[error("the disk has not answered for {} s", patience.as_secs())]
    Unanswered {
        /// How long it was waited for.
        patience: Duration,
    },
    /// Something keeps the store from being written that somebody else has to clear away.
    #[error("{obstacle}, then start again: nothing that was confirmed is lost ({reason})")]
    Obstacle {
        /// What.
        obstacle: Obstacle,
        /// RocksDB's words.
        reason: String,
    },
    /// The disk was full when the broker was to stop, or writing did not go on although space came back.
    #[error("the disk is full: {reason}")]
    NoSpace {
        /// RocksDB's words.
        reason: String,
    },
    /// The side file with the newest synced commit could not be written.
    #[error("writing {} failed: {reason}", path.display())]
    Mark {
        /// The side file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The thread panicked.
    #[error("the committer panicked: {reason}")]
    Panicked {
        /// The panic's message.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_obstacle_is_told_from_what_is_broken_by_the_last_words() {
        let appending = "IO error: While appending to file: /data/000012.log: ";
        for (words, obstacle) in [
            ("No space left on device", Some(Obstacle::NoSpace)),
            ("Disk quota exceeded", Some(Obstacle::Quota)),
            ("File too large", Some(Obstacle::FileSize)),
            ("Read-only file system", Some(Obstacle::ReadOnly)),
            ("Input/output error", None),
            ("File too large/000001.sst: Input/output error", None),
        ] {
            let text = format!("{appending}{words}");
            assert_eq!(Obstacle::in_words(&text), obstacle, "{text}");
        }
    }

    #[test]
    fn the_words_of_an_obstacle_are_those_of_this_system() {
        for (obstacle, number) in [
            (Obstacle::NoSpace, rustix::io::Errno::NOSPC),
            (Obstacle::Quota, rustix::io::Errno::DQUOT),
            (Obstacle::FileSize, rustix::io::Errno::FBIG),
            (Obstacle::ReadOnly, rustix::io::Errno::ROFS),
        ] {
            let text = io::Error::from(number).to_string();
            let words = obstacle.words_of_the_system();
            assert!(text.starts_with(words), "{text}: {words}");
        }
    }
}
