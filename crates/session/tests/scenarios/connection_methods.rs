//! Methods on channel 0 of an open connection, and how connections end.

use leveret_session::{Answer, Call, ChannelEnd, CloseHow, EndReason, OpenRefusal, Settings, Tick};
use leveret_wire::{
    ids::{ClassId, MethodId},
    method::{Method, basic, channel, connection},
    reply_code::ReplyCode,
    value::LongString,
};

use crate::support::{
    Scenario, declare, key, method_frame, publish_method, queue_id, raw_frame, raw_frame_with_end,
    short, tune_ok,
};

const UNEXPECTED: &str = "CHANNEL_ERROR - unexpected method in connection state running";

fn close() -> connection::Close {
    connection::Close {
        reply_code: 200,
        ..connection::Close::default()
    }
}

#[test]
fn methods_that_do_not_belong_on_channel_0_end_the_connection() {
    for definition in Method::definitions() {
        if ["connection.close", "connection.update-secret"].contains(&definition.name) {
            continue;
        }
        let mut payload = definition.class_id.to_be_bytes().to_vec();
        payload.extend_from_slice(&definition.method_id.to_be_bytes());
        let mut is_bit_open = false;
        for argument in definition.arguments {
            let is_bit = argument.domain == "bit";
            let len = match argument.domain {
                "bit" if is_bit_open => 0,
                "bit" | "octet" | "shortstr" => 1,
                "short" => 2,
                "long" | "longstr" | "table" => 4,
                "longlong" | "timestamp" => 8,
                other => panic!("{other}?"),
            };
            payload.resize(payload.len() + len, 0);
            is_bit_open = is_bit;
        }
        let mut scenario = Scenario::with_channel();
        scenario.send_bytes(&raw_frame(1, 0, &payload));
        let ids = (definition.class_id, definition.method_id);
        scenario.expect_connection_close(504, UNEXPECTED, ids);
    }
}

#[test]
fn content_on_channel_0_is_an_unexpected_frame() {
    let mut scenario = Scenario::open();
    scenario.send_bytes(&raw_frame(3, 0, b"x"));
    let text = "UNEXPECTED_FRAME - type 3, all octets = <<\"x\">>";
    scenario.expect_connection_close(505, text, (0, 0));

    let mut scenario = Scenario::open();
    scenario.send_bytes(&raw_frame(2, 0, b"\0\x3c\0\0\0\0\0\0\0\0\0\0\0\0"));
    let text = "UNEXPECTED_FRAME - type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,0,0,0>>";
    scenario.expect_connection_close(505, text, (0, 0));
}

#[test]
fn connection_methods_do_not_belong_on_a_channel() {
    let methods: [Method; 3] = [
        close().into(),
        connection::CloseOk {}.into(),
        connection::UpdateSecret::default().into(),
    ];
    for method in methods {
        let (class, id) = method.ids();
        let mut scenario = Scenario::with_channel();
        scenario.send(1, method);
        let text = "COMMAND_INVALID - unimplemented method";
        scenario.expect_connection_close(503, text, (class.get(), id.get()));
    }
}

#[test]
fn a_new_secret_is_taken_or_ends_the_connection() {
    let update = connection::UpdateSecret {
        new_secret: LongString::from_static("another"),
        reason: short("because"),
    };
    let mut scenario = Scenario::open();
    scenario.send(0, update.clone());
    let Call::UpdateSecret { secret } = scenario.the_call() else {
        panic!("no secret")
    };
    assert_eq!(secret.expose(), b"another");
    scenario.expect(0, connection::UpdateSecretOk {});
    scenario.answer_next(Answer::OpenRefused(OpenRefusal::NewSecret));
    scenario.send(0, update);
    let text = "NOT_ALLOWED - New secret was refused by one of the backends";
    scenario.expect_connection_close(530, text, (10, 70));
}

