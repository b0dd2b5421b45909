//! How long a broker takes from its start until a client is served.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};

use crate::broker_url::BrokerUrl;
use crate::client::Client;
use crate::error::BenchError;
use crate::process;

/// How often a client tries.
const RETRY: Duration = Duration::from_millis(1);

/// What takes longer has failed.
const START_MAX: Duration = Duration::from_secs(120);

/// The broker to start.
#[derive(Args, Debug, Clone)]
// The command of the same name has a group of its own.
#[group(skip)]
pub(crate) struct Start {
    /// Address at which it will listen
    #[arg(long, value_name = "URL")]
    pub(crate) url: BrokerUrl,
    /// How often to start it
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub(crate) rounds: usize,
    /// The command that runs it in the foreground
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// One start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Started {
    /// Until a client was logged in and had its channel.
    pub(crate) serving: Duration,
    pub(crate) stopping: Duration,
    pub(crate) cpu: Duration,
    pub(crate) rss_bytes: u64,
}

pub(crate) fn start(start: &Start) -> Result<Vec<Started>, BenchError> {
    if Client::connect(&start.url).is_ok() {
        return Err(BenchError::Arguments(format!(
            "something listens at {} already",
            start.url
        )));
    }
    (0..start.rounds).map(|_| start_once(start)).collect()
}

fn start_once(start: &Start) -> Result<Started, BenchError> {
    let begin = Instant::now();
    let (program, words) = start
        .command
        .split_first()
        .ok_or_else(|| BenchError::Arguments("a command is missing".to_owned()))?;
    let mut broker = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let served = wait_until_served(&mut broker, &start.url, begin);
    let serving = begin.elapsed();
    let pid = broker.id();
    let used = process::sample_tree(pid).map_err(|source| BenchError::Process { pid, source });
    let stopping = stop(&mut broker)?;
    served?;
    let used = used?;
    Ok(Started {
        serving,
        stopping,
        cpu: used.cpu,
        rss_bytes: used.rss_bytes,
    })
}

fn wait_until_served(
    broker: &mut Child,
    url: &BrokerUrl,
    begin: Instant,
) -> Result<(), BenchError> {
    loop {
        match Client::with_channel(url) {
            Ok(client) => return client.close(),
            Err(error) if begin.elapsed() > START_MAX => return Err(error),
            Err(_) => {}
        }
        if let Some(status) = broker.try_wait()? {
            return Err(BenchError::Arguments(format!(
                "the broker ended before it served anyone: {status}"
            )));
        }
        thread::sleep(RETRY);
    }
}

/// Asks it to end and waits.
fn stop(broker: &mut Child) -> Result<Duration, BenchError> {
    let begin = Instant::now();
    if let Some(pid) = i32::try_from(broker.id()).ok().and_then(Pid::from_raw) {
        // It may have ended by itself.
        let _ = kill_process(pid, Signal::TERM);
    }
    broker.wait()?;
    Ok(begin.elapsed())
}
