//! A deleted queue is gone at once, and its space soon.
#![allow(clippy::unwrap_used, reason = "a test may unwrap, its helpers too")]

mod common;

use std::{fs, path::Path, thread};

use common::{Broker, QUEUE, data_dir, put, put_in, put_queue, state};
use leveret_core::{
    ids::{QueueId, Seq},
    record::{MetaChange, Write},
};

const OTHER: QueueId = QueueId::new(2);

fn delete(queue: QueueId) -> Write {
    Write::Meta(MetaChange::DeleteQueue(queue))
}

fn table_bytes(dir: &Path) -> u64 {
    fs::read_dir(dir.join("rocksdb"))
        .unwrap()
        .filter_map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            // Files may vanish while they are listed.
            (name.ends_with(".sst") || name.ends_with(".blob")).then(|| entry.metadata().ok())?
        })
        .map(|meta| meta.len())
        .sum()
}

#[test]
fn its_record_counters_and_messages_are_gone_after_a_restart() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put_queue(QUEUE), put(1, "gone"), state(2, 1)]);
    broker.commit([put_queue(OTHER), put_in(OTHER, 0, 1, "kept")]);
    broker.commit([state(9, 9), delete(QUEUE)]);
    drop(broker);

    let broker = Broker::open(dir.path());
    let ids: Vec<_> = broker
        .recovered
        .queues
        .iter()
        .map(|(queue, _)| queue.id)
        .collect();
    assert_eq!(ids, [OTHER]);
    assert_eq!(broker.bodies(OTHER), ["kept"]);
    while !broker.bodies(QUEUE).is_empty() {
        thread::yield_now();
    }
    broker.stop();
}

#[test]
fn freeing_is_done_again_after_a_crash_until_it_is_done() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put_queue(QUEUE), put(1, "gone"), state(2, 1), delete(QUEUE)]);
    // The batch is written, and freeing may or may not have begun.
    let crashed = common::crash_copy(dir.path());
    drop(broker);

    let broker = Broker::open(crashed.path());
    assert!(broker.recovered.report.dropped_queues <= 1);
    while !broker.bodies(QUEUE).is_empty() {
        thread::yield_now();
    }
    drop(broker);
    loop {
        // Each start goes on where the last one was killed.
        let broker = Broker::open(crashed.path());
        if broker.recovered.report.dropped_queues == 0 {
            break;
        }
    }
}

#[test]
fn the_space_of_a_large_queue_comes_back() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([
        put_queue(QUEUE),
        put_queue(OTHER),
        put_in(OTHER, 0, 1, "kept"),
    ]);
    for seq in 0..40 {
        // Bodies that do not compress, some of them large enough for blob files.
        let body_len = if seq % 2 == 0 { 10_000 } else { 50_000 };
        let rows = 1_000_000 / body_len;
        broker
            .commit((0..rows).map(|row| put(seq * 1000 + row, noise(seq * 1000 + row, body_len))));
    }
    broker.commit([put_in(OTHER, 0, 2, "kept too")]);
    broker.stop();
    assert!(table_bytes(dir.path()) > 30_000_000);

    let mut broker = Broker::open(dir.path());
    broker.commit([delete(QUEUE)]);
    while table_bytes(dir.path()) > 1_000_000 {
        thread::yield_now();
    }
    assert_eq!(broker.bodies(QUEUE), [""; 0]);
    assert_eq!(broker.bodies(OTHER), ["kept", "kept too"]);
}

#[test]
fn many_small_queues_come_and_go() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    for id in 10..50 {
        let id = QueueId::new(id);
        broker.send([put_queue(id), put_in(id, 0, 1, "gone")], id.get(), false);
        broker.send([delete(id)], id.get(), false);
    }
    broker.commit([Write::Meta(MetaChange::NextQueueId(QueueId::new(50)))]);
    broker.stop();
    loop {
        let broker = Broker::open(dir.path());
        assert!(broker.recovered.queues.is_empty());
        assert_eq!(broker.recovered.next_queue_id, QueueId::new(50));
        if broker.recovered.report.dropped_queues == 0 {
            for id in 10..50 {
                assert!(broker.read(QueueId::new(id)).is_empty());
            }
            break;
        }
    }
}

#[test]
fn a_stop_does_not_wait_for_freeing() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit((0..1000).map(|seq| put(seq, noise(seq, 10_000))));
    broker.commit([delete(QUEUE)]);
    broker.stop();
    let broker = Broker::open(dir.path());
    assert!(broker.recovered.report.clean);
    let from = Seq::new(0);
    while !broker
        .store
        .read_messages(QUEUE, 0, from, from.next(), 1, 1)
        .unwrap()
        .rows
        .is_empty()
    {
        thread::yield_now();
    }
}

fn noise(seed: u64, len: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .collect()
}
