//! The first eight bytes.

use crate::support::{Scenario, Seen};
use leveret_session::{CloseHow, EndReason, Tick};
use leveret_wire::{
    PROTOCOL_HEADER,
    method::{Method, connection},
};

#[test]
fn the_header_is_answered_by_start_once_it_is_whole() {
    for header in [&PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09"] {
        let mut scenario = Scenario::accepted();
        for octet in &header[..7] {
            scenario.send_bytes(&[*octet]);
            scenario.expect_nothing();
        }
        scenario.send_bytes(&header[7..]);
        let (channel, start) = scenario.next_method();
        assert_eq!(channel, 0);
        assert!(matches!(
            start,
            Method::Connection(connection::Connection::Start(_))
        ));
        scenario.expect_nothing();
        assert_eq!(scenario.close, None);
    }
}

#[test]
fn any_other_header_gets_ours_and_the_end() {
    for header in [
        b"AMQP\x00\x00\x09\x00",
        b"AMQP\x03\x01\x00\x00",
        b"amqp\x00\x00\x09\x01",
        b"GET / HT",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        &[0; 8],
    ] {
        let mut scenario = Scenario::accepted();
        scenario.send_bytes(&[&header[..], &PROTOCOL_HEADER, b"and more"].concat());
        assert_eq!(
            scenario.next(),
            Some(Seen::Raw(PROTOCOL_HEADER.to_vec().into()))
        );
        scenario.expect_nothing();
        assert_eq!(scenario.close, Some(CloseHow::Now));
        assert_eq!(scenario.connection.next_deadline(), None);
    }
}

#[test]
fn a_handshake_that_stands_still_is_dropped_after_ten_seconds() {
    for sent in [
        &PROTOCOL_HEADER[..0],
        &PROTOCOL_HEADER[..7],
        &PROTOCOL_HEADER,
    ] {
        let mut scenario = Scenario::accepted();
        scenario.send_bytes(sent);
        scenario.forget();
        assert_eq!(scenario.advance(9999), Tick::Wait);
        assert_eq!(
            scenario.connection.next_deadline(),
            Some(scenario.now.plus(1))
        );
        assert_eq!(scenario.advance(1), Tick::Close(EndReason::Handshake));
        scenario.expect_nothing();
    }
}