#[test]
fn a_close_is_answered_when_everything_was_released() {
    let mut scenario = Scenario::with_channels(3);
    scenario.consume(1, "q", "t", false);
    scenario.consume(3, "q", "t", false);
    scenario.consume(3, "r", "u", false);
    scenario.forget();
    scenario.is_holding_answers = true;
    scenario.send(0, close());
    let mut queues = vec![queue_id("q"), queue_id("r")];
    queues.sort_unstable();
    let channels = vec![
        ChannelEnd {
            channel: key(1, 1),
            queues: vec![queue_id("q")],
        },
        ChannelEnd {
            channel: key(2, 2),
            queues: vec![],
        },
        ChannelEnd {
            channel: key(3, 3),
            queues,
        },
    ];
    assert_eq!(scenario.connection.open_channels(), channels);
    assert_eq!(scenario.the_call(), Call::CloseConnection { channels });
    scenario.expect_nothing();
    scenario.answer(Answer::Done);
    scenario.expect(0, connection::CloseOk {});
    assert_eq!(scenario.connection.open_channels(), []);
    assert_eq!(scenario.close, None, "the client ends the socket");
}

#[test]
fn after_close_ok_only_another_close_is_answered() {
    let mut scenario = Scenario::with_channel();
    let mut bytes = method_frame(0, close());
    bytes.extend_from_slice(&method_frame(1, declare("q")));
    bytes.extend_from_slice(&method_frame(1, publish_method("", "q")));
    bytes.extend_from_slice(&method_frame(0, close()));
    scenario.send_bytes(&bytes);
    scenario.expect(0, connection::CloseOk {});
    scenario.expect(0, connection::CloseOk {});
    scenario.expect_nothing();
    assert_eq!(scenario.events().len(), 1, "nothing but the close");
    assert_eq!(scenario.advance(29_999), Tick::Wait);
    assert_eq!(scenario.advance(1), Tick::Close(EndReason::Close));
}

#[test]
fn the_wait_for_the_client_is_a_short_heartbeat_at_most() {
    for (heartbeat, wait) in [
        (0, 30_000),
        (5, 5000),
        (29, 29_000),
        (30, 30_000),
        (600, 30_000),
    ] {
        let tune_ok = tune_ok(2047, 131_072, heartbeat);
        let mut scenario = Scenario::open_with(Settings::default(), tune_ok);
        scenario.send(0, close());
        assert_eq!(
            scenario.connection.next_deadline(),
            Some(scenario.now.plus(wait))
        );
        let mut scenario = Scenario::open_with(Settings::default(), tune_ok_again(heartbeat));
        scenario.send(0, channel::Open::default());
        assert_eq!(
            scenario.connection.next_deadline(),
            Some(scenario.now.plus(wait))
        );
    }
}

fn tune_ok_again(heartbeat: u16) -> connection::TuneOk {
    tune_ok(2047, 131_072, heartbeat)
}

#[test]
fn after_our_close_only_closes_are_looked_at() {
    let mut scenario = Scenario::with_channel();
    scenario.send(0, channel::Open::default());
    scenario.expect_unanswered_connection_close(504, UNEXPECTED, (20, 10));
    scenario.forget();
    let mut bytes = method_frame(1, declare("q"));
    bytes.extend_from_slice(&method_frame(5, channel::Open::default()));
    bytes.extend_from_slice(&raw_frame(1, 1, b"\xff\xff\xff\xff"));
    bytes.extend_from_slice(&raw_frame(3, 0, b"x"));
    scenario.send_bytes(&bytes);
    scenario.expect_nothing();
    assert_eq!(scenario.events(), []);
    scenario.send(0, connection::CloseOk {});
    assert_eq!(scenario.close, Some(CloseHow::Now));
}

#[test]
fn crossing_closes_are_both_answered() {
    let mut scenario = Scenario::open();
    let mut bytes = method_frame(0, channel::Open::default());
    bytes.extend_from_slice(&method_frame(0, close()));
    scenario.send_bytes(&bytes);
    scenario.expect_unanswered_connection_close(504, UNEXPECTED, (20, 10));
    scenario.expect(0, connection::CloseOk {});
    assert_eq!(scenario.close, None);
    scenario.send(0, connection::CloseOk {});
    assert_eq!(scenario.close, Some(CloseHow::Now));
}

