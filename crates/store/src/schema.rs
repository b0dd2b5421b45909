//! Tables, their column families with RocksDB's options, the format version.
//!
//! A new table is one more variant of [`Table`]; a new column family is made at the next start. A changed row has a new
//! version byte, or is a step from [`FORMAT`] to the next.

use std::{
    fs, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use rocksdb::{
    BlockBasedOptions, BottommostLevelCompaction, Cache, ColumnFamily, ColumnFamilyDescriptor,
    CompactOptions, DB, DBCompressionType, DBRecoveryMode, DEFAULT_COLUMN_FAMILY_NAME, Env,
    LogLevel, WriteBufferManager,
    event_listener::{BackgroundErrorStatus, DBBackgroundErrorReason, EventListener},
    properties::{NUM_IMMUTABLE_MEM_TABLE, PropName, num_files_at_level},
};

use crate::options::Options;

/// The newest format of the data directory this release reads and writes.
pub const FORMAT: u32 = 1;

/// One table. The number is part of every row's checksum, and of the key where tables share a column family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// Vhosts, exchanges, queues, bindings, users, permissions, parameters, marks.
    Meta = 1,
    /// Messages in queues.
    Messages = 2,
    /// Counters of queues.
    QueueStates = 3,
    /// The newest commits, as a ring.
    Commits = 4,
    /// Queues that are deleted but not yet freed.
    Dropped = 5,
    /// How often messages came back to their queues.
    Attempts = 6,
}

impl Table {
    /// The column family it is in, of an open database.
    pub(crate) fn family(self, db: &DB) -> &ColumnFamily {
        let name = match self {
            Self::Messages => MESSAGES,
            Self::Meta | Self::QueueStates | Self::Commits | Self::Dropped | Self::Attempts => {
                SMALL
            }
        };
        db.cf_handle(name)
            .expect("both are opened or made at start")
    }
}

const MESSAGES: &str = "messages";

/// Everything small, in the family that RocksDB always has: each further one takes a sync at the first start, and at every
/// start a millisecond of RocksDB writing and checking its file of options.
const SMALL: &str = DEFAULT_COLUMN_FAMILY_NAME;

/// Write buffers of messages there are at most: one filling, the others being flushed.
const WRITE_BUFFERS_MAX: i32 = 4;

/// So many are flushed as one, so that a put in the first and its delete in the second vanish together.
const WRITE_BUFFERS_MERGED: u8 = 2;

/// Files at level 0 with which a quiet moment is not used for one more: a little less than the twenty at which RocksDB slows
/// writers down.
const FILES_AT_LEVEL_0_MAX: u64 = 16;

/// Files of small rows at level 0 with which writers have to wait for them to be compacted: some ten kilobytes each.
const SMALL_FILES_MAX: i32 = 1000;

/// What these held is put back into one buffer at a start after a kill, with room for how an arena divides its blocks.
const BUFFERS_AT_START: usize = 5;

/// What RocksDB said while it opened.
#[derive(Debug, Default)]
pub(crate) struct OpenNotes {
    in_memory: bool,
    done: AtomicBool,
    dropped_bytes: AtomicU64,
}

impl OpenNotes {
    /// Bytes at the end of the log that were not a whole record.
    pub(crate) fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes.load(Ordering::Relaxed)
    }

    fn hear(&self, level: LogLevel, text: &str) {
        match level {
            // Before it makes its directory RocksDB lists it, for a dump of what is there.
            LogLevel::Error
                if self.in_memory
                    && !self.done.load(Ordering::Relaxed)
                    && text.contains("Error when reading") => {}
            LogLevel::Error | LogLevel::Fatal => tracing::error!(target: "rocksdb", "{text}"),
            LogLevel::Warn => {
                if !self.done.load(Ordering::Relaxed) {
                    // RocksDB tells of a cut tail nowhere else.
                    let bytes = dropped_bytes(text).unwrap_or(0);
                    self.dropped_bytes.fetch_add(bytes, Ordering::Relaxed);
                }
                tracing::warn!(target: "rocksdb", "{text}");
            }
            // A dump of all options at every start.
            _ => {}
        }
    }
}

