//! `confirm.select`, the numbers of publishes, and how they are answered.

use leveret_session::{Outgoing, Promise};
use leveret_wire::method::{Method, basic, channel, confirm};

use crate::support::{Event, MISSING, Scenario, key, passive};

fn ack(tag: u64, multiple: bool) -> Method {
    basic::Ack {
        delivery_tag: tag.into(),
        multiple,
    }
    .into()
}

fn nack(tag: u64, multiple: bool) -> Method {
    basic::Nack {
        delivery_tag: tag.into(),
        multiple,
        requeue: true,
    }
    .into()
}

fn numbers(scenario: &mut Scenario) -> Vec<Option<u64>> {
    let of = |event| match event {
        Event::Publish(publish) => match publish.promise {
            Promise::Confirm(number) => Some(number),
            Promise::Nothing | Promise::Commit => None,
        },
        other => panic!("{other:?}"),
    };
    scenario.events().into_iter().map(of).collect()
}

fn confirming() -> Scenario {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, confirm::Select { nowait: true });
    scenario
}

#[test]
fn publishes_are_numbered_from_the_select_on() {
    let mut scenario = Scenario::with_channels(2);
    scenario.publish(1, "", "q", b"x");
    scenario.send(1, confirm::Select { nowait: false });
    scenario.expect(1, confirm::SelectOk {});
    scenario.publish(1, "", "q", b"x");
    scenario.publish(2, "", "q", b"x");
    scenario.publish(1, "", "q", b"");
    scenario.send(1, confirm::Select { nowait: true });
    scenario.publish(1, "", "q", b"x");
    scenario.expect_nothing();
    assert_eq!(
        numbers(&mut scenario),
        [None, Some(1), None, Some(2), Some(3)]
    );
}

#[test]
fn runs_of_the_same_outcome_are_one_frame() {
    let mut scenario = confirming();
    let channel = key(1, 1);
    for number in 1..=6 {
        scenario.outgoing.expect_confirm(channel, number, 1);
    }
    for (number, accepted) in [(6, true), (2, true), (4, false), (3, false), (5, true)] {
        scenario.outgoing.confirm(channel, number, accepted);
    }
    scenario.turn();
    scenario.expect_nothing();
    scenario.outgoing.confirm(channel, 1, true);
    scenario.turn();
    scenario.expect(1, ack(2, true));
    scenario.expect(1, nack(4, true));
    scenario.expect(1, ack(6, true));
    scenario.expect_nothing();
}

#[test]
fn a_single_confirm_covers_nothing_else() {
    let mut scenario = confirming();
    for number in 1..=3 {
        scenario.outgoing.expect_confirm(key(1, 1), number, 1);
        scenario.outgoing.confirm(key(1, 1), number, number != 2);
        scenario.turn();
    }
    scenario.expect(1, ack(1, false));
    scenario.expect(1, nack(2, false));
    scenario.expect(1, ack(3, false));
}

#[test]
fn several_queues_have_to_answer_and_one_can_refuse() {
    let mut scenario = confirming();
    scenario.outgoing.expect_confirm(key(1, 1), 1, 3);
    scenario.outgoing.expect_confirm(key(1, 1), 2, 2);
    for accepted in [true, false] {
        scenario.outgoing.confirm(key(1, 1), 1, accepted);
        scenario.outgoing.confirm(key(1, 1), 2, true);
    }
    scenario.turn();
    scenario.expect_nothing();
    scenario.outgoing.confirm(key(1, 1), 1, true);
    scenario.turn();
    scenario.expect(1, nack(1, false));
    scenario.expect(1, ack(2, false));
}

#[test]
fn confirms_of_before_are_dropped() {
    let mut scenario = confirming();
    scenario.outgoing.expect_confirm(key(1, 1), 1, 1);
    scenario.outgoing.expect_confirm(key(1, 1), 2, 1);
    scenario.outgoing.confirm(key(1, 1), 1, true);
    scenario.send(1, passive(MISSING));
    scenario.outgoing.confirm(key(1, 1), 2, true);
    scenario.turn();
    // What was decided before the close may still come before it.
    let mut seen = vec![scenario.next_method().1];
    if seen[0] == ack(1, false) {
        seen = vec![scenario.next_method().1];
    }
    assert!(matches!(
        seen[0],
        Method::Channel(channel::Channel::Close(_))
    ));
    scenario.expect_nothing();
    scenario.send(1, channel::CloseOk {});
    scenario.open_channel(1);
    scenario.outgoing.confirm(key(1, 1), 2, true);
    scenario.outgoing.expect_confirm(key(1, 1), 3, 0);
    scenario.turn();
    scenario.expect_nothing();
    scenario.outgoing.expect_confirm(key(1, 2), 1, 0);
    scenario.turn();
    scenario.expect(1, ack(1, false));
}

#[test]
fn each_channel_is_confirmed_on_its_own() {
    let mut outgoing = Outgoing::new();
    for channel in [1, 2] {
        outgoing.open_channel(key(channel, u32::from(channel)));
    }
    for number in 1..=100 {
        outgoing.expect_confirm(key(1, 1), number, 1);
        outgoing.expect_confirm(key(2, 2), number, 0);
    }
    outgoing.flush_confirms();
    let after_one = outgoing.pending_bytes();
    for number in 1..=100 {
        outgoing.confirm(key(1, 1), number, true);
    }
    outgoing.flush_confirms();
    assert_eq!(outgoing.pending_bytes(), 2 * after_one, "one frame each");
    outgoing.flush_confirms();
    assert_eq!(outgoing.pending_bytes(), 2 * after_one);
}
