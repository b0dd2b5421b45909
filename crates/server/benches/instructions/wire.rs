//! Octets to frames and back.

use std::hint::black_box;

use bytes::BytesMut;
use gungraun::library_benchmark;
use leveret_wire::{
    BasicProperties, ChannelId, ContentHeader, DeliveryTag, FieldTable, FieldValue, FrameKind,
    Method, RawProperties, ShortString, basic, next_frame, put_body_frames, put_content_header,
    put_deliver, put_method, take_whole_frames,
};

use crate::MESSAGES;

const CHANNEL: ChannelId = ChannelId::new(1);
const PAYLOAD_MAX: usize = 131_064;

/// One publish with its content, as a client sends it.
pub(crate) fn put_publish(
    out: &mut BytesMut,
    routing_key: &'static str,
    properties: &BasicProperties,
    body: &[u8],
) {
    let publish = basic::Publish {
        routing_key: ShortString::from_static(routing_key),
        ..basic::Publish::default()
    };
    put_method(out, CHANNEL, &publish.into());
    let raw = properties.encode();
    put_content_header(out, CHANNEL, body.len() as u64, raw.as_bytes());
    put_body_frames(out, CHANNEL, body, PAYLOAD_MAX);
}

fn publishes() -> BytesMut {
    let mut octets = BytesMut::new();
    for _ in 0..MESSAGES {
        put_publish(
            &mut octets,
            "work",
            &BasicProperties::default(),
            &[0x2A; 16],
        );
    }
    octets
}

#[library_benchmark]
#[bench::of_16_bytes(setup = publishes)]
fn decode_publishes(mut octets: BytesMut) -> usize {
    let chunk = take_whole_frames(&mut octets, PAYLOAD_MAX);
    let (mut at, mut found) = (0, 0);
    while let Some(frame) = next_frame(&chunk, &mut at, PAYLOAD_MAX).expect("good frames") {
        match frame.kind {
            FrameKind::Method => {
                black_box(Method::decode(&chunk, frame.payload).expect("a method"));
            }
            FrameKind::Header => {
                black_box(ContentHeader::decode(&chunk, frame.payload).expect("a header"));
            }
            FrameKind::Body => {
                black_box(frame.payload);
            }
            FrameKind::Heartbeat => {}
        }
        found += 1;
    }
    found
}

fn room() -> BytesMut {
    BytesMut::with_capacity(2 * 1024 * 1024)
}

#[library_benchmark]
#[bench::of_16_bytes(setup = room)]
fn encode_deliveries(mut out: BytesMut) -> BytesMut {
    for tag in 1..=MESSAGES {
        put_deliver(
            &mut out,
            CHANNEL,
            b"ctag1.0",
            DeliveryTag::new(tag),
            false,
            b"",
            b"work",
        );
        put_content_header(&mut out, CHANNEL, 16, &[0, 0]);
        put_body_frames(&mut out, CHANNEL, &[0x2A; 16], PAYLOAD_MAX);
    }
    out
}

/// As Celery sends them.
fn properties() -> RawProperties {
    let headers = FieldTable::new()
        .with("lang", FieldValue::text("py"))
        .with("task", FieldValue::text("tasks.add"))
        .with(
            "id",
            FieldValue::text("7a1c9f0e-0000-4000-8000-000000000001"),
        )
        .with("retries", FieldValue::Int(0));
    BasicProperties {
        content_type: Some(ShortString::from_static("application/json")),
        content_encoding: Some(ShortString::from_static("utf-8")),
        headers: Some(headers),
        delivery_mode: Some(2),
        priority: Some(0),
        correlation_id: Some(ShortString::from_static(
            "7a1c9f0e-0000-4000-8000-000000000001",
        )),
        ..BasicProperties::default()
    }
    .encode()
}

#[library_benchmark]
#[bench::of_celery(setup = properties)]
fn decode_properties(raw: RawProperties) {
    for _ in 0..MESSAGES {
        black_box(BasicProperties::decode(black_box(&raw)).expect("good properties"));
    }
}
