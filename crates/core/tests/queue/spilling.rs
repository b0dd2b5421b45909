//! While memory is short transient messages are stored, and end with the process all the same.

use leveret_core::queue::{Answer, Outcome, WINDOW_BYTES_MAX};

use crate::scenario::{QueueScenario, Stop, no_ack, prefetch};

const LARGE: usize = WINDOW_BYTES_MAX / 4;

fn labels(from: u64, until: u64) -> impl Iterator<Item = String> {
    (from..until).map(|label| label.to_string())
}

/// A queue that keeps the first messages in memory and has stored the others, the last ones only.
fn with_backlog(mut queue: QueueScenario, messages: u64) -> QueueScenario {
    queue.set_memory_short(true);
    for label in labels(0, messages) {
        queue.publish_transient_sized(&label, LARGE);
    }
    queue
}

#[test]
fn memory_does_not_grow_with_a_transient_backlog() {
    for queue in [QueueScenario::durable(), QueueScenario::transient()] {
        let mut queue = with_backlog(queue, 100);
        assert!(queue.transient_bytes() < 2 * WINDOW_BYTES_MAX);
        queue.expect_depth(100, 0);
        queue.expect_accepted(1..=100);
        let alice = queue.subscribe(prefetch(0));
        queue.expect_deliveries(alice, 0..100);
        for label in labels(0, 50) {
            queue.ack(&label);
        }
        queue.settle("70", Outcome::Returned);
        queue.expect_redeliveries(alice, [70]);
        for label in labels(50, 100) {
            queue.ack(&label);
        }
        queue.expect_stored([] as [u64; 0]);
        assert_eq!(queue.transient_bytes(), 0);
    }
}

#[test]
fn while_there_is_memory_nothing_transient_is_stored() {
    let mut queue = QueueScenario::durable();
    for label in labels(0, 100) {
        queue.publish_transient_sized(&label, LARGE);
    }
    queue.expect_stored([] as [u64; 0]);
    queue.expect_depth(100, 0);
}

#[test]
fn it_keeps_its_order_with_persistent_messages() {
    let mut queue = QueueScenario::durable();
    queue.set_memory_short(true);
    for label in (0..60_u64).map(|label| label.to_string()) {
        if label.ends_with('3') {
            queue.publish_sized(&label, LARGE);
        } else {
            queue.publish_transient_sized(&label, LARGE);
        }
    }
    let alice = queue.subscribe(no_ack());
    queue.expect_deliveries(alice, 0..60);
    queue.expect_stored([] as [u64; 0]);
}

#[test]
fn it_is_gone_after_a_restart_and_leaves_no_row_behind() {
    for stop in [Stop::Clean, Stop::Crash] {
        let mut queue = with_backlog(QueueScenario::durable(), 20);
        queue.restart(stop);
        queue.expect_depth(0, 0);
        queue.publish(["new"]);
        queue.expect_stored(["new"]);
        let alice = queue.subscribe(no_ack());
        queue.expect_deliveries(alice, ["new"]);
    }
}

#[test]
fn what_is_persistent_stays_when_the_rest_is_gone() {
    for stop in [Stop::Clean, Stop::Crash] {
        let mut queue = with_backlog(QueueScenario::durable(), 10);
        queue.publish(["one"]);
        for label in labels(20, 30) {
            queue.publish_transient_sized(&label, LARGE);
        }
        queue.publish(["two"]);
        for label in labels(30, 40) {
            queue.publish_transient_sized(&label, LARGE);
        }
        queue.restart(stop);
        queue.expect_depth(2, 0);
        let alice = queue.subscribe(prefetch(0));
        queue.expect_deliveries(alice, ["one", "two"]);
        queue.expect_stored(["one", "two"]);
        queue.settle("one", Outcome::Returned);
        queue.expect_redeliveries(alice, ["one"]);
        queue.ack_all();
        queue.expect_stored([] as [u64; 0]);
    }
}

#[test]
fn a_purge_and_a_delete_take_it_along() {
    let mut queue = with_backlog(QueueScenario::durable(), 20);
    assert_eq!(queue.purge(), 20);
    queue.expect_stored([] as [u64; 0]);
    assert_eq!(queue.transient_bytes(), 0);

    let mut queue = with_backlog(QueueScenario::transient(), 20);
    assert_eq!(queue.delete(), Answer::Deleted(20));
    assert!(queue.store().is_deleted());
    assert_eq!(queue.transient_bytes(), 0);
}
