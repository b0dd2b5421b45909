//! Where a reader starts.

use leveret_core::{
    ids::Timestamp,
    queue::{Command, Outcome, RequestId},
    stream::{StreamStart, StreamSubscription},
};
use leveret_wire::value::{FieldTable, FieldValue, Timestamp as Seconds};

use crate::scenario::StreamScenario;

fn ten() -> StreamScenario {
    let mut scenario = StreamScenario::new();
    scenario.publish_each(0..10);
    scenario
}

#[test]
fn every_start_has_its_first_message() {
    for (start, first) in [
        (StreamStart::First, 0),
        (StreamStart::Last, 9),
        (StreamStart::Next, 10),
        (StreamStart::Offset(0), 0),
        (StreamStart::Offset(7), 7),
        (StreamStart::Offset(10), 10),
        (StreamStart::Offset(12), 12),
        (StreamStart::Since(Timestamp::new(0)), 0),
        (StreamStart::Since(Timestamp::NEVER), 10),
    ] {
        let mut scenario = ten();
        let reader = scenario.subscribe(1, 100, start);
        scenario.publish_each(10..15);
        let expected: Vec<i64> = (first..15).collect();
        assert_eq!(scenario.take_offsets(reader), expected, "{start:?}");
    }
}

#[test]
fn a_time_is_the_first_message_that_came_then_or_later() {
    let mut scenario = StreamScenario::new();
    for number in 0..10 {
        scenario.now = 2_000_000 + number * 10;
        scenario.publish([number.to_string().as_str()]);
    }
    for (at, first) in [
        (2_000_000, 0),
        (2_000_030, 3),
        (2_000_031, 4),
        (2_000_091, 10),
    ] {
        let start = StreamStart::Since(Timestamp::new(at));
        let reader = scenario.subscribe(1, 100, start);
        let expected: Vec<i64> = (first..10).collect();
        assert_eq!(scenario.take_offsets(reader), expected, "{at}");
        scenario.crash();
    }
}

#[test]
fn a_time_is_looked_for_among_everything_that_was_there() {
    let mut scenario = StreamScenario::new();
    scenario.commits_late = true;
    scenario.publish(["old"]);
    scenario.now += 1000;
    scenario.publish(["young"]);
    let start = StreamStart::Since(Timestamp::new(scenario.now));
    let reader = scenario.subscribe(1, 100, start);
    scenario.commits_late = false;
    scenario.commit();
    assert_eq!(scenario.take_offsets(reader), [1]);
}

#[test]
fn what_comes_after_the_reader_is_not_missed_whatever_the_time() {
    let mut scenario = ten();
    let consumer = StreamScenario::reader(1);
    let subscription = StreamSubscription {
        request: RequestId(1000),
        consumer,
        prefetch: 100,
        start: StreamStart::Since(Timestamp::NEVER),
        filter: None,
    };
    scenario.submit(vec![Command::SubscribeStream(Box::new(subscription))]);
    // Before the reader is told that it may be served.
    scenario.publish_each(10..12);
    scenario.submit(vec![Command::Resume { consumer }]);
    assert_eq!(scenario.take_offsets(consumer), [10, 11]);
}

#[test]
fn an_empty_stream_is_read_from_what_comes() {
    for start in [
        StreamStart::First,
        StreamStart::Last,
        StreamStart::Next,
        StreamStart::Offset(0),
        StreamStart::Since(Timestamp::new(5)),
    ] {
        let mut scenario = StreamScenario::new();
        let reader = scenario.subscribe(1, 100, start);
        scenario.publish_each(0..3);
        assert_eq!(scenario.take_offsets(reader), [0, 1, 2], "{start:?}");
    }
}

#[test]
fn reading_removes_nothing_and_everybody_sees_everything() {
    let mut scenario = ten();
    let readers = [1, 2, 3].map(|number| scenario.subscribe(number, 100, StreamStart::First));
    for reader in readers {
        assert_eq!(scenario.take_offsets(reader), (0..10).collect::<Vec<_>>());
        scenario.settle(reader, 10, Outcome::Acked);
    }
    assert_eq!(scenario.depth().ready, 10);
    let again = scenario.subscribe(4, 100, StreamStart::First);
    assert_eq!(scenario.take_offsets(again).len(), 10);
}

#[test]
fn an_argument_says_where_to_start() {
    let now = Timestamp::new(10_000_000);
    let start =
        |value: FieldValue| StreamStart::of(&FieldTable::new().with("x-stream-offset", value), now);
    let text = FieldValue::text;
    for (value, expected) in [
        (text("first"), StreamStart::First),
        (text("last"), StreamStart::Last),
        (text("next"), StreamStart::Next),
        (FieldValue::Byte(3), StreamStart::Offset(3)),
        (FieldValue::Long(1 << 40), StreamStart::Offset(1 << 40)),
        (FieldValue::Int(-1), StreamStart::Offset(0)),
        (
            FieldValue::Timestamp(Seconds(5)),
            StreamStart::Since(Timestamp::new(5000)),
        ),
        (text("1h"), StreamStart::Since(Timestamp::new(6_400_000))),
        (text("1Y"), StreamStart::Since(Timestamp::new(0))),
    ] {
        assert_eq!(start(value.clone()), Ok(expected), "{value}");
    }
    assert_eq!(
        StreamStart::of(&FieldTable::new(), now),
        Ok(StreamStart::Next)
    );
    for (value, detail) in [
        (
            text("bogus"),
            "{invalid_stream_offset_arg,{longstr,<<\"bogus\">>}}",
        ),
        (
            text("0h"),
            "{invalid_stream_offset_arg,{longstr,<<\"0h\">>}}",
        ),
        (
            FieldValue::Double(1.5),
            "{invalid_stream_offset_arg,double}",
        ),
        (FieldValue::Void, "{invalid_stream_offset_arg,void}"),
    ] {
        assert_eq!(start(value), Err(detail.to_owned()));
    }
}
