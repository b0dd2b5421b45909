//! Random units against a map, with crashes and stops in between.
#![allow(clippy::unwrap_used, reason = "a test may unwrap, its helpers too")]

mod common;

use std::collections::BTreeMap;

use common::{Broker, data_dir, forget_in, put_in, state_of};
use leveret_core::{
    ids::{QueueId, Seq},
    record::{QueueState, Write},
};
use proptest::{collection::vec, prelude::*};

const QUEUES: u64 = 3;
const PRIORITIES: u8 = 2;

#[derive(Debug, Clone)]
enum Step {
    /// A unit of these, waited for or not.
    Unit {
        changes: Vec<Change>,
        wait: bool,
    },
    Crash,
    Stop,
}

#[derive(Debug, Clone)]
enum Change {
    Put {
        queue: u64,
        priority: u8,
        body_len: usize,
    },
    /// The nth of the messages that are there.
    Forget {
        nth: prop::sample::Index,
    },
    /// Everything of one priority from the nth message on.
    Purge {
        nth: prop::sample::Index,
    },
    State {
        queue: u64,
    },
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        5 => (0..QUEUES, 0..PRIORITIES, prop_oneof![0..50usize, 4_000..4_200usize, 16_000..17_000usize])
            .prop_map(|(queue, priority, body_len)| Change::Put { queue, priority, body_len }),
        4 => any::<prop::sample::Index>().prop_map(|nth| Change::Forget { nth }),
        1 => any::<prop::sample::Index>().prop_map(|nth| Change::Purge { nth }),
        2 => (0..QUEUES).prop_map(|queue| Change::State { queue }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (vec(change(), 1..8), any::<bool>())
            .prop_map(|(changes, wait)| Step::Unit { changes, wait }),
        1 => Just(Step::Crash),
        1 => Just(Step::Stop),
    ]
}

type Place = (u64, u8, u64);

/// What a store should hold.
#[derive(Default)]
struct Model {
    messages: BTreeMap<Place, Vec<u8>>,
    next: u64,
}

impl Model {
    fn writes(&mut self, change: &Change) -> Option<Write> {
        match change {
            Change::Put {
                queue,
                priority,
                body_len,
            } => {
                self.next += 1;
                let body = vec![self.next as u8; *body_len];
                self.messages
                    .insert((*queue, *priority, self.next), body.clone());
                Some(put_in(QueueId::new(*queue), *priority, self.next, body))
            }
            Change::Forget { nth } => {
                let (queue, priority, seq) = self.nth(nth)?;
                self.messages.remove(&(queue, priority, seq));
                Some(forget_in(QueueId::new(queue), priority, seq))
            }
            Change::Purge { nth } => {
                let (queue, priority, seq) = self.nth(nth)?;
                self.messages
                    .retain(|place, _| (place.0, place.1) != (queue, priority) || place.2 < seq);
                let (from, until) = (Seq::new(seq), Seq::new(self.next + 1));
                Some(Write::ForgetRange {
                    queue: QueueId::new(queue),
                    priority,
                    from,
                    until,
                })
            }
            Change::State { queue } => {
                let state = QueueState {
                    next: Seq::new(self.next),
                    ..QueueState::default()
                };
                Some(state_of(QueueId::new(*queue), state))
            }
        }
    }

    fn nth(&self, nth: &prop::sample::Index) -> Option<Place> {
        let places: Vec<_> = self.messages.keys().copied().collect();
        (!places.is_empty()).then(|| *nth.get(&places))
    }

    fn check(&self, broker: &Broker) {
        let mut found = BTreeMap::new();
        for queue in 0..QUEUES {
            for priority in 0..PRIORITIES {
                for row in broker.read_in_pages(QueueId::new(queue), priority, 3) {
                    let place = (queue, priority, row.seq.get());
                    assert!(found.insert(place, row.message.body().to_vec()).is_none());
                }
            }
        }
        assert_eq!(
            found.keys().collect::<Vec<_>>(),
            self.messages.keys().collect::<Vec<_>>()
        );
        assert_eq!(found, self.messages);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_store_holds_what_a_map_would_hold(steps in vec(step(), 1..60)) {
        let dir = data_dir();
        let mut model = Model::default();
        let mut broker = Broker::open(dir.path());
        for (number, step) in steps.iter().enumerate() {
            let number = number as u64;
            match step {
                Step::Unit { changes, wait } => {
                    let writes: Vec<_> =
                        changes.iter().filter_map(|change| model.writes(change)).collect();
                    broker.send(writes, number, *wait);
                    if *wait {
                        broker.wait_for(number);
                        model.check(&broker);
                    }
                }
                Step::Crash => {
                    // A crash may lose what was not waited for, and then the model would not know.
                    broker.send([], number, true);
                    broker.wait_for(number);
                    drop(broker);
                    broker = Broker::open(dir.path());
                    model.check(&broker);
                }
                Step::Stop => {
                    broker.stop();
                    broker = Broker::open(dir.path());
                    prop_assert!(broker.recovered.report.clean);
                    model.check(&broker);
                }
            }
        }
        broker.stop();
        model.check(&Broker::open(dir.path()));
    }
}
