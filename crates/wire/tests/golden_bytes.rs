//! Frames byte by byte, taken from the wire between RabbitMQ and its clients; spaces stand at the borders of fields.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of a test unwrap as the test does"
)]

use bytes::{Bytes, BytesMut};
use leveret_wire::{
    BasicProperties, ChannelId, ClassId, ContentHeader, DeliveryTag, FieldTable, FieldValue,
    FrameKind, LongString, Method, MethodId, PROTOCOL_HEADER, ShortString, Timestamp, access,
    basic, channel, confirm, connection, exchange, put_body_frames, put_content_header,
    put_deliver, put_heartbeat, put_method, queue, tx,
};

mod support;
use support::{hex, only_frame, unhex};

fn short(text: &str) -> ShortString {
    ShortString::try_from(text).unwrap()
}

/// The method is written as these octets, and these octets are read as the method.
#[track_caller]
fn expect_frame(channel: u16, method: impl Into<Method>, digits: &str) {
    let method = method.into();
    let octets = hex(digits);
    let mut written = BytesMut::new();
    put_method(&mut written, ChannelId::new(channel), &method);
    assert_eq!(unhex(&written), unhex(&octets));

    let (chunk, kind, read_channel, payload) = only_frame(&octets);
    assert_eq!(
        (kind, read_channel),
        (FrameKind::Method, ChannelId::new(channel))
    );
    assert_eq!(Method::decode(&chunk, &payload), Ok(method));
}

#[test]
fn protocol_header() {
    assert_eq!(
        unhex(&PROTOCOL_HEADER),
        unhex(&hex("41 4d 51 50 00 00 09 01"))
    );
}

#[test]
fn connection_start_with_nested_capabilities() {
    let capabilities = FieldTable::new()
        .with("publisher_confirms", FieldValue::Bool(true))
        .with("basic.nack", FieldValue::Bool(true));
    let server_properties = FieldTable::new()
        .with("capabilities", FieldValue::Table(capabilities))
        .with("product", FieldValue::text("RabbitMQ"));
    expect_frame(
        0,
        connection::Start {
            version_major: 0,
            version_minor: 9,
            server_properties,
            mechanisms: LongString::from_static("AMQPLAIN ANONYMOUS PLAIN"),
            locales: LongString::from_static("en_US"),
        },
        "01 0000 00000078  000a 000a  00 09
         00000049
           0c 6361706162696c6974696573 46 00000022
             12 7075626c69736865725f636f6e6669726d73 74 01
             0a 62617369632e6e61636b 74 01
           07 70726f64756374 53 00000008 5261626269744d51
         00000018 414d51504c41494e20414e4f4e594d4f555320504c41494e
         00000005 656e5f5553  ce",
    );
}

#[test]
fn login_with_plain() {
    expect_frame(
        0,
        connection::StartOk {
            client_properties: FieldTable::new(),
            mechanism: short("PLAIN"),
            response: LongString::from_static("\0guest\0guest"),
            locale: short("en_US"),
        },
        "01 0000 00000024  000a 000b  00000000  05 504c41494e
         0000000c 006775657374006775657374  05 656e5f5553  ce",
    );
}

#[test]
fn tune() {
    let (channel_max, frame_max, heartbeat) = (2047, 131_072, 60);
    expect_frame(
        0,
        connection::Tune {
            channel_max,
            frame_max,
            heartbeat,
        },
        "01 0000 0000000c  000a 001e  07ff 00020000 003c  ce",
    );
    expect_frame(
        0,
        connection::TuneOk {
            channel_max,
            frame_max,
            heartbeat,
        },
        "01 0000 0000000c  000a 001f  07ff 00020000 003c  ce",
    );
}

#[test]
fn open_of_connection_and_channel() {
    expect_frame(
        0,
        connection::Open {
            virtual_host: short("/"),
            ..Default::default()
        },
        "01 0000 00000008  000a 0028  01 2f  00  00  ce",
    );
    expect_frame(
        0,
        connection::OpenOk::default(),
        "01 0000 00000005  000a 0029  00  ce",
    );
    expect_frame(
        1,
        channel::Open::default(),
        "01 0001 00000005  0014 000a  00  ce",
    );
    expect_frame(
        1,
        channel::OpenOk::default(),
        "01 0001 00000008  0014 000b  00000000  ce",
    );
}

#[test]
fn close_names_the_failed_method() {
    expect_frame(
        1,
        channel::Close {
            reply_code: 404,
            reply_text: short("NOT_FOUND - no queue 'nope' in vhost '/'"),
            class_id: ClassId::new(50),
            method_id: MethodId::new(10),
        },
        "01 0001 00000033  0014 0028  0194
         28 4e4f545f464f554e44202d206e6f20717565756520276e6f70652720696e2076686f737420272f27
         0032 000a  ce",
    );
}

#[test]
fn five_bits_share_an_octet_the_first_one_lowest() {
    expect_frame(
        1,
        exchange::Declare {
            exchange: short("x"),
            kind: short("topic"),
            durable: true,
            nowait: true,
            ..Default::default()
        },
        "01 0001 00000013  0028 000a  0000  01 78  05 746f706963  12  00000000  ce",
    );
    expect_frame(
        1,
        access::Request {
            realm: short("/data"),
            passive: true,
            active: true,
            write: true,
            read: true,
            ..Default::default()
        },
        "01 0001 0000000b  001e 000a  05 2f64617461  1e  ce",
    );
}

