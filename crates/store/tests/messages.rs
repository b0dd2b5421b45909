//! Put, forget, purge and read.
#![allow(clippy::unwrap_used, reason = "a test may unwrap, its helpers too")]

mod common;

use std::time::Duration;

use common::{
    Broker, QUEUE, data_dir, forget, forget_in, forget_range, message, put, put_in, put_queue,
    state,
};
use leveret_core::{
    ids::{QueueId, Seq, Timestamp},
    message::{Message, MessageParts},
    record::Write,
};
use leveret_store::{Options, SyncMode};

const OTHER: QueueId = QueueId::new(2);

#[test]
fn a_message_comes_back_as_it_was_published() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    for (seq, body_len) in [(1, 0), (2, 100), (3, 5_000), (4, 100_000)] {
        let sent = Message::new(MessageParts {
            exchange: b"\xff not text",
            routing_key: &[b'k'; 255],
            properties: &[0x98, 0x00, 3, b'a', b'/', b'b', 2, 9],
            body: vec![seq as u8; body_len].into(),
            persistent: true,
            priority: Some(9),
        });
        let enqueued_at = Timestamp::new(u64::MAX - seq);
        // Half of them never leave by themselves.
        let due = match seq % 2 {
            0 => Timestamp::NEVER,
            _ => Timestamp::new(77 + seq),
        };
        let seq = Seq::new(seq);
        let message = sent.clone();
        broker.commit([Write::Put {
            queue: QUEUE,
            priority: 0,
            seq,
            enqueued_at,
            due,
            message,
        }]);
        let page = broker
            .store
            .read_messages(QUEUE, 0, seq, seq.next(), 1, 0)
            .unwrap();
        assert_eq!(page.rows.len(), 1);
        assert_eq!(
            (page.rows[0].seq, page.rows[0].enqueued_at),
            (seq, enqueued_at)
        );
        assert_eq!(page.rows[0].due, Some(due));
        assert_eq!(page.rows[0].message, sent);
        assert_eq!(page.next, None);
    }
}

#[test]
fn a_forgotten_message_is_gone_also_after_a_restart() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put(1, "one"), put(2, "two"), put(3, "three")]);
    broker.commit([forget(2)]);
    assert_eq!(broker.bodies(QUEUE), ["one", "three"]);
    drop(broker);
    assert_eq!(Broker::open(dir.path()).bodies(QUEUE), ["one", "three"]);
}

#[test]
fn queues_and_priorities_do_not_see_each_other() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([
        put_in(QUEUE, 0, 1, "low"),
        put_in(QUEUE, 9, 1, "high"),
        put_in(OTHER, 0, 1, "other"),
        put_in(QueueId::new(0), 0, 1, "before"),
    ]);
    broker.commit([forget_in(QUEUE, 9, 1)]);
    assert_eq!(broker.bodies(QUEUE), ["low"]);
    assert_eq!(broker.read_in_pages(QUEUE, 9, 10), []);
    assert_eq!(broker.bodies(OTHER), ["other"]);
}

#[test]
fn pages_are_bounded_in_rows_and_go_on_where_they_ended() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit((10..20).map(|seq| put(seq, "body")));
    let page = broker
        .store
        .read_messages(QUEUE, 0, Seq::new(0), Seq::new(100), 4, 1 << 20)
        .unwrap();
    assert_eq!(
        page.rows
            .iter()
            .map(|row| row.seq.get())
            .collect::<Vec<_>>(),
        [10, 11, 12, 13]
    );
    assert_eq!(page.next, Some(Seq::new(14)));
    for rows_max in [1, 3, 9, 10, 11] {
        let all = broker.read_in_pages(QUEUE, 0, rows_max);
        assert_eq!(all.len(), 10, "in pages of {rows_max}");
        assert!(all.is_sorted_by_key(|row| row.seq));
    }
}

#[test]
fn a_page_that_ends_with_the_range_says_so() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit((0..10).map(|seq| put(seq, "body")));
    let page = broker
        .store
        .read_messages(QUEUE, 0, Seq::new(2), Seq::new(5), 3, 1 << 20)
        .unwrap();
    assert_eq!((page.rows.len(), page.next), (3, None));
    let page = broker
        .store
        .read_messages(QUEUE, 0, Seq::new(5), Seq::new(5), 3, 1 << 20)
        .unwrap();
    assert_eq!((page.rows.len(), page.next), (0, None));
}

#[test]
fn pages_are_bounded_in_bytes_but_never_empty() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit((0..10).map(|seq| put(seq, vec![0; 1000])));
    let read = |bytes_max| {
        let (from, until) = (Seq::new(0), Seq::new(100));
        broker
            .store
            .read_messages(QUEUE, 0, from, until, 100, bytes_max)
            .unwrap()
    };
    assert_eq!(read(0).rows.len(), 1);
    assert_eq!(read(3500).rows.len(), 3);
    assert_eq!(read(3500).next, Some(Seq::new(3)));
    assert_eq!(read(1 << 20).rows.len(), 10);
}

