//! `channel.open`, `close`, `flow`, `access.request`, and what a closed channel ignores.

use leveret_session::{Answer, Call, ChannelEnd, OpenRefusal, Promise, Settings};
use leveret_wire::{
    RawProperties,
    method::{Method, access, basic, channel, confirm, connection, queue, tx},
    value::LongString,
};

use crate::support::{
    Event, MISSING, Scenario, body_frame, declare, declare_ok, header_frame, key, method_frame,
    passive, publish_method, queue_id, raw_frame, short, tune_ok,
};

const NO_QUEUE: &str = "NOT_FOUND - no queue 'missing' in vhost '/'";
const SECOND_OPEN: &str = "CHANNEL_ERROR - second 'channel.open' seen";
const EXPECTED_OPEN: &str = "CHANNEL_ERROR - expected 'channel.open'";
const EXPECTED_HEADER: &str = "UNEXPECTED_FRAME - expected content header for class 60, got non content \
                               header frame instead";

fn close() -> channel::Close {
    channel::Close {
        reply_code: 200,
        ..channel::Close::default()
    }
}

#[test]
fn every_opening_of_a_number_is_another_channel() {
    let mut scenario = Scenario::open();
    for opening in 1..=3 {
        scenario.send(65_535, channel::Open::default());
        assert_eq!(scenario.the_call(), Call::OpenChannel(key(65_535, opening)));
        scenario.expect(
            65_535,
            channel::OpenOk {
                channel_id: LongString::empty(),
            },
        );
        scenario.send(65_535, close());
        let end = ChannelEnd {
            channel: key(65_535, opening),
            queues: vec![],
        };
        assert_eq!(scenario.the_call(), Call::CloseChannel(end));
        scenario.expect(65_535, channel::CloseOk {});
    }
}

#[test]
fn close_and_open_may_be_pipelined() {
    let mut scenario = Scenario::with_channel();
    let mut bytes = method_frame(1, close());
    bytes.extend_from_slice(&method_frame(1, channel::Open::default()));
    scenario.send_bytes(&bytes);
    scenario.expect(1, channel::CloseOk {});
    scenario.expect(1, channel::OpenOk::default());
}

#[test]
fn a_second_open_ends_the_connection() {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, channel::Open::default());
    scenario.expect_connection_close(504, SECOND_OPEN, (20, 10));
}

#[test]
fn a_method_on_a_channel_that_is_not_open_ends_the_connection() {
    let methods: [Method; 5] = [
        declare("q").into(),
        basic::Ack::default().into(),
        close().into(),
        channel::CloseOk {}.into(),
        connection::Open::default().into(),
    ];
    for method in methods {
        let ids = method.ids();
        let mut scenario = Scenario::with_channel();
        scenario.send(9, method);
        scenario.expect_connection_close(504, EXPECTED_OPEN, (ids.0.get(), ids.1.get()));
    }
}

#[test]
fn a_content_on_a_channel_that_is_not_open_is_read_to_its_end() {
    let methods: [Method; 4] = [
        publish_method("", "q").into(),
        basic::Return::default().into(),
        basic::Deliver::default().into(),
        basic::GetOk::default().into(),
    ];
    for method in methods {
        let ids = method.ids();
        let ids = (ids.0.get(), ids.1.get());
        let mut scenario = Scenario::with_channel();
        scenario.send(9, method.clone());
        scenario.expect_nothing();
        scenario.send_bytes(&header_frame(9, 1, &RawProperties::EMPTY));
        scenario.expect_nothing();
        scenario.send_bytes(&body_frame(9, b"x"));
        scenario.expect_connection_close(504, EXPECTED_OPEN, ids);

        let mut scenario = Scenario::with_channel();
        scenario.send(9, method);
        scenario.send(9, channel::Open::default());
        scenario.expect_connection_close(505, EXPECTED_HEADER, ids);
    }
}

#[test]
fn a_method_after_close_ok_ends_the_connection() {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, close());
    scenario.expect(1, channel::CloseOk {});
    scenario.send(1, declare("q"));
    scenario.expect_connection_close(504, EXPECTED_OPEN, (50, 10));
}

