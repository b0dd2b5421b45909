//! Deliveries, cancels and confirms between the reads, against a model of what is unacked.

use std::collections::{BTreeMap, BTreeSet};

use leveret_core::ids::{ChannelKey, ConsumerId};
use leveret_session::Call;
use leveret_wire::{
    Method,
    method::{basic, channel, confirm},
};
use proptest::prelude::*;

use crate::support::{Event, Scenario, Seen, method_frame, publish_frames, short};

#[derive(Debug, Clone)]
enum Move {
    Consume {
        channel: u16,
        no_ack: bool,
    },
    CancelByClient {
        channel: u16,
        which: usize,
    },
    CancelByServer {
        which: usize,
    },
    Deliver {
        which: usize,
        count: u8,
    },
    Settle {
        channel: u16,
        tag: u64,
        multiple: bool,
        requeue: Option<bool>,
    },
    Recover {
        channel: u16,
    },
    Publish {
        channel: u16,
        targets: u32,
    },
    Confirm {
        channel: u16,
        number: u64,
        accepted: bool,
    },
    Reopen {
        channel: u16,
    },
    Tick,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let channel = 1_u16..4;
    let which = 0_usize..8;
    let one = prop_oneof![
        4 => (channel.clone(), any::<bool>()).prop_map(|(channel, no_ack)| Move::Consume { channel, no_ack }),
        1 => (channel.clone(), which.clone())
            .prop_map(|(channel, which)| Move::CancelByClient { channel, which }),
        1 => which.clone().prop_map(|which| Move::CancelByServer { which }),
        8 => (which, 1_u8..90).prop_map(|(which, count)| Move::Deliver { which, count }),
        12 => (channel.clone(), 0_u64..60, any::<bool>(), any::<Option<bool>>()).prop_map(
            |(channel, tag, multiple, requeue)| Move::Settle { channel, tag, multiple, requeue }
        ),
        1 => channel.clone().prop_map(|channel| Move::Recover { channel }),
        4 => (channel.clone(), 0_u32..3).prop_map(|(channel, targets)| Move::Publish { channel, targets }),
        8 => (channel.clone(), 0_u64..9, any::<bool>()).prop_map(|(channel, number, accepted)| {
            Move::Confirm { channel, number, accepted }
        }),
        1 => channel.prop_map(|channel| Move::Reopen { channel }),
        1 => Just(Move::Tick),
    ];
    proptest::collection::vec(one, 1..80)
}

/// What a channel should know.
#[derive(Debug, Default)]
struct Known {
    /// Seqs by their tags.
    unacked: BTreeMap<u64, u64>,
    /// Publishes that were not answered, by their numbers, and the queues that have not.
    unconfirmed: BTreeMap<u64, (u32, bool)>,
    published: u64,
}

#[derive(Debug)]
struct Model {
    scenario: Scenario,
    channels: BTreeMap<ChannelKey, Known>,
    consumers: Vec<(ConsumerId, bool)>,
    next_seq: u64,
    /// The delivery that is being made: its seq, and whether it needs no ack.
    delivering: Option<(u64, bool)>,
}

impl Model {
    fn new() -> Self {
        let mut scenario = Scenario::open();
        for channel in 1..4 {
            scenario.open_channel(channel);
            scenario.send(channel, confirm::Select { nowait: true });
        }
        let mut model = Self {
            scenario,
            channels: BTreeMap::new(),
            consumers: Vec::new(),
            next_seq: 0,
            delivering: None,
        };
        model.look();
        model.scenario.forget();
        model
    }

    fn key(&self, channel: u16) -> ChannelKey {
        *self
            .channels
            .keys()
            .find(|key| key.channel == channel)
            .expect("open")
    }

    fn known(&mut self, channel: u16) -> &mut Known {
        let key = self.key(channel);
        self.channels.get_mut(&key).expect("open")
    }

