//! The one thread that writes: group commit of everything that waits.
//!
//! ```text
//!   send ─▶ inbox ─▶ batch ─▶ write ──(sync?)──▶ released(promises)
//!             ▲                                        │
//!             └── while one batch syncs, the next grows ┘
//! ```
//!
//! There is no artificial delay: a lone unit is written at once, and under load a batch is as large as a sync is slow.
//!
//! Always true:
//! * batches are written in the order in which their units were sent, one after the other;
//! * commit numbers have no gap: a number is taken by a batch that was written, and by no other;
//! * what was written without a sync is synced [`SYNC_LATER`] later at the latest;
//! * after a failed write or sync nothing is released any more.

use std::{
    any::Any,
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use leveret_core::record::Write;
use parking_lot::Mutex;
use rocksdb::{ErrorKind, FlushOptions};

use crate::{
    batch::{Batch, Families},
    directory::Directory,
    error::{CommitError, Obstacle},
    mark,
    options::SyncMode,
    reclaim::Reclaimer,
    schema::{self, Table},
    store::{Store, WriteSide},
};

mod inbox;

use inbox::{Inbox, Next, Segment};

/// How long an unsynced write (acks) may stay unsynced: the most a power cut brings back, flagged as redelivered (DP4).
const SYNC_LATER: Duration = Duration::from_millis(200);

/// How often the side file is written while commits are synced. It costs a sync of its own.
const MARK_EVERY: Duration = Duration::from_secs(1);

/// How long to wait on a full disk before looking for space again.
const RESUME_EVERY: Duration = Duration::from_millis(500);

/// How often RocksDB may refuse to go on although there is space, before the process ends and a restart recovers.
const RESUME_TRIES_MAX: u32 = 10;

/// Free space wanted beyond what has to be flushed, before RocksDB is asked to go on: a try that fails for want of
/// space may be its last.
const RESUME_SPARE_BYTES: u64 = 4 << 20;

/// How long nothing must have come before memory is given back: longer than the gaps of any traffic worth the name.
const REST_AFTER: Duration = Duration::from_secs(1);

/// Unflushed writes above this, and logs above it, are flushed at a clean stop and in quiet times. Below, they are no burden: replaying them
/// takes less than a tenth of a second.
const FLUSH_MIN: usize = 16 << 20;

/// What the committer did since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Batches written.
    pub commits: u64,
    /// Syncs of the log.
    pub syncs: u64,
    /// Rows written.
    pub rows: u64,
    /// Messages that were never written because they were forgotten in the batch that put them.
    pub cancelled: u64,
}

/// The write side of a store: takes units of writes, and releases promises when they are kept.
///
/// Dropping it without [`Committer::stop`] is what a crash looks like: what waits is not written, and the store is not
/// marked as cleanly stopped.
pub struct Committer<P> {
    shared: Arc<Shared<P>>,
    thread: Mutex<Option<CommitterThread>>,
}

struct CommitterThread {
    handle: JoinHandle<()>,
    end: Receiver<End>,
}

/// What the thread tells of its end.
enum End {
    /// All that was sent is on the disk, and so is the mark of a clean stop. What is still done spares the next start some work.
    Kept,
    Over(Result<(), CommitError>),
}

struct Shared<P> {
    inbox: Inbox<P>,
    listener: Mutex<Option<Listener>>,
    /// Held while units are joined.
    joining: Mutex<()>,
    out_of_space: AtomicBool,
    /// Since when the thread has been at what it does now.
    busy_since: Mutex<Option<Instant>>,
    commits: AtomicU64,
    syncs: AtomicU64,
    rows: AtomicU64,
    cancelled: AtomicU64,
}

/// What a listener of the committer is told, on its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// A batch was written: less waits than before.
    Written,
    /// A full disk holds up the batch that is being written, and all that come after it.
    OutOfSpace,
    /// There is space again, and the batch is being written.
    SpaceIsBack,
}

type Listener = Box<dyn Fn(Progress) + Send>;

