//! What is checked of a publish, in which order, and what of it reaches the broker.

use leveret_session::{Answer, Settings};
use leveret_wire::{
    BasicProperties, PROTOCOL_HEADER, RawProperties,
    content::BODY_SIZE_MAX,
    method::basic,
    value::{FieldTable, FieldValue},
};

use crate::support::{
    CAPABILITIES, MISSING, Scenario, body_frame, header_frame, method_frame, open_vhost,
    publish_frames, publish_method, raw_frame, short, start_ok, tune_ok,
};

fn headers(key: &'static str, value: FieldValue) -> BasicProperties {
    BasicProperties {
        headers: Some(FieldTable::new().with(key, value)),
        ..BasicProperties::default()
    }
}

fn expiration(text: &str) -> BasicProperties {
    BasicProperties {
        expiration: Some(short(text)),
        ..BasicProperties::default()
    }
}

fn user_id(name: &str) -> BasicProperties {
    BasicProperties {
        user_id: Some(short(name)),
        ..BasicProperties::default()
    }
}

#[test]
fn while_publishers_are_to_wait_a_message_waits_for_its_body() {
    let mut scenario = Scenario::with_channel();
    scenario.hold_publishers(true);
    let mut bytes = publish_frames(1, "", "one", &RawProperties::EMPTY, b"body");
    bytes.extend_from_slice(&publish_frames(1, "", "two", &RawProperties::EMPTY, b""));
    scenario.send_bytes(&bytes);
    assert_eq!(scenario.events(), []);
    assert!(scenario.connection.take_held());

    scenario.hold_publishers(false);
    assert_eq!(scenario.events().len(), 2);
    assert!(!scenario.connection.take_held());
}

#[test]
fn sc21_no_more_is_taken_of_a_read_than_is_staged_at_once() {
    let mut scenario = Scenario::with_channel();
    scenario.sink.publishes_max = Some(2);
    let mut bytes = Vec::new();
    for body in [&b""[..], b"body"].into_iter().cycle().take(7) {
        bytes.extend_from_slice(&publish_frames(1, "", "k", &RawProperties::EMPTY, body));
    }
    scenario.send_bytes(&bytes);
    assert_eq!(scenario.events().len(), 7, "all of it is worked through");
    assert_eq!(scenario.sink.submits, 3, "two publishes at a time");
}

#[test]
fn a_message_without_a_body_is_taken_before_its_publisher_waits() {
    let mut scenario = Scenario::with_channel();
    scenario.hold_publishers(true);
    scenario.publish(1, "", "one", b"");
    assert_eq!(scenario.events().len(), 1);
    assert!(scenario.connection.take_held());
}

#[test]
fn other_methods_go_on_while_publishers_are_to_wait() {
    let mut scenario = Scenario::open();
    scenario.hold_publishers(true);
    scenario.open_channel(1);
    assert!(!scenario.connection.take_held());
}

#[test]
fn an_expiration_is_passed_on_as_a_plain_number() {
    for (sent, passed_on) in [
        ("+60", "60"),
        ("0060", "60"),
        ("-0", "0"),
        ("00", "0"),
        ("0", "0"),
    ] {
        let mut scenario = Scenario::with_channel();
        let mut bytes = method_frame(1, publish_method("x", "k"));
        bytes.extend_from_slice(&header_frame(1, 0, &expiration(sent).encode()));
        scenario.send_bytes(&bytes);
        let publish = scenario.the_publish();
        assert_eq!(publish.properties, expiration(passed_on).encode(), "{sent}");
    }
}

#[test]
fn what_the_broker_acts_on_is_read_and_the_rest_passed_on() {
    let routing = FieldTable::new()
        .with("CC", FieldValue::Array(vec![FieldValue::text("a")]))
        .with("other", FieldValue::Int(1));
    let properties = BasicProperties {
        headers: Some(routing),
        delivery_mode: Some(2),
        priority: Some(7),
        expiration: Some(short("60000")),
        user_id: Some(short("guest")),
        message_id: Some(short("m")),
        ..BasicProperties::default()
    }
    .encode();
    let mut scenario = Scenario::with_channel();
    let publish = basic::Publish {
        mandatory: true,
        ..publish_method("x", "k")
    };
    let mut bytes = method_frame(1, publish);
    bytes.extend_from_slice(&header_frame(1, 4, &properties));
    bytes.extend_from_slice(&body_frame(1, b"body"));
    scenario.send_bytes(&bytes);
    let publish = scenario.the_publish();
    assert_eq!(
        (&publish.exchange, &publish.routing_key),
        (&short("x"), &short("k"))
    );
    assert!(publish.mandatory && publish.persistent);
    assert_eq!(publish.extra_keys, [short("a")]);
    assert_eq!(
        (publish.priority, publish.expiration_millis),
        (Some(7), Some(60_000))
    );
    assert_eq!(publish.properties, properties);
    let headers = publish.headers.expect("headers");
    let headers = FieldTable::decode_all(&headers).expect("a table");
    assert_eq!(headers.get(b"other"), Some(&FieldValue::Int(1)));
    assert_eq!(publish.body, "body");
}

