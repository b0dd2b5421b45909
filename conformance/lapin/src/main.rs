//! What people do with lapin, as scenarios against the broker at `BROKER_URL`.
//!
//! ```text
//! scenarios [FILTER]       plays those with FILTER in their name, a line for each; ends with 0 if all went well
//! scenarios worker QUEUE   a worker of the work queue
//! ```

mod recovery;
mod scenarios;
mod work_queue;

use std::{error::Error, pin::Pin, process::ExitCode, time::Duration};

/// A machine that does nothing else needs a tenth.
const LIMIT: Duration = Duration::from_secs(20);

/// A restart of RabbitMQ takes ten seconds on a quiet machine.
const RESTART_LIMIT: Duration = Duration::from_secs(90);

/// What conformance/run knows as "the filter matches none of these".
const NO_SCENARIO_MATCHES: u8 = 5;

type Outcome = Result<(), Box<dyn Error>>;
type Play = fn() -> Pin<Box<dyn Future<Output = Outcome>>>;

const SCENARIOS: &[(&str, Play)] = &[
    ("hello", || Box::pin(scenarios::hello())),
    ("work_queue", || Box::pin(work_queue::play())),
    ("fan_out", || Box::pin(scenarios::fan_out())),
    ("routing", || Box::pin(scenarios::routing())),
    ("topics", || Box::pin(scenarios::topics())),
    ("rpc", || Box::pin(scenarios::rpc())),
    ("confirms", || Box::pin(scenarios::confirms())),
    ("transactions", || Box::pin(scenarios::transactions())),
    ("channel_errors", || Box::pin(scenarios::channel_errors())),
    ("recovery", || Box::pin(recovery::play())),
];

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, queue] = &arguments[..]
        && word == "worker"
    {
        work_queue::work(queue).await?;
        return Ok(ExitCode::SUCCESS);
    }
    play_all(arguments.first().map_or("", String::as_str)).await
}

async fn play_all(filter: &str) -> Result<ExitCode, Box<dyn Error>> {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, play) in SCENARIOS.iter().filter(|(name, _)| name.contains(filter)) {
        let restarts = *name == "recovery";
        if restarts && recovery::control().is_empty() {
            println!("lapin: {name} skipped, nothing says how to restart the broker");
            skipped += 1;
            continue;
        }
        let limit = if restarts { RESTART_LIMIT } else { LIMIT };
        let outcome = match tokio::time::timeout(limit, play()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("not at its end after {limit:?}").into()),
        };
        match outcome {
            Ok(()) => {
                println!("lapin: {name} passed");
                passed += 1;
            }
            Err(error) => {
                println!("lapin: {name} FAILED: {error}");
                failed += 1;
            }
        }
    }
    if let Ok(file) = std::env::var("SUMMARY_FILE") {
        std::fs::write(
            file,
            format!("{passed} passed, {failed} failed, {skipped} skipped\n"),
        )?;
    }
    Ok(match (passed + failed + skipped, failed) {
        (0, _) => ExitCode::from(NO_SCENARIO_MATCHES),
        (_, 0) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}
