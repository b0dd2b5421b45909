//! The workloads that have names, each as the command line that runs it alone.

use clap::{Args, Parser};

use crate::churn::Churn;
use crate::error::BenchError;
use crate::idle::Idle;
use crate::load::Load;

/// A named workload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// What it stands for, in a few words.
    pub(crate) about: &'static str,
    /// Run one after the other, on the same queues.
    pub(crate) steps: &'static [Step],
    /// Takes minutes on some brokers; runs only when it is named.
    pub(crate) is_long: bool,
}

/// One run of a workload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    /// Tells the steps of one workload apart; empty when there is one.
    pub(crate) label: &'static str,
    pub(crate) line: &'static str,
}

/// A step with its options read.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    Load(Box<Load>),
    Churn(Churn),
    Idle(Idle),
}

const fn one(name: &'static str, about: &'static str, steps: &'static [Step]) -> Workload {
    Workload {
        name,
        about,
        steps,
        is_long: false,
    }
}

const fn long(name: &'static str, about: &'static str, steps: &'static [Step]) -> Workload {
    Workload {
        name,
        about,
        steps,
        is_long: true,
    }
}

const fn step(line: &'static str) -> Step {
    Step { label: "", line }
}

const fn labelled(label: &'static str, line: &'static str) -> Step {
    Step { label, line }
}