#[test]
fn only_as_many_channels_as_agreed_are_open_at_once() {
    const TOO_MANY: &str =
        "NOT_ALLOWED - number of channels opened (3) has reached the negotiated channel_max (3)";
    let open_three = || {
        let mut scenario = Scenario::open_with(Settings::default(), tune_ok(3, 131_072, 0));
        for channel in [1, 2, 1000] {
            scenario.open_channel(channel);
        }
        scenario
    };
    let mut scenario = open_three();
    scenario.send(3, channel::Open::default());
    scenario.expect_connection_close(530, TOO_MANY, (0, 0));

    let mut scenario = open_three();
    scenario.send_bytes(&body_frame(3, b"x"));
    scenario.expect_connection_close(530, TOO_MANY, (0, 0));

    let mut scenario = open_three();
    scenario.send(2, close());
    scenario.expect(2, channel::CloseOk {});
    scenario.open_channel(3);
}

#[test]
fn a_limit_of_the_broker_ends_the_connection() {
    let mut scenario = Scenario::open();
    let refusal = OpenRefusal::UserChannels {
        user: short("U"),
        max: 1,
    };
    scenario.answer_next(Answer::OpenRefused(refusal));
    scenario.send(1, channel::Open::default());
    let text = "NOT_ALLOWED - number of channels opened for user 'U' has reached the maximum allowed \
                user limit of 1";
    scenario.expect_connection_close(530, text, (0, 0));
}

#[test]
fn a_refusal_closes_the_channel_and_no_other() {
    let mut scenario = Scenario::with_channels(2);
    scenario.consume(1, "q", "t", false);
    scenario.send(1, passive(MISSING));
    let events = scenario.events();
    let end = ChannelEnd {
        channel: key(1, 1),
        queues: vec![queue_id("q")],
    };
    assert_eq!(events.last(), Some(&Event::Call(Call::CloseChannel(end))));
    scenario.expect_channel_close(1, 404, NO_QUEUE, (50, 10));
    scenario.send(2, declare("q"));
    scenario.expect(2, declare_ok("q"));
    scenario.open_channel(1);
}

#[test]
fn everything_is_ignored_between_the_brokers_close_and_close_ok() {
    let mut scenario = Scenario::with_channel();
    let mut bytes = method_frame(1, passive(MISSING));
    let ignored: [Method; 7] = [
        declare("q").into(),
        basic::Ack::default().into(),
        tx::Commit {}.into(),
        channel::Flow { active: false }.into(),
        confirm::Select { nowait: false }.into(),
        connection::Open::default().into(),
        basic::QosOk {}.into(),
    ];
    for method in ignored {
        bytes.extend_from_slice(&method_frame(1, method));
    }
    for body in [&b""[..], &[1; 10_000]] {
        let publish = crate::support::publish_frames(1, MISSING, "", &Default::default(), body);
        bytes.extend_from_slice(&publish);
    }
    scenario.send_bytes(&bytes);
    scenario.expect_unanswered_channel_close(1, 404, NO_QUEUE, (50, 10));
    scenario.expect_nothing();
    assert_eq!(scenario.events().len(), 2, "the declare and the close");
    scenario.send(1, declare("q"));
    scenario.send(1, channel::CloseOk {});
    assert_eq!(scenario.events(), []);
    scenario.expect_nothing();
    scenario.open_channel(1);
}

#[test]
fn what_cannot_be_read_is_no_less_wrong_on_a_closed_channel() {
    let closed = || {
        let mut scenario = Scenario::with_channel();
        scenario.send(1, passive(MISSING));
        scenario.expect_unanswered_channel_close(1, 404, NO_QUEUE, (50, 10));
        scenario
    };
    let mut scenario = closed();
    scenario.send_bytes(&raw_frame(1, 1, b"\x00\x32\x00\x0a\x00\x00"));
    scenario.expect_connection_close(501, "FRAME_ERROR - cannot decode <<0,0>>", (50, 10));

    let mut scenario = closed();
    scenario.send_bytes(&body_frame(1, b"x"));
    let text = "UNEXPECTED_FRAME - expected method frame, got non method frame instead";
    scenario.expect_connection_close(505, text, (0, 0));

    let mut scenario = closed();
    scenario.send(1, publish_method("", ""));
    scenario.send(1, channel::Flow { active: true });
    let text = "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame \
                instead";
    scenario.expect_connection_close(505, text, (60, 40));
}

