//! What a quorum queue does differently: order, priorities, consumers.

use leveret_core::{
    arguments::QueueSettings,
    queue::{Answer, Outcome},
};
use leveret_wire::value::{FieldTable, FieldValue};

use crate::scenario::{QueueScenario, Stop, exclusive, no_ack, prefetch};

/// A quorum queue with these further arguments.
pub(crate) fn quorum(arguments: FieldTable) -> QueueScenario {
    let arguments = arguments.with("x-queue-type", FieldValue::text("quorum"));
    QueueScenario::with(QueueSettings::of(&arguments))
}

fn plain() -> QueueScenario {
    quorum(FieldTable::new())
}

#[track_caller]
fn expect_order<const N: usize>(queue: &mut QueueScenario, labels: [&str; N]) {
    let found: Vec<String> = std::iter::from_fn(|| queue.get_no_ack())
        .map(|(label, ..)| label)
        .collect();
    assert_eq!(found, labels);
}

#[test]
fn transient_messages_are_stored_and_confirmed_when_they_are() {
    let mut queue = plain();
    queue.hold_commits();
    queue.publish_transient(["one"]);
    queue.expect_accepted([]);
    queue.commit();
    queue.expect_confirmed([1]);
    queue.restart(Stop::Crash);
    assert_eq!(queue.get(), Some(("one".to_owned(), false, 0)));
}

#[test]
fn returned_messages_come_first_in_the_order_of_their_return() {
    let mut queue = plain();
    let alice = queue.subscribe(prefetch(4));
    queue.publish(["1", "2", "3", "4", "5", "6"]);
    queue.expect_deliveries(alice, ["1", "2", "3", "4"]);
    queue.unsubscribe(alice);
    for label in ["3", "1", "4", "2"] {
        queue.settle(label, Outcome::Returned);
    }
    expect_order(&mut queue, ["3", "1", "4", "2", "5", "6"]);
    queue.expect_stored([""; 0]);
}

#[test]
fn what_comes_back_again_stands_behind_what_came_back_before() {
    let mut queue = plain();
    queue.publish(["1", "2", "3"]);
    queue.get();
    queue.get();
    queue.settle("1", Outcome::Returned);
    queue.settle("2", Outcome::Returned);
    queue.get();
    queue.settle("1", Outcome::Returned);
    expect_order(&mut queue, ["2", "1", "3"]);
}

#[test]
fn a_returned_message_stands_before_higher_priorities() {
    let mut queue = plain();
    queue.publish_with_priority(1, ["low"]);
    queue.get();
    queue.publish_with_priority(20, ["higher"]);
    queue.settle("low", Outcome::Returned);
    expect_order(&mut queue, ["low", "higher"]);
}

#[test]
fn messages_of_an_ended_channel_come_back_in_their_order() {
    let mut queue = plain();
    let alice = queue.subscribe(prefetch(0));
    queue.publish(["1", "2", "3"]);
    queue.expect_deliveries(alice, ["1", "2", "3"]);
    queue.publish(["4"]);
    queue.expect_deliveries(alice, ["4"]);
    queue.end_channel(alice);
    queue.publish(["5"]);
    expect_order(&mut queue, ["1", "2", "3", "4", "5"]);
}

#[test]
fn messages_of_an_ended_channel_come_back_in_the_order_they_were_handed_out() {
    let mut queue = plain();
    let alice = queue.subscribe(prefetch(3));
    queue.publish(["1", "2", "3"]);
    queue.expect_deliveries(alice, ["1", "2", "3"]);
    queue.settle("1", Outcome::Returned);
    queue.expect_redeliveries(alice, ["1"]);
    queue.end_channel(alice);
    expect_order(&mut queue, ["2", "3", "1"]);
}

#[test]
fn priorities_need_no_argument_and_go_up_to_31() {
    let mut queue = plain();
    queue.publish_with_priority(3, ["three"]);
    queue.publish(["absent"]);
    queue.publish_with_priority(4, ["four"]);
    queue.publish_with_priority(255, ["a lot"]);
    queue.publish_with_priority(31, ["most"]);
    queue.publish_with_priority(30, ["less"]);
    expect_order(
        &mut queue,
        ["a lot", "most", "less", "absent", "four", "three"],
    );
}

/// The head dropped by a length limit is the one that would be delivered next.
#[test]
fn a_full_queue_drops_the_oldest_of_the_highest_priority() {
    let mut queue = quorum(FieldTable::new().with("x-max-length", FieldValue::Int(2)));
    queue.publish_with_priority(9, ["high 1", "high 2"]);
    queue.publish_with_priority(1, ["low"]);
    expect_order(&mut queue, ["high 2", "low"]);
}

