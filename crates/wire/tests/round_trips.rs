//! What this crate writes, it reads back to an equal value.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of a test unwrap as the test does"
)]

use bytes::{BufMut, Bytes, BytesMut};
use leveret_wire::{
    BasicProperties, ChannelId, ContentHeader, Decimal, DeliveryTag, FieldTable, FieldValue,
    FrameKind, Method, RawTable, ShortString, Timestamp, basic, next_frame, put_body_frames,
    put_content_header, put_deliver, put_method, take_whole_frames,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

mod support;

fn short_string() -> impl Strategy<Value = ShortString> {
    vec(any::<u8>(), 0..=255)
        .prop_map(|bytes| ShortString::try_from(Bytes::from(bytes)).expect("at most 255 bytes"))
}

fn name() -> impl Strategy<Value = ShortString> {
    "\\PC{0,40}".prop_map(|text| ShortString::cut(&text))
}

fn scalar() -> impl Strategy<Value = FieldValue> {
    let bytes = || vec(any::<u8>(), 0..40);
    prop_oneof![
        bytes().prop_map(FieldValue::text),
        bytes().prop_map(|bytes| FieldValue::Bytes(Bytes::from(bytes))),
        any::<bool>().prop_map(FieldValue::Bool),
        any::<i8>().prop_map(FieldValue::Byte),
        any::<u8>().prop_map(FieldValue::UnsignedByte),
        any::<i16>().prop_map(FieldValue::Short),
        any::<u16>().prop_map(FieldValue::UnsignedShort),
        any::<i32>().prop_map(FieldValue::Int),
        any::<u32>().prop_map(FieldValue::UnsignedInt),
        any::<i64>().prop_map(FieldValue::Long),
        any::<u32>().prop_map(|bits| FieldValue::Float(f32::from_bits(bits))),
        any::<u64>().prop_map(|bits| FieldValue::Double(f64::from_bits(bits))),
        any::<(u8, u32)>().prop_map(|(scale, value)| FieldValue::Decimal(Decimal { scale, value })),
        any::<u64>().prop_map(|secs| FieldValue::Timestamp(Timestamp(secs))),
        Just(FieldValue::Void),
    ]
}

fn value() -> impl Strategy<Value = FieldValue> {
    scalar().prop_recursive(4, 24, 6, |inner| {
        prop_oneof![
            vec((short_string(), inner.clone()), 0..6)
                .prop_map(|entries| FieldValue::Table(entries.into_iter().collect())),
            vec(inner, 0..6).prop_map(FieldValue::Array),
        ]
    })
}

fn table() -> impl Strategy<Value = FieldTable> {
    vec((name(), value()), 0..6).prop_map(|entries| entries.into_iter().collect())
}

fn properties() -> impl Strategy<Value = BasicProperties> {
    let short = || option::of(short_string());
    (
        (
            short(),
            short(),
            option::of(table()),
            any::<Option<u8>>(),
            any::<Option<u8>>(),
        ),
        (short(), short(), short(), short(), any::<Option<u64>>()),
        (short(), short(), short(), short()),
    )
        .prop_map(|(first, second, third)| BasicProperties {
            content_type: first.0,
            content_encoding: first.1,
            headers: first.2,
            delivery_mode: first.3,
            priority: first.4,
            correlation_id: second.0,
            reply_to: second.1,
            expiration: second.2,
            message_id: second.3,
            timestamp: second.4.map(Timestamp),
            kind: third.0,
            user_id: third.1,
            app_id: third.2,
            cluster_id: third.3,
        })
}

/// What an argument of any type is filled with.
#[derive(Debug, Clone)]
struct Filling {
    number: u64,
    name: ShortString,
    table: FieldTable,
}

fn filling() -> impl Strategy<Value = Filling> {
    (any::<u64>(), name(), table()).prop_map(|(number, name, table)| Filling {
        number,
        name,
        table,
    })
}

/// The payload of some method of the spec with the given arguments.
fn method_payload() -> impl Strategy<Value = Vec<u8>> {
    let definitions: Vec<_> = Method::definitions().collect();
    (prop::sample::select(definitions), vec(filling(), 9)).prop_map(|(definition, fillings)| {
        let mut out = BytesMut::new();
        out.put_u16(definition.class_id);
        out.put_u16(definition.method_id);
        let mut bits = 0;
        for (argument, filling) in definition.arguments.iter().zip(fillings) {
            if argument.domain != "bit" {
                bits = 0;
            }
            let number = filling.number.to_be_bytes();
            match argument.domain {
                "bit" => {
                    if bits == 0 {
                        out.put_u8(0);
                    }
                    *out.last_mut().unwrap() |= (number[7] & 1) << bits;
                    bits += 1;
                }
                "octet" => out.put_slice(&number[7..]),
                "short" => out.put_slice(&number[6..]),
                "long" => out.put_slice(&number[4..]),
                "longlong" => out.put_slice(&number),
                "shortstr" => {
                    out.put_u8(filling.name.len().try_into().unwrap());
                    out.put_slice(filling.name.as_bytes());
                }
                "longstr" => {
                    out.put_u32(filling.name.len().try_into().unwrap());
                    out.put_slice(filling.name.as_bytes());
                }
                "table" => filling.table.encode(&mut out),
                other => panic!("a type that no method has: {other}"),
            }
        }
        assert!(definition.arguments.len() <= 9);
        out.to_vec()
    })
}

proptest! {
    #[test]
    fn methods(payload in method_payload(), channel in any::<u16>()) {
        let method = support::decode(&payload).unwrap();
        let mut out = BytesMut::new();
        put_method(&mut out, ChannelId::new(channel), &method);
        let (chunk, kind, read_channel, read_payload) = support::only_frame(&out);
        prop_assert_eq!((kind, read_channel), (FrameKind::Method, ChannelId::new(channel)));
        prop_assert_eq!(&read_payload[..], &payload[..]);
        prop_assert_eq!(Method::decode(&chunk, &read_payload), Ok(method));
    }

    #[test]
    fn tables(table in table()) {
        let mut out = BytesMut::new();
        table.encode(&mut out);
        let (length, payload) = out.split_first_chunk().unwrap();
        prop_assert_eq!(usize::try_from(u32::from_be_bytes(*length)).unwrap(), payload.len());
        prop_assert_eq!(RawTable::new(payload).check(), Ok(()));
        let payload = Bytes::copy_from_slice(payload);
        let read = FieldTable::decode_all(&payload).unwrap();
        prop_assert_eq!(&read, &table);
        prop_assert_eq!(read.detach(), table);
    }

    #[test]
    fn tables_with_their_keys_in_another_order(
        entries in prop::collection::btree_map("[a-z]{1,3}", value(), 0..8),
    ) {
        let entry = |(key, value): (&String, &FieldValue)| {
            (ShortString::try_from(key.as_str()).unwrap(), value.clone())
        };
        let forward: FieldTable = entries.iter().map(entry).collect();
        let backward: FieldTable = entries.iter().rev().map(entry).collect();
        prop_assert_eq!(forward.canonical_bytes(), backward.canonical_bytes());
    }

    #[test]
    fn content_headers(properties in properties(), body_size in 0_u64..=536_870_912) {
        let raw = properties.encode();
        let mut out = BytesMut::new();
        put_content_header(&mut out, ChannelId::new(1), body_size, raw.as_bytes());
        let (chunk, kind, _, payload) = support::only_frame(&out);
        prop_assert_eq!(kind, FrameKind::Header);
        let header = ContentHeader::decode(&chunk, &payload).unwrap();
        prop_assert_eq!(header.body_size, body_size);
        prop_assert_eq!(&header.properties, &raw);
        let scan = header.properties.scan().unwrap();
        prop_assert_eq!(scan.user_id, properties.user_id.as_ref().map(ShortString::as_bytes));
        prop_assert_eq!(scan.headers.is_some(), properties.headers.is_some());
        prop_assert_eq!(BasicProperties::decode(&header.properties), Ok(properties));
    }

    #[test]
    fn bodies_cut_into_frames_and_read_in_pieces(
        body in vec(any::<u8>(), 0..400),
        frame_max in 9_usize..60,
        pieces in vec(1_usize..30, 1..60),
    ) {
        let mut stream = BytesMut::new();
        put_body_frames(&mut stream, ChannelId::new(3), &body, frame_max);
        let mut buf = BytesMut::new();
        let mut read = Vec::new();
        for piece in pieces.into_iter().cycle() {
            if stream.is_empty() {
                break;
            }
            buf.put_slice(&stream.split_to(piece.min(stream.len())));
            let chunk = take_whole_frames(&mut buf, frame_max);
            let mut at = 0;
            while let Some(frame) = next_frame(&chunk, &mut at, frame_max).unwrap() {
                prop_assert!(frame.payload.len() <= frame_max - 8);
                read.extend_from_slice(frame.payload);
            }
        }
        prop_assert!(buf.is_empty());
        prop_assert_eq!(read, body);
    }

    #[test]
    fn a_delivery_written_directly_is_the_method(
        consumer_tag in short_string(),
        delivery_tag in any::<u64>(),
        redelivered in any::<bool>(),
        exchange in short_string(),
        routing_key in short_string(),
    ) {
        let channel = ChannelId::new(9);
        let delivery_tag = DeliveryTag::new(delivery_tag);
        let mut direct = BytesMut::new();
        put_deliver(
            &mut direct,
            channel,
            consumer_tag.as_bytes(),
            delivery_tag,
            redelivered,
            exchange.as_bytes(),
            routing_key.as_bytes(),
        );
        let mut built = BytesMut::new();
        let method =
            basic::Deliver { consumer_tag, delivery_tag, redelivered, exchange, routing_key };
        put_method(&mut built, channel, &method.into());
        prop_assert_eq!(direct, built);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        let _ = support::decode(&bytes);
        let _ = FieldTable::decode_all(&Bytes::from(bytes));
    }
}
