//! An open store: reading for everybody, writing for its one committer.

use std::{fmt, path::Path, sync::Arc};

use bytes::BytesMut;
use leveret_core::{
    ids::{QueueId, Seq, Timestamp},
    queue::{Refill, Refilled, StoredMessage},
    record::{Attempts, QueueState},
};
use parking_lot::Mutex;
use rocksdb::{DB, ReadOptions, WriteBufferManager, WriteOptions};

use crate::{
    directory::Directory,
    error::{Damage, OpenError, ReadError},
    key::{Place, attempts_bounds, place_of_attempts_key, queue_bounds, queue_key},
    options::{Options, SyncMode},
    recovery::{self, Recovered},
    schema::Table,
    table::{attempts, messages, queue_states},
};

/// Counters of a queue, and how often messages came back to it.
pub type QueueMemory = (Option<QueueState>, Vec<(Seq, Attempts)>);

/// An open data directory.
pub struct Store {
    /// Closed first: the lock on the directory must outlive it.
    db: DB,
    memory: WriteBufferManager,
    sync_mode: SyncMode,
    write_side: Mutex<Option<WriteSide>>,
    /// None for a store in memory.
    directory: Option<Directory>,
}

/// What the committer goes on from.
#[derive(Debug)]
pub(crate) struct WriteSide {
    pub(crate) newest_commit: u64,
    /// What the side file says.
    pub(crate) marked: u64,
    /// Queues that were deleted but not freed.
    pub(crate) dropped: Vec<QueueId>,
}

impl Store {
    /// Opens the data directory, makes it if there is none, and says what is in it. No message is read.
    ///
    /// Sets the umask of the process to 077, since RocksDB cannot be told otherwise to keep its files private.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]; every text names the directory and what to do.
    pub fn open(dir: &Path, options: &Options) -> Result<(Arc<Self>, Recovered), OpenError> {
        recovery::open(dir, options).map(|(store, recovered)| (Arc::new(store), recovered))
    }

    /// Opens an empty store that is nothing but memory: the same database over files that are only buffers, without a
    /// log. What is stored is compacted and read as on a disk, and ends with this value.
    ///
    /// # Errors
    ///
    /// When RocksDB cannot have what it needs.
    pub fn in_memory(options: &Options) -> Result<(Arc<Self>, Recovered), OpenError> {
        recovery::open_in_memory(options).map(|(store, recovered)| (Arc::new(store), recovered))
    }

    pub(crate) fn new(
        db: DB,
        memory: WriteBufferManager,
        sync_mode: SyncMode,
        write_side: WriteSide,
        directory: Option<Directory>,
    ) -> Self {
        // There is nothing to sync to.
        let sync_mode = if directory.is_none() {
            SyncMode::Never
        } else {
            sync_mode
        };
        Self {
            db,
            memory,
            sync_mode,
            write_side: Mutex::new(Some(write_side)),
            directory,
        }
    }

    /// Reads what a queue asks for; if there is nothing, the next lower priority that has something.
    ///
    /// Waits for the disk, as [`Self::read_messages`] does.
    ///
    /// # Errors
    ///
    /// As [`Self::read_messages`].
    pub fn refill(&self, refill: &Refill) -> Result<Refilled, ReadError> {
        let Refill {
            queue,
            priority,
            from,
            until,
            rows_max,
            bytes_max,
            at_once: _,
        } = *refill;
        let mut page = self.read_messages(queue, priority, from, until, rows_max, bytes_max)?;
        if page.rows.is_empty() && page.next.is_none() {
            page.next_priority = self.next_priority(refill)?;
        }
        Ok(page)
    }

    /// Reads rows of one priority of one queue with `from <= seq < until`, in order: at most `rows_max`, and no further
    /// one above `bytes_max` bytes of values; always one if there is one.
    ///
    /// Waits for the disk: call it where waiting is allowed.
    ///
    /// # Errors
    ///
    /// When the first row is damaged or RocksDB cannot read. Damage behind the first row ends the page before it, so that
    /// nothing good is lost; the next call then starts with the damaged row and names it.
    pub fn read_messages(
        &self,
        queue: QueueId,
        priority: u8,
        from: Seq,
        until: Seq,
        rows_max: usize,
        bytes_max: usize,
    ) -> Result<Refilled, ReadError> {
        let mut page = Refilled::default();
        if from >= until {
            return Ok(page);
        }
        let start = Place {
            queue,
            priority,
            seq: from,
        }
        .key();
        let end = Place {
            queue,
            priority,
            seq: until,
        }
        .key();
        let mut options = bounded(&start, &end);
        // A message is read once and then kept by its queue: a block of the cache would be lost on it.
        options.fill_cache(false);
        let mut rows = self
            .db
            .raw_iterator_cf_opt(&Table::Messages.family(&self.db), options);
        let mut bodies = BytesMut::new();
        let mut bytes = 0;
        let mut position = from;
        rows.seek_to_first();
        while let Some((key, value)) = rows.item() {
            if let Some(place) = Place::of_key(key) {
                position = place.seq;
            }
            bytes += value.len();
            if page.rows.len() >= rows_max.max(1) || (bytes > bytes_max && !page.rows.is_empty()) {
                page.next = Some(position);
                return Ok(page);
            }
            match messages::decode(key, value, &mut bodies) {
                Ok((times, message)) => {
                    page.rows.push(StoredMessage {
                        seq: position,
                        enqueued_at: times.enqueued_at,
                        due: times.due,
                        message,
                    });
                }
                Err(damage) if page.rows.is_empty() => {
                    return Err(ReadError::Damaged {
                        queue,
                        seq: position,
                        damage,
                    });
                }
                Err(_) => {
                    page.next = Some(position);
                    return Ok(page);
                }
            }
            position = position.next();
            rows.next();
        }
        match rows.status() {
            Ok(()) => Ok(page),
            Err(error) if page.rows.is_empty() => Err(ReadError::of(queue, position, error)),
            Err(_) => {
                page.next = Some(position);
                Ok(page)
            }
        }
    }

