//! A repaired store holds every row that was whole, counted anew.
#![allow(clippy::unwrap_used, reason = "a test may unwrap, its helpers too")]

mod common;

use std::fs;

use common::{Broker, QUEUE, data_dir, forget, put, put_in, put_queue, queue_record, state};
use leveret_core::{
    arguments::QueueType,
    ids::{QueueId, Seq, Timestamp},
    message::{Message, MessageParts},
    record::{Attempts, MetaChange, QueueRecord, Write},
    stream::SEGMENT_STARTS,
};
use leveret_store::{OpenError, Options, repair, stat};

/// Three messages of which one is gone, and two of a queue that was never declared; then a crash.
fn crashed() -> tempfile::TempDir {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put_queue(QUEUE)]);
    broker.commit([put(0, "zero"), put(1, "one"), put(2, "two"), state(3, 3)]);
    broker.commit([forget(1), state(3, 2)]);
    let lost = QueueId::new(7);
    broker.commit([put_in(lost, 0, 4, "four"), put_in(lost, 9, 5, "five")]);
    drop(broker);
    dir
}

#[test]
fn everything_whole_is_there_and_may_have_been_delivered() {
    let dir = crashed();
    let found = repair(dir.path(), &Options::default()).unwrap();
    assert_eq!((found.queues, found.messages), (2, 4), "{found}");
    assert_eq!(found.left_behind, Vec::<String>::new());
    assert_eq!(found.recovered_queues, ["recovered.7"]);
    assert!(found.put_aside.is_dir());

    let broker = Broker::open(dir.path());
    assert_eq!(broker.bodies(QUEUE), ["zero", "two"]);
    let lost = QueueId::new(7);
    assert_eq!(broker.read_in_pages(lost, 9, 10).len(), 1);
    assert_eq!(broker.bodies(lost), ["four"]);
    let of = |id| {
        let queues = &broker.recovered.queues;
        queues.iter().find(|(queue, _)| queue.id == id).unwrap().1
    };
    let state = of(QUEUE);
    assert_eq!((state.head, state.next), (Seq::new(0), Seq::new(3)));
    assert_eq!((state.messages, state.message_bytes), (2, 7));
    assert!(state.consumed && state.delivered_below == Seq::new(3));
    assert_eq!(of(lost).messages, 2);
    assert_eq!(broker.recovered.next_queue_id, QueueId::new(8));
    assert!(!broker.recovered.report.clean);
}

#[test]
fn a_repair_may_be_repeated_and_keeps_every_old_database() {
    let dir = crashed();
    let first = repair(dir.path(), &Options::default()).unwrap();
    let second = repair(dir.path(), &Options::default()).unwrap();
    assert_eq!(second.messages, first.messages);
    assert_ne!(second.put_aside, first.put_aside);
    assert!(first.put_aside.is_dir() && second.put_aside.is_dir());
}

#[test]
fn what_a_repair_left_half_done_is_done_again() {
    let dir = crashed();
    for name in ["rocksdb.new", "rocksdb.links"] {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("000001.log"), "half").unwrap();
    }
    let found = repair(dir.path(), &Options::default()).unwrap();
    assert_eq!(found.messages, 4);
    assert!(!dir.path().join("rocksdb.links").exists());
}

#[test]
fn neither_repair_nor_stat_makes_a_directory_or_touches_one_in_use() {
    let dir = data_dir();
    let missing = dir.path().join("missing");
    assert!(matches!(
        repair(&missing, &Options::default()),
        Err(OpenError::NoData { .. })
    ));
    assert!(matches!(
        stat(&missing, &Options::default()),
        Err(OpenError::NoData { .. })
    ));
    assert!(!missing.exists());
    let used = data_dir();
    let broker = Broker::open(used.path());
    assert!(matches!(
        repair(used.path(), &Options::default()),
        Err(OpenError::Locked { .. })
    ));
    drop(broker);
}

