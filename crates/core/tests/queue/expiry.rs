//! `x-message-ttl`, the expiration of a message, and `x-expires`.

use leveret_core::{
    arguments::{DeadLetter, QueueSettings, QueueType},
    ids::Seq,
    queue::{Command, DeathReason, Outcome},
};

use crate::scenario::{QueueScenario, Stop, no_ack, prefetch};

/// A queue whose dead messages are seen.
fn queue(message_ttl_millis: Option<u64>) -> QueueScenario {
    QueueScenario::with(QueueSettings {
        message_ttl_millis,
        dead_letter: Some(DeadLetter {
            exchange: None,
            routing_key: None,
        }),
        ..QueueSettings::default()
    })
}

#[test]
fn a_message_leaves_after_the_ttl_of_its_queue() {
    let mut queue = queue(Some(100));
    queue.publish(["one"]);
    queue.pass(60);
    queue.publish(["two"]);
    queue.pass(39);
    queue.expect_depth(2, 0);
    queue.pass(1);
    queue.expect_dead(DeathReason::Expired, ["one"]);
    queue.pass(60);
    queue.expect_dead(DeathReason::Expired, ["two"]);
    queue.expect_depth(0, 0);
}

#[test]
fn the_smaller_ttl_counts() {
    let mut queue = queue(Some(100));
    queue.publish_expiring(50, ["short"]);
    queue.publish_expiring(500, ["long"]);
    queue.pass(50);
    queue.expect_dead(DeathReason::Expired, ["short"]);
    queue.pass(50);
    queue.expect_dead(DeathReason::Expired, ["long"]);
}

#[test]
fn a_message_leaves_whatever_stands_before_it() {
    let mut queue = queue(None);
    queue.publish(["living"]);
    queue.publish_expiring(50, ["dying"]);
    queue.publish(["living too"]);
    queue.pass(50);
    queue.expect_dead(DeathReason::Expired, ["dying"]);
    queue.expect_depth(2, 0);
}

#[test]
fn a_cold_message_leaves_at_its_time_too() {
    let mut queue = queue(None);
    queue.publish(0..2100);
    queue.publish_expiring(50, 2100..4300);
    queue.publish_expiring(70, ["later"]);
    queue.publish(["last"]);
    queue.pass(50);
    queue.expect_dead(DeathReason::Expired, 2100..4300);
    queue.expect_depth(2102, 0);
    queue.pass(20);
    queue.expect_dead(DeathReason::Expired, ["later"]);
    let alice = queue.subscribe(no_ack());
    let labels = (0..2100).map(|label| label.to_string());
    queue.expect_deliveries(alice, labels.chain(["last".to_owned()]));
}

#[test]
fn a_cold_message_leaves_at_its_time_however_fast_those_before_it_are_taken() {
    let mut queue = queue(None);
    queue.publish(0..8000);
    queue.publish_expiring(50, ["dying"]);
    queue.hold_reads();
    let alice = queue.subscribe(no_ack());
    queue.wait(60);
    queue.answer_refill();
    queue.answer_refill();
    queue.expect_dead(DeathReason::Expired, ["dying"]);
    queue.expect_deliveries(alice, 0..4000);
    queue.answer_refill();
    queue.expect_deliveries(alice, 4000..6000);
}

/// Its row is there until it has arrived elsewhere, and must not come back with those around it.
#[test]
fn a_cold_message_dies_once() {
    for arrives_late in [false, true] {
        let mut queue = queue(None);
        queue.publish(0..2100);
        queue.publish_expiring(50, ["dying"]);
        queue.publish(["last"]);
        queue.pass(50);
        let dead = queue.expect_dead(DeathReason::Expired, ["dying"]);
        let seq = dead[0].seq.expect("it has a place");
        queue.hold_reads();
        let alice = queue.subscribe(no_ack());
        if arrives_late {
            queue.answer_refill();
            queue.together(vec![Command::Transferred { seq }]);
        } else {
            let refilled = queue.read_refill();
            queue.together(vec![Command::Transferred { seq }]);
            queue.together(vec![Command::Refilled(refilled)]);
        }
        let labels = (0..2100).map(|label| label.to_string());
        queue.expect_deliveries(alice, labels.chain(["last".to_owned()]));
        queue.expect_stored([""; 0]);
    }
}

