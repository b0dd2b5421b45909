//! Ack and reject end a message; repeating them does no harm.

use leveret_core::{
    ids::{Handout, Seq},
    queue::{Command, Outcome},
};

use crate::scenario::{QueueScenario, prefetch};

#[test]
fn acked_and_rejected_messages_are_gone_from_the_store() {
    for outcome in [Outcome::Acked, Outcome::Rejected] {
        let mut queue = QueueScenario::durable();
        let alice = queue.subscribe(prefetch(0));
        queue.publish(["one", "two", "three"]);
        queue.expect_deliveries(alice, ["one", "two", "three"]);

        queue.settle("two", outcome);
        queue.expect_stored(["one", "three"]);
        queue.expect_depth(0, 2);
    }
}

/// The store refuses a row that is forgotten twice, and the check counts the credit.
#[test]
fn settling_twice_does_no_harm() {
    for first in [Outcome::Acked, Outcome::Rejected, Outcome::Returned] {
        for second in [Outcome::Acked, Outcome::Rejected, Outcome::Returned] {
            let mut queue = QueueScenario::durable();
            let alice = queue.subscribe(prefetch(2));
            queue.publish(["one", "two"]);
            queue.expect_deliveries(alice, ["one", "two"]);
            queue.pause(alice);

            let commands = vec![queue.settling("one", first), queue.settling("one", second)];
            queue.together(commands);
            let is_back = u64::from(first == Outcome::Returned);
            queue.expect_depth(is_back, 1);
            queue.publish(["three", "four"]);
            queue.resume(alice);
            queue.expect_depth(2 + is_back - 1, 2);
        }
    }
}

#[test]
fn a_place_nobody_holds_is_ignored() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one"]);
    let settles = [0, 1, 99].map(|seq| Command::Settle {
        seq: Seq::new(seq),
        handout: Handout::default(),
        outcome: Outcome::Acked,
        more: false,
    });
    queue.together(settles.to_vec());
    queue.expect_depth(1, 0);
    queue.expect_stored(["one"]);
}

#[test]
fn a_settle_that_comes_after_the_channel_ended_is_ignored() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(0));
    queue.publish(["one"]);
    queue.expect_deliveries(alice, ["one"]);
    queue.end_channel(alice);
    queue.ack("one");
    queue.expect_depth(1, 0);
    queue.expect_stored(["one"]);
}
