//! What was written is there after a restart, in every kind of record.
#![allow(clippy::unwrap_used, reason = "a test may unwrap, its helpers too")]

mod common;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use common::{
    Broker, QUEUE, crash_copy, data_dir, log_files, put, put_queue, queue_record, short, state,
    state_of,
};
use leveret_core::{
    arguments::QueueType,
    ids::{QueueId, Seq, Timestamp},
    record::{
        Attempts, BindingRecord, DelayRecord, Destination, ExchangeKind, ExchangeRecord,
        HashAlgorithm, MetaChange, ParameterRecord, PermissionRecord, QueueRecord, QueueState,
        TopicPermissionRecord, UserRecord, VhostRecord, Write,
    },
};
use leveret_store::{OpenError, Options, Store, SyncMode};
use leveret_wire::value::{FieldTable, FieldValue};
use tempfile::TempDir;

fn arguments() -> FieldTable {
    FieldTable::new()
        .with("x-max-length", FieldValue::Long(10))
        .with("x-dead-letter-exchange", FieldValue::text("dead"))
        .with(
            "nested",
            FieldValue::Table(FieldTable::new().with("v", FieldValue::Void)),
        )
}

fn exchange(name: &str, kind: ExchangeKind) -> ExchangeRecord {
    ExchangeRecord {
        vhost: short("/"),
        name: short(name),
        kind,
        durable: true,
        auto_delete: kind == ExchangeKind::Topic,
        internal: kind == ExchangeKind::Headers,
        arguments: arguments(),
        delay: None,
    }
}

fn binding(destination: Destination, arguments: FieldTable) -> BindingRecord {
    let (vhost, source, key) = (short("/"), short("topics"), short("a.*.#"));
    BindingRecord {
        vhost,
        source,
        destination,
        key,
        arguments,
    }
}

fn user(name: &str, tags: &[&str]) -> UserRecord {
    UserRecord {
        name: short(name),
        password_hash: vec![0, 255, 7, 1],
        algorithm: HashAlgorithm::Sha512,
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        max_connections: Some(-1),
        max_channels: None,
    }
}

#[test]
fn an_empty_directory_becomes_a_new_store() {
    let dir = data_dir();
    let broker = Broker::open(dir.path().join("made/on/the/way"));
    let found = &broker.recovered;
    assert!(found.report.is_new && found.report.clean);
    assert_eq!(found.next_queue_id, QueueId::new(1));
    assert!(found.vhosts.is_empty() && found.queues.is_empty() && found.users.is_empty());
}

#[test]
fn attempts_come_back_by_queue_and_position_until_they_are_forgotten() {
    let attempts = |all| Attempts {
        all,
        failed: 1,
        due: Timestamp::new(1 << 40),
    };
    let written = |queue, seq, all| Write::Attempts {
        queue: QueueId::new(queue),
        seq: Seq::new(seq),
        attempts: attempts(all),
    };
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([written(1, 256, 1), written(1, 2, 1), written(2, 1, 1)]);
    broker.commit([
        written(1, 256, 2),
        Write::ForgetAttempts {
            queue: QueueId::new(2),
            seq: Seq::new(1),
        },
    ]);
    let copy = crash_copy(dir.path());
    let found = Broker::open(copy.path()).recovered.attempts;
    let expected = vec![(Seq::new(2), attempts(1)), (Seq::new(256), attempts(2))];
    assert_eq!(found.len(), 1);
    assert_eq!(found[&QueueId::new(1)], expected);
}

#[test]
fn a_store_is_new_until_something_is_committed() {
    let dir = data_dir();
    Broker::open(dir.path()).stop();
    assert!(Broker::open(dir.path()).recovered.report.is_new);
    Broker::open(dir.path()).commit_meta([MetaChange::PutVhost(VhostRecord::named(short("/")))]);
    assert!(!Broker::open(dir.path()).recovered.report.is_new);
}

