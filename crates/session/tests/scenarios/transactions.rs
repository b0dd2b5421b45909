//! `tx.select`, `commit` and `rollback`.

use bytes::BytesMut;
use leveret_core::queue::Outcome;
use leveret_session::{Answer, Call, ChannelEnd, Commit, Promise, Settings, Settle};
use leveret_wire::{
    RawProperties,
    method::{basic, channel, confirm, tx},
};

use crate::support::{
    Event, MISSING, NOBODY, Scenario, at, body_frame, header_frame, key, method_frame,
    publish_method, queue_id, short, tune_ok,
};

const COMMIT: (u16, u16) = (90, 20);

/// A transactional channel 1 with that many deliveries; their seqs are ten times their tags.
fn with_deliveries(count: u64) -> Scenario {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, tx::Select {});
    scenario.expect(1, tx::SelectOk {});
    let consumer = scenario.consume(1, "q", "t", false);
    for tag in 1..=count {
        assert!(scenario.deliver(consumer, "q", tag * 10, b"x"));
    }
    scenario.forget();
    scenario
}

fn ack(tag: u64, multiple: bool) -> basic::Ack {
    basic::Ack {
        delivery_tag: tag.into(),
        multiple,
    }
}

fn settle(seq: u64, outcome: Outcome) -> Settle {
    Settle {
        channel: key(1, 1),
        at: at("q", seq),
        outcome,
        continues: false,
    }
}

/// The same as a part of the step before.
fn together(settle: Settle) -> Settle {
    Settle {
        continues: true,
        ..settle
    }
}

/// A commit of these settles, and the call behind it.
fn committed(number: u64, settles: Vec<Settle>) -> [Event; 2] {
    let channel = key(1, 1);
    let commit = Commit {
        channel,
        number,
        settles,
    };
    [Event::Commit(commit), Event::Call(Call::Commit(channel))]
}

fn mandatory(body: &[u8]) -> BytesMut {
    let publish = basic::Publish {
        mandatory: true,
        ..publish_method("x", NOBODY)
    };
    let mut bytes = method_frame(1, publish);
    let size = body.len() as u64;
    bytes.extend_from_slice(&header_frame(1, size, &RawProperties::EMPTY));
    bytes.extend_from_slice(&body_frame(1, body));
    bytes
}

#[track_caller]
fn expect_return(scenario: &mut Scenario, body: &[u8]) {
    scenario.expect(
        1,
        basic::Return {
            reply_code: 312,
            reply_text: short("NO_ROUTE"),
            exchange: short("x"),
            routing_key: short(NOBODY),
        },
    );
    scenario.expect_body(1, body);
}

#[test]
fn publishes_are_staged_at_once_for_a_commit_that_is_answered_later() {
    let mut scenario = with_deliveries(0);
    scenario.is_holding_answers = true;
    scenario.publish(1, "x", "k", b"one");
    let publish = scenario.the_publish();
    assert_eq!(
        (publish.promise, publish.channel),
        (Promise::Commit, key(1, 1))
    );
    scenario.send(1, tx::Commit {});
    assert_eq!(scenario.events(), committed(1, vec![]));
    scenario.expect_nothing();
    scenario.answer(Answer::Committed { accepted: true });
    scenario.expect(1, tx::CommitOk {});
    scenario.send(1, tx::Commit {});
    assert_eq!(scenario.events(), committed(2, vec![]));
}

#[test]
fn a_refusal_makes_the_commit_fail() {
    let mut scenario = with_deliveries(0);
    scenario.answer_next(Answer::Committed { accepted: false });
    scenario.send(1, tx::Commit {});
    let text = "PRECONDITION_FAILED - partial tx completion";
    scenario.expect_channel_close(1, 406, text, COMMIT);
}

#[test]
fn settles_wait_for_the_commit_in_their_order() {
    let mut scenario = with_deliveries(4);
    let nack = basic::Nack {
        delivery_tag: 4.into(),
        multiple: false,
        requeue: true,
    };
    scenario.send(1, nack);
    scenario.send(1, ack(2, true));
    let reject = basic::Reject {
        delivery_tag: 3.into(),
        requeue: false,
    };
    scenario.send(1, reject);
    assert_eq!(scenario.events(), []);
    scenario.send(1, tx::Commit {});
    let settles = vec![
        settle(40, Outcome::Returned),
        settle(10, Outcome::Acked),
        together(settle(20, Outcome::Acked)),
        settle(30, Outcome::Rejected),
    ];
    assert_eq!(scenario.events(), committed(1, settles));
    scenario.expect(1, tx::CommitOk {});
    scenario.send(1, ack(0, true));
    scenario.send(1, tx::Commit {});
    assert_eq!(scenario.events(), committed(2, vec![]));
}

