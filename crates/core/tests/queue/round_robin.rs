//! Consumers of equal priority take turns.

use crate::scenario::{QueueScenario, prefetch};

#[test]
fn equal_consumers_are_served_in_the_order_of_their_arrival() {
    let mut queue = QueueScenario::durable();
    let a = queue.subscribe(prefetch(0));
    let b = queue.subscribe(prefetch(0));
    let c = queue.subscribe(prefetch(0));

    queue.publish(1..=6);
    queue.expect_deliveries(a, [1, 4]);
    queue.expect_deliveries(b, [2, 5]);
    queue.expect_deliveries(c, [3, 6]);
    queue.expect_nothing_more();
}

#[test]
fn a_turn_is_remembered_from_one_batch_to_the_next() {
    let mut queue = QueueScenario::transient();
    let a = queue.subscribe(prefetch(0));
    let b = queue.subscribe(prefetch(0));

    queue.publish([1]);
    queue.publish([2]);
    queue.publish([3]);
    queue.expect_deliveries(a, [1, 3]);
    queue.expect_deliveries(b, [2]);
}

#[test]
fn a_backlog_is_shared_as_well() {
    let mut queue = QueueScenario::durable();
    queue.publish(0..4);
    let a = queue.subscribe_paused(prefetch(1));
    let b = queue.subscribe_paused(prefetch(1));
    queue.resume(a);
    queue.resume(b);
    queue.expect_deliveries(a, [0]);
    queue.expect_deliveries(b, [1]);

    queue.ack("1");
    queue.ack("0");
    queue.expect_deliveries(b, [2]);
    queue.expect_deliveries(a, [3]);
}

#[test]
fn who_regains_credit_stands_at_the_end_of_the_line() {
    let mut queue = QueueScenario::durable();
    let a = queue.subscribe(prefetch(1));
    let b = queue.subscribe(prefetch(2));
    let c = queue.subscribe(prefetch(2));
    queue.publish(1..=3);
    queue.expect_deliveries(a, [1]);
    queue.expect_deliveries(b, [2]);
    queue.expect_deliveries(c, [3]);

    queue.ack("1");
    queue.publish(4..=6);
    queue.expect_deliveries(b, [4]);
    queue.expect_deliveries(c, [5]);
    queue.expect_deliveries(a, [6]);
}

#[test]
fn who_leaves_is_not_waited_for() {
    let mut queue = QueueScenario::durable();
    let a = queue.subscribe(prefetch(0));
    let b = queue.subscribe(prefetch(0));
    let c = queue.subscribe(prefetch(0));
    queue.unsubscribe(b);

    queue.publish(1..=4);
    queue.expect_deliveries(a, [1, 3]);
    queue.expect_deliveries(c, [2, 4]);
    queue.expect_nothing_more();
}
