//! An outcome as text for people and as JSON for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::churn::ChurnOutcome;
use crate::idle::IdleOutcome;
use crate::latency::Percentiles;
use crate::process::ProcessUse;
use crate::run::{BrokerUse, Outcome};
use crate::start::Started;

/// The outcome as lines of text.
pub(crate) fn text(outcome: &Outcome) -> String {
    let mut out = String::new();
    let counts = &outcome.counts;
    let mut line = |label: &str, text: String| {
        writeln!(out, "{label:<10} {text}").expect("a string takes everything");
    };
    line(
        "measured",
        format!("{:.2} s", outcome.elapsed.as_secs_f64()),
    );
    if counts.published > 0 {
        line(
            "published",
            format!(
                "{} in all, {} per second",
                grouped(counts.published as f64),
                grouped(outcome.published_rate())
            ),
        );
    }
    if let Some(rate) = outcome.intended_rate
        && outcome.is_behind()
    {
        line(
            "BEHIND",
            format!("{} per second were asked for", grouped(rate)),
        );
    }
    if counts.confirmed > 0 || counts.nacked > 0 {
        let nacked = match counts.nacked {
            0 => String::new(),
            nacked => format!(", {} of them refused", grouped(nacked as f64)),
        };
        line(
            "confirmed",
            format!("{}{nacked}", grouped(counts.confirmed as f64)),
        );
    }
    if counts.returned > 0 {
        line("returned", grouped(counts.returned as f64));
    }
    if counts.delivered > 0 {
        line(
            "delivered",
            format!(
                "{} in all, {} per second",
                grouped(counts.delivered as f64),
                grouped(outcome.delivered_rate())
            ),
        );
    }
    if counts.empty_gets > 0 {
        line("empty gets", grouped(counts.empty_gets as f64));
    }
    if let Some(latency) = &outcome.delivery {
        line("latency", percentiles_text(latency));
    }
    if let Some(latency) = &outcome.confirm {
        line("confirms", percentiles_text(latency));
    }
    if let (Some(broker), Some(cost)) = (&outcome.broker, outcome.broker_us_per_message()) {
        line(
            "broker",
            format!(
                "{cost:.2} µs of CPU per message (s per million), {:.2} cores",
                cores(&broker.spent, outcome)
            ),
        );
        line(
            "",
            format!(
                "memory {} before, {} at most, {} now; since it started {} at most",
                mib(broker.rss_before_bytes),
                mib(broker.rss_peak_bytes),
                mib(broker.spent.rss_bytes),
                mib(broker.spent.rss_peak_bytes),
            ),
        );
        line(
            "",
            format!(
                "{} voluntary and {} involuntary switches, {} written to disk",
                grouped(broker.spent.voluntary_switches as f64),
                grouped(broker.spent.involuntary_switches as f64),
                mib(broker.spent.disk_written_bytes),
            ),
        );
    }
    line(
        "client",
        format!(
            "{:.2} µs of CPU per message, {:.2} cores",
            outcome.client_us_per_message(),
            cores(&outcome.client, outcome)
        ),
    );
    out
}

/// The outcome of a churn as lines of text.
pub(crate) fn churn_text(outcome: &ChurnOutcome) -> String {
    let mut out = format!(
        "{} turns in {:.2} s, {} per second\n",
        grouped(outcome.turns as f64),
        outcome.elapsed.as_secs_f64(),
        grouped(outcome.rate()),
    );
    if let Some(latency) = &outcome.latency {
        out.push_str(&format!("turn       {}\n", percentiles_text(latency)));
    }
    if let Some(cost) = outcome.broker_us_per_turn() {
        out.push_str(&format!("broker     {cost:.1} µs of CPU per turn\n"));
    }
    let cost = outcome.client_us_per_turn();
    out.push_str(&format!("client     {cost:.1} µs of CPU per turn\n"));
    out
}

/// The outcome of a churn as JSON.
pub(crate) fn churn_json(outcome: &ChurnOutcome) -> Value {
    json!({
        "elapsed_secs": outcome.elapsed.as_secs_f64(),
        "turns": outcome.turns,
        "turns_per_sec": outcome.rate(),
        "turn_us": outcome.latency.as_ref().map(percentiles_json),
        "broker_cpu_us_per_turn": outcome.broker_us_per_turn(),
        "client_cpu_us_per_turn": outcome.client_us_per_turn(),
    })
}

