//! `connection.start`, `start-ok` and the mechanisms.

use crate::support::{
    CAPABILITIES, Scenario, method_frame, open_vhost, raw_frame, short, start_ok, tune_ok,
};
use bytes::BufMut;
use leveret_session::{Answer, Call, EndReason, Mechanism, OpenRefusal, Settings, Tick};
use leveret_wire::{
    PROTOCOL_HEADER,
    method::{Method, channel, connection},
    value::{FieldTable, FieldValue, LongString},
};

const LOGIN_REFUSED: &str = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. \
                             For details see the broker logfile.";

fn tune() -> connection::Tune {
    connection::Tune {
        channel_max: 2047,
        frame_max: 131_072,
        heartbeat: 60,
    }
}

fn started() -> Scenario {
    let mut scenario = Scenario::accepted();
    scenario.send_bytes(&PROTOCOL_HEADER);
    scenario.forget();
    scenario
}

fn tuned() -> Scenario {
    let mut scenario = started();
    scenario.send(0, start_ok("PLAIN", b"\0guest\0guest", &CAPABILITIES));
    scenario.send(0, tune_ok(2047, 131_072, 0));
    scenario.forget();
    scenario
}

#[test]
fn start_says_what_rabbitmq_says() {
    let mut scenario = Scenario::accepted();
    scenario.send_bytes(&PROTOCOL_HEADER);
    let (_, Method::Connection(connection::Connection::Start(start))) = scenario.next_method()
    else {
        panic!("no start");
    };
    assert_eq!((start.version_major, start.version_minor), (0, 9));
    assert_eq!(start.mechanisms.as_bytes(), b"PLAIN ANONYMOUS AMQPLAIN");
    assert_eq!(start.locales.as_bytes(), b"en_US");
    let keys: Vec<_> = start
        .server_properties
        .iter()
        .map(|(key, _)| key.to_string())
        .collect();
    assert_eq!(
        keys,
        [
            "capabilities",
            "cluster_name",
            "copyright",
            "information",
            "platform",
            "product",
            "version"
        ]
    );
    let value = |key: &str| start.server_properties.get(key.as_bytes()).cloned();
    assert_eq!(value("product"), Some(FieldValue::text("RabbitMQ")));
    assert_eq!(value("version"), Some(FieldValue::text("4.3.6")));
    let capabilities = value("capabilities").expect("capabilities");
    let capabilities = capabilities.as_table().expect("a table");
    assert_eq!(capabilities.len(), 9);
    assert!(
        capabilities
            .iter()
            .all(|(_, value)| *value == FieldValue::Bool(true))
    );
}

#[test]
fn the_whole_handshake_may_come_at_once() {
    let mut bytes = bytes::BytesMut::from(&PROTOCOL_HEADER[..]);
    bytes.put_slice(&method_frame(
        0,
        start_ok("PLAIN", b"\0guest\0guest", &CAPABILITIES),
    ));
    bytes.put_slice(&method_frame(0, tune_ok(2047, 131_072, 0)));
    bytes.put_slice(&method_frame(0, open_vhost("/")));
    bytes.put_slice(&method_frame(1, channel::Open::default()));
    let mut scenario = Scenario::accepted();
    scenario.send_bytes(&bytes);
    scenario.next_method();
    scenario.expect(0, tune());
    scenario.expect(0, connection::OpenOk::default());
    scenario.expect(1, channel::OpenOk::default());
    assert_eq!(scenario.connection.next_deadline(), None);
}

#[test]
fn frames_that_are_too_large_for_a_handshake_may_follow_it_in_one_write() {
    let mut scenario = tuned();
    let mut bytes = method_frame(0, open_vhost("/"));
    bytes.put_slice(&method_frame(1, channel::Open::default()));
    bytes.put_slice(&crate::support::publish_frames(
        1,
        "",
        "q",
        &Default::default(),
        &[1; 50_000],
    ));
    scenario.send_bytes(&bytes);
    scenario.expect(0, connection::OpenOk::default());
    scenario.expect(1, channel::OpenOk::default());
    assert!(matches!(scenario.events().as_slice(), [
        crate::support::Event::Call(Call::OpenVhost { .. }),
        crate::support::Event::Call(Call::OpenChannel(_)),
        crate::support::Event::Publish(publish),
    ] if publish.body.len() == 50_000));
}

#[test]
fn heartbeats_are_ignored_between_the_steps() {
    let mut scenario = started();
    let heartbeat = raw_frame(8, 0, b"");
    scenario.send_bytes(&heartbeat);
    scenario.send(0, start_ok("PLAIN", b"\0guest\0guest", &CAPABILITIES));
    scenario.send_bytes(&heartbeat);
    scenario.send(0, tune_ok(2047, 131_072, 0));
    scenario.send_bytes(&heartbeat);
    scenario.send(0, open_vhost("/"));
    assert!(scenario.connection.is_running());
}