    fn play(&mut self, one: Move) {
        match one {
            Move::Consume { channel, no_ack } => {
                let method = basic::Consume {
                    queue: short("q"),
                    no_ack,
                    ..Default::default()
                };
                self.scenario.send(channel, method);
            }
            Move::CancelByClient { channel, which } => {
                let tag = format!("amq.ctag-{which:022}");
                self.scenario.send(
                    channel,
                    basic::Cancel {
                        consumer_tag: short(&tag),
                        nowait: true,
                    },
                );
            }
            Move::CancelByServer { which } => {
                if let Some((consumer, _)) = self.consumers.get(which).copied() {
                    self.scenario.outgoing.cancel_consumer(consumer);
                }
            }
            Move::Deliver { which, count } => {
                if let Some((consumer, no_ack)) = self.consumers.get(which).copied() {
                    self.deliver(consumer, no_ack, count);
                }
            }
            Move::Settle {
                channel,
                tag,
                multiple,
                requeue,
            } => {
                self.settle(channel, tag, multiple, requeue);
            }
            Move::Recover { channel } => {
                self.look_at_output();
                let returned: Vec<u64> = std::mem::take(&mut self.known(channel).unacked)
                    .into_values()
                    .collect();
                self.scenario
                    .send(channel, basic::Recover { requeue: true });
                self.expect_settled(&returned, true);
            }
            Move::Publish { channel, targets } => {
                let key = self.key(channel);
                self.scenario.send_bytes(&publish_frames(
                    channel,
                    "",
                    "k",
                    &Default::default(),
                    b"x",
                ));
                let known = self.known(channel);
                known.published += 1;
                let number = known.published;
                known.unconfirmed.insert(number, (targets, true));
                self.scenario.outgoing.expect_confirm(key, number, targets);
            }
            Move::Confirm {
                channel,
                number,
                accepted,
            } => {
                let key = self.key(channel);
                if let Some(owed) = self.known(channel).unconfirmed.get_mut(&number)
                    && owed.0 > 0
                {
                    owed.0 -= 1;
                    owed.1 &= accepted;
                    self.scenario.outgoing.confirm(key, number, accepted);
                }
            }
            Move::Reopen { channel } => {
                let mut bytes = method_frame(channel, channel::Close::default());
                bytes.extend_from_slice(&method_frame(channel, channel::Open::default()));
                bytes.extend_from_slice(&method_frame(channel, confirm::Select { nowait: true }));
                self.look_at_output();
                self.scenario.send_bytes(&bytes);
            }
            Move::Tick => {
                self.scenario.advance(1000);
            }
        }
        self.scenario.turn();
        self.look();
    }

    fn deliver(&mut self, consumer: ConsumerId, no_ack: bool, count: u8) {
        self.look_at_output();
        for _ in 0..count {
            self.next_seq += 1;
            if self.scenario.deliver(consumer, "q", self.next_seq, b"x") {
                self.delivering = Some((self.next_seq, no_ack));
                self.look_at_output();
                assert_eq!(self.delivering, None, "it was written");
            }
        }
    }

    fn settle(&mut self, channel: u16, tag: u64, multiple: bool, requeue: Option<bool>) {
        self.look_at_output();
        let delivery_tag = tag.into();
        let method: Method = match requeue {
            None => basic::Ack {
                delivery_tag,
                multiple,
            }
            .into(),
            Some(requeue) => basic::Nack {
                delivery_tag,
                multiple,
                requeue,
            }
            .into(),
        };
        let unacked = &mut self.known(channel).unacked;
        let taken: Option<Vec<u64>> = if multiple && tag == 0 {
            Some(std::mem::take(unacked).into_values().collect())
        } else if !unacked.contains_key(&tag) {
            None
        } else if multiple {
            let rest = unacked.split_off(&(tag + 1));
            Some(std::mem::replace(unacked, rest).into_values().collect())
        } else {
            unacked.remove(&tag).map(|seq| vec![seq])
        };
        self.scenario.send(channel, method);
        match taken {
            Some(seqs) => self.expect_settled(&seqs, multiple && requeue.is_some()),
            None => {
                let mut bytes = method_frame(channel, channel::CloseOk {});
                bytes.extend_from_slice(&method_frame(channel, channel::Open::default()));
                bytes.extend_from_slice(&method_frame(channel, confirm::Select { nowait: true }));
                self.scenario.send_bytes(&bytes);
            }
        }
    }