/// All of them, in the order they are run.
///
/// Where publishing is unbounded, `--in-flight` keeps queues from growing or drying up: otherwise the figure would be one of
/// a growing backlog on a broker that reads faster than it delivers.
pub(crate) const WORKLOADS: &[Workload] = &[
    one(
        "a-16",
        "transient, auto-ack, 16 bytes",
        &[step("--size 16 --auto-ack --in-flight 10000")],
    ),
    one(
        "a-1k",
        "transient, auto-ack, 1 KiB",
        &[step("--size 1024 --auto-ack --in-flight 10000")],
    ),
    one(
        "a-16k",
        "transient, auto-ack, 16 KiB",
        &[step("--size 16384 --auto-ack --in-flight 2000")],
    ),
    one(
        "b-1",
        "transient, ack each, prefetch 1",
        &[step("--size 16 --prefetch 1 --in-flight 1000")],
    ),
    one(
        "b-100",
        "transient, ack each, prefetch 100",
        &[step("--size 16 --prefetch 100 --in-flight 10000")],
    ),
    one(
        "b-1000",
        "transient, ack every 50, prefetch 1000",
        &[step(
            "--size 16 --prefetch 1000 --ack-every 50 --in-flight 10000",
        )],
    ),
    one(
        "c-1",
        "persistent 1 KiB, confirms (window 200), ack every 20",
        &[step(
            "--size 1024 --persistent --durable --confirm-window 200 --prefetch 1000 --ack-every 20",
        )],
    ),
    one(
        "c-4x4",
        "the same with 4 producers, 4 consumers, 4 queues",
        &[step(
            "--size 1024 --persistent --durable --confirm-window 200 --prefetch 1000 --ack-every 20 \
             --producers 4 --consumers 4 --queues 4",
        )],
    ),
    one(
        "c-10",
        "the same with 10 producers, 10 consumers, 10 queues",
        &[step(
            "--size 1024 --persistent --durable --confirm-window 200 --prefetch 1000 --ack-every 20 \
             --producers 10 --consumers 10 --queues 10",
        )],
    ),
    one(
        "d-1",
        "as c-1 on a quorum queue",
        &[step(
            "--size 1024 --persistent --durable --confirm-window 200 --prefetch 1000 --ack-every 20 \
             --queue-type quorum",
        )],
    ),
    one(
        "d-10",
        "as c-10 on quorum queues",
        &[step(
            "--size 1024 --persistent --durable --confirm-window 200 --prefetch 1000 --ack-every 20 \
             --producers 10 --consumers 10 --queues 10 --queue-type quorum",
        )],
    ),
    one(
        "e-classic",
        "publish and wait for each confirm, persistent 1 KiB",
        &[step(
            "--size 1024 --persistent --durable --confirm-window 1 --prefetch 100 --ack-every 20",
        )],
    ),
    one(
        "e-quorum",
        "the same on a quorum queue",
        &[step(
            "--size 1024 --persistent --durable --confirm-window 1 --prefetch 100 --ack-every 20 \
             --queue-type quorum",
        )],
    ),
    one(
        "f-fanout",
        "fanout to 10 queues, 100 bytes, auto-ack",
        &[step(
            "--size 100 --auto-ack --exchange fanout --queues 10 --consumers 10 --in-flight 2000",
        )],
    ),
    one(
        "g-topic",
        "topic with 10,000 bindings, 1,000 keys, 100 bytes, auto-ack",
        &[step(
            "--size 100 --auto-ack --exchange topic --queues 10 --consumers 10 --bindings 10000 \
             --in-flight 10000",
        )],
    ),
    one(
        "g-headers",
        "headers with 100 bindings, 100 bytes, auto-ack",
        &[step(
            "--size 100 --auto-ack --exchange headers --queues 10 --consumers 10 --bindings 100 \
             --in-flight 10000",
        )],
    ),
    one(
        "h-1m",
        "transient, auto-ack, 1 MiB",
        &[step("--size 1048576 --auto-ack --in-flight 32")],
    ),
    one(
        "i-500k",
        "a backlog of 500,000: in, then out",
        &[
            labelled(
                "in",
                "--size 100 --durable --consumers 0 --messages 500000 --keep",
            ),
            labelled(
                "out",
                "--size 100 --durable --producers 0 --messages 500000 --prefetch 1000 --ack-every 50",
            ),
        ],
    ),
    long(
        "i-5m",
        "a backlog of 5 million: in, then out",
        &[
            labelled(
                "in",
                "--size 100 --durable --consumers 0 --messages 5000000 --keep",
            ),
            labelled(
                "out",
                "--size 100 --durable --producers 0 --messages 5000000 --prefetch 1000 --ack-every 50",
            ),
        ],
    ),
    one(
        "j-1000",
        "latency at 1,000 messages per second",
        &[step("--size 100 --rate 1000 --prefetch 100")],
    ),
    one(
        "j-20000",
        "latency at 20,000 messages per second",
        &[step(
            "--size 100 --rate 20000 --prefetch 1000 --ack-every 10",
        )],
    ),
    one(
        "j-persistent",
        "latency at 1,000 persistent messages per second with confirms",
        &[step(
            "--size 1024 --rate 1000 --prefetch 100 --persistent --durable --confirm-window 1000",
        )],
    ),
    one(
        "k-1000",
        "1,000 idle connections with a channel each",
        &[step("idle --connections 1000")],
    ),
    long(
        "k-10000",
        "10,000 idle connections with a channel each",
        &[step("idle --connections 10000")],
    ),
    one(
        "k-slow",
        "1,000 consumers, each half a second busy with one message",
        &[step(
            "--size 100 --consumers 1000 --prefetch 1 --work 0.5 --rate 1500 --in-flight 3000",
        )],
    ),
    one(
        "l-visit",
        "connect, declare, publish, delete, close",
        &[step("churn --of visit")],
    ),
    one(
        "l-connection",
        "connect and close",
        &[step("churn --of connection")],
    ),
    one(
        "l-channel",
        "open and close a channel",
        &[step("churn --of channel")],
    ),
    one(
        "l-queue",
        "declare and delete a queue",
        &[step("churn --of queue")],
    ),
    one(
        "m-5000",
        "5,000 queues without messages",
        &[step("idle --queues 5000")],
    ),
    long(
        "m-50000",
        "50,000 queues without messages",
        &[step("idle --queues 50000")],
    ),
    one(
        "p-get",
        "polling with basic.get, ack each",
        &[step("--size 100 --get --in-flight 1000")],
    ),
    one(
        "t-tx",
        "persistent 1 KiB in transactions of 100",
        &[step(
            "--size 1024 --persistent --durable --tx-every 100 --prefetch 1000 --ack-every 20",
        )],
    ),
    long(
        "growth-queues-1",
        "the load of one consumer over 1 queue",
        &[step("--size 100 --auto-ack --in-flight 5000 --queues 1")],
    ),
    long(
        "growth-queues-10",
        "the load of one consumer over 10 queues",
        &[step("--size 100 --auto-ack --in-flight 5000 --queues 10")],
    ),
    long(
        "growth-queues-100",
        "the load of one consumer over 100 queues",
        &[step("--size 100 --auto-ack --in-flight 5000 --queues 100")],
    ),
    long(
        "growth-queues-1000",
        "the load of one consumer over 1,000 queues",
        &[step("--size 100 --auto-ack --in-flight 5000 --queues 1000")],
    ),
    long(
        "growth-connections-1",
        "1 producer and as many consumers and queues",
        &[step(
            "--size 100 --auto-ack --in-flight 5000 --queues 1 --producers 1 --consumers 1",
        )],
    ),
    long(
        "growth-connections-10",
        "10 producers and as many consumers and queues",
        &[step(
            "--size 100 --auto-ack --in-flight 5000 --queues 10 --producers 10 --consumers 10",
        )],
    ),
    long(
        "growth-connections-100",
        "100 producers and as many consumers and queues",
        &[step(
            "--size 100 --auto-ack --in-flight 5000 --queues 100 --producers 100 --consumers 100",
        )],
    ),
    long(
        "growth-connections-500",
        "500 producers and as many consumers and queues",
        &[step(
            "--size 100 --auto-ack --in-flight 5000 --queues 500 --producers 500 --consumers 500",
        )],
    ),
    long(
        "growth-bindings-10",
        "topic with 10 bindings",
        &[step(
            "--size 100 --auto-ack --in-flight 5000 --exchange topic --bindings 10 --queues 10",
        )],
    ),
    long(
        "growth-bindings-1000",
        "topic with 1,000 bindings",
        &[step(
            "--size 100 --auto-ack --in-flight 5000 --exchange topic --bindings 1000 --queues 10",
        )],
    ),
    long(
        "growth-bindings-100000",
        "topic with 100,000 bindings",
        &[step(
            "--size 100 --auto-ack --in-flight 5000 --exchange topic --bindings 100000 --queues 10",
        )],
    ),
    long(
        "growth-backlog-1",
        "in and out of a queue that holds 1 message",
        &[
            labelled(
                "fill",
                "--size 100 --durable --consumers 0 --messages 1 --keep",
            ),
            labelled(
                "steady",
                "--size 100 --durable --prefetch 1000 --ack-every 50 --in-flight 1000",
            ),
        ],
    ),
    long(
        "growth-backlog-1000",
        "in and out of a queue that holds 1,000 messages",
        &[
            labelled(
                "fill",
                "--size 100 --durable --consumers 0 --messages 1000 --keep",
            ),
            labelled(
                "steady",
                "--size 100 --durable --prefetch 1000 --ack-every 50 --in-flight 1000",
            ),
        ],
    ),
    long(
        "growth-backlog-1000000",
        "in and out of a queue that holds 1,000,000 messages",
        &[
            labelled(
                "fill",
                "--size 100 --durable --consumers 0 --messages 1000000 --keep",
            ),
            labelled(
                "steady",
                "--size 100 --durable --prefetch 1000 --ack-every 50 --in-flight 1000",
            ),
        ],
    ),
];

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line<T: Args> {
    #[command(flatten)]
    options: T,
}

