//! A prefetch bounds what a consumer holds.

use leveret_core::queue::Outcome;

use crate::scenario::{QueueScenario, no_ack, prefetch};

#[test]
fn prefetch_holds_messages_back_until_an_ack_makes_room() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(2));

    queue.publish(["one", "two", "three"]);
    queue.expect_deliveries(alice, ["one", "two"]);
    queue.expect_depth(1, 2);

    queue.ack("one");
    queue.expect_deliveries(alice, ["three"]);
    queue.expect_depth(0, 2);
    queue.expect_nothing_more();
}

#[test]
fn every_way_to_settle_makes_room() {
    for outcome in [Outcome::Acked, Outcome::Rejected] {
        let mut queue = QueueScenario::durable();
        let alice = queue.subscribe(prefetch(1));
        queue.publish(["one", "two"]);
        queue.expect_deliveries(alice, ["one"]);

        queue.settle("one", outcome);
        queue.expect_deliveries(alice, ["two"]);
    }
}

#[test]
fn a_returned_message_comes_again_before_the_next_one() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(1));
    queue.publish(["one", "two"]);
    queue.expect_deliveries(alice, ["one"]);

    queue.settle("one", Outcome::Returned);
    queue.expect_redeliveries(alice, ["one"]);
    queue.expect_depth(1, 1);
    queue.expect_nothing_more();
}

#[test]
fn zero_is_no_bound() {
    let mut queue = QueueScenario::transient();
    let alice = queue.subscribe(prefetch(0));
    queue.publish(0..70_000);
    queue.expect_deliveries(alice, 0..70_000);
    queue.expect_depth(0, 70_000);
}

#[test]
fn a_consumer_without_acks_has_no_prefetch() {
    let mut queue = QueueScenario::durable();
    let settings = leveret_core::queue::ConsumerSettings {
        prefetch: 1,
        ..no_ack()
    };
    let alice = queue.subscribe(settings);
    queue.publish(0..5);
    queue.expect_deliveries(alice, 0..5);
    queue.expect_depth(0, 0);
}

#[test]
fn each_consumer_of_a_channel_has_its_own() {
    let mut queue = QueueScenario::durable();
    let first = queue.subscribe(prefetch(1));
    let second = queue.subscribe_beside(first, prefetch(2));
    queue.publish(1..=5);
    queue.expect_deliveries(first, [1]);
    queue.expect_deliveries(second, [2, 3]);
    queue.expect_depth(2, 3);

    queue.ack("3");
    queue.expect_deliveries(second, [4]);
    queue.expect_nothing_more();
}
