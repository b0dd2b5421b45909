//! Whatever a client sends: no panic, and where its bytes are cut makes no difference.

use bytes::BytesMut;
use leveret_session::Settings;
use leveret_wire::{
    BasicProperties, Method, PROTOCOL_HEADER, RawProperties,
    method::{basic, channel, confirm, connection, exchange, queue, tx},
};
use proptest::prelude::*;

use crate::support::{
    CAPABILITIES, Event, MISSING, Scenario, body_frame, declare, header_frame, method_frame,
    open_vhost, passive, publish_frames, publish_method, raw_frame, short, start_ok, tune_ok,
};

fn name() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just(""), Just("q"), Just("r"), Just(MISSING)]
}

fn consumer_tag() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just(""), 1 => Just("a"), 1 => Just("b"), 1 => Just("c"), 1 => Just("d")]
}

fn method() -> impl Strategy<Value = Method> {
    let tag = 0_u64..6;
    prop_oneof![
        1 => Just(channel::Open::default().into()),
        2 => Just(channel::Close::default().into()),
        1 => Just(channel::CloseOk {}.into()),
        1 => Just(channel::Flow { active: true }.into()),
        4 => (name(), any::<bool>()).prop_map(|(name, nowait)| {
            queue::Declare { nowait, ..declare(name) }.into()
        }),
        2 => name().prop_map(|name| passive(name).into()),
        2 => name().prop_map(|name| queue::Bind { queue: short(name), ..Default::default() }.into()),
        2 => name().prop_map(|name| queue::Delete { queue: short(name), ..Default::default() }.into()),
        1 => name().prop_map(|name| exchange::Declare { exchange: short(name), ..Default::default() }.into()),
        6 => (name(), consumer_tag(), any::<bool>()).prop_map(|(queue, tag, no_ack)| {
            basic::Consume { queue: short(queue), consumer_tag: short(tag), no_ack, ..Default::default() }.into()
        }),
        3 => (consumer_tag(), any::<bool>()).prop_map(|(tag, nowait)| {
            basic::Cancel { consumer_tag: short(tag), nowait }.into()
        }),
        3 => name().prop_map(|name| basic::Get { queue: short(name), ..Default::default() }.into()),
        4 => (tag.clone(), any::<bool>()).prop_map(|(tag, multiple)| {
            basic::Ack { delivery_tag: tag.into(), multiple }.into()
        }),
        2 => (tag, any::<bool>(), any::<bool>()).prop_map(|(tag, multiple, requeue)| {
            basic::Nack { delivery_tag: tag.into(), multiple, requeue }.into()
        }),
        1 => Just(basic::Recover { requeue: true }.into()),
        1 => any::<u16>().prop_map(|prefetch_count| {
            basic::Qos { prefetch_count, ..Default::default() }.into()
        }),
        2 => any::<bool>().prop_map(|nowait| confirm::Select { nowait }.into()),
        2 => Just(tx::Select {}.into()),
        1 => Just(tx::Commit {}.into()),
        1 => Just(tx::Rollback {}.into()),
        2 => name().prop_map(|exchange| publish_method(exchange, "k").into()),
        1 => Just(connection::Close::default().into()),
    ]
}

fn properties() -> impl Strategy<Value = RawProperties> {
    prop_oneof![
        6 => Just(RawProperties::EMPTY),
        1 => Just(BasicProperties { expiration: Some(short("x")), ..Default::default() }.encode()),
        1 => Just(BasicProperties { user_id: Some(short("guest")), ..Default::default() }.encode()),
    ]
}

