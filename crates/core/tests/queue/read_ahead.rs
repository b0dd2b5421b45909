//! Cold messages are read before the window is dry, so that nobody waits for the disk.

use leveret_core::{
    ids::Seq,
    queue::{ConsumerSettings, WINDOW_ROWS_MAX},
};

use crate::scenario::{QueueScenario, Stop, no_ack, prefetch};

const WINDOW: u64 = WINDOW_ROWS_MAX as u64;

/// A consumer works through the window in small steps; a read must be under way while it still can.
#[track_caller]
fn expect_read_ahead(queue: &mut QueueScenario, settings: ConsumerSettings) {
    queue.hold_reads();
    queue.publish(0..4 * WINDOW);
    let alice = queue.subscribe(settings);
    let mut next = 0;
    while queue.pending_refill().is_none() {
        assert!(next < WINDOW, "the window is dry and nothing was asked for");
        queue.expect_deliveries(alice, next..next + 10);
        next += 10;
        queue.ack_all();
    }
    let refill = queue.pending_refill().expect("just seen");
    assert_eq!(refill.from, Seq::new(WINDOW));
    assert!(
        WINDOW - next > WINDOW / 4,
        "only at {next}, with {WINDOW} in the window"
    );

    // The rest of the window does not wait for the answer.
    while next < WINDOW {
        queue.expect_deliveries(alice, next..next + 10);
        next += 10;
        queue.ack_all();
    }
    queue.expect_nothing_more();
    queue.answer_refill();
    queue.expect_deliveries(alice, next..next + 10);
}

/// Such a consumer has no credit whenever the queue has handed out all it can.
#[test]
fn for_a_consumer_with_a_prefetch() {
    expect_read_ahead(&mut QueueScenario::durable(), prefetch(10));
}

#[test]
fn for_a_consumer_with_a_priority() {
    let settings = ConsumerSettings {
        priority: 3,
        ..prefetch(10)
    };
    expect_read_ahead(&mut QueueScenario::durable(), settings);
}

/// They do not make the window look full: it is about what could be read from the store instead.
#[test]
fn also_beside_many_transient_messages() {
    let mut queue = QueueScenario::durable();
    queue.hold_reads();
    queue.publish(0..WINDOW + 100);
    queue.publish_transient(0..3 * WINDOW);
    let alice = queue.subscribe(prefetch(100));
    let mut next = 0;
    while next < WINDOW {
        queue.expect_deliveries(alice, next..next + 100);
        next += 100;
        queue.ack_all();
        if queue.pending_refill().is_some() {
            break;
        }
    }
    assert!(next < WINDOW, "asked for only when the window was dry");
}

#[test]
fn transient_messages_leave_the_window_to_stored_ones() {
    let mut queue = QueueScenario::durable();
    queue.hold_reads();
    queue.publish_transient(0..2 * WINDOW);
    queue.publish(2 * WINDOW..3 * WINDOW);
    let alice = queue.subscribe(no_ack());
    queue.expect_deliveries(alice, 0..3 * WINDOW);
    assert_eq!(queue.pending_refill(), None, "all of it was in memory");
}

#[test]
fn no_second_read_while_one_is_under_way() {
    let mut queue = QueueScenario::durable();
    queue.hold_reads();
    queue.publish(0..2 * WINDOW);
    let alice = queue.subscribe(no_ack());
    queue.expect_deliveries(alice, 0..WINDOW);
    let _under_way = queue.read_refill();
    let bob = queue.subscribe(no_ack());
    queue.publish([2 * WINDOW]);
    queue.unsubscribe(bob);
    assert_eq!(queue.pending_refill(), None);
}

#[test]
fn nothing_is_read_before_somebody_wants_it() {
    let mut queue = QueueScenario::durable();
    queue.publish(0..10);
    queue.restart(Stop::Clean);
    queue.hold_reads();
    queue.publish(10..20);
    assert_eq!(queue.pending_refill(), None);

    queue.subscribe_paused(prefetch(1));
    assert!(queue.pending_refill().is_some(), "it will want them soon");
}

#[test]
fn the_window_is_not_filled_beyond_its_bound() {
    let mut queue = QueueScenario::durable();
    queue.hold_reads();
    queue.publish(0..4 * WINDOW);
    let alice = queue.subscribe(prefetch(10));
    while queue.pending_refill().is_none() {
        queue.ack_all();
    }
    let refill = queue.pending_refill().expect("just seen");
    let in_window = WINDOW - queue.handed_out();
    assert_eq!(refill.rows_max as u64, WINDOW - in_window);

    queue.answer_refill();
    queue.ack_all();
    assert_eq!(queue.pending_refill(), None, "it is full again");
    queue.expect_first_deliveries(alice, 0..100);
}
