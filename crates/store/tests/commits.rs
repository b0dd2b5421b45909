//! Units, promises and syncs.
#![allow(clippy::unwrap_used, reason = "a test may unwrap, its helpers too")]

mod common;

use std::{
    sync::{Arc, mpsc::channel},
    thread,
    time::Duration,
};

use common::{
    Broker, PATIENCE, QUEUE, crash_copy, data_dir, forget, put, put_in, put_queue, state, state_of,
};
use leveret_core::{
    ids::{QueueId, Seq},
    record::QueueState,
};
use leveret_store::{CommitError, Committer, OpenError, Options, Progress, Store, SyncMode};

#[test]
fn promises_come_back_in_the_order_they_were_sent() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    for seq in 0..10_000 {
        broker.send([put(seq, "body")], seq, seq % 100 == 0);
    }
    assert_eq!(broker.wait_for(9_999), (0..10_000).collect::<Vec<_>>());
}

#[test]
fn a_unit_without_writes_keeps_its_place() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.send([put(1, "one")], 1, true);
    broker.send([], 2, true);
    broker.send([put(2, "two")], 3, true);
    assert_eq!(broker.wait_for(3), [1, 2, 3]);
}

#[test]
fn a_unit_larger_than_a_batch_is_not_split() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    let before = broker.committer.counters().commits;
    broker.commit((0..20_000).map(|seq| put(seq, vec![0; 500])));
    assert_eq!(broker.committer.counters().commits - before, 1);
    assert_eq!(broker.seqs(QUEUE).len(), 20_000);
}

#[test]
fn a_serial_confirm_costs_one_sync() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put_queue(QUEUE)]);
    let before = broker.committer.counters();
    for seq in 0..20 {
        broker.commit([put(seq, "body"), state(seq + 1, seq + 1)]);
    }
    let after = broker.committer.counters();
    assert_eq!(after.syncs - before.syncs, 20);
    assert_eq!(after.commits - before.commits, 20);
}

#[test]
fn units_that_wait_together_share_a_batch_and_a_sync() {
    let dir = data_dir();
    let (store, _) = Store::open(dir.path(), &Options::default()).unwrap();
    let (entered, first_entered) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let (to_test, released) = channel();
    let committer = Committer::start(
        store,
        move |promises: &mut Vec<u64>| {
            to_test.send(std::mem::take(promises)).unwrap();
            entered.send(()).unwrap();
            may_go_on.recv().unwrap();
        },
        |error| panic!("{error}"),
    )
    .unwrap();

    committer.send(&mut vec![put(0, "first")], &mut vec![0], true);
    first_entered.recv().unwrap();
    // The committer is in the callback now; everything below waits.
    for seq in 1..=100 {
        committer.send(&mut vec![put(seq, "body")], &mut vec![seq], true);
    }
    committer.send(&mut vec![forget(100)], &mut vec![101], false);
    go_on.send(()).unwrap();
    first_entered.recv().unwrap();
    go_on.send(()).unwrap();

    assert_eq!(released.recv().unwrap(), [0]);
    assert_eq!(released.recv().unwrap(), (1..=101).collect::<Vec<_>>());
    let counters = committer.counters();
    assert_eq!(
        (counters.commits, counters.syncs, counters.cancelled),
        (2, 2, 1)
    );
    committer.stop(PATIENCE).unwrap();
}

#[test]
fn a_unit_is_there_as_a_whole_or_not_at_all_after_a_crash() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put_queue(QUEUE), put_queue(QueueId::new(2))]);
    for unit in 0..200 {
        let writes = [
            put(unit, "here"),
            put_in(QueueId::new(2), 0, unit, "there"),
            state_of(
                QUEUE,
                QueueState {
                    messages: unit + 1,
                    ..QueueState::default()
                },
            ),
        ];
        broker.send(writes, unit, unit % 10 == 0);
        if unit % 20 == 0 {
            let copy = crash_copy(dir.path());
            let found = Broker::open(copy.path());
            let here = found.seqs(QUEUE);
            assert_eq!(here, found.seqs(QueueId::new(2)));
            let counters = found
                .recovered
                .queues
                .iter()
                .find(|(queue, _)| queue.id == QUEUE);
            assert_eq!(counters.unwrap().1.messages, here.len() as u64);
        }
    }
}

