//! The surroundings are told when the last consumer leaves, for queues that go with it.

use crate::scenario::{QueueScenario, channel, prefetch};

#[test]
fn the_last_one_to_cancel_is_reported() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(0));
    let bob = queue.subscribe(prefetch(0));
    queue.unsubscribe(alice);
    assert!(!queue.take_unused());
    queue.unsubscribe(bob);
    assert!(queue.take_unused());
    queue.unsubscribe(bob);
    assert!(!queue.take_unused(), "it left only once");
}

#[test]
fn the_end_of_the_last_channel_is_reported() {
    let mut queue = QueueScenario::durable();
    let first = queue.subscribe(prefetch(0));
    queue.subscribe_beside(first, prefetch(0));
    let other = queue.subscribe(prefetch(0));
    queue.end_channel(first);
    assert!(!queue.take_unused());
    assert_eq!(queue.queue().consumer_count(), 1);
    queue.end_channel(other);
    assert!(queue.take_unused());
}

#[test]
fn a_queue_that_never_had_a_consumer_is_not_unused() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one"]);
    let got = queue.ask_get_on(channel(1), false);
    assert!(queue.take_got(got).is_some());
    queue.together(vec![leveret_core::queue::Command::Release {
        channel: channel(1),
        ended: true,
    }]);
    queue.purge();
    assert!(!queue.take_unused());
}

#[test]
fn recover_ends_no_consumer() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(0));
    queue.recover_channel(alice);
    assert!(!queue.take_unused());
    assert_eq!(queue.queue().consumer_count(), 1);
}

#[test]
fn what_a_cancelled_consumer_holds_stays_with_its_channel() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(0));
    queue.publish(["one", "two"]);
    queue.expect_deliveries(alice, ["one", "two"]);

    queue.unsubscribe(alice);
    queue.publish(["three"]);
    queue.expect_nothing_more();
    queue.expect_depth(1, 2);

    queue.ack("one");
    queue.expect_depth(1, 1);
    queue.end_channel(alice);
    queue.expect_depth(2, 0);
}