#[test]
fn stat_tells_what_a_start_would_find() {
    let dir = crashed();
    let found = stat(dir.path(), &Options::default()).unwrap();
    assert_eq!(found.queues.len(), 1);
    assert_eq!(found.queues[0].1.messages, 2);
    assert!(!found.clean && found.newest_commit.0 == 4 && found.newest_commit.1 > 0);
}

#[test]
fn what_is_counted_of_messages_goes_with_them() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    let attempts = Attempts {
        all: 3,
        failed: 2,
        due: Timestamp::new(9),
    };
    let counted = |seq| Write::Attempts {
        queue: QUEUE,
        seq: Seq::new(seq),
        attempts,
    };
    broker.commit([put_queue(QUEUE), put(0, "zero"), put(1, "one")]);
    broker.commit([counted(1), counted(2)]);
    drop(broker);
    repair(dir.path(), &Options::default()).unwrap();
    let found = Broker::open(dir.path()).recovered.attempts;
    assert_eq!(found[&QUEUE], [(Seq::new(1), attempts)]);
}

#[test]
fn quorum_queues_and_streams_keep_what_is_not_persistent() {
    for (queue_type, message_bytes) in [(QueueType::Quorum, 5), (QueueType::Stream, 3)] {
        let dir = data_dir();
        let mut broker = Broker::open(dir.path());
        let queue = QueueRecord {
            queue_type,
            ..queue_record(QUEUE)
        };
        let message = |body: &'static [u8]| {
            Message::new(MessageParts {
                exchange: b"",
                routing_key: b"jobs",
                properties: &[0, 0],
                body: body.into(),
                persistent: false,
                priority: None,
            })
        };
        let put = |priority, body| Write::Put {
            queue: QUEUE,
            priority,
            seq: Seq::new(1),
            enqueued_at: Timestamp::new(1),
            due: Timestamp::NEVER,
            message: message(body),
        };
        broker.commit([Write::Meta(MetaChange::PutQueue(queue)), put(0, b"one")]);
        if queue_type == QueueType::Stream {
            broker.commit([put(SEGMENT_STARTS, b"12345678")]);
        }
        drop(broker);
        let found = repair(dir.path(), &Options::default()).unwrap();
        assert_eq!(found.messages, 1, "{found}");
        let broker = Broker::open(dir.path());
        assert_eq!(broker.bodies(QUEUE), ["one"]);
        let state = broker.recovered.queues[0].1;
        assert_eq!(
            (state.messages, state.message_bytes),
            (1, message_bytes),
            "{queue_type:?}"
        );
        let marks = broker.read_in_pages(QUEUE, SEGMENT_STARTS, 10).len();
        assert_eq!(marks, usize::from(queue_type == QueueType::Stream));
    }
}

#[test]
fn a_database_with_many_logs_is_repaired() {
    let dir = data_dir();
    // Small buffers: every few commits there is a new log, and the database keeps account of them.
    let options = Options {
        write_buffer_bytes: 64 << 10,
        ..Options::default()
    };
    let mut broker = Broker::open_with(dir.path(), &options);
    broker.commit([put_queue(QUEUE)]);
    for seq in 0..2000 {
        broker.commit([put(seq, vec![b'x'; 1000]), state(seq + 1, seq + 1)]);
    }
    drop(broker);
    let logs = |of: &std::path::Path| {
        let entries = fs::read_dir(of.join("rocksdb")).unwrap();
        let names = entries.map(|entry| entry.unwrap().path());
        names
            .filter(|path| path.extension().is_some_and(|kind| kind == "log"))
            .count()
    };
    assert!(logs(dir.path()) > 1, "{} logs", logs(dir.path()));
    let found = repair(dir.path(), &options).unwrap();
    assert_eq!(
        (found.messages, found.left_behind.len()),
        (2000, 0),
        "{found}"
    );
    assert_eq!(Broker::open(dir.path()).seqs(QUEUE).len(), 2000);
}