#[test]
fn a_promise_is_released_after_its_write_and_not_before() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    for seq in 0..10 {
        broker.commit([put(seq, "body")]);
        let copy = crash_copy(dir.path());
        assert_eq!(
            Broker::open(copy.path()).seqs(QUEUE),
            (0..=seq).collect::<Vec<_>>()
        );
    }
}

#[test]
fn acks_are_synced_later_by_themselves() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put(1, "one")]);
    let before = broker.committer.counters();
    broker.send([forget(1)], 1, false);
    broker.wait_for(1);
    while broker.committer.counters().syncs == before.syncs {
        thread::yield_now();
    }
    let after = broker.committer.counters();
    assert_eq!(
        (after.commits, after.syncs),
        (before.commits + 1, before.syncs + 1)
    );
}

#[test]
fn the_side_file_follows_the_syncs_by_itself() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put(1, "one")]);
    broker.commit([put(2, "two")]);
    let side_file = dir.path().join("synced");
    while !std::fs::read_to_string(&side_file).is_ok_and(|text| text.starts_with("synced 2 ")) {
        thread::yield_now();
    }
    drop(broker);
    assert_eq!(Broker::open(dir.path()).recovered.report.synced_commit, 2);
}

#[test]
fn counters_that_tell_of_a_first_delivery_do_not_wait() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put_queue(QUEUE), put(1, "one")]);
    let consumed = QueueState {
        consumed: true,
        next: Seq::new(2),
        ..QueueState::default()
    };
    broker.send([state_of(QUEUE, consumed)], 1, false);
    broker.wait_for(1);
    let copy = crash_copy(dir.path());
    assert!(Broker::open(copy.path()).recovered.queues[0].1.consumed);
}

#[test]
fn a_unit_without_writes_waits_for_everything_before_it_to_be_on_disk() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put_queue(QUEUE), put(1, "one")]);
    let before = broker.committer.counters();
    broker.send([forget(1)], 1, false);
    broker.wait_for(1);
    broker.commit([]);
    assert_eq!(broker.committer.counters().syncs, before.syncs + 1);

    // Counters that were held back are written for it.
    broker.send([state(7, 0)], 2, false);
    broker.commit([]);
    let copy = crash_copy(dir.path());
    assert_eq!(
        Broker::open(copy.path()).recovered.queues[0].1.next,
        Seq::new(7)
    );

    // And when there is nothing before it, it costs nothing.
    let before = broker.committer.counters();
    broker.commit([]);
    assert_eq!(broker.committer.counters(), before);
}

#[test]
fn counters_alone_are_synced_when_somebody_waits_for_them() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put_queue(QUEUE)]);
    let before = broker.committer.counters();
    broker.commit([state(7, 0)]);
    assert_eq!(broker.committer.counters().syncs, before.syncs + 1);
    let copy = crash_copy(dir.path());
    assert_eq!(
        Broker::open(copy.path()).recovered.queues[0].1.next,
        Seq::new(7)
    );
}

#[test]
fn without_sync_nothing_is_synced_but_the_stop() {
    let dir = data_dir();
    let options = Options {
        sync: SyncMode::Never,
        ..Options::default()
    };
    let mut broker = Broker::open_with(dir.path(), &options);
    broker.commit([put(1, "one")]);
    broker.commit([put(2, "two")]);
    assert_eq!(broker.committer.counters().syncs, 0);
    broker.stop();
    assert!(Broker::open(dir.path()).recovered.report.clean);
}

#[test]
fn in_interval_mode_promises_do_not_wait_for_the_sync() {
    let dir = data_dir();
    // Longer than any test: the sync after it never comes.
    let sync = SyncMode::Interval(Duration::from_secs(3600));
    let mut broker = Broker::open_with(
        dir.path(),
        &Options {
            sync,
            ..Options::default()
        },
    );
    broker.commit([put(1, "one")]);
    assert_eq!(broker.committer.counters().syncs, 0);
    drop(broker);

    let sync = SyncMode::Interval(Duration::from_millis(1));
    let mut broker = Broker::open_with(
        dir.path(),
        &Options {
            sync,
            ..Options::default()
        },
    );
    broker.commit([put(2, "two")]);
    while broker.committer.counters().syncs == 0 {
        thread::yield_now();
    }
}

