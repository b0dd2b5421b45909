//! Saves what can be read of a damaged store: everything readable goes into a new database, the old one is put aside.
//!
//! ```text
//!   rocksdb          ── every row that is whole ──▶ rocksdb.new
//!                                                    (read through links and copies, so that nothing of it changes)
//!   rocksdb          ── renamed ──────────────────▶ rocksdb.damaged     kept, for whoever wants to look closer
//!   rocksdb.new      ── renamed ──────────────────▶ rocksdb
//! ```
//!
//! Nothing is ever written to what is damaged, so that a repair may be broken off anywhere and begun again: one that was cut off
//! between the two renames has its first one undone. Until then no broker starts here. Every row that is left
//! behind is named. Counters are counted anew; all messages count as possibly delivered. Messages whose queue has no
//! row any more get a queue named `recovered.` and its number.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fmt, fs,
    fs::File,
    path::{Path, PathBuf},
};

use bytes::BytesMut;
use foldhash::fast::FixedState;
use leveret_core::{
    arguments::QueueType,
    ids::{QueueId, Seq},
    record::{QueueRecord, QueueState},
    stream::SEGMENT_STARTS,
};
use leveret_wire::value::{FieldTable, ShortString};
use rocksdb::{DB, WriteBatch, WriteOptions};

use crate::{
    batch::now_millis,
    directory::{Directory, REPAIRED, ROCKSDB, file_error, take_lock},
    error::OpenError,
    key::{Kind, Place, attempts_key, commit_key, number_of_key, place_of_attempts_key, queue_key},
    mark,
    options::Options,
    recovery::database_error,
    row::{RowBuf, check_seal},
    schema::{self, Reading, Table},
    store::bounded,
    table::{
        attempts, commits, exchanges,
        marks::{self, Mark},
        messages, queue_states, queues, vhosts,
    },
};

/// Rows written at once.
const BATCH_BYTES: usize = 4 << 20;

/// Rows that are named one by one; the rest is counted.
const NAMED_MAX: usize = 100;

/// What a database is called that was repaired, the first time.
const PUT_ASIDE: &str = "rocksdb.damaged";

/// What a repair found. Its text has a line for each thing an operator has to know.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repaired {
    /// Queues that are there now.
    pub queues: usize,
    /// Messages that are there now.
    pub messages: u64,
    /// What was left behind, each with its reason.
    pub left_behind: Vec<String>,
    /// How much more was left behind.
    pub left_behind_more: u64,
    /// Queues that were made for messages without one.
    pub recovered_queues: Vec<String>,
    /// Where the damaged database is now.
    pub put_aside: PathBuf,
}

impl fmt::Display for Repaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.left_behind {
            writeln!(f, "left behind: {line}")?;
        }
        if self.left_behind_more > 0 {
            writeln!(f, "left behind: {} more", self.left_behind_more)?;
        }
        for name in &self.recovered_queues {
            writeln!(f, "queue {name} was made for messages whose queue is lost")?;
        }
        write!(
            f,
            "{} queues with {} messages are there; the database as it was is in {}",
            self.queues,
            self.messages,
            self.put_aside.display()
        )
    }
}

impl Repaired {
    fn leave_behind(&mut self, what: String) {
        if self.left_behind.len() < NAMED_MAX {
            self.left_behind.push(what);
        } else {
            self.left_behind_more += 1;
        }
    }
}

/// Repairs the store in `dir`, which no broker may be using.
///
/// # Errors
///
/// When the directory is in use or is none of ours, when RocksDB cannot read it at all, or when there is no space for the copy.
pub fn repair(dir: &Path, options: &Options) -> Result<Repaired, OpenError> {
    repair_in_steps(dir, options, &mut || Ok(()))
}

