//! What came back is held back for a while, and comes back to its place.

use leveret_core::{
    arguments::QueueSettings,
    queue::{DeathReason, Outcome, UNACKED_BYTES_MAX},
};
use leveret_wire::value::{FieldTable, FieldValue};

use crate::{
    quorum::quorum,
    scenario::{QueueScenario, Stop, prefetch},
};

/// Exactly 100 ms after the first attempt, 200 after the second, and so on.
fn arguments() -> FieldTable {
    FieldTable::new()
        .with("x-retry-backoff", FieldValue::text("linear"))
        .with("x-retry-min", FieldValue::Int(100))
        .with("x-retry-jitter", FieldValue::Int(0))
}

fn with(arguments: &FieldTable) -> QueueScenario {
    QueueScenario::with(QueueSettings::of(arguments))
}

#[test]
fn a_returned_message_waits_and_then_comes_back_to_its_place() {
    for outcome in [Outcome::Returned, Outcome::Failed] {
        let mut queue = with(&arguments());
        queue.publish(["one", "two", "three"]);
        let alice = queue.subscribe(prefetch(1));
        queue.expect_deliveries(alice, ["one"]);
        queue.settle("one", outcome);
        queue.expect_deliveries(alice, ["two"]);
        queue.expect_depth(1, 1);
        assert_eq!(queue.queue().retrying(), 1);
        queue.pass(99);
        assert_eq!(queue.queue().retrying(), 1);
        queue.pass(1);
        queue.expect_depth(2, 1);
        assert_eq!(queue.queue().retrying(), 0);
        queue.ack("two");
        queue.expect_redeliveries(alice, ["one"]);
        queue.ack("one");
        queue.expect_deliveries(alice, ["three"]);
        queue.ack("three");
        queue.expect_stored([""; 0]);
        assert_eq!(queue.store().attempts().count(), 0);
    }
}

#[test]
fn each_attempt_waits_longer() {
    let mut queue = with(&arguments());
    queue.publish(["m"]);
    let alice = queue.subscribe(prefetch(1));
    for millis in [100, 200, 300] {
        queue.take_labels(alice);
        queue.settle("m", Outcome::Failed);
        queue.pass(millis - 1);
        queue.expect_nothing_more();
        queue.pass(1);
        queue.expect_redeliveries(alice, ["m"]);
    }
}

#[test]
fn after_its_last_attempt_a_message_dies() {
    let arguments = arguments()
        .with("x-retry-limit", FieldValue::Int(3))
        .with("x-dead-letter-exchange", FieldValue::text("dlx"));
    let mut queue = with(&arguments);
    queue.publish(["m"]);
    let alice = queue.subscribe(prefetch(1));
    for _ in 0..2 {
        queue.settle("m", Outcome::Returned);
        queue.pass(1000);
    }
    assert_eq!(queue.take_labels(alice), ["m"; 3]);
    queue.settle("m", Outcome::Returned);
    queue.expect_dead(DeathReason::DeliveryLimit, ["m"]);
    assert_eq!(
        (queue.queue().retrying(), queue.take_labels(alice).len()),
        (0, 0)
    );
}

#[test]
fn a_lost_consumer_is_a_failed_attempt_and_a_recover_is_none() {
    let failed = arguments().with("x-retry-on", FieldValue::text("failed"));
    let mut queue = with(&failed);
    queue.publish(["m"]);
    let alice = queue.subscribe(prefetch(1));
    queue.expect_deliveries(alice, ["m"]);
    queue.recover_channel(alice);
    queue.expect_redeliveries(alice, ["m"]);
    queue.end_channel(alice);
    queue.expect_depth(0, 0);
    // The second attempt came to its end.
    queue.pass(199);
    queue.expect_depth(0, 0);
    queue.pass(1);
    queue.expect_depth(1, 0);
}

