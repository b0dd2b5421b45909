//! `x-max-length`, `x-max-length-bytes`, `x-overflow`.

use leveret_core::{
    arguments::{DeadLetter, Overflow, QueueSettings, QueueType},
    queue::{DeathReason, Outcome},
};

use crate::scenario::{QueueScenario, Stop, no_ack, prefetch};

fn at_most(max_length: u64, overflow: Overflow) -> QueueScenario {
    QueueScenario::with(QueueSettings {
        max_length: Some(max_length),
        overflow,
        ..QueueSettings::default()
    })
}

#[test]
fn the_oldest_messages_make_room() {
    let mut queue = at_most(3, Overflow::DropHead);
    queue.publish(["1", "2", "3", "4"]);
    queue.publish(["5", "6"]);
    queue.expect_confirmed(1..=6);
    queue.expect_stored(["4", "5", "6"]);
    queue.publish_transient(["7"]);
    queue.expect_depth(3, 0);
    queue.expect_stored(["5", "6"]);
}

#[test]
fn bytes_are_counted_too() {
    let mut queue = QueueScenario::with(QueueSettings {
        max_length_bytes: Some(1000),
        ..QueueSettings::default()
    });
    for label in ["a", "b", "c"] {
        queue.publish_sized(label, 400);
    }
    queue.expect_stored(["b", "c"]);
    queue.publish_sized("large", 1001);
    queue.expect_stored([""; 0]);
}

#[test]
fn a_limit_of_0_keeps_what_an_idle_consumer_takes_but_nothing_that_returns() {
    let mut queue = at_most(0, Overflow::DropHead);
    queue.publish(["nobody"]);
    let alice = queue.subscribe(prefetch(1));
    queue.publish(["taken", "too many"]);
    queue.expect_deliveries(alice, ["taken"]);
    queue.expect_stored(["taken"]);
    queue.settle("taken", Outcome::Returned);
    queue.expect_stored([""; 0]);

    queue.publish(["taken too"]);
    queue.expect_deliveries(alice, ["taken too"]);
    queue.recover_channel(alice);
    queue.expect_stored([""; 0]);
    queue.expect_nothing_more();
}

#[test]
fn a_return_over_the_limit_drops_the_oldest() {
    let mut queue = at_most(2, Overflow::DropHead);
    queue.publish(["1", "2"]);
    let (_, _) = (queue.get(), queue.get());
    queue.publish(["3", "4"]);
    queue.expect_depth(2, 2);
    queue.settle("1", Outcome::Returned);
    queue.settle("2", Outcome::Returned);
    queue.expect_stored(["3", "4"]);
}

/// Where only the head expires, what is over behind it is dropped like any other, and no other with it.
#[test]
fn of_what_returns_no_more_is_dropped_than_is_too_much() {
    for queue_type in [QueueType::Classic, QueueType::Quorum] {
        let mut queue = QueueScenario::with(QueueSettings {
            queue_type,
            max_length: Some(2),
            lazy_expiry: true,
            dead_letter: Some(DeadLetter {
                exchange: None,
                routing_key: None,
            }),
            ..QueueSettings::default()
        });
        let alice = queue.subscribe(prefetch(9));
        queue.publish(["one"]);
        queue.publish_expiring(50, ["over"]);
        queue.publish(["three", "four"]);
        queue.expect_deliveries(alice, ["one", "over", "three", "four"]);
        queue.pass(60);
        queue.end_channel(alice);
        queue.expect_depth(2, 0);
        queue.expect_dead(DeathReason::MaxLength, ["one", "over"]);
    }
}

#[test]
fn a_cold_head_makes_room_too() {
    let mut queue = at_most(2500, Overflow::DropHead);
    queue.publish(0..2500);
    queue.restart(Stop::Clean);
    queue.publish(2500..5100);
    queue.expect_depth(2500, 0);
    let alice = queue.subscribe(no_ack());
    queue.expect_deliveries(alice, 2600..5100);
}

#[test]
fn the_new_message_is_refused() {
    for overflow in [Overflow::RejectPublish, Overflow::RejectPublishDeadLetter] {
        let mut queue = at_most(2, overflow);
        queue.publish(["1", "2", "3", "4"]);
        queue.expect_confirmed([1, 2]);
        queue.expect_rejected([3, 4]);
        assert_eq!(queue.get_no_ack(), Some(("1".to_owned(), false, 1)));
        queue.publish(["5", "6"]);
        queue.expect_confirmed([5]);
        queue.expect_rejected([6]);
    }
}

#[test]
fn nothing_is_refused_while_consumers_are_idle() {
    let mut queue = at_most(1, Overflow::RejectPublish);
    let alice = queue.subscribe(prefetch(2));
    queue.publish(["1", "2", "3", "4"]);
    queue.expect_deliveries(alice, ["1", "2"]);
    queue.expect_rejected([4]);
}

#[test]
fn the_highest_priority_is_dropped_first() {
    let mut queue = QueueScenario::with(QueueSettings {
        max_priority: 9,
        max_length: Some(2),
        ..QueueSettings::default()
    });
    queue.publish_with_priority(1, ["low"]);
    queue.publish_with_priority(9, ["high"]);
    queue.publish_with_priority(5, ["middle"]);
    queue.expect_stored(["low", "middle"]);
}
