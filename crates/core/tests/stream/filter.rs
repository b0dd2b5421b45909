//! Readers that want some messages only.

use leveret_core::{
    queue::{Command, Outcome},
    stream::{PAGE_ROWS_MAX, StreamFilter, StreamStart, TAIL_ROWS_MAX},
};
use leveret_wire::{
    content::BasicProperties,
    value::{FieldTable, FieldValue},
};

use crate::scenario::{StreamScenario, message};

fn publish(scenario: &mut StreamScenario, value: Option<FieldValue>) {
    let headers = value.map(|value| FieldTable::new().with("x-stream-filter-value", value));
    let properties = BasicProperties {
        headers,
        ..BasicProperties::default()
    };
    let raw = properties.encode();
    let enqueue = Command::Enqueue {
        message: message("body", raw.as_bytes()),
        confirm: None,
    };
    scenario.submit(vec![enqueue]);
}

fn filter(arguments: FieldTable) -> Option<StreamFilter> {
    StreamFilter::of(&arguments)
}

fn text(text: &str) -> FieldValue {
    FieldValue::text(text)
}

#[test]
fn a_reader_gets_what_it_wants() {
    let any = |values: Vec<FieldValue>| {
        FieldTable::new().with("x-stream-filter", FieldValue::Array(values))
    };
    let with_others =
        any(vec![text("a")]).with("x-stream-match-unfiltered", FieldValue::Bool(true));
    for (number, (arguments, expected)) in [
        (FieldTable::new(), vec![0, 1, 2, 3, 4]),
        (any(vec![]), vec![0, 1, 2, 3, 4]),
        (any(vec![FieldValue::Int(5)]), vec![0, 1, 2, 3, 4]),
        (
            FieldTable::new().with("x-stream-filter", text("a")),
            vec![0, 4],
        ),
        (any(vec![FieldValue::Int(5), text("a")]), vec![0, 4]),
        (any(vec![text("a"), text("b")]), vec![0, 1, 4]),
        (any(vec![text("")]), vec![2, 3]),
        (with_others, vec![0, 2, 3, 4]),
    ]
    .into_iter()
    .enumerate()
    {
        let mut scenario = StreamScenario::new();
        let int = FieldValue::Int(5);
        for value in [
            Some(text("a")),
            Some(text("b")),
            None,
            Some(int),
            Some(text("a")),
        ] {
            publish(&mut scenario, value);
        }
        let reader = scenario.subscribe_filtered(1, 100, StreamStart::First, filter(arguments));
        assert_eq!(scenario.take_offsets(reader), expected, "case {number}");
    }
}

#[test]
fn what_is_passed_over_costs_no_credit() {
    let mut scenario = StreamScenario::new();
    let wanted = filter(FieldTable::new().with("x-stream-filter", text("a")));
    let reader = scenario.subscribe_filtered(1, 1, StreamStart::First, wanted);
    for value in ["b", "a", "b", "a", "b"] {
        publish(&mut scenario, Some(text(value)));
    }
    assert_eq!(scenario.take_offsets(reader), [1]);
    scenario.settle(reader, 1, Outcome::Acked);
    assert_eq!(scenario.take_offsets(reader), [3]);
    scenario.settle(reader, 1, Outcome::Acked);
    assert!(scenario.take_offsets(reader).is_empty());
    publish(&mut scenario, Some(text("a")));
    assert_eq!(scenario.take_offsets(reader), [5]);
}

#[test]
fn pages_without_anything_wanted_are_passed_over() {
    let mut scenario = StreamScenario::new();
    let many = (TAIL_ROWS_MAX + 3 * PAGE_ROWS_MAX) as u64;
    publish(&mut scenario, Some(text("a")));
    scenario.publish_each(1..many);
    publish(&mut scenario, Some(text("a")));
    let wanted = filter(FieldTable::new().with("x-stream-filter", text("a")));
    let reader = scenario.subscribe_filtered(1, 10, StreamStart::First, wanted);
    scenario.answer_all();
    let last = i64::try_from(many).unwrap();
    assert_eq!(scenario.take_offsets(reader), [0, last]);
}