    /// What is taken back comes consumer by consumer, whose order `settling` tests.
    fn expect_settled(&mut self, seqs: &[u64], is_by_consumer: bool) {
        let mut settled: Vec<u64> = self
            .scenario
            .sink
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Settle(settle) => Some(settle.at.seq.get()),
                Event::Publish(_)
                | Event::Call(_)
                | Event::Commit(_)
                | Event::Rollback(_)
                | Event::Room(..) => None,
            })
            .collect();
        let mut seqs = seqs.to_vec();
        if is_by_consumer {
            settled.sort_unstable();
            seqs.sort_unstable();
        }
        assert_eq!(settled, seqs);
        self.scenario
            .sink
            .events
            .retain(|event| !matches!(event, Event::Settle(_)));
    }

    /// Follows what was asked and what was written.
    fn look(&mut self) {
        self.look_at_output();
        for event in self.scenario.events() {
            match event {
                Event::Call(Call::OpenChannel(key)) => {
                    self.channels.insert(key, Known::default());
                }
                Event::Call(Call::CloseChannel(end)) => {
                    self.channels.remove(&end.channel);
                    self.consumers
                        .retain(|(consumer, _)| consumer.channel != end.channel);
                }
                Event::Call(Call::Consume(consume)) => {
                    self.consumers.push((consume.consumer, consume.no_ack));
                }
                Event::Settle(_) | Event::Commit(_) | Event::Rollback(_) | Event::Room(..) => {
                    panic!("{event:?} out of nowhere")
                }
                Event::Call(_) | Event::Publish(_) => {}
            }
        }
        let ends = self.scenario.connection.open_channels();
        let open: BTreeSet<_> = ends.iter().map(|end| end.channel).collect();
        assert_eq!(open, self.channels.keys().copied().collect());
    }

    fn look_at_output(&mut self) {
        while let Some(seen) = self.scenario.next() {
            let Seen::Method(channel, Method::Basic(method)) = seen else {
                continue;
            };
            match method {
                basic::Basic::Deliver(deliver) => {
                    let (seq, no_ack) = self.delivering.take().expect("one at a time");
                    if !no_ack {
                        self.known(channel)
                            .unacked
                            .insert(deliver.delivery_tag.get(), seq);
                    }
                }
                basic::Basic::Ack(basic::Ack {
                    delivery_tag,
                    multiple,
                }) => {
                    self.answered(channel, delivery_tag.get(), multiple, true);
                }
                basic::Basic::Nack(basic::Nack {
                    delivery_tag,
                    multiple,
                    ..
                }) => {
                    self.answered(channel, delivery_tag.get(), multiple, false);
                }
                _ => {}
            }
        }
    }

    fn answered(&mut self, channel: u16, number: u64, multiple: bool, accepted: bool) {
        let unconfirmed = &mut self.known(channel).unconfirmed;
        let first = if multiple { 0 } else { number };
        let numbers: Vec<u64> = unconfirmed
            .range(first..=number)
            .map(|(number, _)| *number)
            .collect();
        assert!(numbers.contains(&number), "{number} is answered once");
        for number in numbers {
            assert_eq!(unconfirmed.remove(&number), Some((0, accepted)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_unacked_and_unconfirmed_follows_the_model(moves in moves()) {
        let mut model = Model::new();
        for one in moves {
            model.play(one);
        }
    }
}
