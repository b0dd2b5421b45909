//! Content headers and their properties.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of a test unwrap as the test does"
)]

use bytes::{Bytes, BytesMut};
use leveret_wire::content::{BODY_SIZE_MAX, ExtraHeader};
use leveret_wire::{
    BasicProperties, ChannelId, ContentError, ContentHeader, FieldTable, FieldValue, RawProperties,
    RawTable, RawValue, ShortString, Timestamp, ValueError, put_content_header,
};

mod support;
use support::{hex, only_frame, unhex};

fn raw(digits: &str) -> Result<RawProperties, ContentError> {
    RawProperties::from_wire(Bytes::from(hex(digits)))
}

fn header(digits: &str) -> Result<ContentHeader, ContentError> {
    let chunk = Bytes::from(hex(digits));
    ContentHeader::decode(&chunk, &chunk)
}

/// The properties as another peer receives them.
fn passed_on(raw: &RawProperties) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_content_header(&mut out, ChannelId::new(1), 0, raw.as_bytes());
    let (chunk, _, _, payload) = only_frame(&out);
    ContentHeader::decode(&chunk, &payload)
        .unwrap()
        .properties
        .as_bytes()
        .to_vec()
}

fn all() -> BasicProperties {
    let short = |text: &'static str| Some(ShortString::from_static(text));
    BasicProperties {
        content_type: short("content-type"),
        content_encoding: short("content-encoding"),
        headers: Some(FieldTable::new().with("header", FieldValue::Bool(true))),
        delivery_mode: Some(2),
        priority: Some(9),
        correlation_id: short("correlation-id"),
        reply_to: short("reply-to"),
        expiration: short("60000"),
        message_id: short("message-id"),
        timestamp: Some(Timestamp(u64::MAX)),
        kind: short("type"),
        user_id: short("user-id"),
        app_id: short("app-id"),
        cluster_id: short("cluster-id"),
    }
}

#[test]
fn every_flag_stands_for_its_property() {
    let single = |bit: u16, fields: &str| {
        let raw = raw(&format!("{bit:04x} {fields}")).unwrap();
        let properties = BasicProperties::decode(&raw).unwrap();
        assert_eq!(properties.encode(), raw);
        assert_eq!(raw.flags(), bit);
        properties
    };
    let text = Some(ShortString::from_static("x"));
    let none = BasicProperties::default;
    for (bit, expected) in [
        (
            15,
            BasicProperties {
                content_type: text.clone(),
                ..none()
            },
        ),
        (
            14,
            BasicProperties {
                content_encoding: text.clone(),
                ..none()
            },
        ),
        (
            10,
            BasicProperties {
                correlation_id: text.clone(),
                ..none()
            },
        ),
        (
            9,
            BasicProperties {
                reply_to: text.clone(),
                ..none()
            },
        ),
        (
            8,
            BasicProperties {
                expiration: text.clone(),
                ..none()
            },
        ),
        (
            7,
            BasicProperties {
                message_id: text.clone(),
                ..none()
            },
        ),
        (
            5,
            BasicProperties {
                kind: text.clone(),
                ..none()
            },
        ),
        (
            4,
            BasicProperties {
                user_id: text.clone(),
                ..none()
            },
        ),
        (
            3,
            BasicProperties {
                app_id: text.clone(),
                ..none()
            },
        ),
        (
            2,
            BasicProperties {
                cluster_id: text,
                ..none()
            },
        ),
    ] {
        assert_eq!(single(1 << bit, "01 78"), expected);
    }
    let headers = Some(FieldTable::new());
    assert_eq!(
        single(1 << 13, "00000000"),
        BasicProperties { headers, ..none() }
    );
    assert_eq!(
        single(1 << 12, "02"),
        BasicProperties {
            delivery_mode: Some(2),
            ..none()
        }
    );
    assert_eq!(
        single(1 << 11, "ff"),
        BasicProperties {
            priority: Some(255),
            ..none()
        }
    );
    let timestamp = Some(Timestamp(1));
    assert_eq!(
        single(1 << 6, "0000000000000001"),
        BasicProperties {
            timestamp,
            ..none()
        }
    );
    assert_eq!(single(0, ""), none());
}

#[test]
fn one_scan_finds_every_property() {
    let raw = all().encode();
    let scan = raw.scan().unwrap();
    assert_eq!(scan.content_type, Some(&b"content-type"[..]));
    assert_eq!(scan.content_encoding, Some(&b"content-encoding"[..]));
    assert_eq!(scan.delivery_mode, Some(2));
    assert_eq!(scan.priority, Some(9));
    assert_eq!(scan.correlation_id, Some(&b"correlation-id"[..]));
    assert_eq!(scan.reply_to, Some(&b"reply-to"[..]));
    assert_eq!(scan.expiration, Some(&b"60000"[..]));
    assert_eq!(scan.message_id, Some(&b"message-id"[..]));
    assert_eq!(scan.timestamp, Some(u64::MAX));
    assert_eq!(scan.kind, Some(&b"type"[..]));
    assert_eq!(scan.user_id, Some(&b"user-id"[..]));
    assert_eq!(scan.app_id, Some(&b"app-id"[..]));
    assert_eq!(scan.cluster_id, Some(&b"cluster-id"[..]));
    let headers = RawTable::new(scan.headers.unwrap());
    assert_eq!(headers.get(b"header"), Some(RawValue::Bool(true)));
    assert_eq!(BasicProperties::decode(&raw), Ok(all()));
}