fn dropped_bytes(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once(": dropping ")?;
    let (number, _) = rest.split_once(" bytes")?;
    number.parse().ok()
}

/// Keeps RocksDB from going on by itself after "no space": it looks every five seconds, and refuses meanwhile what the
/// committer does as soon as there is space.
struct RecoverByHand;

impl EventListener for RecoverByHand {
    fn on_error_recovery_begin(
        &self,
        _reason: DBBackgroundErrorReason,
        _error: &BackgroundErrorStatus,
        automatic: &mut bool,
    ) {
        *automatic = false;
    }
}

/// An open database and what its memory is charged to.
pub(crate) struct Opened {
    pub(crate) db: DB,
    pub(crate) memory: WriteBufferManager,
    pub(crate) notes: Arc<OpenNotes>,
    /// Bytes of log that were gone through for it.
    pub(crate) log_bytes: u64,
}

/// Opens the database in `path`, and makes what is not there yet; in an environment of its own if one is given.
pub(crate) fn open(
    path: &Path,
    options: &Options,
    env: Option<&Env>,
) -> Result<Opened, rocksdb::Error> {
    let cache = Cache::new_lru_cache(options.cache_bytes);
    // Half of the memory for unflushed writes. Without a stall: a full buffer starts a flush, and back-pressure is the
    // inbox's business, where it does not stop acks of others.
    let memory = WriteBufferManager::new_write_buffer_manager_with_cache(
        options.cache_bytes / 2,
        false,
        cache.clone(),
    );
    let notes = Arc::new(OpenNotes {
        in_memory: env.is_some(),
        ..OpenNotes::default()
    });
    // What is in the log is put back into memory. A buffer that fills meanwhile would be written to a table file there and
    // then, and whoever starts the broker would wait for it; one such file, and all the rest is written before the start, too.
    let log_bytes = log_bytes(path).unwrap_or(0);
    let is_large = log_bytes > options.write_buffer_bytes as u64 / 2;
    let at_start = Options {
        write_buffer_bytes: options.write_buffer_bytes * BUFFERS_AT_START,
        ..options.clone()
    };
    let configured_as = if is_large { &at_start } else { options };
    let (db, families) = configured(configured_as, env, &cache, &memory, &notes);
    let db = DB::open_cf_descriptors(&db, path, families)?;
    if is_large {
        let size = options.write_buffer_bytes.to_string();
        db.set_options_cf(
            &Table::Messages.family(&db),
            &[("write_buffer_size", size.as_str())],
        )?;
    }
    notes.done.store(true, Ordering::Relaxed);
    Ok(Opened {
        db,
        memory,
        notes,
        log_bytes,
    })
}

/// Bytes of the logs of a database, in which there may be little that is not in table files too. A log goes when nothing is
/// left in it that is not, of any table.
pub(crate) fn log_bytes(path: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let is_log = Path::new(&entry.file_name())
            .extension()
            .is_some_and(|extension| extension == "log");
        // It may be gone by now.
        if is_log && let Ok(metadata) = entry.metadata() {
            bytes += metadata.len();
        }
    }
    Ok(bytes)
}

/// What to do about damage while reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The log ends where it is damaged; tables are read as far as they can be.
    UpToDamage,
    /// The log is read on behind damage.
    PastDamage,
}

/// Opens the database in `path` as a broker would, without changing anything in it.
pub(crate) fn open_to_read(path: &Path, options: &Options) -> Result<Opened, rocksdb::Error> {
    let cache = Cache::new_lru_cache(options.cache_bytes);
    let memory = WriteBufferManager::new_write_buffer_manager(0, false);
    let notes = Arc::new(OpenNotes::default());
    let (mut db, families) = configured(options, None, &cache, &memory, &notes);
    db.create_if_missing(false);
    let db = DB::open_cf_descriptors_read_only(&db, path, families, false)?;
    notes.done.store(true, Ordering::Relaxed);
    Ok(Opened {
        db,
        memory,
        notes,
        log_bytes: 0,
    })
}

