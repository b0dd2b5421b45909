//! Numbers for people, not a test: `cargo test --release -p leveret-store --test measure -- --ignored --nocapture`.
#![allow(clippy::unwrap_used, reason = "a test may unwrap, its helpers too")]
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

mod common;

use std::time::{Duration, Instant};

use common::{Broker, QUEUE, data_dir, forget, log_files, put, put_in, put_queue, state, state_of};
use leveret_core::{
    ids::{QueueId, Seq},
    record::QueueState,
};
use leveret_store::{Options, Store, SyncMode};

fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

/// Of this thread, exactly.
fn thread_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split_whitespace().next().unwrap().parse().unwrap())
}

fn rss_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
#[ignore = "prints numbers"]
fn open_times() {
    for round in 0..5 {
        let dir = data_dir();
        let rss = rss_kib();
        let (began, cpu) = (Instant::now(), thread_cpu());
        let mut broker = Broker::open(dir.path().join("new"));
        let (opened, cpu) = (began.elapsed(), thread_cpu() - cpu);
        broker.commit([put_queue(QUEUE), put(1, "first"), state(2, 1)]);
        let first = began.elapsed();
        println!(
            "round {round}: open {opened:?} ({cpu:?} CPU), first synced commit {first:?}, rss +{} KiB",
            rss_kib() - rss
        );
        let began = Instant::now();
        broker.stop();
        let stopped = began.elapsed();
        let (began, cpu) = (Instant::now(), thread_cpu());
        let broker = Broker::open(dir.path().join("new"));
        let (opened, cpu) = (began.elapsed(), thread_cpu() - cpu);
        println!(
            "   stop {stopped:?}, reopen {opened:?} ({cpu:?} CPU): {}",
            broker.recovered.report
        );
    }
}

#[test]
#[ignore = "prints numbers"]
fn put_and_forget() {
    for (mode, lag) in [
        (SyncMode::Always, 20_000),
        (SyncMode::Never, 20_000),
        (SyncMode::Always, 1),
    ] {
        let dir = data_dir();
        let options = Options {
            sync: mode,
            ..Options::default()
        };
        let mut broker = Broker::open_with(dir.path(), &options);
        broker.commit([put_queue(QUEUE)]);
        let body = vec![b'x'; 100];
        let (cpu, began) = (cpu_time(), Instant::now());
        let count = 1_000_000u64;
        let unit = 64;
        let mut seq = 0;
        while seq < count {
            let mut writes: Vec<_> = (seq..seq + unit)
                .map(|seq| put(seq, body.clone()))
                .collect();
            writes.push(state(seq + unit, unit));
            broker.send(writes, seq, true);
            if seq >= lag {
                broker.send(
                    (seq - lag..seq - lag + unit)
                        .map(forget)
                        .chain([state(seq + unit, 0)]),
                    seq,
                    false,
                );
            }
            seq += unit;
            while broker.committer.pending_bytes() > 16 << 20 {
                std::thread::yield_now();
            }
        }
        broker.commit([state(seq, 0)]);
        let (cpu, took) = (cpu_time() - cpu, began.elapsed());
        let counters = broker.committer.counters();
        println!(
            "{mode:?} lag {lag}: {:.2} us CPU and {:.2} us per message put and forgotten, {counters:?}, rss {} MiB",
            cpu.as_secs_f64() * 1e6 / count as f64,
            took.as_secs_f64() * 1e6 / count as f64,
            rss_kib() / 1024
        );
        std::thread::sleep(Duration::from_secs(3));
        println!("   three seconds later: rss {} MiB", rss_kib() / 1024);
    }
}

#[test]
#[ignore = "prints numbers"]
fn sizes() {
    println!(
        "a write takes {} bytes in the inbox",
        size_of::<leveret_core::record::Write>()
    );
}

#[test]
#[ignore = "prints numbers"]
fn serial_confirms() {
    let dir = data_dir();
    let mut broker = Broker::open(dir.path());
    broker.commit([put_queue(QUEUE)]);
    let before = broker.committer.counters();
    let began = Instant::now();
    for seq in 0..1000 {
        broker.commit([put(seq, "body"), state(seq + 1, seq + 1)]);
    }
    let counters = broker.committer.counters();
    println!(
        "{:?} per serial confirm, {} syncs",
        began.elapsed() / 1000,
        counters.syncs - before.syncs
    );
}

