//! Frames are found however the bytes arrive, and bad ones are refused in RabbitMQ's words.

use bytes::{BufMut, Bytes, BytesMut};
use leveret_wire::frame::{body_payload_max, put_frame_header};
use leveret_wire::{
    ChannelId, FRAME_END, Frame, FrameError, FrameKind, basic, next_frame, octets_text,
    put_body_frames, put_heartbeat, take_whole_frames, wanted,
};

mod support;
use support::{hex, method_frame, unhex};

const PAYLOAD_MAX: usize = 8192;

type Read = (FrameKind, ChannelId, Vec<u8>);

/// Feeds pieces as they come from a socket and collects what is found.
fn read(pieces: &[&[u8]], payload_max: usize) -> Result<Vec<Read>, FrameError> {
    let mut buf = BytesMut::new();
    let mut frames = Vec::new();
    for piece in pieces {
        buf.put_slice(piece);
        let chunk = take_whole_frames(&mut buf, payload_max);
        let mut at = 0;
        while let Some(frame) = next_frame(&chunk, &mut at, payload_max)? {
            frames.push((frame.kind, frame.channel, frame.payload.to_vec()));
        }
        assert_eq!(at, chunk.len());
    }
    Ok(frames)
}

#[track_caller]
fn expect_refused(octets: &[u8], text: &str) {
    expect_refused_above(octets, PAYLOAD_MAX, text);
}

/// The octets are refused with this text, also when they come one by one.
#[track_caller]
fn expect_refused_above(octets: &[u8], payload_max: usize, text: &str) {
    let error = read(&[octets], payload_max).expect_err("a frame that cannot be read");
    assert_eq!(error.to_string(), text);
    let singly: Vec<&[u8]> = octets.chunks(1).collect();
    assert_eq!(read(&singly, payload_max), Err(error));
}

fn stream() -> Vec<u8> {
    let mut out = BytesMut::new();
    out.put_slice(&method_frame(&basic::Publish::default().into()));
    put_body_frames(&mut out, ChannelId::new(515), &[0xCE; 20], 17);
    put_heartbeat(&mut out);
    put_body_frames(&mut out, ChannelId::new(u16::MAX), b"end", 0);
    out.to_vec()
}

#[test]
fn a_stream_means_the_same_wherever_it_is_cut() {
    let stream = stream();
    let whole = read(&[&stream], PAYLOAD_MAX).unwrap();
    let shapes: Vec<_> = whole
        .iter()
        .map(|(kind, channel, payload)| (*kind, channel.get(), payload.len()))
        .collect();
    assert_eq!(
        shapes,
        [
            (FrameKind::Method, 1, 9),
            (FrameKind::Body, 515, 9),
            (FrameKind::Body, 515, 9),
            (FrameKind::Body, 515, 2),
            (FrameKind::Heartbeat, 0, 0),
            (FrameKind::Body, 65535, 3),
        ]
    );
    for cut in 0..=stream.len() {
        let (start, end) = stream.split_at(cut);
        assert_eq!(
            read(&[start, end], PAYLOAD_MAX).as_ref(),
            Ok(&whole),
            "cut at {cut}"
        );
    }
    let singly: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(read(&singly, PAYLOAD_MAX), Ok(whole));
}

#[test]
fn an_incomplete_frame_stays_in_the_buffer_and_names_what_it_lacks() {
    let stream = hex("03 0001 00000003  616263 ce");
    for there in 0..stream.len() {
        let mut buf = BytesMut::from(&stream[..there]);
        assert!(take_whole_frames(&mut buf, PAYLOAD_MAX).is_empty());
        assert_eq!(buf.len(), there);
        let missing = if there < 7 {
            7 - there
        } else {
            stream.len() - there
        };
        assert_eq!(wanted(&buf, PAYLOAD_MAX), missing);
    }
    // Of a frame that is refused anyway nothing is wanted, least of all four gigabytes.
    assert_eq!(wanted(&hex("03 0001 ffffffff"), PAYLOAD_MAX), 0);
}

