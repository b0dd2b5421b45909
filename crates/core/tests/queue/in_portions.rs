//! Of millions some thousands at a time leave or come back: others have their turn with the queue in between.

use leveret_core::{
    arguments::{DeadLetter, QueueSettings},
    ids::{ConsumerId, QueueId, Timestamp},
    queue::{
        Answer, Command, DEATHS_MAX, Effects, Outcome, Queue, RETURNS_MAX, RequestId,
        WINDOW_ROWS_MAX,
    },
};

use crate::scenario::{QueueScenario, prefetch, transient};

const RETURNS: u64 = RETURNS_MAX as u64;
const DEATHS: u64 = DEATHS_MAX as u64;

/// Somebody holds so many.
fn held(total: u64) -> (QueueScenario, ConsumerId) {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(0));
    queue.publish_transient(0..total);
    queue.expect_deliveries(alice, 0..total);
    (queue, alice)
}

fn tick(queue: &mut QueueScenario) {
    assert!(queue.queue().next_due().is_some(), "it has no more to do");
    queue.together(vec![Command::Tick]);
}

#[test]
fn what_a_channel_held_is_handed_out_in_order_once_all_of_it_is_back() {
    let total = 2 * RETURNS + 10;
    let (mut queue, alice) = held(total);
    let bob = queue.subscribe(prefetch(0));
    queue.end_channel(alice);
    queue.expect_depth(RETURNS, RETURNS + 10);
    queue.publish_transient([total]);
    tick(&mut queue);
    queue.expect_depth(2 * RETURNS + 1, 10);
    queue.expect_nothing_more();
    tick(&mut queue);
    queue.expect_depth(0, total + 1);
    let expected: Vec<String> = (0..=total).map(|label| label.to_string()).collect();
    assert_eq!(queue.take_labels(bob), expected);
    assert_eq!(queue.queue().next_due(), None);
}

#[test]
fn what_is_returned_in_one_step_is_too() {
    let total = 2 * RETURNS + 10;
    let (mut queue, alice) = held(total);
    let labels: Vec<String> = (0..total).map(|label| label.to_string()).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    queue.pause(alice);
    let bob = queue.subscribe(prefetch(3));
    queue.settle_together(&labels, Outcome::Returned);
    queue.expect_depth(RETURNS, RETURNS + 10);
    // One that comes back alone has its turn behind the others.
    queue.publish_transient([total]);
    tick(&mut queue);
    queue.expect_nothing_more();
    tick(&mut queue);
    queue.expect_redeliveries(bob, 0..3);
    queue.expect_depth(total - 2, 3);
}

#[test]
fn a_get_waits_until_all_of_it_is_back() {
    let (mut queue, alice) = held(RETURNS + 1);
    queue.end_channel(alice);
    let request = queue.ask_get();
    queue.expect_unanswered(request);
    tick(&mut queue);
    assert_eq!(
        queue.take_got(request),
        Some(("0".to_owned(), true, RETURNS))
    );
}

#[test]
fn a_purge_is_behind_all_that_came_back_before_it_and_a_delete_too() {
    let (mut queue, alice) = held(2 * RETURNS);
    queue.end_channel(alice);
    assert_eq!(queue.purge(), 2 * RETURNS);
    queue.expect_depth(0, 0);
    assert_eq!(queue.queue().next_due(), None);

    let (mut queue, alice) = held(2 * RETURNS);
    queue.end_channel(alice);
    queue.delete();
    assert!(queue.queue().is_deleted());
    assert_eq!(queue.queue().next_due(), None);
}

#[test]
fn what_is_over_at_the_same_time_dies_in_portions() {
    let mut queue = QueueScenario::with(QueueSettings {
        message_ttl_millis: Some(0),
        ..QueueSettings::default()
    });
    queue.publish_transient(0..2 * DEATHS + 10);
    queue.expect_depth(DEATHS + 10, 0);
    tick(&mut queue);
    queue.expect_depth(10, 0);
    tick(&mut queue);
    queue.expect_depth(0, 0);
}

#[test]
fn a_limit_that_comes_upon_a_backlog_lets_go_of_no_more_than_find_a_place() {
    let mut queue = QueueScenario::durable();
    let total = 20_000;
    queue.publish(0..total);
    queue.set_settings(QueueSettings {
        max_length: Some(10),
        dead_letter: Some(DeadLetter {
            exchange: None,
            routing_key: None,
        }),
        ..QueueSettings::default()
    });
    let mut dead = Vec::new();
    while queue.queue().depth().ready > 10 {
        queue.pass(0);
        let died = queue.take_dead();
        assert!(
            !died.is_empty(),
            "it stands still: {:?}",
            queue.queue().depth()
        );
        // What is read before there are too many, and the little that is too much in the end.
        assert!(died.len() <= 4 * WINDOW_ROWS_MAX, "{} at once", died.len());
        let arrived = died
            .iter()
            .map(|(seq, _)| Command::Transferred { seq: *seq });
        queue.together(arrived.collect());
        dead.extend(died.into_iter().map(|(_, label)| label));
    }
    queue.pass(0);
    dead.extend(queue.take_dead().into_iter().map(|(_, label)| label));
    let expected: Vec<String> = (0..total - 10).map(|label| label.to_string()).collect();
    assert_eq!(dead, expected);
}

#[test]
fn what_a_purge_or_a_delete_leaves_is_for_others_to_let_go_of() {
    let request = RequestId(1);
    let purge = Command::Purge { request };
    let delete = Command::Delete {
        request,
        if_unused: false,
        if_empty: false,
    };
    for (command, answer) in [(purge, Answer::Purged(100)), (delete, Answer::Deleted(100))] {
        let (mut queue, mut effects) = (Queue::new(QueueId::new(1), true), Effects::default());
        let now = Timestamp::new(1);
        for _ in 0..100 {
            let message = transient("any");
            let confirm = None;
            queue.apply(now, Command::Enqueue { message, confirm }, &mut effects);
        }
        queue.apply(now, command, &mut effects);
        assert_eq!(effects.answers, [(request, answer)]);
        assert_eq!(effects.remains.map(|remains| remains.entries()), Some(100));
    }
}

#[test]
fn what_nobody_acks_in_time_comes_back_in_portions_too() {
    let total = 2 * RETURNS + 10;
    let mut queue = QueueScenario::with(QueueSettings {
        ack_timeout_millis: Some(1000),
        ..QueueSettings::default()
    });
    let alice = queue.subscribe(prefetch(0));
    queue.publish_transient(0..total);
    queue.expect_deliveries(alice, 0..total);
    queue.wait(2000);
    tick(&mut queue);
    queue.expect_depth(RETURNS, RETURNS + 10);
    tick(&mut queue);
    queue.expect_depth(2 * RETURNS, 10);
    tick(&mut queue);
    queue.expect_depth(total, 0);
    assert_eq!(queue.take_overdue().len(), 1, "she is told once");
    assert_eq!(queue.queue().next_due(), None);
}
