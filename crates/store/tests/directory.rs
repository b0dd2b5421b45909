//! Whose the data directory is, and what is refused.
#![allow(clippy::unwrap_used, reason = "a test may unwrap, its helpers too")]

mod common;

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use common::{Broker, PATIENCE, QUEUE, data_dir, put, put_queue};
use leveret_store::{FORMAT, OpenError, Options, Store};

#[track_caller]
fn refusal(dir: &Path) -> OpenError {
    Store::open(dir, &Options::default())
        .map(|_| ())
        .unwrap_err()
}

#[test]
fn a_second_broker_is_refused_and_told_whose_it_is() {
    let dir = data_dir();
    let broker = Broker::open(dir.path());
    let error = refusal(dir.path());
    assert!(matches!(error, OpenError::Locked { pid: Some(pid), .. } if pid == std::process::id()));
    let text = error.to_string();
    assert!(text.contains(&dir.path().display().to_string()), "{text}");
    assert!(
        text.contains(&format!("process {}", std::process::id())),
        "{text}"
    );

    drop(broker);
    Broker::open(dir.path());
}

#[test]
fn the_lock_outlives_the_committer() {
    let dir = data_dir();
    let Broker {
        committer, store, ..
    } = Broker::open(dir.path());
    committer.stop(PATIENCE).unwrap();
    assert!(matches!(refusal(dir.path()), OpenError::Locked { .. }));
    drop(store);
    Broker::open(dir.path());
}

#[test]
fn a_newer_format_is_refused_before_the_database_is_touched() {
    let dir = data_dir();
    Broker::open(dir.path()).commit([put_queue(QUEUE)]);
    let format = dir.path().join("format");
    assert_eq!(
        fs::read_to_string(&format).unwrap(),
        format!("leveret data, format {FORMAT}\n")
    );
    fs::write(&format, "leveret data, format 1000\n").unwrap();
    let manifest = fs::read_dir(dir.path().join("rocksdb")).unwrap().count();
    let error = refusal(dir.path());
    assert!(matches!(
        error,
        OpenError::NewerFormat {
            found: 1000,
            supported: FORMAT,
            ..
        }
    ));
    assert!(
        error.to_string().contains("run the newer release again"),
        "{error}"
    );
    assert_eq!(
        fs::read_dir(dir.path().join("rocksdb")).unwrap().count(),
        manifest
    );
}

#[test]
fn a_format_that_a_power_cut_took_is_the_first() {
    let dir = data_dir();
    Broker::open(dir.path()).commit([put(1, "one")]);
    let format = dir.path().join("format");
    fs::remove_file(&format).unwrap();
    assert_eq!(Broker::open(dir.path()).bodies(QUEUE), ["one"]);
    fs::write(&format, "").unwrap();
    assert_eq!(Broker::open(dir.path()).bodies(QUEUE), ["one"]);
    assert_eq!(
        fs::read_to_string(&format).unwrap(),
        "leveret data, format 1\n"
    );
}

#[test]
fn a_backup_without_the_lock_is_ours() {
    let dir = data_dir();
    Broker::open(dir.path()).commit([put(1, "one")]);
    fs::remove_file(dir.path().join("lock")).unwrap();
    assert_eq!(Broker::open(dir.path()).bodies(QUEUE), ["one"]);
}

#[test]
fn an_unreadable_format_is_refused() {
    let dir = data_dir();
    drop(Broker::open(dir.path()));
    fs::write(dir.path().join("format"), "something else").unwrap();
    let error = refusal(dir.path());
    assert!(
        matches!(error, OpenError::File { action: "read", .. }),
        "{error}"
    );
}

#[test]
fn a_directory_with_other_things_in_it_is_left_alone() {
    let dir = data_dir();
    fs::write(dir.path().join("photo.jpg"), "").unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let error = refusal(dir.path());
    assert!(
        matches!(&error, OpenError::NotOurs { found, .. } if found == "photo.jpg"),
        "{error}"
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(
        fs::metadata(dir.path()).unwrap().permissions().mode() & 0o777,
        0o755
    );
}

#[test]
fn a_fresh_file_system_counts_as_empty() {
    let dir = data_dir();
    fs::create_dir(dir.path().join("lost+found")).unwrap();
    assert!(Broker::open(dir.path()).recovered.report.is_new);
}

#[test]
fn a_start_that_was_killed_early_does_no_harm() {
    let dir = data_dir();
    fs::write(dir.path().join("lock"), "12\n").unwrap();
    fs::write(dir.path().join("format.new"), "lever").unwrap();
    drop(Broker::open(dir.path()));
    fs::remove_dir_all(dir.path().join("rocksdb")).unwrap();
    assert!(Broker::open(dir.path()).recovered.report.is_new);
}

#[test]
fn a_place_that_cannot_be_used_is_named() {
    let dir = data_dir();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = refusal(&file.join("data"));
    assert!(
        matches!(
            error,
            OpenError::File {
                action: "create",
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("file/data"), "{error}");

    let closed = dir.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o500)).unwrap();
    // Nothing is closed to root.
    if fs::write(closed.join("probe"), "").is_err() {
        let error = refusal(&closed);
        assert!(
            matches!(error, OpenError::File { action: "open", .. }),
            "{error}"
        );
    }
}

#[test]
fn nobody_else_may_look() {
    let dir = data_dir();
    let data = dir.path().join("data");
    let mut broker = Broker::open(&data);
    broker.commit([put(1, "secret")]);
    expect_private(&data);
    broker.stop();
    expect_private(&data);

    // A backup that was restored carelessly.
    for path in [data.clone(), data.join("rocksdb")] {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    for log in common::log_files(&data) {
        fs::set_permissions(log, Permissions::from_mode(0o644)).unwrap();
    }
    let _broker = Broker::open(&data);
    expect_private(&data);
}

#[track_caller]
fn expect_private(dir: &Path) {
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(dir), 0o700, "{}", dir.display());
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            expect_private(&path);
        } else {
            assert_eq!(mode(&path), 0o600, "{}", path.display());
        }
    }
}