/// What idle things cost, as lines of text.
pub(crate) fn idle_text(outcome: &IdleOutcome) -> String {
    let mut out = String::new();
    if outcome.queues > 0 {
        out.push_str(&format!(
            "{} queues declared in {:.2} s and deleted in {:.2} s\n",
            grouped(outcome.queues as f64),
            outcome.declare_secs,
            outcome.delete_secs
        ));
    }
    if outcome.connections > 0 {
        out.push_str(&format!(
            "{} connections opened in {:.2} s\n",
            grouped(outcome.connections as f64),
            outcome.connect_secs
        ));
    }
    if let (Some(broker), Some(each)) = (&outcome.broker, outcome.bytes_each()) {
        out.push_str(&format!(
            "broker     memory {} before, {} with all of them: {:.2} KiB each\n",
            mib(broker.rss_before_bytes),
            mib(broker.rss_bytes),
            each / 1024.0
        ));
        out.push_str(&format!(
            "           {:.2} s of CPU to declare, {:.2} s to connect, {:.2} s in {:.0} s of doing nothing\n",
            broker.declare_cpu.as_secs_f64(),
            broker.connect_cpu.as_secs_f64(),
            broker.idle.cpu.as_secs_f64(),
            broker.idle_secs
        ));
    }
    out
}

/// What idle things cost, as JSON.
pub(crate) fn idle_json(outcome: &IdleOutcome) -> Value {
    json!({
        "connections": outcome.connections,
        "queues": outcome.queues,
        "connect_secs": outcome.connect_secs,
        "declare_secs": outcome.declare_secs,
        "delete_secs": outcome.delete_secs,
        "bytes_each": outcome.bytes_each(),
        "broker": outcome.broker.as_ref().map(|broker| json!({
            "rss_before_bytes": broker.rss_before_bytes,
            "rss_bytes": broker.rss_bytes,
            "declare_cpu_secs": broker.declare_cpu.as_secs_f64(),
            "connect_cpu_secs": broker.connect_cpu.as_secs_f64(),
            "idle_cpu_secs": broker.idle.cpu.as_secs_f64(),
            "idle_secs": broker.idle_secs,
        })),
    })
}

/// How a broker started, a line for every time.
pub(crate) fn start_text(starts: &[Started]) -> String {
    let mut out = String::new();
    for started in starts {
        out.push_str(&format!(
            "served after {}, {:.2} s of CPU, {}; stopped in {}\n",
            time(started.serving.as_secs_f64() * 1e6),
            started.cpu.as_secs_f64(),
            mib(started.rss_bytes),
            time(started.stopping.as_secs_f64() * 1e6),
        ));
    }
    out
}

/// How a broker started, as JSON.
pub(crate) fn start_json(starts: &[Started]) -> Value {
    let starts = starts.iter().map(|started| {
        json!({
            "serving_secs": started.serving.as_secs_f64(),
            "stopping_secs": started.stopping.as_secs_f64(),
            "cpu_secs": started.cpu.as_secs_f64(),
            "rss_bytes": started.rss_bytes,
        })
    });
    Value::Array(starts.collect())
}

/// The outcome as JSON; times in microseconds, memory in bytes.
pub(crate) fn json(outcome: &Outcome) -> Value {
    let counts = &outcome.counts;
    json!({
        "elapsed_secs": outcome.elapsed.as_secs_f64(),
        "published": counts.published,
        "confirmed": counts.confirmed,
        "nacked": counts.nacked,
        "returned": counts.returned,
        "delivered": counts.delivered,
        "empty_gets": counts.empty_gets,
        "intended_per_sec": outcome.intended_rate,
        "published_per_sec": outcome.published_rate(),
        "delivered_per_sec": outcome.delivered_rate(),
        "latency_us": outcome.delivery.as_ref().map(percentiles_json),
        "confirm_latency_us": outcome.confirm.as_ref().map(percentiles_json),
        "broker": outcome.broker.as_ref().map(|broker| broker_json(broker, outcome)),
        "client": {
            "cpu_secs": outcome.client.cpu.as_secs_f64(),
            "cpu_us_per_message": outcome.client_us_per_message(),
        },
    })
}

fn broker_json(broker: &BrokerUse, outcome: &Outcome) -> Value {
    json!({
        "cpu_secs": broker.spent.cpu.as_secs_f64(),
        "cpu_us_per_message": outcome.broker_us_per_message(),
        "rss_before_bytes": broker.rss_before_bytes,
        "rss_peak_bytes": broker.rss_peak_bytes,
        "rss_bytes": broker.spent.rss_bytes,
        "voluntary_switches": broker.spent.voluntary_switches,
        "involuntary_switches": broker.spent.involuntary_switches,
        "disk_written_bytes": broker.spent.disk_written_bytes,
    })
}

