//! `basic.get`.

use leveret_core::{ids::Seq, queue::Outcome};
use leveret_session::{Answer, Call, Get};
use leveret_wire::method::basic;

use crate::support::{MISSING, Scenario, at, key, message, method_frame, queue_id, short};

fn get(queue: &str, no_ack: bool) -> basic::Get {
    basic::Get {
        queue: short(queue),
        no_ack,
        ..basic::Get::default()
    }
}

fn got(seq: u64, body: &[u8]) -> Answer {
    Answer::Got {
        at: at("q", seq),
        redelivered: true,
        message: message("x", "k", body),
        remaining: 9,
    }
}

fn get_ok(tag: u64) -> basic::GetOk {
    basic::GetOk {
        delivery_tag: tag.into(),
        redelivered: true,
        exchange: short("x"),
        routing_key: short("k"),
        message_count: 9,
    }
}

#[test]
fn a_message_comes_with_the_next_tag_and_can_be_acked_at_once() {
    let mut scenario = Scenario::with_channel();
    scenario.answer_next(got(50, b"body"));
    let mut bytes = method_frame(1, get("q", false));
    bytes.extend_from_slice(&method_frame(
        1,
        basic::Ack {
            delivery_tag: 1.into(),
            multiple: false,
        },
    ));
    scenario.send_bytes(&bytes);
    scenario.expect(1, get_ok(1));
    scenario.expect_body(1, b"body");
    let events = scenario.events();
    let expected = Get {
        channel: key(1, 1),
        queue: short("q"),
        no_ack: false,
    };
    assert_eq!(
        events.first(),
        Some(&crate::support::Event::Call(Call::Get(expected)))
    );
    let crate::support::Event::Settle(settle) = events[1] else {
        panic!("no settle")
    };
    assert_eq!(
        (settle.at.seq, settle.outcome),
        (Seq::new(50), Outcome::Acked)
    );
}

#[test]
fn a_message_that_needs_no_ack_takes_a_tag_and_cannot_be_acked() {
    let mut scenario = Scenario::with_channel();
    scenario.answer_next(got(50, b""));
    scenario.send(1, get("q", true));
    scenario.expect(1, get_ok(1));
    scenario.expect_body(1, b"");
    scenario.answer_next(got(51, b""));
    scenario.send(1, get("q", false));
    scenario.expect(1, get_ok(2));
    scenario.expect_body(1, b"");
    scenario.send(
        1,
        basic::Ack {
            delivery_tag: 1.into(),
            multiple: false,
        },
    );
    scenario.expect_channel_close(
        1,
        406,
        "PRECONDITION_FAILED - unknown delivery tag 1",
        (60, 80),
    );
}

#[test]
fn an_empty_queue_is_told() {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, get("q", false));
    scenario.expect(1, basic::GetEmpty::default());
}

#[test]
fn a_missing_queue_closes_the_channel() {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, get(MISSING, false));
    let text = "NOT_FOUND - no queue 'missing' in vhost '/'";
    scenario.expect_channel_close(1, 404, text, (60, 70));
}

#[test]
fn what_was_got_goes_back_with_the_channel() {
    let mut scenario = Scenario::with_channel();
    scenario.answer_next(got(50, b""));
    let mut bytes = method_frame(1, get("q", false));
    bytes.extend_from_slice(&method_frame(1, leveret_wire::channel::Close::default()));
    scenario.send_bytes(&bytes);
    let Some(crate::support::Event::Call(Call::CloseChannel(end))) = scenario.events().pop() else {
        panic!("no close");
    };
    assert_eq!(end.queues, [queue_id("q")]);
}
