//! A store without a directory keeps what it is given until it ends.
#![allow(clippy::unwrap_used, reason = "a test may unwrap, its helpers too")]

mod common;

use common::{Broker, QUEUE, forget, put, state};
use leveret_store::Options;

/// Small enough that a few hundred rows are flushed, compacted and read back from table files.
fn small_buffers() -> Options {
    Options {
        write_buffer_bytes: 64 << 10,
        ..Options::default()
    }
}

#[test]
fn what_is_stored_is_read_back_in_order() {
    let mut broker = Broker::in_memory(&small_buffers());
    assert!(broker.recovered.report.in_memory);
    for seq in 0..400 {
        broker.send([put(seq, vec![b'x'; 1000])], seq, true);
    }
    broker.wait_for(399);
    broker.commit((0..100).map(forget).chain([state(400, 300)]));
    assert_eq!(broker.seqs(QUEUE), (100..400).collect::<Vec<_>>());
    broker.stop();
}

#[test]
fn nothing_is_synced_and_no_log_grows() {
    let mut broker = Broker::in_memory(&Options::default());
    for seq in 0..100 {
        broker.send([put(seq, "body")], seq, true);
    }
    broker.wait_for(99);
    assert_eq!(broker.committer.counters().syncs, 0);
    broker.stop();
}

#[test]
fn two_of_them_know_nothing_of_each_other() {
    let mut first = Broker::in_memory(&Options::default());
    let second = Broker::in_memory(&Options::default());
    first.commit([put(0, "mine")]);
    assert_eq!(first.bodies(QUEUE), ["mine"]);
    assert!(second.bodies(QUEUE).is_empty());
}
