//! From a directory to an open store: lock, format, database, marks, then what the broker has to know.

use std::{
    collections::HashMap,
    fmt, io,
    path::Path,
    time::{Duration, Instant},
};

use foldhash::fast::FixedState;
use leveret_core::{
    ids::{QueueId, Seq},
    record::{
        Attempts, BindingRecord, ExchangeRecord, ParameterRecord, PermissionRecord, QueueRecord,
        QueueState, TopicPermissionRecord, UserRecord, VhostRecord,
    },
};
use rocksdb::{DB, Env, ErrorKind, WriteBatch, WriteOptions};

use crate::{
    batch::{Batch, Families, now_millis},
    directory::{Directory, file_error},
    error::{Damage, MissingCommits, Obstacle, OpenError},
    key::{Kind, commit_key, number_of_key, place_of_attempts_key},
    mark,
    options::Options,
    row::RowBuf,
    schema::{self, Table},
    store::{Store, WriteSide, bounded},
    table::{
        attempts, bindings, commits, exchanges,
        marks::{self, Mark},
        parameters, permissions, queue_states, queues, users, vhosts,
    },
};

/// Messages that came back to their queues, in the order of their positions, and how often.
pub type AttemptsByQueue = HashMap<QueueId, Vec<(Seq, Attempts)>, FixedState>;

/// Everything that outlived the restart, except messages.
#[derive(Debug)]
pub struct Recovered {
    /// All vhosts.
    pub vhosts: Vec<VhostRecord>,
    /// All exchanges.
    pub exchanges: Vec<ExchangeRecord>,
    /// All queues with their counters.
    pub queues: Vec<(QueueRecord, QueueState)>,
    /// Messages that came back to their queues, and how often.
    pub attempts: AttemptsByQueue,
    /// Counters of messages that wait on exchanges, by the number they are stored under.
    pub held: Vec<(QueueId, QueueState)>,
    /// All bindings.
    pub bindings: Vec<BindingRecord>,
    /// All users.
    pub users: Vec<UserRecord>,
    /// All permissions.
    pub permissions: Vec<PermissionRecord>,
    /// All topic permissions.
    pub topic_permissions: Vec<TopicPermissionRecord>,
    /// All parameters.
    pub parameters: Vec<ParameterRecord>,
    /// The next queue gets this id.
    pub next_queue_id: QueueId,
    /// How the store was found.
    pub report: RecoveryReport,
}

impl Recovered {
    /// Nobody has ever been here: there is neither a vhost nor a user.
    #[must_use]
    pub const fn is_new(&self) -> bool {
        self.vhosts.is_empty() && self.users.is_empty()
    }
}

/// How a store was found. Its text is one line for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryReport {
    /// It is in memory only.
    pub in_memory: bool,
    /// Nothing was ever stored here.
    pub is_new: bool,
    /// The broker was stopped in order, and nothing was committed since.
    pub clean: bool,
    /// Number of the newest commit.
    pub newest_commit: u64,
    /// Number of the newest commit that the side file knew to be on the disk.
    pub synced_commit: u64,
    /// Bytes of log that had to be gone through.
    pub log_bytes: u64,
    /// Bytes at the end of the log that were no whole commit: of those nobody was told that they are kept.
    pub torn_bytes: u64,
    /// Deleted queues whose space is still to be freed.
    pub dropped_queues: usize,
    /// How long it took.
    pub took: Duration,
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.took.as_millis();
        if self.in_memory {
            return write!(
                f,
                "made a store in memory in {millis} ms: nothing outlives this process"
            );
        }
        if self.is_new {
            return write!(f, "made a new store in {millis} ms");
        }
        let stopped = if self.clean {
            "stopped in order"
        } else {
            "not stopped in order"
        };
        write!(
            f,
            "opened the store in {millis} ms: {stopped}, newest commit {}, known as synced {}",
            self.newest_commit, self.synced_commit
        )?;
        let log_mib = self.log_bytes >> 20;
        if log_mib > 0 {
            write!(f, ", went through {log_mib} MiB of log")?;
        }
        if self.torn_bytes > 0 {
            write!(f, ", cut {} bytes of unfinished commits", self.torn_bytes)?;
        }
        if self.dropped_queues > 0 {
            write!(
                f,
                ", {} deleted queues still to be freed",
                self.dropped_queues
            )?;
        }
        Ok(())
    }
}

