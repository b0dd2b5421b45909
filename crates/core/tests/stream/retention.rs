//! The log ends at its old side, by whole segments.

use leveret_core::{
    ids::Timestamp,
    queue::{Command, Outcome},
    stream::{SEGMENTS_MAX, StreamSettings, StreamStart},
};

use crate::scenario::StreamScenario;

/// What a message of one digit counts, with its header and delivery mode.
const ROW: u64 = 40 + 2 + 3 + 1 + 2 + 4 + 1 + 15 + 1 + 8 + 1;

/// Segments of two messages.
fn by_bytes(max: u64) -> StreamScenario {
    StreamScenario::with(StreamSettings {
        max_length_bytes: Some(max),
        segment_bytes: 2 * ROW,
        ..StreamSettings::default()
    })
}

/// Segments of two messages, ten seconds.
fn by_age() -> StreamScenario {
    StreamScenario::with(StreamSettings {
        max_age_millis: Some(10_000),
        segment_bytes: 2 * ROW,
        ..StreamSettings::default()
    })
}

fn offsets(scenario: &StreamScenario) -> Vec<u64> {
    scenario.store.messages().map(|row| row.seq.get()).collect()
}

fn tick(scenario: &mut StreamScenario) {
    scenario.submit(vec![Command::Tick]);
}

#[test]
fn a_log_that_is_too_long_loses_its_oldest_segments() {
    let mut scenario = by_bytes(4 * ROW);
    scenario.publish_each(0..6);
    // The third segment is not full, and the length is looked at when one is.
    assert_eq!(offsets(&scenario), [0, 1, 2, 3, 4, 5]);
    scenario.publish_each(6..7);
    assert_eq!(offsets(&scenario), [2, 3, 4, 5, 6]);
    assert_eq!(scenario.depth().ready, 5);
}

#[test]
fn the_newest_segment_stays_however_small_the_limit() {
    let mut scenario = by_bytes(0);
    scenario.publish_each(0..2);
    assert_eq!(offsets(&scenario), [0, 1]);
    scenario.publish_each(2..3);
    assert_eq!(offsets(&scenario), [2]);
}

#[test]
fn without_a_limit_nothing_goes() {
    let mut scenario = StreamScenario::with(StreamSettings {
        segment_bytes: 0,
        ..StreamSettings::default()
    });
    scenario.publish_each(0..50);
    assert_eq!(scenario.depth().ready, 50);
    assert_eq!(scenario.stream.next_due(), None);
}

#[test]
fn a_segment_goes_when_all_of_it_is_too_old() {
    let mut scenario = by_age();
    scenario.now = 1_000_000;
    scenario.publish_each(0..3);
    scenario.now = 1_005_000;
    scenario.publish_each(3..5);
    // The first segment is as old as the beginning of the second.
    let due = scenario.stream.next_due();
    assert_eq!(due, Some(Timestamp::new(1_010_001)));
    scenario.now = 1_010_000;
    tick(&mut scenario);
    assert_eq!(offsets(&scenario), [0, 1, 2, 3, 4]);
    scenario.now = 1_010_001;
    tick(&mut scenario);
    assert_eq!(offsets(&scenario), [2, 3, 4]);
    scenario.now = 9_000_000;
    tick(&mut scenario);
    assert_eq!(offsets(&scenario), [4], "the newest segment stays");
    assert_eq!(scenario.stream.next_due(), None);
}

#[test]
fn limits_hold_after_a_restart() {
    let mut scenario = by_bytes(4 * ROW);
    scenario.publish_each(0..5);
    scenario.crash();
    scenario.publish_each(5..9);
    assert_eq!(offsets(&scenario), [4, 5, 6, 7, 8]);
    assert_eq!(scenario.missing, 0);
}

#[test]
fn ages_hold_after_a_restart_although_nobody_comes() {
    let mut scenario = by_age();
    scenario.publish_each(0..5);
    scenario.crash();
    let due = scenario
        .stream
        .next_due()
        .expect("it looks after its segments");
    assert!(due <= Timestamp::new(scenario.now));
    scenario.now += 20_000;
    tick(&mut scenario);
    assert_eq!(offsets(&scenario), [4]);
}

#[test]
fn what_came_before_segments_were_known_again_is_counted() {
    let mut scenario = by_bytes(6 * ROW);
    scenario.publish_each(0..5);
    scenario.crash();
    scenario.reads_late = true;
    scenario.publish_each(5..9);
    assert_eq!(offsets(&scenario).len(), 9, "nothing is cut in the dark");
    scenario.reads_late = false;
    scenario.answer_all();
    scenario.publish_each(9..10);
    // The segment that was open at the restart took all of them.
    assert_eq!(offsets(&scenario), [4, 5, 6, 7, 8, 9]);
    scenario.publish_each(10..12);
    assert_eq!(offsets(&scenario), [9, 10, 11]);
}

#[test]
fn a_reader_behind_the_beginning_goes_on_at_the_beginning() {
    let mut scenario = by_bytes(4 * ROW);
    scenario.publish_each(0..4);
    let reader = scenario.subscribe(1, 1, StreamStart::First);
    assert_eq!(scenario.take_offsets(reader), [0]);
    scenario.submit(vec![Command::Pause { consumer: reader }]);
    scenario.crash();
    let reader = scenario.subscribe(1, 1, StreamStart::First);
    scenario.submit(vec![Command::Pause { consumer: reader }]);
    scenario.publish_each(4..9);
    let late = scenario.subscribe(2, 3, StreamStart::Offset(0));
    // The first message behind the restart joined the segment that was open.
    assert_eq!(scenario.take_offsets(late), [5, 6, 7]);
    assert_eq!(scenario.missing, 0);
}

#[test]
fn a_live_reader_sees_everything_in_spite_of_a_small_log() {
    let mut scenario = by_bytes(0);
    let reader = scenario.subscribe(1, 2, StreamStart::First);
    for number in 0..20 {
        scenario.publish_each(number..number + 1);
        assert_eq!(scenario.take_offsets(reader), [number.cast_signed()]);
        scenario.settle(reader, 1, Outcome::Acked);
    }
    assert_eq!(scenario.missing, 0);
}

#[test]
fn segments_are_so_many_at_most() {
    let mut scenario = StreamScenario::with(StreamSettings {
        segment_bytes: 0,
        max_length_bytes: Some(3000 * ROW),
        ..StreamSettings::default()
    });
    for number in 0..5000 {
        scenario.publish(["1"]);
        assert!(scenario.segment_rows() <= SEGMENTS_MAX, "{number}");
    }
    let kept = scenario.depth().ready;
    assert!((2900..=3000).contains(&kept), "{kept}");
    assert!(scenario.segment_rows() > SEGMENTS_MAX / 4);
}