/// `step` is called wherever something has changed in the directory; what it refuses is what a cut looks like.
fn repair_in_steps(
    dir: &Path,
    options: &Options,
    step: &mut dyn FnMut() -> Result<(), OpenError>,
) -> Result<Repaired, OpenError> {
    let directory = claim(dir)?;
    step()?;
    let old = directory.rocksdb();
    let (new, links) = (dir.join(REPAIRED), dir.join("rocksdb.links"));
    for left in [&new, &links].into_iter().filter(|path| path.exists()) {
        // Of a repair that was broken off.
        fs::remove_dir_all(left).map_err(|source| file_error("remove", left, source))?;
        step()?;
    }
    link_files(&old, &links)?;
    step()?;
    let failed = |error| database_error(dir, error);
    let mut found = Repaired::default();
    let from = schema::open_damaged(&links, options, Reading::PastDamage).or_else(|error| {
        found.leave_behind(format!("the log behind its first damage: {error}"));
        link_files(&old, &links)?;
        schema::open_damaged(&links, options, Reading::UpToDamage).map_err(failed)
    })?;
    match from.notes.dropped_bytes() {
        0 => {}
        bytes => found.leave_behind(format!(
            "{bytes} bytes of the log, which were no whole records"
        )),
    }
    let to = schema::open(&new, options, None).map_err(failed)?;
    step()?;
    let mut repair = Repair {
        from: &from.db,
        to: &to.db,
        batch: WriteBatch::new(),
        row: RowBuf::default(),
        queues: BTreeMap::new(),
        exchanges: BTreeMap::new(),
        counted: BTreeMap::new(),
        keeping_all: HashSet::default(),
        streams: HashSet::default(),
        attempts: BTreeMap::new(),
        dropped: HashSet::default(),
        vhosts: Vec::new(),
        next_queue: 1,
        newest_commit: 0,
        found,
    };
    repair
        .run(mark::read(dir).ok().flatten().unwrap_or(0))
        .map_err(failed)?;
    let mut found = repair.found;
    drop(from);
    drop(to);
    step()?;
    fs::remove_dir_all(&links).map_err(|source| file_error("remove", &links, source))?;
    step()?;

    // The new one is whole on the disk, under its name, before the old one loses its own.
    sync(dir)?;
    found.put_aside = put_aside_name(dir, newest_put_aside(dir)? + 1);
    fs::rename(&old, &found.put_aside).map_err(|source| file_error("rename", &old, source))?;
    step()?;
    fs::rename(&new, &old).map_err(|source| file_error("rename", &new, source))?;
    step()?;
    sync(dir)?;
    Ok(found)
}

/// Takes the directory; after a repair that was cut off between its two renames as it was before.
fn claim(dir: &Path) -> Result<Directory, OpenError> {
    let cut_off = match Directory::claim_existing(dir) {
        Err(error @ OpenError::RepairCutOff { .. }) => error,
        claimed => return claimed,
    };
    let newest = newest_put_aside(dir)?;
    if newest == 0 {
        return Err(cut_off);
    }
    // Nobody else may be at it, and claiming needs what is missing.
    let lock = take_lock(dir)?;
    let (aside, old) = (put_aside_name(dir, newest), dir.join(ROCKSDB));
    fs::rename(&aside, &old).map_err(|source| file_error("rename", &aside, source))?;
    sync(dir)?;
    drop(lock);
    Directory::claim_existing(dir)
}

fn sync(dir: &Path) -> Result<(), OpenError> {
    File::open(dir)
        .and_then(|entries| entries.sync_all())
        .map_err(|source| file_error("sync", dir, source))
}

/// Logs of less than this hold no commit.
///
/// A start that was refused because of missing commits leaves one behind, whose only record says where RocksDB had
/// stopped reading: before what a repair reads too.
const EMPTY_LOG_MAX: u64 = 64;