pub(crate) fn open(dir: &Path, options: &Options) -> Result<(Store, Recovered), OpenError> {
    let began = Instant::now();
    let directory = Directory::claim(dir)?;
    let synced = read_mark(&directory, options)?;
    go_on(directory.path(), options)?;
    let opened = schema::open(&directory.rocksdb(), options, None)
        .map_err(|error| database_error(directory.path(), error))?;
    load(began, opened, Some(directory), synced, options)
}

/// The directory that a store in memory believes to be in.
const IN_MEMORY: &str = "/memory";

pub(crate) fn open_in_memory(options: &Options) -> Result<(Store, Recovered), OpenError> {
    let began = Instant::now();
    let dir = Path::new(IN_MEMORY);
    let opened = Env::mem_env()
        .and_then(|env| schema::open(dir, options, Some(&env)))
        .map_err(|error| database_error(dir, error))?;
    load(began, opened, None, 0, options)
}

fn load(
    began: Instant,
    opened: schema::Opened,
    directory: Option<Directory>,
    synced: u64,
    options: &Options,
) -> Result<(Store, Recovered), OpenError> {
    let schema::Opened {
        db,
        memory,
        notes,
        log_bytes,
    } = opened;
    let opened_in = began.elapsed();
    let loading = Loading {
        db: &db,
        dir: directory
            .as_ref()
            .map_or_else(|| Path::new(IN_MEMORY), Directory::path),
    };
    let go_on = || go_on(loading.dir, options);
    go_on()?;
    let mut newest = loading.check_commits(synced, options)?;
    go_on()?;
    let mut recovered = loading.load_meta()?;
    go_on()?;
    let held = loading.load_states(&mut recovered.queues, &recovered.exchanges)?;
    go_on()?;
    let attempts = loading.load_attempts()?;
    let dropped = loading.dropped()?;
    // Behind this the store counts as begun.
    go_on()?;
    // Those that ended with the process had their numbers given, but not written down.
    if let Some(last) = dropped.iter().max() {
        recovered.next_queue_id = recovered.next_queue_id.max(QueueId::new(last.get() + 1));
    }

    let clean = newest == 0 || recovered.clean_stop == newest;
    let has_messages = recovered.queues.iter().any(|(_, state)| state.messages > 0);
    if clean && has_messages {
        // The next kill must not look like this stop, even if nothing is written until then: a message that is handed out
        // from now on may have been handed out.
        loading.void_clean_stop(newest + 1)?;
        newest += 1;
    }
    let report = RecoveryReport {
        in_memory: directory.is_none(),
        is_new: newest == 0,
        clean,
        newest_commit: newest,
        synced_commit: synced,
        log_bytes,
        torn_bytes: notes.dropped_bytes(),
        dropped_queues: dropped.len(),
        took: began.elapsed(),
    };
    tracing::debug!(
        log_bytes,
        opened_in_ms = opened_in.as_millis(),
        rows_read_in_ms = (report.took - opened_in).as_millis(),
        "opened the database with its log, then read the rows of everything but messages"
    );
    let write_side = WriteSide {
        newest_commit: newest,
        marked: synced,
        dropped,
    };
    let Meta {
        vhosts,
        exchanges,
        queues,
        bindings,
        users,
        permissions,
        topic_permissions,
        parameters,
        next_queue_id,
        ..
    } = recovered;
    let recovered = Recovered {
        vhosts,
        exchanges,
        queues,
        attempts,
        held,
        bindings,
        users,
        permissions,
        topic_permissions,
        parameters,
        next_queue_id,
        report,
    };
    Ok((
        Store::new(db, memory, options.sync, write_side, directory),
        recovered,
    ))
}

/// Ends an opening that was called off. Nothing was written by then but what RocksDB writes by itself.
fn go_on(dir: &Path, options: &Options) -> Result<(), OpenError> {
    if options.call_off.is_said() {
        return Err(OpenError::CalledOff {
            dir: dir.to_owned(),
        });
    }
    Ok(())
}

