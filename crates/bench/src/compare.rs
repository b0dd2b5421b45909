//! The same workloads on several brokers in turn: medians, and how many times better one is than another.
//!
//! Rounds alternate, so that what else the machine does meanwhile meets all brokers alike.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use crate::churn::{self, ChurnOutcome};
use crate::cli::{CompareArguments, NamedPeer};
use crate::error::BenchError;
use crate::idle::{self, IdleOutcome};
use crate::limit::EchoProcess;
use crate::report::grouped;
use crate::run::{self, Outcome, Peer};
use crate::workloads::{self, Task, Workload};

/// The name of the echo in tables.
const LIMIT: &str = "limit";

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Better {
    Higher,
    Lower,
}

/// What one run found.
#[derive(Debug, Clone)]
struct Figure {
    name: String,
    value: f64,
    better: Better,
}

/// A figure with its value in every round on every broker.
#[derive(Debug)]
struct Row {
    workload: &'static str,
    name: String,
    better: Better,
    values: BTreeMap<usize, Vec<f64>>,
}

/// All that was measured.
#[derive(Debug)]
pub(crate) struct Comparison {
    peers: Vec<String>,
    rows: Vec<Row>,
}

/// Runs all chosen workloads on all brokers.
pub(crate) fn compare(arguments: &CompareArguments) -> Result<Comparison, BenchError> {
    let chosen = workloads::chosen(&arguments.workloads)?;
    let echo = arguments.limit.then(EchoProcess::start).transpose()?;
    let mut peers = arguments.peers.clone();
    if let Some(echo) = &echo {
        peers.push(NamedPeer {
            name: LIMIT.to_owned(),
            peer: echo.peer.clone(),
        });
    }
    let mut comparison = Comparison {
        peers: peers.iter().map(|peer| peer.name.clone()).collect(),
        rows: Vec::new(),
    };
    for workload in chosen {
        for round in 0..arguments.rounds.max(1) {
            for turn in 0..peers.len() {
                // Nobody is always first.
                let index = (round + turn) % peers.len();
                let named = &peers[index];
                if named.name == LIMIT && !is_for_echo(workload) {
                    continue;
                }
                eprintln!("{} on {}, round {}", workload.name, named.name, round + 1);
                match run_workload(workload, &named.peer, arguments) {
                    Ok(figures) => comparison.add(workload.name, index, figures),
                    Err(error) => eprintln!("{} on {}: {error}", workload.name, named.name),
                }
            }
        }
    }
    Ok(comparison)
}

/// The echo has no exchanges, no backlog and no prefetch that would hold anything back.
fn is_for_echo(workload: &Workload) -> bool {
    workload.steps.iter().all(|step| {
        let words = [
            "--exchange",
            "--get",
            "--keep",
            "--prefetch 1 ",
            "churn",
            "idle",
        ];
        let line = format!("{} ", step.line);
        !words.iter().any(|word| line.contains(word))
    })
}

fn run_workload(
    workload: &Workload,
    peer: &Peer,
    arguments: &CompareArguments,
) -> Result<Vec<Figure>, BenchError> {
    let name = run::own_prefix();
    let mut figures = Vec::new();
    for step in workload.steps {
        let found = match step.task(&name)? {
            Task::Load(mut load) => {
                if load.messages.is_none() {
                    load.seconds = Some(arguments.seconds);
                    load.warmup = arguments.warmup;
                }
                run::run(peer, &load)
                    .inspect_err(|_| run::remove(peer, &load))
                    .map(|outcome| load_figures(&outcome))
            }
            Task::Churn(mut options) => {
                options.seconds = arguments.seconds;
                churn::churn(peer, &options).map(|outcome| churn_figures(&outcome))
            }
            Task::Idle(mut options) => {
                options.seconds = arguments.seconds;
                idle::idle(peer, &options).map(|outcome| idle_figures(&outcome))
            }
        };
        figures.extend(found?.into_iter().map(|figure| Figure {
            name: if step.label.is_empty() {
                figure.name
            } else {
                format!("{}: {}", step.label, figure.name)
            },
            ..figure
        }));
    }
    Ok(figures)
}

fn figure(name: &str, value: f64, better: Better) -> Figure {
    Figure {
        name: name.to_owned(),
        value,
        better,
    }
}

