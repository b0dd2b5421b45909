//! Torn tails are cut, damage is named, missing commits stop the start.
#![allow(clippy::unwrap_used, reason = "a test may unwrap, its helpers too")]

mod common;

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use common::{
    Broker, QUEUE, crash_copy, data_dir, log_files, put, put_in, put_queue, state, state_of,
};
use leveret_core::{
    ids::{QueueId, Seq},
    record::QueueState,
};
use leveret_store::{Damage, MissingCommits, OpenError, Options, ReadError, Store};
use rocksdb::{DB, Options as DatabaseOptions};

const OTHER: QueueId = QueueId::new(2);

/// The database of a closed store, for doing what nobody should.
fn database(dir: &Path) -> DB {
    let tables = ["default", "messages"];
    let mut options = DatabaseOptions::default();
    options.set_avoid_flush_during_recovery(true);
    let families = tables.map(|name| (name, options.clone()));
    DB::open_cf_with_opts(&options, dir.join("rocksdb"), families).unwrap()
}

/// Flips a bit in the value of the only row for which `wanted` is true.
fn flip_value(dir: &Path, table: &str, wanted: impl Fn(&[u8]) -> bool) {
    let db = database(dir);
    let family = db.cf_handle(table).unwrap();
    let mut rows = db.raw_iterator_cf(&family);
    rows.seek_to_first();
    while !wanted(rows.key().expect("the row is there")) {
        rows.next();
    }
    let (key, mut value) = (rows.key().unwrap().to_vec(), rows.value().unwrap().to_vec());
    *value.last_mut().unwrap() ^= 1;
    db.put_cf(&family, key, value).unwrap();
}

#[track_caller]
fn refusal(dir: &Path) -> OpenError {
    Store::open(dir, &Options::default())
        .map(|_| ())
        .unwrap_err()
}

fn accepting() -> Options {
    Options {
        accept_missing_commits: true,
        ..Options::default()
    }
}

fn newest_log(dir: &Path) -> PathBuf {
    log_files(dir).pop().unwrap()
}

fn flip_byte(path: &Path, at: u64) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

/// Ten commits of two rows each, then a crash.
fn crashed_store() -> tempfile::TempDir {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put_queue(QUEUE)]);
    for seq in 0..10 {
        broker.commit([put(seq, vec![b'x'; 60]), state(seq + 1, seq + 1)]);
    }
    drop(broker);
    dir
}

#[test]
fn a_log_cut_anywhere_gives_the_units_before_the_cut() {
    let dir = crashed_store();
    let whole = fs::metadata(newest_log(dir.path())).unwrap().len();
    let mut counts = Vec::new();
    // A prime step, so that the cuts fall on every part of a record.
    for cut in (0..whole).step_by(37) {
        let copy = crash_copy(dir.path());
        let log = OpenOptions::new()
            .write(true)
            .open(newest_log(copy.path()))
            .unwrap();
        log.set_len(cut).unwrap();
        let broker = Broker::open(copy.path());
        let seqs = broker.seqs(QUEUE);
        assert_eq!(
            seqs,
            (0..seqs.len() as u64).collect::<Vec<_>>(),
            "cut at {cut}"
        );
        if let Some((_, state)) = broker.recovered.queues.first() {
            assert_eq!(state.messages, seqs.len() as u64, "cut at {cut}");
        }
        counts.push(seqs.len());
    }
    assert!(counts.is_sorted());
    assert_eq!(counts.last(), Some(&9));
}

#[test]
fn a_torn_tail_is_reported_and_what_follows_it_is_kept() {
    let dir = crashed_store();
    let log = newest_log(dir.path());
    let len = fs::metadata(&log).unwrap().len();
    OpenOptions::new()
        .write(true)
        .open(&log)
        .unwrap()
        .set_len(len - 5)
        .unwrap();

    let mut broker = Broker::open(dir.path());
    let report = broker.recovered.report;
    assert!(!report.clean);
    assert!(report.torn_bytes > 0, "{report}");
    assert!(
        report.to_string().contains("bytes of unfinished commits"),
        "{report}"
    );
    assert_eq!(broker.seqs(QUEUE), (0..9).collect::<Vec<_>>());
    broker.commit([put(100, "after the cut")]);
    drop(broker);

    // The torn log is still there, with a whole one behind it.
    let broker = Broker::open(dir.path());
    assert_eq!(broker.seqs(QUEUE), (0..9).chain([100]).collect::<Vec<_>>());
}

