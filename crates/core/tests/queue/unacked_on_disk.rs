//! Above a bound the bodies of unacked messages are on disk only, and nobody notices.

use leveret_core::{
    arguments::{DeadLetter, QueueSettings},
    ids::Seq,
    queue::{Command, DeathReason, Outcome, UNACKED_BYTES_MAX, WINDOW_ROWS_MAX},
};
use leveret_wire::value::{FieldTable, FieldValue};

use crate::{
    quorum::quorum,
    scenario::{QueueScenario, Stop, no_ack, prefetch},
};

/// Nothing of what is unacked stays in memory.
fn of(queue: QueueScenario) -> QueueScenario {
    queue.with_unacked_bytes_max(0)
}

fn dead_lettering() -> QueueScenario {
    of(QueueScenario::with(QueueSettings {
        dead_letter: Some(DeadLetter {
            exchange: None,
            routing_key: None,
        }),
        ..QueueSettings::default()
    }))
}

#[test]
fn memory_does_not_grow_with_what_a_consumer_holds() {
    let mut queue = QueueScenario::durable();
    for number in 0..40 {
        queue.publish_sized(&number.to_string(), UNACKED_BYTES_MAX / 10);
    }
    let _alice = queue.subscribe(prefetch(0));
    queue.expect_depth(0, 40);
    let report = queue.queue().report();
    assert_eq!(report.unacked_bytes, 40 * (UNACKED_BYTES_MAX as u64 / 10));
    assert!(
        report.memory_bytes <= UNACKED_BYTES_MAX as u64,
        "{report:?}"
    );
    queue.ack_all();
    queue.expect_stored([""; 0]);
    assert_eq!(queue.queue().report().unacked_bytes, 0);
}

#[test]
fn all_of_it_comes_back_in_order_and_flagged() {
    let mut queue = of(QueueScenario::durable());
    let total = 3 * WINDOW_ROWS_MAX;
    queue.publish(0..total);
    let alice = queue.subscribe(prefetch(0));
    queue.expect_deliveries(alice, 0..total);
    queue.publish(total..total + 10);
    queue.expect_deliveries(alice, total..total + 10);
    queue.end_channel(alice);
    queue.pass(0);
    queue.expect_depth(total as u64 + 10, 0);
    let bob = queue.subscribe(no_ack());
    queue.expect_redeliveries(bob, 0..total + 10);
    queue.expect_stored([""; 0]);
}

#[test]
fn what_was_acked_in_between_does_not_come_back() {
    let mut queue = of(QueueScenario::durable());
    queue.publish(0..300);
    let alice = queue.subscribe(prefetch(0));
    queue.expect_deliveries(alice, 0..300);
    let stays = |number: &u32| number % 7 == 3 || (100..150).contains(number);
    for number in (0..300).filter(|number| !stays(number)) {
        queue.ack(&number.to_string());
    }
    queue.end_channel(alice);
    let bob = queue.subscribe(no_ack());
    queue.expect_redeliveries(bob, (0..300).filter(stays));
    queue.expect_depth(0, 0);
}

#[test]
fn what_comes_back_stands_before_what_is_ready_and_behind_what_came_before_it() {
    let mut queue = of(QueueScenario::durable());
    queue.publish(["1", "2", "3", "4"]);
    let alice = queue.subscribe(prefetch(2));
    queue.expect_deliveries(alice, ["1", "2"]);
    queue.pause(alice);
    queue.settle("2", Outcome::Returned);
    queue.settle("1", Outcome::Failed);
    assert_eq!(queue.get(), Some(("1".to_owned(), true, 3)));
    assert_eq!(queue.get(), Some(("2".to_owned(), true, 2)));
    assert_eq!(queue.get(), Some(("3".to_owned(), false, 1)));
}

#[test]
fn one_that_comes_back_while_others_are_read_is_read_as_well() {
    let mut queue = of(QueueScenario::durable());
    queue.publish(["1", "2", "3"]);
    let alice = queue.subscribe(prefetch(0));
    queue.expect_deliveries(alice, ["1", "2", "3"]);
    queue.pause(alice);
    queue.hold_reads();
    queue.settle("1", Outcome::Returned);
    queue.settle("3", Outcome::Returned);
    let bob = queue.subscribe(no_ack());
    assert!(queue.pending_refill().is_some());
    queue.settle("2", Outcome::Returned);
    queue.answer_refill();
    while queue.pending_refill().is_some() {
        queue.answer_refill();
    }
    queue.expect_redeliveries(bob, ["1", "2", "3"]);
}

#[test]
fn a_rejected_one_is_read_and_goes_elsewhere() {
    let mut queue = dead_lettering();
    queue.publish(["one", "two"]);
    let alice = queue.subscribe(prefetch(0));
    queue.expect_deliveries(alice, ["one", "two"]);
    queue.settle("one", Outcome::Rejected);
    queue.expect_depth(0, 1);
    queue.expect_stored(["one", "two"]);
    let dead = queue.expect_dead(DeathReason::Rejected, ["one"]);
    assert!(dead[0].was_delivered);
    queue.together(vec![Command::Transferred { seq: Seq::new(0) }]);
    queue.expect_stored(["two"]);
}

