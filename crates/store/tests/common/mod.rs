//! A store with a committer whose promises are numbers, and short ways to write messages.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its part")]

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    time::Duration,
};

use leveret_core::{
    arguments::QueueType,
    ids::{QueueId, Seq, Timestamp},
    message::{Message, MessageParts},
    queue::StoredMessage,
    record::{MetaChange, QueueRecord, QueueState, Write},
};
use leveret_store::{CommitError, Committer, OpenError, Options, Recovered, Store};
use leveret_wire::value::{FieldTable, ShortString};
use tempfile::TempDir;

/// No answer of the committer takes this long; a test that waits for it is broken, not slow.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const QUEUE: QueueId = QueueId::new(1);

pub fn data_dir() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// An open store with a running committer. Dropped without [`Broker::stop`] it is a crash: nothing is marked as clean.
pub struct Broker {
    // Before the store: its thread holds the store open.
    pub committer: Committer<u64>,
    pub store: Arc<Store>,
    pub recovered: Recovered,
    released: Receiver<Vec<u64>>,
    failed: Receiver<CommitError>,
    writes: Vec<Write>,
    promises: Vec<u64>,
}

impl Broker {
    #[track_caller]
    pub fn open(dir: impl AsRef<Path>) -> Self {
        Self::open_with(dir, &Options::default())
    }