#[test]
fn the_payload_of_a_frame_is_a_part_of_the_chunk() {
    let mut buf = BytesMut::from(&stream()[..]);
    let chunk = take_whole_frames(&mut buf, PAYLOAD_MAX);
    let range = chunk.as_ptr_range();
    let mut at = 0;
    while let Some(frame) = next_frame(&chunk, &mut at, PAYLOAD_MAX).unwrap() {
        assert!(range.contains(&frame.payload.as_ptr()));
    }
}

#[test]
fn a_payload_may_reach_the_limit_and_not_beyond() {
    let mut out = BytesMut::new();
    put_body_frames(&mut out, ChannelId::new(1), &[7; 64], 0);
    assert_eq!(read(&[&out], 64).unwrap().len(), 1);
    // RabbitMQ names a limit eight below the one it keeps.
    let text = "type 3, all octets = <<>>: {frame_too_large,64,55}";
    expect_refused_above(&out, 63, text);
    // The header is enough.
    expect_refused_above(&out[..7], 63, text);
    expect_refused(
        &hex("4d 0001 ffffffff"),
        "type 77, all octets = <<>>: {frame_too_large,4294967295,8184}",
    );
}

#[test]
fn the_limit_may_grow_within_a_chunk_that_was_taken_with_the_largest() {
    let mut out = BytesMut::new();
    put_heartbeat(&mut out);
    put_body_frames(&mut out, ChannelId::new(1), &[7; 20_000], 0);
    let chunk = take_whole_frames(&mut out, 131_072);
    let mut at = 0;
    assert!(next_frame(&chunk, &mut at, PAYLOAD_MAX).unwrap().is_some());
    // What the client sends behind connection.open is measured by what it agreed to.
    let refused = next_frame(&chunk, &mut at, PAYLOAD_MAX).unwrap_err();
    assert_eq!(
        refused,
        FrameError::TooLarge {
            kind: 3,
            len: 20_000,
            payload_max: PAYLOAD_MAX
        }
    );
    assert!(next_frame(&chunk, &mut at, 131_072).unwrap().is_some());
    assert_eq!(at, chunk.len());
}

#[test]
fn frames_in_front_of_a_bad_one_are_read_first() {
    let mut octets = stream();
    let good = read(&[&octets], PAYLOAD_MAX).unwrap().len();
    octets.extend(hex("03 0001 00002001"));
    octets.extend(stream());
    let mut buf = BytesMut::from(&octets[..]);
    let chunk = take_whole_frames(&mut buf, PAYLOAD_MAX);
    let mut at = 0;
    for _ in 0..good {
        assert!(next_frame(&chunk, &mut at, PAYLOAD_MAX).unwrap().is_some());
    }
    let error = next_frame(&chunk, &mut at, PAYLOAD_MAX).unwrap_err();
    assert_eq!(
        error,
        FrameError::TooLarge {
            kind: 3,
            len: 8193,
            payload_max: PAYLOAD_MAX
        }
    );
}

#[test]
fn a_payload_ends_with_the_end_octet() {
    expect_refused(
        &hex("03 0001 00000000  00"),
        "type 3, all octets = <<>>: {invalid_frame_end_marker,0}",
    );
    expect_refused(
        &hex("01 0001 00000006  003c00280000  cd"),
        "type 1, all octets = <<0,60,0,40,0,0>>: {invalid_frame_end_marker,205}",
    );
    // Where the text reaches the eightieth column it is broken.
    expect_refused(
        &hex("01 0001 00000010  003c00280102030405060708090a0b0c  cd"),
        "type 1, all octets = <<0,60,0,40,1,2,3,4,5,6,7,8,9,10,11,12>>: \
         {invalid_frame_end_marker,\n\
         \x20                                                               205}",
    );
}

