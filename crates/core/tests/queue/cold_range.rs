//! Behind a full window messages are on disk only, and come back in order.

use leveret_core::{
    ids::Seq,
    queue::{Answer, Command, Outcome, Refill, Refilled, WINDOW_BYTES_MAX, WINDOW_ROWS_MAX},
};

use crate::scenario::{QUEUE, QueueScenario, Stop, channel, no_ack, prefetch};

const WINDOW: u64 = WINDOW_ROWS_MAX as u64;

#[test]
fn a_backlog_beyond_the_window_comes_back_in_order() {
    let mut queue = QueueScenario::durable();
    queue.publish(0..3 * WINDOW);
    queue.expect_depth(3 * WINDOW, 0);
    let alice = queue.subscribe(prefetch(0));
    queue.expect_deliveries(alice, 0..3 * WINDOW);
    queue.expect_depth(0, 3 * WINDOW);
}

#[test]
fn the_window_ends_at_its_number_of_rows() {
    let mut queue = QueueScenario::durable();
    queue.hold_reads();
    queue.publish(0..WINDOW + 7);
    let alice = queue.subscribe(no_ack());
    queue.expect_deliveries(alice, 0..WINDOW);
    let refill = Refill {
        queue: QUEUE,
        priority: 0,
        from: Seq::new(WINDOW),
        until: Seq::new(WINDOW + 7),
        rows_max: WINDOW_ROWS_MAX,
        bytes_max: WINDOW_BYTES_MAX,
        at_once: true,
    };
    assert_eq!(queue.pending_refill(), Some(refill));
    queue.answer_refill();
    queue.expect_deliveries(alice, WINDOW..WINDOW + 7);
}

#[test]
fn the_window_ends_at_its_number_of_bytes() {
    let mut queue = QueueScenario::durable();
    queue.hold_reads();
    for label in 0..9 {
        queue.publish_sized(&label.to_string(), WINDOW_BYTES_MAX / 4);
    }
    let alice = queue.subscribe(no_ack());
    queue.expect_deliveries(alice, 0..4);
    queue.answer_refill();
    queue.expect_deliveries(alice, 4..8);
    queue.answer_refill();
    queue.expect_deliveries(alice, 8..9);
}

#[test]
fn a_message_larger_than_the_window_passes() {
    let mut queue = QueueScenario::durable();
    for label in 0..4 {
        queue.publish_sized(&label.to_string(), 2 * WINDOW_BYTES_MAX);
    }
    let alice = queue.subscribe(prefetch(1));
    for label in 0..4 {
        queue.expect_deliveries(alice, [label]);
        queue.ack(&label.to_string());
    }
    queue.expect_depth(0, 0);
}

#[test]
fn transient_messages_keep_their_place_among_cold_ones() {
    let mut queue = QueueScenario::durable();
    queue.publish(0..WINDOW);
    let mut expected: Vec<String> = (0..WINDOW).map(|label| label.to_string()).collect();
    for number in 0..50 {
        queue.publish([format!("stored {number}")]);
        queue.publish_transient([format!("transient {number}")]);
        expected.push(format!("stored {number}"));
        expected.push(format!("transient {number}"));
    }
    let alice = queue.subscribe(prefetch(0));
    queue.expect_deliveries(alice, expected);
}

#[test]
fn nothing_overtakes_what_is_still_being_read() {
    let mut queue = QueueScenario::durable();
    queue.hold_reads();
    queue.publish(0..WINDOW + 2);
    let alice = queue.subscribe(prefetch(0));
    queue.expect_deliveries(alice, 0..WINDOW);

    queue.publish_transient(["transient"]);
    queue.publish(["later"]);
    queue.expect_nothing_more();
    queue.expect_depth(4, WINDOW);

    queue.answer_refill();
    queue.expect_first_deliveries(alice, [WINDOW, WINDOW + 1]);
    queue.expect_deliveries(alice, ["transient"]);
    assert!(
        queue.pending_refill().is_some(),
        "the later one is cold as well"
    );
    queue.answer_refill();
    queue.expect_deliveries(alice, ["later"]);
}

