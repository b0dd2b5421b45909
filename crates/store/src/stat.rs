//! What is in a data directory, told without a broker and without changing anything.

use std::{fmt, path::Path};

use leveret_core::record::{QueueRecord, QueueState};
use leveret_wire::value::ShortString;

use crate::{
    directory::Directory,
    error::OpenError,
    options::Options,
    recovery::{Loading, database_error, read_mark},
    schema,
};

/// A data directory as its last broker left it.
#[derive(Debug)]
pub struct StorageStat {
    /// All durable queues with their counters.
    pub queues: Vec<(QueueRecord, QueueState)>,
    /// What waits for its time on exchanges, by vhost and name.
    pub waiting: Vec<((ShortString, ShortString), QueueState)>,
    /// Exchanges that were declared.
    pub exchanges: usize,
    /// Bindings.
    pub bindings: usize,
    /// The last broker was stopped in order.
    pub clean: bool,
    /// Number of the newest commit, and when it was, in milliseconds since 1970.
    pub newest_commit: (u64, u64),
    /// The newest commit known to be on the disk.
    pub synced_commit: u64,
    /// Bytes at the end of the log that are no whole commit.
    pub torn_bytes: u64,
}

/// Looks at the store in `dir`, which no broker may be using.
///
/// # Errors
///
/// As when a broker starts: also a store that needs repair is told as that.
pub fn stat(dir: &Path, options: &Options) -> Result<StorageStat, OpenError> {
    let directory = Directory::claim_existing(dir)?;
    let synced = read_mark(&directory, options)?;
    let opened = schema::open_to_read(&directory.rocksdb(), options)
        .map_err(|error| database_error(dir, error))?;
    let loading = Loading {
        db: &opened.db,
        dir,
    };
    let newest = loading.newest_commit(synced)?;
    let mut meta = loading.load_meta()?;
    let held = loading.load_states(&mut meta.queues, &meta.exchanges)?;
    let name_of = |id| {
        let mut exchanges = meta.exchanges.iter();
        exchanges
            .find(|exchange| exchange.delay.is_some_and(|delay| delay.id == id))
            .map(|exchange| (exchange.vhost.clone(), exchange.name.clone()))
    };
    let waiting = held
        .into_iter()
        .filter_map(|(id, state)| Some((name_of(id)?, state)))
        .collect();
    meta.queues
        .sort_by(|(a, _), (b, _)| (&a.vhost, &a.name).cmp(&(&b.vhost, &b.name)));
    Ok(StorageStat {
        clean: meta.clean_stop == newest.0,
        waiting,
        queues: meta.queues,
        exchanges: meta.exchanges.len(),
        bindings: meta.bindings.len(),
        newest_commit: newest,
        synced_commit: synced,
        torn_bytes: opened.notes.dropped_bytes(),
    })
}

impl fmt::Display for StorageStat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, millis) = self.newest_commit;
        let stopped = if self.clean {
            "stopped in order"
        } else {
            "not stopped in order"
        };
        writeln!(
            f,
            "{stopped}; newest commit {number} at {}, known as synced {}",
            utc(millis),
            self.synced_commit
        )?;
        if self.torn_bytes > 0 {
            writeln!(
                f,
                "{} bytes of unfinished commits will be cut",
                self.torn_bytes
            )?;
        }
        writeln!(
            f,
            "{} exchanges, {} bindings",
            self.exchanges, self.bindings
        )?;
        writeln!(f, "{:>12} {:>16}  queue", "messages", "bytes")?;
        for (queue, state) in &self.queues {
            writeln!(
                f,
                "{:>12} {:>16}  {} {}",
                state.messages,
                state.message_bytes,
                queue.vhost.to_string().escape_debug(),
                queue.name.to_string().escape_debug()
            )?;
        }
        for ((vhost, exchange), state) in &self.waiting {
            writeln!(
                f,
                "{:>12} {:>16}  {} {}, waiting on the exchange",
                state.messages,
                state.message_bytes,
                vhost.to_string().escape_debug(),
                exchange.to_string().escape_debug()
            )?;
        }
        let messages: u64 = self.queues.iter().map(|(_, state)| state.messages).sum();
        let bytes: u64 = self
            .queues
            .iter()
            .map(|(_, state)| state.message_bytes)
            .sum();
        write!(
            f,
            "{messages:>12} {bytes:>16}  in {} queues",
            self.queues.len()
        )
    }
}

/// Milliseconds since 1970 as people write it.
fn utc(millis: u64) -> String {
    let (days, seconds) = (millis / 86_400_000, millis / 1000 % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// The date of a day since 1970, counted in eras of 400 years that begin with a March.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leaps = day_of_era / 1460 + day_of_era / 146_096 - day_of_era / 36_524;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn moments_are_written_as_people_do() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_709_251_199_999), "2024-02-29 23:59:59 UTC");
        assert_eq!(utc(1_767_225_600_000), "2026-01-01 00:00:00 UTC");
        assert_eq!(utc(4_107_542_400_000), "2100-03-01 00:00:00 UTC");
    }
}