impl<P: Send + 'static> Committer<P> {
    /// Starts the thread.
    ///
    /// `released` is called on it after a batch was written (and synced, if one of its units asked for it), with all
    /// promises of the batch in the order in which they were sent; what it leaves in the vector is dropped. `failed` is
    /// called at most once, when the thread ends for another reason than its owner's wish.
    ///
    /// # Errors
    ///
    /// When no thread can be started, or the store has or had a committer: there is one per opened store.
    pub fn start(
        store: Arc<Store>,
        released: impl FnMut(&mut Vec<P>) + Send + 'static,
        failed: impl FnOnce(CommitError) + Send + 'static,
    ) -> io::Result<Self> {
        let write_side = store
            .take_write_side()
            .ok_or_else(|| io::Error::other("the store has a committer already"))?;
        let shared = Arc::new(Shared {
            inbox: Inbox::new(),
            listener: Mutex::new(None),
            joining: Mutex::new(()),
            out_of_space: AtomicBool::new(false),
            busy_since: Mutex::new(None),
            commits: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
        });
        let (to_owner, end) = channel();
        let handle = thread::Builder::new().name("committer".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                let writer = Writer::new(store, shared, write_side, released, to_owner.clone());
                let result = run(writer, failed);
                // An owner that lost patience has gone.
                let _ = to_owner.send(End::Over(result));
            }
        })?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(CommitterThread { handle, end })),
        })
    }

    /// Appends one unit: all of `writes` are committed in one batch, then `promises` are released.
    ///
    /// Takes everything out of both vectors and leaves them their capacity. Never waits and never splits a unit; the order
    /// of calls is the order of commits. With `sync` the promises need the writes on disk; in a unit without writes they
    /// need everything on disk that was sent before. After the committer failed, units are dropped.
    ///
    /// Counters alone, without a sync, may be held back until the next batch, 200 ms at most; not when they say for
    /// the first time that messages of a queue may have been handed out.
    ///
    /// Nothing may be sent for a queue after its `DeleteQueue`.
    pub fn send(&self, writes: &mut Vec<Write>, promises: &mut Vec<P>, sync: bool) {
        self.shared.inbox.send(writes, promises, sync);
    }

    /// Commits in one batch whatever is sent while `work` runs, by anybody: all of it is there after a crash, or nothing.
    ///
    /// For work that changes several queues, one lock after the other. It must not wait for the committer, and is to be
    /// short: meanwhile nothing that is sent is written. Only one runs at a time; no lock that `work` takes may be held
    /// here by somebody who joins units himself.
    pub fn as_one_unit<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Also when the work panics.
        struct Parting<'a, P>(&'a Inbox<P>);
        impl<P> Drop for Parting<'_, P> {
            fn drop(&mut self) {
                self.0.part();
            }
        }
        let _one_at_a_time = self.shared.joining.lock();
        self.shared.inbox.join();
        let _parting = Parting(&self.shared.inbox);
        work()
    }

    /// Memory of everything that was sent and is not committed yet.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.shared.inbox.pending_bytes()
    }

    /// Memory of everything that was ever sent: a position in the stream of units. Grows only.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        self.shared.inbox.sent_bytes()
    }

    /// Up to which position of [`Self::sent_bytes`] everything was committed.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.shared.inbox.written_bytes()
    }

    /// Calls `listener` on the committer thread.
    ///
    /// A sender that wants to wait notes that first, then looks once more at what it waits for: it may have come in
    /// between. The listener must not set another one.
    pub fn set_listener(&self, listener: Box<dyn Fn(Progress) + Send>) {
        *self.shared.listener.lock() = Some(listener);
    }

    /// Whether a full disk holds up the batch that is being written. It goes on by itself when there is space.
    #[must_use]
    pub fn is_out_of_space(&self) -> bool {
        self.shared.out_of_space.load(Ordering::Relaxed)
    }

    /// For how long it has been writing or syncing what it took last; `None` while it waits for work. A disk that hangs
    /// shows here, and so does one that is full.
    #[must_use]
    pub fn busy_for(&self) -> Option<Duration> {
        let since = *self.shared.busy_since.lock();
        since.map(|since| since.elapsed())
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let Shared {
            commits,
            syncs,
            rows,
            cancelled,
            ..
        } = &*self.shared;
        Counters {
            commits: commits.load(Ordering::Relaxed),
            syncs: syncs.load(Ordering::Relaxed),
            rows: rows.load(Ordering::Relaxed),
            cancelled: cancelled.load(Ordering::Relaxed),
        }
    }

    /// Commits everything that waits, syncs, marks the store as cleanly stopped, and ends the thread.
    ///
    /// A disk that does not answer is waited for as long as `patience`. Then the thread is left behind: it ends, and lets go of
    /// the store, when the system lets go of it, and takes up nothing more.
    ///
    /// # Errors
    ///
    /// What ended the thread, if it failed before or on the way; `failed` was told too. [`CommitError::Unanswered`] when
    /// patience was lost, of which `failed` is told nothing.
    pub fn stop(&self, patience: Duration) -> Result<(), CommitError> {
        self.shared.inbox.order_stop();
        let Some(CommitterThread { handle, end }) = self.thread.lock().take() else {
            return Ok(());
        };
        let asked = Instant::now();
        let mut is_kept = false;
        let result = loop {
            match end.recv_timeout(patience.saturating_sub(asked.elapsed())) {
                Ok(End::Kept) => is_kept = true,
                Ok(End::Over(result)) => break result,
                // Nothing of it is needed any more.
                Err(RecvTimeoutError::Timeout) if is_kept => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    self.shared.inbox.order_abandon();
                    return Err(CommitError::Unanswered { patience });
                }
                // Only by a panic outside of what is caught; joining tells it.
                Err(RecvTimeoutError::Disconnected) => break Ok(()),
            }
        };
        match handle.join() {
            Ok(()) => result,
            Err(panic) => Err(panicked(&*panic)),
        }
    }
}

