//! A paused consumer gets nothing, and misses nothing.

use crate::scenario::{QueueScenario, prefetch};

#[test]
fn nothing_comes_before_the_first_resume() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one"]);
    let alice = queue.subscribe_paused(prefetch(0));
    queue.publish(["two"]);
    queue.expect_deliveries(alice, [""; 0]);
    queue.expect_depth(2, 0);

    queue.resume(alice);
    queue.expect_deliveries(alice, ["one", "two"]);
}

#[test]
fn nothing_comes_while_paused() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(0));
    queue.publish(["one"]);
    queue.expect_deliveries(alice, ["one"]);

    queue.pause(alice);
    queue.publish(["two"]);
    queue.expect_deliveries(alice, [""; 0]);

    queue.resume(alice);
    queue.expect_deliveries(alice, ["two"]);
}

#[test]
fn others_are_served_meanwhile() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(0));
    let bob = queue.subscribe(prefetch(0));
    queue.pause(alice);
    queue.publish(["one", "two"]);
    queue.expect_deliveries(bob, ["one", "two"]);
    queue.expect_nothing_more();
}

#[test]
fn an_ack_alone_does_not_end_a_pause() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(1));
    queue.publish(["one", "two"]);
    queue.expect_deliveries(alice, ["one"]);
    queue.pause(alice);
    queue.ack("one");
    queue.expect_deliveries(alice, [""; 0]);

    queue.resume(alice);
    queue.expect_deliveries(alice, ["two"]);
}

#[test]
fn doing_it_twice_changes_nothing() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(0));
    let bob = queue.subscribe(prefetch(0));
    queue.resume(alice);
    queue.publish([1, 2, 3]);
    queue.expect_deliveries(alice, [1, 3]);
    queue.expect_deliveries(bob, [2]);

    queue.pause(bob);
    queue.pause(bob);
    queue.resume(bob);
    queue.publish([4, 5]);
    queue.expect_deliveries(alice, [4]);
    queue.expect_deliveries(bob, [5]);
}

#[test]
fn a_consumer_that_is_gone_is_ignored() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(0));
    queue.unsubscribe(alice);
    queue.resume(alice);
    queue.pause(alice);
    queue.publish(["one"]);
    queue.expect_nothing_more();
    queue.expect_depth(1, 0);
}