#[test]
fn open_before_close_ok_was_given_ends_the_connection() {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, passive(MISSING));
    scenario.expect_unanswered_channel_close(1, 404, NO_QUEUE, (50, 10));
    scenario.send(1, channel::Open::default());
    scenario.expect_connection_close(504, SECOND_OPEN, (20, 10));
}

#[test]
fn crossing_closes_need_both_answers() {
    let crossed = || {
        let mut scenario = Scenario::with_channel();
        let mut bytes = method_frame(1, passive(MISSING));
        bytes.extend_from_slice(&method_frame(1, close()));
        scenario.send_bytes(&bytes);
        scenario.expect_unanswered_channel_close(1, 404, NO_QUEUE, (50, 10));
        scenario.expect(1, channel::CloseOk {});
        scenario
    };
    let mut scenario = crossed();
    scenario.send(1, channel::Open::default());
    scenario.expect_connection_close(504, SECOND_OPEN, (20, 10));

    let mut scenario = crossed();
    scenario.send(1, channel::CloseOk {});
    scenario.open_channel(1);
}

#[test]
fn close_ok_that_nobody_asked_for_ends_the_connection() {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, channel::CloseOk {});
    scenario.expect_connection_close(503, "COMMAND_INVALID - unimplemented method", (20, 41));
}

#[test]
fn a_content_that_stops_at_a_close_is_forgotten() {
    let mut scenario = Scenario::with_channels(2);
    scenario.send(1, publish_method("", "q"));
    scenario.send_bytes(&header_frame(1, 100, &Default::default()));
    scenario.send_bytes(&body_frame(1, &[0; 50]));
    scenario.send(1, close());
    let text = "UNEXPECTED_FRAME - expected content body, got non content body frame instead";
    scenario.expect_connection_close(505, text, (60, 40));
}

#[test]
fn a_reopened_channel_remembers_nothing() {
    let mut scenario = Scenario::with_channel();
    scenario.consume(1, "q", "t", false);
    scenario.send(1, declare("q"));
    scenario.expect(1, declare_ok("q"));
    scenario.send(1, confirm::Select { nowait: true });
    scenario.send(1, close());
    scenario.expect(1, channel::CloseOk {});
    scenario.open_channel(1);
    scenario.forget();
    let consumer = scenario.consume(1, "q", "t", false);
    assert_eq!((consumer.channel, consumer.number), (key(1, 2), 1));
    assert!(scenario.deliver(consumer, "q", 1, b"x"));
    let (_, Method::Basic(basic::Basic::Deliver(deliver))) = scenario.next_method() else {
        panic!("no delivery");
    };
    assert_eq!(deliver.delivery_tag.get(), 1);
    scenario.forget();
    scenario.publish(1, "", "q", b"x");
    assert_eq!(scenario.the_publish().promise, Promise::Nothing);
    scenario.send(1, queue::Purge::default());
    scenario.expect_channel_close(1, 404, "NOT_FOUND - no previously declared queue", (50, 30));
}

#[test]
fn flow_is_answered_and_silence_is_not_to_be_had() {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, channel::Flow { active: true });
    scenario.expect(1, channel::FlowOk { active: true });
    scenario.send(1, channel::Flow { active: false });
    scenario.expect_connection_close(540, "NOT_IMPLEMENTED - active=false", (20, 20));
}

#[test]
fn access_request_gets_ticket_1() {
    let mut scenario = Scenario::with_channel();
    scenario.send(
        1,
        access::Request {
            realm: short("/data"),
            ..access::Request::default()
        },
    );
    scenario.expect(1, access::RequestOk { ticket: 1 });
}
