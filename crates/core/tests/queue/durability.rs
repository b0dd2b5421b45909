//! What is stored and when publishers learn of it: store first, then promise.

use leveret_core::{
    ids::{ConsumerId, Seq, Timestamp},
    queue::{Command, Confirm, ConsumerSettings, Effects, Queue, RequestId},
    record::{QueueState, Write},
};

use crate::scenario::{QUEUE, QueueScenario, channel, no_ack, persistent, prefetch, transient};

#[test]
fn a_persistent_message_in_a_durable_queue_is_confirmed_once_it_is_stored() {
    let mut queue = QueueScenario::durable();
    queue.hold_commits();
    queue.publish(["one", "two"]);
    queue.expect_confirmed([]);
    queue.expect_accepted([]);

    queue.commit();
    queue.expect_confirmed([1, 2]);
    queue.expect_stored(["one", "two"]);
}

#[test]
fn a_transient_message_is_accepted_at_once_and_not_stored() {
    let mut queue = QueueScenario::durable();
    queue.hold_commits();
    queue.publish_transient(["one"]);
    queue.expect_accepted([1]);

    queue.commit();
    queue.expect_confirmed([]);
    queue.expect_stored([""; 0]);
    queue.expect_depth(1, 0);
}

#[test]
fn a_queue_that_is_not_durable_stores_nothing() {
    let mut queue = QueueScenario::transient();
    queue.hold_commits();
    let alice = queue.subscribe(prefetch(0));
    queue.publish(["one", "two"]);
    queue.publish_transient(["three"]);
    queue.expect_accepted([1, 2, 3]);
    queue.expect_deliveries(alice, ["one", "two", "three"]);

    queue.ack_all();
    queue.commit();
    queue.expect_stored([""; 0]);
    assert_eq!(queue.store().state(), QueueState::default());
}

#[test]
fn it_is_handed_out_before_it_is_stored() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(0));
    queue.hold_commits();
    queue.publish(["one"]);
    queue.expect_deliveries(alice, ["one"]);
    queue.expect_confirmed([]);
}

/// What was never in doubt may be dropped before it is stored; the store then skips both writes.
#[test]
fn a_message_settled_before_its_commit_is_still_confirmed() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(no_ack());
    queue.hold_commits();
    queue.publish(["one"]);
    queue.expect_deliveries(alice, ["one"]);
    queue.expect_confirmed([]);
    queue.commit();
    queue.expect_confirmed([1]);
    queue.expect_stored([""; 0]);
}

#[test]
fn nobody_asks_for_a_confirm_and_none_is_promised() {
    let mut queue = Queue::new(QUEUE, true);
    let mut effects = Effects::default();
    for message in [persistent("one"), transient("two")] {
        let confirm = None;
        queue.apply(
            Timestamp::new(1),
            Command::Enqueue { message, confirm },
            &mut effects,
        );
    }
    assert_eq!((effects.promises, effects.accepted), (vec![], vec![]));
}

#[test]
fn the_counters_are_written_once_per_batch_behind_its_rows() {
    let mut queue = Queue::new(QUEUE, true);
    let mut effects = Effects::default();
    for label in ["one", "three"] {
        queue.apply(
            Timestamp::new(5),
            Command::Enqueue {
                message: persistent(label),
                confirm: Some(Confirm {
                    channel: channel(1),
                    number: 1,
                }),
            },
            &mut effects,
        );
    }
    queue.seal(&mut effects);

    let put = |seq, label| Write::Put {
        queue: QUEUE,
        priority: 0,
        seq: Seq::new(seq),
        enqueued_at: Timestamp::new(5),
        due: Timestamp::NEVER,
        message: persistent(label),
    };
    let state = QueueState {
        head: Seq::new(0),
        next: Seq::new(2),
        messages: 2,
        message_bytes: 8,
        properties_count_from: None,
        delivered_below: Seq::new(0),
        consumed: false,
        spilled: false,
    };
    let expected = [
        put(0, "one"),
        put(1, "three"),
        Write::State {
            queue: QUEUE,
            state,
        },
    ];
    assert_eq!(effects.writes, expected);

    effects.writes.clear();
    queue.seal(&mut effects);
    assert_eq!(effects.writes, [], "nothing has changed since");
}

#[test]
fn the_head_follows_the_oldest_message() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(0));
    queue.publish(0..5);
    queue.expect_deliveries(alice, 0..5);
    let head = |queue: &mut QueueScenario| queue.store().state().head.get();

    queue.ack("1");
    assert_eq!(head(&mut queue), 0);
    queue.ack("0");
    assert_eq!(head(&mut queue), 2);
    queue.ack("4");
    queue.ack("3");
    assert_eq!(head(&mut queue), 2);
    queue.ack("2");
    assert_eq!(head(&mut queue), 5);
}

#[test]
fn consumers_are_announced_once_and_only_where_anything_is_stored() {
    assert!(!Queue::new(QUEUE, false).has_unknown_consumers());

    let mut queue = Queue::new(QUEUE, true);
    let mut effects = Effects::default();
    assert!(queue.has_unknown_consumers());
    queue.apply(Timestamp::new(1), Command::MarkConsumed, &mut effects);
    assert!(!queue.has_unknown_consumers());
    queue.seal(&mut effects);
    let is_announced =
        |write: &Write| matches!(write, Write::State { state, .. } if state.consumed);
    assert_eq!(
        effects
            .writes
            .iter()
            .filter(|write| is_announced(write))
            .count(),
        1
    );

    effects.writes.clear();
    queue.apply(Timestamp::new(2), Command::MarkConsumed, &mut effects);
    queue.seal(&mut effects);
    assert_eq!(effects.writes, []);
}

/// A bug of the surroundings that would make "not redelivered" a lie after a crash.
#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "handed out before that was written down")]
fn handing_out_unannounced_is_found_in_tests() {
    let mut queue = Queue::new(QUEUE, true);
    let mut effects = Effects::default();
    let consumer = ConsumerId {
        channel: channel(1),
        number: 1,
    };
    let commands = [
        Command::Subscribe {
            request: RequestId(1),
            consumer,
            settings: ConsumerSettings::default(),
        },
        Command::Resume { consumer },
        Command::Enqueue {
            message: transient("one"),
            confirm: None,
        },
    ];
    for command in commands {
        queue.apply(Timestamp::new(1), command, &mut effects);
    }
    queue.hand_out(&mut effects);
}