#[test]
fn nothing_set_means_nothing_set() {
    let mut scenario = Scenario::with_channel();
    scenario.publish(1, "", "", b"");
    let publish = scenario.the_publish();
    assert!(!publish.mandatory && !publish.persistent && publish.extra_keys.is_empty());
    assert_eq!(
        (publish.priority, publish.expiration_millis, publish.headers),
        (None, None, None)
    );
    assert!(publish.body.is_empty());
}

#[test]
fn a_missing_exchange_closes_the_channel_and_what_follows_is_ignored() {
    let mut scenario = Scenario::with_channel();
    let mut bytes = publish_frames(1, MISSING, "k", &RawProperties::EMPTY, b"x");
    bytes.extend_from_slice(&publish_frames(1, "", "k", &RawProperties::EMPTY, b"x"));
    scenario.send_bytes(&bytes);
    let text = "NOT_FOUND - no exchange 'missing' in vhost '/'";
    scenario.expect_channel_close(1, 404, text, (60, 40));
    assert_eq!(scenario.events().len(), 1, "the close alone");
}

#[test]
fn immediate_is_not_implemented() {
    let mut scenario = Scenario::with_channel();
    let publish = basic::Publish {
        immediate: true,
        ..publish_method(MISSING, "k")
    };
    let mut bytes = method_frame(1, publish);
    bytes.extend_from_slice(&header_frame(1, 0, &expiration("x").encode()));
    scenario.send_bytes(&bytes);
    scenario.expect_connection_close(540, "NOT_IMPLEMENTED - immediate=true", (60, 40));
}

#[test]
fn bad_properties_close_the_channel_with_rabbitmqs_words() {
    let cases = [
        (expiration("abc"), "invalid expiration 'abc': no_integer"),
        (expiration(""), "invalid expiration '': no_integer"),
        (
            expiration("-1"),
            "invalid expiration '-1': {value_negative,-1}",
        ),
        (
            expiration("1.5"),
            "invalid expiration '1.5': {leftover_string,\".5\"}",
        ),
        (
            expiration("315360000001"),
            "invalid expiration '315360000001': {value_too_large,315360000001}",
        ),
        (
            headers("CC", FieldValue::text("x")),
            "invalid message: {unacceptable_type_in_header,\"CC\",longstr}",
        ),
        (
            headers("BCC", FieldValue::Void),
            "invalid message: {unacceptable_type_in_header,\"BCC\",void}",
        ),
        (
            user_id("other"),
            "user_id property set to 'other' but authenticated user was 'guest'",
        ),
        (
            user_id(""),
            "user_id property set to '' but authenticated user was 'guest'",
        ),
        (
            BasicProperties {
                reply_to: Some(short("amq.rabbitmq.reply-to")),
                ..BasicProperties::default()
            },
            "fast reply consumer does not exist",
        ),
    ];
    for (properties, text) in cases {
        let mut scenario = Scenario::with_channel();
        scenario.publish_with(1, "", &properties.encode());
        let text = format!("PRECONDITION_FAILED - {text}");
        scenario.expect_channel_close(1, 406, &text, (60, 40));
        // A missing exchange is found first.
        let mut scenario = Scenario::with_channel();
        scenario.publish_with(1, MISSING, &properties.encode());
        let text = "NOT_FOUND - no exchange 'missing' in vhost '/'";
        scenario.expect_channel_close(1, 404, text, (60, 40));
    }
}