    /// The first row of one priority of one queue with `from <= seq < until` that was put with this time or a later one.
    ///
    /// Looks at few rows: times do not fall along a queue, or only where somebody set the clock back. Waits for the disk.
    ///
    /// # Errors
    ///
    /// When a row on the way is damaged or RocksDB cannot read.
    pub fn first_since(
        &self,
        queue: QueueId,
        priority: u8,
        from: Seq,
        until: Seq,
        at: Timestamp,
    ) -> Result<Option<Seq>, ReadError> {
        let (mut from, mut end) = (from, until);
        let mut found = None;
        while from < end {
            let middle = Seq::new(from.get() + (end.get() - from.get()) / 2);
            let page = self.read_messages(queue, priority, middle, end, 1, 0)?;
            match page.rows.first() {
                Some(row) if row.enqueued_at < at => from = row.seq.next(),
                Some(row) => {
                    found = Some(row.seq);
                    end = middle;
                }
                None => end = middle,
            }
        }
        Ok(found)
    }

    /// What a start would know of this queue: its counters, if it has any, and how often messages came back to it, in the order
    /// of their positions. Only what is written counts.
    ///
    /// Waits for the disk.
    ///
    /// # Errors
    ///
    /// When RocksDB cannot read, or a row is damaged.
    pub fn recover_queue(&self, queue: QueueId) -> Result<QueueMemory, ReadError> {
        let unreadable = |error| ReadError::of(queue, Seq::default(), error);
        let damaged = |reason: String| ReadError::Unreadable {
            queue,
            from: Seq::default(),
            is_damage: true,
            reason,
        };
        let key = queue_key(Table::QueueStates, queue);
        let state = self
            .db
            .get_cf(&Table::QueueStates.family(&self.db), key)
            .map_err(unreadable)?
            .map(|row| queue_states::decode(&key, &row))
            .transpose()
            .map_err(|damage| damaged(format!("its counters are damaged: {damage}")))?;
        let (start, end) = attempts_bounds(queue);
        let mut rows = self
            .db
            .raw_iterator_cf_opt(&Table::Attempts.family(&self.db), bounded(&start, &end));
        let mut found = Vec::new();
        rows.seek_to_first();
        while let Some((key, value)) = rows.item() {
            let row = place_of_attempts_key(key).ok_or(Damage::Malformed);
            let row = row.and_then(|(_, seq)| Ok((seq, attempts::decode(key, value)?)));
            found.push(
                row.map_err(|damage| damaged(format!("its attempts are damaged: {damage}")))?,
            );
            rows.next();
        }
        rows.status().map_err(unreadable)?;
        Ok((state, found))
    }

    /// Bytes that could still be written where the store lies; `None` for a store in memory.
    ///
    /// # Errors
    ///
    /// When the system does not tell.
    pub fn free_bytes(&self) -> Option<std::io::Result<u64>> {
        self.directory.as_ref().map(Directory::free_bytes)
    }

    /// The next lower priority of which the queue has rows.
    fn next_priority(&self, refill: &Refill) -> Result<Option<u8>, ReadError> {
        let Some(priority) = refill.priority.checked_sub(1) else {
            return Ok(None);
        };
        let start = Place {
            queue: refill.queue,
            priority,
            seq: Seq::default(),
        }
        .key();
        let (_, end) = queue_bounds(refill.queue);
        let mut rows = self
            .db
            .raw_iterator_cf_opt(&Table::Messages.family(&self.db), bounded(&start, &end));
        rows.seek_to_first();
        let first = rows.key().and_then(Place::of_key);
        // What could not be read must not pass for nothing: the queue would count its messages as lost.
        rows.status()
            .map_err(|error| ReadError::of(refill.queue, refill.from, error))?;
        Ok(first.map(|place| place.priority))
    }

    pub(crate) fn db(&self) -> &DB {
        &self.db
    }

    /// Where it is on disk, if it is.
    pub(crate) fn directory(&self) -> Option<&Directory> {
        self.directory.as_ref()
    }

    /// How rows are written: without a log where the log would be memory too.
    pub(crate) fn write_options(&self, sync: bool) -> WriteOptions {
        let mut options = WriteOptions::default();
        if self.directory.is_some() {
            options.set_sync(sync);
        } else {
            options.disable_wal(true);
        }
        options
    }

    pub(crate) fn sync_mode(&self) -> SyncMode {
        self.sync_mode
    }

    /// Memory of writes that are in no table file yet.
    pub(crate) fn unflushed_bytes(&self) -> usize {
        self.memory.get_usage()
    }

    /// Given once: there is one writer.
    pub(crate) fn take_write_side(&self) -> Option<WriteSide> {
        self.write_side.lock().take()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("directory", &self.directory.as_ref().map(Directory::path))
            .finish_non_exhaustive()
    }
}

/// Reads from `start` up to before `end`. Both are always given: behind them lie rows and deletes of other queues.
pub(crate) fn bounded(start: &[u8], end: &[u8]) -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_iterate_lower_bound(start);
    options.set_iterate_upper_bound(end);
    // Files that became free under the iterator are removed by a thread of RocksDB, not by the reader.
    options.set_background_purge_on_iterator_cleanup(true);
    options
}
