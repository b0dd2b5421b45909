//! Random commands for queues with arguments: no message is lost, none leaves twice, and the store is
//! empty when all are gone. What exactly happens when has its tests elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use leveret_core::{
    arguments::{AttemptCounting, DeadLetter, Overflow, QueueSettings, QueueType, RetrySettings},
    ids::Timestamp,
    queue::{Command, DeathReason, Outcome, Stranding},
};
use leveret_wire::value::{FieldTable, FieldValue};
use proptest::{prelude::*, sample::Index};

use crate::scenario::{QueueScenario, Stop, no_ack};

#[derive(Debug, Clone)]
enum Step {
    Publish {
        body_bytes: usize,
        priority: Option<u8>,
        expiration_millis: Option<u64>,
    },
    Get,
    Settle(Index, Outcome),
    Pass(u64),
    /// Some dead message has arrived elsewhere.
    Arrive(Index),
    /// Nobody took it.
    Strand(Index),
    Purge,
    /// From now on reads come back one step later.
    HoldReads,
    AnswerRead,
    Restart(Stop),
    /// A policy sets the TTL, changes it, or takes it back.
    SetTtl(Option<u64>),
}

fn step() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![
        Just(Outcome::Acked),
        Just(Outcome::Returned),
        Just(Outcome::Failed),
        Just(Outcome::Rejected)
    ];
    let body_bytes = prop_oneof![Just(0_usize), 200_000..500_000_usize];
    prop_oneof![
        20 => (body_bytes, prop::option::of(0..6_u8), prop::option::of(0..40_u64)).prop_map(
            |(body_bytes, priority, expiration_millis)| Step::Publish {
                body_bytes,
                priority,
                expiration_millis,
            }
        ),
        6 => Just(Step::Get),
        6 => (any::<Index>(), outcome).prop_map(|(index, outcome)| Step::Settle(index, outcome)),
        8 => (0..30_u64).prop_map(Step::Pass),
        8 => any::<Index>().prop_map(Step::Arrive),
        4 => any::<Index>().prop_map(Step::Strand),
        1 => Just(Step::Purge),
        3 => Just(Step::HoldReads),
        6 => Just(Step::AnswerRead),
        1 => prop_oneof![Just(Stop::Clean), Just(Stop::Crash)].prop_map(Step::Restart),
        3 => prop_oneof![Just(None), Just(Some(15)), Just(Some(45))].prop_map(Step::SetTtl),
    ]
}

/// Waits short enough for all to be over at the end.
fn retry() -> impl Strategy<Value = Option<RetrySettings>> {
    prop::option::of(prop::option::of(1..4_i32)).prop_map(|retry| {
        let arguments = FieldTable::new()
            .with("x-retry-min", FieldValue::Int(10))
            .with("x-retry-max", FieldValue::Int(60));
        let arguments = match retry? {
            Some(limit) => arguments.with("x-retry-limit", FieldValue::Int(limit)),
            None => arguments,
        };
        QueueSettings::of(&arguments).retry
    })
}

fn settings() -> impl Strategy<Value = QueueSettings> {
    (
        prop_oneof![Just(0_u8), Just(3)],
        prop::option::weighted(0.3, 0..20_u64),
        prop::option::weighted(0.3, 0..50_u64),
        any::<bool>(),
        any::<bool>(),
        (retry(), any::<bool>(), prop::option::of(0..3_u64)),
    )
        .prop_map(
            |(
                max_priority,
                max_length,
                message_ttl_millis,
                has_dead_letter,
                lazy_expiry,
                (retry, is_quorum, delivery_limit),
            )| {
                QueueSettings {
                    retry,
                    queue_type: if is_quorum {
                        QueueType::Quorum
                    } else {
                        QueueType::Classic
                    },
                    max_priority,
                    delivery_limit,
                    attempt_counting: delivery_limit.map(|_| AttemptCounting::Failures),
                    ack_timeout_millis: is_quorum.then_some(35),
                    dead_letter_at_least_once: has_dead_letter && is_quorum,
                    max_length,
                    message_ttl_millis,
                    lazy_expiry,
                    overflow: Overflow::DropHead,
                    dead_letter: has_dead_letter.then_some(DeadLetter {
                        exchange: None,
                        routing_key: None,
                    }),
                    ..QueueSettings::default()
                }
            },
        )
}

