//! An exclusive consumer has the queue for itself.

use leveret_core::queue::Answer;

use crate::scenario::{QueueScenario, exclusive, prefetch};

#[test]
fn nobody_joins_an_exclusive_consumer() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(exclusive());
    assert_eq!(queue.try_subscribe(prefetch(0)), Answer::ExclusiveUse);
    assert_eq!(queue.try_subscribe(exclusive()), Answer::ExclusiveUse);

    queue.publish(["one"]);
    queue.expect_deliveries(alice, ["one"]);
    queue.expect_nothing_more();
}

#[test]
fn an_exclusive_consumer_does_not_join_others() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe_paused(prefetch(0));
    assert_eq!(queue.try_subscribe(exclusive()), Answer::ExclusiveUse);
    assert_eq!(queue.queue().consumer_count(), 1);

    queue.unsubscribe(alice);
    queue.subscribe(exclusive());
}

#[test]
fn the_queue_is_free_again_when_it_leaves() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(exclusive());
    queue.end_channel(alice);
    queue.subscribe(prefetch(0));
    queue.subscribe(prefetch(0));
}

#[test]
fn a_get_is_allowed_beside_it() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe_paused(exclusive());
    queue.publish(["one", "two"]);
    assert_eq!(queue.get(), Some(("one".to_owned(), false, 1)));
    queue.resume(alice);
    queue.expect_deliveries(alice, ["two"]);
}
