//! Consumers of a higher priority are served first, as long as they have credit.

use leveret_core::queue::ConsumerSettings;

use crate::scenario::{QueueScenario, prefetch};

const fn priority(priority: i64, prefetch: u16) -> ConsumerSettings {
    ConsumerSettings {
        prefetch,
        priority,
        no_ack: false,
        exclusive: false,
        ack_timeout_millis: None,
        shared_else: None,
    }
}

#[test]
fn a_higher_priority_is_served_until_it_has_no_credit() {
    let mut queue = QueueScenario::durable();
    let low = queue.subscribe(priority(-1, 0));
    let high = queue.subscribe(priority(10, 2));
    let usual = queue.subscribe(prefetch(1));

    queue.publish(1..=5);
    queue.expect_deliveries(high, [1, 2]);
    queue.expect_deliveries(usual, [3]);
    queue.expect_deliveries(low, [4, 5]);

    queue.ack("1");
    queue.publish([6, 7]);
    queue.expect_deliveries(high, [6]);
    queue.expect_deliveries(low, [7]);
    queue.expect_nothing_more();
}

#[test]
fn a_paused_consumer_does_not_hold_back_lower_ones() {
    let mut queue = QueueScenario::durable();
    let high = queue.subscribe(priority(1, 0));
    let low = queue.subscribe(priority(0, 0));

    queue.pause(high);
    queue.publish([1]);
    queue.expect_deliveries(low, [1]);

    queue.resume(high);
    queue.publish([2]);
    queue.expect_deliveries(high, [2]);
    queue.expect_nothing_more();
}

#[test]
fn consumers_of_one_priority_take_turns() {
    let mut queue = QueueScenario::durable();
    let a = queue.subscribe(priority(5, 0));
    let low = queue.subscribe(priority(4, 0));
    let b = queue.subscribe(priority(5, 0));

    queue.publish(1..=4);
    queue.expect_deliveries(a, [1, 3]);
    queue.expect_deliveries(b, [2, 4]);
    queue.expect_deliveries(low, [0; 0]);
}

/// [`leveret_core::queue::Queue::check`] counts the lines and compares them with the priorities in use.
#[test]
fn a_priority_nobody_has_any_more_leaves_nothing_behind() {
    let mut queue = QueueScenario::durable();
    let stays = queue.subscribe(priority(0, 0));
    for number in 1..=100 {
        let passing = queue.subscribe(priority(number, 1));
        queue.unsubscribe(passing);
    }

    queue.publish([1]);
    queue.expect_deliveries(stays, [1]);
    assert_eq!(queue.queue().consumer_count(), 1);
}