#[test]
fn a_page_of_zeros_at_the_end_is_a_torn_tail_too() {
    let dir = crashed_store();
    let log = newest_log(dir.path());
    let len = fs::metadata(&log).unwrap().len();
    let file = OpenOptions::new().write(true).open(&log).unwrap();
    file.write_all_at(&[0; 100], len - 100).unwrap();
    let broker = Broker::open(dir.path());
    let seqs = broker.seqs(QUEUE);
    assert!((8..10).contains(&seqs.len()), "{seqs:?}");
}

#[test]
fn synced_commits_that_are_gone_stop_the_start() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put_queue(QUEUE), put(1, "one")]);
    let early = crash_copy(dir.path());
    broker.commit([put(2, "two")]);
    broker.stop();
    // What a disk that lies about flushes leaves: the side file got there, the log did not.
    fs::copy(dir.path().join("synced"), early.path().join("synced")).unwrap();

    let error = refusal(early.path());
    let OpenError::MissingCommits { missing, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(
        *missing,
        MissingCommits::Newest {
            newest: 1,
            synced: 3
        }
    );
    let text = error.to_string();
    assert!(
        text.contains("confirmed are lost") && text.contains("leveret repair"),
        "{text}"
    );
    assert!(!text.contains('\n'));
    // Refusing changes nothing.
    refusal(early.path());

    let mut broker = Broker::open_with(early.path(), &accepting());
    assert_eq!(broker.bodies(QUEUE), ["one"]);
    assert!(!broker.recovered.report.clean);
    broker.commit([put(3, "three")]);
    drop(broker);
    let broker = Broker::open(early.path());
    assert_eq!(broker.bodies(QUEUE), ["one", "three"]);
    assert_eq!(broker.recovered.report.newest_commit, 5);
}