proptest! {
    #[test]
    fn nothing_is_lost_and_nothing_stays(
        settings in settings(),
        steps in prop::collection::vec(step(), 1..80),
        unacked_bytes_max in prop_oneof![Just(0), Just(600_000), Just(usize::MAX)],
    ) {
        let keeps_all = settings.dead_letter.is_some();
        let mut queue = QueueScenario::with(settings.clone()).with_unacked_bytes_max(unacked_bytes_max);
        let mut published = BTreeSet::new();
        let mut settings = settings;
        // When each is over, as was settled when it came.
        let mut over = BTreeMap::new();
        let mut now = 0;
        // Acked, purged, or arrived elsewhere.
        let mut gone = BTreeSet::new();
        let mut dead = Vec::new();
        let mut purged = 0;
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Publish { body_bytes, priority, expiration_millis } => {
                    let label = format!("{number:03}");
                    queue.publish_as(&label, body_bytes, priority, expiration_millis);
                    let ttls = [expiration_millis, settings.message_ttl_millis];
                    if let Some(millis) = ttls.into_iter().flatten().min() {
                        over.insert(label.clone(), now + millis);
                    }
                    published.insert(label);
                }
                Step::Get => {
                    queue.ask_get();
                }
                Step::Settle(index, outcome) => {
                    let held = queue.held();
                    if !held.is_empty() {
                        let label = index.get(&held).clone();
                        let command = queue.settling(&label, outcome);
                        let before = queue.queue().depth().unacked;
                        queue.together(vec![command]);
                        if outcome == Outcome::Acked && queue.queue().depth().unacked < before {
                            gone.insert(label);
                        }
                    }
                }
                Step::Pass(millis) => {
                    queue.pass(millis);
                    now += millis;
                }
                Step::SetTtl(message_ttl_millis) => {
                    settings.message_ttl_millis = message_ttl_millis;
                    queue.set_settings(settings.clone());
                }
                Step::Arrive(index) => {
                    dead.extend(queue.take_dead());
                    if !dead.is_empty() {
                        let (seq, label) = dead.swap_remove(index.index(dead.len()));
                        queue.together(vec![Command::Transferred { seq }]);
                        prop_assert!(gone.insert(label), "it left twice");
                    }
                }
                Step::Strand(index) => {
                    dead.extend(queue.take_dead());
                    if !dead.is_empty() {
                        let (seq, _) = dead.swap_remove(index.index(dead.len()));
                        queue.together(vec![Command::Stranded(Box::new(Stranding {
                            seq,
                            reason: DeathReason::Rejected,
                            died_at: Timestamp::default(),
                            taken_by: Box::default(),
                        }))]);
                    }
                }
                Step::Purge => purged += queue.purge(),
                Step::HoldReads => queue.hold_reads(),
                Step::AnswerRead => {
                    if queue.pending_refill().is_some() {
                        queue.answer_refill();
                    }
                }
                Step::Restart(stop) => {
                    queue.restart(stop);
                    queue.take_dead();
                    dead.clear();
                }
            }
            queue.take_missing();
        }
        queue.restart(Stop::Crash);
        queue.take_dead();
        queue.pass(100);
        now += 100;
        let last = queue.subscribe(no_ack());
        queue.pass(1);
        let delivered = queue.take_labels(last);
        for (seq, label) in queue.take_dead() {
            queue.together(vec![Command::Transferred { seq }]);
            prop_assert!(gone.insert(label), "it died and had left before");
        }
        queue.expect_depth(0, 0);
        queue.expect_stored([""; 0]);
        for label in delivered {
            prop_assert!(over.get(&label).is_none_or(|over| *over > now), "its time was over");
            prop_assert!(gone.insert(label), "it was delivered and had left before");
        }
        if keeps_all {
            let lost = published.difference(&gone).count() as u64;
            prop_assert_eq!(lost, purged, "lost without having been purged");
        }
    }
}
