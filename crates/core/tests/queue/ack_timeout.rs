//! Messages that nobody acks in time are taken back.

use leveret_core::queue::{ConsumerSettings, Outcome, Overdue};
use leveret_wire::value::{FieldTable, FieldValue};

use crate::{
    quorum::quorum,
    scenario::{QueueScenario, channel, no_ack, prefetch},
};

fn within(millis: i64) -> QueueScenario {
    quorum(FieldTable::new().with("x-consumer-timeout", FieldValue::Long(millis)))
}

fn own_timeout(millis: u64) -> ConsumerSettings {
    ConsumerSettings {
        ack_timeout_millis: Some(millis),
        ..prefetch(0)
    }
}

#[test]
fn an_overdue_message_comes_back_and_its_consumer_ends() {
    let mut queue = within(1000);
    let alice = queue.subscribe(prefetch(0));
    queue.publish(["one", "two"]);
    queue.expect_deliveries(alice, ["one", "two"]);
    queue.pass(500);
    queue.publish(["three"]);
    queue.expect_deliveries(alice, ["three"]);
    queue.ack("two");

    queue.pass(499);
    assert_eq!(queue.take_overdue(), []);
    queue.pass(101);
    let overdue = Overdue {
        channel: alice.channel,
        consumer: Some(alice),
        timeout_millis: 1000,
    };
    assert_eq!(queue.take_overdue(), [overdue]);
    queue.expect_depth(1, 1);
    assert_eq!(queue.queue().consumer_count(), 0);
    queue.expect_nothing_more();

    // It counts as a return, not as a failure.
    queue.get();
    queue.expect_counts("one", 1, None);
    // Of a consumer that is gone the rest comes back too, and nobody is told again.
    queue.ack("one");
    queue.pass(600);
    queue.expect_depth(1, 0);
    assert_eq!(queue.take_overdue(), []);
}

#[test]
fn a_late_ack_does_nothing_to_whoever_has_the_message_now() {
    let mut queue = within(1000);
    let alice = queue.subscribe(prefetch(0));
    queue.publish(["one"]);
    queue.expect_deliveries(alice, ["one"]);
    let late = queue.settling("one", Outcome::Acked);
    queue.pass(1100);
    let bob = queue.subscribe(own_timeout(60_000));
    queue.expect_redeliveries(bob, ["one"]);
    queue.together(vec![late]);
    queue.expect_depth(0, 1);
    queue.ack("one");
    queue.expect_depth(0, 0);
}

#[test]
fn what_a_consumer_says_counts_before_what_its_queue_says() {
    for (own, queues) in [(300, 5000), (5000, 300)] {
        let mut queue = within(queues);
        let alice = queue.subscribe(own_timeout(own));
        queue.publish(["one"]);
        queue.expect_deliveries(alice, ["one"]);
        queue.pass(own - 1);
        assert_eq!(queue.take_overdue(), []);
        queue.pass(101);
        assert_eq!(queue.take_overdue().len(), 1);
    }
}

#[test]
fn a_get_is_overdue_too_and_has_no_consumer() {
    let mut queue = within(1000);
    queue.publish(["one"]);
    queue.get();
    queue.pass(1100);
    let overdue = Overdue {
        channel: channel(999),
        consumer: None,
        timeout_millis: 1000,
    };
    assert_eq!(queue.take_overdue(), [overdue]);
    queue.expect_depth(1, 0);
}

#[test]
fn nobody_waits_for_acks_that_are_not_owed() {
    let mut queue = within(1000);
    let alice = queue.subscribe(no_ack());
    queue.publish(["one"]);
    queue.expect_deliveries(alice, ["one"]);
    assert_eq!(queue.queue().next_due(), None);
}

#[test]
fn a_classic_queue_waits_for_ever() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one"]);
    queue.get();
    assert_eq!(queue.queue().next_due(), None);
}

#[test]
fn without_a_word_it_is_half_an_hour() {
    let mut queue = quorum(FieldTable::new());
    queue.publish(["one"]);
    queue.get();
    queue.pass(1_799_999);
    assert_eq!(queue.take_overdue(), []);
    queue.pass(101);
    assert_eq!(queue.take_overdue().len(), 1);
}