#[test]
fn every_kind_of_record_comes_back() {
    let exchanges = [
        exchange("directs", ExchangeKind::Direct),
        exchange("fans", ExchangeKind::Fanout),
        exchange("topics", ExchangeKind::Topic),
        exchange("heads", ExchangeKind::Headers),
        exchange("hashes", ExchangeKind::ConsistentHash),
        ExchangeRecord {
            delay: Some(DelayRecord {
                id: QueueId::new(3),
                by_type: false,
            }),
            ..exchange("late", ExchangeKind::Topic)
        },
        ExchangeRecord {
            arguments: FieldTable::new().with("x-delayed-type", FieldValue::text("fanout")),
            delay: Some(DelayRecord {
                id: QueueId::new(76),
                by_type: true,
            }),
            ..exchange("later", ExchangeKind::Fanout)
        },
    ];
    let queue = QueueRecord {
        auto_delete: true,
        // Its arguments leave it open.
        queue_type: QueueType::Stream,
        arguments: arguments(),
        ..queue_record(QUEUE)
    };
    let bindings = [
        binding(Destination::Queue(short("same")), FieldTable::new()),
        binding(Destination::Exchange(short("same")), FieldTable::new()),
        binding(Destination::Queue(short("same")), arguments()),
    ];
    let users = [user("guest", &["administrator", "väter"]), user("", &[])];
    let vhosts = [
        VhostRecord::named(short("/")),
        VhostRecord {
            description: "dépôt".to_owned(),
            tags: vec!["a".to_owned(), "b".to_owned()],
            default_queue_type: Some(QueueType::Quorum),
            tracing: true,
            protected: true,
            max_connections: Some(0),
            max_queues: Some(-1),
            ..VhostRecord::named(short("ünïcode"))
        },
    ];
    let permission = PermissionRecord {
        vhost: short("/"),
        user: short("guest"),
        configure: "^a".to_owned(),
        write: String::new(),
        read: ".*".to_owned(),
    };
    let topic_permission = TopicPermissionRecord {
        vhost: short("/"),
        user: short("guest"),
        exchange: short("amq.topic"),
        write: "^{username}".to_owned(),
        read: ".*".to_owned(),
    };
    let parameter = ParameterRecord {
        component: "policy".to_owned(),
        vhost: short("/"),
        name: "p".to_owned(),
        value: "{\"pattern\":\"\"}".to_owned(),
    };
    let state = QueueState {
        head: Seq::new(3),
        next: Seq::new(9),
        messages: 4,
        message_bytes: 1 << 40,
        properties_count_from: Some(Seq::new(2)),
        delivered_below: Seq::new(5),
        consumed: true,
        spilled: true,
    };

    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit_meta([
        MetaChange::PutVhost(vhosts[0].clone()),
        MetaChange::PutVhost(vhosts[1].clone()),
        MetaChange::PutVhost(VhostRecord::named(short("gone"))),
        MetaChange::DeleteVhost(short("gone")),
        MetaChange::PutUser(user("gone", &[])),
        MetaChange::DeleteUser(short("gone")),
    ]);
    broker.commit_meta([
        MetaChange::PutPermission(permission.clone()),
        MetaChange::PutPermission(PermissionRecord {
            user: short("gone"),
            ..permission.clone()
        }),
        MetaChange::DeletePermission {
            vhost: short("/"),
            user: short("gone"),
        },
        MetaChange::PutTopicPermission(topic_permission.clone()),
        MetaChange::PutTopicPermission(TopicPermissionRecord {
            user: short("gone"),
            ..topic_permission.clone()
        }),
        MetaChange::DeleteTopicPermission {
            vhost: short("/"),
            user: short("gone"),
            exchange: short("amq.topic"),
        },
        MetaChange::PutParameter(parameter.clone()),
        MetaChange::PutParameter(ParameterRecord {
            name: "gone".to_owned(),
            ..parameter.clone()
        }),
        MetaChange::DeleteParameter(ParameterRecord {
            name: "gone".to_owned(),
            ..parameter.clone()
        }),
    ]);
    broker.commit_meta(exchanges.iter().cloned().map(MetaChange::PutExchange));
    broker.commit_meta([
        MetaChange::PutQueue(queue.clone()),
        MetaChange::NextQueueId(QueueId::new(77)),
    ]);
    broker.commit_meta(bindings.iter().cloned().map(MetaChange::PutBinding));
    broker.commit_meta(users.iter().cloned().map(MetaChange::PutUser));
    broker.commit([state_of(QUEUE, state)]);
    drop(broker);

    let found = Broker::open(dir.path()).recovered;
    assert_eq!(found.vhosts.len(), 2);
    assert!(vhosts.iter().all(|vhost| found.vhosts.contains(vhost)));
    assert_eq!(found.exchanges.len(), exchanges.len());
    assert!(
        exchanges
            .iter()
            .all(|exchange| found.exchanges.contains(exchange))
    );
    assert_eq!(found.queues, [(queue, state)]);
    assert_eq!(found.bindings.len(), bindings.len());
    assert!(
        bindings
            .iter()
            .all(|binding| found.bindings.contains(binding))
    );
    assert_eq!(found.users.len(), users.len());
    assert!(users.iter().all(|user| found.users.contains(user)));
    assert_eq!(found.permissions, [permission]);
    assert_eq!(found.topic_permissions, [topic_permission]);
    assert_eq!(found.parameters, [parameter]);
    assert_eq!(found.next_queue_id, QueueId::new(77));
}