impl<P> Drop for Committer<P> {
    fn drop(&mut self) {
        if let Some(CommitterThread { handle, .. }) = self.thread.lock().take() {
            self.shared.inbox.order_abandon();
            // What it failed with was told to `failed`.
            let _ = handle.join();
        }
    }
}

impl<P> fmt::Debug for Committer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Committer")
            .field("pending_bytes", &self.shared.inbox.pending_bytes())
            .finish_non_exhaustive()
    }
}

fn run<P, R: FnMut(&mut Vec<P>)>(
    mut writer: Writer<P, R>,
    failed: impl FnOnce(CommitError),
) -> Result<(), CommitError> {
    // A panic here is a bug of ours; the process must learn of it like of any other reason why nothing is kept any more.
    let result = catch_unwind(AssertUnwindSafe(|| writer.run()))
        .unwrap_or_else(|panic| Err(panicked(&*panic)));
    writer.shared.inbox.close();
    if let Err(error) = &result
        && !writer.was_stopped_on_a_full_disk(error)
    {
        failed(error.clone());
    }
    // Before anybody is told that it is over: the store may be closed by it.
    drop(writer);
    result
}

fn panicked(panic: &(dyn Any + Send)) -> CommitError {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let reason = text
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    CommitError::Panicked { reason }
}

/// What the thread owns.
struct Writer<P, R> {
    store: Arc<Store>,
    shared: Arc<Shared<P>>,
    released: R,
    batch: Batch,
    next_commit: u64,
    /// The entries of the data directory are on the disk. Before that no file in it is.
    entries_synced: bool,
    /// The newest commit that is on the disk for sure, and the one the side file tells of.
    synced: u64,
    marked: u64,
    /// Since when something waits for a sync of the log, or counters wait to be written.
    unsettled_since: Option<Instant>,
    mark_due: Option<Instant>,
    /// When it is quiet, if nothing comes until then.
    rest_due: Option<Instant>,
    reclaimer: Reclaimer,
    owner: Sender<End>,
}