/// Opens a copy of a damaged database, to read what can be read; it may change, but nothing is compacted.
///
/// Not for reading only: RocksDB ends with a segmentation fault when such a database was told to verify its logs, has several
/// of them, and is not to verify them now.
pub(crate) fn open_damaged(
    path: &Path,
    options: &Options,
    reading: Reading,
) -> Result<Opened, rocksdb::Error> {
    let cache = Cache::new_lru_cache(options.cache_bytes);
    let memory = WriteBufferManager::new_write_buffer_manager(0, false);
    let notes = Arc::new(OpenNotes::default());
    let mut common = rocksdb::Options::default();
    common.set_disable_auto_compactions(true);
    let families = families_of(&common, &cache, options);
    let mut db = database_options(common, &memory, &notes, options);
    db.create_if_missing(false);
    db.create_missing_column_families(false);
    if reading == Reading::PastDamage {
        db.set_wal_recovery_mode(DBRecoveryMode::SkipAnyCorruptedRecord);
    }
    db.set_paranoid_checks(false);
    db.set_track_and_verify_wals_in_manifest(false);
    let db = DB::open_cf_descriptors(&db, path, families)?;
    notes.done.store(true, Ordering::Relaxed);
    Ok(Opened {
        db,
        memory,
        notes,
        log_bytes: 0,
    })
}

fn configured(
    options: &Options,
    env: Option<&Env>,
    cache: &Cache,
    memory: &WriteBufferManager,
    notes: &Arc<OpenNotes>,
) -> (rocksdb::Options, [ColumnFamilyDescriptor; 2]) {
    // Copies of one, since each new set of options makes a cache of its own first.
    let mut common = rocksdb::Options::default();
    if let Some(env) = env {
        common.set_env(env);
    }
    let families = families_of(&common, cache, options);
    (database_options(common, memory, notes, options), families)
}

fn families_of(
    common: &rocksdb::Options,
    cache: &Cache,
    options: &Options,
) -> [ColumnFamilyDescriptor; 2] {
    [
        ColumnFamilyDescriptor::new(SMALL, small_options(common.clone(), cache)),
        ColumnFamilyDescriptor::new(MESSAGES, message_options(common.clone(), cache, options)),
    ]
}

fn database_options(
    mut db: rocksdb::Options,
    memory: &WriteBufferManager,
    notes: &Arc<OpenNotes>,
    options: &Options,
) -> rocksdb::Options {
    db.create_if_missing(true);
    db.create_missing_column_families(true);
    db.set_paranoid_checks(true);
    // Up to the first record that is not whole. Whether that was the end or the middle is told by the commit ring and the
    // side file; the stricter modes would refuse to start after an ordinary power cut.
    db.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    db.set_track_and_verify_wals_in_manifest(true);
    db.set_max_total_wal_size(options.log_bytes_max);
    db.set_write_buffer_manager(memory);
    // A start must not wait for table files to be written; the log is bounded and will be replayed again.
    db.set_avoid_flush_during_recovery(true);
    db.set_avoid_flush_during_shutdown(true);
    // Nor for the memory that was in use when the broker was killed: it is flushed as soon as it runs.
    db.set_enforce_write_buffer_manager_during_recovery(false);
    // Statistics that only RocksDB's own decisions would use, read from every file at start.
    db.set_skip_stats_update_on_db_open(true);
    // The manifest has the id too; the file costs two syncs at the first start.
    db.set_write_identity_file(false);
    // Sixteen are started even if there is no file to open.
    db.set_max_file_opening_threads(4);
    // Dumps for the log we do not keep, and a timer thread for them.
    db.set_stats_dump_period_sec(0);
    db.set_stats_persist_period_sec(0);
    // One writer: nobody to wait for in a spin.
    db.set_enable_write_thread_adaptive_yield(false);
    db.set_ratelimiter(
        i64::try_from(options.background_bytes_per_second).unwrap_or(i64::MAX),
        // Refilled ten times a second, low priority gets one turn in ten: RocksDB's defaults.
        100_000,
        10,
    );
    // Space ahead of the log would be a tenth more than a write buffer, at once: on a file system in memory real memory and
    // tens of milliseconds. Every sync writes the new length anyway.
    db.set_allow_fallocate(false);
    // Table files reach the disk while they are written, not at their end all at once.
    db.set_bytes_per_sync(1 << 20);
    db.add_event_listener(RecoverByHand);
    let notes = Arc::clone(notes);
    db.set_callback_logger(LogLevel::Warn, move |level, text| notes.hear(level, text));
    db
}