#[test]
fn exchange_unbind_ok_has_a_number_of_its_own() {
    expect_frame(1, exchange::UnbindOk {}, "01 0001 00000004  0028 0033  ce");
}

#[test]
fn declare_of_a_queue_and_its_answer() {
    expect_frame(
        1,
        queue::Declare {
            queue: short("golden"),
            durable: true,
            arguments: FieldTable::new()
                .with("x-max-length", FieldValue::Int(5))
                .with("x-queue-type", FieldValue::text("classic")),
            ..Default::default()
        },
        "01 0001 0000003d  0032 000a  0000  06 676f6c64656e  02
         0000002b
           0c 782d6d61782d6c656e677468 49 00000005
           0c 782d71756575652d74797065 53 00000007 636c6173736963  ce",
    );
    expect_frame(
        1,
        queue::DeclareOk {
            queue: short("golden"),
            message_count: 0,
            consumer_count: 0,
        },
        "01 0001 00000013  0032 000b  06 676f6c64656e  00000000  00000000  ce",
    );
}

#[test]
fn a_published_message() {
    expect_frame(
        1,
        basic::Publish {
            routing_key: short("golden"),
            mandatory: true,
            ..Default::default()
        },
        "01 0001 0000000f  003c 0028  0000  00  06 676f6c64656e  01  ce",
    );
}

#[test]
fn a_delivered_message() {
    let method =
        "01 0001 00000019  003c 003c  03 746167  0000000000000001  00  00  06 676f6c64656e  ce";
    expect_frame(
        1,
        basic::Deliver {
            consumer_tag: short("tag"),
            delivery_tag: DeliveryTag::new(1),
            redelivered: false,
            exchange: ShortString::empty(),
            routing_key: short("golden"),
        },
        method,
    );

    let properties = BasicProperties {
        content_type: Some(short("text/plain")),
        content_encoding: Some(short("utf-8")),
        headers: Some(
            FieldTable::new()
                .with("n", FieldValue::Int(1))
                .with("s", FieldValue::text("text"))
                .with("t", FieldValue::Timestamp(Timestamp(1))),
        ),
        delivery_mode: Some(2),
        priority: Some(5),
        correlation_id: Some(short("c1")),
        reply_to: Some(short("r1")),
        expiration: Some(short("60000")),
        message_id: Some(short("m1")),
        timestamp: Some(Timestamp(1_700_000_000)),
        kind: Some(short("t1")),
        user_id: Some(short("guest")),
        app_id: Some(short("app")),
        cluster_id: Some(short("cl")),
    };
    let header = hex("02 0001 00000069  003c 0000  0000000000000005  fffc
           0a 746578742f706c61696e  05 7574662d38
           0000001d 01 6e 49 00000001  01 73 53 00000004 74657874  01 74 54 0000000000000001
           02  05  02 6331  02 7231  05 3630303030  02 6d31  000000006553f100
           02 7431  05 6775657374  03 617070  02 636c  ce");
    let (chunk, kind, channel, payload) = only_frame(&header);
    assert_eq!((kind, channel), (FrameKind::Header, ChannelId::new(1)));
    let content = ContentHeader::decode(&chunk, &payload).unwrap();
    assert_eq!(
        (content.class_id, content.weight, content.body_size),
        (ClassId::new(60), 0, 5)
    );
    assert_eq!(content.properties, properties.encode());
    assert_eq!(BasicProperties::decode(&content.properties), Ok(properties));

    let mut written = BytesMut::new();
    put_deliver(
        &mut written,
        ChannelId::new(1),
        b"tag",
        DeliveryTag::new(1),
        false,
        b"",
        b"golden",
    );
    put_content_header(
        &mut written,
        ChannelId::new(1),
        5,
        content.properties.as_bytes(),
    );
    put_body_frames(&mut written, ChannelId::new(1), b"hello", 131_072);
    let mut expected = hex(method);
    expected.extend(header);
    expected.extend(hex("03 0001 00000005  68656c6c6f  ce"));
    assert_eq!(unhex(&written), unhex(&expected));
}

#[test]
fn acknowledgements() {
    let delivery_tag = DeliveryTag::new(7);
    expect_frame(
        1,
        basic::Ack {
            delivery_tag,
            multiple: true,
        },
        "01 0001 0000000d  003c 0050  0000000000000007  01  ce",
    );
    expect_frame(
        1,
        basic::Nack {
            delivery_tag,
            multiple: false,
            requeue: true,
        },
        "01 0001 0000000d  003c 0078  0000000000000007  02  ce",
    );
    expect_frame(
        1,
        basic::Reject {
            delivery_tag,
            requeue: true,
        },
        "01 0001 0000000d  003c 005a  0000000000000007  01  ce",
    );
}

#[test]
fn methods_without_arguments() {
    expect_frame(1, confirm::SelectOk {}, "01 0001 00000004  0055 000b  ce");
    expect_frame(1, tx::Select {}, "01 0001 00000004  005a 000a  ce");
    expect_frame(0, connection::CloseOk {}, "01 0000 00000004  000a 0033  ce");
}

#[test]
fn heartbeat() {
    let mut written = BytesMut::new();
    put_heartbeat(&mut written);
    assert_eq!(unhex(&written), unhex(&hex("08 0000 00000000  ce")));
    let (_, kind, channel, payload) = only_frame(&written);
    assert_eq!(
        (kind, channel, payload),
        (FrameKind::Heartbeat, ChannelId::CONNECTION, Bytes::new())
    );
}
