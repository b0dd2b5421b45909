//! The committer with RocksDB in memory: all threads are counted, and opening the store as well.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
    time::Duration,
};

use gungraun::{Callgrind, EntryPoint, LibraryBenchmarkConfig, library_benchmark};
use leveret_core::{
    ids::{QueueId, Seq, Timestamp},
    record::Write,
};
use leveret_store::{Committer, Options, Store};

use crate::{MESSAGES, queue::message};

const QUEUE: QueueId = QueueId::new(1);
const BATCH: u64 = 100;
const PATIENCE: Duration = Duration::from_secs(60);

struct Running {
    committer: Committer<u64>,
    released: Receiver<usize>,
}

fn start() -> Running {
    let (store, _) = Store::in_memory(&Options::default()).expect("a store");
    let (tell, released) = channel();
    let tell = move |promises: &mut Vec<u64>| {
        let _ = tell.send(promises.drain(..).count());
    };
    let failed = |failure| panic!("the committer failed: {failure}");
    let committer = Committer::start(Arc::clone(&store), tell, failed).expect("a thread");
    Running {
        committer,
        released,
    }
}

fn put(seq: u64) -> Write {
    Write::Put {
        queue: QUEUE,
        priority: 0,
        seq: Seq::new(seq),
        enqueued_at: Timestamp::new(1_000),
        due: Timestamp::NEVER,
        message: message(true),
    }
}

fn forget(seq: u64) -> Write {
    Write::Forget {
        queue: QUEUE,
        priority: 0,
        seq: Seq::new(seq),
    }
}

impl Running {
    /// Batches of units with one write each, synced and waited for.
    fn commit(&self, writes: impl Fn(u64) -> Vec<Write>) {
        for batch in 0..MESSAGES / BATCH {
            self.committer.as_one_unit(|| {
                for seq in batch * BATCH..(batch + 1) * BATCH {
                    let (mut writes, mut promises) = (writes(seq), vec![seq]);
                    self.committer.send(&mut writes, &mut promises, true);
                }
            });
            let mut due = BATCH as usize;
            while due > 0 {
                due -= self.released.recv().expect("a committer");
            }
        }
    }
}

pub(crate) fn all_threads() -> LibraryBenchmarkConfig {
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(Callgrind::default().entry_point(EntryPoint::None));
    config
}

// Each message lies on disk for a while before it is acked.
#[library_benchmark]
#[bench::in_batches_of_100()]
fn put_and_forget() {
    let running = start();
    running.commit(|seq| vec![put(seq)]);
    running.commit(|seq| vec![forget(seq)]);
    running.committer.stop(PATIENCE).expect("stopped");
}

// Each message is acked before it was written.
#[library_benchmark]
#[bench::in_batches_of_100()]
fn cancelled_pairs() {
    let running = start();
    running.commit(|seq| vec![put(seq), forget(seq)]);
    running.committer.stop(PATIENCE).expect("stopped");
}