fn message_options(
    mut family: rocksdb::Options,
    cache: &Cache,
    options: &Options,
) -> rocksdb::Options {
    let mut blocks = cached_blocks(cache);
    // Read forwards in pages of up to a mebibyte: fewer, larger blocks.
    blocks.set_block_size(16 << 10);
    family.set_block_based_table_factory(&blocks);
    family.set_level_compaction_dynamic_level_bytes(true);
    family.set_write_buffer_size(options.write_buffer_bytes);
    family.set_max_write_buffer_number(WRITE_BUFFERS_MAX);
    family.set_min_write_buffer_number_to_merge(i32::from(WRITE_BUFFERS_MERGED));
    // Head of a queue that was consumed: a file half of deletes is compacted at once, not when its level is full.
    family.add_compact_on_deletion_collector_factory(4096, 2048, 0.5);
    // The same for deletes that are still in memory: one step over this many of them starts a flush.
    family.set_memtable_op_scan_flush_trigger(10_000);
    // The first levels live for seconds; what stays longer is worth compressing.
    let (none, lz4) = (DBCompressionType::None, DBCompressionType::Lz4);
    family.set_compression_per_level(&[none, none, lz4, lz4, lz4, lz4, lz4]);
    // Large bodies are not rewritten by every compaction.
    family.set_enable_blob_files(true);
    family.set_min_blob_size(16 << 10);
    family.set_enable_blob_gc(true);
    family
}

fn small_options(mut family: rocksdb::Options, cache: &Cache) -> rocksdb::Options {
    family.set_block_based_table_factory(&cached_blocks(cache));
    family.set_level_compaction_dynamic_level_bytes(true);
    // A few megabytes of overwritten rows, flushed as a few kilobytes.
    family.set_write_buffer_size(8 << 20);
    // The first row takes this much memory.
    family.set_arena_block_size(64 << 10);
    // A file or a closed buffer comes with every log that is done, and they are small: nobody is held up by them while the one thread
    // that compacts is busy with messages.
    family.set_max_write_buffer_number(WRITE_BUFFERS_MAX);
    family.set_level_zero_slowdown_writes_trigger(SMALL_FILES_MAX);
    family.set_level_zero_stop_writes_trigger(SMALL_FILES_MAX);
    family.set_compression_type(DBCompressionType::None);
    family
}

fn cached_blocks(cache: &Cache) -> BlockBasedOptions {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(cache);
    // Indexes are charged to the cache as well, so that memory does not grow with the backlog.
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_cache_index_and_filter_blocks_with_high_priority(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    blocks
}

/// Whether a flush could begin now. Otherwise RocksDB makes its caller wait until it could, also one that is not to wait for its end:
/// for flushes under way, and for compactions when many files lie at level 0, which on a slow disk may take minutes.
pub(crate) fn has_room_for_a_flush(db: &DB) -> bool {
    let count = |table: Table, property: &PropName| {
        let value = db.property_int_value_cf(&table.family(db), property);
        value.ok().flatten().unwrap_or(0)
    };
    count(Table::Messages, NUM_IMMUTABLE_MEM_TABLE) < u64::from(WRITE_BUFFERS_MERGED)
        && count(Table::Messages, &num_files_at_level(0)) < FILES_AT_LEVEL_0_MAX
}

/// How a range is compacted whose rows are all deleted: down to the last level, or the deletes would stay there.
pub(crate) fn reclaiming() -> CompactOptions {
    let mut compaction = CompactOptions::default();
    // It begins with a flush, for which there is room ([`has_room_for_a_flush`]); otherwise a stop would wait for it.
    compaction.set_allow_write_stall(true);
    compaction.set_exclusive_manual_compaction(false);
    compaction.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
    compaction
}
