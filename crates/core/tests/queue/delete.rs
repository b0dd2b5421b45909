//! A queue ends; what is sent to it afterwards is answered.

use leveret_core::queue::{Answer, Command, Outcome, WINDOW_ROWS_MAX};

use crate::scenario::{QueueScenario, Stop, channel, exclusive, prefetch};

const WINDOW: u64 = WINDOW_ROWS_MAX as u64;

#[test]
fn it_counts_the_ready_messages_that_go_with_it() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(1));
    queue.publish(0..WINDOW + 10);
    queue.expect_deliveries(alice, [0]);
    assert_eq!(queue.delete(), Answer::Deleted(WINDOW + 9));
    queue.expect_depth(0, 0);
    assert!(queue.queue().is_deleted());
}

#[test]
fn only_a_durable_queue_has_something_to_write_down() {
    let mut queue = QueueScenario::durable();
    assert_eq!(queue.delete(), Answer::Deleted(0));
    assert!(queue.store().is_deleted());

    let mut queue = QueueScenario::transient();
    assert_eq!(queue.delete(), Answer::Deleted(0));
    assert!(!queue.store().is_deleted());
}

#[test]
fn its_consumers_are_told() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(0));
    let bob = queue.subscribe_paused(prefetch(0));
    queue.delete();
    queue.expect_cancelled([alice, bob]);
    assert_eq!(queue.queue().consumer_count(), 0);
    assert!(!queue.take_unused(), "there is nothing left to delete");
}

#[test]
fn if_unused_spares_a_queue_with_consumers() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe_paused(prefetch(0));
    queue.publish([1]);
    assert_eq!(queue.delete_if(true, false), Answer::InUse);
    queue.expect_depth(1, 0);
    queue.expect_stored([1]);
    queue.unsubscribe(alice);
    assert_eq!(queue.delete_if(true, false), Answer::Deleted(1));
}

/// As a real RabbitMQ answers.
#[test]
fn if_empty_is_checked_before_if_unused() {
    let mut queue = QueueScenario::durable();
    queue.subscribe_paused(prefetch(0));
    assert_eq!(queue.delete_if(true, true), Answer::InUse);
    queue.publish([1]);
    assert_eq!(queue.delete_if(true, true), Answer::NotEmpty);
}

#[test]
fn if_empty_spares_a_queue_with_ready_messages() {
    let mut queue = QueueScenario::durable();
    queue.publish([1]);
    assert_eq!(queue.delete_if(false, true), Answer::NotEmpty);
    queue.restart(Stop::Clean);
    assert_eq!(
        queue.delete_if(true, true),
        Answer::NotEmpty,
        "it is cold now, and there"
    );
    assert!(!queue.queue().is_deleted());
}

#[test]
fn unacked_messages_alone_count_as_empty() {
    let mut queue = QueueScenario::durable();
    queue.publish([1]);
    assert!(queue.get().is_some());
    assert_eq!(queue.delete_if(true, true), Answer::Deleted(0));
}

#[test]
fn a_publish_that_comes_late_is_as_good_as_delivered() {
    let mut queue = QueueScenario::durable();
    queue.delete();
    queue.publish([1]);
    queue.expect_accepted([1]);
    queue.expect_confirmed([]);
    queue.expect_depth(0, 0);
}

#[test]
fn a_publish_before_it_keeps_its_promise() {
    let mut queue = QueueScenario::durable();
    queue.hold_commits();
    queue.publish([1]);
    queue.delete();
    queue.expect_accepted([]);
    queue.expect_confirmed([]);
    queue.commit();
    queue.expect_confirmed([1]);
}

#[test]
fn requests_that_come_late_are_answered() {
    let mut queue = QueueScenario::durable();
    queue.publish([1]);
    queue.delete();
    assert_eq!(queue.get(), None);
    assert_eq!(queue.get_no_ack(), None);
    assert_eq!(queue.purge(), 0);
    assert_eq!(queue.delete(), Answer::Deleted(0));
    assert_eq!(queue.delete_if(true, true), Answer::Deleted(0));
}

/// A consumer on a queue that is gone would wait for ever, and nobody would cancel it.
#[test]
fn nobody_can_subscribe_any_more() {
    let mut queue = QueueScenario::durable();
    queue.delete();
    assert_eq!(queue.try_subscribe(prefetch(0)), Answer::Deleted(0));
    assert_eq!(queue.try_subscribe(exclusive()), Answer::Deleted(0));
    assert_eq!(queue.queue().consumer_count(), 0);
}

#[test]
fn a_waiting_get_finds_nothing() {
    let mut queue = QueueScenario::durable();
    queue.publish([1]);
    queue.restart(Stop::Clean);
    queue.hold_reads();
    let waiting = queue.ask_get();
    queue.expect_unanswered(waiting);
    queue.delete();
    assert_eq!(queue.take_got(waiting), None);
}

#[test]
fn everything_else_that_comes_late_is_ignored() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(10));
    queue.publish(0..WINDOW + 2000);
    queue.expect_deliveries(alice, 0..10);
    queue.hold_reads();
    for _ in 0..199 {
        queue.ack_all();
    }
    let read_before = queue.read_refill();
    let settle = queue.settling("1995", Outcome::Returned);
    queue.delete();
    queue.expect_cancelled([alice]);
    queue.together(vec![
        settle,
        Command::Refilled(read_before),
        Command::Resume { consumer: alice },
        Command::Pause { consumer: alice },
        Command::Unsubscribe { consumer: alice },
        Command::Release {
            channel: alice.channel,
            ended: true,
        },
        Command::Release {
            channel: channel(77),
            ended: false,
        },
        Command::MarkConsumed,
    ]);
    queue.expect_depth(0, 0);
    assert!(!queue.take_unused());
    assert_eq!(queue.queue().state_at_stop(), None);
}