#[test]
fn what_is_returned_meanwhile_goes_first() {
    let mut queue = QueueScenario::durable();
    queue.hold_reads();
    queue.publish(0..WINDOW + 1);
    let alice = queue.subscribe(prefetch(0));
    queue.expect_deliveries(alice, 0..WINDOW);
    queue.settle("3", Outcome::Returned);
    queue.expect_redeliveries(alice, [3]);

    queue.pause(alice);
    queue.settle("5", Outcome::Returned);
    queue.answer_refill();
    queue.resume(alice);
    queue.expect_first_deliveries(alice, [5]);
    queue.expect_deliveries(alice, [WINDOW]);
}

#[test]
fn a_read_may_bring_less_than_was_asked_for() {
    let mut queue = QueueScenario::durable();
    queue.hold_reads();
    queue.publish(0..WINDOW + 9);
    let alice = queue.subscribe(no_ack());
    queue.expect_deliveries(alice, 0..WINDOW);

    let mut expected = WINDOW..WINDOW + 9;
    while queue.pending_refill().is_some() {
        let mut refilled = queue.read_refill();
        let rest = refilled.rows.split_off(2.min(refilled.rows.len()));
        refilled.next = rest.first().map(|row| row.seq);
        let came: Vec<u64> = expected.by_ref().take(refilled.rows.len()).collect();
        queue.together(vec![Command::Refilled(refilled)]);
        queue.expect_deliveries(alice, came);
    }
    assert_eq!(expected.next(), None);
    queue.expect_depth(0, 0);
}

#[test]
fn gaps_in_the_range_are_skipped() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe_paused(prefetch(0));
    queue.publish(0..10);
    queue.resume(alice);
    queue.expect_deliveries(alice, 0..10);
    for label in ["1", "2", "5", "9"] {
        queue.ack(label);
    }

    queue.restart(Stop::Clean);
    queue.publish([10]);
    let bob = queue.subscribe(no_ack());
    queue.expect_first_deliveries(bob, [0, 3, 4, 6, 7, 8]);
    queue.expect_deliveries(bob, [10]);
    queue.expect_stored([0; 0]);
}

/// The end of the range that was asked for is not the end of the cold range.
#[test]
fn what_comes_during_a_read_is_read_next() {
    let mut queue = QueueScenario::durable();
    queue.publish([0]);
    queue.restart(Stop::Clean);
    queue.hold_reads();
    let alice = queue.subscribe(no_ack());
    queue.publish([1, 2]);
    queue.answer_refill();
    queue.expect_first_deliveries(alice, [0]);
    queue.answer_refill();
    queue.expect_deliveries(alice, [1, 2]);
}

// Gets.

#[test]
fn gets_wait_for_a_read_in_their_order() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one", "two"]);
    queue.restart(Stop::Clean);
    queue.hold_reads();
    let gets = [queue.ask_get(), queue.ask_get(), queue.ask_get()];
    for get in gets {
        queue.expect_unanswered(get);
    }

    queue.answer_refill();
    let found = gets.map(|get| {
        queue
            .take_got(get)
            .map(|(label, _, remaining)| (label, remaining))
    });
    let expected = [
        Some(("one".to_owned(), 1)),
        Some(("two".to_owned(), 0)),
        None,
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_waiting_get_comes_before_consumers() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one", "two"]);
    queue.restart(Stop::Clean);
    queue.hold_reads();
    let get = queue.ask_get();
    let alice = queue.subscribe(no_ack());
    queue.answer_refill();
    assert_eq!(queue.take_got(get), Some(("one".to_owned(), false, 1)));
    queue.expect_deliveries(alice, ["two"]);
}

#[test]
fn a_purge_answers_waiting_gets() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one"]);
    queue.restart(Stop::Clean);
    queue.hold_reads();
    let get = queue.ask_get();
    assert_eq!(queue.purge(), 1);
    assert_eq!(queue.take_got(get), None);
    queue.answer_refill();
    queue.expect_depth(0, 0);
}