#[test]
fn absent_and_empty_differ() {
    let empty = BasicProperties {
        content_type: Some(ShortString::empty()),
        headers: Some(FieldTable::new()),
        ..Default::default()
    };
    let raw = empty.encode();
    assert_eq!(unhex(raw.as_bytes()), unhex(&hex("a000 00 00000000")));
    assert_eq!(BasicProperties::decode(&raw), Ok(empty));
    let scan = raw.scan().unwrap();
    assert_eq!(
        (scan.content_type, scan.headers, scan.app_id),
        (Some(&[][..]), Some(&[][..]), None)
    );
    assert_eq!(RawProperties::default().scan(), Ok(Default::default()));
}

#[test]
fn missing_bytes_and_bytes_left_over_are_refused() {
    let whole = all().encode();
    let bytes = whole.as_bytes();
    for end in 2..bytes.len() {
        let cut = RawProperties::from_wire(Bytes::copy_from_slice(&bytes[..end])).unwrap();
        assert_eq!(
            cut.scan(),
            Err(ContentError::Properties(ValueError::Truncated)),
            "{end}"
        );
        assert!(BasicProperties::decode(&cut).is_err());
    }
    let longer = RawProperties::from_wire(Bytes::from([bytes, b"x"].concat())).unwrap();
    assert_eq!(
        longer.scan(),
        Err(ContentError::Properties(ValueError::Trailing))
    );
}

#[test]
fn headers_are_checked_by_the_scan() {
    for (digits, error) in [
        (
            "2000 00000003 01 61 55",
            ValueError::UnknownType { letter: b'U' },
        ),
        ("2000 00000004 01 61 74 01 00", ValueError::Trailing),
        ("2000 00000005 01 61 74 01", ValueError::Truncated),
        (
            "2000 0000000a 01 61 46 00000004 01 62 56",
            ValueError::Truncated,
        ),
    ] {
        let raw = raw(digits).unwrap();
        assert_eq!(raw.scan(), Err(ContentError::Properties(error)), "{digits}");
        assert_eq!(
            BasicProperties::decode(&raw),
            Err(ContentError::Properties(error))
        );
    }
}

#[test]
fn the_flag_without_a_meaning_is_ignored_and_not_passed_on() {
    let raw = raw("1002 02").unwrap();
    assert_eq!(raw.scan().unwrap().delivery_mode, Some(2));
    assert_eq!(unhex(&passed_on(&raw)), "100002");
}

#[test]
fn a_second_word_of_flags_is_refused() {
    assert_eq!(raw("0001 0000"), Err(ContentError::Continuation));
}

#[test]
fn received_properties_are_passed_on_byte_by_byte() {
    // Twice the same header, and `L`, which would be written as `l`.
    let digits = "3000 0000000f 01 61 4c 0000000000000001 01 61 74 02 03";
    let raw = raw(digits).unwrap();
    raw.scan().unwrap();
    assert_eq!(unhex(&passed_on(&raw)), unhex(&hex(digits)));
}

#[test]
fn a_header_names_class_weight_and_size() {
    let header = header("003c 0001 000000000000ffff 0000").unwrap();
    assert_eq!(
        (header.class_id.get(), header.weight, header.body_size),
        (60, 1, 65535)
    );
    assert_eq!(header.properties, RawProperties::EMPTY);
}

#[test]
fn a_header_without_flags_is_too_short() {
    for (digits, len) in [
        ("", 0),
        ("003c0000", 4),
        ("003c0000 0000000000000000 00", 13),
    ] {
        assert_eq!(header(digits), Err(ContentError::TooShort { len }));
    }
}

#[test]
fn a_body_has_a_largest_size() {
    let sized = |class: &str, weight: &str, size: u64| {
        header(&format!("{class} {weight} {size:016x} 0000"))
    };
    assert_eq!(
        sized("003c", "0000", BODY_SIZE_MAX).unwrap().body_size,
        BODY_SIZE_MAX
    );
    let error = sized("003c", "0000", BODY_SIZE_MAX + 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "content body size 536870913 exceeds maximum allowed size 536870912"
    );
    assert!(sized("003c", "0000", u64::MAX).is_err());
    // What is not a content header of class basic is refused for that, whatever its size.
    assert!(sized("000a", "0000", u64::MAX).is_ok());
    assert!(sized("003c", "0001", u64::MAX).is_ok());
}