#[test]
#[ignore = "prints numbers"]
fn reopen_with_a_backlog() {
    let dir = data_dir();
    let options = Options {
        sync: SyncMode::Never,
        ..Options::default()
    };
    let mut broker = Broker::open_with(dir.path(), &options);
    broker.commit([put_queue(QUEUE)]);
    let body = vec![b'x'; 100];
    for start in (0..2_000_000u64).step_by(1000) {
        broker.send(
            (start..start + 1000).map(|seq| put(seq, body.clone())),
            start,
            false,
        );
        while broker.committer.pending_bytes() > 16 << 20 {
            std::thread::yield_now();
        }
    }
    broker.commit([state(2_000_000, 2_000_000)]);
    drop(broker);
    let (began, cpu) = (Instant::now(), thread_cpu());
    let (store, recovered) = Store::open(dir.path(), &options).unwrap();
    let (opened, cpu) = (began.elapsed(), thread_cpu() - cpu);
    println!(
        "after a crash {opened:?} ({cpu:?} CPU): {}",
        recovered.report
    );
    drop(store);
    let broker = Broker::open_with(dir.path(), &options);
    let began = Instant::now();
    broker.stop();
    println!("stop {:?}", began.elapsed());
    let began = Instant::now();
    let broker = Broker::open_with(dir.path(), &options);
    println!(
        "after a stop {:?}: {}",
        began.elapsed(),
        broker.recovered.report
    );
    let began = Instant::now();
    assert_eq!(broker.read_in_pages(QUEUE, 0, 2000).len(), 2_000_000);
    println!(
        "reading {:?}, rss {} MiB",
        began.elapsed(),
        rss_kib() / 1024
    );
}

/// What a start after a kill has to put back into memory: rows of ten queues, in the small units of ten publishers.
#[test]
#[ignore = "prints numbers"]
fn reopen_after_a_kill_with_ten_queues() {
    let body = vec![b'x'; 1024];
    for log_bytes_max in [128 << 20, 64 << 20, 32 << 20] {
        let options = Options {
            sync: SyncMode::Never,
            log_bytes_max,
            ..Options::default()
        };
        let dir = data_dir();
        let mut broker = Broker::open_with(dir.path(), &options);
        let queues: Vec<QueueId> = (1..=10).map(QueueId::new).collect();
        broker.commit(queues.iter().map(|queue| put_queue(*queue)));
        let (mut most, cpu, began) = (0, cpu_time(), Instant::now());
        for seq in (0..50_000u64).step_by(5) {
            for queue in &queues {
                let puts = (seq..seq + 5).map(|seq| put_in(*queue, 0, seq, body.clone()));
                let messages = seq + 5;
                let state = QueueState {
                    next: Seq::new(messages),
                    messages,
                    ..QueueState::default()
                };
                broker.send(puts.chain([state_of(*queue, state)]), seq, false);
            }
            broker.wait_for(seq);
            if seq % 1000 == 0 {
                most = most.max(log_bytes(dir.path()));
            }
        }
        let (cpu, took) = (cpu_time() - cpu, began.elapsed());
        drop(broker);
        let left = log_bytes(dir.path());
        let (began, cpu_open) = (Instant::now(), thread_cpu());
        let (store, recovered) = Store::open(dir.path(), &options).unwrap();
        let (opened, cpu_open) = (began.elapsed(), thread_cpu() - cpu_open);
        println!(
            "log of {} MiB at most: filled in {took:?} ({cpu:?} CPU), log {} MiB at most, {} MiB at the end; opened in \
             {opened:?} ({cpu_open:?} CPU): {}",
            log_bytes_max >> 20,
            most >> 20,
            left >> 20,
            recovered.report
        );
        drop(store);
    }
}

fn log_bytes(dir: &std::path::Path) -> u64 {
    let logs = log_files(dir).into_iter();
    logs.filter_map(|log| Some(log.metadata().ok()?.len()))
        .sum()
}