pub(crate) fn read_mark(directory: &Directory, options: &Options) -> Result<u64, OpenError> {
    match mark::read(directory.path()) {
        Ok(synced) => Ok(synced.unwrap_or(0)),
        Err(error)
            if error.kind() == io::ErrorKind::InvalidData && options.accept_missing_commits =>
        {
            tracing::warn!("the side file is damaged; going on without it, as ordered");
            Ok(0)
        }
        Err(error) => Err(file_error("read", &mark::path(directory.path()), error)),
    }
}

/// Texts by which RocksDB says that a part of its log is gone, rather than that a file cannot be used.
fn tells_of_missing_log(error: &rocksdb::Error) -> bool {
    error.kind() == ErrorKind::Corruption
        && ["WAL", "beyond the point of corruption"]
            .iter()
            .any(|part| error.as_ref().contains(part))
}

pub(crate) fn database_error(dir: &Path, error: rocksdb::Error) -> OpenError {
    let dir = dir.to_owned();
    if tells_of_missing_log(&error) {
        let missing = MissingCommits::Log {
            reason: error.into_string(),
        };
        return OpenError::MissingCommits { dir, missing };
    }
    if let Some(obstacle) = Obstacle::of(&error) {
        let reason = error.into_string();
        return OpenError::Obstacle {
            dir,
            obstacle,
            reason,
        };
    }
    OpenError::Database {
        dir,
        reason: error.into_string(),
    }
}

/// The rows of `meta`.
pub(crate) struct Meta {
    pub(crate) vhosts: Vec<VhostRecord>,
    pub(crate) exchanges: Vec<ExchangeRecord>,
    pub(crate) queues: Vec<(QueueRecord, QueueState)>,
    pub(crate) bindings: Vec<BindingRecord>,
    pub(crate) users: Vec<UserRecord>,
    pub(crate) permissions: Vec<PermissionRecord>,
    pub(crate) topic_permissions: Vec<TopicPermissionRecord>,
    pub(crate) parameters: Vec<ParameterRecord>,
    pub(crate) next_queue_id: QueueId,
    /// The commit of the last clean stop.
    pub(crate) clean_stop: u64,
}

pub(crate) struct Loading<'a> {
    pub(crate) db: &'a DB,
    pub(crate) dir: &'a Path,
}