#[test]
fn credentials_and_properties_reach_the_broker() {
    let mut scenario = started();
    let mut start_ok = start_ok("PLAIN", b"\0alice\0secret", &CAPABILITIES);
    start_ok
        .client_properties
        .push(short("connection_name"), FieldValue::text("mine"));
    scenario.answer_next(Answer::LoggedIn {
        user: short("alice"),
        impersonator: false,
    });
    scenario.send(0, start_ok);
    let Call::Login(login) = scenario.the_call() else {
        panic!("no login")
    };
    assert_eq!(login.mechanism, Mechanism::Plain);
    assert_eq!(login.user, "alice");
    assert_eq!(login.password.expose(), b"secret");
    assert_eq!(
        login.client_properties.get(b"connection_name"),
        Some(&FieldValue::text("mine"))
    );
    assert!(!format!("{login:?}").contains("secret"));
    assert!(!format!("{:?}", scenario.connection).contains("secret"));
    scenario.expect(0, tune());
}

#[test]
fn amqplain_is_a_table_without_its_length() {
    let table = b"\x05LOGINS\0\0\0\x05guest\x08PASSWORDx\0\0\0\x05guest";
    let mut scenario = started();
    scenario.send(0, start_ok("AMQPLAIN", table, &CAPABILITIES));
    scenario.expect(0, tune());
}

#[test]
fn anonymous_works_where_it_is_offered() {
    let mut scenario = Scenario::with_settings(Settings {
        mechanisms: vec![Mechanism::Plain, Mechanism::AmqPlain],
        ..Settings::default()
    });
    scenario.send_bytes(&PROTOCOL_HEADER);
    scenario.forget();
    scenario.send(0, start_ok("ANONYMOUS", b"whoever", &CAPABILITIES));
    scenario.expect_silent_drop();

    let mut scenario = started();
    scenario.answer_next(Answer::LoggedIn {
        user: short("guest"),
        impersonator: false,
    });
    scenario.send(0, start_ok("ANONYMOUS", b"whoever", &CAPABILITIES));
    let Call::Login(login) = scenario.the_call() else {
        panic!("no login")
    };
    assert_eq!(
        (login.mechanism, login.user),
        (Mechanism::Anonymous, short("guest"))
    );
    scenario.expect(0, tune());
}

/// Where a login of two rounds is offered and was begun.
fn asked_for_a_password() -> Scenario {
    let mut scenario = Scenario::with_settings(Settings {
        mechanisms: vec![Mechanism::Plain, Mechanism::CrDemo],
        ..Settings::default()
    });
    scenario.send_bytes(&PROTOCOL_HEADER);
    scenario.forget();
    scenario.send(0, start_ok("RABBIT-CR-DEMO", b"alice", &CAPABILITIES));
    let challenge = LongString::from_static("Please tell me your password");
    scenario.expect(0, connection::Secure { challenge });
    scenario
}

fn secure_ok(response: &'static str) -> connection::SecureOk {
    connection::SecureOk {
        response: LongString::from_static(response),
    }
}

#[test]
fn a_login_may_take_a_second_round() {
    let mut scenario = asked_for_a_password();
    scenario.answer_next(Answer::LoggedIn {
        user: short("alice"),
        impersonator: false,
    });
    scenario.send(0, secure_ok("My password is secret"));
    let Call::Login(login) = scenario.the_call() else {
        panic!("no login")
    };
    assert_eq!(
        (login.mechanism, login.user, login.password.expose()),
        (Mechanism::CrDemo, short("alice"), &b"secret"[..])
    );
    scenario.expect(0, tune());
}

#[test]
fn another_answer_to_the_second_round_is_a_silent_end() {
    let mut scenario = asked_for_a_password();
    scenario.send(0, secure_ok("secret"));
    scenario.expect_silent_drop();

    let mut scenario = asked_for_a_password();
    scenario.send(0, start_ok("PLAIN", b"\0guest\0guest", &CAPABILITIES));
    scenario.expect_silent_drop();

    let mut scenario = started();
    scenario.send(0, secure_ok("My password is secret"));
    scenario.expect_silent_drop();
}

#[test]
fn a_limit_of_no_channels_is_no_limit() {
    let settings = Settings {
        channel_max: 0,
        ..Settings::default()
    };
    let mut scenario = Scenario::open_with(settings, tune_ok(0, 131_072, 0));
    scenario.forget();
    for channel in [1, 65_535] {
        scenario.open_channel(channel);
    }
}

