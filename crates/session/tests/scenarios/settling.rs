//! `basic.ack`, `nack`, `reject` and `recover`.

use leveret_core::queue::Outcome;
use leveret_session::Call;
use leveret_wire::method::{Method, basic};

use crate::support::{Event, Scenario, method_frame};

/// Channel 1 with that many deliveries; their seqs are ten times their tags.
fn with_deliveries(count: u64) -> Scenario {
    let mut scenario = Scenario::with_channels(2);
    let consumer = scenario.consume(1, "q", "t", false);
    for tag in 1..=count {
        assert!(scenario.deliver(consumer, "q", tag * 10, b"x"));
    }
    scenario.forget();
    scenario
}

fn ack(tag: u64, multiple: bool) -> basic::Ack {
    basic::Ack {
        delivery_tag: tag.into(),
        multiple,
    }
}

fn nack(tag: u64, multiple: bool, requeue: bool) -> basic::Nack {
    basic::Nack {
        delivery_tag: tag.into(),
        multiple,
        requeue,
    }
}

fn reject(tag: u64, requeue: bool) -> basic::Reject {
    basic::Reject {
        delivery_tag: tag.into(),
        requeue,
    }
}

#[test]
fn one_delivery_is_settled_by_its_tag() {
    let mut scenario = with_deliveries(5);
    scenario.send(1, ack(3, false));
    scenario.expect_settled(1, &[30], Outcome::Acked);
    scenario.send(1, nack(1, false, true));
    scenario.expect_settled(1, &[10], Outcome::Returned);
    scenario.send(1, nack(2, false, false));
    scenario.expect_settled(1, &[20], Outcome::Discarded);
    // A reject tells of a failure, a nack does not.
    scenario.send(1, reject(5, true));
    scenario.expect_settled(1, &[50], Outcome::Failed);
    scenario.send(1, reject(4, false));
    scenario.expect_settled(1, &[40], Outcome::Rejected);
    scenario.expect_nothing();
}

#[test]
fn multiple_settles_everything_up_to_a_tag_that_is_open() {
    let mut scenario = with_deliveries(6);
    scenario.send(1, ack(2, false));
    scenario.expect_settled(1, &[20], Outcome::Acked);
    scenario.send(1, ack(4, true));
    scenario.expect_settled(1, &[10, 30, 40], Outcome::Acked);
    scenario.send(1, nack(6, true, true));
    scenario.expect_settled(1, &[50, 60], Outcome::Returned);
}

#[test]
fn tag_0_with_multiple_is_everything_and_may_be_nothing() {
    let mut scenario = with_deliveries(3);
    scenario.send(1, ack(0, true));
    scenario.expect_settled(1, &[10, 20, 30], Outcome::Acked);
    scenario.send(1, ack(0, true));
    scenario.send(1, nack(0, true, false));
    scenario.expect_settled(1, &[], Outcome::Acked);
    scenario.expect_nothing();
}

#[test]
fn a_tag_that_is_not_open_closes_the_channel() {
    let cases: [(Method, u64, (u16, u16)); 8] = [
        (ack(99, false).into(), 99, (60, 80)),
        (ack(99, true).into(), 99, (60, 80)),
        (ack(0, false).into(), 0, (60, 80)),
        (ack(u64::MAX, false).into(), u64::MAX, (60, 80)),
        (ack(2, false).into(), 2, (60, 80)),
        (ack(2, true).into(), 2, (60, 80)),
        (nack(99, false, true).into(), 99, (60, 120)),
        (reject(0, false).into(), 0, (60, 90)),
    ];
    for (method, tag, ids) in cases {
        let mut scenario = with_deliveries(5);
        scenario.send(1, ack(2, false));
        scenario.forget();
        scenario.send(1, method);
        let text = format!("PRECONDITION_FAILED - unknown delivery tag {tag}");
        scenario.expect_channel_close(1, 406, &text, ids);
        let events = scenario.events();
        assert!(
            matches!(events.as_slice(), [Event::Call(Call::CloseChannel(_))]),
            "{events:?}"
        );
    }
}

#[test]
fn a_tag_of_another_channel_is_not_open() {
    let mut scenario = with_deliveries(1);
    scenario.send(2, ack(1, false));
    scenario.expect_channel_close(
        2,
        406,
        "PRECONDITION_FAILED - unknown delivery tag 1",
        (60, 80),
    );
    scenario.forget();
    scenario.send(1, ack(1, false));
    scenario.expect_settled(1, &[10], Outcome::Acked);
}

