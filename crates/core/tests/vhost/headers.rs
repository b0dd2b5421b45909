//! Headers exchanges compare binding arguments with the message's headers.

use bytes::Bytes;
use leveret_wire::value::{Decimal, FieldTable, FieldValue, ShortString, Timestamp};

use crate::scenario::{VhostScenario, binding, expect_refused, table, text};

fn int(number: i32) -> FieldValue {
    FieldValue::Int(number)
}

#[track_caller]
fn matches(arguments: &FieldTable, headers: &FieldTable) -> bool {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "headers");
    vhost.queue("q");
    vhost.bind_with("X", "q", "ignored", arguments.clone());
    !vhost.route_with("X", "whatever", headers).is_empty()
}

#[track_caller]
fn expect_match(arguments: &FieldTable, headers: &FieldTable) {
    assert!(
        matches(arguments, headers),
        "{arguments:?} should match {headers:?}"
    );
}

#[track_caller]
fn expect_no_match(arguments: &FieldTable, headers: &FieldTable) {
    assert!(
        !matches(arguments, headers),
        "{arguments:?} should not match {headers:?}"
    );
}

fn x_match(mode: &str) -> FieldTable {
    table("x-match", text(mode))
}

#[test]
fn all_is_the_default() {
    for arguments in [FieldTable::new(), x_match("all")] {
        let arguments = arguments.with("a", int(1)).with("b", text("two"));
        let fitting = table("b", text("two")).with("c", int(3)).with("a", int(1));
        expect_match(&arguments, &fitting);
        expect_no_match(&arguments, &table("a", int(1)));
        expect_no_match(&arguments, &table("a", int(1)).with("b", text("three")));
        expect_no_match(&arguments, &FieldTable::new());
    }
}

#[test]
fn any_wants_one() {
    let arguments = x_match("any").with("a", int(1)).with("b", text("two"));
    expect_match(&arguments, &table("a", int(1)));
    expect_match(&arguments, &table("a", int(5)).with("b", text("two")));
    expect_no_match(&arguments, &table("a", int(5)).with("b", text("three")));
    expect_no_match(&arguments, &FieldTable::new());
}

#[test]
fn keys_that_begin_with_x_count_only_where_the_mode_says_so() {
    let wanted = |mode| x_match(mode).with("x-a", int(1)).with("b", int(2));
    let only_b = table("b", int(2));
    let both = table("b", int(2)).with("x-a", int(1));
    let only_a = table("x-a", int(1));
    expect_match(&wanted("all"), &only_b);
    expect_no_match(&wanted("all-with-x"), &only_b);
    expect_match(&wanted("all-with-x"), &both);
    expect_no_match(&wanted("any"), &only_a);
    expect_match(&wanted("any-with-x"), &only_a);
    // `x-match` itself is never wanted, and a key `x` alone is an ordinary one.
    expect_match(&x_match("all-with-x"), &FieldTable::new());
    expect_no_match(&table("x", int(1)), &FieldTable::new());
}

#[test]
fn without_keys_all_matches_everything_and_any_nothing() {
    let something = table("a", int(1));
    for arguments in [
        FieldTable::new(),
        x_match("all"),
        x_match("all").with("x-a", int(1)),
    ] {
        expect_match(&arguments, &FieldTable::new());
        expect_match(&arguments, &something);
    }
    for arguments in [
        x_match("any"),
        x_match("any-with-x"),
        x_match("any").with("x-a", int(1)),
    ] {
        expect_no_match(&arguments, &FieldTable::new());
        expect_no_match(&arguments, &something);
    }
}

#[test]
fn void_wants_the_key_with_any_value() {
    let arguments = table("a", FieldValue::Void);
    for value in [int(1), text(""), FieldValue::Void, FieldValue::Bool(false)] {
        expect_match(&arguments, &table("a", value));
    }
    expect_match(&arguments, &table("a", FieldValue::Timestamp(Timestamp(1))));
    expect_no_match(&arguments, &table("b", int(1)));
    expect_no_match(&table("a", int(1)), &table("a", FieldValue::Void));
}

#[test]
fn keys_are_case_sensitive() {
    expect_no_match(&table("a", int(1)), &table("A", int(1)));
}

#[test]
fn widths_of_integers_do_not_matter() {
    let fives = [
        FieldValue::Byte(5),
        FieldValue::UnsignedByte(5),
        FieldValue::Short(5),
        FieldValue::UnsignedShort(5),
        FieldValue::Int(5),
        FieldValue::UnsignedInt(5),
        FieldValue::Long(5),
    ];
    for wanted in &fives {
        for found in &fives {
            expect_match(&table("a", wanted.clone()), &table("a", found.clone()));
        }
    }
    expect_no_match(&table("a", int(5)), &table("a", int(6)));
}

#[test]
fn floats_are_doubles_and_strings_are_bytes() {
    let (float, double) = (FieldValue::Float(0.5), FieldValue::Double(0.5));
    expect_match(&table("a", float.clone()), &table("a", double.clone()));
    expect_match(&table("a", double), &table("a", float));
    let (string, bytes) = (text("abc"), FieldValue::Bytes(Bytes::from_static(b"abc")));
    expect_match(&table("a", string.clone()), &table("a", bytes.clone()));
    expect_match(&table("a", bytes), &table("a", string));
}