#[test]
fn a_purge_removes_a_range_and_nothing_beside_it() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit((0..10).map(|seq| put(seq, "body")));
    broker.commit([
        put_in(QUEUE, 1, 5, "other priority"),
        put_in(OTHER, 0, 5, "other queue"),
    ]);
    broker.commit([forget_range(3, 7), forget_range(9, 9)]);
    assert_eq!(broker.seqs(QUEUE), [0, 1, 2, 7, 8, 9]);
    assert_eq!(broker.read_in_pages(QUEUE, 1, 10).len(), 1);
    assert_eq!(broker.seqs(OTHER), [5]);
    drop(broker);
    assert_eq!(Broker::open(dir.path()).seqs(QUEUE), [0, 1, 2, 7, 8, 9]);
}

#[test]
fn a_purge_covers_what_was_put_before_it_in_the_same_unit() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([
        put(1, "one"),
        put(2, "two"),
        forget_range(0, 3),
        put(3, "three"),
    ]);
    assert_eq!(broker.seqs(QUEUE), [3]);
}

#[test]
fn a_message_put_and_forgotten_in_one_batch_is_never_written() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put_queue(QUEUE)]);
    let before = broker.committer.counters();
    broker.commit([
        put(1, "one"),
        put(2, "two"),
        state(3, 2),
        forget(1),
        state(3, 1),
    ]);
    let after = broker.committer.counters();
    assert_eq!(after.cancelled - before.cancelled, 1);
    // One message and the last counters.
    assert_eq!(after.rows - before.rows, 2);
    assert_eq!(broker.bodies(QUEUE), ["two"]);
}

#[test]
fn a_batch_of_nothing_but_pairs_does_not_touch_the_disk() {
    let dir = data_dir();
    // Nothing but a next batch writes the counters down, however slow the machine is.
    let sync = SyncMode::Interval(Duration::from_secs(3600));
    let options = Options {
        sync,
        ..Options::default()
    };
    let mut broker = Broker::open_with(dir.path(), &options);
    broker.commit([put_queue(QUEUE)]);
    let before = broker.committer.counters();
    broker.commit([put(1, "one"), forget(1), state(2, 0)]);
    let after = broker.committer.counters();
    assert_eq!(after.commits, before.commits);
    // The counters come with the next batch that has something to write.
    broker.commit([put(2, "two")]);
    drop(broker);
    let found = Broker::open(dir.path()).recovered.queues;
    assert_eq!(found[0].1.next, Seq::new(2));
}

#[test]
fn only_the_put_of_the_same_place_is_cancelled() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put(1, "stored before")]);
    broker.commit([
        forget(1),
        put_in(OTHER, 0, 1, "other queue"),
        put_in(QUEUE, 1, 1, "other priority"),
    ]);
    assert_eq!(broker.seqs(QUEUE), [0; 0]);
    assert_eq!(broker.seqs(OTHER), [1]);
    assert_eq!(broker.read_in_pages(QUEUE, 1, 10).len(), 1);
}

#[test]
fn the_first_row_of_a_time_is_found_wherever_it_stands() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    // Several rows of one time, places without a row, and rows of another priority.
    let at = |seq: u64| 1000 + seq / 3 * 10;
    let stored: Vec<u64> = (1..200).filter(|seq| seq % 7 != 0).collect();
    let rows = stored.iter().map(|&seq| Write::Put {
        queue: QUEUE,
        priority: 0,
        seq: Seq::new(seq),
        enqueued_at: Timestamp::new(at(seq)),
        due: Timestamp::NEVER,
        message: message("body"),
    });
    broker.commit(rows.collect::<Vec<_>>());
    broker.commit([put_in(QUEUE, 1, 50, "other priority")]);
    let find = |from: u64, until: u64, time: u64| {
        let (from, until, time) = (Seq::new(from), Seq::new(until), Timestamp::new(time));
        let found = broker.store.first_since(QUEUE, 0, from, until, time);
        found.unwrap().map(Seq::get)
    };
    for (from, until) in [(0, 250), (20, 90), (14, 15), (30, 30), (190, 260)] {
        for time in (990..1700).step_by(5) {
            let in_range = stored.iter().filter(|seq| (from..until).contains(*seq));
            let expected = in_range.copied().find(|&seq| at(seq) >= time);
            assert_eq!(
                find(from, until, time),
                expected,
                "{from}..{until} at {time}"
            );
        }
    }
}
