//! What a queue knows after a restart, and what counts as redelivered.

use leveret_core::{
    ids::Seq,
    queue::{Outcome, WINDOW_BYTES_MAX},
};

use crate::scenario::{
    QueueScenario,
    Stop::{Clean, Crash},
    prefetch,
};

/// Everything in the queue, by label, with its flag.
fn drain(queue: &mut QueueScenario) -> Vec<(String, bool)> {
    std::iter::from_fn(|| queue.get_no_ack())
        .map(|(label, redelivered, _)| (label, redelivered))
        .collect()
}

fn messages<const N: usize>(messages: [(&str, bool); N]) -> Vec<(String, bool)> {
    messages
        .map(|(label, flag)| (label.to_owned(), flag))
        .to_vec()
}

#[test]
fn persistent_messages_are_there_again_and_transient_ones_are_not() {
    for stop in [Clean, Crash] {
        let mut queue = QueueScenario::durable();
        queue.publish(["one"]);
        queue.publish_transient(["two"]);
        queue.publish(["three"]);
        queue.restart(stop);
        queue.expect_depth(2, 0);
        assert_eq!(
            drain(&mut queue),
            messages([("one", false), ("three", false)])
        );
    }
}

#[test]
fn unacked_messages_are_ready_again_in_their_old_place() {
    for stop in [Clean, Crash] {
        let mut queue = QueueScenario::durable();
        let alice = queue.subscribe(prefetch(2));
        queue.publish(["one", "two", "three"]);
        queue.expect_deliveries(alice, ["one", "two"]);
        queue.restart(stop);
        queue.expect_depth(3, 0);
        let labels: Vec<String> = drain(&mut queue)
            .into_iter()
            .map(|(label, _)| label)
            .collect();
        assert_eq!(labels, ["one", "two", "three"]);
    }
}

#[test]
fn after_a_clean_stop_exactly_what_was_handed_out_is_flagged() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(3));
    queue.publish(["one", "two", "three", "four"]);
    queue.expect_deliveries(alice, ["one", "two", "three"]);
    queue.pause(alice);
    queue.ack("one");
    queue.settle("two", Outcome::Returned);

    queue.restart(Clean);
    queue.publish(["five"]);
    let expected = [
        ("two", true),
        ("three", true),
        ("four", false),
        ("five", false),
    ];
    assert_eq!(drain(&mut queue), messages(expected));
}

#[test]
fn after_a_crash_with_consumers_everything_stored_is_flagged() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one", "two"]);
    let alice = queue.subscribe(prefetch(1));
    queue.expect_deliveries(alice, ["one"]);

    queue.restart(Crash);
    queue.publish(["three"]);
    let expected = [("one", true), ("two", true), ("three", false)];
    assert_eq!(drain(&mut queue), messages(expected));
}

#[test]
fn a_paused_consumer_is_a_consumer_and_a_get_is_one_too() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one"]);
    queue.subscribe_paused(prefetch(1));
    queue.restart(Crash);
    assert_eq!(drain(&mut queue), messages([("one", true)]));

    let mut queue = QueueScenario::durable();
    queue.publish(["one", "two"]);
    assert!(queue.get().is_some());
    queue.restart(Crash);
    assert_eq!(drain(&mut queue), messages([("one", true), ("two", true)]));
}

#[test]
fn after_a_crash_without_consumers_nothing_is_flagged() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one"]);
    queue.restart(Crash);
    queue.publish(["two"]);
    queue.restart(Crash);
    assert_eq!(
        drain(&mut queue),
        messages([("one", false), ("two", false)])
    );
}

/// The consumers of the first run are not forgotten because nobody came in the second.
#[test]
fn what_is_known_survives_a_crash_of_a_run_without_consumers() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one", "two"]);
    let alice = queue.subscribe(prefetch(1));
    queue.expect_deliveries(alice, ["one"]);
    queue.restart(Clean);
    queue.publish(["three"]);
    queue.restart(Crash);
    let expected = [("one", true), ("two", false), ("three", false)];
    assert_eq!(drain(&mut queue), messages(expected));
}

#[test]
fn a_doubt_survives_further_restarts() {
    for (second, third) in [
        (Clean, Clean),
        (Clean, Crash),
        (Crash, Clean),
        (Crash, Crash),
    ] {
        let mut queue = QueueScenario::durable();
        queue.publish(["one", "two"]);
        queue.subscribe_paused(prefetch(1));
        queue.restart(Crash);
        queue.publish(["three"]);
        queue.restart(second);
        queue.restart(third);
        let expected = [("one", true), ("two", true), ("three", false)];
        assert_eq!(
            drain(&mut queue),
            messages(expected),
            "{second:?}, {third:?}"
        );
    }
}

#[test]
fn a_crash_before_the_first_commit_leaves_nothing() {
    let mut queue = QueueScenario::durable();
    queue.hold_commits();
    queue.publish(["one"]);
    queue.restart(Crash);
    queue.expect_depth(0, 0);
    queue.expect_confirmed([]);
}

#[test]
fn an_ack_that_was_not_committed_is_forgotten_and_the_message_flagged() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(0));
    queue.publish(["one"]);
    queue.expect_deliveries(alice, ["one"]);
    queue.hold_commits();
    queue.ack("one");
    queue.restart(Crash);
    assert_eq!(drain(&mut queue), messages([("one", true)]));
}

/// The store refuses a place that is put a second time.
#[test]
fn places_go_on_behind_those_of_earlier_runs() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one"]);
    queue.publish_transient(["two"]);
    assert_eq!(drain(&mut queue).len(), 2);
    queue.restart(Clean);
    assert_eq!(queue.store().state().next, Seq::new(2));
    queue.publish(["three"]);
    queue.restart(Crash);
    queue.publish(["four"]);
    assert_eq!(queue.store().state().next, Seq::new(4));
    assert_eq!(
        drain(&mut queue),
        messages([("three", false), ("four", false)])
    );
}

#[test]
fn messages_flagged_by_a_restart_pass_through_the_cold_range_alike() {
    let mut queue = QueueScenario::durable();
    for label in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        queue.publish_sized(label, WINDOW_BYTES_MAX / 2);
    }
    let alice = queue.subscribe(prefetch(3));
    queue.expect_deliveries(alice, ["a", "b", "c"]);
    queue.restart(Clean);
    let expected = [
        ("a", true),
        ("b", true),
        ("c", true),
        ("d", false),
        ("e", false),
        ("f", false),
        ("g", false),
        ("h", false),
    ];
    assert_eq!(drain(&mut queue), messages(expected));
}

#[test]
fn a_queue_that_is_not_durable_says_nothing_at_a_stop() {
    let queue = QueueScenario::transient();
    assert_eq!(queue.queue().state_at_stop(), None);
}

#[test]
fn a_clean_stop_ends_the_time_of_consumers() {
    let mut queue = QueueScenario::durable();
    queue.subscribe(prefetch(0));
    assert!(queue.store().state().consumed);
    queue.restart(Clean);
    assert!(!queue.store().state().consumed);
    assert!(queue.queue().has_unknown_consumers());
}
