//! Frames and methods that cannot be read.

use bytes::{BufMut, BytesMut};
use leveret_session::{CloseHow, Settings};
use leveret_wire::{
    RawProperties,
    method::{channel, queue},
};

use crate::support::{
    Scenario, body_frame, declare, header_frame, method_frame, publish_method, raw_frame, tune_ok,
};

#[track_caller]
fn expect_last_words(scenario: &mut Scenario, text: &str) {
    scenario.expect_unanswered_connection_close(501, text, (0, 0));
    assert_eq!(
        scenario.close,
        Some(CloseHow::Linger {
            until: scenario.now.plus(3000)
        })
    );
}

#[test]
fn a_payload_of_frame_max_bytes_is_taken_and_one_more_is_not() {
    for frame_max in [4096, 8192, 131_072] {
        let agreed = || {
            let mut scenario = Scenario::open_with(Settings::default(), tune_ok(9, frame_max, 0));
            scenario.open_channel(1);
            scenario.forget();
            scenario.send(1, publish_method("", "q"));
            scenario
        };
        let size = frame_max as usize;
        let mut scenario = agreed();
        scenario.send_bytes(&header_frame(1, size as u64, &RawProperties::EMPTY));
        scenario.send_bytes(&body_frame(1, &vec![1; size]));
        assert_eq!(scenario.the_publish().body.len(), size);

        let mut scenario = agreed();
        scenario.send_bytes(&header_frame(1, size as u64 + 1, &RawProperties::EMPTY));
        let mut frame_header = BytesMut::new();
        frame_header.put_slice(&[3, 0, 1]);
        frame_header.put_u32(frame_max + 1);
        scenario.send_bytes(&frame_header);
        let text = format!(
            "FRAME_ERROR - type 3, all octets = <<>>: {{frame_too_large,{},{}}}",
            size + 1,
            size - 8
        );
        expect_last_words(&mut scenario, &text);
    }
}

#[test]
fn unknown_kinds_of_frames_are_fatal() {
    for (frame, text) in [
        (
            raw_frame(4, 0, b"abc"),
            "type 4, all octets = <<\"abc\">>: unknown_frame",
        ),
        (
            raw_frame(0, 1, b"abc"),
            "type 0, all octets = <<\"abc\">>: unknown_frame",
        ),
        (
            raw_frame(8, 0, b"x"),
            "type 8, all octets = <<\"x\">>: unknown_frame",
        ),
        (
            raw_frame(255, 0, &[1; 20]),
            "type 255, first 16 octets = <<1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1>>: unknown_frame",
        ),
    ] {
        let mut scenario = Scenario::with_channel();
        scenario.send_bytes(&frame);
        let (_, close) = scenario.next_method();
        let leveret_wire::Method::Connection(leveret_wire::connection::Connection::Close(close)) =
            close
        else {
            panic!("no close");
        };
        let told = close.reply_text.to_string().replace(['\n', ' '], "");
        assert_eq!(told, format!("FRAME_ERROR - {text}").replace(' ', ""));
        // Its end can be found, and so could the close-ok behind it, which `next_method` sends.
        assert_eq!(scenario.close, Some(CloseHow::Now));
    }
}

#[test]
fn a_heartbeat_on_a_channel_is_an_unexpected_frame() {
    let mut scenario = Scenario::with_channel();
    scenario.send_bytes(&raw_frame(8, 1, b""));
    let text = "UNEXPECTED_FRAME - type 8, all octets = <<>>";
    scenario.expect_connection_close(505, text, (0, 0));
}

#[test]
fn methods_that_do_not_fit_their_payload_are_quoted() {
    for (payload, text, ids) in [
        (
            &b"\x00\x32\x00\x0a\x00\x00"[..],
            "cannot decode <<0,0>>",
            (50, 10),
        ),
        (
            b"\x00\x14\x00\x14\x01\x00\x01",
            "cannot decode <<1,0,1>>",
            (20, 20),
        ),
        (b"\x00\x3c\x00\x0a", "cannot decode <<>>", (60, 10)),
    ] {
        let mut scenario = Scenario::with_channel();
        scenario.send_bytes(&raw_frame(1, 1, payload));
        scenario.expect_connection_close(501, &format!("FRAME_ERROR - {text}"), ids);
    }
}

#[test]
fn methods_nobody_knows_are_invalid() {
    for (payload, text, ids) in [
        (b"\x00\x3c\x00\x05", "unknown method 5 of class 60", (60, 5)),
        (
            b"\x00\x3d\x00\x0a",
            "unknown method 10 of class 61",
            (61, 10),
        ),
        (
            b"\xff\xff\xff\xff",
            "unknown method 65535 of class 65535",
            (65_535, 65_535),
        ),
    ] {
        let mut scenario = Scenario::with_channel();
        scenario.send_bytes(&raw_frame(1, 1, payload));
        scenario.expect_connection_close(503, &format!("COMMAND_INVALID - {text}"), ids);
    }
}

#[test]
fn names_in_methods_have_to_be_utf_8() {
    let mut scenario = Scenario::with_channel();
    let mut bytes = method_frame(1, declare("qq"));
    let at = bytes
        .windows(2)
        .position(|pair| pair == b"qq")
        .expect("the name");
    bytes[at] = 0xff;
    scenario.send_bytes(&bytes);
    scenario.expect_connection_close(501, "FRAME_ERROR - Malformed UTF-8 in shortstr", (0, 0));
}

#[test]
fn an_unknown_letter_in_arguments_ends_the_connection() {
    let mut scenario = Scenario::with_channel();
    scenario.send_bytes(&raw_frame(
        1,
        1,
        b"\x00\x32\x00\x0a\0\0\x01q\0\0\0\0\x05\x03oddZ",
    ));
    let text = "FRAME_ERROR - cannot decode field table: unknown field table type Z";
    scenario.expect_connection_close(501, text, (50, 10));
}

#[test]
fn half_a_frame_holds_nothing_back_that_came_before_it() {
    let mut scenario = Scenario::with_channel();
    let flow = method_frame(1, channel::Flow { active: true });
    let mut bytes = flow.clone();
    bytes.extend_from_slice(&flow[..flow.len() - 1]);
    scenario.send_bytes(&bytes);
    scenario.expect(1, channel::FlowOk { active: true });
    scenario.expect_nothing();
    scenario.send_bytes(&flow[flow.len() - 1..]);
    scenario.expect(1, channel::FlowOk { active: true });
}

#[test]
fn an_idle_input_keeps_no_buffer() {
    let mut scenario = Scenario::with_channel();
    scenario.send_bytes(&method_frame(1, declare("q"))[..5]);
    assert!(!scenario.input.is_idle());
    scenario.input.release_idle_capacity();
    scenario.send_bytes(&method_frame(1, declare("q"))[5..]);
    let (_, answer) = scenario.next_method();
    assert_eq!(answer, queue_declare_ok());
    assert!(scenario.input.is_idle());
    scenario.input.release_idle_capacity();
    assert_eq!(scenario.input.buffer_mut().capacity(), 0);
}

fn queue_declare_ok() -> leveret_wire::Method {
    let queue::DeclareOk {
        queue,
        message_count,
        consumer_count,
    } = crate::support::declare_ok("q");
    queue::DeclareOk {
        queue,
        message_count,
        consumer_count,
    }
    .into()
}
