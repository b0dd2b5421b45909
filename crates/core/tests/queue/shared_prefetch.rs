//! The consumers of a channel may share a bound, which the channel knows and the queue asks for.

use leveret_core::{
    arguments::{QueueSettings, QueueType},
    queue::{ConsumerSettings, Outcome},
};

use crate::scenario::{QueueScenario, no_ack, prefetch};

#[test]
fn nobody_is_handed_more_than_there_is_room_for() {
    let mut queue = QueueScenario::durable();
    let first = queue.subscribe(prefetch(0));
    let second = queue.subscribe_beside(first, prefetch(0));
    queue.share(first, 3);
    queue.publish(1..=5);
    queue.expect_deliveries(first, [1, 3]);
    queue.expect_deliveries(second, [2]);
    queue.expect_depth(2, 3);

    queue.ack("1");
    queue.expect_nothing_more();
    queue.make_room(second, 1);
    queue.expect_deliveries(second, [4]);
    queue.expect_nothing_more();
}

#[test]
fn room_goes_to_whose_turn_it_was() {
    let mut queue = QueueScenario::durable();
    let first = queue.subscribe(prefetch(0));
    let second = queue.subscribe_beside(first, prefetch(0));
    queue.share(first, 1);
    queue.publish(1..=2);
    queue.expect_deliveries(first, [1]);
    queue.make_room(first, 1);
    queue.expect_deliveries(second, [2]);
}

#[test]
fn room_goes_to_the_highest_priority_that_waits_for_it() {
    let mut queue = QueueScenario::durable();
    let low = queue.subscribe(prefetch(0));
    let high = queue.subscribe_beside(
        low,
        ConsumerSettings {
            priority: 5,
            ..prefetch(0)
        },
    );
    queue.share(low, 0);
    queue.publish(["one"]);
    queue.expect_nothing_more();
    queue.make_room(low, 1);
    queue.expect_deliveries(high, ["one"]);
}

#[test]
fn its_own_prefetch_bounds_a_consumer_as_well() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(1));
    queue.share(alice, 10);
    queue.publish(1..=3);
    queue.expect_deliveries(alice, [1]);
    queue.expect_nothing_more();
    queue.ack("1");
    queue.expect_deliveries(alice, [2]);
    queue.expect_nothing_more();
}

#[test]
fn one_that_shares_from_the_beginning_asks_for_its_first_message() {
    let mut queue = QueueScenario::durable();
    let bob = queue.subscribe(prefetch(0));
    queue.share(bob, 0);
    let alice = queue.subscribe_beside(
        bob,
        ConsumerSettings {
            shared_else: Some(0),
            ..ConsumerSettings::default()
        },
    );
    queue.publish(["one"]);
    queue.expect_nothing_more();
    queue.unsubscribe(bob);
    queue.make_room(alice, 1);
    queue.expect_deliveries(alice, ["one"]);
}

#[test]
fn whoever_has_no_room_leaves_messages_to_others() {
    let mut queue = QueueScenario::durable();
    let full = queue.subscribe(ConsumerSettings {
        priority: 7,
        ..prefetch(0)
    });
    let other = queue.subscribe(prefetch(1));
    queue.share(full, 1);
    queue.publish(1..=4);
    queue.expect_deliveries(full, [1]);
    queue.expect_deliveries(other, [2]);
    queue.make_room(full, 1);
    queue.expect_deliveries(full, [3]);
    queue.ack("2");
    queue.expect_deliveries(other, [4]);
}

#[test]
fn the_single_active_consumer_stays_active_without_room() {
    let mut queue = QueueScenario::with(QueueSettings {
        single_active_consumer: true,
        ..QueueSettings::default()
    });
    let active = queue.subscribe(prefetch(0));
    let waiting = queue.subscribe(prefetch(0));
    queue.share(active, 1);
    queue.publish(1..=3);
    queue.expect_deliveries(active, [1]);
    queue.expect_nothing_more();
    queue.unsubscribe(active);
    queue.expect_deliveries(waiting, [2, 3]);
}

#[test]
fn one_without_acks_waits_for_room_too() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(no_ack());
    queue.share(alice, 0);
    queue.publish(["one"]);
    queue.expect_nothing_more();
    queue.expect_depth(1, 0);
    queue.make_room(alice, 5);
    queue.expect_deliveries(alice, ["one"]);
    queue.expect_depth(0, 0);
}

#[test]
fn what_came_back_is_handed_out_in_its_order_when_there_is_room() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(0));
    queue.share(alice, 2);
    queue.publish(1..=3);
    queue.expect_deliveries(alice, [1, 2]);
    queue.settle("1", Outcome::Returned);
    queue.make_room(alice, 1);
    queue.expect_redeliveries(alice, ["1"]);
    queue.expect_nothing_more();
}

#[test]
fn a_quorum_queue_asks_nobody() {
    let mut queue = QueueScenario::with(QueueSettings {
        queue_type: QueueType::Quorum,
        ..QueueSettings::default()
    });
    let alice = queue.subscribe(prefetch(0));
    queue.share(alice, 0);
    queue.publish(1..=2);
    queue.expect_deliveries(alice, [1, 2]);
}

#[test]
fn a_consumer_that_has_no_room_may_end() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(0));
    queue.share(alice, 0);
    queue.publish(["one"]);
    queue.unsubscribe(alice);
    queue.make_room(alice, 1);
    queue.expect_nothing_more();
    let bob = queue.subscribe(prefetch(0));
    queue.expect_deliveries(bob, ["one"]);
}