fn load_figures(outcome: &Outcome) -> Vec<Figure> {
    let mut figures = vec![figure("messages/s", outcome.rate(), Better::Higher)];
    if let (Some(broker), Some(cost)) = (&outcome.broker, outcome.broker_us_per_message()) {
        let switches = broker.spent.voluntary_switches + broker.spent.involuntary_switches;
        figures.push(figure("CPU µs/message", cost, Better::Lower));
        figures.push(figure(
            "switches/message",
            switches as f64 / outcome.messages().max(1.0),
            Better::Lower,
        ));
        figures.push(figure(
            "peak MiB",
            mib(broker.rss_peak_bytes as f64),
            Better::Lower,
        ));
    }
    let latencies = [("", &outcome.delivery), ("confirm ", &outcome.confirm)];
    for (label, latency) in latencies {
        if let Some(latency) = latency {
            for (percentile, micros) in [
                ("p50", latency.p50_us),
                ("p99", latency.p99_us),
                ("p99.9", latency.p999_us),
            ] {
                let name = format!("{label}{percentile} µs");
                figures.push(figure(&name, micros, Better::Lower));
            }
        }
    }
    figures
}

fn churn_figures(outcome: &ChurnOutcome) -> Vec<Figure> {
    let mut figures = vec![figure("turns/s", outcome.rate(), Better::Higher)];
    if let Some(cost) = outcome.broker_us_per_turn() {
        figures.push(figure("CPU µs/turn", cost, Better::Lower));
    }
    if let Some(latency) = &outcome.latency {
        figures.push(figure("p99 µs", latency.p99_us, Better::Lower));
    }
    figures
}

fn idle_figures(outcome: &IdleOutcome) -> Vec<Figure> {
    let mut figures = Vec::new();
    let per_sec = |count: usize, secs: f64| count as f64 / secs.max(1e-9);
    if outcome.connections > 0 {
        let rate = per_sec(outcome.connections, outcome.connect_secs);
        figures.push(figure("connects/s", rate, Better::Higher));
    }
    if outcome.queues > 0 {
        let declares = per_sec(outcome.queues, outcome.declare_secs);
        figures.push(figure("declares/s", declares, Better::Higher));
        let deletes = per_sec(outcome.queues, outcome.delete_secs);
        figures.push(figure("deletes/s", deletes, Better::Higher));
    }
    if let (Some(broker), Some(each)) = (&outcome.broker, outcome.bytes_each()) {
        figures.push(figure("KiB each", each / 1024.0, Better::Lower));
        figures.push(figure("MiB", mib(broker.rss_bytes as f64), Better::Lower));
        let idle_ms = broker.idle.cpu.as_secs_f64() * 1e3 / broker.idle_secs;
        figures.push(figure("idle CPU ms/s", idle_ms, Better::Lower));
    }
    figures
}

impl Comparison {
    fn add(&mut self, workload: &'static str, peer: usize, figures: Vec<Figure>) {
        for figure in figures {
            let known = self
                .rows
                .iter()
                .position(|row| row.workload == workload && row.name == figure.name);
            let at = known.unwrap_or_else(|| {
                self.rows.push(Row {
                    workload,
                    name: figure.name,
                    better: figure.better,
                    values: BTreeMap::new(),
                });
                self.rows.len() - 1
            });
            self.rows[at]
                .values
                .entry(peer)
                .or_default()
                .push(figure.value);
        }
    }

    /// A table in Markdown, also readable as it is.
    pub(crate) fn table(&self) -> String {
        let mut header = vec!["workload".to_owned(), "figure".to_owned()];
        header.extend(self.peers.iter().cloned());
        for other in self.peers.iter().skip(1) {
            header.push(format!("{other} is better by"));
        }
        let mut lines = vec![header];
        let mut last = "";
        for row in &self.rows {
            let workload = if row.workload == last {
                ""
            } else {
                row.workload
            };
            last = row.workload;
            let mut line = vec![workload.to_owned(), row.name.clone()];
            line.extend((0..self.peers.len()).map(|peer| match row.median(peer) {
                Some(value) => number(value),
                None => "-".to_owned(),
            }));
            line.extend((1..self.peers.len()).map(|peer| match row.gain(peer) {
                Some(gain) => format!("{gain:.2} ×"),
                None => "-".to_owned(),
            }));
            lines.push(line);
        }
        markdown(&lines)
    }