#[test]
fn properties_are_a_slice_of_the_chunk() {
    let chunk = Bytes::from(hex("003c 0000 0000000000000000 8000 01 78"));
    let header = ContentHeader::decode(&chunk, &chunk).unwrap();
    let range = chunk.as_ptr_range();
    assert!(range.contains(&header.properties.as_bytes().as_ptr()));
    let properties = BasicProperties::decode(&header.properties).unwrap();
    assert!(range.contains(&properties.content_type.unwrap().as_bytes().as_ptr()));
    assert!(!range.contains(&header.properties.detach().as_bytes().as_ptr()));
}

#[test]
fn one_property_is_changed_and_the_others_stay() {
    let table = |names: &[&'static str]| -> FieldTable {
        let entry = |name: &&'static str| (ShortString::from_static(name), FieldValue::Int(1));
        names.iter().map(entry).collect()
    };
    let with = |headers: FieldTable, reply_to: &'static str| BasicProperties {
        headers: Some(headers),
        reply_to: Some(ShortString::from_static(reply_to)),
        ..all()
    };
    let raw = with(table(&["a", "BCC", "b", "BCC"]), "here").encode();
    let changed = raw.without_header(b"BCC").expect("well-formed");
    assert_eq!(changed, with(table(&["a", "b"]), "here").encode());
    let there = ShortString::from_static("there");
    let changed = changed.with_reply_to(there).expect("well-formed");
    assert_eq!(changed, with(table(&["a", "b"]), "there").encode());
    let only = with(table(&["BCC"]), "here").encode();
    let emptied = only.without_header(b"BCC").expect("well-formed");
    assert_eq!(emptied, with(table(&[]), "here").encode());
    assert_eq!(emptied.headers(), Ok(Some(Bytes::new())));
    assert_eq!(
        RawProperties::EMPTY.without_header(b"BCC"),
        Ok(RawProperties::EMPTY)
    );
    assert_eq!(RawProperties::EMPTY.headers(), Ok(None));
}

#[test]
fn a_header_is_added_behind_the_others_and_everything_else_stays() {
    let extra = ExtraHeader {
        name: b"x-offset",
        value: -7,
        delivery_mode: 1,
    };
    let added = |properties: &BasicProperties| {
        let mut out = BytesMut::from(&b"before"[..]);
        RawProperties::put_with(properties.encode().as_bytes(), extra, &mut out)
            .expect("well-formed");
        let raw = RawProperties::from_wire(out.freeze().slice(b"before".len()..)).expect("flags");
        BasicProperties::decode(&raw).expect("well-formed")
    };
    let table = |names: &[&'static str]| -> FieldTable {
        let entry = |name: &&'static str| {
            let value = FieldValue::Long(if *name == "x-offset" { -7 } else { 1 });
            (ShortString::from_static(name), value)
        };
        names.iter().map(entry).collect()
    };
    let kind = |kind: &'static str| Some(ShortString::from_static(kind));
    for content_type in [None, kind("text/plain")] {
        for content_encoding in [None, kind("gzip")] {
            for (headers, with) in [
                (None, table(&["x-offset"])),
                (Some(table(&[])), table(&["x-offset"])),
                (Some(table(&["a", "b"])), table(&["a", "b", "x-offset"])),
                (
                    Some(table(&["a", "x-offset", "b"])),
                    table(&["a", "b", "x-offset"]),
                ),
            ] {
                for (delivery_mode, then) in [(None, Some(1)), (Some(2), Some(2))] {
                    let properties = BasicProperties {
                        content_type: content_type.clone(),
                        content_encoding: content_encoding.clone(),
                        headers: headers.clone(),
                        delivery_mode,
                        ..all()
                    };
                    let expected = BasicProperties {
                        headers: Some(with.clone()),
                        delivery_mode: then,
                        ..properties.clone()
                    };
                    assert_eq!(added(&properties), expected);
                }
            }
        }
    }
    let only = BasicProperties {
        headers: Some(table(&["x-offset"])),
        delivery_mode: Some(1),
        ..BasicProperties::default()
    };
    assert_eq!(added(&BasicProperties::default()), only);
}

#[test]
fn nothing_is_added_to_malformed_properties() {
    let extra = ExtraHeader {
        name: b"x-offset",
        value: 1,
        delivery_mode: 1,
    };
    for malformed in [
        &[][..],
        &[0x80],
        &[0x80, 0],
        &[0, 0, 1],
        &[0x20, 0, 0, 0, 0, 9],
    ] {
        let mut out = BytesMut::new();
        assert!(RawProperties::put_with(malformed, extra, &mut out).is_err());
        assert!(out.is_empty());
    }
}