#[test]
fn the_first_of_several_faults_counts() {
    let cc = headers("CC", FieldValue::Int(1)).headers;
    let all = BasicProperties {
        headers: cc,
        reply_to: Some(short("amq.rabbitmq.reply-to")),
        expiration: Some(short("x")),
        user_id: Some(short("other")),
        ..BasicProperties::default()
    };
    let no_reply = BasicProperties {
        reply_to: None,
        ..all.clone()
    };
    let no_expiration = BasicProperties {
        expiration: None,
        ..no_reply.clone()
    };
    let only_user = BasicProperties {
        headers: None,
        ..no_expiration.clone()
    };
    for (properties, start) in [
        (all, "PRECONDITION_FAILED - fast reply"),
        (no_reply, "PRECONDITION_FAILED - invalid expiration"),
        (no_expiration, "PRECONDITION_FAILED - invalid message"),
        (only_user, "PRECONDITION_FAILED - user_id"),
    ] {
        let mut scenario = Scenario::with_channel();
        scenario.publish_with(1, "", &properties.encode());
        let leveret_wire::Method::Channel(leveret_wire::channel::Channel::Close(close)) =
            scenario.next_method().1
        else {
            panic!("no close");
        };
        assert!(close.reply_text.to_string().starts_with(start), "{close:?}");
    }
}

#[test]
fn an_impersonator_may_be_anybody() {
    let mut scenario = Scenario::accepted();
    scenario.answer_next(Answer::LoggedIn {
        user: short("guest"),
        impersonator: true,
    });
    scenario.send_bytes(&PROTOCOL_HEADER);
    scenario.send(0, start_ok("PLAIN", b"\0guest\0guest", &CAPABILITIES));
    scenario.send(0, tune_ok(9, 8192, 0));
    scenario.send(0, open_vhost("/"));
    scenario.forget();
    scenario.open_channel(1);
    scenario.forget();
    scenario.publish_with(1, "", &user_id("other").encode());
    scenario.the_publish();
}

#[test]
fn properties_that_cannot_be_read_end_the_connection() {
    for (properties, text) in [
        (
            &b"\x80\x00"[..],
            "cannot decode content properties: a value reaches beyond its end",
        ),
        (
            b"\x80\x00\x05ab",
            "cannot decode content properties: a value reaches beyond its end",
        ),
        (
            b"\x00\x00x",
            "cannot decode content properties: bytes are left behind the last value",
        ),
        (
            b"\x20\x00\x00\x00\x00\x05\x03oddZ",
            "cannot decode content properties: unknown field table type Z",
        ),
        (
            b"\x00\x01\x00\x00",
            "content header with a second word of property flags",
        ),
    ] {
        let mut scenario = Scenario::with_channel();
        scenario.send(1, publish_method("", "q"));
        let mut payload = b"\0\x3c\0\0\0\0\0\0\0\0\0\0".to_vec();
        payload.extend_from_slice(properties);
        scenario.send_bytes(&raw_frame(2, 1, &payload));
        scenario.expect_connection_close(501, &format!("FRAME_ERROR - {text}"), (60, 40));
    }
}

#[test]
fn a_body_above_the_maximum_is_read_to_its_end_and_then_refused() {
    let settings = Settings {
        message_size_max: 1000,
        ..Settings::default()
    };
    let mut scenario = Scenario::open_with(settings, tune_ok(9, 131_072, 0));
    scenario.open_channel(1);
    scenario.forget();
    scenario.publish(1, "", "q", &[1; 1000]);
    assert_eq!(scenario.the_publish().body.len(), 1000);
    scenario.send(1, publish_method(MISSING, "q"));
    scenario.send_bytes(&header_frame(1, 1001, &RawProperties::EMPTY));
    scenario.send_bytes(&body_frame(1, &[1; 1000]));
    scenario.expect_nothing();
    scenario.send_bytes(&body_frame(1, &[1; 1]));
    let text = "PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000";
    scenario.expect_channel_close(1, 406, text, (60, 40));
}

#[test]
fn a_body_that_nobody_could_take_is_refused_at_its_header() {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, publish_method("", "q"));
    scenario.send_bytes(&header_frame(1, BODY_SIZE_MAX + 1, &RawProperties::EMPTY));
    let text = "FRAME_ERROR - content body size 536870913 exceeds maximum allowed size 536870912";
    scenario.expect_connection_close(501, text, (60, 40));
}

#[test]
fn names_of_a_publish_need_not_be_utf_8() {
    let mut scenario = Scenario::with_channel();
    let mut publish = publish_method("", "");
    publish.routing_key = leveret_wire::ShortString::try_from(&b"\xff\xfe"[..]).expect("short");
    scenario.send(1, publish);
    scenario.send_bytes(&header_frame(1, 0, &RawProperties::EMPTY));
    assert_eq!(scenario.the_publish().routing_key.as_bytes(), b"\xff\xfe");
}
