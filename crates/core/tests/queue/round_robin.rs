//! Consumers of equal priority take turns.

use leveret_core::{
    arguments::{QueueSettings, QueueType},
    ids::ConsumerId,
    queue::{Command, Outcome},
};

use crate::scenario::{QueueScenario, persistent, prefetch};

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

/// Of `a`, which may hold one message, and `b` and `c`, who had their turn behind it.
fn after_one_turn_each(mut queue: QueueScenario) -> (QueueScenario, [ConsumerId; 3]) {
    let a = queue.subscribe(prefetch(1));
    let b = queue.subscribe(prefetch(2));
    let c = queue.subscribe(prefetch(2));
    queue.publish(1..=3);
    queue.expect_deliveries(a, [1]);
    queue.expect_deliveries(b, [2]);
    queue.expect_deliveries(c, [3]);
    (queue, [a, b, c])
}

#[test]
fn who_is_filled_keeps_its_place_until_a_message_is_offered_to_it() {
    let (mut queue, [a, b, c]) = after_one_turn_each(QueueScenario::durable());

    queue.ack("1");
    queue.publish(4..=6);
    queue.expect_deliveries(a, [4]);
    queue.expect_deliveries(b, [5]);
    queue.expect_deliveries(c, [6]);
}

#[test]
fn who_was_passed_over_stands_at_the_end_of_the_line_once_it_has_credit() {
    let (mut queue, [a, b, c]) = after_one_turn_each(QueueScenario::durable());

    queue.publish([4]);
    queue.expect_deliveries(b, [4]);
    queue.ack("1");
    queue.ack("4");
    queue.publish(5..=7);
    queue.expect_deliveries(c, [5]);
    queue.expect_deliveries(b, [6]);
    queue.expect_deliveries(a, [7]);
}

#[test]
fn a_message_is_offered_before_an_ack_of_the_same_batch_makes_room() {
    let (mut queue, [_, b, _]) = after_one_turn_each(QueueScenario::durable());

    let publish = Command::Enqueue {
        message: persistent("4"),
        confirm: None,
    };
    let ack = queue.settling("1", Outcome::Acked);
    queue.together(vec![publish, ack]);
    queue.expect_deliveries(b, [4]);
    queue.expect_nothing_more();
}

#[test]
fn on_a_quorum_queue_who_is_filled_stands_at_the_end_of_the_line_once_it_has_credit() {
    let settings = QueueSettings {
        queue_type: QueueType::Quorum,
        ..QueueSettings::default()
    };
    let (mut queue, [a, b, c]) = after_one_turn_each(QueueScenario::with(settings));

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
