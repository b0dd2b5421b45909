//! How much a reader gets before it settles.

use leveret_core::{
    ids::ConnectionId,
    queue::{Command, Outcome},
    stream::StreamStart,
};

use crate::scenario::StreamScenario;

#[test]
fn settling_gives_room_however_it_ends() {
    for outcome in [Outcome::Acked, Outcome::Returned, Outcome::Rejected] {
        let mut scenario = StreamScenario::new();
        scenario.publish_each(0..10);
        let reader = scenario.subscribe(1, 2, StreamStart::First);
        assert_eq!(scenario.take_offsets(reader), [0, 1]);
        scenario.settle(reader, 1, outcome);
        assert_eq!(scenario.take_offsets(reader), [2]);
        scenario.settle(reader, 2, outcome);
        assert_eq!(scenario.take_offsets(reader), [3, 4]);
        assert_eq!(scenario.depth().unacked, 2);
        assert_eq!(scenario.depth().ready, 10);
    }
}

#[test]
fn one_message_may_be_held_by_several_readers() {
    let mut scenario = StreamScenario::new();
    scenario.publish_each(0..3);
    let one = scenario.subscribe(1, 1, StreamStart::First);
    let two = scenario.subscribe(2, 1, StreamStart::First);
    scenario.take_offsets(one);
    scenario.take_offsets(two);
    scenario.settle(one, 1, Outcome::Acked);
    assert_eq!(scenario.take_offsets(one), [1]);
    assert!(
        scenario.take_offsets(two).is_empty(),
        "it has settled nothing"
    );
}

#[test]
fn a_settle_that_comes_twice_does_no_harm() {
    let mut scenario = StreamScenario::new();
    scenario.publish_each(0..5);
    let reader = scenario.subscribe(1, 1, StreamStart::First);
    let seq = scenario.held[&reader][0];
    let settle = || Command::Settle {
        handout: leveret_core::ids::Handout::default(),
        seq,
        outcome: Outcome::Acked,
        more: false,
    };
    scenario.submit(vec![settle(), settle()]);
    assert_eq!(scenario.take_offsets(reader), [0, 1]);
}

#[test]
fn a_paused_reader_waits_and_the_others_go_on() {
    let mut scenario = StreamScenario::new();
    let one = scenario.subscribe(1, 100, StreamStart::First);
    let two = scenario.subscribe(2, 100, StreamStart::First);
    scenario.submit(vec![Command::Pause { consumer: one }]);
    scenario.publish_each(0..3);
    assert!(scenario.take_offsets(one).is_empty());
    assert_eq!(scenario.take_offsets(two), [0, 1, 2]);
    scenario.submit(vec![Command::Resume { consumer: one }]);
    assert_eq!(scenario.take_offsets(one), [0, 1, 2]);
}

#[test]
fn what_a_cancelled_reader_holds_can_still_be_settled() {
    let mut scenario = StreamScenario::new();
    scenario.publish_each(0..3);
    let reader = scenario.subscribe(1, 2, StreamStart::First);
    scenario.submit(vec![Command::Unsubscribe { consumer: reader }]);
    assert_eq!(scenario.stream.consumer_count(), 0);
    assert_eq!(scenario.depth().unacked, 2);
    scenario.take_offsets(reader);
    scenario.settle(reader, 2, Outcome::Acked);
    assert_eq!(scenario.depth().unacked, 0);
    assert!(scenario.take_offsets(reader).is_empty());
}

#[test]
fn the_end_of_a_channel_ends_its_readers_and_what_they_hold() {
    let mut scenario = StreamScenario::new();
    scenario.publish_each(0..3);
    let one = scenario.subscribe(1, 2, StreamStart::First);
    let two = scenario.subscribe(2, 2, StreamStart::First);
    let release = |ended| Command::Release {
        channel: one.channel,
        ended,
    };
    scenario.take_offsets(one);
    scenario.submit(vec![release(false)]);
    assert_eq!(scenario.take_offsets(one), [2], "released is settled");
    scenario.submit(vec![release(true)]);
    assert_eq!(scenario.stream.consumer_count(), 1);
    assert_eq!(scenario.depth().unacked, 2);
    assert_eq!(scenario.take_offsets(two), [0, 1]);
}

#[test]
fn the_end_of_a_connection_ends_its_readers() {
    let mut scenario = StreamScenario::new();
    scenario.publish_each(0..3);
    let one = scenario.subscribe(1, 2, StreamStart::First);
    scenario.subscribe(2, 2, StreamStart::First);
    let disconnect = |connection| Command::Disconnect { connection };
    scenario.submit(vec![disconnect(ConnectionId::new(7))]);
    assert_eq!(scenario.stream.consumer_count(), 2);
    scenario.submit(vec![disconnect(one.channel.connection)]);
    assert_eq!(scenario.stream.consumer_count(), 0);
    assert_eq!(scenario.depth().unacked, 0);
}

#[test]
fn a_deleted_stream_tells_its_readers_and_takes_everything_with_it() {
    let mut scenario = StreamScenario::new();
    scenario.publish_each(0..3);
    let reader = scenario.subscribe(1, 2, StreamStart::First);
    let delete = Command::Delete {
        request: leveret_core::queue::RequestId(1),
        if_unused: true,
        if_empty: true,
    };
    scenario.submit(vec![delete]);
    assert!(!scenario.held.contains_key(&reader), "it was cancelled");
    assert!(scenario.store.is_deleted);
    let confirmed = scenario.confirmed.len();
    scenario.publish(["late"]);
    assert_eq!(scenario.confirmed.len(), confirmed + 1);
}