/// Whoever asked is gone, but somebody may still wait for the answer.
#[test]
fn a_waiting_get_is_answered_when_its_channel_ends() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one"]);
    queue.restart(Stop::Clean);
    queue.hold_reads();
    let ended = queue.ask_get_on(channel(3), false);
    let stays = queue.ask_get_on(channel(4), false);
    queue.together(vec![Command::Release {
        channel: channel(3),
        ended: true,
    }]);
    assert_eq!(queue.take_answer(ended), Answer::Got(None));
    queue.expect_unanswered(stays);

    queue.answer_refill();
    assert_eq!(queue.take_got(stays), Some(("one".to_owned(), false, 0)));
}

#[test]
fn a_get_that_waits_is_not_answered_twice() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one"]);
    queue.restart(Stop::Clean);
    queue.hold_reads();
    let get = queue.ask_get();
    queue.answer_refill();
    assert!(queue.take_got(get).is_some());
    queue.together(vec![Command::Release {
        channel: channel(999),
        ended: true,
    }]);
    queue.delete();
    queue.expect_unanswered(get);
}

// A store that is not intact.

#[test]
fn gets_are_answered_while_what_stands_first_cannot_be_read() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one", "two"]);
    queue.restart(Stop::Clean);
    queue.hold_reads();
    let waits = queue.ask_get();
    let reads = queue.pending_refill();
    queue.together(vec![Command::Unreadable]);
    assert_eq!(queue.take_answer(waits), Answer::Unreadable);
    let comes_later = queue.ask_get();
    assert_eq!(queue.take_answer(comes_later), Answer::Unreadable);
    assert_eq!(queue.pending_refill(), reads, "the same read goes on");

    queue.answer_refill();
    let got = queue.ask_get();
    assert_eq!(queue.take_got(got), Some(("one".to_owned(), false, 1)));
    queue.expect_depth(1, 1);
}

#[test]
fn consumers_go_on_when_it_can_be_read_again() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one", "two"]);
    queue.restart(Stop::Clean);
    queue.hold_reads();
    let waits = queue.subscribe(prefetch(0));
    queue.together(vec![Command::Unreadable]);
    queue.expect_nothing_more();
    queue.answer_refill();
    queue.expect_deliveries(waits, ["one", "two"]);
}

#[test]
fn a_queue_that_was_purged_meanwhile_is_empty_and_not_unreadable() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one"]);
    queue.restart(Stop::Clean);
    queue.hold_reads();
    let waits = queue.ask_get();
    queue.together(vec![Command::Unreadable]);
    assert_eq!(queue.take_answer(waits), Answer::Unreadable);
    assert_eq!(queue.purge(), 1);
    let empty = queue.ask_get();
    assert_eq!(queue.take_got(empty), None);
}

/// Else the queue would ask for the same rows for ever.
#[test]
fn rows_that_are_counted_and_not_there_are_reported_once() {
    let mut queue = QueueScenario::durable();
    queue.publish(0..5);
    queue.restart(Stop::Clean);
    queue.hold_reads();
    let alice = queue.subscribe(prefetch(0));
    queue.store().lose(Seq::new(2));
    queue.store().lose(Seq::new(4));
    queue.answer_refill();
    queue.expect_deliveries(alice, [0, 1, 3]);
    assert_eq!(queue.take_missing(), 2);
    queue.expect_depth(0, 3);
    assert_eq!(queue.pending_refill(), None);

    queue.publish([5]);
    queue.expect_deliveries(alice, [5]);
    assert_eq!(queue.take_missing(), 0);
}

#[test]
fn an_intact_store_misses_nothing() {
    let mut queue = QueueScenario::durable();
    queue.publish(0..3 * WINDOW);
    let alice = queue.subscribe(no_ack());
    queue.expect_deliveries(alice, 0..3 * WINDOW);
    assert_eq!(queue.take_missing(), 0);
}

#[test]
fn an_answer_nobody_asked_for_is_ignored() {
    let mut queue = QueueScenario::durable();
    queue.publish(0..3);
    queue.restart(Stop::Clean);
    let refilled = Refilled {
        next_priority: None,
        rows: Vec::new(),
        next: None,
    };
    queue.together(vec![Command::Refilled(refilled)]);
    queue.expect_depth(3, 0);
    let alice = queue.subscribe(no_ack());
    queue.expect_deliveries(alice, 0..3);
}
