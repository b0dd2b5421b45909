//! What an operator can choose about the store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// When a commit counts as kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncMode {
    /// When it is on the disk.
    #[default]
    Always,
    /// When the operating system has it; the disk gets it this much later at the latest.
    Interval(Duration),
    /// When the operating system has it.
    Never,
}

impl SyncMode {
    /// As operators write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Interval(_) => "interval",
            Self::Never => "never",
        }
    }

    /// What an operator has to know about it in one line; nothing for the mode that promises everything.
    #[must_use]
    pub fn warning(self) -> Option<String> {
        match self {
            Self::Always => None,
            Self::Interval(interval) => Some(format!(
                "storage.sync is interval: messages are confirmed before they are on the disk; \
                 a power cut or a crash of the system loses what was confirmed in the last {} ms",
                interval.as_millis()
            )),
            Self::Never => Some(
                "storage.sync is never: messages are confirmed before they are on the disk; \
                 a power cut or a crash of the system loses what the system had not written by then"
                    .to_owned(),
            ),
        }
    }
}

/// A word to whoever opens a store: it is not wanted any more. All copies are the same word.
#[derive(Debug, Clone, Default)]
pub struct CallOff(Arc<AtomicBool>);

impl CallOff {
    /// From now on openings end at their next step, with [`crate::OpenError::CalledOff`].
    pub fn say(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_said(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl PartialEq for CallOff {
    fn eq(&self, other: &Self) -> bool {
        self.is_said() == other.is_said()
    }
}

impl Eq for CallOff {}

/// How a store is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// When a commit counts as kept.
    pub sync: SyncMode,
    /// Memory for cached blocks and unflushed writes together.
    pub cache_bytes: usize,
    /// Size at which a table of unflushed messages is closed. Messages that are gone by then never reach a table file.
    pub write_buffer_bytes: usize,
    /// Size of the log at which the oldest tables are flushed; also the bound on what a start has to replay.
    pub log_bytes_max: u64,
    /// Bytes per second that flushes and compactions write at most, so that syncs of the log find a gap.
    pub background_bytes_per_second: u64,
    /// Start although commits are missing that were on disk once. For one start, after a copy was made.
    pub accept_missing_commits: bool,
    /// How the opening is told to end.
    pub call_off: CallOff,
}

/// The part of the memory limit for cached blocks and unflushed writes.
const MEMORY_SHARE: u64 = 3;
/// As much as is worth having: with more, a backlog comes and goes no faster.
const CACHE_BYTES: usize = 128 << 20;
/// Less is not worth having.
const CACHE_BYTES_MIN: usize = 24 << 20;
/// Of `cache_bytes`, so that three of them, and as much for blocks, have room.
const WRITE_BUFFERS: usize = 6;

impl Options {
    /// The same, with less memory for itself where the process may not have much.
    #[must_use]
    pub fn within(self, memory_limit: u64) -> Self {
        let share = usize::try_from(memory_limit / MEMORY_SHARE).unwrap_or(usize::MAX);
        let cache_bytes = self.cache_bytes.min(share.max(CACHE_BYTES_MIN));
        Self {
            cache_bytes,
            write_buffer_bytes: self.write_buffer_bytes.min(cache_bytes / WRITE_BUFFERS),
            ..self
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sync: SyncMode::Always,
            // Three write buffers (one filling, two being flushed), and as much again for blocks and indexes. Taken only as
            // needed: messages are read past the cache.
            cache_bytes: CACHE_BYTES,
            write_buffer_bytes: CACHE_BYTES / WRITE_BUFFERS,
            // Three write buffers, which is when they are flushed anyway: below that, the log would force flushes before pairs had
            // time to vanish. A start after a kill puts back what is in it, some 3 ms of CPU for each MiB.
            log_bytes_max: 64 << 20,
            // About a third of what a modest SSD writes.
            background_bytes_per_second: 128 << 20,
            accept_missing_commits: false,
            call_off: CallOff::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_memory_makes_small_buffers() {
        let plenty = Options::default().within(1 << 40);
        assert_eq!(plenty, Options::default());
        let little = Options::default().within(300 << 20);
        assert_eq!(little.cache_bytes, 100 << 20);
        assert_eq!(little.write_buffer_bytes, (100 << 20) / WRITE_BUFFERS);
        let least = Options::default().within(1);
        assert_eq!(least.cache_bytes, CACHE_BYTES_MIN);
        assert_eq!(least.write_buffer_bytes, 4 << 20);
    }
}
