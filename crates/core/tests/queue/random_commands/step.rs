//! What happens to the queue next.

use leveret_core::queue::{ConsumerSettings, Outcome};
use proptest::{prelude::*, sample::Index};

use crate::scenario::Stop;

#[derive(Debug, Clone)]
pub(super) enum Step {
    Publish {
        persistent: bool,
        body_bytes: usize,
        priority: Option<u8>,
    },
    Subscribe {
        channel: u16,
        settings: ConsumerSettings,
    },
    Resume(Index),
    Pause(Index),
    Unsubscribe(Index),
    /// The consumers of the channel share a bound, or none any more.
    Share {
        channel: u16,
        max: Option<u64>,
    },
    Get {
        channel: u16,
        no_ack: bool,
    },
    Settle(Index, Outcome),
    SettleAnything(u64, u32, Outcome),
    /// A delivery whose message came back long ago.
    SettleLate(Index, Outcome),
    Release {
        channel: u16,
        ended: bool,
    },
    Purge,
    Delete {
        if_unused: bool,
        if_empty: bool,
    },
    /// Hands out, seals, and sends the batch to the store.
    EndBatch,
    /// The oldest batch reaches the store.
    Commit,
    /// What was asked for is read, but not given back yet.
    Read,
    /// At most so many rows come back; with or without a word where to go on behind the last one.
    GiveBack {
        rows_max: usize,
        says_more: bool,
    },
    Restart(Stop),
    MemoryShort(bool),
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![
        4 => Just(Outcome::Acked),
        3 => Just(Outcome::Returned),
        2 => Just(Outcome::Failed),
        1 => Just(Outcome::Rejected),
        1 => Just(Outcome::Discarded),
    ];
    let settings = (
        0..4_u16,
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.1),
        0..3_i64,
    )
        .prop_map(|(prefetch, no_ack, exclusive, priority)| ConsumerSettings {
            prefetch,
            no_ack,
            exclusive,
            priority,
            ..ConsumerSettings::default()
        });
    let body_bytes = prop_oneof![
        2 => 0..100_usize,
        1 => Just(4096),
        3 => 100_000..500_000_usize,
    ];
    prop_oneof![
        20 => (prop::bool::weighted(0.75), body_bytes, prop::option::weighted(0.3, 0..7_u8))
            .prop_map(|(persistent, body_bytes, priority)| Step::Publish {
                persistent,
                body_bytes,
                priority,
            }),
        4 => (0..3_u16, settings)
            .prop_map(|(channel, settings)| Step::Subscribe { channel, settings }),
        6 => any::<Index>().prop_map(Step::Resume),
        1 => any::<Index>().prop_map(Step::Pause),
        1 => any::<Index>().prop_map(Step::Unsubscribe),
        1 => (0..3_u16, prop::option::weighted(0.8, 1..4_u64))
            .prop_map(|(channel, max)| Step::Share { channel, max }),
        4 => (0..3_u16, any::<bool>()).prop_map(|(channel, no_ack)| Step::Get { channel, no_ack }),
        14 => (any::<Index>(), outcome.clone()).prop_map(|(index, how)| Step::Settle(index, how)),
        1 => (0..60_u64, 0..60_u32, outcome.clone())
            .prop_map(|(seq, handout, how)| Step::SettleAnything(seq, handout, how)),
        2 => (any::<Index>(), outcome).prop_map(|(index, how)| Step::SettleLate(index, how)),
        1 => (0..3_u16, prop::bool::weighted(0.6))
            .prop_map(|(channel, ended)| Step::Release { channel, ended }),
        1 => Just(Step::Purge),
        1 => (any::<bool>(), any::<bool>(), prop::bool::weighted(0.1)).prop_map(
            |(if_unused, if_empty, really)| Step::Delete {
                if_unused: if_unused || !really,
                if_empty: if_empty || !really,
            }
        ),
        14 => Just(Step::EndBatch),
        14 => Just(Step::Commit),
        10 => Just(Step::Read),
        10 => (1..6_usize, any::<bool>())
            .prop_map(|(rows_max, says_more)| Step::GiveBack { rows_max, says_more }),
        1 => prop_oneof![Just(Stop::Clean), Just(Stop::Crash)].prop_map(Step::Restart),
        2 => prop::bool::weighted(0.7).prop_map(Step::MemoryShort),
    ]
}

/// What is unacked is on disk only, or some of it, or all of it is in memory.
pub(super) fn unacked_bytes_max() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0), Just(600_000), Just(usize::MAX)]
}