    pub(crate) fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let peers: serde_json::Map<String, Value> = self
                    .peers
                    .iter()
                    .enumerate()
                    .map(|(index, name)| {
                        let value = json!({
                            "rounds": row.values.get(&index),
                            "median": row.median(index),
                            "gain": row.gain(index),
                        });
                        (name.clone(), value)
                    })
                    .collect();
                json!({ "workload": row.workload, "figure": row.name, "peers": peers })
            })
            .collect();
        Value::Array(rows)
    }
}

impl Row {
    fn median(&self, peer: usize) -> Option<f64> {
        median(self.values.get(&peer)?)
    }

    /// How many times better than the first broker; below 1 is worse.
    fn gain(&self, peer: usize) -> Option<f64> {
        let (first, other) = (self.median(0)?, self.median(peer)?);
        let gain = match self.better {
            Better::Higher => other / first,
            Better::Lower => first / other,
        };
        gain.is_finite().then_some(gain)
    }
}

/// The middle one, or between the two in the middle.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    Some((lower + upper) / 2.0)
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

/// Three digits that matter, and no more than those before the point.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => grouped(value),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn markdown(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let lengths = lines.iter().map(|line| line[column].chars().count());
        lengths.max().unwrap_or_default().max(3)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        for (column, (text, width)) in line.iter().zip(&widths).enumerate() {
            // Words to the left, numbers to the right.
            let cell = if column < 2 {
                format!("| {text:<width$} ")
            } else {
                format!("| {text:>width$} ")
            };
            out.push_str(&cell);
        }
        out.push_str("|\n");
        if index == 0 {
            for (column, width) in widths.iter().enumerate() {
                let end = if column < 2 { '-' } else { ':' };
                write!(out, "|{}{end}", "-".repeat(width + 1)).expect("a string takes everything");
            }
            out.push_str("|\n");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Better, Comparison, figure, is_for_echo, median, number};
    use crate::workloads::WORKLOADS;

    fn comparison() -> Comparison {
        let mut comparison = Comparison {
            peers: vec!["rabbitmq".into(), "leveret".into()],
            rows: Vec::new(),
        };
        for (round, cost) in [30.0, 36.0, 33.0].into_iter().enumerate() {
            let slow = vec![
                figure("messages/s", 1000.0, Better::Higher),
                figure("CPU µs/message", cost, Better::Lower),
            ];
            comparison.add("a-16", 0, slow);
            if round > 0 {
                let fast = vec![
                    figure("messages/s", 2500.0, Better::Higher),
                    figure("CPU µs/message", 1.5, Better::Lower),
                ];
                comparison.add("a-16", 1, fast);
            }
        }
        comparison
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[5.0]), Some(5.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[1.0, 9.0, 3.0, 5.0]), Some(4.0));
    }

    #[test]
    fn more_and_cheaper_are_both_better() {
        let comparison = comparison();
        let gains: Vec<Option<f64>> = comparison.rows.iter().map(|row| row.gain(1)).collect();
        assert_eq!(gains, [Some(2.5), Some(22.0)]);
    }

    #[test]
    fn the_table_has_a_line_for_every_figure() {
        let table = comparison().table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[0].contains("leveret is better by"), "{table}");
        assert!(
            lines[2].contains("| a-16 ") && lines[2].contains("2.50 ×"),
            "{table}"
        );
        assert!(
            lines[3].contains("33.0") && lines[3].contains("22.00 ×"),
            "{table}"
        );
    }

    #[test]
    fn json_keeps_every_round() {
        let json = comparison().json();
        assert_eq!(json[1]["peers"]["rabbitmq"]["rounds"][1], 36.0);
        assert_eq!(json[1]["peers"]["leveret"]["median"], 1.5);
    }

    #[test]
    fn the_echo_is_spared_what_it_does_not_know() {
        let served: Vec<&str> = WORKLOADS
            .iter()
            .filter(|workload| is_for_echo(workload))
            .map(|workload| workload.name)
            .collect();
        assert!(served.contains(&"a-16") && served.contains(&"c-1"));
        for unknown in ["b-1", "f-fanout", "i-500k", "k-1000", "l-visit", "p-get"] {
            assert!(!served.contains(&unknown), "{unknown}");
        }
    }

    #[test]
    fn numbers_have_the_digits_that_matter() {
        assert_eq!(number(1234.5), "1,234");
        assert_eq!(number(12.34), "12.3");
        assert_eq!(number(1.234), "1.23");
        assert_eq!(number(0.1234), "0.123");
    }
}