fn percentiles_json(latency: &Percentiles) -> Value {
    json!({
        "count": latency.count,
        "p50": latency.p50_us,
        "p90": latency.p90_us,
        "p99": latency.p99_us,
        "p99.9": latency.p999_us,
        "max": latency.max_us,
    })
}

fn percentiles_text(latency: &Percentiles) -> String {
    format!(
        "p50 {}, p90 {}, p99 {}, p99.9 {}, at most {}",
        time(latency.p50_us),
        time(latency.p90_us),
        time(latency.p99_us),
        time(latency.p999_us),
        time(latency.max_us),
    )
}

fn cores(spent: &ProcessUse, outcome: &Outcome) -> f64 {
    spent.cpu.as_secs_f64() / outcome.elapsed.as_secs_f64()
}

/// Microseconds in the unit that people read most easily.
pub(crate) fn time(micros: f64) -> String {
    match micros {
        micros if micros < 1e3 => format!("{micros:.0} µs"),
        micros if micros < 1e5 => format!("{:.2} ms", micros / 1e3),
        micros if micros < 1e6 => format!("{:.0} ms", micros / 1e3),
        micros => format!("{:.2} s", micros / 1e6),
    }
}

/// A whole number with its thousands apart.
pub(crate) fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number);
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{grouped, json, text, time};
    use crate::board::Counts;
    use crate::latency::Percentiles;
    use crate::process::ProcessUse;
    use crate::run::{BrokerUse, Outcome};

    fn outcome() -> Outcome {
        let cpu = |millis| ProcessUse {
            cpu: Duration::from_millis(millis),
            rss_bytes: 3 << 20,
            ..ProcessUse::default()
        };
        Outcome {
            elapsed: Duration::from_secs(2),
            counts: Counts {
                published: 1_100_000,
                delivered: 900_000,
                ..Counts::default()
            },
            copies: 1,
            intended_rate: None,
            delivery: Some(Percentiles {
                count: 900_000,
                p50_us: 120.0,
                p90_us: 250.5,
                p99_us: 1_500.0,
                p999_us: 20_000.0,
                max_us: 1_200_000.0,
            }),
            confirm: None,
            broker: Some(BrokerUse {
                spent: cpu(1_500),
                rss_before_bytes: 1 << 20,
                rss_peak_bytes: 4 << 20,
            }),
            client: cpu(400),
        }
    }

    #[test]
    fn cost_is_told_per_message_that_went_through() {
        let outcome = outcome();
        assert_eq!(outcome.messages(), 1_000_000.0);
        assert_eq!(outcome.broker_us_per_message(), Some(1.5));
        assert_eq!(outcome.client_us_per_message(), 0.4);
        assert_eq!(outcome.rate(), 450_000.0);
    }

    #[test]
    fn a_message_to_ten_queues_is_one_message() {
        let mut outcome = outcome();
        outcome.copies = 10;
        outcome.counts.published = 90_000;
        assert_eq!(outcome.messages(), 90_000.0);
    }

    #[test]
    fn a_rate_that_was_not_reached_is_said() {
        let mut outcome = outcome();
        outcome.intended_rate = Some(550_000.0);
        assert!(!text(&outcome).contains("BEHIND"));
        outcome.intended_rate = Some(600_000.0);
        assert!(text(&outcome).contains("BEHIND     600,000 per second were asked for"));
    }

    #[test]
    fn the_text_says_what_was_measured_and_nothing_else() {
        let text = text(&outcome());
        assert!(
            text.contains("delivered  900,000 in all, 450,000 per second"),
            "{text}"
        );
        assert!(
            text.contains("p50 120 µs, p90 250 µs, p99 1.50 ms, p99.9 20.00 ms, at most 1.20 s"),
            "{text}"
        );
        assert!(text.contains("1.50 µs of CPU per message"), "{text}");
        assert!(
            text.contains("1.0 MiB before, 4.0 MiB at most, 3.0 MiB now"),
            "{text}"
        );
        assert!(!text.contains("confirm"), "{text}");
    }

    #[test]
    fn json_has_null_for_what_was_not_measured() {
        let json = json(&outcome());
        assert_eq!(json["delivered_per_sec"], 450_000.0);
        assert_eq!(json["latency_us"]["p99.9"], 20_000.0);
        assert_eq!(json["broker"]["cpu_us_per_message"], 1.5);
        assert!(json["confirm_latency_us"].is_null());
    }

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!(grouped(0.4), "0");
        assert_eq!(grouped(999.0), "999");
        assert_eq!(grouped(1_234_567.0), "1,234,567");
        assert_eq!(time(999.0), "999 µs");
        assert_eq!(time(1_000.0), "1.00 ms");
        assert_eq!(time(250_000.0), "250 ms");
    }
}
