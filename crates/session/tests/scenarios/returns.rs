//! `basic.return`: a mandatory message that no queue takes.

use bytes::BytesMut;
use leveret_session::{Promise, Settings};
use leveret_wire::{
    RawProperties,
    method::{basic, channel, confirm},
};

use crate::support::{
    NOBODY, Scenario, body_frame, header_frame, key, method_frame, publish_method, short, tune_ok,
};

fn mandatory(channel: u16, body: &[u8]) -> BytesMut {
    let publish = basic::Publish {
        mandatory: true,
        ..publish_method("x", NOBODY)
    };
    let mut bytes = method_frame(channel, publish);
    let size = body.len() as u64;
    bytes.extend_from_slice(&header_frame(channel, size, &RawProperties::EMPTY));
    for part in body.chunks(100_000) {
        bytes.extend_from_slice(&body_frame(channel, part));
    }
    bytes
}

fn returned() -> basic::Return {
    basic::Return {
        reply_code: 312,
        reply_text: short("NO_ROUTE"),
        exchange: short("x"),
        routing_key: short(NOBODY),
    }
}

#[test]
fn a_message_comes_back_before_the_answers_to_what_followed() {
    let mut scenario = Scenario::with_channel();
    let mut bytes = mandatory(1, b"body");
    bytes.extend_from_slice(&method_frame(1, channel::Flow { active: true }));
    bytes.extend_from_slice(&mandatory(1, b""));
    scenario.send_bytes(&bytes);
    scenario.expect(1, returned());
    scenario.expect_body(1, b"body");
    scenario.expect(1, channel::FlowOk { active: true });
    scenario.expect(1, returned());
    scenario.expect_body(1, b"");
    scenario.expect_nothing();
}

#[test]
fn without_mandatory_nothing_comes_back() {
    let mut scenario = Scenario::with_channel();
    scenario.publish(1, "x", NOBODY, b"body");
    scenario.expect_nothing();
    scenario.the_publish();
}

#[test]
fn the_return_stands_before_the_confirm() {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, confirm::Select { nowait: true });
    scenario.send_bytes(&mandatory(1, b"body"));
    assert_eq!(scenario.the_publish().promise, Promise::Confirm(1));
    scenario.outgoing.expect_confirm(key(1, 1), 1, 0);
    scenario.turn();
    scenario.expect(1, returned());
    scenario.expect_body(1, b"body");
    scenario.expect(
        1,
        basic::Ack {
            delivery_tag: 1.into(),
            multiple: false,
        },
    );
}

#[test]
fn a_returned_body_is_cut_to_the_agreed_frames() {
    let body: Vec<u8> = (0..250_000).map(|at| at as u8).collect();
    let mut scenario = Scenario::open_with(Settings::default(), tune_ok(9, 131_072, 0));
    scenario.open_channel(1);
    scenario.send_bytes(&mandatory(1, &body));
    scenario.expect(1, returned());
    scenario.expect_body(1, &body);
}