#[test]
fn what_is_held_back_survives_a_restart_and_waits_on() {
    for stop in [Stop::Clean, Stop::Crash] {
        let mut queue = with(&arguments());
        queue.publish(["one", "two", "three"]);
        let alice = queue.subscribe(prefetch(2));
        queue.take_labels(alice);
        queue.settle("one", Outcome::Failed);
        queue.settle("two", Outcome::Failed);
        queue.ack("three");
        queue.pass(100);
        queue.take_labels(alice);
        queue.settle("two", Outcome::Failed);
        queue.pass(50);
        queue.restart(stop);
        // One was unacked and two is held back for 150 ms more.
        queue.expect_depth(1, 0);
        assert_eq!(queue.queue().retrying(), 1);
        let bob = queue.subscribe(prefetch(5));
        queue.expect_redeliveries(bob, ["one"]);
        queue.pass(149);
        queue.expect_nothing_more();
        queue.pass(1);
        queue.expect_redeliveries(bob, ["two"]);
        queue.settle("two", Outcome::Failed);
        queue.pass(299);
        queue.expect_nothing_more();
        queue.pass(1);
        queue.expect_redeliveries(bob, ["two"]);
    }
}

#[test]
fn what_is_on_disk_becomes_ready_without_being_read() {
    let mut queue = with(&arguments());
    queue.publish(["m"]);
    let alice = queue.subscribe(prefetch(1));
    queue.take_labels(alice);
    queue.settle("m", Outcome::Failed);
    queue.restart(Stop::Clean);
    queue.expect_depth(0, 0);
    assert_eq!(queue.get(), None);
    queue.restart(Stop::Clean);
    queue.pass(100);
    queue.expect_depth(1, 0);
    assert_eq!(queue.get(), Some(("m".to_owned(), true, 0)));
}

#[test]
fn time_goes_on_while_a_message_is_held_back() {
    let arguments = arguments()
        .with("x-message-ttl", FieldValue::Int(50))
        .with("x-dead-letter-exchange", FieldValue::text("dlx"));
    let mut queue = with(&arguments);
    queue.publish(["m"]);
    let alice = queue.subscribe(prefetch(1));
    queue.take_labels(alice);
    queue.settle("m", Outcome::Failed);
    queue.pass(49);
    queue.expect_dead(DeathReason::Expired, [""; 0]);
    queue.pass(1);
    queue.expect_dead(DeathReason::Expired, ["m"]);
}

#[test]
fn where_only_the_head_expires_a_message_waits_although_its_time_is_over() {
    let arguments = arguments()
        .with("x-message-ttl", FieldValue::Int(50))
        .with("x-expiry", FieldValue::text("lazy"))
        .with("x-dead-letter-exchange", FieldValue::text("dlx"));
    let mut queue = with(&arguments);
    queue.publish(["m"]);
    queue.get();
    queue.pass(60);
    queue.settle("m", Outcome::Failed);
    queue.pass(99);
    assert_eq!(queue.queue().retrying(), 1);
    queue.expect_dead(DeathReason::Expired, [""; 0]);
    queue.pass(1);
    queue.expect_dead(DeathReason::Expired, ["m"]);
}

#[test]
fn held_back_messages_go_with_a_purge_and_with_the_queue() {
    for purge in [true, false] {
        let mut queue = with(&arguments());
        queue.publish(["one", "two", "three"]);
        let alice = queue.subscribe(prefetch(2));
        queue.take_labels(alice);
        queue.settle("one", Outcome::Failed);
        if purge {
            queue.take_labels(alice);
            assert_eq!(queue.purge(), 1);
            queue.pass(1000);
            assert_eq!(queue.take_labels(alice), [""; 0]);
            queue.expect_depth(0, 2);
            queue.expect_stored(["two", "three"]);
        } else {
            queue.delete();
            assert_eq!(queue.queue().next_due(), None);
        }
        assert_eq!(queue.store().attempts().count(), 0);
    }
}

/// RabbitMQ's way for its quorum queues: only failures make the wait longer, and what waited stands in front.
#[test]
fn a_quorum_queue_holds_back_in_its_own_words() {
    let arguments = FieldTable::new()
        .with("x-queue-type", FieldValue::text("quorum"))
        .with("x-delayed-retry-type", FieldValue::text("failed"))
        .with("x-delayed-retry-min", FieldValue::Int(100))
        .with("x-delayed-retry-max", FieldValue::Int(250));
    let mut queue = quorum(arguments);
    queue.publish(["one", "two", "three"]);
    let alice = queue.subscribe(prefetch(1));
    queue.expect_deliveries(alice, ["one"]);
    queue.settle("one", Outcome::Returned);
    queue.expect_redeliveries(alice, ["one"]);
    for (number, millis) in [(1, 100), (2, 200), (3, 250)] {
        queue.settle("one", Outcome::Failed);
        assert_eq!(queue.take_labels(alice), ["two"]);
        queue.pass(millis - 1);
        assert_eq!(queue.queue().retrying(), 1);
        queue.pass(1);
        queue.settle("two", Outcome::Returned);
        queue.expect_redeliveries(alice, ["one"]);
        queue.expect_counts("one", number + 1, number);
    }
}

