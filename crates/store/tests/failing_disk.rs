//! A write that fails, and a disk that is full.
//!
//! Both need a process of their own: the first has a limit on the size of its files, the second a small file system.
#![allow(clippy::unwrap_used, reason = "a test may unwrap, its helpers too")]

mod common;

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use common::{Broker, PATIENCE, QUEUE, data_dir, put};
use leveret_store::{CommitError, Obstacle};

const DIR: &str = "LEVERET_TEST_DIR";

/// Runs one ignored test of this file behind a line of shell.
#[track_caller]
fn run_child(test: &str, shell: &[&str], line: &str, dir: &Path) {
    let (program, arguments) = shell.split_first().unwrap();
    let child = Command::new(program)
        .args(arguments)
        .args([
            "-c",
            &format!("{line} && exec \"$0\" --exact {test} --ignored --nocapture"),
        ])
        .arg(env::current_exe().unwrap())
        .env(DIR, dir)
        .output()
        .unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        child.status.success(),
        "{}{}",
        said(&child.stdout),
        said(&child.stderr)
    );
}

/// `None` when `--ignored` started the child and not its parent.
fn child_dir() -> Option<PathBuf> {
    env::var_os(DIR).map(PathBuf::from)
}

#[test]
fn after_a_failed_write_nothing_is_released_any_more() {
    let dir = data_dir();
    // In units of 512 bytes; the signal that comes with the limit would end the process.
    let limit = "trap '' XFSZ && ulimit -f 4000";
    run_child(
        "child_with_a_limit_on_file_size",
        &["sh"],
        limit,
        dir.path(),
    );

    // All that was promised is there, and at most the one unit whose write failed half-way.
    let promised: u64 = std::fs::read_to_string(dir.path().join("promised"))
        .unwrap()
        .parse()
        .unwrap();
    std::fs::remove_file(dir.path().join("promised")).unwrap();
    let broker = Broker::open(dir.path().join("data"));
    let count = broker.seqs(QUEUE).len() as u64;
    assert!(
        (promised..=promised + 1).contains(&count),
        "{count} stored, {promised} promised"
    );
}

#[test]
#[ignore = "started by its parent test"]
fn child_with_a_limit_on_file_size() {
    let Some(dir) = child_dir() else { return };
    let mut broker = Broker::open(dir.join("data"));
    let mut promised = 0;
    // Two megabytes is the limit: unit 20 or so does not fit.
    let error = loop {
        broker.send([put(promised, vec![b'x'; 100_000])], promised, true);
        match broker.released_or_failed() {
            Ok(released) => assert_eq!(released, [promised]),
            Err(error) => break error,
        }
        promised += 1;
    };
    assert!(
        matches!(
            error,
            CommitError::Obstacle {
                obstacle: Obstacle::FileSize,
                ..
            }
        ),
        "{error}"
    );
    assert!((1..40).contains(&promised), "{promised}");
    broker.send([put(100, "too late")], 100, true);
    assert_eq!(broker.try_released(), None);
    std::fs::write(dir.join("promised"), promised.to_string()).unwrap();
    assert_eq!(broker.try_stop(), Err(error));
}

/// Runs one ignored test of this file on a file system of 24 MiB.
#[track_caller]
fn run_child_on_a_small_disk(test: &str) {
    let dir = data_dir();
    let mut probe = Command::new("unshare");
    probe
        .args(["-m", "mount", "-t", "tmpfs", "none"])
        .arg(dir.path());
    if !probe.status().is_ok_and(|status| status.success()) {
        println!("skipped: no right to mount a small file system here");
        return;
    }
    let mount = format!("mount -t tmpfs -o size=24m none {}", dir.path().display());
    run_child(test, &["unshare", "-m", "sh"], &mount, dir.path());
}

#[test]
fn a_full_disk_is_waited_for() {
    run_child_on_a_small_disk("child_on_a_small_disk");
}

#[test]
fn a_stop_on_a_full_disk_says_so_and_nothing_else_fails() {
    run_child_on_a_small_disk("child_that_is_stopped_on_a_small_disk");
}

#[test]
#[ignore = "started by its parent test"]
fn child_that_is_stopped_on_a_small_disk() {
    let Some(dir) = child_dir() else { return };
    let ballast = dir.join("ballast");
    std::fs::write(&ballast, vec![0; 18 << 20]).unwrap();
    let dir = dir.join("data");
    let mut broker = Broker::open(&dir);
    for seq in 0..100 {
        broker.send([put(seq, vec![b'x'; 100_000])], seq, true);
    }
    while !broker.committer.is_out_of_space() {
        thread::yield_now();
    }
    let stopped = broker.committer.stop(PATIENCE);
    assert!(
        matches!(stopped, Err(CommitError::NoSpace { .. })),
        "{stopped:?}"
    );
    assert!(!broker.has_failed());
    let mut promised = 0;
    while let Some(released) = broker.try_released() {
        promised += released.len();
    }
    drop(broker);
    std::fs::remove_file(ballast).unwrap();
    let broker = Broker::open(&dir);
    assert!(broker.seqs(QUEUE).len() >= promised, "{promised}");
}

#[test]
#[ignore = "started by its parent test"]
fn child_on_a_small_disk() {
    let Some(dir) = child_dir() else { return };
    let ballast = dir.join("ballast");
    std::fs::write(&ballast, vec![0; 18 << 20]).unwrap();
    let dir = dir.join("data");
    let mut broker = Broker::open(&dir);
    for seq in 0..100 {
        broker.send([put(seq, vec![b'x'; 100_000])], seq, true);
    }
    while !broker.committer.is_out_of_space() {
        thread::yield_now();
    }
    let mut promised = 0;
    while let Some(released) = broker.try_released() {
        promised += released.len() as u64;
    }
    assert!(promised < 100, "{promised}");
    // What was read stays readable while the disk is full.
    assert!(broker.seqs(QUEUE).len() as u64 >= promised);
    std::fs::remove_file(ballast).unwrap();
    broker.wait_for(99);
    assert!(!broker.committer.is_out_of_space());
    assert_eq!(broker.seqs(QUEUE).len(), 100);
    drop(broker);
    let broker = Broker::open(&dir);
    assert_eq!(broker.seqs(QUEUE).len(), 100);
}