impl Loading<'_> {
    /// Checks the ring of commits against itself and the side file; gives the number of the newest commit.
    fn check_commits(&self, synced: u64, options: &Options) -> Result<u64, OpenError> {
        let mut numbers = Vec::new();
        self.for_each_row(Table::Commits, |key, value| {
            commits::check(key, value).map_err(|damage| self.damaged("a commit", damage))?;
            let number = number_of_key(key)
                .ok_or_else(|| self.damaged("the key of a commit", Damage::Malformed))?;
            numbers.push(number);
            Ok(())
        })?;
        let newest = numbers.last().copied().unwrap_or(0);
        let missing = first_gap(&numbers, newest)
            .map(|first| MissingCommits::Gap { first, newest })
            .or_else(|| (newest < synced).then_some(MissingCommits::Newest { newest, synced }));
        let Some(missing) = missing else {
            return Ok(newest);
        };
        if !options.accept_missing_commits {
            let dir = self.dir.to_owned();
            return Err(OpenError::MissingCommits { dir, missing });
        }
        tracing::warn!(%missing, "going on although commits are missing, as ordered");
        self.fill_ring(&numbers, newest.max(synced) + 1)
    }

    /// Makes the ring whole up to `newest`, so that the next start does not stumble over the same gap.
    fn fill_ring(&self, numbers: &[u64], newest: u64) -> Result<u64, OpenError> {
        let oldest = oldest_of_ring(newest);
        let ring = Table::Commits.family(self.db);
        let mut batch = WriteBatch::new();
        let mut row = RowBuf::default();
        for number in numbers.iter().filter(|number| **number < oldest) {
            batch.single_delete_cf(&ring, commit_key(*number));
        }
        for number in (oldest..=newest).filter(|number| !numbers.contains(number)) {
            let key = commit_key(number);
            batch.put_cf(
                &ring,
                key,
                commits::encode_filler(&mut row, &key, now_millis()),
            );
        }
        self.write_synced(&batch)?;
        Ok(newest)
    }

    /// Any commit does it.
    fn void_clean_stop(&self, number: u64) -> Result<(), OpenError> {
        let mut batch = Batch::new();
        batch.close(Families::of(self.db), number);
        self.write_synced(batch.rows())
    }

    fn write_synced(&self, batch: &WriteBatch) -> Result<(), OpenError> {
        let mut options = WriteOptions::default();
        options.set_sync(true);
        self.db
            .write_opt(batch, &options)
            .map_err(|error| database_error(self.dir, error))
    }

    /// Number and time of the newest commit; a ring with gaps is an error.
    pub(crate) fn newest_commit(&self, synced: u64) -> Result<(u64, u64), OpenError> {
        let newest = self.check_commits(synced, &Options::default())?;
        let mut millis = 0;
        self.for_each_row(Table::Commits, |key, value| {
            if number_of_key(key) == Some(newest) {
                millis = commits::millis(key, value).unwrap_or(0);
            }
            Ok(())
        })?;
        Ok((newest, millis))
    }

    pub(crate) fn load_meta(&self) -> Result<Meta, OpenError> {
        let mut meta = Meta {
            vhosts: Vec::new(),
            exchanges: Vec::new(),
            queues: Vec::new(),
            bindings: Vec::new(),
            users: Vec::new(),
            permissions: Vec::new(),
            topic_permissions: Vec::new(),
            parameters: Vec::new(),
            next_queue_id: QueueId::new(1),
            clean_stop: 0,
        };
        self.for_each_row(Table::Meta, |key, value| {
            self.load_row(key, value, &mut meta)
        })?;
        // The counter is written with the queue; this is for the day it is not.
        let above = meta
            .queues
            .iter()
            .map(|(queue, _)| queue.id)
            .chain(
                meta.exchanges
                    .iter()
                    .filter_map(|exchange| Some(exchange.delay?.id)),
            )
            .map(|id| id.get() + 1)
            .max()
            .unwrap_or(1);
        meta.next_queue_id = meta.next_queue_id.max(QueueId::new(above));
        Ok(meta)
    }

    fn load_row(&self, key: &[u8], value: &[u8], meta: &mut Meta) -> Result<(), OpenError> {
        let named = |row: &str, damage| {
            self.damaged(&format!("the row of {row} with key {}", hex(key)), damage)
        };
        match Kind::of_key(key) {
            Some(Kind::Mark) => {
                let number = marks::decode(key, value).map_err(|damage| named("a mark", damage))?;
                if key == marks::key(Mark::NextQueueId) {
                    meta.next_queue_id = QueueId::new(number);
                } else if key == marks::key(Mark::CleanStop) {
                    meta.clean_stop = number;
                }
            }
            Some(Kind::Vhost) => {
                meta.vhosts
                    .push(vhosts::decode(key, value).map_err(|e| named("a vhost", e))?);
            }
            Some(Kind::Exchange) => meta
                .exchanges
                .push(exchanges::decode(key, value).map_err(|e| named("an exchange", e))?),
            Some(Kind::Queue) => {
                let queue = queues::decode(key, value).map_err(|e| named("a queue", e))?;
                meta.queues.push((queue, QueueState::default()));
            }
            Some(Kind::Binding) => {
                meta.bindings
                    .push(bindings::decode(key, value).map_err(|e| named("a binding", e))?);
            }
            Some(Kind::User) => {
                meta.users
                    .push(users::decode(key, value).map_err(|e| named("a user", e))?);
            }
            Some(Kind::Permission) => meta
                .permissions
                .push(permissions::decode(key, value).map_err(|e| named("a permission", e))?),
            Some(Kind::TopicPermission) => meta.topic_permissions.push(
                permissions::decode_topic(key, value)
                    .map_err(|e| named("a topic permission", e))?,
            ),
            Some(Kind::Parameter) => meta
                .parameters
                .push(parameters::decode(key, value).map_err(|e| named("a parameter", e))?),
            None => return Err(named("an unknown kind", Damage::Malformed)),
        }
        Ok(())
    }

    /// Gives every queue its counters, and says those of exchanges that keep messages. What was never written to has
    /// none.
    pub(crate) fn load_states(
        &self,
        queues: &mut [(QueueRecord, QueueState)],
        exchanges: &[ExchangeRecord],
    ) -> Result<Vec<(QueueId, QueueState)>, OpenError> {
        let mut states: HashMap<QueueId, QueueState, FixedState> = HashMap::default();
        self.for_each_row(Table::QueueStates, |key, value| {
            let queue = number_of_key(key)
                .ok_or_else(|| self.damaged("the key of counters", Damage::Malformed))?;
            let state = queue_states::decode(key, value).map_err(|damage| {
                self.damaged(&format!("the counters of queue {queue}"), damage)
            })?;
            states.insert(QueueId::new(queue), state);
            Ok(())
        })?;
        for (queue, state) in queues {
            if let Some(stored) = states.get(&queue.id) {
                *state = *stored;
            }
        }
        let held = exchanges.iter().filter_map(|exchange| {
            let id = exchange.delay?.id;
            Some((id, *states.get(&id)?))
        });
        Ok(held.collect())
    }

    /// In the order of their positions.
    fn load_attempts(&self) -> Result<AttemptsByQueue, OpenError> {
        let mut found = AttemptsByQueue::default();
        self.for_each_row(Table::Attempts, |key, value| {
            let (queue, seq) = place_of_attempts_key(key)
                .ok_or_else(|| self.damaged("the key of attempts", Damage::Malformed))?;
            let row = attempts::decode(key, value).map_err(|damage| {
                self.damaged(
                    &format!("the attempts of message {seq} of queue {queue}"),
                    damage,
                )
            })?;
            found.entry(queue).or_default().push((seq, row));
            Ok(())
        })?;
        Ok(found)
    }

    fn dropped(&self) -> Result<Vec<QueueId>, OpenError> {
        let mut dropped = Vec::new();
        // Only the key counts: a queue in this table has no row in `meta`, whatever the value says.
        self.for_each_row(Table::Dropped, |key, _| {
            dropped.extend(number_of_key(key).map(QueueId::new));
            Ok(())
        })?;
        Ok(dropped)
    }

    /// Visits all rows of a small table.
    fn for_each_row(
        &self,
        table: Table,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), OpenError>,
    ) -> Result<(), OpenError> {
        let options = bounded(&[table as u8], &[table as u8 + 1]);
        let mut rows = self.db.raw_iterator_cf_opt(&table.family(self.db), options);
        rows.seek_to_first();
        while let Some((key, value)) = rows.item() {
            visit(key, value)?;
            rows.next();
        }
        rows.status()
            .map_err(|error| database_error(self.dir, error))
    }

    fn damaged(&self, row: &str, damage: Damage) -> OpenError {
        OpenError::DamagedRow {
            dir: self.dir.to_owned(),
            row: row.to_owned(),
            damage,
        }
    }
}