impl Step {
    /// Reads the line. The first word may say that it is no load. All steps of one run get the same name, so that a later
    /// one finds what an earlier one left.
    pub(crate) fn task(&self, name: &str) -> Result<Task, BenchError> {
        let words: Vec<&str> = self.line.split_ascii_whitespace().collect();
        match words.split_first() {
            Some((&"churn", rest)) => options(rest).map(Task::Churn),
            Some((&"idle", rest)) => options(rest).map(Task::Idle),
            _ => {
                let mut load: Load = options(&words)?;
                load.name = Some(name.to_owned());
                load.check()?;
                Ok(Task::Load(Box::new(load)))
            }
        }
    }
}

fn options<T: Args>(words: &[&str]) -> Result<T, BenchError> {
    Line::try_parse_from(words)
        .map(|line: Line<T>| line.options)
        .map_err(|error| BenchError::Arguments(error.to_string()))
}

/// Those whose names begin with one of the given, long ones only if no other does; without any, all that are not long.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<&'static Workload>, BenchError> {
    if names.is_empty() {
        return Ok(WORKLOADS
            .iter()
            .filter(|workload| !workload.is_long)
            .collect());
    }
    let mut found: Vec<&Workload> = Vec::new();
    for name in names {
        let named = |is_wanted: &dyn Fn(&Workload) -> bool| -> Vec<&'static Workload> {
            WORKLOADS
                .iter()
                .filter(|workload| is_wanted(workload))
                .collect()
        };
        let starts = |workload: &Workload| workload.name.starts_with(name.as_str());
        let matching = [
            named(&|workload| workload.name == name),
            named(&|workload| starts(workload) && !workload.is_long),
            named(&starts),
        ]
        .into_iter()
        .find(|found| !found.is_empty())
        .unwrap_or_default();
        if matching.is_empty() {
            return Err(BenchError::Arguments(format!(
                "no workload is named {name:?}; `workloads` lists them"
            )));
        }
        found.extend(matching);
    }
    Ok(found)
}

