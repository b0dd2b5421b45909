//! `x-max-priority`: higher priorities first, publish order within one.

use leveret_core::{arguments::QueueSettings, queue::Outcome};

use crate::scenario::{QueueScenario, Stop, no_ack, prefetch};

fn up_to(max_priority: u8) -> QueueScenario {
    QueueScenario::with(QueueSettings {
        max_priority,
        ..QueueSettings::default()
    })
}

#[test]
fn higher_priorities_come_first_and_equal_ones_in_order() {
    let mut queue = up_to(10);
    queue.publish_with_priority(1, ["a1"]);
    queue.publish_with_priority(5, ["b1"]);
    queue.publish_with_priority(1, ["a2"]);
    queue.publish(["absent"]);
    queue.publish_with_priority(255, ["c1"]);
    queue.publish_with_priority(10, ["c2"]);
    let alice = queue.subscribe(no_ack());
    queue.expect_deliveries(alice, ["c1", "c2", "b1", "a1", "a2", "absent"]);
    queue.expect_stored([""; 0]);
}

#[test]
fn without_the_argument_priorities_are_ignored() {
    let mut queue = QueueScenario::durable();
    queue.publish_with_priority(1, ["one"]);
    queue.publish_with_priority(9, ["nine"]);
    let alice = queue.subscribe(no_ack());
    queue.expect_deliveries(alice, ["one", "nine"]);
}

#[test]
fn returned_messages_keep_their_priority() {
    let mut queue = up_to(10);
    queue.publish_with_priority(9, ["high"]);
    queue.publish_with_priority(1, ["low"]);
    queue.get();
    queue.get();
    queue.publish_with_priority(5, ["middle"]);
    queue.settle("low", Outcome::Returned);
    queue.settle("high", Outcome::Returned);
    let labels = [queue.get(), queue.get(), queue.get()];
    let labels = labels.map(|got| got.expect("a message").0);
    assert_eq!(labels, ["high", "middle", "low"]);
}

#[test]
fn after_a_restart_each_priority_is_read_in_turn() {
    for stop in [Stop::Clean, Stop::Crash] {
        let mut queue = up_to(3);
        for round in 0..3 {
            for priority in 0..=3 {
                queue.publish_with_priority(priority, [format!("{priority}.{round}")]);
            }
        }
        queue.restart(stop);
        queue.expect_depth(12, 0);
        // What comes now waits for what is stored with the same priority or a higher one.
        queue.publish_with_priority(2, ["2.new"]);
        let alice = queue.subscribe(prefetch(4));
        queue.expect_deliveries(alice, ["3.0", "3.1", "3.2", "2.0"]);
        queue.publish_with_priority(3, ["3.new"]);
        queue.ack_all();
        queue.expect_deliveries(alice, ["3.new", "2.1", "2.2", "2.new"]);
        queue.ack_all();
        queue.expect_deliveries(alice, ["1.0", "1.1", "1.2", "0.0"]);
        queue.ack_all();
        queue.expect_deliveries(alice, ["0.1", "0.2"]);
        queue.ack_all();
        queue.expect_stored([""; 0]);
    }
}

#[test]
fn many_messages_of_a_low_priority_do_not_hide_stored_ones_of_a_high_one() {
    let mut queue = up_to(9);
    queue.publish_with_priority(9, 0..2500);
    queue.restart(Stop::Clean);
    queue.publish_with_priority(1, 2500..6000);
    let alice = queue.subscribe(no_ack());
    queue.expect_deliveries(alice, 0..6000);
}

#[test]
fn a_purge_covers_all_priorities() {
    let mut queue = up_to(3);
    for priority in 0..=3 {
        queue.publish_with_priority(priority, [format!("old {priority}")]);
    }
    queue.restart(Stop::Clean);
    queue.get();
    for priority in 0..=3 {
        queue.publish_with_priority(priority, [format!("new {priority}")]);
    }
    assert_eq!(queue.purge(), 7);
    queue.ack("old 3");
    queue.expect_stored([""; 0]);
    queue.publish(["next"]);
    assert_eq!(queue.get(), Some(("next".to_owned(), false, 0)));
}

#[test]
fn what_comes_back_in_one_step_is_handed_out_by_priority() {
    let mut queue = up_to(10);
    let alice = queue.subscribe(prefetch(3));
    for (priority, label) in [(1, "low"), (5, "middle"), (9, "high")] {
        queue.publish_with_priority(priority, [label]);
    }
    queue.expect_deliveries(alice, ["low", "middle", "high"]);
    queue.settle_together(&["low", "middle", "high"], Outcome::Returned);
    queue.expect_redeliveries(alice, ["high", "middle", "low"]);
}