    #[track_caller]
    pub fn open_with(dir: impl AsRef<Path>, options: &Options) -> Self {
        Self::try_open(dir, options).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn try_open(dir: impl AsRef<Path>, options: &Options) -> Result<Self, OpenError> {
        Store::open(dir.as_ref(), options).map(|(store, recovered)| Self::over(store, recovered))
    }

    /// Without a directory.
    #[track_caller]
    pub fn in_memory(options: &Options) -> Self {
        let (store, recovered) = Store::in_memory(options).unwrap();
        Self::over(store, recovered)
    }

    fn over(store: Arc<Store>, recovered: Recovered) -> Self {
        let (to_test, released) = channel();
        let (failure, failed) = channel();
        let committer = Committer::start(
            Arc::clone(&store),
            move |promises: &mut Vec<u64>| {
                // A test that is done does not listen any more.
                let _ = to_test.send(std::mem::take(promises));
            },
            move |error| failure.send(error).unwrap_or(()),
        )
        .unwrap();
        let (writes, promises) = (Vec::new(), Vec::new());
        Self {
            committer,
            store,
            recovered,
            released,
            failed,
            writes,
            promises,
        }
    }

    /// One unit with one promise, not waited for.
    pub fn send(&mut self, writes: impl IntoIterator<Item = Write>, promise: u64, sync: bool) {
        self.writes.extend(writes);
        self.promises.push(promise);
        self.committer
            .send(&mut self.writes, &mut self.promises, sync);
        assert!(self.writes.is_empty() && self.promises.is_empty());
    }

    /// Promises of the next batch.
    #[track_caller]
    pub fn next_released(&self) -> Vec<u64> {
        self.released
            .recv_timeout(PATIENCE)
            .expect("the committer releases promises")
    }

    /// Whether the committer has ended by itself.
    pub fn has_failed(&self) -> bool {
        self.failed.try_recv().is_ok()
    }

    /// Waits until this promise is released, and gives all that came up to it.
    #[track_caller]
    pub fn wait_for(&self, promise: u64) -> Vec<u64> {
        let mut seen = Vec::new();
        while !seen.contains(&promise) {
            seen.extend(self.next_released());
        }
        seen
    }

    /// One synced unit, waited for.
    #[track_caller]
    pub fn commit(&mut self, writes: impl IntoIterator<Item = Write>) {
        self.send(writes, u64::MAX, true);
        self.wait_for(u64::MAX);
    }

    #[track_caller]
    pub fn commit_meta(&mut self, changes: impl IntoIterator<Item = MetaChange>) {
        self.commit(changes.into_iter().map(Write::Meta));
    }

    #[track_caller]
    pub fn next_failure(&self) -> CommitError {
        self.failed
            .recv_timeout(PATIENCE)
            .expect("the committer fails")
    }

    /// Whether promises are released; if not, why not.
    #[track_caller]
    pub fn released_or_failed(&self) -> Result<Vec<u64>, CommitError> {
        match self.released.recv_timeout(PATIENCE) {
            Ok(promises) => Ok(promises),
            // The committer is gone and its callback with it.
            Err(RecvTimeoutError::Disconnected) => Err(self.next_failure()),
            Err(RecvTimeoutError::Timeout) => panic!("the committer does nothing"),
        }
    }

    /// Promises of a batch that was released already.
    pub fn try_released(&self) -> Option<Vec<u64>> {
        self.released.try_recv().ok()
    }

    #[track_caller]
    pub fn stop(self) {
        self.try_stop().unwrap();
    }

    pub fn try_stop(self) -> Result<(), CommitError> {
        let Self {
            committer, store, ..
        } = self;
        let stopped = committer.stop(PATIENCE);
        // Nobody else may keep the directory.
        assert_eq!(Arc::strong_count(&store), 1);
        stopped
    }

    /// All of one priority, in pages of `rows_max`.
    #[track_caller]
    pub fn read_in_pages(
        &self,
        queue: QueueId,
        priority: u8,
        rows_max: usize,
    ) -> Vec<StoredMessage> {
        let mut all = Vec::new();
        let mut from = Some(Seq::new(0));
        while let Some(start) = from {
            let page = self
                .store
                .read_messages(
                    queue,
                    priority,
                    start,
                    Seq::new(u64::MAX),
                    rows_max,
                    1 << 20,
                )
                .unwrap();
            all.extend(page.rows);
            from = page.next;
        }
        all
    }

    #[track_caller]
    pub fn read(&self, queue: QueueId) -> Vec<StoredMessage> {
        self.read_in_pages(queue, 0, 1000)
    }

    /// Bodies of one queue, as text.
    #[track_caller]
    pub fn bodies(&self, queue: QueueId) -> Vec<String> {
        self.read(queue)
            .iter()
            .map(|row| String::from_utf8_lossy(row.message.body()).into_owned())
            .collect()
    }

    #[track_caller]
    pub fn seqs(&self, queue: QueueId) -> Vec<u64> {
        self.read(queue).iter().map(|row| row.seq.get()).collect()
    }
}

pub fn short(text: &str) -> ShortString {
    ShortString::try_from(text).unwrap()
}

pub fn message(body: impl Into<Vec<u8>>) -> Message {
    Message::new(MessageParts {
        exchange: b"",
        routing_key: b"jobs",
        properties: &[0, 0],
        body: body.into().into(),
        persistent: true,
        priority: None,
    })
}

pub fn put(seq: u64, body: impl Into<Vec<u8>>) -> Write {
    put_in(QUEUE, 0, seq, body)
}

pub fn put_in(queue: QueueId, priority: u8, seq: u64, body: impl Into<Vec<u8>>) -> Write {
    let enqueued_at = Timestamp::new(1_000 + seq);
    Write::Put {
        queue,
        priority,
        seq: Seq::new(seq),
        enqueued_at,
        due: Timestamp::NEVER,
        message: message(body),
    }
}

pub fn forget(seq: u64) -> Write {
    forget_in(QUEUE, 0, seq)
}

pub fn forget_in(queue: QueueId, priority: u8, seq: u64) -> Write {
    Write::Forget {
        queue,
        priority,
        seq: Seq::new(seq),
    }
}

pub fn forget_range(from: u64, until: u64) -> Write {
    Write::ForgetRange {
        queue: QUEUE,
        priority: 0,
        from: Seq::new(from),
        until: Seq::new(until),
    }
}

pub fn state(next: u64, messages: u64) -> Write {
    state_of(
        QUEUE,
        QueueState {
            next: Seq::new(next),
            messages,
            ..QueueState::default()
        },
    )
}

pub fn state_of(queue: QueueId, state: QueueState) -> Write {
    Write::State { queue, state }
}

pub fn queue_record(id: QueueId) -> QueueRecord {
    QueueRecord {
        id,
        vhost: short("/"),
        name: short(&format!("queue-{id}")),
        durable: true,
        exclusive_to: None,
        auto_delete: false,
        queue_type: QueueType::Classic,
        arguments: FieldTable::new(),
    }
}

pub fn put_queue(id: QueueId) -> Write {
    Write::Meta(MetaChange::PutQueue(queue_record(id)))
}

/// A copy of a data directory as a crash at this moment would leave it.
pub fn crash_copy(dir: &Path) -> TempDir {
    let copy = data_dir();
    copy_files(dir, copy.path());
    copy
}

fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy_files(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// Logs of the database, oldest first.
pub fn log_files(dir: &Path) -> Vec<PathBuf> {
    let mut logs: Vec<_> = std::fs::read_dir(dir.join("rocksdb"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    logs.sort();
    logs
}