impl<P, R: FnMut(&mut Vec<P>)> Writer<P, R> {
    fn new(
        store: Arc<Store>,
        shared: Arc<Shared<P>>,
        write_side: WriteSide,
        released: R,
        owner: Sender<End>,
    ) -> Self {
        let newest = write_side.newest_commit;
        let mut reclaimer = Reclaimer::new(Arc::clone(&store));
        reclaimer.free(&write_side.dropped);
        // What the start has put back from the log takes memory, and would be put back by the next start again.
        let is_worth_a_flush = store.unflushed_bytes() > FLUSH_MIN;
        let rest_due = is_worth_a_flush.then(Instant::now);
        Self {
            store,
            shared,
            released,
            batch: Batch::new(),
            next_commit: newest + 1,
            // What is there at start may still be in the system's memory only; the first sync covers it.
            synced: 0,
            marked: write_side.marked,
            // A side file proves a sync of ours, and the first one comes after that of the entries.
            entries_synced: write_side.marked > 0,
            unsettled_since: None,
            mark_due: None,
            rest_due,
            reclaimer,
            owner,
        }
    }

    fn run(&mut self) -> Result<(), CommitError> {
        loop {
            *self.shared.busy_since.lock() = None;
            let next = self.shared.inbox.next(self.deadline());
            *self.shared.busy_since.lock() = Some(Instant::now());
            match next {
                Next::Commit(segment) => {
                    self.commit(segment)?;
                    self.rest_due = Some(Instant::now() + REST_AFTER);
                    self.tidy()?;
                }
                Next::Tidy => self.tidy()?,
                Next::Stop => return self.finish(),
                Next::Abandon => return Ok(()),
            }
        }
    }

    fn commit(&mut self, mut segment: Segment<P>) -> Result<(), CommitError> {
        let families = Families::of(self.store.db());
        self.batch
            .add(families, &segment.writes, segment.may_cancel())
            .map_err(|error| self.write_error(error))?;
        if self.batch.must_be_written() || (segment.sync_of_states && self.batch.has_states()) {
            self.write(segment.sync && self.store.sync_mode() == SyncMode::Always)?;
        } else {
            self.count_batch();
            self.batch.clear();
            if self.batch.has_states() {
                self.unsettled_since.get_or_insert_with(Instant::now);
            }
            if segment.barrier && self.store.sync_mode() == SyncMode::Always {
                self.settle()?;
            }
        }
        (self.released)(&mut segment.promises);
        self.shared.inbox.recycle(segment);
        self.tell(Progress::Written);
        Ok(())
    }

    fn tell(&self, progress: Progress) {
        if let Some(listener) = &*self.shared.listener.lock() {
            listener(progress);
        }
    }

    /// Writes the batch as the next commit.
    fn write(&mut self, sync: bool) -> Result<(), CommitError> {
        let families = Families::of(self.store.db());
        let number = self.next_commit;
        self.batch.close(families, number);
        if sync {
            self.sync_entries()?;
        }
        let options = self.store.write_options(sync);
        // Of the batch nothing counts before: it is written again as it is, under the same number, once RocksDB has moved what it
        // had to a new log.
        self.with_space(|writer| writer.store.db().write_opt(writer.batch.rows(), &options))?;
        self.next_commit += 1;
        self.shared.commits.fetch_add(1, Ordering::Relaxed);
        self.count_batch();
        self.reclaimer.free(self.batch.dropped());
        self.batch.clear();
        if sync {
            self.note_synced();
        } else if self.store.sync_mode() == SyncMode::Never {
            self.unsettled_since = None;
        } else {
            self.unsettled_since.get_or_insert_with(Instant::now);
        }
        Ok(())
    }

    /// Before the first sync of a new store. Here and not at its opening, so that a start does not wait for it.
    fn sync_entries(&mut self) -> Result<(), CommitError> {
        if !self.entries_synced {
            if let Some(directory) = self.store.directory() {
                let synced = directory.sync_entries();
                synced.map_err(|error| CommitError::Write {
                    reason: error.to_string(),
                })?;
            }
            self.entries_synced = true;
        }
        Ok(())
    }

    /// Does this once more whenever the disk was full and has space again.
    fn with_space(
        &mut self,
        step: impl Fn(&Self) -> Result<(), rocksdb::Error>,
    ) -> Result<(), CommitError> {
        while let Err(error) = step(self) {
            if !is_no_space(&error) {
                return Err(self.write_error(error));
            }
            self.wait_for_space(&error)?;
        }
        Ok(())
    }