#[test]
fn a_tag_is_settled_once_also_before_the_commit() {
    let mut scenario = with_deliveries(1);
    scenario.send(1, ack(1, false));
    scenario.send(1, ack(1, false));
    let text = "PRECONDITION_FAILED - unknown delivery tag 1";
    scenario.expect_channel_close(1, 406, text, (60, 80));
}

#[test]
fn a_rollback_makes_deliveries_unacked_again_and_drops_publishes_and_returns() {
    let mut scenario = with_deliveries(3);
    scenario.send(1, ack(2, false));
    scenario.send(1, ack(0, true));
    scenario.send_bytes(&mandatory(b"back"));
    scenario.forget();
    scenario.send(1, tx::Rollback {});
    scenario.expect(1, tx::RollbackOk {});
    assert_eq!(scenario.events(), [Event::Rollback(key(1, 1))]);
    scenario.send(1, ack(2, true));
    scenario.send(1, tx::Commit {});
    let settles = vec![
        settle(10, Outcome::Acked),
        together(settle(20, Outcome::Acked)),
    ];
    assert_eq!(scenario.events(), committed(1, settles));
    scenario.expect(1, tx::CommitOk {});
    scenario.expect_nothing();
}

#[test]
fn returns_come_before_commit_ok() {
    let mut scenario = with_deliveries(0);
    scenario.send_bytes(&mandatory(b"one"));
    scenario.send_bytes(&mandatory(b"two"));
    scenario.expect_nothing();
    scenario.send(1, tx::Commit {});
    expect_return(&mut scenario, b"one");
    expect_return(&mut scenario, b"two");
    scenario.expect(1, tx::CommitOk {});
    scenario.send(1, tx::Commit {});
    scenario.expect(1, tx::CommitOk {});
    scenario.expect_nothing();
}

#[test]
fn recover_leaves_what_the_transaction_settled() {
    let mut scenario = with_deliveries(2);
    scenario.send(1, ack(1, false));
    scenario.send(1, basic::Recover { requeue: true });
    scenario.expect(1, basic::RecoverOk {});
    let returned = Event::Settle(settle(20, Outcome::Returned));
    assert_eq!(scenario.events(), [Event::Call(Call::CatchUp), returned]);
    scenario.send(1, tx::Commit {});
    assert_eq!(
        scenario.events(),
        committed(1, vec![settle(10, Outcome::Acked)])
    );
}

#[test]
fn the_end_of_the_channel_releases_what_was_settled() {
    let mut scenario = with_deliveries(1);
    let cancel = basic::Cancel {
        consumer_tag: short("t"),
        nowait: true,
    };
    scenario.send(1, ack(1, false));
    scenario.send(1, cancel);
    scenario.forget();
    let queues = vec![queue_id("q")];
    let end = ChannelEnd {
        channel: key(1, 1),
        queues,
    };
    assert_eq!(
        scenario.connection.open_channels(),
        std::slice::from_ref(&end)
    );
    scenario.send(1, channel::Close::default());
    assert_eq!(scenario.the_call(), Call::CloseChannel(end));
}

#[test]
fn a_bad_publish_closes_the_channel_when_it_comes() {
    let mut scenario = with_deliveries(0);
    scenario.publish(1, MISSING, "k", b"x");
    let text = "NOT_FOUND - no exchange 'missing' in vhost '/'";
    scenario.expect_channel_close(1, 404, text, (60, 40));
}