/// The table for people.
pub(crate) fn list() -> String {
    let mut out = String::new();
    for workload in WORKLOADS {
        let long = if workload.is_long {
            " (only when named)"
        } else {
            ""
        };
        out.push_str(&format!("{:<14} {}{long}\n", workload.name, workload.about));
        for step in workload.steps {
            out.push_str(&format!("{:<14}   {}\n", step.label, step.line));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Task, WORKLOADS, chosen, list};

    #[test]
    fn every_workload_can_be_run() {
        for workload in WORKLOADS {
            for step in workload.steps {
                if let Err(error) = step.task("name") {
                    panic!("{}: {error}", workload.name);
                }
            }
        }
    }

    #[test]
    fn names_are_different() {
        let names: BTreeSet<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
        assert_eq!(names.len(), WORKLOADS.len());
    }

    #[test]
    fn the_start_of_a_name_chooses_all_that_are_not_long() {
        let names = |chosen: &str| -> Vec<&str> {
            let chosen = super::chosen(&[chosen.to_owned()]).unwrap();
            chosen.iter().map(|workload| workload.name).collect()
        };
        assert_eq!(names("a-"), ["a-16", "a-1k", "a-16k"]);
        assert_eq!(names("a-16"), ["a-16"]);
        assert_eq!(names("i-"), ["i-500k"]);
        assert_eq!(names("i-5m"), ["i-5m"]);
        assert_eq!(names("growth-queues").len(), 4);
        assert!(chosen(&["z".to_owned()]).is_err());
        assert!(
            chosen(&[])
                .unwrap()
                .iter()
                .all(|workload| !workload.is_long)
        );
    }

    #[test]
    fn other_kinds_begin_with_a_word() {
        let find = |name: &str| {
            WORKLOADS
                .iter()
                .find(|workload| workload.name == name)
                .unwrap()
        };
        assert!(matches!(
            find("l-visit").steps[0].task("name"),
            Ok(Task::Churn(_))
        ));
        assert!(matches!(
            find("k-1000").steps[0].task("name"),
            Ok(Task::Idle(_))
        ));
        assert!(matches!(
            find("a-16").steps[0].task("name"),
            Ok(Task::Load(_))
        ));
        assert!(list().contains("churn --of visit"));
    }
}