#[test]
fn many_rejected_ones_are_read_as_fast_as_they_go() {
    let mut queue = dead_lettering();
    let total = 3 * u64::try_from(WINDOW_ROWS_MAX).unwrap();
    queue.publish(0..total);
    let alice = queue.subscribe(prefetch(0));
    queue.expect_deliveries(alice, 0..total);
    let rejected = |number: u64| queue.settling(&number.to_string(), Outcome::Rejected);
    let commands = (0..total).map(rejected).collect();
    queue.together(commands);
    let mut arrived = Vec::new();
    loop {
        let dead = queue.take_dead();
        if dead.is_empty() {
            break;
        }
        assert!(dead.len() <= 2 * WINDOW_ROWS_MAX, "{} at once", dead.len());
        let gone = dead
            .iter()
            .map(|(seq, _)| Command::Transferred { seq: *seq });
        queue.together(gone.collect());
        arrived.extend(dead.into_iter().map(|(_, label)| label));
    }
    assert!(
        arrived
            .iter()
            .cloned()
            .eq((0..total).map(|number| number.to_string()))
    );
    queue.expect_stored([""; 0]);
}

#[test]
fn a_rejected_one_that_nobody_wants_is_gone_without_being_read() {
    let mut queue = of(QueueScenario::durable());
    queue.publish(["one"]);
    queue.hold_reads();
    queue.get();
    queue.settle("one", Outcome::Rejected);
    assert_eq!(queue.pending_refill(), None);
    assert_eq!(
        queue.take_deaths().rejected,
        1,
        "it is counted all the same"
    );
    queue.expect_stored([""; 0]);
}

#[test]
fn a_crash_before_a_rejected_one_was_read_leaves_it_where_it_was() {
    let mut queue = dead_lettering();
    queue.publish(["one", "two"]);
    queue.get();
    queue.hold_reads();
    queue.settle("one", Outcome::Rejected);
    queue.publish(["three"]);
    queue.restart(Stop::Crash);
    assert_eq!(queue.get(), Some(("one".to_owned(), true, 2)));
}

#[test]
fn a_purge_drops_what_came_back_and_not_what_is_unacked() {
    let mut queue = of(QueueScenario::durable());
    queue.publish(0..20);
    let alice = queue.subscribe(prefetch(0));
    queue.expect_deliveries(alice, 0..20);
    queue.pause(alice);
    for number in [2, 3, 4, 9, 11] {
        queue.settle(&number.to_string(), Outcome::Returned);
    }
    assert_eq!(queue.purge(), 5);
    let stays = (0..20).filter(|number| ![2, 3, 4, 9, 11].contains(number));
    queue.expect_stored(stays.clone());
    queue.end_channel(alice);
    let bob = queue.subscribe(no_ack());
    queue.expect_redeliveries(bob, stays);
}

#[test]
fn one_whose_time_is_over_dies_when_it_comes_back_and_later_too() {
    let mut queue = dead_lettering();
    queue.publish_expiring(10, ["short"]);
    queue.publish_expiring(100, ["long"]);
    let alice = queue.subscribe(prefetch(0));
    queue.expect_deliveries(alice, ["short", "long"]);
    queue.pass(20);
    queue.end_channel(alice);
    queue.expect_dead(DeathReason::Expired, ["short"]);
    queue.expect_depth(1, 0);
    queue.pass(100);
    queue.expect_dead(DeathReason::Expired, ["long"]);
    queue.expect_depth(0, 0);
}

#[test]
fn a_quorum_queue_counts_it_and_hands_it_out_first() {
    let limit = FieldTable::new().with("x-delivery-limit", FieldValue::Int(2));
    let mut queue = of(quorum(limit));
    queue.publish(["1", "2", "3"]);
    let alice = queue.subscribe(prefetch(2));
    queue.expect_deliveries(alice, ["1", "2"]);
    queue.end_channel(alice);
    let bob = queue.subscribe(prefetch(1));
    queue.expect_redeliveries(bob, ["1"]);
    queue.expect_counts("1", Some(1), Some(1));
    queue.end_channel(bob);
    // "1" stands behind "2" now.
    let carol = queue.subscribe(prefetch(2));
    queue.expect_redeliveries(carol, ["2", "1"]);
    queue.expect_counts("1", Some(2), Some(2));
    queue.end_channel(carol);
    // The third time was one too many.
    let dave = queue.subscribe(no_ack());
    let labels = queue.take_labels(dave);
    assert_eq!(labels, ["2", "3"]);
    queue.expect_stored([""; 0]);
}

#[test]
fn one_that_the_store_has_lost_is_told_and_not_waited_for() {
    let mut queue = of(QueueScenario::durable());
    queue.publish(["1", "2", "3"]);
    let alice = queue.subscribe(prefetch(0));
    queue.expect_deliveries(alice, ["1", "2", "3"]);
    queue.hold_reads();
    queue.end_channel(alice);
    let bob = queue.subscribe(no_ack());
    queue.store().lose(Seq::new(1));
    queue.answer_refill();
    queue.expect_redeliveries(bob, ["1", "3"]);
    assert_eq!(queue.take_missing(), 1);
    queue.expect_depth(0, 0);
}

#[test]
fn after_a_crash_it_is_there_like_everything_else() {
    let mut queue = of(QueueScenario::durable());
    queue.publish(0..10);
    let alice = queue.subscribe(prefetch(5));
    queue.expect_deliveries(alice, 0..5);
    queue.ack("2");
    queue.settle("0", Outcome::Returned);
    queue.restart(Stop::Crash);
    let bob = queue.subscribe(no_ack());
    queue.expect_redeliveries(bob, [0, 1, 3, 4, 5, 6, 7, 8, 9]);
}