/// The files of the database as they are to be read, under other names for the same bytes; small ones and logs, which RocksDB
/// may open for writing, as copies. Nothing else is left there.
fn link_files(from: &Path, to: &Path) -> Result<(), OpenError> {
    if to.exists() {
        fs::remove_dir_all(to).map_err(|source| file_error("remove", to, source))?;
    }
    fs::create_dir(to).map_err(|source| file_error("create", to, source))?;
    let entries = fs::read_dir(from).map_err(|source| file_error("read", from, source))?;
    for entry in entries {
        let entry = entry.map_err(|source| file_error("read", from, source))?;
        let path = entry.path();
        let size = entry
            .metadata()
            .map_err(|source| file_error("read", &path, source))?
            .len();
        let is_of = |kind: &str| path.extension().is_some_and(|extension| extension == kind);
        if is_of("log") && size < EMPTY_LOG_MAX {
            continue;
        }
        let link = to.join(entry.file_name());
        if is_of("sst") || is_of("blob") {
            // Never written to again by anybody.
            fs::hard_link(&path, &link).map_err(|source| file_error("link", &path, source))?;
        } else {
            fs::copy(&path, &link).map_err(|source| file_error("copy", &path, source))?;
        }
    }
    Ok(())
}

/// What is put aside, from 1.
fn put_aside_name(dir: &Path, number: u64) -> PathBuf {
    match number {
        1 => dir.join(PUT_ASIDE),
        _ => dir.join(format!("{PUT_ASIDE}.{number}")),
    }
}

/// The number of what was put aside last; 0 if there is nothing. Somebody may have removed older ones.
fn newest_put_aside(dir: &Path) -> Result<u64, OpenError> {
    let mut newest = 0;
    for entry in fs::read_dir(dir).map_err(|source| file_error("read", dir, source))? {
        let name = entry
            .map_err(|source| file_error("read", dir, source))?
            .file_name();
        let number = match name.to_str().and_then(|name| name.strip_prefix(PUT_ASIDE)) {
            Some("") => 1,
            Some(rest) => rest
                .strip_prefix('.')
                .and_then(|number| number.parse().ok())
                .unwrap_or(0),
            None => 0,
        };
        newest = newest.max(number);
    }
    Ok(newest)
}

struct Repair<'a> {
    from: &'a DB,
    to: &'a DB,
    batch: WriteBatch,
    row: RowBuf,
    /// Names of the queues whose rows are whole.
    queues: BTreeMap<QueueId, String>,
    /// Names of the exchanges that keep messages, by the number these are stored under.
    exchanges: BTreeMap<QueueId, String>,
    /// What was copied of each queue or exchange.
    counted: BTreeMap<QueueId, Counted>,
    /// Queues that keep whatever they took: quorum queues and streams.
    keeping_all: HashSet<QueueId, FixedState>,
    streams: HashSet<QueueId, FixedState>,
    /// Of messages that came back, what is whole; it goes with its message.
    attempts: BTreeMap<(QueueId, Seq), Vec<u8>>,
    dropped: HashSet<QueueId, FixedState>,
    vhosts: Vec<ShortString>,
    next_queue: u64,
    newest_commit: u64,
    found: Repaired,
}

#[derive(Debug, Default)]
struct Counted {
    first: Option<u64>,
    last: u64,
    messages: u64,
    message_bytes: u64,
}

