//! Nobody sees what is not on disk.

use leveret_core::stream::StreamStart;

use crate::scenario::StreamScenario;

#[test]
fn a_reader_gets_a_message_when_it_is_on_disk() {
    let mut scenario = StreamScenario::new();
    let reader = scenario.subscribe(1, 100, StreamStart::First);
    scenario.commits_late = true;
    scenario.publish(["a", "b"]);
    assert!(scenario.take_offsets(reader).is_empty());
    assert!(scenario.confirmed.is_empty());
    scenario.commit();
    assert_eq!(scenario.confirmed, [2, 3]);
    assert_eq!(scenario.take_offsets(reader), [0, 1]);
}

#[test]
fn an_offset_that_somebody_saw_means_the_same_message_after_a_crash() {
    let mut scenario = StreamScenario::new();
    scenario.publish(["kept"]);
    let reader = scenario.subscribe(1, 100, StreamStart::First);
    scenario.commits_late = true;
    scenario.publish(["lost"]);
    let seen = scenario.got[&reader].clone();
    scenario.crash();
    scenario.commits_late = false;
    scenario.publish(["another"]);
    let reader = scenario.subscribe(1, 100, StreamStart::First);
    let got = scenario.got[&reader].clone();
    assert_eq!(seen, [(0, "kept".to_owned())]);
    assert_eq!(got, [(0, "kept".to_owned()), (1, "another".to_owned())]);
}

#[test]
fn what_is_committed_later_goes_out_later() {
    let mut scenario = StreamScenario::new();
    let reader = scenario.subscribe(1, 100, StreamStart::First);
    scenario.reads_late = true;
    scenario.publish(["a"]);
    scenario.publish(["b"]);
    let first = scenario.asks.pop_front().unwrap();
    scenario.answer(first);
    assert_eq!(scenario.take_offsets(reader), [0]);
    scenario.answer_all();
    assert_eq!(scenario.take_offsets(reader), [1]);
}

#[test]
fn without_readers_nobody_asks_what_is_on_disk() {
    let mut scenario = StreamScenario::new();
    scenario.reads_late = true;
    scenario.publish(["a", "b"]);
    assert!(scenario.asks.is_empty());
    let reader = scenario.subscribe(1, 100, StreamStart::First);
    scenario.reads_late = false;
    scenario.answer_all();
    assert_eq!(scenario.take_offsets(reader), [0, 1]);
}
