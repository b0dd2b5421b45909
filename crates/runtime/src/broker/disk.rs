//! How the broker stands with its disk: what waits for it, who waits for it, and how long a stop does.

use std::{future, pin::pin, sync::atomic::Ordering, time::Duration};

use leveret_core::record::Write;
use leveret_store::CommitError;
use tokio::sync::oneshot;

use super::{Broker, Services};
use crate::{promise::Promise, unwritten::Unwritten};

/// Within which time a disk that is well ends a write or a sync, also a slow one. Beyond it health checks fail.
const DISK_ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// Writes that may wait for the committer before publishing connections are no longer read.
const UNWRITTEN_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What of it may be one connection's: a flood on one leaves room for the others.
const UNWRITTEN_BYTES_OF_ONE_MAX: u64 = 16 * 1024 * 1024;

/// How long a stop waits for a disk that does not answer. What is not stored by then was not promised.
const STOP_WITHIN: Duration = Duration::from_secs(10);

impl Services {
    /// Returns once every change of metadata handed in so far is on disk, also those of others: a
    /// declare that finds what another one has just made promises as much.
    pub(crate) async fn metadata_stored(&self) {
        if self.metadata_stored.load(Ordering::Acquire) < *self.metadata_sent.lock() {
            self.barrier().await;
        }
    }

    /// Returns when no more waits for the disk than may wait.
    pub(crate) async fn disk_keeps_up(&self) {
        loop {
            let mut relieved = pin!(self.relief.notified());
            relieved.as_mut().enable();
            if self.committer.pending_bytes() < UNWRITTEN_BYTES_MAX {
                return;
            }
            relieved.await;
        }
    }

    /// Returns once everything handed to the committer so far is on disk.
    pub(crate) async fn barrier(&self) {
        let (sender, stored) = oneshot::channel();
        self.committer
            .send(&mut Vec::new(), &mut vec![Promise::Barrier(sender)], true);
        if stored.await.is_err() {
            // Dropped, not kept: the store failed or was closed, and nobody must hear that this is stored. Whoever ends the
            // process, or the connection, ends this wait as well.
            future::pending().await
        }
    }
}

impl Broker {
    /// What a confirm waits for: `always`, `interval` or `never`, as in `storage.sync`; `memory` without a directory.
    #[must_use]
    pub fn storage_sync(&self) -> &'static str {
        self.services.storage_sync
    }

    /// For how long the disk has not answered, once that is longer than a slow one takes.
    #[must_use]
    pub fn disk_silence(&self) -> Option<Duration> {
        let busy = self.services.committer.busy_for();
        busy.filter(|busy| *busy >= DISK_ANSWERS_WITHIN)
    }

    /// Batches that were written, and syncs of the log, since the start.
    #[must_use]
    pub fn commits_and_syncs(&self) -> (u64, u64) {
        let counters = self.services.committer.counters();
        (counters.commits, counters.syncs)
    }

    /// Whether a publishing connection may be read on; it has handed in `unwritten`.
    #[must_use]
    pub fn has_room_for_writes(&self, unwritten: &mut Unwritten) -> bool {
        let committer = &self.services.committer;
        unwritten.forget_until(committer.written_bytes());
        self.services.transfers.has_room()
            && committer.pending_bytes() < UNWRITTEN_BYTES_MAX
            && unwritten.bytes < UNWRITTEN_BYTES_OF_ONE_MAX
    }

    /// Back-pressure: a publishing connection waits here before it reads on, while the disk is behind.
    pub async fn room_for_writes(&self, unwritten: &mut Unwritten) {
        loop {
            let mut relieved = pin!(self.services.relief.notified());
            relieved.as_mut().enable();
            if self.has_room_for_writes(unwritten) {
                return;
            }
            if self.services.transfers.has_room() {
                relieved.await;
            } else {
                self.services.transfers.room().await;
            }
        }
    }

    /// A connection handed in so many bytes that are to be stored, with everything it has submitted.
    pub fn note_unwritten(&self, unwritten: &mut Unwritten, bytes: u64) {
        unwritten.note(self.services.committer.sent_bytes(), bytes);
    }

    /// Waits until everything handed in so far is on disk and what was promised for it has left.
    pub async fn flush(&self) {
        self.services.barrier().await;
    }

    /// Waits until everything that died is where it goes; before a stop, so that it is not in its old queue after it.
    pub async fn drain(&self) {
        self.services.transfers.idle().await;
    }

    /// An orderly stop, when no connection is left: writes down what was handed out, syncs, and
    /// marks the directory as cleanly closed. Nothing may be sent to this broker afterwards.
    ///
    /// A disk that does not answer is waited for 10 s, no longer.
    ///
    /// # Errors
    ///
    /// When the last writes fail, or are not known to be there; the next start then treats the stop as a crash.
    pub fn stop(&self) -> Result<(), CommitError> {
        let queues = self.services.registry.all_queues();
        let mut writes: Vec<Write> = queues
            .iter()
            .filter_map(|queue| queue.state_at_stop())
            .collect();
        let committer = &self.services.committer;
        committer.send(&mut writes, &mut Vec::new(), true);
        committer.stop(STOP_WITHIN)
    }
}
