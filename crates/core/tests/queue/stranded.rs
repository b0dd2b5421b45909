//! With the strategy at-least-once a dead message that nobody took is kept and tried again.

use leveret_core::{
    arguments::{DeadLetter, Overflow, QueueSettings, QueueType},
    ids::{QueueId, Timestamp},
    queue::{
        Command, DeathReason, Outcome, STRANDED_RETRY_MILLIS, STRANDED_TRIED_MAX, Stranding,
        Transfer,
    },
};

use crate::scenario::QueueScenario;

const WAIT: u64 = STRANDED_RETRY_MILLIS;

fn queue() -> QueueScenario {
    QueueScenario::with(settings())
}

fn settings() -> QueueSettings {
    QueueSettings {
        queue_type: QueueType::Quorum,
        max_length: Some(1000),
        overflow: Overflow::RejectPublish,
        dead_letter: Some(DeadLetter {
            exchange: None,
            routing_key: None,
        }),
        dead_letter_at_least_once: true,
        ..QueueSettings::default()
    }
}

fn reject(queue: &mut QueueScenario, label: &str) {
    queue.get();
    queue.settle(label, Outcome::Rejected);
}

fn strand(queue: &mut QueueScenario, transfers: &[Transfer], taken_by: &[QueueId]) {
    let commands = transfers.iter().filter_map(|transfer| {
        Some(Command::Stranded(Box::new(Stranding {
            seq: transfer.seq?,
            reason: transfer.reason,
            died_at: transfer.died_at,
            taken_by: taken_by.into(),
        })))
    });
    queue.together(commands.collect());
}

fn arrive(queue: &mut QueueScenario, transfers: &[Transfer]) {
    let seqs = transfers.iter().filter_map(|transfer| transfer.seq);
    queue.together(seqs.map(|seq| Command::Transferred { seq }).collect());
}

#[test]
fn what_nobody_took_is_kept_and_tried_again() {
    let mut queue = queue();
    queue.publish(["one"]);
    reject(&mut queue, "one");
    let mut dead = queue.expect_dead(DeathReason::Rejected, ["one"]);
    let died_at = dead[0].died_at;
    for _ in 0..3 {
        strand(&mut queue, &dead, &[]);
        queue.pass(WAIT - 1);
        queue.expect_dead(DeathReason::Rejected, [""; 0]);
        queue.pass(1);
        dead = queue.expect_dead(DeathReason::Rejected, ["one"]);
        assert_eq!(dead[0].died_at, died_at);
    }
    queue.expect_stored(["one"]);
    arrive(&mut queue, &dead);
    queue.expect_stored([""; 0]);
    queue.pass(10 * WAIT);
    queue.expect_dead(DeathReason::Rejected, [""; 0]);
}

#[test]
fn those_that_have_it_are_remembered() {
    let mut queue = queue();
    queue.publish(["one"]);
    reject(&mut queue, "one");
    let dead = queue.expect_dead(DeathReason::Rejected, ["one"]);
    strand(&mut queue, &dead, &[QueueId::new(7)]);
    queue.pass(WAIT);
    let dead = queue.expect_dead(DeathReason::Rejected, ["one"]);
    assert_eq!(*dead[0].taken_by, [QueueId::new(7)]);
}

#[test]
fn who_dies_later_waits_behind_and_follows_at_once() {
    let mut queue = queue();
    queue.publish(["one", "two", "three"]);
    reject(&mut queue, "one");
    let dead = queue.expect_dead(DeathReason::Rejected, ["one"]);
    strand(&mut queue, &dead, &[]);
    reject(&mut queue, "two");
    queue.expect_dead(DeathReason::Rejected, [""; 0]);
    queue.pass(WAIT);
    let dead = queue.expect_dead(DeathReason::Rejected, ["one", "two"]);
    strand(&mut queue, &dead, &[]);
    reject(&mut queue, "three");
    // There is room for one: the others need not wait.
    arrive(&mut queue, &dead[..1]);
    queue.pass(0);
    queue.expect_dead(DeathReason::Rejected, ["two", "three"]);
}

#[test]
fn a_few_are_tried_at_once_and_all_have_their_turn() {
    let mut queue = queue();
    let all = STRANDED_TRIED_MAX + 10;
    let labels: Vec<String> = (0..all).map(|number| format!("{number:04}")).collect();
    queue.publish(&labels);
    for label in &labels {
        reject(&mut queue, label);
    }
    let dead = queue.expect_dead(DeathReason::Rejected, &labels);
    strand(&mut queue, &dead, &[]);
    queue.pass(WAIT);
    let tried = queue.expect_dead(DeathReason::Rejected, &labels[..STRANDED_TRIED_MAX]);
    strand(&mut queue, &tried, &[]);
    queue.pass(WAIT);
    let then = labels[STRANDED_TRIED_MAX..]
        .iter()
        .chain(&labels[..STRANDED_TRIED_MAX - 10]);
    queue.expect_dead(DeathReason::Rejected, then);
}

#[test]
fn they_count_to_the_limits() {
    let mut queue = QueueScenario::with(QueueSettings {
        max_length: Some(2),
        ..settings()
    });
    queue.publish(["one", "two"]);
    reject(&mut queue, "one");
    let dead = queue.expect_dead(DeathReason::Rejected, ["one"]);
    strand(&mut queue, &dead, &[]);
    queue.expect_depth(1, 0);
    queue.publish(["three"]);
    queue.expect_rejected([3]);
    queue.pass(WAIT);
    let dead = queue.expect_dead(DeathReason::Rejected, ["one"]);
    arrive(&mut queue, &dead);
    queue.publish(["four"]);
    queue.expect_depth(2, 0);
}

#[test]
fn a_purge_leaves_them() {
    let mut queue = queue();
    queue.publish(["one", "two"]);
    reject(&mut queue, "one");
    let dead = queue.expect_dead(DeathReason::Rejected, ["one"]);
    strand(&mut queue, &dead, &[]);
    queue.purge();
    queue.expect_stored(["one"]);
    queue.pass(WAIT);
    queue.expect_dead(DeathReason::Rejected, ["one"]);
}

#[test]
fn without_a_dead_letter_exchange_any_more_they_are_dropped() {
    let mut queue = queue();
    queue.publish(["one"]);
    reject(&mut queue, "one");
    let dead = queue.expect_dead(DeathReason::Rejected, ["one"]);
    strand(&mut queue, &dead, &[]);
    queue.set_settings(QueueSettings {
        dead_letter: None,
        dead_letter_at_least_once: false,
        ..settings()
    });
    queue.pass(WAIT);
    queue.expect_dead(DeathReason::Rejected, [""; 0]);
    queue.expect_stored([""; 0]);
}

#[test]
fn a_deleted_queue_tries_nothing() {
    let mut queue = queue();
    queue.publish(["one"]);
    reject(&mut queue, "one");
    let dead = queue.expect_dead(DeathReason::Rejected, ["one"]);
    strand(&mut queue, &dead, &[]);
    queue.delete();
    assert_eq!(queue.queue().next_due(), None::<Timestamp>);
}
