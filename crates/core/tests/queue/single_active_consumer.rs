//! `x-single-active-consumer`: one consumer is served, the next takes over.

use leveret_core::{
    arguments::QueueSettings,
    queue::{Answer, ConsumerSettings},
};

use crate::scenario::{QueueScenario, exclusive, no_ack, prefetch};

fn single_active() -> QueueScenario {
    QueueScenario::with(QueueSettings {
        single_active_consumer: true,
        ..QueueSettings::default()
    })
}

#[test]
fn only_the_first_consumer_is_served() {
    let mut queue = single_active();
    let alice = queue.subscribe(prefetch(2));
    queue.subscribe(prefetch(2));
    queue.publish(["one", "two", "three"]);
    queue.expect_deliveries(alice, ["one", "two"]);
    queue.expect_nothing_more();
    assert_eq!(queue.queue().consumer_count(), 2);
}

#[test]
fn the_next_takes_over_with_what_was_unacked() {
    let mut queue = single_active();
    let alice = queue.subscribe(prefetch(0));
    let bob = queue.subscribe(prefetch(0));
    let carol = queue.subscribe(no_ack());
    queue.publish(["one"]);
    queue.expect_deliveries(alice, ["one"]);
    queue.end_channel(alice);
    queue.expect_redeliveries(bob, ["one"]);
    queue.unsubscribe(bob);
    queue.publish(["two"]);
    queue.expect_deliveries(carol, ["two"]);
}

#[test]
fn a_higher_priority_takes_over_first_but_drives_nobody_away() {
    let mut queue = single_active();
    let alice = queue.subscribe(no_ack());
    queue.subscribe(no_ack());
    let important = ConsumerSettings {
        priority: 1,
        ..no_ack()
    };
    let carol = queue.subscribe(important);
    queue.publish(["one"]);
    queue.expect_deliveries(alice, ["one"]);
    queue.unsubscribe(alice);
    queue.publish(["two"]);
    queue.expect_deliveries(carol, ["two"]);
}

#[test]
fn a_waiting_consumer_may_leave() {
    let mut queue = single_active();
    let alice = queue.subscribe(no_ack());
    let bob = queue.subscribe(no_ack());
    let carol = queue.subscribe(no_ack());
    queue.unsubscribe(bob);
    queue.unsubscribe(alice);
    queue.publish(["one"]);
    queue.expect_deliveries(carol, ["one"]);
}

#[test]
fn nobody_may_have_such_a_queue_for_himself() {
    let mut queue = single_active();
    assert_eq!(queue.try_subscribe(exclusive()), Answer::ExclusiveUse);
}