    fn count_batch(&self) {
        self.shared
            .rows
            .fetch_add(self.batch.row_count(), Ordering::Relaxed);
        self.shared
            .cancelled
            .fetch_add(self.batch.cancelled(), Ordering::Relaxed);
    }

    /// Everything that was written is on the disk now.
    fn note_synced(&mut self) {
        self.shared.syncs.fetch_add(1, Ordering::Relaxed);
        self.synced = self.next_commit - 1;
        self.unsettled_since = None;
        if self.synced > self.marked {
            self.mark_due
                .get_or_insert_with(|| Instant::now() + MARK_EVERY);
        }
    }

    /// When [`Self::tidy`] has something to do, if nothing else happens.
    fn deadline(&self) -> Option<Instant> {
        let settle = self.unsettled_since.map(|since| since + self.sync_later());
        [settle, self.mark_due, self.rest_due]
            .into_iter()
            .flatten()
            .min()
    }

    fn sync_later(&self) -> Duration {
        match self.store.sync_mode() {
            SyncMode::Interval(interval) => interval,
            SyncMode::Always | SyncMode::Never => SYNC_LATER,
        }
    }

    /// Does what is due.
    fn tidy(&mut self) -> Result<(), CommitError> {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= Instant::now());
        if due(self.unsettled_since.map(|since| since + self.sync_later())) {
            self.settle()?;
        }
        if due(self.mark_due) {
            self.mark_due = None;
            self.write_mark()?;
        }
        if due(self.rest_due) {
            self.rest_due = None;
            self.rest()?;
        }
        Ok(())
    }

    /// Writes counters that wait, and syncs what was written without a sync.
    fn settle(&mut self) -> Result<(), CommitError> {
        let sync = self.store.sync_mode() != SyncMode::Never;
        if self.batch.has_states() {
            self.write(sync)?;
        } else if sync && self.unsettled_since.is_some() {
            self.sync_entries()?;
            // What RocksDB has moved to table files for want of space is on the disk already.
            self.with_space(|writer| writer.store.db().flush_wal(true))?;
            self.note_synced();
        }
        self.unsettled_since = None;
        Ok(())
    }

    /// Gives memory of busier times back. What was consumed meanwhile is flushed to nothing, so this costs little.
    fn rest(&mut self) -> Result<(), CommitError> {
        self.batch.shrink();
        self.shared.inbox.shrink();
        if self.is_worth_a_flush() {
            if !schema::has_room_for_a_flush(self.store.db()) {
                // Busier times are not over for RocksDB.
                self.rest_due = Some(Instant::now() + REST_AFTER);
                return Ok(());
            }
            let mut options = FlushOptions::default();
            options.set_wait(false);
            // Asked above, and RocksDB would wait here.
            options.set_allow_write_stall(true);
            match self.flush(&options) {
                // A full disk shows itself at the next write, which can wait for space.
                Err(error) if is_no_space(&error) => {}
                result => result.map_err(|error| self.write_error(error))?,
            }
        }
        Ok(())
    }

    /// Whether memory would be given back by it, or space: a few rows of counters keep logs whose messages are long gone.
    fn is_worth_a_flush(&self) -> bool {
        let log_bytes =
            |directory: &Directory| schema::log_bytes(&directory.rocksdb()).unwrap_or(0);
        self.store.unflushed_bytes() > FLUSH_MIN
            || self.store.directory().map_or(0, log_bytes) > FLUSH_MIN as u64
    }

    fn flush(&self, options: &FlushOptions) -> Result<(), rocksdb::Error> {
        let db = self.store.db();
        db.flush_cfs_opt(
            &[&Table::Messages.family(db), &Table::Meta.family(db)],
            options,
        )
    }

    fn write_mark(&mut self) -> Result<(), CommitError> {
        let Some(dir) = self.store.directory().map(Directory::path) else {
            return Ok(());
        };
        match mark::write(dir, self.synced) {
            Ok(()) => self.marked = self.synced,
            // An older mark stays true. The next sync tries again.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
                ) =>
            {
                tracing::warn!(%error, "no space for the mark of the newest synced commit");
            }
            Err(error) => {
                return Err(CommitError::Mark {
                    path: mark::path(dir),
                    reason: error.to_string(),
                });
            }
        }
        Ok(())
    }

    /// Returns when writing may be tried again.
    fn wait_for_space(&self, error: &rocksdb::Error) -> Result<(), CommitError> {
        let gave_up = |reason: String| Err(CommitError::NoSpace { reason });
        if !self.shared.out_of_space.swap(true, Ordering::Relaxed) {
            let wanted_mib = self.space_wanted() >> 20;
            tracing::error!(
                %error,
                "the disk is full; nothing is stored or confirmed until {wanted_mib} MiB are free"
            );
            self.tell(Progress::OutOfSpace);
        }
        let mut refused = 0;
        loop {
            if self.shared.inbox.pause(RESUME_EVERY) {
                return gave_up(error.to_string());
            }
            let wanted = self.space_wanted();
            let free = self.store.directory().map(Directory::free_bytes);
            if free.is_some_and(|free| free.is_ok_and(|free| free < wanted)) {
                continue;
            }
            let Err(refusal) = self.store.db().resume() else {
                break;
            };
            refused += 1;
            let hopeful = is_no_space(&refusal) || refusal.kind() == ErrorKind::Busy;
            if !hopeful {
                return Err(self.write_error(refusal));
            }
            if refused == RESUME_TRIES_MAX {
                return gave_up(refusal.into_string());
            }
        }
        self.shared.out_of_space.store(false, Ordering::Relaxed);
        tracing::info!("there is space on the disk again");
        self.tell(Progress::SpaceIsBack);
        Ok(())
    }

    /// Its owner wished it to end, and hears from the stop that there was no space: nothing else has failed.
    fn was_stopped_on_a_full_disk(&self, error: &CommitError) -> bool {
        matches!(error, CommitError::NoSpace { .. }) && self.shared.inbox.is_told_to_end()
    }

    /// Free bytes without which it is no use to go on: what is unflushed goes to table files first.
    fn space_wanted(&self) -> u64 {
        self.store.unflushed_bytes() as u64 + RESUME_SPARE_BYTES
    }

    fn write_error(&self, error: rocksdb::Error) -> CommitError {
        match self.store.directory() {
            Some(directory) if error.kind() == ErrorKind::Corruption => CommitError::Damaged {
                dir: directory.path().to_owned(),
                reason: error.into_string(),
            },
            _ => match Obstacle::of(&error) {
                Some(obstacle) => CommitError::Obstacle {
                    obstacle,
                    reason: error.into_string(),
                },
                None => CommitError::Write {
                    reason: error.into_string(),
                },
            },
        }
    }

    /// The last commit of a clean stop.
    fn finish(&mut self) -> Result<(), CommitError> {
        self.reclaimer.stop();
        let nothing_ever_written = self.next_commit == 1 && !self.batch.has_states();
        if nothing_ever_written || self.store.directory().is_none() {
            return Ok(());
        }
        self.batch
            .mark_clean_stop(Families::of(self.store.db()), self.next_commit);
        self.write(true)?;
        self.write_mark()?;
        // Who lost patience is not there to be told.
        let _ = self.owner.send(End::Kept);
        // The stop is on the disk by now; this spares the next start some work.
        if self.is_worth_a_flush() {
            let mut options = FlushOptions::default();
            // Nobody writes any more whom it could hold up. Without this it waits for compactions, whatever they take.
            options.set_allow_write_stall(true);
            if let Err(error) = self.flush(&options) {
                tracing::info!(%error, "the log could not be written to table files; the next start reads it");
            }
        }
        Ok(())
    }
}

/// The one obstacle behind which RocksDB goes on without being opened anew.
fn is_no_space(error: &rocksdb::Error) -> bool {
    Obstacle::of(error) == Some(Obstacle::NoSpace)
}
