//! Whoever looks sees what there is and changes nothing.

use leveret_core::{
    arguments::QueueSettings,
    ids::Seq,
    queue::{Look, Outcome, Standing},
};
use leveret_wire::value::{FieldTable, FieldValue};

use crate::scenario::{QueueScenario, Stop, prefetch};

const ALL: Look = Look {
    after: None,
    limit: 100,
    ready: true,
    unacked: true,
    retrying: true,
};

/// Body, whether somebody has it, and whether somebody had it.
fn seen(queue: &QueueScenario, look: Look) -> Vec<(String, bool, bool)> {
    let found = queue.look(look);
    let seen = found.seen.iter().map(|seen| {
        let body = String::from_utf8_lossy(seen.message.body()).into_owned();
        (body, seen.standing != Standing::Ready, seen.redelivered)
    });
    seen.collect()
}

fn is(body: &str, is_held: bool, was_held: bool) -> (String, bool, bool) {
    (body.to_owned(), is_held, was_held)
}

#[test]
fn messages_are_seen_in_the_order_in_which_they_came() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(2));
    queue.publish(["one", "two", "three"]);
    queue.expect_deliveries(alice, ["one", "two"]);
    queue.settle("one", Outcome::Returned);
    queue.expect_redeliveries(alice, ["one"]);
    let everything = [
        is("one", true, true),
        is("two", true, false),
        is("three", false, false),
    ];
    assert_eq!(seen(&queue, ALL), everything);
    // Once more: nothing has changed.
    assert_eq!(seen(&queue, ALL), everything);
    queue.expect_depth(1, 2);
    queue.ack("one");
    queue.expect_deliveries(alice, ["three"]);
}

#[test]
fn a_page_goes_on_behind_the_last_one() {
    let mut queue = QueueScenario::transient();
    queue.publish(["one", "two", "three", "four"]);
    let page = Look { limit: 2, ..ALL };
    let first = queue.look(page);
    assert_eq!(
        seen(&queue, page),
        [is("one", false, false), is("two", false, false)]
    );
    let next = Look {
        after: first.seen.last().map(|last| last.seq),
        ..page
    };
    assert_eq!(
        seen(&queue, next),
        [is("three", false, false), is("four", false, false)]
    );
}

#[test]
fn only_what_is_asked_for_is_seen() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one", "two"]);
    queue.get();
    let ready = Look {
        unacked: false,
        ..ALL
    };
    assert_eq!(seen(&queue, ready), [is("two", false, false)]);
    let unacked = Look {
        ready: false,
        ..ALL
    };
    assert_eq!(seen(&queue, unacked), [is("one", true, false)]);
}

#[test]
fn what_is_on_disk_only_is_told_with_its_place() {
    let mut queue = QueueScenario::durable();
    queue.publish(["one", "two", "three"]);
    queue.restart(Stop::Clean);
    let found = queue.look(ALL);
    assert!(found.seen.is_empty());
    let [part] = found.cold.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(part.until.get() - part.from.get(), 3);
    let behind = Look {
        after: Some(Seq::new(part.until.get() - 2)),
        ..ALL
    };
    assert_eq!(queue.look(behind).cold[0].from.get(), part.until.get() - 1);
    let unacked = Look {
        ready: false,
        retrying: false,
        ..ALL
    };
    assert!(queue.look(unacked).cold.is_empty());
}

#[test]
fn what_is_held_back_on_disk_is_told_with_its_place_and_until_when() {
    let arguments = FieldTable::new().with("x-retry-min", FieldValue::Int(100));
    let settings = QueueSettings::of(&arguments);
    let mut queue = QueueScenario::with(settings).with_unacked_bytes_max(0);
    queue.publish(["one"]);
    queue.get();
    queue.settle("one", Outcome::Failed);
    let found = queue.look(ALL);
    let [one] = found.single.as_slice() else {
        panic!("{found:?}");
    };
    assert!(matches!(one.standing, Standing::Retrying(_)), "{one:?}");
    let others = Look {
        retrying: false,
        ..ALL
    };
    assert!(queue.look(others).single.is_empty());
}
