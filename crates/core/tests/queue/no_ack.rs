//! Messages for a consumer without acks are gone once handed out.

use crate::scenario::{QueueScenario, Stop, no_ack, prefetch};

#[test]
fn a_message_handed_out_without_ack_is_gone() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(no_ack());
    queue.publish(["one", "two"]);

    queue.expect_deliveries(alice, ["one", "two"]);
    queue.expect_depth(0, 0);
    queue.expect_stored([""; 0]);
}

#[test]
fn it_does_not_come_back_when_the_channel_ends() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(no_ack());
    queue.publish(["one"]);
    queue.expect_deliveries(alice, ["one"]);

    queue.end_channel(alice);
    let bob = queue.subscribe(prefetch(0));
    queue.expect_deliveries(bob, [""; 0]);
    queue.expect_depth(0, 0);
}

#[test]
fn it_does_not_come_back_after_a_restart() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one", "two"]);
    let alice = queue.subscribe_paused(no_ack());
    queue.resume(alice);
    queue.expect_deliveries(alice, ["one", "two"]);

    queue.restart(Stop::Crash);
    queue.expect_depth(0, 0);
}