#[test]
fn a_purge_takes_cold_messages_around_those_that_expired() {
    let mut queue = QueueScenario::durable();
    queue.publish(0..2100);
    queue.publish_expiring(50, ["dying"]);
    queue.publish_expiring(100, ["later"]);
    queue.pass(50);
    assert_eq!(queue.purge(), 2101);
    queue.pass(100);
    queue.expect_stored([""; 0]);
}

#[test]
fn ttl_0_is_a_mere_passage() {
    let mut queue = queue(Some(0));
    queue.publish(["nobody there"]);
    queue.expect_dead(DeathReason::Expired, ["nobody there"]);
    let alice = queue.subscribe(prefetch(1));
    queue.publish(["taken", "consumer busy"]);
    queue.expect_deliveries(alice, ["taken"]);
    queue.expect_dead(DeathReason::Expired, ["consumer busy"]);
    queue.settle("taken", Outcome::Returned);
    queue.expect_dead(DeathReason::Expired, ["taken"]);
    queue.expect_nothing_more();
}

#[test]
fn time_spent_unacked_counts() {
    let mut queue = queue(Some(100));
    queue.publish(["one", "two"]);
    queue.get();
    queue.get();
    queue.pass(200);
    queue.expect_dead(DeathReason::Expired, [""; 0]);
    queue.ack("one");
    queue.settle("two", Outcome::Returned);
    queue.expect_dead(DeathReason::Expired, ["two"]);
}

#[test]
fn after_a_restart_a_ttl_goes_on() {
    let mut queue = queue(Some(100));
    queue.publish(0..2500);
    queue.pass(60);
    queue.publish(["later"]);
    queue.restart(Stop::Crash);
    queue.pass(40);
    queue.expect_dead(DeathReason::Expired, 0..2500);
    queue.expect_depth(1, 0);
    queue.pass(60);
    queue.expect_dead(DeathReason::Expired, ["later"]);
}

#[test]
fn after_a_restart_nothing_expired_is_handed_out() {
    let mut queue = queue(None);
    queue.publish_expiring(50, ["dying"]);
    queue.publish(["living"]);
    queue.restart(Stop::Clean);
    queue.pass(60);
    assert_eq!(queue.get(), Some(("living".to_owned(), false, 0)));
    queue.expect_dead(DeathReason::Expired, ["dying"]);
}

/// Dead messages are where they are to go.
fn arrive(queue: &mut QueueScenario, seqs: impl Iterator<Item = Seq>) {
    queue.together(seqs.map(|seq| Command::Transferred { seq }).collect());
    queue.pass(0);
}

/// A queue with so many of a low priority that came long before those of a higher one, after a restart.
fn restarted(queue_type: QueueType, low: usize, high: usize) -> QueueScenario {
    let mut queue = QueueScenario::with(QueueSettings {
        queue_type,
        max_priority: 9,
        message_ttl_millis: Some(1000),
        dead_letter: Some(DeadLetter {
            exchange: None,
            routing_key: None,
        }),
        ..QueueSettings::default()
    });
    queue.publish_with_priority(1, 0..low);
    queue.pass(500);
    queue.publish_with_priority(5, (0..high).map(|number| format!("high {number}")));
    queue.restart(Stop::Crash);
    queue
}

#[test]
fn after_a_restart_a_low_priority_leaves_at_its_time_behind_any_number_of_higher_ones() {
    for queue_type in [QueueType::Classic, QueueType::Quorum] {
        let (low, high) = (3500, 5000);
        let mut queue = restarted(queue_type, low, high);
        queue.pass(499);
        queue.expect_dead(DeathReason::Expired, [""; 0]);
        queue.expect_depth(8500, 0);
        // Of what waits no more is in memory than without times.
        assert!(queue.queue().report().ready_in_memory <= 2000);
        queue.pass(1);
        let dead = queue.expect_dead(DeathReason::Expired, 0..low);
        arrive(&mut queue, dead.into_iter().filter_map(|dead| dead.seq));
        queue.expect_depth(5000, 0);
        queue.pass(499);
        queue.expect_depth(5000, 0);
        queue.pass(1);
        let mut died = 0;
        while died < high {
            let dead = queue.take_dead();
            assert!(!dead.is_empty(), "{died} died");
            died += dead.len();
            arrive(&mut queue, dead.into_iter().map(|(seq, _)| seq));
        }
        queue.expect_depth(0, 0);
        queue.expect_stored([""; 0]);
    }
}