#[test]
fn waiting_bytes_are_counted_and_progress_is_told() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    let (tell, told) = channel();
    broker
        .committer
        .set_listener(Box::new(move |progress| tell.send(progress).unwrap_or(())));
    let before = broker.committer.sent_bytes();
    broker.send([put(1, vec![0; 2_000_000])], 1, true);
    let sent = broker.committer.sent_bytes();
    assert!(sent - before > 2_000_000, "{before} and {sent}");
    broker.wait_for(1);
    assert_eq!(told.recv(), Ok(Progress::Written));
    assert_eq!(broker.committer.written_bytes(), sent);
    assert_eq!(broker.committer.pending_bytes(), 0);
}

#[test]
fn while_the_thread_is_at_work_it_is_told_for_how_long() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    let ((tell, told), (go_on, may_go_on)) = (channel(), channel::<()>());
    broker.committer.set_listener(Box::new(move |_| {
        tell.send(()).unwrap_or(());
        // Until the other end is dropped.
        may_go_on.recv().unwrap_or(());
    }));
    broker.send([put(1, "body")], 1, true);
    told.recv().expect("it is at work");
    let before = broker.committer.busy_for().expect("it is at work");
    assert!(broker.committer.busy_for().expect("still") >= before);
    drop(go_on);
    broker.wait_for(1);
    while broker.committer.busy_for().is_some() {
        thread::yield_now();
    }
}

#[test]
fn dropping_the_committer_writes_nothing_more_and_is_no_clean_stop() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put(1, "one")]);
    drop(broker);
    let found = Broker::open(dir.path());
    assert!(!found.recovered.report.clean);
    assert_eq!(found.seqs(QUEUE), [1]);
}

#[test]
fn a_store_has_one_committer() {
    let dir = data_dir();
    let broker = Broker::open(dir.path());
    let second = Committer::<u64>::start(Arc::clone(&broker.store), |_| {}, |_| {});
    assert!(
        second
            .unwrap_err()
            .to_string()
            .contains("committer already")
    );
}

#[test]
fn fm34_a_panic_on_the_thread_is_a_failure_and_releases_nothing_more() {
    let dir = data_dir();
    let (store, _) = Store::open(dir.path(), &Options::default()).unwrap();
    let (failure, failed) = channel();
    let committer = Committer::start(
        store,
        |_: &mut Vec<u64>| panic!("a bug"),
        move |error| failure.send(error).unwrap(),
    )
    .unwrap();
    committer.send(&mut vec![put(1, "one")], &mut vec![1], true);
    assert_eq!(
        failed.recv().unwrap().to_string(),
        "the committer panicked: a bug"
    );
    let (mut writes, mut promises) = (vec![put(2, "two")], vec![2]);
    committer.send(&mut writes, &mut promises, true);
    assert!(writes.is_empty() && promises.is_empty());
    assert!(committer.stop(PATIENCE).is_err());
}

#[test]
fn a_stop_waits_no_longer_than_it_is_told_for_a_commit_that_does_not_end() {
    let dir = data_dir();
    let (store, _) = Store::open(dir.path(), &Options::default()).unwrap();
    let (entered, has_entered) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let committer = Committer::start(
        store,
        move |promises: &mut Vec<u64>| {
            entered.send(std::mem::take(promises)).unwrap();
            may_go_on.recv().unwrap();
        },
        |error| panic!("{error}"),
    )
    .unwrap();
    committer.send(&mut vec![put(0, "first")], &mut vec![0], true);
    assert_eq!(has_entered.recv().unwrap(), [0]);
    // The thread is at it, as it would be with a disk that hangs.
    committer.send(&mut vec![put(1, "second")], &mut vec![1], true);
    let patience = Duration::from_millis(10);
    assert_eq!(
        committer.stop(patience),
        Err(CommitError::Unanswered { patience })
    );
    // It takes up nothing more, and promises nothing more.
    go_on.send(()).unwrap();
    assert!(has_entered.recv().is_err());
    drop(committer);
    let again = open_when_let_go(dir.path());
    assert!(!again.recovered.report.clean);
    assert_eq!(again.bodies(QUEUE), ["first"]);
}

