//! Readers far behind the end of the log, and what they cost.

use leveret_core::{
    ids::{ConsumerId, Seq},
    queue::{Command, Outcome},
    stream::{Ask, PAGE_ROWS_MAX, READS_MAX, StreamStart, TAIL_ROWS_MAX, Told},
};

use crate::scenario::StreamScenario;

const COUNT: u64 = 20_000;

fn filled() -> StreamScenario {
    let mut scenario = StreamScenario::new();
    for thousand in 0..COUNT / 1000 {
        let bodies: Vec<String> = (0..1000)
            .map(|n| (thousand * 1000 + n).to_string())
            .collect();
        scenario.publish(bodies.iter().map(String::as_str));
    }
    // Somebody was here and knows that all of it is on disk.
    let consumer = scenario.subscribe(99, 1, StreamStart::Next);
    scenario.submit(vec![Command::Unsubscribe { consumer }]);
    scenario
}

fn read_to_the_end(scenario: &mut StreamScenario, reader: ConsumerId, from: i64) {
    let mut expected = from;
    loop {
        let offsets = scenario.take_offsets(reader);
        if offsets.is_empty() {
            break;
        }
        for offset in offsets {
            assert_eq!(offset, expected);
            expected += 1;
        }
        scenario.settle(reader, 50, Outcome::Acked);
    }
    assert_eq!(expected, COUNT.cast_signed());
}

#[test]
fn nobody_reads_and_nothing_is_kept() {
    let mut scenario = filled();
    assert_eq!(scenario.stream.rows_in_memory(), 0);
    let reader = scenario.subscribe(1, 10, StreamStart::Next);
    scenario.publish_each(0..10);
    assert_eq!(scenario.stream.rows_in_memory(), 10);
    scenario.submit(vec![Command::Unsubscribe { consumer: reader }]);
    assert_eq!(scenario.stream.rows_in_memory(), 0);
}

#[test]
fn readers_at_several_places_read_everything_in_order() {
    let mut scenario = filled();
    let starts = [0, 5000, 19_990].map(|offset| {
        let number = u16::try_from(offset / 1000 + 1).unwrap();
        (
            scenario.subscribe(number, 100, StreamStart::Offset(offset)),
            offset,
        )
    });
    for (reader, offset) in starts {
        read_to_the_end(&mut scenario, reader, offset.cast_signed());
    }
    assert_eq!(scenario.missing, 0);
}

#[test]
fn memory_does_not_grow_with_the_log_or_a_slow_reader() {
    let mut scenario = filled();
    let slow = scenario.subscribe(1, 1, StreamStart::First);
    let live = scenario.subscribe(2, 0, StreamStart::Next);
    for _ in 0..20 {
        let bodies: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        scenario.publish(bodies.iter().map(String::as_str));
        scenario.take_offsets(live);
        scenario.settle(slow, 1, Outcome::Acked);
        assert!(scenario.stream.rows_in_memory() <= TAIL_ROWS_MAX + PAGE_ROWS_MAX);
    }
    assert_eq!(scenario.take_offsets(slow), (0..21).collect::<Vec<_>>());
}

#[test]
fn only_so_many_reads_are_under_way_and_everybody_has_a_turn() {
    let mut scenario = filled();
    scenario.reads_late = true;
    let readers: Vec<ConsumerId> = (1..20)
        .map(|number| scenario.subscribe(number, 10, StreamStart::First))
        .collect();
    assert_eq!(scenario.asks.len(), READS_MAX);
    while let Some(ask) = scenario.asks.pop_front() {
        scenario.answer(ask);
        assert!(scenario.asks.len() <= READS_MAX);
    }
    for reader in readers {
        assert_eq!(scenario.take_offsets(reader), (0..10).collect::<Vec<_>>());
    }
}

#[test]
fn a_read_for_a_reader_that_is_gone_makes_room_for_others() {
    let mut scenario = filled();
    scenario.reads_late = true;
    for number in 1..=4 {
        let reader = scenario.subscribe(number, 10, StreamStart::First);
        scenario.submit(vec![Command::Unsubscribe { consumer: reader }]);
    }
    let stays = scenario.subscribe(9, 10, StreamStart::First);
    assert_eq!(scenario.asks.len(), READS_MAX);
    scenario.answer_all();
    assert_eq!(scenario.take_offsets(stays).len(), 10);
}

#[test]
fn damage_stops_the_reader_that_meets_it_and_nobody_else() {
    let mut scenario = filled();
    scenario.reads_late = true;
    let damaged = scenario.subscribe(1, 10, StreamStart::First);
    scenario.asks.clear();
    let told = Told::Unreadable {
        reader: damaged,
        is_damage: true,
    };
    scenario.submit(vec![Command::Told(Box::new(told))]);
    assert!(scenario.asks.is_empty(), "it does not ask again");
    scenario.reads_late = false;
    let sound = scenario.subscribe(2, 10, StreamStart::Offset(100));
    assert_eq!(scenario.take_offsets(sound).len(), 10);
    assert!(scenario.take_offsets(damaged).is_empty());
}

#[test]
fn a_read_that_failed_is_asked_for_again_after_ever_longer_pauses() {
    let mut scenario = filled();
    scenario.reads_late = true;
    let reader = scenario.subscribe(1, 10, StreamStart::First);
    for failures in 1..=3 {
        assert!(matches!(scenario.asks.pop_front(), Some(Ask::Rows { .. })));
        let told = Told::Unreadable {
            reader,
            is_damage: false,
        };
        scenario.submit(vec![Command::Told(Box::new(told))]);
        assert_eq!(scenario.asks, [Ask::Pause { reader, failures }]);
        let pause = scenario.asks.pop_front().expect("it pauses");
        scenario.answer(pause);
    }
    scenario.answer_all();
    assert_eq!(scenario.take_offsets(reader), (0..10).collect::<Vec<_>>());
    assert_eq!(scenario.missing, 0);
}

#[test]
fn a_pause_for_a_reader_that_is_gone_asks_for_nothing() {
    let mut scenario = filled();
    scenario.reads_late = true;
    let reader = scenario.subscribe(1, 10, StreamStart::First);
    scenario.asks.clear();
    let told = Told::Unreadable {
        reader,
        is_damage: false,
    };
    scenario.submit(vec![Command::Told(Box::new(told))]);
    scenario.submit(vec![Command::Unsubscribe { consumer: reader }]);
    scenario.answer_all();
    assert!(scenario.asks.is_empty());
}

#[test]
fn rows_that_are_lost_are_told_of_and_passed_over() {
    let mut scenario = filled();
    scenario.store.lose(3);
    scenario.store.lose(4);
    let reader = scenario.subscribe(1, 5, StreamStart::First);
    assert_eq!(scenario.take_offsets(reader), [0, 1, 2, 5, 6]);
    assert_eq!(scenario.missing, 2);
}

#[test]
fn a_read_asks_for_no_more_than_a_page() {
    let mut scenario = filled();
    scenario.reads_late = true;
    scenario.subscribe(1, 10, StreamStart::Offset(7));
    let Some(Ask::Rows { from, rows_max, .. }) = scenario.asks.pop_front() else {
        panic!("nothing is read");
    };
    assert_eq!((from, rows_max), (Seq::new(7), PAGE_ROWS_MAX));
}