#[test]
fn a_frame_of_unknown_kind_is_quoted() {
    expect_refused(
        &hex("04 0001 00000000  ce"),
        "type 4, all octets = <<>>: unknown_frame",
    );
    expect_refused(
        &hex("04 0001 00000003  616263  ce"),
        "type 4, all octets = <<\"abc\">>: unknown_frame",
    );
    // Sixteen octets are all that is quoted and all that is awaited.
    expect_refused(
        &hex("00 0001 00000011  00010203 04050607 08090a0b 0c0d0e0f"),
        "type 0, first 16 octets = <<0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15>>: unknown_frame",
    );
}

#[test]
fn a_payload_that_its_kind_cannot_have_makes_the_kind_unknown() {
    expect_refused(
        &hex("01 0001 00000003  003c00  ce"),
        "type 1, all octets = <<0,60,0>>: unknown_frame",
    );
    expect_refused(
        &hex("02 0001 0000000b  003c0000 00000000000000  ce"),
        "type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0>>: unknown_frame",
    );
    expect_refused(
        &hex("08 0000 00000003  616263  ce"),
        "type 8, all octets = <<\"abc\">>: unknown_frame",
    );
}

#[test]
fn a_frame_out_of_order_is_described_as_by_rabbitmq() {
    let describe = |payload: &[u8]| {
        let kind = FrameKind::Body;
        Frame {
            kind,
            channel: ChannelId::CONNECTION,
            payload,
        }
        .unexpected_text()
    };
    assert_eq!(describe(b""), "type 3, all octets = <<>>");
    assert_eq!(describe(b"x"), "type 3, all octets = <<\"x\">>");
    assert_eq!(
        describe(&[200, 127].repeat(10)),
        "type 3, first 16 octets = <<200,127,200,127,200,127,200,127,200,127,200,127,\n\
         \x20                           200,127,200,127>>"
    );
}

#[test]
fn octets_print_as_erlang_prints_them() {
    assert_eq!(octets_text(b""), "<<>>");
    assert_eq!(octets_text(&[0, 60, 0, 10]), "<<0,60,0,10>>");
    assert_eq!(
        octets_text(b"a \"quoted\" \\ line\n"),
        r#"<<"a \"quoted\" \\ line\n">>"#
    );
    assert_eq!(octets_text("hé".as_bytes()), "<<\"hé\"/utf8>>");
    assert_eq!(octets_text(&[0xE9, b'A']), "<<\"éA\">>");
    assert_eq!(octets_text(&[b'a', 127]), "<<97,127>>");
    assert_eq!(octets_text("\u{fffe}".as_bytes()), "<<239,191,190>>");
}

#[test]
fn bodies_are_cut_to_the_agreed_size() {
    let body: Vec<u8> = (0..100).collect();
    let mut out = BytesMut::new();
    put_body_frames(&mut out, ChannelId::new(1), &body, 28);
    let frames = read(&[&out], 20).unwrap();
    let lengths: Vec<_> = frames.iter().map(|(_, _, payload)| payload.len()).collect();
    assert_eq!(lengths, [20; 5]);
    assert_eq!(
        frames
            .into_iter()
            .flat_map(|(_, _, payload)| payload)
            .collect::<Vec<_>>(),
        body
    );

    let mut nothing = BytesMut::new();
    put_body_frames(&mut nothing, ChannelId::new(1), b"", 28);
    assert!(nothing.is_empty(), "an empty body has no frame");
    assert_eq!(body_payload_max(131_072), 131_064);
    assert_eq!(body_payload_max(0), usize::MAX);
}

#[test]
fn a_large_body_can_be_sent_in_pieces_without_copying() {
    let body = Bytes::from(vec![7; 100]);
    let mut copied = BytesMut::new();
    put_body_frames(&mut copied, ChannelId::new(1), &body, 0);

    let mut pieced = BytesMut::new();
    put_frame_header(&mut pieced, FrameKind::Body, ChannelId::new(1), body.len());
    pieced.put_slice(&body);
    pieced.put_u8(FRAME_END);
    assert_eq!(unhex(&pieced), unhex(&copied));
}