#[test]
fn after_a_restart_times_that_are_known_ahead_keep_nothing_from_consumers() {
    for queue_type in [QueueType::Classic, QueueType::Quorum] {
        let mut queue = restarted(queue_type, 2500, 2500);
        queue.pass(400);
        let alice = queue.subscribe(prefetch(4000));
        let high = (0..2500).map(|number| format!("high {number}"));
        let low = (0..1500).map(|number| number.to_string());
        let expected: Vec<String> = high.chain(low).collect();
        assert_eq!(queue.take_labels(alice), expected);
        queue.pass(100);
        queue.expect_dead(DeathReason::Expired, 1500..2500);
        queue.expect_depth(0, 4000);
    }
}

#[test]
fn after_a_restart_a_purge_takes_what_is_known_ahead() {
    let mut queue = restarted(QueueType::Classic, 2500, 2500);
    queue.pass(100);
    assert_eq!(queue.purge(), 5000);
    queue.publish_with_priority(1, ["later"]);
    queue.pass(999);
    queue.expect_depth(1, 0);
    queue.pass(1);
    queue.expect_dead(DeathReason::Expired, ["later"]);
}

/// A queue as it is while a policy gives it this TTL.
fn set_ttl(queue: &mut QueueScenario, message_ttl_millis: Option<u64>) {
    queue.set_settings(QueueSettings {
        message_ttl_millis,
        dead_letter: Some(DeadLetter {
            exchange: None,
            routing_key: None,
        }),
        ..QueueSettings::default()
    });
}

#[test]
fn a_message_keeps_its_time_when_the_ttl_is_taken_back_wherever_it_is() {
    let mut queue = queue(Some(100));
    queue.publish(0..3500);
    set_ttl(&mut queue, None);
    queue.publish(["for ever"]);
    queue.pass(99);
    queue.expect_depth(3501, 0);
    queue.pass(1);
    queue.expect_dead(DeathReason::Expired, 0..3500);
    queue.expect_depth(1, 0);
}

#[test]
fn a_message_that_came_without_a_time_gets_none_from_a_later_ttl() {
    let mut queue = queue(None);
    queue.publish(0..2500);
    set_ttl(&mut queue, Some(50));
    queue.publish(["later"]);
    queue.restart(Stop::Crash);
    let alice = queue.subscribe(prefetch(0));
    queue.pass(50);
    queue.expect_deliveries(
        alice,
        (0..2500)
            .map(|label| label.to_string())
            .chain(["later".to_owned()]),
    );
    queue.expect_dead(DeathReason::Expired, [""; 0]);
}

#[test]
fn what_was_handed_out_while_a_ttl_was_taken_back_dies_of_none_that_comes_again() {
    for restarts in [false, true] {
        let mut queue = queue(Some(100));
        queue.publish(0..3500);
        set_ttl(&mut queue, None);
        queue.publish(3500..7000);
        if restarts {
            queue.restart(Stop::Crash);
        }
        let alice = queue.subscribe(prefetch(2500));
        queue.expect_deliveries(alice, 0..2500);
        queue.unsubscribe(alice);
        set_ttl(&mut queue, Some(100));
        queue.pass(150);
        // What is not in memory after a restart is over when it comes there.
        queue.expect_dead(DeathReason::Expired, 2500..3500);
        queue.expect_depth(3500, 2500);
        let acks = (0..2500).map(|label| queue.settling(&label.to_string(), Outcome::Acked));
        let acks = acks.collect();
        queue.together(acks);
        queue.expect_depth(3500, 0);
        set_ttl(&mut queue, None);
        let bob = queue.subscribe(no_ack());
        queue.expect_deliveries(bob, 3500..7000);
        queue.expect_depth(0, 0);
    }
}

#[test]
fn the_shorter_ttl_of_a_policy_that_is_gone_still_counts() {
    let mut queue = queue(Some(50));
    queue.publish_expiring(500, 0..3500);
    set_ttl(&mut queue, None);
    queue.restart(Stop::Clean);
    set_ttl(&mut queue, Some(1000));
    queue.pass(50);
    queue.expect_dead(DeathReason::Expired, 0..3500);
}

