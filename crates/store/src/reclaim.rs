//! Frees what deleted queues stored.
//!
//! A queue is gone with its `meta` row; its messages cost space until they are removed, and that may take long. So a row in
//! `dropped`, written in the same batch, keeps the task until it is done, over restarts too. Every step may be
//! repeated: ids are never given twice, and nobody reads or writes these rows any more.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use leveret_core::ids::QueueId;
use rocksdb::{Range, SizeApproximationOptions, WriteBatch};

use crate::{
    key::{attempts_bounds, queue_bounds, queue_key},
    schema::{Table, has_room_for_a_flush, reclaiming},
    store::{Store, bounded},
};

/// Less than this is left to the ordinary compactions: each one of its own begins with a flush.
const COMPACT_MIN: u64 = 8 << 20;

/// How long RocksDB is left to what it has to do before it is looked at again.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Hands deleted queues to a thread that is started for the first of them.
pub(crate) struct Reclaimer {
    store: Arc<Store>,
    stopping: Arc<AtomicBool>,
    worker: Option<(Sender<QueueId>, JoinHandle<()>)>,
}

impl Reclaimer {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            stopping: Arc::new(AtomicBool::new(false)),
            worker: None,
        }
    }

    /// Frees these queues some time.
    pub(crate) fn free(&mut self, queues: &[QueueId]) {
        if queues.is_empty() {
            return;
        }
        if self.worker.is_none() {
            self.worker = self.start();
        }
        if let Some((sender, _)) = &self.worker {
            for queue in queues {
                // If the worker is gone, the rows in `dropped` are found at the next start.
                let _ = sender.send(*queue);
            }
        }
    }

    /// Ends the thread. What is not done is found again at the next start.
    pub(crate) fn stop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some((sender, thread)) = self.worker.take() {
            // Breaks off a compaction under way; nothing else of ours compacts by hand.
            self.store.db().disable_manual_compaction();
            drop(sender);
            let _ = thread.join();
        }
    }

    fn start(&self) -> Option<(Sender<QueueId>, JoinHandle<()>)> {
        let (sender, receiver) = channel();
        let store = Arc::clone(&self.store);
        let stopping = Arc::clone(&self.stopping);
        let thread = thread::Builder::new()
            .name("reclaim".to_owned())
            .spawn(move || work(&store, &receiver, &stopping));
        match thread {
            Ok(thread) => Some((sender, thread)),
            Err(error) => {
                tracing::warn!(%error, "deleted queues are freed at the next start only");
                None
            }
        }
    }
}

impl Drop for Reclaimer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Reclaimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reclaimer").finish_non_exhaustive()
    }
}

fn work(store: &Store, queues: &Receiver<QueueId>, stopping: &AtomicBool) {
    for queue in queues {
        if stopping.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = free(store, queue, stopping) {
            // A full or broken disk is the committer's to act on. The row in `dropped` stays.
            tracing::warn!(%queue, %error, "a deleted queue could not be freed yet");
        }
    }
}

fn free(store: &Store, queue: QueueId, stopping: &AtomicBool) -> Result<(), rocksdb::Error> {
    let db = store.db();
    let messages = Table::Messages.family(db);
    let (start, end) = queue_bounds(queue);
    let (start, end) = (start.as_slice(), end.as_slice());

    let mut rows = db.raw_iterator_cf_opt(&messages, bounded(start, end));
    rows.seek_to_first();
    let has_rows = rows.valid();
    rows.status()?;
    drop(rows);
    if has_rows {
        // Files first, the range delete after: a file of the last step could hold the range delete while older rows
        // lie in a file that other queues share.
        db.delete_file_in_range_cf(&messages, start, end)?;
        let mut batch = WriteBatch::new();
        batch.delete_range_cf(&messages, start, end);
        db.write_opt(&batch, &store.write_options(false))?;
    }
    if stored_bytes(store, start, end)? >= COMPACT_MIN {
        while !has_room_for_a_flush(db) {
            if stopping.load(Ordering::Relaxed) {
                return Ok(());
            }
            thread::sleep(LOOK_AGAIN_AFTER);
        }
        db.compact_range_cf_opt(&messages, Some(start), Some(end), &reclaiming());
        // It was broken off, or met a full disk, which nobody says: the next start does it again.
        if stopping.load(Ordering::Relaxed) || stored_bytes(store, start, end)? >= COMPACT_MIN {
            return Ok(());
        }
    }
    free_attempts(store, queue)?;
    let mut batch = WriteBatch::new();
    batch.delete_cf(&Table::Dropped.family(db), queue_key(Table::Dropped, queue));
    db.write_opt(&batch, &store.write_options(false))?;
    tracing::debug!(%queue, "a deleted queue is freed");
    Ok(())
}

/// What was counted of the queue's messages goes too.
fn free_attempts(store: &Store, queue: QueueId) -> Result<(), rocksdb::Error> {
    let attempts = Table::Attempts.family(store.db());
    let (start, end) = attempts_bounds(queue);
    let (start, end) = (start.as_slice(), end.as_slice());
    let mut rows = store
        .db()
        .raw_iterator_cf_opt(&attempts, bounded(start, end));
    rows.seek_to_first();
    let has_rows = rows.valid();
    rows.status()?;
    drop(rows);
    if has_rows {
        let mut batch = WriteBatch::new();
        batch.delete_range_cf(&attempts, start, end);
        store.db().write_opt(&batch, &store.write_options(false))?;
    }
    Ok(())
}

/// About how much these rows take, deletes of them included.
fn stored_bytes(store: &Store, start: &[u8], end: &[u8]) -> Result<u64, rocksdb::Error> {
    let mut options = SizeApproximationOptions::default();
    options.set_include_memtables(true);
    options.set_include_files(true);
    options.set_include_blob_files(true);
    let sizes = store.db().get_approximate_sizes_cf_with_options(
        &Table::Messages.family(store.db()),
        &options,
        &[Range::new(start, end)],
    )?;
    Ok(sizes.into_iter().sum())
}
