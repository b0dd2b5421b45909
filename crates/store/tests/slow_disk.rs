//! What a disk that is slow to write table files holds up, and what it does not.
#![allow(clippy::unwrap_used, reason = "a test may unwrap, its helpers too")]

mod common;

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use common::{Broker, data_dir, log_files, put};
use leveret_store::Options;

/// A quiet moment in which the committer gives memory back, and a little more.
const QUIET: Duration = Duration::from_millis(1500);

/// Three closed write buffers, of which two are being written, and a fourth one begun, which a quiet moment would flush.
fn with_full_buffers(dir: &std::path::Path) -> Broker {
    let options = Options {
        write_buffer_bytes: 6 << 20,
        background_bytes_per_second: 2 << 20,
        ..Options::default()
    };
    let mut broker = Broker::open_with(dir, &options);
    for seq in 0..1_900 {
        broker.send([put(seq, vec![0; 10 << 10])], seq, false);
    }
    broker.wait_for(1_899);
    broker
}

#[test]
fn a_commit_after_a_quiet_moment_does_not_wait_for_table_files() {
    let dir = data_dir();
    let mut broker = with_full_buffers(dir.path());
    let logs = log_files(dir.path());
    let began = Instant::now();
    thread::sleep(QUIET);

    let asked = Instant::now();
    broker.commit([put(1_900, "next")]);
    let waited = asked.elapsed();

    // The oldest log goes with the end of the flush.
    while logs[0].exists() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{:?}",
            fs::read_dir(dir.path().join("rocksdb"))
        );
        thread::sleep(Duration::from_millis(10));
    }
    let flushed = began.elapsed();
    assert!(flushed > 3 * QUIET, "the disk was not slow: {flushed:?}");
    assert!(
        waited < (flushed - QUIET) / 2,
        "waited {waited:?}, with a flush that took {flushed:?}"
    );
}
