//! A purge drops what is ready and nothing else.

use leveret_core::queue::{Outcome, WINDOW_ROWS_MAX};

use crate::scenario::{QueueScenario, Stop, no_ack, prefetch};

const WINDOW: u64 = WINDOW_ROWS_MAX as u64;

#[test]
fn it_counts_what_it_drops() {
    let mut queue = QueueScenario::durable();
    queue.publish(0..3);
    queue.publish_transient(3..5);
    assert_eq!(queue.purge(), 5);
    queue.expect_depth(0, 0);
    queue.expect_stored([0; 0]);
    assert_eq!(queue.purge(), 0);
}

#[test]
fn unacked_messages_stay_and_can_come_back() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(2));
    queue.publish(1..=4);
    queue.expect_deliveries(alice, [1, 2]);

    assert_eq!(queue.purge(), 2);
    queue.expect_depth(0, 2);
    queue.expect_stored([1, 2]);
    queue.settle("1", Outcome::Returned);
    queue.expect_redeliveries(alice, [1]);
    queue.ack("1");
    queue.ack("2");
    queue.expect_stored([0; 0]);
}

#[test]
fn what_was_returned_is_ready_and_goes() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(0));
    queue.publish([1]);
    queue.expect_deliveries(alice, [1]);
    queue.pause(alice);
    queue.settle("1", Outcome::Returned);
    assert_eq!(queue.purge(), 1);
    queue.ack("1");
    queue.expect_stored([0; 0]);
}

/// Rows in the window are forgotten one by one, the cold ones as a range; the store refuses a row that
/// meets both, now or when it is acked later.
#[test]
fn cold_messages_go_with_the_window() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe_paused(prefetch(10));
    queue.publish(0..WINDOW + 500);
    queue.resume(alice);
    queue.expect_deliveries(alice, 0..10);

    assert_eq!(queue.purge(), WINDOW + 490);
    queue.expect_stored(0..10);
    queue.ack_all();
    queue.expect_stored([0; 0]);
    queue.publish(["new"]);
    queue.expect_deliveries(alice, ["new"]);
}

#[test]
fn a_read_that_is_under_way_brings_nothing_back() {
    let mut queue = QueueScenario::durable();
    queue.hold_reads();
    queue.publish(0..WINDOW + 500);
    let alice = queue.subscribe(no_ack());
    queue.expect_deliveries(alice, 0..WINDOW);
    let read_before_the_purge = queue.read_refill();

    assert_eq!(queue.purge(), 500);
    queue.publish(["new"]);
    queue.expect_deliveries(alice, ["new"]);
    queue.together(vec![leveret_core::queue::Command::Refilled(
        read_before_the_purge,
    )]);
    queue.expect_nothing_more();
    queue.expect_depth(0, 0);
    queue.expect_stored([0; 0]);
}

#[test]
fn what_becomes_cold_after_it_is_not_taken_for_what_was_read_before() {
    let mut queue = QueueScenario::durable();
    queue.hold_reads();
    let alice = queue.subscribe_paused(no_ack());
    queue.publish(0..WINDOW + 500);
    queue.resume(alice);
    queue.expect_deliveries(alice, 0..WINDOW);
    let read_before_the_purge = queue.read_refill();
    assert_eq!(queue.purge(), 500);

    queue.pause(alice);
    let (first, last) = (WINDOW + 500, 2 * WINDOW + 900);
    queue.publish(first..last);
    queue.resume(alice);
    queue.expect_deliveries(alice, first..first + WINDOW);
    assert_eq!(
        queue.pending_refill(),
        None,
        "the first read is still under way"
    );

    queue.together(vec![leveret_core::queue::Command::Refilled(
        read_before_the_purge,
    )]);
    queue.expect_nothing_more();
    queue.answer_refill();
    queue.expect_deliveries(alice, first + WINDOW..last);
    queue.expect_depth(0, 0);
    queue.expect_stored([0; 0]);
}

#[test]
fn everything_may_be_cold() {
    let mut queue = QueueScenario::durable();
    queue.publish(0..10);
    queue.restart(Stop::Clean);
    assert_eq!(queue.purge(), 10);
    queue.expect_stored([0; 0]);
    queue.expect_depth(0, 0);
}

#[test]
fn the_counters_are_right_beside_unacked_messages_of_any_size() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(2));
    queue.publish_sized("a", 100_000);
    queue.publish_sized("b", 5);
    for label in ["c", "d", "e"] {
        queue.publish_sized(label, 600_000);
    }
    queue.expect_deliveries(alice, ["a", "b"]);
    assert_eq!(queue.purge(), 3);
    assert_eq!(queue.store().state().message_bytes, 100_005);
    queue.ack("a");
    assert_eq!(queue.store().state().message_bytes, 5);
}