#[test]
fn each_priority_of_a_long_backlog_is_cold_and_read_in_turn() {
    let mut queue = plain();
    for round in 0..1500 {
        queue.publish_with_priority(1, [format!("low {round}")]);
        queue.publish_with_priority(9, [format!("high {round}")]);
    }
    queue.expect_depth(3000, 0);
    let alice = queue.subscribe(no_ack());
    let high = (0..1500).map(|round| format!("high {round}"));
    let low = (0..1500).map(|round| format!("low {round}"));
    queue.expect_deliveries(alice, high.chain(low));
    queue.expect_stored([""; 0]);
    queue.publish(["next"]);
    queue.expect_deliveries(alice, ["next"]);
}

#[test]
fn a_purge_covers_what_is_cold_of_every_priority_and_what_was_counted() {
    let mut queue = plain();
    queue.publish(["returned"]);
    queue.get();
    queue.settle("returned", Outcome::Failed);
    queue.restart(Stop::Clean);
    queue.publish_with_priority(1, 0..2500);
    queue.publish_with_priority(9, 2500..2600);
    assert_eq!(queue.purge(), 2601);
    queue.expect_stored([""; 0]);
}

#[test]
fn nobody_has_it_for_himself() {
    let mut queue = plain();
    queue.subscribe(exclusive());
    assert_eq!(queue.try_subscribe(exclusive()), Answer::Subscribed);
    assert_eq!(queue.try_subscribe(prefetch(0)), Answer::Subscribed);
}

#[test]
fn after_a_clean_stop_only_what_came_back_is_flagged() {
    let mut queue = plain();
    queue.publish(["1", "2"]);
    queue.publish_with_priority(9, ["3"]);
    assert_eq!(queue.get(), Some(("3".to_owned(), false, 2)));
    queue.settle("3", Outcome::Failed);
    queue.restart(Stop::Clean);
    assert_eq!(queue.get(), Some(("3".to_owned(), true, 2)));
    assert_eq!(queue.get(), Some(("1".to_owned(), false, 1)));
    queue.restart(Stop::Crash);
    let found: Vec<_> = std::iter::from_fn(|| queue.get()).collect();
    assert!(
        found.iter().all(|(_, redelivered, _)| *redelivered),
        "{found:?}"
    );
}

#[test]
fn whoever_holds_a_message_is_counted_as_a_consumer() {
    let mut queue = plain();
    queue.publish(["1", "2", "3", "4"]);
    queue.get();
    queue.get();
    queue.get_no_ack();
    queue.expect_declared_consumers(2);
    queue.ack("1");
    let alice = queue.subscribe(prefetch(0));
    queue.expect_deliveries(alice, ["4"]);
    queue.expect_declared_consumers(2);
    queue.unsubscribe(alice);
    queue.expect_declared_consumers(2);
    queue.ack("4");
    queue.settle("2", Outcome::Returned);
    queue.expect_declared_consumers(0);
}

#[test]
fn who_waits_behind_the_single_active_consumer_is_not_counted() {
    let active = FieldTable::new().with("x-single-active-consumer", FieldValue::Bool(true));
    let mut queue = quorum(active);
    queue.publish(["1", "2"]);
    let alice = queue.subscribe(prefetch(1));
    queue.subscribe(prefetch(1));
    queue.expect_declared_consumers(1);
    queue.unsubscribe(alice);
    queue.expect_declared_consumers(2);
    queue.ack("1");
    queue.expect_declared_consumers(1);
}

/// As RabbitMQ has it; properties are 2 bytes when none is set.
#[test]
fn properties_count_to_the_limit_in_bytes() {
    let limit = FieldTable::new().with("x-max-length-bytes", FieldValue::Int(20));
    let mut queue = quorum(limit);
    queue.publish_sized("one", 8);
    queue.publish_sized("two", 8);
    queue.expect_stored(["one", "two"]);
    assert_eq!(queue.queue().report().ready_bytes, 20);
    queue.publish_sized("three", 0);
    queue.expect_stored(["two", "three"]);
    assert_eq!(queue.queue().report().ready_bytes, 12);
}

#[test]
fn properties_of_what_a_former_build_stored_do_not_count() {
    let mut queue = plain();
    queue.publish(["old", "older"]);
    queue.restart_after_a_build_without_properties();
    queue.publish(["new"]);
    assert_eq!(queue.queue().report().ready_bytes, 3 + 5 + 3 + 2);
    queue.restart(Stop::Crash);
    queue.publish(["newer"]);
    assert_eq!(queue.queue().report().ready_bytes, 3 + 5 + 3 + 2 + 5 + 2);
    queue.get();
    queue.settle("old", Outcome::Failed);
    expect_order(&mut queue, ["old", "older", "new", "newer"]);
    assert_eq!(queue.queue().report().ready_bytes, 0);
    assert_eq!(queue.store().state().message_bytes, 0);
}