#[test]
fn a_framing_fault_is_told_and_nothing_more_is_read() {
    let mut scenario = Scenario::with_channel();
    scenario.consume(1, "q", "t", false);
    scenario.forget();
    scenario.send_bytes(&raw_frame_with_end(1, 1, b"\x00\x14\x00\x14\x01", 205));
    let channels = vec![ChannelEnd {
        channel: key(1, 1),
        queues: vec![queue_id("q")],
    }];
    assert_eq!(scenario.the_call(), Call::CloseConnection { channels });
    let Method::Connection(connection::Connection::Close(close)) = scenario.next_method().1 else {
        panic!("no close");
    };
    assert_eq!((close.reply_code, close.class_id), (501, ClassId::new(0)));
    assert_eq!(close.method_id, MethodId::new(0));
    assert!(close.reply_text.to_str().expect("text").starts_with(
        "FRAME_ERROR - type 1, all octets = <<0,20,0,20,1>>: {invalid_frame_end_marker,"
    ));
    assert_eq!(
        scenario.close,
        Some(CloseHow::Linger {
            until: scenario.now.plus(3000)
        })
    );
    assert_eq!(
        scenario.connection.next_deadline(),
        Some(scenario.now.plus(3000))
    );
}

#[test]
fn the_server_can_end_a_connection_for_its_own_reasons() {
    let mut scenario = Scenario::with_channel();
    scenario.connection.force_close(
        ReplyCode::ConnectionForced,
        "broker forced connection closure with reason 'shutdown'",
    );
    scenario.turn();
    let channels = vec![ChannelEnd {
        channel: key(1, 1),
        queues: vec![],
    }];
    assert_eq!(scenario.the_call(), Call::CloseConnection { channels });
    let text = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'";
    scenario.expect_connection_close(320, text, (0, 0));
}

#[test]
fn the_end_waits_for_the_answer_that_is_due() {
    let mut scenario = Scenario::with_channel();
    scenario.is_holding_answers = true;
    scenario.send(
        1,
        basic::Get {
            queue: short("q"),
            ..basic::Get::default()
        },
    );
    scenario
        .connection
        .force_close(ReplyCode::ConnectionForced, "bye");
    scenario
        .connection
        .force_close(ReplyCode::ConnectionForced, "the first reason counts");
    scenario.turn();
    scenario.expect_nothing();
    scenario.is_holding_answers = false;
    scenario.answer(Answer::GetEmpty);
    scenario.expect(1, basic::GetEmpty::default());
    scenario.expect_connection_close(320, "CONNECTION_FORCED - bye", (0, 0));
}

#[test]
fn the_end_does_not_wait_for_a_call_that_is_given_up() {
    let mut scenario = Scenario::with_channel();
    scenario.is_holding_answers = true;
    scenario.send(
        1,
        basic::Get {
            queue: short("q"),
            ..basic::Get::default()
        },
    );
    scenario.expect_nothing();
    scenario
        .connection
        .force_close(ReplyCode::ConnectionForced, "bye");
    scenario.connection.give_up_call();
    scenario.held = None;
    scenario.is_holding_answers = false;
    scenario.turn();
    scenario.expect_connection_close(320, "CONNECTION_FORCED - bye", (0, 0));
}

#[test]
fn a_handshake_is_ended_without_a_word() {
    let mut scenario = Scenario::accepted();
    scenario
        .connection
        .force_close(ReplyCode::ConnectionForced, "bye");
    scenario.turn();
    scenario.expect_nothing();
    assert_eq!(scenario.close, Some(CloseHow::Now));
}

#[test]
fn a_connection_that_ends_anyway_is_not_closed_again() {
    let mut scenario = Scenario::open();
    scenario.send(0, close());
    scenario.expect(0, connection::CloseOk {});
    scenario.forget();
    scenario
        .connection
        .force_close(ReplyCode::ConnectionForced, "bye");
    scenario.turn();
    scenario.expect_nothing();
    assert_eq!(scenario.events(), []);
}
