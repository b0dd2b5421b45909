//! A returned message goes back to its old place, flagged.

use leveret_core::queue::Outcome;

use crate::scenario::{QueueScenario, no_ack, prefetch};

#[test]
fn it_comes_before_everything_published_later() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(3));
    queue.publish(1..=5);
    queue.expect_deliveries(alice, [1, 2, 3]);
    queue.pause(alice);

    queue.settle("3", Outcome::Returned);
    queue.settle("1", Outcome::Returned);
    queue.expect_depth(4, 1);

    let bob = queue.subscribe(prefetch(2));
    queue.expect_redeliveries(bob, [1, 3]);
    queue.ack_all();
    queue.expect_deliveries(bob, [4, 5]);
    queue.expect_nothing_more();
}

#[test]
fn it_comes_between_its_old_neighbours() {
    let mut queue = QueueScenario::transient();
    queue.publish(1..=4);
    let alice = queue.subscribe(prefetch(3));
    queue.expect_deliveries(alice, [1, 2, 3]);
    queue.pause(alice);
    for label in ["2", "3", "1"] {
        queue.settle(label, Outcome::Returned);
    }
    let first = queue
        .get_no_ack()
        .map(|(label, redelivered, _)| (label, redelivered));
    assert_eq!(first, Some(("1".to_owned(), true)));
    let bob = queue.subscribe(no_ack());
    queue.expect_first_deliveries(bob, [2, 3]);
    queue.expect_deliveries(bob, [4]);
}

#[test]
fn the_flag_stays_for_good() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(1));
    queue.publish(["one"]);
    queue.expect_deliveries(alice, ["one"]);
    for _ in 0..3 {
        queue.settle("one", Outcome::Returned);
        queue.expect_redeliveries(alice, ["one"]);
    }
}

#[test]
fn nothing_is_written_for_it() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(1));
    queue.publish(["one", "two"]);
    queue.expect_deliveries(alice, ["one"]);
    queue.pause(alice);
    queue.settle("one", Outcome::Returned);
    queue.expect_stored(["one", "two"]);
}