/// The thread that was left behind lets go of the directory when it is over.
fn open_when_let_go(dir: &std::path::Path) -> Broker {
    loop {
        match Broker::try_open(dir, &Options::default()) {
            Err(OpenError::Locked { .. }) => thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
}

#[test]
fn many_threads_may_send() {
    let dir = data_dir();
    let broker = Broker::open(dir.path());
    thread::scope(|scope| {
        for sender in 0..4u64 {
            let committer = &broker.committer;
            scope.spawn(move || {
                let (mut writes, mut promises) = (Vec::new(), Vec::new());
                for number in 0..1_000 {
                    writes.push(put_in(QueueId::new(sender), 0, number, "body"));
                    promises.push(sender * 1_000 + number);
                    committer.send(&mut writes, &mut promises, number % 7 == 0);
                }
            });
        }
    });
    let mut seen = Vec::new();
    while seen.len() < 4_000 {
        seen.extend(broker.next_released());
    }
    for sender in 0..4 {
        let of_sender = seen.iter().filter(|promise| **promise / 1_000 == sender);
        assert!(of_sender.is_sorted());
        assert_eq!(broker.seqs(QueueId::new(sender)).len(), 1_000);
    }
}

#[test]
fn the_ring_of_commits_goes_round() {
    let dir = data_dir();
    let options = Options {
        sync: SyncMode::Never,
        ..Options::default()
    };
    let mut broker = Broker::open_with(dir.path(), &options);
    for seq in 0..3_000 {
        broker.commit([put(seq, "")]);
    }
    drop(broker);
    let broker = Broker::open_with(dir.path(), &options);
    assert_eq!(broker.recovered.report.newest_commit, 3_000);
}

/// Units of two queues that were sent apart, as a move is: the copy is there or the original, and never both.
#[test]
fn units_that_are_joined_are_there_as_a_whole_or_not_at_all_after_a_crash() {
    let dir = data_dir();
    let other = QueueId::new(2);
    let mut broker = Broker::open(dir.path());
    broker.commit((0..200).map(|seq| put(seq, "moves")));
    for seq in 0..200 {
        let committer = &broker.committer;
        committer.as_one_unit(|| {
            let mut promises = vec![seq];
            committer.send(
                &mut vec![put_in(other, 0, seq, "moves")],
                &mut Vec::new(),
                false,
            );
            // Others send meanwhile, and the committer has time to take what is there.
            committer.send(
                &mut vec![put_in(QueueId::new(3), 0, seq, "else")],
                &mut Vec::new(),
                true,
            );
            thread::yield_now();
            committer.send(&mut vec![forget(seq)], &mut promises, false);
        });
        if seq % 20 == 0 {
            let copy = crash_copy(dir.path());
            let found = Broker::open(copy.path());
            let (left, moved) = (found.seqs(QUEUE), found.seqs(other));
            assert_eq!(left.len() + moved.len(), 200, "{left:?} and {moved:?}");
            assert_eq!(left, (moved.len() as u64..200).collect::<Vec<_>>());
        }
    }
    broker.wait_for(199);
    assert_eq!(broker.seqs(other).len(), 200);
    assert!(broker.seqs(QUEUE).is_empty());
    broker.stop();
}

#[test]
fn joined_units_without_any_write_are_nothing() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.committer.as_one_unit(|| ());
    assert_eq!(broker.committer.counters().commits, 0);
    broker.commit([put(0, "after")]);
    assert_eq!(broker.bodies(QUEUE), ["after"]);
    broker.stop();
}

#[test]
fn many_threads_may_join_units() {
    let dir = data_dir();
    let broker = Broker::open(dir.path());
    thread::scope(|scope| {
        for queue in 1..=4 {
            let committer = &broker.committer;
            scope.spawn(move || {
                for seq in 0..300 {
                    committer.as_one_unit(|| {
                        let write = put_in(QueueId::new(queue), 0, seq, "body");
                        committer.send(&mut vec![write], &mut Vec::new(), seq % 7 == 0);
                    });
                }
            });
        }
    });
    broker.committer.as_one_unit(|| {
        broker.committer.send(&mut Vec::new(), &mut vec![1], true);
    });
    broker.wait_for(1);
    for queue in 1..=4 {
        let seqs = broker.seqs(QueueId::new(queue));
        assert_eq!(seqs, (0..300).collect::<Vec<_>>(), "queue {queue}");
    }
    broker.stop();
}