#[test]
fn a_refused_login_is_told_to_clients_that_can_take_it() {
    let mut scenario = started();
    scenario.send(0, start_ok("PLAIN", b"\0guest\0wrong", &CAPABILITIES));
    assert_eq!(
        scenario.connection.next_deadline(),
        Some(scenario.now.plus(3000))
    );
    scenario.expect_connection_close(403, LOGIN_REFUSED, (0, 0));
}

#[test]
fn a_refused_login_without_an_answer_ends_after_three_seconds() {
    let mut scenario = started();
    scenario.send(0, start_ok("PLAIN", b"\0guest\0wrong", &CAPABILITIES));
    scenario.expect_unanswered_connection_close(403, LOGIN_REFUSED, (0, 0));
    assert_eq!(scenario.advance(2999), Tick::Wait);
    assert_eq!(scenario.advance(1), Tick::Close(EndReason::Close));
}

#[test]
fn other_clients_see_silence_after_a_refused_login() {
    let mut scenario = started();
    scenario.send(0, start_ok("PLAIN", b"\0guest\0wrong", &[]));
    scenario.expect_silent_drop();

    let mut start_ok = start_ok("PLAIN", b"\0guest\0wrong", &[]);
    let capabilities =
        FieldTable::new().with("authentication_failure_close", FieldValue::text("true"));
    start_ok.client_properties =
        FieldTable::new().with("capabilities", FieldValue::Table(capabilities));
    let mut scenario = started();
    scenario.send(0, start_ok);
    scenario.expect_silent_drop();
}

#[test]
fn a_response_that_is_none_is_met_with_silence_and_asks_nobody() {
    for (mechanism, response) in [
        ("PLAIN", &b""[..]),
        ("PLAIN", b"guest\0guest\0guest"),
        ("PLAIN", b"\0guest"),
        ("AMQPLAIN", b"\0\0\0\x01x"),
        ("AMQPLAIN", b"\x05LOGINS\0\0\0\x05guest"),
        ("plain", b"\0guest\0guest"),
        ("EXTERNAL", b""),
        ("", b"\0guest\0guest"),
    ] {
        let mut scenario = started();
        scenario.send(0, start_ok(mechanism, response, &CAPABILITIES));
        scenario.expect_silent_drop();
        assert_eq!(scenario.events(), [], "{mechanism}");
    }
}

#[test]
fn nobody_has_a_name_of_more_than_255_bytes() {
    let mut scenario = started();
    let response = format!("\0{}\0guest", "x".repeat(256));
    scenario.send(0, start_ok("PLAIN", response.as_bytes(), &CAPABILITIES));
    assert_eq!(scenario.events(), []);
    scenario.expect_connection_close(403, LOGIN_REFUSED, (0, 0));
}

#[test]
fn anything_but_start_ok_is_met_with_silence() {
    let frames = [
        method_frame(0, tune_ok(2047, 131_072, 0)),
        method_frame(0, open_vhost("/")),
        method_frame(0, connection::Close::default()),
        method_frame(1, channel::Open::default()),
        raw_frame(2, 0, &[0; 14]),
        raw_frame(3, 0, b"x"),
        raw_frame(8, 1, b""),
        raw_frame(4, 0, b"x"),
        raw_frame(1, 0, b"\x00\x0a\x00\x0b\x00"),
        raw_frame(1, 0, b"\xff\xff\xff\xff"),
    ];
    for frame in frames {
        let mut scenario = started();
        scenario.send_bytes(&frame);
        scenario.expect_silent_drop();
        scenario.send(0, start_ok("PLAIN", b"\0guest\0guest", &CAPABILITIES));
        assert_eq!(scenario.events(), []);
    }
}

#[test]
fn a_frame_above_8192_bytes_is_refused_before_its_payload_has_come() {
    let mut scenario = started();
    scenario.send_bytes(&[1, 0, 0, 0, 0, 0x20]);
    scenario.expect_nothing();
    assert_eq!(scenario.close, None);
    scenario.send_bytes(&[0x01]);
    scenario.expect_silent_drop();
}

#[test]
fn tune_ok_must_stay_within_the_offer() {
    for (tune_ok, text) in [
        (
            tune_ok(2047, 4095, 60),
            "frame_max = 4095 is lower than the minimum allowed value (4096)",
        ),
        (
            tune_ok(2047, 131_073, 60),
            "frame_max = 131073 is higher than the maximum allowed value (131072)",
        ),
        (
            tune_ok(2047, 0, 60),
            "frame_max = 0 (no limit) is higher than the maximum allowed value (131072)",
        ),
        (
            tune_ok(0, 131_072, 60),
            "channel_max = 0 (no limit) is higher than the maximum allowed value (2047)",
        ),
        (
            tune_ok(2048, 131_072, 60),
            "channel_max = 2048 is higher than the maximum allowed value (2047)",
        ),
    ] {
        let mut scenario = started();
        scenario.send(0, start_ok("PLAIN", b"\0guest\0guest", &CAPABILITIES));
        scenario.expect(0, tune());
        scenario.send(0, tune_ok);
        scenario.expect_connection_close(
            530,
            &format!("NOT_ALLOWED - negotiated {text}"),
            (10, 31),
        );
    }
}

