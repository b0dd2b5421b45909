//! Method, content header, body: what may follow what.

use bytes::BytesMut;
use leveret_wire::{
    RawProperties,
    method::{Method, basic, channel, confirm, exchange, queue, tx},
};

use crate::support::{
    Scenario, body_frame, header_frame, method_frame, publish_method, raw_frame, short,
};

const METHOD: &str = "UNEXPECTED_FRAME - expected method frame, got non method frame instead";
const HEADER: &str = "UNEXPECTED_FRAME - expected content header for class 60, got non content header \
                      frame instead";
const BODY: &str = "UNEXPECTED_FRAME - expected content body, got non content body frame instead";
const UNIMPLEMENTED: &str = "COMMAND_INVALID - unimplemented method";

fn publish() -> BytesMut {
    method_frame(1, publish_method("", "q"))
}

fn header(size: u64) -> BytesMut {
    header_frame(1, size, &RawProperties::EMPTY)
}

fn flow() -> BytesMut {
    method_frame(1, channel::Flow { active: true })
}

#[test]
fn the_first_frame_out_of_order_ends_the_connection() {
    let of_class = |class: u8, weight: u8| {
        raw_frame(2, 1, &[0, class, 0, weight, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0])
    };
    type Case = (Vec<BytesMut>, u16, &'static str, (u16, u16));
    let cases: [Case; 13] = [
        (vec![header(2)], 505, METHOD, (0, 0)),
        (vec![body_frame(1, b"x")], 505, METHOD, (0, 0)),
        (vec![publish(), flow()], 505, HEADER, (60, 40)),
        (vec![publish(), publish()], 505, HEADER, (60, 40)),
        (vec![publish(), body_frame(1, b"x")], 505, HEADER, (60, 40)),
        (
            vec![publish(), of_class(10, 0)],
            505,
            "UNEXPECTED_FRAME - expected content header for class 60, got one for class 10 instead",
            (60, 40),
        ),
        (vec![publish(), of_class(60, 1)], 505, HEADER, (60, 40)),
        (vec![publish(), header(2), flow()], 505, BODY, (60, 40)),
        (vec![publish(), header(2), header(2)], 505, BODY, (60, 40)),
        (
            vec![publish(), header(2), body_frame(1, b"x"), flow()],
            505,
            BODY,
            (60, 40),
        ),
        (
            vec![publish(), header(0), body_frame(1, b"")],
            505,
            METHOD,
            (0, 0),
        ),
        (
            vec![
                publish(),
                header(2),
                body_frame(1, b"xx"),
                body_frame(1, b"x"),
            ],
            505,
            METHOD,
            (0, 0),
        ),
        (
            vec![publish(), header(2), body_frame(1, b"xxx")],
            501,
            "FRAME_ERROR - content body frame exceeds remaining content size",
            (60, 40),
        ),
    ];
    for (frames, code, text, blamed) in cases {
        let mut scenario = Scenario::with_channel();
        scenario.send_bytes(&frames.concat());
        scenario.expect_connection_close(code, text, blamed);
    }
}

#[test]
fn order_is_checked_before_the_channel_is_known_to_be_closed() {
    for frame in [
        body_frame(9, b"x"),
        header_frame(9, 2, &RawProperties::EMPTY),
    ] {
        let mut scenario = Scenario::with_channel();
        scenario.send_bytes(&frame);
        scenario.expect_connection_close(505, METHOD, (0, 0));
    }
}

#[test]
fn a_body_may_come_in_any_number_of_frames() {
    let body: Vec<u8> = (0..=255).collect();
    for cut in [1, 2, 100, 255, 256] {
        let mut scenario = Scenario::with_channel();
        let mut bytes = publish();
        bytes.extend_from_slice(&header(256));
        for part in body.chunks(cut) {
            bytes.extend_from_slice(&body_frame(1, b""));
            bytes.extend_from_slice(&body_frame(1, part));
        }
        scenario.send_bytes(&bytes);
        assert_eq!(scenario.the_publish().body, body);
        // The same with every frame in a read of its own.
        scenario.send_bytes(&publish());
        scenario.send_bytes(&header(256));
        for part in body.chunks(cut) {
            scenario.send_bytes(&body_frame(1, part));
        }
        let publish = scenario.the_publish();
        assert_eq!(
            (publish.routing_key, &publish.body[..]),
            (short("q"), &body[..])
        );
    }
}

#[test]
fn contents_of_several_channels_may_interleave() {
    let mut scenario = Scenario::with_channels(3);
    let steps: [fn(u16) -> BytesMut; 4] = [
        |channel| method_frame(channel, publish_method("", &channel.to_string())),
        |channel| header_frame(channel, 2, &RawProperties::EMPTY),
        |channel| body_frame(channel, &[channel as u8]),
        |channel| body_frame(channel, &[channel as u8]),
    ];
    let mut bytes = BytesMut::new();
    for step in steps {
        for channel in [1, 2, 3] {
            bytes.extend_from_slice(&step(channel));
        }
        bytes.extend_from_slice(&raw_frame(8, 0, b""));
    }
    scenario.send_bytes(&bytes);
    let published: Vec<_> = scenario
        .events()
        .into_iter()
        .map(|event| match event {
            crate::support::Event::Publish(publish) => {
                (publish.routing_key.to_string(), publish.body.to_vec())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let expected: Vec<_> = (1..=3)
        .map(|channel: u8| (channel.to_string(), vec![channel; 2]))
        .collect();
    assert_eq!(published, expected);
}

fn contents_of_a_broker() -> [Method; 3] {
    [
        basic::Return::default().into(),
        basic::Deliver::default().into(),
        basic::GetOk::default().into(),
    ]
}

#[test]
fn contents_that_only_a_broker_sends_are_read_to_their_end() {
    for method in contents_of_a_broker() {
        let (class, id) = method.ids();
        let mut scenario = Scenario::with_channel();
        scenario.send(1, method);
        scenario.expect_nothing();
        scenario.send_bytes(&header(2));
        scenario.send_bytes(&body_frame(1, b"x"));
        scenario.expect_nothing();
        scenario.send_bytes(&body_frame(1, b"x"));
        scenario.expect_connection_close(503, UNIMPLEMENTED, (class.get(), id.get()));
    }
}

#[test]
fn contents_that_only_a_broker_sends_have_an_order_too() {
    for method in contents_of_a_broker() {
        let (class, id) = method.ids();
        let mut scenario = Scenario::with_channel();
        scenario.send(1, method);
        scenario.send_bytes(&flow());
        scenario.expect_connection_close(505, HEADER, (class.get(), id.get()));
    }
}

#[test]
fn methods_that_only_a_broker_sends_are_not_implemented() {
    let methods: [Method; 24] = [
        channel::OpenOk::default().into(),
        channel::FlowOk { active: true }.into(),
        exchange::DeclareOk {}.into(),
        exchange::DeleteOk {}.into(),
        exchange::BindOk {}.into(),
        exchange::UnbindOk {}.into(),
        queue::DeclareOk::default().into(),
        queue::BindOk {}.into(),
        queue::PurgeOk::default().into(),
        queue::DeleteOk::default().into(),
        queue::UnbindOk {}.into(),
        basic::QosOk {}.into(),
        basic::ConsumeOk::default().into(),
        basic::GetEmpty::default().into(),
        basic::RecoverOk {}.into(),
        basic::Credit::default().into(),
        basic::CreditOk::default().into(),
        basic::CreditDrained::default().into(),
        confirm::SelectOk {}.into(),
        tx::SelectOk {}.into(),
        tx::CommitOk {}.into(),
        tx::RollbackOk {}.into(),
        leveret_wire::access::RequestOk::default().into(),
        channel::CloseOk {}.into(),
    ];
    for method in methods {
        let (class, id) = method.ids();
        let mut scenario = Scenario::with_channel();
        scenario.send(1, method);
        scenario.expect_connection_close(503, UNIMPLEMENTED, (class.get(), id.get()));
    }
}

#[test]
fn cancel_ok_is_tolerated() {
    let mut scenario = Scenario::with_channel();
    scenario.send(
        1,
        basic::CancelOk {
            consumer_tag: short("t"),
        },
    );
    scenario.expect_nothing();
    assert_eq!(scenario.events(), []);
}