impl Repair<'_> {
    fn run(&mut self, synced: u64) -> Result<(), rocksdb::Error> {
        self.copy_small_tables()?;
        self.copy_messages()?;
        self.make_lost_queues();
        self.count_anew()?;
        self.close(synced)?;
        self.found.queues = self.queues.len();
        self.found.messages = self.counted.values().map(|counted| counted.messages).sum();
        Ok(())
    }

    fn copy_small_tables(&mut self) -> Result<(), rocksdb::Error> {
        self.each_row(Table::Dropped, |this, key, _| {
            if let Some(number) = number_of_key(key) {
                this.dropped.insert(QueueId::new(number));
                this.next_queue = this.next_queue.max(number + 1);
            }
            Ok(())
        })?;
        self.each_row(Table::Commits, |this, key, _| {
            this.newest_commit = this.newest_commit.max(number_of_key(key).unwrap_or(0));
            Ok(())
        })?;
        self.each_row(Table::Attempts, |this, key, value| {
            match (place_of_attempts_key(key), attempts::decode(key, value)) {
                (Some(place), Ok(_)) => {
                    this.attempts.insert(place, value.to_vec());
                }
                (_, Err(damage)) => this
                    .found
                    .leave_behind(format!("the attempts with key {}: {damage}", hex(key))),
                (None, Ok(_)) => {}
            }
            Ok(())
        })?;
        self.each_row(Table::Meta, |this, key, value| {
            if let Err(damage) = check_seal(Table::Meta, key, value) {
                let what = kind_name(key);
                this.found
                    .leave_behind(format!("the row of {what} with key {}: {damage}", hex(key)));
                return Ok(());
            }
            match Kind::of_key(key) {
                Some(Kind::Mark) => {
                    // The only mark that outlives a repair; whether the stop was clean is not asked any more.
                    if key == marks::key(Mark::NextQueueId) {
                        this.next_queue =
                            this.next_queue.max(marks::decode(key, value).unwrap_or(0));
                    }
                    return Ok(());
                }
                Some(Kind::Queue) => {
                    if let Ok(queue) = queues::decode(key, value) {
                        this.next_queue = this.next_queue.max(queue.id.get() + 1);
                        this.queues.insert(queue.id, queue.name.to_string());
                        match queue.queue_type {
                            QueueType::Classic => {}
                            QueueType::Quorum => {
                                this.keeping_all.insert(queue.id);
                            }
                            QueueType::Stream => {
                                this.keeping_all.insert(queue.id);
                                this.streams.insert(queue.id);
                            }
                        }
                    }
                }
                Some(Kind::Exchange) => {
                    if let Ok(exchange) = exchanges::decode(key, value)
                        && let Some(delay) = exchange.delay
                    {
                        this.next_queue = this.next_queue.max(delay.id.get() + 1);
                        this.exchanges.insert(delay.id, exchange.name.to_string());
                    }
                }
                Some(Kind::Vhost) => this
                    .vhosts
                    .extend(vhosts::decode(key, value).map(|vhost| vhost.name)),
                _ => {}
            }
            this.put(Table::Meta, key, value)
        })
    }

    /// Visits what can be read of a small table.
    fn each_row(
        &mut self,
        table: Table,
        mut visit: impl FnMut(&mut Self, &[u8], &[u8]) -> Result<(), rocksdb::Error>,
    ) -> Result<(), rocksdb::Error> {
        let from = self.from;
        let mut rows = from.raw_iterator_cf_opt(
            &table.family(from),
            bounded(&[table as u8], &[table as u8 + 1]),
        );
        rows.seek_to_first();
        while let Some((key, value)) = rows.item() {
            visit(self, key, value)?;
            rows.next();
        }
        if let Err(error) = rows.status() {
            self.found
                .leave_behind(format!("the rest of the table {table:?}: {error}"));
        }
        Ok(())
    }

    /// Row by row; where RocksDB cannot read on, the next place where it can is looked for.
    fn copy_messages(&mut self) -> Result<(), rocksdb::Error> {
        let from = self.from;
        let family = Table::Messages.family(from);
        let mut bodies = BytesMut::new();
        let mut position = Position(0);
        loop {
            let (start, end) = (position.key(), [0xff; 19]);
            let mut options = bounded(&start, &end);
            options.fill_cache(false);
            let mut rows = from.raw_iterator_cf_opt(&family, options);
            rows.seek_to_first();
            while let Some((key, value)) = rows.item() {
                if let Some(place) = Place::of_key(key) {
                    position = Position::of(place).next();
                    self.copy_message(place, key, value, &mut bodies)?;
                }
                rows.next();
            }
            let Err(error) = rows.status() else {
                return Ok(());
            };
            drop(rows);
            let Some(next) = self.next_readable(position) else {
                self.found.leave_behind(format!(
                    "all messages from {} on: {error}",
                    position.place_text()
                ));
                return Ok(());
            };
            self.found.leave_behind(format!(
                "messages from {} to before {}: {error}",
                position.place_text(),
                next.place_text()
            ));
            position = next;
        }
    }

    fn copy_message(
        &mut self,
        place: Place,
        key: &[u8],
        value: &[u8],
        bodies: &mut BytesMut,
    ) -> Result<(), rocksdb::Error> {
        if self.dropped.contains(&place.queue) {
            return Ok(());
        }
        match messages::decode(key, value, bodies) {
            Err(damage) => {
                let names = [&self.queues, &self.exchanges];
                let name = names.iter().find_map(|names| names.get(&place.queue));
                let name = name.map_or("of a lost queue", String::as_str);
                self.found.leave_behind(format!(
                    "message {} of queue {} ({name}): {damage}",
                    place.seq, place.queue
                ));
                Ok(())
            }
            // It ended with the process, and is there only because memory was short.
            Ok((_, message))
                if !message.is_persistent()
                    && !self.keeping_all.contains(&place.queue)
                    && !self.exchanges.contains_key(&place.queue) =>
            {
                Ok(())
            }
            Ok((_, message)) => {
                let properties_count = self.properties_count(place.queue);
                let counted = self.counted.entry(place.queue).or_default();
                let seq = place.seq.get();
                counted.first = Some(counted.first.map_or(seq, |first| first.min(seq)));
                counted.last = counted.last.max(seq);
                // Where a segment of a stream begins is no message.
                if place.priority != SEGMENT_STARTS || !self.streams.contains(&place.queue) {
                    counted.messages += 1;
                    counted.message_bytes += if properties_count {
                        message.published_bytes()
                    } else {
                        message.body().len() as u64
                    };
                }
                if let Some(attempts) = self.attempts.remove(&(place.queue, place.seq)) {
                    let key = attempts_key(place.queue, place.seq);
                    self.put(Table::Attempts, &key, &attempts)?;
                }
                self.put(Table::Messages, key, value)
            }
        }
    }

    /// Whether it is a quorum queue, which counts the properties of its messages too.
    fn properties_count(&self, queue: QueueId) -> bool {
        self.keeping_all.contains(&queue) && !self.streams.contains(&queue)
    }

    /// The first position behind this one from which rows can be read, found by doubling and halving.
    fn next_readable(&self, behind: Position) -> Option<Position> {
        let mut unreadable = behind.0;
        let mut step = 1u128;
        let mut readable = loop {
            let candidate = behind.0.checked_add(step)?;
            if self.is_readable(Position(candidate)) {
                break candidate;
            }
            unreadable = candidate;
            step = step.checked_mul(2)?;
        };
        while readable - unreadable > 1 {
            let middle = unreadable + (readable - unreadable) / 2;
            if self.is_readable(Position(middle)) {
                readable = middle;
            } else {
                unreadable = middle;
            }
        }
        Some(Position(readable))
    }

    fn is_readable(&self, position: Position) -> bool {
        let (start, end) = (position.key(), [0xff; 19]);
        let mut options = bounded(&start, &end);
        options.fill_cache(false);
        let family = Table::Messages.family(self.from);
        let mut rows = self.from.raw_iterator_cf_opt(&family, options);
        rows.seek_to_first();
        rows.valid() || rows.status().is_ok()
    }

    fn make_lost_queues(&mut self) {
        let lost: BTreeSet<QueueId> = self
            .counted
            .keys()
            .filter(|id| !self.queues.contains_key(id) && !self.exchanges.contains_key(id))
            .copied()
            .collect();
        let root = ShortString::from_static("/");
        let vhost = if self.vhosts.contains(&root) {
            root
        } else {
            self.vhosts.first().cloned().unwrap_or(root)
        };
        for id in lost {
            let name = format!("recovered.{id}");
            let record = QueueRecord {
                id,
                vhost: vhost.clone(),
                name: ShortString::cut(&name),
                durable: true,
                exclusive_to: None,
                auto_delete: false,
                queue_type: QueueType::Classic,
                arguments: FieldTable::new(),
            };
            let key = queues::key(id);
            let value = queues::encode(&mut self.row, &key, &record);
            self.batch.put_cf(&Table::Meta.family(self.to), key, value);
            self.next_queue = self.next_queue.max(id.get() + 1);
            self.queues.insert(id, name.clone());
            self.found.recovered_queues.push(name);
        }
    }

    /// Counters of all queues, from their rows; and from their old counters what rows cannot tell.
    fn count_anew(&mut self) -> Result<(), rocksdb::Error> {
        let mut next_of: BTreeMap<QueueId, u64> = BTreeMap::new();
        self.each_row(Table::QueueStates, |this, key, value| {
            let Some(queue) = number_of_key(key) else {
                return Ok(());
            };
            match queue_states::decode(key, value) {
                Ok(state) => {
                    next_of.insert(QueueId::new(queue), state.next.get());
                }
                Err(damage) => this.found.leave_behind(format!(
                    "the counters of queue {queue}, counted anew: {damage}"
                )),
            }
            Ok(())
        })?;
        for id in self.queues.keys().chain(self.exchanges.keys()) {
            let counted = self.counted.get(id);
            let last = counted.map_or(0, |counted| counted.last + 1);
            let next = Seq::new(next_of.get(id).copied().unwrap_or(0).max(last));
            let state = QueueState {
                head: counted
                    .and_then(|counted| counted.first)
                    .map_or(next, Seq::new),
                next,
                messages: counted.map_or(0, |counted| counted.messages),
                message_bytes: counted.map_or(0, |counted| counted.message_bytes),
                properties_count_from: self.properties_count(*id).then_some(Seq::new(0)),
                delivered_below: next,
                consumed: true,
                spilled: false,
            };
            let key = queue_key(Table::QueueStates, *id);
            let value = queue_states::encode(&mut self.row, &key, &state);
            self.batch
                .put_cf(&Table::QueueStates.family(self.to), key, value);
        }
        Ok(())
    }

    /// Marks, a ring of commits that is whole, and everything on the disk.
    fn close(&mut self, synced: u64) -> Result<(), rocksdb::Error> {
        let small = Table::Meta.family(self.to);
        let key = marks::key(Mark::NextQueueId);
        let value = marks::encode(&mut self.row, &key, self.next_queue);
        self.batch.put_cf(&small, key, value);
        let newest = self.newest_commit.max(synced) + 1;
        for number in newest.saturating_sub(commits::RING - 1).max(1)..=newest {
            let key = commit_key(number);
            let value = commits::encode_filler(&mut self.row, &key, now_millis());
            self.batch.put_cf(&small, key, value);
        }
        self.write()?;
        let to = self.to;
        for table in [Table::Messages, Table::Meta] {
            to.flush_cf(&table.family(to))?;
        }
        Ok(())
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), rocksdb::Error> {
        self.batch.put_cf(&table.family(self.to), key, value);
        if self.batch.size_in_bytes() >= BATCH_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Past the log: it is all flushed at the end, and worth nothing before.
    fn write(&mut self) -> Result<(), rocksdb::Error> {
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        self.to.write_opt(&self.batch, &options)?;
        self.batch.clear();
        Ok(())
    }
}

