//! Payloads that are no method, and how they are told apart.

use bytes::Bytes;
use leveret_wire::{
    ClassId, FieldTable, FieldValue, Method, MethodError, MethodId, ShortString, ValueError, basic,
    exchange, queue,
};

mod support;
use support::{decode, hex, method_frame, only_frame};

const fn ids(class: u16, method: u16) -> (ClassId, MethodId) {
    (ClassId::new(class), MethodId::new(method))
}

fn declare() -> Vec<u8> {
    let declare = queue::Declare {
        queue: ShortString::from_static("q"),
        arguments: FieldTable::new().with("a", FieldValue::Bool(true)),
        ..Default::default()
    };
    let (_, _, _, payload) = only_frame(&method_frame(&declare.into()));
    payload.to_vec()
}

#[test]
fn arguments_cut_anywhere_are_malformed() {
    let payload = declare();
    assert!(decode(&payload).is_ok());
    for end in 4..payload.len() {
        let error = decode(&payload[..end]).unwrap_err();
        assert_eq!(error.ids(), ids(50, 10));
        assert!(
            matches!(error, MethodError::Malformed { .. }),
            "{end}: {error}"
        );
    }
    for end in 0..4 {
        assert_eq!(decode(&payload[..end]).unwrap_err().ids(), ids(0, 0));
    }
}

#[test]
fn bytes_behind_the_arguments_are_quoted() {
    let declare = hex("0028 000a  0000  01 65  06 646972656374  00  00000000  78");
    let error = decode(&declare).unwrap_err();
    assert_eq!(error.ids(), ids(40, 10));
    assert_eq!(
        error.to_string(),
        "cannot decode <<0,0,1,101,6,100,105,114,101,99,116,0,0,0,0,0,120>>"
    );
    // Numbers also where everything is printable.
    assert_eq!(
        decode(&hex("005a 000a 78")).unwrap_err().to_string(),
        "cannot decode <<120>>"
    );
}

#[test]
fn a_long_quotation_is_not_printed_in_full() {
    let mut payload = hex("005a 000a");
    payload.resize(100_000, 0);
    let text = decode(&payload).unwrap_err().to_string();
    assert!(
        (255..1200).contains(&text.len()),
        "a reply text has 255 characters"
    );
}

#[test]
fn unknown_ids_are_named() {
    for (class, method) in [
        (60, 41),
        (61, 10),
        (0, 0),
        (20, 30),
        (85, 20),
        (65535, 65535),
    ] {
        let payload = [u16::to_be_bytes(class), u16::to_be_bytes(method)].concat();
        let (class, method) = ids(class, method);
        assert_eq!(
            decode(&payload),
            Err(MethodError::Unknown { class, method })
        );
    }
}

#[test]
fn short_strings_are_text_except_where_messages_are() {
    let name = || ShortString::try_from(&b"\xff"[..]).unwrap();
    let declare = method_frame(
        &exchange::Declare {
            exchange: name(),
            ..Default::default()
        }
        .into(),
    );
    let (_, _, _, mut payload) = only_frame(&declare);
    let error = decode(&payload).unwrap_err();
    let (class, method) = ids(40, 10);
    assert_eq!(error, MethodError::MalformedUtf8 { class, method });
    assert_eq!(error.to_string(), "Malformed UTF-8 in shortstr");

    // Overlong forms and surrogates are no UTF-8 either.
    for name in [&b"\xc0\x80"[..], b"\xed\xa0\x80"] {
        let queue = ShortString::try_from(name).unwrap();
        let frame = method_frame(
            &queue::Declare {
                queue,
                ..Default::default()
            }
            .into(),
        );
        let (_, _, _, payload) = only_frame(&frame);
        assert!(matches!(
            decode(&payload),
            Err(MethodError::MalformedUtf8 { .. })
        ));
    }

    // A wrong layout is reported before wrong text.
    payload = Bytes::from([&payload[..], b"x"].concat());
    assert!(matches!(
        decode(&payload),
        Err(MethodError::Malformed { .. })
    ));

    let publish: Method = basic::Publish {
        exchange: name(),
        routing_key: name(),
        ..Default::default()
    }
    .into();
    let (_, _, _, payload) = only_frame(&method_frame(&publish));
    assert_eq!(decode(&payload), Ok(publish));

    let nul = ShortString::from_static("a\0b");
    let declare: Method = queue::Declare {
        queue: nul,
        ..Default::default()
    }
    .into();
    let (_, _, _, payload) = only_frame(&method_frame(&declare));
    assert_eq!(decode(&payload), Ok(declare));
}

#[test]
fn a_bad_table_is_an_error_of_its_own() {
    let (class, method) = ids(40, 10);
    for (table, error) in [
        (
            "00000003 01 61 55",
            ValueError::UnknownType { letter: b'U' },
        ),
        ("00000009 01 61 53 00000005 6162", ValueError::Truncated),
    ] {
        let payload = hex(&format!(
            "0028 000a  0000  01 65  06 646972656374  00  {table}"
        ));
        assert_eq!(
            decode(&payload),
            Err(MethodError::Table {
                class,
                method,
                error
            })
        );
    }
}

#[test]
fn bits_that_no_argument_uses_are_ignored() {
    let ack = basic::Ack {
        multiple: true,
        ..Default::default()
    };
    assert_eq!(
        decode(&hex("003c 0050  0000000000000000  ff")),
        Ok(ack.into())
    );
}

#[test]
fn strings_of_a_method_are_slices_of_the_chunk() {
    let publish = basic::Publish {
        exchange: ShortString::from_static("exchange"),
        routing_key: ShortString::from_static("key"),
        ..Default::default()
    };
    let (chunk, _, _, payload) = only_frame(&method_frame(&publish.into()));
    let Ok(Method::Basic(basic::Basic::Publish(read))) = Method::decode(&chunk, &payload) else {
        panic!("a publish");
    };
    let range = chunk.as_ptr_range();
    assert!(range.contains(&read.exchange.as_bytes().as_ptr()));
    assert!(range.contains(&read.routing_key.as_bytes().as_ptr()));
    assert!(!range.contains(&read.exchange.detach().as_bytes().as_ptr()));
}
