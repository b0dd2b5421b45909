//! Memory does not grow with the backlog.

use leveret_core::queue::{WINDOW_BYTES_MAX, WINDOW_ROWS_MAX};

use leveret_wire::value::FieldTable;

use crate::{
    quorum::quorum,
    scenario::{QueueScenario, Stop, prefetch},
};

/// The rows that are ready and in memory when a refill has come, seen from outside: what lies between
/// the last message handed out and the first cold one, and what the refill brings.
#[track_caller]
fn expect_bounded(queue: &mut QueueScenario, total: u64) {
    queue.hold_reads();
    let alice = queue.subscribe(prefetch(500));
    let mut seen = 0;
    while seen < total {
        if let Some(refill) = queue.pending_refill() {
            let in_memory = refill.from.get() - queue.handed_out();
            let refilled = queue.read_refill();
            let rows = in_memory + refilled.rows.len() as u64;
            assert!(rows <= WINDOW_ROWS_MAX as u64, "{rows} rows are in memory");
            assert!(refill.bytes_max <= WINDOW_BYTES_MAX);
            let is_of_another_priority = refilled.rows.is_empty();
            queue.together(vec![leveret_core::queue::Command::Refilled(refilled)]);
            if is_of_another_priority {
                continue;
            }
        }
        let handed_out = queue.handed_out();
        assert!(handed_out > seen, "it stands still at {seen}");
        queue.expect_deliveries(alice, seen..handed_out);
        seen = handed_out;
        queue.ack_all();
    }
    queue.expect_depth(0, 0);
    queue.expect_stored([0; 0]);
}

#[test]
fn a_backlog_of_a_hundred_thousand_passes_through_the_window() {
    let mut queue = QueueScenario::durable();
    let total = 100_000;
    for first in (0..total).step_by(1000) {
        queue.publish(first..first + 1000);
    }
    queue.expect_depth(total, 0);
    expect_bounded(&mut queue, total);
}

#[test]
fn a_quorum_queue_is_bounded_although_it_knows_priorities() {
    for restarts in [false, true] {
        let mut queue = quorum(FieldTable::new());
        let total = 10_000;
        queue.publish(0..total);
        if restarts {
            queue.restart(Stop::Clean);
        }
        queue.expect_depth(total, 0);
        expect_bounded(&mut queue, total);
    }
}

#[test]
fn also_after_a_restart() {
    let mut queue = QueueScenario::durable();
    let total = 10_000;
    queue.publish(0..total);
    queue.restart(Stop::Clean);
    queue.expect_depth(total, 0);
    expect_bounded(&mut queue, total);
}