#[test]
fn the_time_of_a_row_of_a_former_build_is_settled_when_it_is_read() {
    let mut queue = queue(Some(100));
    queue.publish(0..2500);
    queue.restart_after_a_build_without_times();
    queue.pass(1);
    set_ttl(&mut queue, None);
    queue.pass(99);
    // The first page had come into memory before.
    queue.expect_dead(DeathReason::Expired, 0..2000);
    queue.expect_depth(500, 0);
}

/// Others are read along where they are few; far away from each other each is read for itself.
#[test]
fn what_is_due_is_read_without_what_stands_between() {
    let mut queue = queue(None);
    queue.publish(0..2000);
    for number in 0..20 {
        queue.publish_expiring(50, [format!("due {number}")]);
        queue.publish((0..200).map(|other| format!("{number} and {other}")));
    }
    queue.pass(50);
    queue.expect_dead(
        DeathReason::Expired,
        (0..20).map(|number| format!("due {number}")),
    );
    queue.expect_depth(6000, 0);
    let read = queue.queue().report().counters.disk_reads;
    assert_eq!(read, 20);
}

#[test]
fn an_unused_queue_ends_although_messages_arrive() {
    let mut queue = QueueScenario::with(QueueSettings {
        expires_millis: Some(100),
        ..QueueSettings::default()
    });
    queue.touch();
    queue.pass(60);
    queue.publish(["one"]);
    queue.pass(39);
    assert!(!queue.take_expired());
    queue.pass(1);
    assert!(queue.take_expired());
}

#[test]
fn use_and_consumers_keep_it() {
    let mut queue = QueueScenario::with(QueueSettings {
        expires_millis: Some(100),
        ..QueueSettings::default()
    });
    queue.touch();
    queue.pass(90);
    queue.get();
    queue.pass(90);
    queue.touch();
    queue.pass(90);
    let alice = queue.subscribe(no_ack());
    queue.pass(500);
    assert!(!queue.take_expired());
    queue.unsubscribe(alice);
    queue.pass(99);
    assert!(!queue.take_expired());
    queue.pass(1);
    assert!(queue.take_expired());
}

#[test]
fn with_lazy_expiry_only_the_head_leaves() {
    let mut queue = QueueScenario::with(QueueSettings {
        lazy_expiry: true,
        ..QueueSettings::default()
    });
    queue.publish_expiring(100, ["head"]);
    queue.publish_expiring(50, ["behind"]);
    queue.publish(["living"]);
    queue.publish_expiring(50, ["last"]);
    queue.pass(60);
    queue.expect_depth(4, 0);
    queue.pass(40);
    queue.expect_depth(2, 0);
    let got = Some(("living".to_owned(), false, 0));
    assert_eq!(
        queue.get_no_ack(),
        got,
        "what is over behind it is not left"
    );
    assert_eq!(queue.get(), None);
    queue.expect_stored([""; 0]);
}

#[test]
fn with_lazy_expiry_what_returns_behind_the_head_stays() {
    let mut queue = QueueScenario::with(QueueSettings {
        lazy_expiry: true,
        ..QueueSettings::default()
    });
    queue.publish(["head"]);
    queue.publish_expiring(50, ["behind"]);
    let (_, _) = (queue.get(), queue.get());
    queue.pass(60);
    queue.settle("head", Outcome::Returned);
    queue.settle("behind", Outcome::Returned);
    queue.expect_depth(2, 0);
    let got = Some(("head".to_owned(), true, 0));
    assert_eq!(queue.get(), got, "then it is the head");
    queue.expect_depth(0, 1);
}

#[test]
fn with_lazy_expiry_a_quorum_queue_looks_at_the_head_of_each_priority() {
    let lazy = |queue_type| {
        let mut queue = QueueScenario::with(QueueSettings {
            queue_type,
            max_priority: 31,
            message_ttl_millis: Some(100),
            lazy_expiry: true,
            ..QueueSettings::default()
        });
        queue.publish_with_priority(3, ["dying", "dying too"]);
        queue.pass(50);
        queue.publish_with_priority(9, ["living"]);
        queue.pass(60);
        queue
    };
    lazy(QueueType::Quorum).expect_depth(1, 0);
    lazy(QueueType::Classic).expect_depth(3, 0);
}