/// A place as one number, so that one can be looked for between two others: queue, class, seq. Queues count up from 1,
/// one for each declare there ever was: 56 bits are enough for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position(u128);

impl Position {
    fn of(place: Place) -> Self {
        let class = u128::from(255 - place.priority);
        Self(u128::from(place.queue.get()) << 72 | class << 64 | u128::from(place.seq.get()))
    }

    const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The key of this place or, if there can be none, of the next that there can be.
    fn key(self) -> [u8; 18] {
        let mut key = [0; 18];
        let Some((head, rest)) = key.split_first_mut() else {
            return key;
        };
        *head = 0;
        for (to, from) in rest.iter_mut().zip(self.0.to_be_bytes()) {
            *to = from;
        }
        key
    }

    fn place_text(self) -> String {
        let seq = self.0 & u128::from(u64::MAX);
        format!("{seq} of queue {}", self.0 >> 72)
    }
}

fn kind_name(key: &[u8]) -> &'static str {
    match Kind::of_key(key) {
        Some(Kind::Mark) => "a mark",
        Some(Kind::Vhost) => "a vhost",
        Some(Kind::Exchange) => "an exchange",
        Some(Kind::Queue) => "a queue",
        Some(Kind::Binding) => "a binding",
        Some(Kind::User) => "a user",
        Some(Kind::Permission) => "a permission",
        Some(Kind::TopicPermission) => "a topic permission",
        Some(Kind::Parameter) => "a parameter",
        None => "an unknown kind",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use leveret_core::{
        ids::Timestamp,
        message::{Message, MessageParts},
        record::{MetaChange, Write},
    };

    use super::*;
    use crate::{Committer, Store};

    #[test]
    fn a_position_is_the_key_of_its_place() {
        let place = Place {
            queue: QueueId::new(0x0102),
            priority: 9,
            seq: Seq::new(0x0304),
        };
        assert_eq!(Position::of(place).key(), place.key());
    }

    /// A queue with three messages, and a crash.
    fn stored() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        let (store, _) = Store::open(dir.path(), &Options::default()).expect("it opens");
        let (to_test, released) = channel();
        let tell = move |promises: &mut Vec<()>| {
            promises.clear();
            let _ = to_test.send(());
        };
        let committer = Committer::start(store, tell, |_| {}).expect("a thread");
        let queue = QueueId::new(1);
        let record = QueueRecord {
            id: queue,
            vhost: ShortString::from_static("/"),
            name: ShortString::from_static("jobs"),
            durable: true,
            exclusive_to: None,
            auto_delete: false,
            queue_type: QueueType::Classic,
            arguments: FieldTable::new(),
        };
        let mut writes = vec![Write::Meta(MetaChange::PutQueue(record))];
        writes.extend((0..3).map(|seq| Write::Put {
            queue,
            priority: 0,
            seq: Seq::new(seq),
            enqueued_at: Timestamp::new(1),
            due: Timestamp::NEVER,
            message: Message::new(MessageParts {
                exchange: b"",
                routing_key: b"jobs",
                properties: &[0, 0],
                body: "body".into(),
                persistent: true,
                priority: None,
            }),
        }));
        committer.send(&mut writes, &mut vec![()], true);
        released.recv().expect("stored");
        dir
    }

    fn cut() -> OpenError {
        OpenError::NoData {
            dir: PathBuf::from("cut off here"),
        }
    }

    #[test]
    fn a_repair_that_is_cut_off_anywhere_is_begun_again_and_loses_nothing() {
        let options = Options::default();
        let mut cuts = 0;
        loop {
            let dir = stored();
            let mut left = cuts;
            let done = repair_in_steps(dir.path(), &options, &mut || {
                left -= 1;
                if left < 0 { Err(cut()) } else { Ok(()) }
            });
            let is_done = done.is_ok();
            if !is_done && !dir.path().join(ROCKSDB).exists() {
                let refused = Store::open(dir.path(), &options).expect_err("half a repair");
                assert!(
                    matches!(refused, OpenError::RepairCutOff { .. }),
                    "cut {cuts}: {refused}"
                );
            }
            let again = repair(dir.path(), &options).unwrap_or_else(|error| {
                panic!("after a cut at step {cuts}: {error}");
            });
            assert_eq!((again.queues, again.messages), (1, 3), "cut {cuts}");
            assert!(again.put_aside.is_dir(), "cut {cuts}");
            assert!(!dir.path().join(REPAIRED).exists(), "cut {cuts}");
            let (_store, recovered) = Store::open(dir.path(), &options).expect("it starts");
            assert_eq!(recovered.queues[0].1.messages, 3, "cut {cuts}");
            if is_done {
                break;
            }
            cuts += 1;
        }
        assert!(cuts >= 7, "only {cuts} places to be cut off at");
    }

    #[test]
    fn what_was_put_aside_last_has_the_highest_number() {
        let dir = tempfile::tempdir().expect("a directory");
        let newest = || newest_put_aside(dir.path()).expect("readable");
        assert_eq!(newest(), 0);
        for (name, number) in [
            ("rocksdb.damaged", 1),
            ("rocksdb.damaged.old", 1),
            ("rocksdb.damaged.10", 10),
            ("rocksdb.damaged.9", 10),
        ] {
            fs::create_dir(dir.path().join(name)).expect("made");
            assert_eq!(newest(), number, "{name}");
        }
        assert!(put_aside_name(dir.path(), 10).exists());
    }
}