#[test]
fn numbers_strings_and_truth_never_equal_each_other() {
    let ones = [
        int(1),
        text("1"),
        FieldValue::Bool(true),
        FieldValue::Double(1.0),
    ];
    for (at, wanted) in ones.iter().enumerate() {
        for (other, found) in ones.iter().enumerate() {
            let (wanted, found) = (table("a", wanted.clone()), table("a", found.clone()));
            assert_eq!(
                matches(&wanted, &found),
                at == other,
                "{wanted:?} {found:?}"
            );
        }
    }
}

#[test]
fn arrays_and_tables_compare_by_their_structure() {
    let array = |numbers: &[i32]| FieldValue::Array(numbers.iter().map(|n| int(*n)).collect());
    expect_match(&table("a", array(&[1, 2])), &table("a", array(&[1, 2])));
    expect_no_match(&table("a", array(&[1, 2])), &table("a", array(&[2, 1])));
    expect_no_match(&table("a", array(&[1, 2])), &table("a", array(&[1])));
    let nested = |number| FieldValue::Table(table("b", int(number)));
    let two = |first, second| FieldValue::Table(table(first, int(1)).with(second, int(1)));
    expect_match(&table("a", two("b", "c")), &table("a", two("b", "c")));
    expect_no_match(&table("a", two("b", "c")), &table("a", two("c", "b")));
    expect_match(&table("a", nested(1)), &table("a", nested(1)));
    expect_no_match(&table("a", nested(1)), &table("a", nested(2)));
    let nothing = || FieldValue::Table(FieldTable::new());
    expect_match(&table("a", array(&[])), &table("a", nothing()));
    expect_match(&table("a", nothing()), &table("a", array(&[])));
    expect_no_match(&table("a", nothing()), &table("a", nested(1)));
    let decimal = |value| FieldValue::Decimal(Decimal { scale: 2, value });
    expect_match(&table("a", decimal(314)), &table("a", decimal(314)));
    expect_no_match(&table("a", decimal(314)), &table("a", decimal(315)));
}

/// As a real RabbitMQ answered, all four.
#[test]
fn a_timestamp_of_a_message_equals_nothing_and_one_of_a_binding_equals_integers() {
    let timestamp = || table("a", FieldValue::Timestamp(Timestamp(5)));
    let integer = || table("a", FieldValue::Long(5));
    expect_no_match(&timestamp(), &timestamp());
    expect_no_match(&integer(), &timestamp());
    expect_match(&timestamp(), &integer());
    expect_no_match(&timestamp(), &table("a", FieldValue::Long(6)));
}

#[test]
fn of_two_entries_with_one_key_the_first_counts() {
    let twice = table("a", int(1)).with("a", int(2));
    expect_match(&twice, &table("a", int(1)));
    expect_no_match(&twice, &table("a", int(2)));
    expect_match(&table("a", int(1)), &twice);
    expect_no_match(&table("a", int(2)), &twice);
    let any = x_match("any").with("a", int(1)).with("a", int(2));
    expect_no_match(&any, &table("a", int(2)));
}

#[test]
fn unknown_modes_are_refused_when_they_are_bound() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "headers");
    vhost.queue("q");
    let mut refused = |value: FieldValue, text: &str| {
        let record = binding("X", "q", "", table("x-match", value));
        let text = format!("PRECONDITION_FAILED - Invalid x-match field {text}");
        expect_refused(vhost.try_bind(record), 406, &text);
    };
    let expected = "expected all, any, all-with-x, or any-with-x";
    refused(text("foo"), &format!("value <<\"foo\">>; {expected}"));
    refused(text("ALL"), &format!("value <<\"ALL\">>; {expected}"));
    refused(text(""), &format!("value <<>>; {expected}"));
    refused(int(5), "type signedint (value 5); expected longstr");
    refused(
        FieldValue::Bool(true),
        "type bool (value true); expected longstr",
    );
    let bytes = FieldValue::Bytes(Bytes::from_static(b"all"));
    refused(bytes, "type binary (value <<\"all\">>); expected longstr");
    assert_eq!(vhost.bindings_of("X"), 0);
}

#[test]
fn many_bindings_choose_each_for_itself() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "headers");
    for number in 0..20 {
        let queue = format!("q{number:02}");
        vhost.queue(&queue);
        vhost.bind_with("X", &queue, "", table("n", int(number / 2)));
    }
    assert_eq!(
        vhost.route_with("X", "", &table("n", int(3))),
        ["q06", "q07"]
    );
}

#[test]
fn large_tables_are_compared() {
    let key = |number: u32| ShortString::try_from(format!("key {number}")).expect("short");
    let entries = |range: std::ops::Range<u32>| -> FieldTable {
        range.map(|number| (key(number), int(1))).collect()
    };
    expect_match(&entries(0..4000), &entries(0..4096));
    expect_no_match(&entries(0..4096), &entries(0..4000));
}