#[test]
fn a_limit_of_deliveries_ends_retries_too() {
    let arguments = arguments()
        .with("x-attempt-counting", FieldValue::text("all"))
        .with("x-delivery-limit", FieldValue::Int(2))
        .with("x-dead-letter-exchange", FieldValue::text("dlx"));
    let mut queue = with(&arguments);
    queue.publish(["m"]);
    let alice = queue.subscribe(prefetch(1));
    for (outcome, number) in [(Outcome::Returned, 1), (Outcome::Failed, 2)] {
        queue.take_labels(alice);
        queue.settle("m", outcome);
        queue.restart(Stop::Crash);
        queue.expect_depth(0, 0);
        queue.pass(1000);
        let bob = queue.subscribe(prefetch(1));
        queue.expect_redeliveries(bob, ["m"]);
        queue.expect_counts("m", number, number);
    }
    queue.settle("m", Outcome::Returned);
    queue.expect_dead(DeathReason::DeliveryLimit, ["m"]);
}

#[test]
fn memory_does_not_grow_with_what_is_held_back() {
    let mut queue = with(&arguments());
    let each = UNACKED_BYTES_MAX / 10;
    for number in 0..40 {
        queue.publish_sized(&number.to_string(), each);
    }
    let alice = queue.subscribe(prefetch(0));
    let is_bounded = |queue: &QueueScenario| {
        let report = queue.queue().report();
        assert!(
            report.memory_bytes <= UNACKED_BYTES_MAX as u64,
            "{report:?}"
        );
    };
    is_bounded(&queue);
    let labels: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    for label in &labels {
        queue.settle(label, Outcome::Failed);
    }
    assert_eq!(queue.queue().retrying(), 40);
    is_bounded(&queue);
    queue.take_labels(alice);
    queue.pass(100);
    queue.expect_redeliveries(alice, 0..40);
    assert_eq!(queue.queue().retrying(), 0);
    is_bounded(&queue);
    queue.ack_all();
    queue.expect_stored([""; 0]);
    assert_eq!(queue.store().attempts().count(), 0);
}

/// One by one, so that each is whole while somebody has it.
#[test]
fn what_is_held_back_on_disk_comes_back_in_order_is_purged_expires_and_outlives_a_restart() {
    let returned = |settings: QueueSettings| {
        let mut queue = QueueScenario::with(settings).with_unacked_bytes_max(0);
        queue.publish(["one", "two", "three"]);
        let alice = queue.subscribe(prefetch(1));
        for label in ["one", "two", "three"] {
            queue.settle(label, Outcome::Failed);
        }
        assert_eq!(queue.queue().retrying(), 3);
        queue.expect_depth(0, 0);
        queue.take_labels(alice);
        (queue, alice)
    };
    let settings = || QueueSettings::of(&arguments());

    let (mut queue, alice) = returned(settings());
    queue.pass(100);
    queue.expect_redeliveries(alice, ["one"]);
    queue.ack("one");
    queue.expect_redeliveries(alice, ["two"]);

    let (mut queue, _) = returned(settings());
    assert_eq!(queue.purge(), 3);
    queue.expect_stored([""; 0]);

    let (mut queue, alice) = returned(QueueSettings {
        message_ttl_millis: Some(50),
        ..settings()
    });
    queue.pass(100);
    queue.expect_deliveries(alice, [""; 0]);
    queue.expect_stored([""; 0]);

    let (mut queue, _) = returned(settings());
    queue.restart(Stop::Crash);
    assert_eq!(queue.queue().retrying(), 3);
    let bob = queue.subscribe(prefetch(0));
    queue.expect_deliveries(bob, [""; 0]);
    queue.pass(100);
    queue.expect_redeliveries(bob, ["one", "two", "three"]);
}