#[test]
fn a_deleted_record_does_not_come_back() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    let kept = binding(Destination::Queue(short("kept")), arguments());
    let gone = binding(Destination::Queue(short("gone")), arguments());
    broker.commit_meta([
        MetaChange::PutExchange(exchange("kept", ExchangeKind::Direct)),
        MetaChange::PutExchange(exchange("gone", ExchangeKind::Direct)),
        MetaChange::PutBinding(kept.clone()),
        MetaChange::PutBinding(gone.clone()),
    ]);
    let reordered = BindingRecord {
        arguments: arguments().into_iter().rev().collect(),
        ..gone
    };
    broker.commit_meta([
        MetaChange::DeleteExchange {
            vhost: short("/"),
            name: short("gone"),
        },
        // The order of arguments is no part of a binding's identity.
        MetaChange::DeleteBinding(reordered),
    ]);
    drop(broker);

    let found = Broker::open(dir.path()).recovered;
    assert_eq!(found.exchanges, [exchange("kept", ExchangeKind::Direct)]);
    assert_eq!(found.bindings, [kept]);
}

#[test]
fn a_record_put_again_replaces_the_first() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit_meta([MetaChange::PutUser(user("guest", &["monitoring"]))]);
    broker.commit_meta([MetaChange::PutUser(user("guest", &["administrator"]))]);
    drop(broker);
    assert_eq!(
        Broker::open(dir.path()).recovered.users,
        [user("guest", &["administrator"])]
    );
}

#[test]
fn the_next_queue_id_is_above_every_queue() {
    let dir = data_dir();
    Broker::open(dir.path()).commit([put_queue(QueueId::new(41))]);
    assert_eq!(
        Broker::open(dir.path()).recovered.next_queue_id,
        QueueId::new(42)
    );
}

#[test]
fn only_a_stop_is_clean() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put_queue(QUEUE)]);
    broker.stop();
    let broker = Broker::open(dir.path());
    assert!(broker.recovered.report.clean);
    drop(broker);

    let mut broker = Broker::open(dir.path());
    broker.commit([put(1, "one")]);
    drop(broker);
    assert!(!Broker::open(dir.path()).recovered.report.clean);
}

#[test]
fn a_clean_stop_does_not_hide_a_later_crash_without_writes() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    let state = QueueState {
        messages: 1,
        next: Seq::new(2),
        ..QueueState::default()
    };
    broker.commit([put_queue(QUEUE), put(1, "one"), state_of(QUEUE, state)]);
    broker.stop();

    let broker = Broker::open(dir.path());
    assert!(broker.recovered.report.clean);
    // From here on messages may be handed out, and a kill now writes nothing more.
    let crashed = crash_copy(dir.path());
    assert!(!Broker::open(crashed.path()).recovered.report.clean);
}

