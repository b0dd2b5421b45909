//! A message that dies is kept until somebody else has it.

use leveret_core::{
    arguments::{DeadLetter, Overflow, QueueSettings},
    queue::{Command, DeathReason, Outcome, Transfer},
};

use crate::scenario::{QueueScenario, Stop, no_ack};

fn queue(overflow: Overflow) -> QueueScenario {
    QueueScenario::with(QueueSettings {
        max_length: Some(3),
        overflow,
        dead_letter: Some(DeadLetter {
            exchange: None,
            routing_key: None,
        }),
        ..QueueSettings::default()
    })
}

fn arrive(queue: &mut QueueScenario, transfers: &[Transfer]) {
    let commands = transfers
        .iter()
        .filter_map(|transfer| transfer.seq)
        .map(|seq| Command::Transferred { seq });
    queue.together(commands.collect());
}

#[test]
fn a_rejected_message_is_kept_until_it_is_elsewhere() {
    let mut queue = queue(Overflow::DropHead);
    queue.publish(["one", "two"]);
    queue.get();
    queue.settle("one", Outcome::Rejected);
    queue.expect_depth(1, 0);
    queue.expect_stored(["one", "two"]);
    let dead = queue.expect_dead(DeathReason::Rejected, ["one"]);
    arrive(&mut queue, &dead);
    queue.expect_stored(["two"]);
    // A repeat does no harm.
    arrive(&mut queue, &dead);
}

#[test]
fn a_crash_in_between_leaves_it_where_it_was() {
    let mut queue = queue(Overflow::DropHead);
    queue.publish(["one"]);
    queue.get();
    queue.settle("one", Outcome::Rejected);
    queue.expect_dead(DeathReason::Rejected, ["one"]);
    queue.restart(Stop::Crash);
    assert_eq!(queue.get(), Some(("one".to_owned(), true, 0)));
}

#[test]
fn what_does_not_fit_dies_from_the_head() {
    let mut queue = queue(Overflow::DropHead);
    queue.publish(["1", "2", "3", "4", "5"]);
    let dead = queue.expect_dead(DeathReason::MaxLength, ["1", "2"]);
    arrive(&mut queue, &dead);
    queue.expect_stored(["3", "4", "5"]);
}

#[test]
fn after_a_crash_what_does_not_fit_dies_again() {
    let mut queue = queue(Overflow::DropHead);
    queue.publish(["1", "2", "3", "4", "5"]);
    queue.expect_dead(DeathReason::MaxLength, ["1", "2"]);
    queue.restart(Stop::Crash);
    queue.expect_depth(5, 0);
    queue.pass(1);
    let dead = queue.expect_dead(DeathReason::MaxLength, ["1", "2"]);
    arrive(&mut queue, &dead);
    queue.expect_stored(["3", "4", "5"]);
}

#[test]
fn a_refused_message_dies_without_a_place() {
    let mut queue = queue(Overflow::RejectPublishDeadLetter);
    queue.publish(["1", "2", "3", "4"]);
    let dead = queue.expect_dead(DeathReason::MaxLength, ["4"]);
    assert_eq!(dead.first().and_then(|transfer| transfer.seq), None);
    queue.expect_rejected([4]);
    queue.expect_stored(["1", "2", "3"]);
}

#[test]
fn a_refused_message_is_gone_with_plain_reject_publish() {
    let mut queue = queue(Overflow::RejectPublish);
    queue.publish(["1", "2", "3", "4"]);
    queue.expect_dead(DeathReason::MaxLength, [""; 0]);
}

#[test]
fn purged_and_deleted_messages_do_not_die() {
    let mut queue = queue(Overflow::DropHead);
    queue.publish(["1", "2"]);
    queue.purge();
    queue.publish(["3"]);
    queue.delete();
    queue.expect_dead(DeathReason::Rejected, [""; 0]);
}

#[test]
fn it_says_whether_an_attempt_failed() {
    let mut queue = queue(Overflow::DropHead);
    queue.publish(["fresh", "had", "2", "3"]);
    let fresh = queue.expect_dead(DeathReason::MaxLength, ["fresh"]);
    queue.get();
    queue.settle("had", Outcome::Returned);
    queue.publish(["4"]);
    let had = queue.expect_dead(DeathReason::MaxLength, ["had"]);
    queue.get();
    queue.settle("2", Outcome::Failed);
    queue.publish(["5"]);
    let failed = queue.expect_dead(DeathReason::MaxLength, ["2"]);
    queue.get();
    queue.settle("3", Outcome::Rejected);
    let rejected = queue.expect_dead(DeathReason::Rejected, ["3"]);
    queue.get();
    queue.settle("4", Outcome::Discarded);
    let discarded = queue.expect_dead(DeathReason::Rejected, ["4"]);
    let flags = [fresh, had, failed, rejected, discarded].map(|dead| dead[0].was_delivered);
    assert_eq!(flags, [false, false, true, true, false]);
}

/// As RabbitMQ has it: the flag is lost where a consumer takes the message at once.
#[test]
fn what_somebody_had_elsewhere_is_redelivered_here_unless_it_goes_straight_through() {
    let mut queue = QueueScenario::durable();
    queue.publish_delivered_elsewhere(["waits"]);
    assert_eq!(queue.get_no_ack(), Some(("waits".to_owned(), true, 0)));
    let alice = queue.subscribe(no_ack());
    queue.publish_delivered_elsewhere(["taken"]);
    queue.expect_deliveries(alice, ["taken"]);
    // However many come together.
    queue.publish_delivered_elsewhere(["one", "two", "three"]);
    queue.expect_deliveries(alice, ["one", "two", "three"]);
    queue.unsubscribe(alice);

    queue.publish_delivered_elsewhere(["stored"]);
    queue.restart(Stop::Clean);
    assert_eq!(queue.get_no_ack(), Some(("stored".to_owned(), true, 0)));
}