#[test]
fn recover_gives_everything_back_behind_its_answer() {
    let mut scenario = with_deliveries(3);
    scenario.send(1, ack(2, false));
    scenario.forget();
    let mut bytes = method_frame(1, basic::Recover { requeue: true });
    bytes.extend_from_slice(&method_frame(1, ack(0, true)));
    scenario.send_bytes(&bytes);
    scenario.expect(1, basic::RecoverOk {});
    let mut events = scenario.events();
    assert_eq!(events.remove(0), Event::Call(Call::CatchUp));
    scenario.sink.events = events;
    scenario.expect_settled(1, &[10, 30], Outcome::Returned);
    scenario.send(1, ack(1, false));
    scenario.expect_channel_close(
        1,
        406,
        "PRECONDITION_FAILED - unknown delivery tag 1",
        (60, 80),
    );
}

#[test]
fn recover_covers_deliveries_that_were_written_meanwhile_and_none_after_its_answer() {
    let mut scenario = with_deliveries(1);
    scenario.is_holding_answers = true;
    scenario.send(1, basic::Recover { requeue: true });
    let consumer = leveret_core::ids::ConsumerId {
        channel: crate::support::key(1, 1),
        number: 1,
    };
    scenario.deliver(consumer, "q", 20, b"x");
    scenario.forget();
    scenario.answer(leveret_session::Answer::Done);
    scenario.expect_settled(1, &[10, 20], Outcome::Returned);
    scenario.deliver(consumer, "q", 10, b"x");
    scenario.send(1, ack(3, true));
    scenario.expect_settled(1, &[10], Outcome::Acked);
}

#[test]
fn recover_async_does_the_same_without_an_answer() {
    let mut scenario = with_deliveries(2);
    scenario.send(1, basic::RecoverAsync { requeue: true });
    scenario.sink.events.remove(0);
    scenario.expect_settled(1, &[10, 20], Outcome::Returned);
    scenario.expect_nothing();
}

#[test]
fn recover_without_requeue_is_not_implemented() {
    let methods: [Method; 2] = [
        basic::Recover { requeue: false }.into(),
        basic::RecoverAsync { requeue: false }.into(),
    ];
    for (method, id) in methods.into_iter().zip([110, 100]) {
        let mut scenario = with_deliveries(1);
        scenario.send(1, method);
        let text = "NOT_IMPLEMENTED - requeue=false";
        scenario.expect_connection_close(540, text, (60, id));
    }
}

#[test]
fn deliveries_of_one_settlement_are_one_step() {
    let mut scenario = with_deliveries(5);
    let mut steps = |method: Method| -> Vec<(u64, bool)> {
        scenario.send(1, method);
        let events = scenario.events().into_iter();
        let settles = events.filter_map(|event| match event {
            Event::Settle(settle) => Some((settle.at.seq.get(), settle.continues)),
            _ => None,
        });
        settles.collect()
    };
    assert_eq!(steps(ack(1, false).into()), [(10, false)]);
    assert_eq!(steps(reject(3, true).into()), [(30, false)]);
    assert_eq!(steps(nack(4, true, true).into()), [(20, false), (40, true)]);
    let recover = basic::Recover { requeue: true };
    assert_eq!(steps(recover.into()), [(50, false)]);
}

/// Consumer `b` is older than `a`, both of them have two messages, and one was got.
fn with_two_consumers() -> Scenario {
    let mut scenario = Scenario::with_channel();
    let older = scenario.consume(1, "q", "b", false);
    let newer = scenario.consume(1, "q", "a", false);
    scenario.deliver(older, "q", 10, b"body");
    scenario.deliver(newer, "q", 20, b"body");
    scenario.deliver(older, "q", 30, b"body");
    scenario.deliver(newer, "q", 40, b"body");
    scenario.forget();
    scenario
}

#[test]
fn what_is_returned_together_comes_back_consumer_by_consumer_in_the_order_of_their_tags() {
    for requeue in [true, false] {
        let mut scenario = with_two_consumers();
        scenario.send(1, nack(3, true, requeue));
        scenario.expect_steps(&[&[20], &[10, 30]]);
        scenario.send(1, nack(0, true, requeue));
        scenario.expect_steps(&[&[40]]);
    }
    let mut scenario = with_two_consumers();
    scenario.send(1, basic::RecoverAsync { requeue: true });
    let events = scenario.events();
    assert_eq!(
        events.len(),
        5,
        "the queues catch up, then all is returned: {events:?}"
    );
}

#[test]
fn what_is_acked_together_is_one_step() {
    let mut scenario = with_two_consumers();
    scenario.send(1, ack(4, true));
    scenario.expect_steps(&[&[10, 20, 30, 40]]);
}