/// A few frames on channels 0 to 3.
fn frames() -> impl Strategy<Value = BytesMut> {
    let channel = 1_u16..4;
    let body = proptest::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        20 => (channel.clone(), method()).prop_map(|(channel, method)| method_frame(channel, method)),
        12 => (channel.clone(), name(), properties(), body.clone()).prop_map(
            |(channel, exchange, properties, body)| {
                publish_frames(channel, exchange, "k", &properties, &body)
            }
        ),
        3 => (channel.clone(), name(), body.clone(), 1_usize..9).prop_map(
            |(channel, exchange, body, cut)| {
                let mut bytes = method_frame(channel, publish_method(exchange, "k"));
                let size = body.len() as u64;
                bytes.extend_from_slice(&header_frame(channel, size, &RawProperties::EMPTY));
                for part in body.chunks(cut) {
                    bytes.extend_from_slice(&body_frame(channel, part));
                }
                bytes
            }
        ),
        6 => channel.clone().prop_map(|channel| {
            let mut bytes = method_frame(channel, channel::Close::default());
            bytes.extend_from_slice(&method_frame(channel, channel::Open::default()));
            bytes
        }),
        1 => (channel.clone(), 0_u64..60).prop_map(|(channel, size)| {
            header_frame(channel, size, &RawProperties::EMPTY)
        }),
        1 => (channel, body.clone()).prop_map(|(channel, body)| body_frame(channel, &body)),
        1 => (0_u16..3, method()).prop_map(|(channel, method)| method_frame(channel, method)),
        1 => Just(raw_frame(8, 0, b"")),
        1 => (any::<u8>(), 0_u16..3, body).prop_map(|(kind, channel, body)| {
            raw_frame(kind, channel, &body)
        }),
    ]
}

/// The handshake, three channels, and then anything.
fn session() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(frames(), 0..40).prop_map(|frames| {
        let mut bytes = BytesMut::from(&PROTOCOL_HEADER[..]);
        bytes.extend_from_slice(&method_frame(
            0,
            start_ok("PLAIN", b"\0guest\0guest", &CAPABILITIES),
        ));
        bytes.extend_from_slice(&method_frame(0, tune_ok(3, 8192, 0)));
        bytes.extend_from_slice(&method_frame(0, open_vhost("/")));
        for channel in 1..3 {
            bytes.extend_from_slice(&method_frame(channel, channel::Open::default()));
        }
        for frame in frames {
            bytes.extend_from_slice(&frame);
        }
        bytes.to_vec()
    })
}

fn new_scenario() -> Scenario {
    let settings = Settings {
        message_size_max: 30,
        // Never reached: it is about what is kept between two reads, so there it matters where the bytes are cut.
        unfinished_content_max: 1000,
        ..Settings::default()
    };
    Scenario::with_settings(settings)
}

/// Sends the pieces and answers what was written, what was asked, and whether it is the end.
fn outcome<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (BytesMut, Vec<Event>, bool) {
    let mut scenario = new_scenario();
    for piece in pieces {
        if scenario.close.is_none() {
            scenario.send_bytes(piece);
        }
    }
    (
        scenario.transcript.clone(),
        scenario.events(),
        scenario.close.is_some(),
    )
}

fn cut<'a>(mut bytes: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let mut sizes = sizes.iter().cycle();
    while !bytes.is_empty() {
        let size = sizes.next().copied().unwrap_or(1).min(bytes.len());
        let (piece, rest) = bytes.split_at(size);
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_does_not_matter_where_the_bytes_are_cut(
        bytes in session(),
        sizes in proptest::collection::vec(1_usize..60, 1..20),
    ) {
        let whole = outcome([bytes.as_slice()]);
        prop_assert_eq!(&outcome([bytes.as_slice()]), &whole, "the same twice");
        prop_assert_eq!(&outcome(cut(&bytes, &sizes)), &whole, "cut into {:?}", sizes);
        prop_assert_eq!(&outcome(cut(&bytes, &[1])), &whole, "octet by octet");
    }

    #[test]
    fn noise_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), is_open: bool) {
        let mut scenario = if is_open { Scenario::with_channels(2) } else { new_scenario() };
        scenario.send_bytes(&bytes);
        let _ = scenario.connection.open_channels();
    }

    #[test]
    fn a_session_with_flipped_bytes_never_panics(
        mut bytes in session(),
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
    ) {
        for (at, octet) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= octet;
        }
        let whole = outcome([bytes.as_slice()]);
        prop_assert_eq!(outcome(cut(&bytes, &[7, 1, 30])), whole);
    }
}