/// The oldest number a whole ring has.
fn oldest_of_ring(newest: u64) -> u64 {
    newest.saturating_sub(commits::RING - 1).max(1)
}

/// The first number missing between the oldest one there must be and the newest.
fn first_gap(numbers: &[u64], newest: u64) -> Option<u64> {
    if newest == 0 {
        return None;
    }
    (oldest_of_ring(newest)..=newest)
        .zip(
            numbers
                .iter()
                .copied()
                .map(Some)
                .chain(std::iter::repeat(None)),
        )
        .find(|(expected, found)| Some(*expected) != *found)
        .map(|(expected, _)| expected)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_found_wherever_it_is() {
        let ring = |numbers: std::ops::RangeInclusive<u64>| numbers.collect::<Vec<_>>();
        assert_eq!(first_gap(&[], 0), None);
        assert_eq!(first_gap(&ring(1..=3), 3), None);
        assert_eq!(first_gap(&ring(2..=3), 3), Some(1));
        assert_eq!(first_gap(&[1, 3], 3), Some(2));
        assert_eq!(first_gap(&ring(1..=1024), 1024), None);
        assert_eq!(first_gap(&ring(2..=1025), 1025), None);
        assert_eq!(first_gap(&ring(3..=1025), 1025), Some(2));
        let mut torn = ring(2..=1025);
        torn.remove(500);
        assert_eq!(first_gap(&torn, 1025), Some(502));
    }
}
