//! Field tables as RabbitMQ reads them.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of a test unwrap as the test does"
)]

use bytes::{Bytes, BytesMut};
use leveret_wire::value::{TABLE_DEPTH_MAX, TABLE_ENTRIES_MAX};
use leveret_wire::{
    Decimal, FieldTable, FieldValue, RawTable, RawValue, ShortString, Timestamp, ValueError,
    equivalent,
};

mod support;
use support::{hex, unhex};

fn read(payload: &[u8]) -> Result<FieldTable, ValueError> {
    let payload = Bytes::copy_from_slice(payload);
    let read = FieldTable::decode_all(&payload);
    let checked = RawTable::new(&payload).check();
    assert_eq!(checked, read.as_ref().map(|_| ()).map_err(|error| *error));
    read
}

fn write(table: &FieldTable) -> Vec<u8> {
    let mut out = BytesMut::new();
    table.encode_payload(&mut out);
    out.to_vec()
}

/// An entry with key `k` is read as this value and, unless another form is given, written as it was.
#[track_caller]
fn expect_value(digits: &str, value: FieldValue, type_name: &str, written: Option<&str>) {
    let octets = hex(&format!("01 6b {digits}"));
    let table = read(&octets).unwrap();
    assert_eq!(table.get(b"k"), Some(&value));
    assert_eq!(value.type_name(), type_name);
    let expected = written.map_or(octets, |written| hex(&format!("01 6b {written}")));
    assert_eq!(unhex(&write(&table)), unhex(&expected));
}

#[test]
fn every_letter_has_the_meaning_it_has_in_rabbitmq() {
    let long = "8000000000000001";
    expect_value(
        "53 00000003 61ff62",
        FieldValue::text(b"a\xffb".to_vec()),
        "longstr",
        None,
    );
    expect_value(
        "78 00000001 00",
        FieldValue::Bytes(Bytes::from_static(b"\0")),
        "binary",
        None,
    );
    expect_value("74 01", FieldValue::Bool(true), "bool", None);
    expect_value("74 00", FieldValue::Bool(false), "bool", None);
    expect_value("74 02", FieldValue::Bool(true), "bool", Some("74 01"));
    expect_value("62 ff", FieldValue::Byte(-1), "byte", None);
    expect_value("42 ff", FieldValue::UnsignedByte(255), "unsignedbyte", None);
    expect_value("73 ffff", FieldValue::Short(-1), "short", None);
    expect_value(
        "75 ffff",
        FieldValue::UnsignedShort(65535),
        "unsignedshort",
        None,
    );
    expect_value("49 ffffffff", FieldValue::Int(-1), "signedint", None);
    expect_value(
        "69 ffffffff",
        FieldValue::UnsignedInt(u32::MAX),
        "unsignedint",
        None,
    );
    expect_value(
        &format!("6c {long}"),
        FieldValue::Long(i64::MIN + 1),
        "long",
        None,
    );
    expect_value(
        &format!("4c {long}"),
        FieldValue::Long(i64::MIN + 1),
        "long",
        Some(&format!("6c {long}")),
    );
    expect_value("66 3fc00000", FieldValue::Float(1.5), "float", None);
    expect_value(
        "64 3ff8000000000000",
        FieldValue::Double(1.5),
        "double",
        None,
    );
    expect_value(
        "44 02 0000007b",
        FieldValue::Decimal(Decimal {
            scale: 2,
            value: 123,
        }),
        "decimal",
        None,
    );
    expect_value(
        "54 ffffffffffffffff",
        FieldValue::Timestamp(Timestamp(u64::MAX)),
        "timestamp",
        None,
    );
    expect_value("56", FieldValue::Void, "void", None);
    expect_value(
        "46 00000003 01 6e 56",
        FieldValue::Table(FieldTable::new().with("n", FieldValue::Void)),
        "table",
        None,
    );
    expect_value(
        "41 00000003 56 74 01",
        FieldValue::Array(vec![FieldValue::Void, FieldValue::Bool(true)]),
        "array",
        None,
    );
}

#[test]
fn any_bits_of_a_float_pass_through() {
    for digits in [
        "66 7fc00001",
        "66 ff800000",
        "64 7ff8000000000001",
        "64 8000000000000000",
    ] {
        let octets = hex(&format!("01 6b {digits}"));
        let table = read(&octets).unwrap();
        assert_eq!(unhex(&write(&table)), unhex(&octets));
        assert_eq!(
            table,
            table.clone(),
            "a value is equal to itself, also when it is not a number"
        );
    }
}