#[test]
fn an_opening_that_is_called_off_leaves_the_stop_before_it_clean() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put_queue(QUEUE)]);
    broker.commit([put(0, "kept"), state(1, 1)]);
    broker.stop();
    let options = Options::default();
    options.call_off.say();
    let called_off = Broker::try_open(dir.path(), &options).map(|_| ());
    assert!(
        matches!(called_off, Err(OpenError::CalledOff { .. })),
        "{called_off:?}"
    );
    let broker = Broker::open(dir.path());
    assert!(broker.recovered.report.clean);
    assert_eq!(broker.bodies(QUEUE), ["kept"]);
}

#[test]
fn counters_that_waited_are_there_after_a_stop() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put_queue(QUEUE)]);
    let state = QueueState {
        next: Seq::new(5),
        delivered_below: Seq::new(4),
        ..QueueState::default()
    };
    broker.send([state_of(QUEUE, state)], 1, false);
    broker.stop();
    assert_eq!(
        Broker::open(dir.path()).recovered.queues,
        [(queue_record(QUEUE), state)]
    );
}

#[test]
fn the_report_is_one_line() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    assert!(
        broker
            .recovered
            .report
            .to_string()
            .starts_with("made a new store in ")
    );
    broker.commit([put_queue(QUEUE)]);
    drop(broker);
    let report = Broker::open(dir.path()).recovered.report;
    let text = report.to_string();
    assert!(
        text.contains("not stopped in order, newest commit 1, known as synced 0"),
        "{text}"
    );
    assert!(!text.contains('\n'));
}

fn table_files(dir: &Path) -> usize {
    let is_table = |path: &Path| path.extension().is_some_and(|extension| extension == "sst");
    let entries = std::fs::read_dir(dir.join("rocksdb")).unwrap();
    entries
        .filter(|entry| is_table(&entry.as_ref().unwrap().path()))
        .count()
}

/// A directory as a kill leaves it that came while this many MiB were only in the log.
fn killed_with_a_long_log(mib: u64) -> TempDir {
    let dir = data_dir();
    let roomy = Options {
        sync: SyncMode::Never,
        write_buffer_bytes: 64 << 20,
        ..Options::default()
    };
    let mut broker = Broker::open_with(dir.path(), &roomy);
    broker.commit([put_queue(QUEUE)]);
    for seq in 0..mib * 64 {
        broker.send([put(seq, vec![b'x'; 16 << 10])], seq, false);
    }
    broker.commit([state_of(QUEUE, messages(mib * 64))]);
    assert_eq!(table_files(dir.path()), 0);
    crash_copy(dir.path())
}

fn messages(count: u64) -> QueueState {
    QueueState {
        next: Seq::new(count),
        messages: count,
        ..QueueState::default()
    }
}

/// Tables written before the ports are open are what a start after a kill would wait for.
#[test]
fn a_start_after_a_kill_writes_no_table_and_the_broker_does_it_as_soon_as_it_runs() {
    let dir = killed_with_a_long_log(24);
    // Three times what unflushed writes may take while it runs.
    let options = Options {
        cache_bytes: 16 << 20,
        write_buffer_bytes: 6 << 20,
        ..Options::default()
    };
    let (store, recovered) = Store::open(dir.path(), &options).unwrap();
    assert_eq!(table_files(dir.path()), 0, "{}", recovered.report);
    assert!(recovered.report.log_bytes > 24 << 20);
    drop(store);

    let broker = Broker::open_with(dir.path(), &options);
    let log_bytes = || -> u64 {
        let logs = log_files(dir.path()).into_iter();
        logs.filter_map(|log| Some(log.metadata().ok()?.len()))
            .sum()
    };
    let began = Instant::now();
    while log_bytes() > 1 << 20 {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "nothing comes and the log stays"
        );
        std::thread::yield_now();
    }
    assert_eq!(broker.seqs(QUEUE), (0..24 * 64).collect::<Vec<_>>());
}
