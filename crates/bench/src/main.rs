//! A load generator for any AMQP 0-9-1 broker, and what it costs that broker to serve the load.
//!
//! The client must be cheap, or it is what gets measured: one thread drives all connections by default, everything is
//! batched, and nothing is allocated or counted per message.

mod board;
mod broker_url;
mod churn;
mod cli;
mod client;
mod clock;
mod compare;
mod drive;
mod error;
mod frame_buffer;
mod idle;
mod latency;
mod limit;
mod load;
mod process;
mod report;
mod run;
mod schedule;
mod start;
mod topology;
mod workloads;

use std::process::ExitCode;

use clap::Parser;

use cli::Command;
use error::BenchError;

fn main() -> ExitCode {
    match bench(&cli::Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leveret-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(arguments: &cli::Arguments) -> Result<(), BenchError> {
    process::raise_file_limit();
    let Some(command) = &arguments.command else {
        let outcome = run::run(&arguments.peer.peer(), &arguments.load)?;
        print(
            arguments.json,
            || report::json(&outcome),
            || report::text(&outcome),
        );
        return Ok(());
    };
    match command {
        Command::Churn { peer, churn, json } => {
            let outcome = churn::churn(&peer.peer(), churn)?;
            print(
                *json,
                || report::churn_json(&outcome),
                || report::churn_text(&outcome),
            );
        }
        Command::Idle { peer, idle, json } => {
            let outcome = idle::idle(&peer.peer(), idle)?;
            print(
                *json,
                || report::idle_json(&outcome),
                || report::idle_text(&outcome),
            );
        }
        Command::Compare(arguments) => {
            let comparison = compare::compare(arguments)?;
            print(arguments.json, || comparison.json(), || comparison.table());
        }
        Command::Limit { load, json } => {
            let outcome = limit::limit(load)?;
            print(*json, || report::json(&outcome), || report::text(&outcome));
        }
        Command::Start { start, json } => {
            let starts = start::start(start)?;
            print(
                *json,
                || report::start_json(&starts),
                || report::start_text(&starts),
            );
        }
        Command::Workloads => print!("{}", workloads::list()),
        Command::Echo => limit::serve_echo()?,
    }
    Ok(())
}

fn print(as_json: bool, json: impl Fn() -> serde_json::Value, text: impl Fn() -> String) {
    if as_json {
        println!("{:#}", json());
    } else {
        print!("{}", text());
    }
}
