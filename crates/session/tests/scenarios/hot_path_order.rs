//! Publishes and acks of several channels in one read: staged in the order they came, nothing asked.

use bytes::BytesMut;
use leveret_core::queue::Outcome;
use leveret_session::{Promise, Settle};
use leveret_wire::{
    RawProperties,
    method::{basic, confirm},
};

use crate::support::{Event, Scenario, at, key, method_frame, publish_frames};

#[test]
fn a_read_full_of_publishes_and_acks_is_staged_in_its_order() {
    const ROUNDS: u64 = 200;
    let mut scenario = Scenario::with_channels(3);
    for channel in [1, 2] {
        scenario.send(channel, confirm::Select { nowait: true });
    }
    let consumer = scenario.consume(3, "q", "t", false);
    for seq in 1..=ROUNDS {
        scenario.deliver(consumer, "q", seq, b"x");
    }
    scenario.forget();

    let mut bytes = BytesMut::new();
    for round in 1..=ROUNDS {
        let body = round.to_be_bytes();
        bytes.extend_from_slice(&publish_frames(1, "a", "k", &RawProperties::EMPTY, &body));
        let ack = basic::Ack {
            delivery_tag: round.into(),
            multiple: false,
        };
        bytes.extend_from_slice(&method_frame(3, ack));
        bytes.extend_from_slice(&publish_frames(2, "b", "k", &RawProperties::EMPTY, &body));
    }
    scenario.send_bytes(&bytes);
    scenario.expect_nothing();

    let mut events = scenario.events().into_iter();
    let mut next = || events.next().expect("three events a round");
    for round in 1..=ROUNDS {
        for channel in [1, 3, 2] {
            match next() {
                Event::Publish(publish) => {
                    assert_eq!(publish.channel, key(channel, u32::from(channel)));
                    assert_eq!(publish.promise, Promise::Confirm(round));
                    assert_eq!(publish.body, round.to_be_bytes().as_slice());
                }
                Event::Settle(settle) => {
                    let expected = Settle {
                        channel: key(3, 3),
                        at: at("q", round),
                        outcome: Outcome::Acked,
                        continues: false,
                    };
                    assert_eq!((channel, settle), (3, expected));
                }
                other @ (Event::Call(_)
                | Event::Commit(_)
                | Event::Rollback(_)
                | Event::Room(..)) => {
                    panic!("{other:?} on the hot path")
                }
            }
        }
    }
    assert_eq!(events.next(), None);
}
