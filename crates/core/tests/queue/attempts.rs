//! Attempts: which return counts, what the headers tell, and the delivery limit.

use leveret_core::{
    arguments::{AttemptCounting, DeadLetter, QueueSettings},
    queue::{DeathReason, Outcome},
};
use leveret_wire::value::{FieldTable, FieldValue};

use crate::{
    quorum::quorum,
    scenario::{QueueScenario, Stop},
};

fn counting(counting: AttemptCounting, limit: u64) -> QueueScenario {
    QueueScenario::with(QueueSettings {
        attempt_counting: Some(counting),
        delivery_limit: Some(limit),
        dead_letter: Some(DeadLetter {
            exchange: None,
            routing_key: None,
        }),
        ..QueueSettings::default()
    })
}

#[test]
fn each_way_back_counts_in_its_way() {
    let mut queue = quorum(FieldTable::new());
    queue.publish(["one"]);
    queue.get();
    queue.expect_counts("one", None, None);
    queue.settle("one", Outcome::Returned);
    queue.get();
    queue.expect_counts("one", 1, None);
    queue.settle("one", Outcome::Failed);
    let alice = queue.subscribe(crate::scenario::prefetch(1));
    queue.expect_redeliveries(alice, ["one"]);
    queue.expect_counts("one", 2, 1);
    queue.recover_channel(alice);
    queue.expect_redeliveries(alice, ["one"]);
    queue.expect_counts("one", 3, 1);
    queue.end_channel(alice);
    queue.get();
    queue.expect_counts("one", 4, 2);
}

#[test]
fn where_all_count_each_way_back_counts() {
    let mut queue = counting(AttemptCounting::All, 10);
    queue.publish(["one"]);
    for outcome in [Outcome::Returned, Outcome::Failed] {
        queue.get();
        queue.settle("one", outcome);
    }
    queue.get();
    queue.expect_counts("one", 2, 2);
}

#[test]
fn where_nobody_counts_nothing_is_told() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one"]);
    for outcome in [Outcome::Returned, Outcome::Failed] {
        queue.get();
        queue.settle("one", outcome);
    }
    queue.get();
    queue.expect_counts("one", None, None);
}

#[test]
fn a_message_dies_when_its_count_would_exceed_the_limit() {
    for limit in [0, 1, 4] {
        let mut queue = counting(AttemptCounting::Failures, limit);
        queue.publish(["one"]);
        for _ in 0..limit {
            queue.get();
            queue.settle("one", Outcome::Failed);
            queue.get();
            queue.settle("one", Outcome::Returned);
        }
        queue.expect_dead(DeathReason::DeliveryLimit, [""; 0]);
        queue.get();
        queue.settle("one", Outcome::Failed);
        let dead = queue.expect_dead(DeathReason::DeliveryLimit, ["one"]);
        assert_eq!(crate::scenario::counts(&dead[0].message), (None, None));
        queue.expect_stored(["one"]);
        queue.together(vec![leveret_core::queue::Command::Transferred {
            seq: dead[0].seq.expect("it had a place"),
        }]);
        queue.expect_stored([""; 0]);
    }
}

#[test]
fn without_a_dead_letter_exchange_it_is_dropped() {
    let limit = FieldTable::new().with("x-delivery-limit", FieldValue::Int(0));
    let mut queue = quorum(limit);
    queue.publish(["one"]);
    queue.get();
    queue.settle("one", Outcome::Failed);
    queue.expect_depth(0, 0);
    queue.expect_stored([""; 0]);
}

#[test]
fn a_restart_does_not_begin_the_counts_anew() {
    for stop in [Stop::Clean, Stop::Crash] {
        let mut queue = quorum(FieldTable::new());
        queue.publish(["one", "two"]);
        queue.get();
        queue.settle("one", Outcome::Failed);
        queue.restart(stop);
        queue.get();
        queue.expect_counts("one", 1, 1);
        queue.settle("one", Outcome::Returned);
        queue.get();
        queue.expect_counts("one", 2, 1);
        queue.get();
        queue.expect_counts("two", None, None);
        // The store refuses counts that outlive their message.
        queue.ack("one");
        queue.ack("two");
        queue.expect_stored([""; 0]);
    }
}

#[test]
fn a_delivery_that_came_back_is_settled_once() {
    let mut queue = quorum(FieldTable::new());
    queue.publish(["one"]);
    queue.get();
    let late = queue.settling("one", Outcome::Acked);
    queue.settle("one", Outcome::Returned);
    queue.get();
    queue.together(vec![late]);
    queue.expect_depth(0, 1);
    queue.ack("one");
    queue.expect_depth(0, 0);
}

/// Headers of the publisher stay; of the counts only those of the queue are told.
#[test]
fn own_headers_stay_beside_the_counts() {
    let mut queue = counting(AttemptCounting::All, 10);
    let headers = FieldTable::new()
        .with("mine", FieldValue::Int(1))
        .with("x-delivery-count", FieldValue::text("copied"));
    queue.publish_with_headers("one", headers);
    queue.get();
    queue.settle("one", Outcome::Failed);
    queue.get();
    let expected = FieldTable::new()
        .with("mine", FieldValue::Int(1))
        .with("x-acquired-count", FieldValue::Long(1))
        .with("x-delivery-count", FieldValue::Long(1));
    assert_eq!(queue.headers_of("one"), expected);
}