#[test]
fn no_other_letter_has_a_meaning() {
    for letter in (0..=255_u8).filter(|letter| !b"SxtbBsuIilLfdDTVFA".contains(letter)) {
        let octets = [1, b'k', letter, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(read(&octets), Err(ValueError::UnknownType { letter }));
    }
    let nested = hex("01 6b 46 00000003 01 6e 55");
    let error = read(&nested).unwrap_err();
    assert_eq!(error, ValueError::UnknownType { letter: b'U' });
    assert_eq!(error.to_string(), "unknown field table type U");
}

#[test]
fn a_value_that_reaches_beyond_its_end_is_refused() {
    let all = write(
        &FieldTable::new()
            .with("s", FieldValue::text("text"))
            .with("l", FieldValue::Long(1))
            .with("D", FieldValue::Decimal(Decimal { scale: 1, value: 1 }))
            .with(
                "F",
                FieldValue::Table(FieldTable::new().with("d", FieldValue::Double(1.0))),
            )
            .with("A", FieldValue::Array(vec![FieldValue::Short(1)])),
    );
    let borders: Vec<_> = {
        let whole = RawTable::new(&all);
        let mut borders = vec![0];
        for count in 1..=5 {
            let start: FieldTable = read(&all).unwrap().into_iter().take(count).collect();
            borders.push(write(&start).len());
        }
        assert_eq!(whole.entries().count(), 5);
        borders
    };
    for end in 0..=all.len() {
        let expected = if borders.contains(&end) {
            Ok(())
        } else {
            Err(ValueError::Truncated)
        };
        assert_eq!(read(&all[..end]).map(|_| ()), expected, "{end}");
    }
    // A nested length counts against what is around it.
    assert_eq!(
        read(&hex("01 6b 46 00000004 01 6e 56")),
        Err(ValueError::Truncated)
    );
    assert_eq!(
        read(&hex("01 6b 53 ffffffff 61")),
        Err(ValueError::Truncated)
    );
    assert_eq!(read(&hex("01 6b 41 ffffffff")), Err(ValueError::Truncated));
    assert_eq!(read(&hex("ff 6b")), Err(ValueError::Truncated));
}

/// So many levels of tables or arrays, the outermost table included.
fn nested(levels: usize, letter: u8) -> Vec<u8> {
    let mut payload = Vec::new();
    for level in (1..levels).rev() {
        let mut outer = if letter == b'F' || level == 1 {
            vec![0]
        } else {
            Vec::new()
        };
        outer.push(letter);
        outer.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
        outer.extend(payload);
        payload = outer;
    }
    payload
}

#[test]
fn nesting_is_bounded() {
    for letter in [b'F', b'A'] {
        assert!(
            read(&nested(100, letter)).is_ok(),
            "RabbitMQ takes a hundred levels"
        );
        let deepest = nested(TABLE_DEPTH_MAX, letter);
        assert_eq!(write(&read(&deepest).unwrap()), deepest);
        assert_eq!(
            read(&nested(TABLE_DEPTH_MAX + 1, letter)),
            Err(ValueError::TooDeep)
        );
        // As deep as the largest frame allows: refused, and not by an overflowing stack.
        assert_eq!(read(&nested(20_000, letter)), Err(ValueError::TooDeep));
    }
}

#[test]
fn the_number_of_entries_is_bounded_over_all_levels() {
    let entries = |count: usize| b"\x00V".repeat(count);
    assert_eq!(
        read(&entries(TABLE_ENTRIES_MAX)).unwrap().len(),
        TABLE_ENTRIES_MAX
    );
    assert_eq!(
        read(&entries(TABLE_ENTRIES_MAX + 1)),
        Err(ValueError::TooManyEntries)
    );

    let with_array = |elements: usize| {
        let mut payload = b"\x00A".to_vec();
        payload.extend(u32::try_from(elements).unwrap().to_be_bytes());
        payload.extend(b"V".repeat(elements));
        payload
    };
    assert!(read(&with_array(TABLE_ENTRIES_MAX - 1)).is_ok());
    assert_eq!(
        read(&with_array(TABLE_ENTRIES_MAX)),
        Err(ValueError::TooManyEntries)
    );
}

#[test]
fn keys_may_be_empty_and_come_twice() {
    let octets = hex("00 74 01  01 61 49 00000001  01 61 49 00000002");
    let table = read(&octets).unwrap();
    assert_eq!(table.get(b""), Some(&FieldValue::Bool(true)));
    assert_eq!(
        table.get(b"a"),
        Some(&FieldValue::Int(1)),
        "the first one counts"
    );
    assert_eq!(table.get(b"b"), None);
    assert_eq!(
        unhex(&write(&table)),
        unhex(&octets),
        "order and duplicates pass through"
    );
    assert_eq!(RawTable::new(&octets).get(b"a"), Some(RawValue::Int(1)));
}

#[test]
fn a_table_can_be_changed_in_place() {
    let mut table = FieldTable::new()
        .with("a", FieldValue::Int(1))
        .with("b", FieldValue::Int(2))
        .with("a", FieldValue::Int(3));
    table.set(ShortString::from_static("b"), FieldValue::Int(4));
    table.set(ShortString::from_static("c"), FieldValue::Int(5));
    assert!(table.remove(b"a"));
    assert!(!table.remove(b"a"));
    let expected = FieldTable::new()
        .with("b", FieldValue::Int(4))
        .with("c", FieldValue::Int(5));
    assert_eq!(table, expected);
}

#[test]
fn strings_are_slices_until_they_are_detached() {
    let chunk = Bytes::from(hex("03 6b6579 53 00000002 6869"));
    let table = FieldTable::decode_all(&chunk).unwrap();
    let key = |table: &FieldTable| table.iter().next().unwrap().0.as_bytes().as_ptr();
    let value = |table: &FieldTable| table.get(b"key").unwrap().as_bytes().unwrap().as_ptr();
    let range = chunk.as_ptr_range();
    assert!(range.contains(&key(&table)) && range.contains(&value(&table)));
    let detached = table.detach();
    assert!(!range.contains(&key(&detached)) && !range.contains(&value(&detached)));
    assert_eq!(table, detached);
}

#[test]
fn bindings_are_told_apart_by_types_but_not_by_the_order_of_keys() {
    let ab = FieldTable::new()
        .with("a", FieldValue::Int(1))
        .with("b", FieldValue::Int(2));
    let ba = FieldTable::new()
        .with("b", FieldValue::Int(2))
        .with("a", FieldValue::Int(1));
    assert_eq!(ab.canonical_bytes(), ba.canonical_bytes());

    let narrow = FieldTable::new().with("a", FieldValue::Int(1));
    let wide = FieldTable::new().with("a", FieldValue::Long(1));
    assert_ne!(narrow.canonical_bytes(), wide.canonical_bytes());

    // A duplicate makes another binding, and so does the order inside of a nested table.
    let twice = narrow.clone().with("a", FieldValue::Int(2));
    assert_ne!(narrow.canonical_bytes(), twice.canonical_bytes());
    let nest = |table| FieldTable::new().with("t", FieldValue::Table(table));
    assert_ne!(nest(ab).canonical_bytes(), nest(ba).canonical_bytes());
}

#[test]
fn a_second_declare_is_compared_by_value() {
    let five = [
        FieldValue::Byte(5),
        FieldValue::UnsignedByte(5),
        FieldValue::Short(5),
        FieldValue::UnsignedShort(5),
        FieldValue::Int(5),
        FieldValue::UnsignedInt(5),
        FieldValue::Long(5),
        FieldValue::Timestamp(Timestamp(5)),
    ];
    for a in &five {
        for b in &five {
            assert!(equivalent(a, b), "{a:?} {b:?}");
        }
        for other in [
            FieldValue::Int(6),
            FieldValue::text("5"),
            FieldValue::Double(5.0),
            FieldValue::Decimal(Decimal { scale: 0, value: 5 }),
            FieldValue::Void,
        ] {
            assert!(!equivalent(a, &other), "{a:?} {other:?}");
        }
    }
    assert!(equivalent(
        &FieldValue::Float(0.5),
        &FieldValue::Double(0.5)
    ));
    assert!(equivalent(
        &FieldValue::text("a"),
        &FieldValue::Bytes(Bytes::from_static(b"a"))
    ));
    assert!(!equivalent(&FieldValue::Int(1), &FieldValue::Bool(true)));
    assert!(!equivalent(
        &FieldValue::Long(-1),
        &FieldValue::Timestamp(Timestamp(u64::MAX))
    ));
}

#[test]
fn values_print_as_in_rabbitmqs_reply_texts() {
    let table = FieldTable::new()
        .with("a", FieldValue::Int(1))
        .with("b", FieldValue::text(vec![b'x', 0]));
    let array = FieldValue::Array(vec![FieldValue::Int(1), FieldValue::text("abc")]);
    for (value, text) in [
        (FieldValue::Int(-7), "-7"),
        (FieldValue::text("5"), "5"),
        (FieldValue::text(vec![0xFF, 0xFE]), "ÿþ"),
        (FieldValue::Bool(true), "true"),
        (FieldValue::Void, "undefined"),
        (FieldValue::Timestamp(Timestamp(6)), "6"),
        (FieldValue::Double(5.0), "5.0"),
        (FieldValue::Double(5.5), "5.5"),
        (FieldValue::Double(1e22), "1.0e22"),
        (FieldValue::Double(1e15), "1.0e15"),
        (FieldValue::Double(1.5e16), "1.5e16"),
        (FieldValue::Double(0.0001), "0.0001"),
        (FieldValue::Double(1e-5), "1.0e-5"),
        (FieldValue::Double(123_456_789.125), "123456789.125"),
        (FieldValue::Float(0.1), "0.10000000149011612"),
        (
            FieldValue::Table(table),
            "[{<<\"a\">>,signedint,1},{<<\"b\">>,longstr,<<120,0>>}]",
        ),
        (array, "[{signedint,1},{longstr,<<\"abc\">>}]"),
    ] {
        assert_eq!(value.to_string(), text);
    }
}

#[test]
fn short_strings_have_at_most_255_bytes() {
    assert_eq!(ShortString::try_from("x".repeat(255)).unwrap().len(), 255);
    assert_eq!(ShortString::try_from("x".repeat(256)).unwrap_err().len, 256);
    let cut = ShortString::cut(&format!("{}é", "x".repeat(254)));
    assert_eq!(cut.len(), 254, "cut at a border of characters");
    assert_eq!(cut.to_str().unwrap(), "x".repeat(254));
    assert!(
        ShortString::try_from(&b"\xff"[..])
            .unwrap()
            .to_str()
            .is_err()
    );
}