#[test]
fn the_modes_exclude_each_other() {
    let mut scenario = Scenario::with_channel();
    for (first, second, text, blamed) in [
        (
            method_frame(1, confirm::Select { nowait: true }),
            method_frame(1, tx::Select {}),
            "PRECONDITION_FAILED - cannot switch from confirm to tx mode",
            (90, 10),
        ),
        (
            method_frame(1, tx::Select {}),
            method_frame(1, confirm::Select { nowait: false }),
            "PRECONDITION_FAILED - cannot switch from tx to confirm mode",
            (85, 10),
        ),
        (
            BytesMut::new(),
            method_frame(1, tx::Commit {}),
            "PRECONDITION_FAILED - channel is not transactional",
            COMMIT,
        ),
        (
            method_frame(1, confirm::Select { nowait: true }),
            method_frame(1, tx::Rollback {}),
            "PRECONDITION_FAILED - channel is not transactional",
            (90, 30),
        ),
    ] {
        scenario.send_bytes(&first);
        scenario.forget();
        scenario.send_bytes(&second);
        scenario.expect_channel_close(1, 406, text, blamed);
        scenario.open_channel(1);
    }
}

#[test]
fn selecting_again_changes_nothing() {
    let mut scenario = with_deliveries(1);
    scenario.send(1, ack(1, false));
    scenario.send(1, tx::Select {});
    scenario.expect(1, tx::SelectOk {});
    scenario.send(1, tx::Commit {});
    assert_eq!(
        scenario.events(),
        committed(1, vec![settle(10, Outcome::Acked)])
    );
}

#[test]
fn what_waits_for_commits_is_bounded_over_all_channels() {
    let settings = Settings {
        transaction_max: 10_000,
        ..Settings::default()
    };
    let mut scenario = Scenario::open_with(settings, tune_ok(9, 131_072, 0));
    for channel in [1, 2] {
        scenario.open_channel(channel);
        scenario.send(channel, tx::Select {});
        scenario.expect(channel, tx::SelectOk {});
    }
    scenario.forget();
    let text = "PRECONDITION_FAILED - open transactions on this connection exceed 10000 bytes";
    // Whatever ends a transaction makes room.
    for end in [
        method_frame(1, tx::Commit {}),
        method_frame(1, tx::Rollback {}),
        {
            let mut close = method_frame(1, channel::Close::default());
            close.extend_from_slice(&method_frame(1, channel::Open::default()));
            close.extend_from_slice(&method_frame(1, tx::Select {}));
            close
        },
    ] {
        scenario.publish(1, "x", "k", &[0; 5000]);
        scenario.send_bytes(&end);
        scenario.forget();
    }
    scenario.publish(1, "x", "k", &[0; 5000]);
    scenario.expect_nothing();
    scenario.publish(2, "x", "k", &[0; 5000]);
    scenario.expect_channel_close(2, 406, text, (60, 40));
    scenario.publish(1, "x", "k", &[0; 3000]);
    scenario.expect_nothing();
    for _ in 0..20 {
        scenario.publish(1, "x", "k", b"");
    }
    scenario.expect_channel_close(1, 406, text, (60, 40));
}

#[test]
fn sc13_a_transaction_counts_every_queue_that_its_publishes_lead_to() {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, tx::Select {});
    scenario.expect(1, tx::SelectOk {});
    scenario.sink.queues = Some(100_000);
    // Each is a few bytes, and a hundred thousand commands.
    for _ in 0..5 {
        scenario.publish(1, "fanout", "k", b"");
    }
    scenario.expect_nothing();
    scenario.publish(1, "fanout", "k", b"");
    let text = "PRECONDITION_FAILED - open transactions on this connection exceed 67108864 bytes";
    scenario.expect_channel_close(1, 406, text, (60, 40));
}

#[test]
fn a_commit_is_decided_by_the_last_queue() {
    let mut scenario = with_deliveries(0);
    let outgoing = &mut scenario.outgoing;
    for (number, accepted) in [(1, true), (2, false)] {
        outgoing.expect_commit(key(1, 1), number, 2);
        outgoing.confirm(key(1, 1), number, true);
        outgoing.flush_confirms();
        assert!(!outgoing.has_commit());
        outgoing.confirm(key(1, 1), number, accepted);
        outgoing.flush_confirms();
        assert_eq!(outgoing.take_commit(), Some(accepted));
    }
    outgoing.expect_commit(key(1, 1), 3, 0);
    outgoing.flush_confirms();
    assert_eq!(outgoing.take_commit(), Some(true));
    assert_eq!(outgoing.pending_bytes(), 0, "nothing is written for it");
}