#[test]
fn a_flipped_bit_in_the_synced_log_stops_the_start() {
    let dir = crashed_store();
    Broker::open(dir.path()).stop();
    let log = log_files(dir.path())
        .into_iter()
        .max_by_key(|log| fs::metadata(log).unwrap().len());
    let log = log.unwrap();
    flip_byte(&log, fs::metadata(&log).unwrap().len() / 2);
    let error = refusal(dir.path());
    assert!(matches!(error, OpenError::MissingCommits { .. }), "{error}");
    let broker = Broker::open_with(dir.path(), &accepting());
    let seqs = broker.seqs(QUEUE);
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_log_that_is_not_there_stops_the_start() {
    let dir = crashed_store();
    Broker::open(dir.path()).stop();
    for log in log_files(dir.path()) {
        fs::remove_file(log).unwrap();
    }
    let error = refusal(dir.path());
    assert!(matches!(error, OpenError::MissingCommits { .. }), "{error}");
}

#[test]
fn a_gap_in_the_ring_stops_the_start() {
    let dir = crashed_store();
    {
        let db = database(dir.path());
        db.delete([4, 0, 0, 0, 0, 0, 0, 0, 4]).unwrap();
    }
    let error = refusal(dir.path());
    let OpenError::MissingCommits { missing, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(
        *missing,
        MissingCommits::Gap {
            first: 4,
            newest: 11
        }
    );
    drop(Broker::open_with(dir.path(), &accepting()));
    assert_eq!(Broker::open(dir.path()).recovered.report.newest_commit, 12);
}

#[test]
fn a_damaged_side_file_stops_the_start() {
    let dir = crashed_store();
    fs::write(dir.path().join("synced"), "synced 5 00000000\n").unwrap();
    let error = refusal(dir.path());
    assert!(
        error.to_string().contains("side file is damaged"),
        "{error}"
    );
    Broker::open_with(dir.path(), &accepting()).stop();
    Broker::open(dir.path());
}

#[test]
fn a_damaged_message_is_named_and_not_served_and_the_others_are() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit((1..=4).map(|seq| put(seq, format!("body {seq}"))));
    broker.commit([put_in(OTHER, 0, 3, "of another queue")]);
    drop(broker);
    flip_value(dir.path(), "messages", |key| {
        key[..8] == 1u64.to_be_bytes() && key[16] == 3
    });

    let broker = Broker::open(dir.path());
    let read = |from| {
        let until = Seq::new(100);
        broker
            .store
            .read_messages(QUEUE, 0, Seq::new(from), until, 10, 1 << 20)
    };
    let page = read(0).unwrap();
    assert_eq!(
        page.rows
            .iter()
            .map(|row| row.seq.get())
            .collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(page.next, Some(Seq::new(3)));
    let error = read(3).unwrap_err();
    let seq = Seq::new(3);
    assert_eq!(
        error,
        ReadError::Damaged {
            queue: QUEUE,
            seq,
            damage: Damage::Checksum
        }
    );
    assert_eq!(
        error.to_string(),
        "message 3 of queue 1 is damaged on disk: its checksum does not match"
    );
    assert_eq!(read(4).unwrap().rows.len(), 1);
    assert_eq!(broker.bodies(OTHER), ["of another queue"]);
}

#[test]
fn damaged_metadata_is_named() {
    let dir = crashed_store();
    flip_value(dir.path(), "default", |key| key[..2] == [1, 4]);
    let error = refusal(dir.path());
    assert!(
        error
            .to_string()
            .starts_with("the row of a queue with key 01040000000000000001 in "),
        "{error}"
    );
}

#[test]
fn damaged_counters_are_named() {
    let dir = crashed_store();
    flip_value(dir.path(), "default", |key| key[0] == 3);
    let error = refusal(dir.path());
    assert!(
        error.to_string().starts_with("the counters of queue 1 in "),
        "{error}"
    );
}

/// Two queues, of which the first is large enough that the stop writes a table file. Gives that file.
fn store_with_a_table_file() -> (tempfile::TempDir, PathBuf) {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    for seq in 0..20 {
        broker.commit((0..100).map(|row| put(seq * 100 + row, vec![b'x'; 12_000])));
    }
    broker.commit([
        put_queue(QUEUE),
        put_in(OTHER, 0, 1, "of another queue"),
        state_of(
            QUEUE,
            QueueState {
                messages: 2_000,
                ..QueueState::default()
            },
        ),
    ]);
    broker.stop();
    let files = fs::read_dir(dir.path().join("rocksdb")).unwrap();
    let table = files
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sst"))
        .max_by_key(|path| fs::metadata(path).unwrap().len())
        .unwrap();
    (dir, table)
}

#[test]
fn a_damaged_table_file_is_noticed_where_it_is_read() {
    let (dir, table) = store_with_a_table_file();
    flip_byte(&table, fs::metadata(&table).unwrap().len() / 2);

    let broker = Broker::open(dir.path());
    let mut from = Seq::new(0);
    let error = loop {
        match broker
            .store
            .read_messages(QUEUE, 0, from, Seq::new(u64::MAX), 100, 1 << 20)
        {
            Ok(page) => {
                assert!(
                    page.rows
                        .iter()
                        .all(|row| row.message.body() == vec![b'x'; 12_000])
                );
                from = page.next.expect("the damage comes before the end");
            }
            Err(error) => break error,
        }
    };
    assert!(
        matches!(error, ReadError::Unreadable { queue: QUEUE, .. }) && error.is_damage(),
        "{error}"
    );
    assert_eq!(broker.bodies(OTHER), ["of another queue"]);
}

/// Moves the files of large bodies out of the way of an open store, and back.
struct Hidden(Vec<(PathBuf, PathBuf)>);

impl Hidden {
    fn bodies(dir: &Path) -> Self {
        let files = fs::read_dir(dir.join("rocksdb")).unwrap();
        let files = files.map(|entry| entry.unwrap().path());
        let moves = files
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "blob")
            })
            .map(|path| {
                let hidden = path.with_extension("hidden");
                fs::rename(&path, &hidden).unwrap();
                (path, hidden)
            });
        let moves: Vec<_> = moves.collect();
        assert!(!moves.is_empty(), "no body has a file of its own");
        Self(moves)
    }

    fn put_back(self) {
        for (path, hidden) in self.0 {
            fs::rename(hidden, path).unwrap();
        }
    }
}

#[test]
fn what_the_system_does_not_give_is_no_damage_and_is_read_when_it_does() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    for seq in 0..30 {
        broker.commit((0..10).map(|row| put(seq * 10 + row, vec![b'x'; 100_000])));
    }
    broker.stop();
    let broker = Broker::open(dir.path());
    let first = || {
        let until = Seq::new(u64::MAX);
        broker
            .store
            .read_messages(QUEUE, 0, Seq::new(0), until, 1, 1 << 20)
    };
    let hidden = Hidden::bodies(dir.path());
    let error = first().unwrap_err();
    assert!(!error.is_damage(), "{error}");
    hidden.put_back();
    assert_eq!(first().unwrap().rows.len(), 1);
}

#[test]
fn a_missing_table_file_stops_the_start_and_is_named() {
    let (dir, table) = store_with_a_table_file();
    fs::remove_file(&table).unwrap();
    let error = refusal(dir.path());
    assert!(matches!(error, OpenError::Database { .. }), "{error}");
    let name = table.file_name().unwrap().to_str().unwrap();
    assert!(error.to_string().contains(name), "{error}");
}