#[test]
fn a_small_offer_does_not_shrink_the_frames_of_the_handshake() {
    let settings = Settings {
        frame_max: 4096,
        ..Settings::default()
    };
    let mut scenario = Scenario::with_settings(settings);
    scenario.send_bytes(&PROTOCOL_HEADER);
    let mut start_ok = start_ok("PLAIN", b"\0guest\0guest", &CAPABILITIES);
    start_ok
        .client_properties
        .push(short("filler"), FieldValue::text("x".repeat(7000)));
    scenario.send(0, start_ok);
    scenario.send(0, tune_ok(9, 4096, 0));
    scenario.send(0, open_vhost("/"));
    assert!(scenario.connection.is_running());
}

#[test]
fn less_than_the_offer_is_fine() {
    for tune_ok in [
        tune_ok(1, 4096, 0),
        tune_ok(2047, 131_072, 65_535),
        tune_ok(2046, 8192, 61),
    ] {
        Scenario::open_with(Settings::default(), tune_ok);
    }
}

#[test]
fn a_vhost_that_is_missing_closes_the_connection() {
    for vhost in ["nope", "", "%2F"] {
        let mut scenario = tuned();
        scenario.send(0, open_vhost(vhost));
        scenario.expect_connection_close(
            530,
            &format!("NOT_ALLOWED - vhost {vhost} not found"),
            (10, 40),
        );
    }
}

#[test]
fn every_refusal_of_a_vhost_has_its_text() {
    let (vhost, user) = (short("V"), short("U"));
    let refusals = [
        (
            OpenRefusal::NoPermission {
                vhost: vhost.clone(),
                user: user.clone(),
            },
            (
                530,
                "NOT_ALLOWED - access to vhost 'V' refused for user 'U'",
            ),
        ),
        (
            OpenRefusal::VhostConnections {
                vhost: vhost.clone(),
                user: user.clone(),
                max: 5,
            },
            (
                530,
                "NOT_ALLOWED - access to vhost 'V' refused for user 'U': connection limit (5) is reached",
            ),
        ),
        (
            OpenRefusal::UserConnections {
                user: user.clone(),
                max: 5,
            },
            (
                530,
                "NOT_ALLOWED - connection refused for user 'U': user connection limit (5) is reached",
            ),
        ),
        (
            OpenRefusal::NodeConnections { max: 5 },
            (
                530,
                "NOT_ALLOWED - connection refused: node connection limit (5) is reached",
            ),
        ),
        (
            OpenRefusal::VhostDown { vhost, user },
            (
                541,
                "INTERNAL_ERROR - access to vhost 'V' refused for user 'U': vhost 'V' is down",
            ),
        ),
    ];
    for (refusal, (code, text)) in refusals {
        let mut scenario = tuned();
        scenario.answer_next(Answer::OpenRefused(refusal));
        scenario.send(0, open_vhost("V"));
        scenario.expect_connection_close(code, text, (10, 40));
    }
}

#[test]
fn another_method_instead_of_open_is_a_state_violation() {
    let text = "CHANNEL_ERROR - unexpected method in connection state opening";
    let methods: [(Method, (u16, u16)); 4] = [
        (connection::Close::default().into(), (10, 50)),
        (tune_ok(1, 8192, 0).into(), (10, 31)),
        (start_ok("PLAIN", b"", &[]).into(), (10, 11)),
        (channel::Open::default().into(), (20, 10)),
    ];
    for (method, ids) in methods {
        let mut scenario = tuned();
        scenario.send(0, method);
        scenario.expect_connection_close(504, text, ids);
    }
}

#[test]
fn a_channel_method_before_open_is_an_unexpected_frame() {
    let mut scenario = tuned();
    scenario.send(1, channel::Open::default());
    let text = "UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>";
    scenario.expect_connection_close(505, text, (0, 0));
}

#[test]
fn a_handshake_may_wait_for_its_answers_but_not_for_ever() {
    let mut scenario = started();
    scenario.is_holding_answers = true;
    scenario.send(0, start_ok("PLAIN", b"\0guest\0guest", &CAPABILITIES));
    scenario.send(0, tune_ok(2047, 131_072, 0));
    scenario.expect_nothing();
    assert_eq!(scenario.advance(9999), Tick::Wait);
    scenario.answer(Answer::LoggedIn {
        user: short("guest"),
        impersonator: false,
    });
    scenario.expect(0, tune());
    assert_eq!(scenario.advance(1), Tick::Close(EndReason::Handshake));
}
