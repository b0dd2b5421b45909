//! `basic.get` hands out one message, outside any prefetch.

use leveret_core::queue::Outcome;

use crate::scenario::{QueueScenario, prefetch};

fn got(label: &str, redelivered: bool, remaining: u64) -> Option<(String, bool, u64)> {
    Some((label.to_owned(), redelivered, remaining))
}

#[test]
fn it_takes_the_oldest_and_says_how_many_are_left() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one", "two", "three"]);
    assert_eq!(queue.get(), got("one", false, 2));
    assert_eq!(queue.get(), got("two", false, 1));
    queue.expect_depth(1, 2);
    queue.expect_stored(["one", "two", "three"]);
}

#[test]
fn an_empty_queue_has_none() {
    for mut queue in [QueueScenario::durable(), QueueScenario::transient()] {
        assert_eq!(queue.get(), None);
        queue.publish(["one"]);
        assert_eq!(queue.get(), got("one", false, 0));
        assert_eq!(
            queue.get(),
            None,
            "an unacked message is not there to be got"
        );
    }
}

#[test]
fn without_ack_it_is_gone() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one"]);
    assert_eq!(queue.get_no_ack(), got("one", false, 0));
    queue.expect_depth(0, 0);
    queue.expect_stored([""; 0]);
}

#[test]
fn no_prefetch_counts_it() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe_paused(prefetch(1));
    queue.publish(["one", "two", "three"]);
    assert_eq!(queue.get(), got("one", false, 2));
    queue.resume(alice);
    queue.expect_deliveries(alice, ["two"]);
    assert_eq!(
        queue.get(),
        got("three", false, 0),
        "a full prefetch does not matter"
    );

    queue.publish(["four"]);
    queue.ack("one");
    queue.expect_nothing_more();
    queue.ack("two");
    queue.expect_deliveries(alice, ["four"]);
}

#[test]
fn it_can_be_returned_and_rejected() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one"]);
    assert_eq!(queue.get(), got("one", false, 0));
    queue.settle("one", Outcome::Returned);
    assert_eq!(queue.get(), got("one", true, 0));
    queue.settle("one", Outcome::Rejected);
    assert_eq!(queue.get(), None);
    queue.expect_stored([""; 0]);
}
