//! What is counted of messages that came back goes with a deleted queue; and how a queue reads its priorities.
#![allow(clippy::unwrap_used, reason = "a test may unwrap, its helpers too")]

mod common;

use common::{Broker, QUEUE, data_dir, put_in, put_queue};
use leveret_core::{
    ids::{Seq, Timestamp},
    queue::Refill,
    record::{Attempts, MetaChange, Write},
};

const PRIORITY: u8 = 4;

fn refill(priority: u8, rows_max: usize) -> Refill {
    Refill {
        queue: QUEUE,
        priority,
        from: Seq::new(0),
        until: Seq::new(100),
        rows_max,
        bytes_max: 1 << 20,
        at_once: false,
    }
}

#[test]
fn an_empty_page_tells_the_next_priority_that_has_rows() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put_in(QUEUE, 2, 1, "low"), put_in(QUEUE, 9, 2, "high")]);
    let next = |priority| {
        let page = broker.store.refill(&refill(priority, 10)).unwrap();
        (page.rows.len(), page.next_priority)
    };
    assert_eq!(next(31), (0, Some(9)));
    assert_eq!(next(9), (1, None));
    assert_eq!(next(8), (0, Some(2)));
    assert_eq!(next(1), (0, None));
    assert_eq!(next(0), (0, None));
}

#[test]
fn counts_of_a_deleted_queue_are_freed() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([
        put_queue(QUEUE),
        put_in(QUEUE, PRIORITY, 1, "body"),
        Write::Attempts {
            queue: QUEUE,
            seq: Seq::new(1),
            attempts: Attempts {
                all: 1,
                failed: 1,
                due: Timestamp::default(),
            },
        },
    ]);
    broker.commit([Write::Meta(MetaChange::DeleteQueue(QUEUE))]);
    broker.stop();

    let mut broker = Broker::open(dir.path());
    assert_eq!(broker.recovered.queues, []);
    while broker.recovered.report.dropped_queues > 0 {
        broker.stop();
        broker = Broker::open(dir.path());
    }
    assert_eq!(broker.recovered.attempts.len(), 0);
}
