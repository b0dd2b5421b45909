//! The command line.

use std::str::FromStr;

use clap::{Args, Parser, Subcommand};

use crate::broker_url::BrokerUrl;
use crate::churn::Churn;
use crate::idle::Idle;
use crate::limit;
use crate::load::Load;
use crate::run::Peer;
use crate::start::Start;

/// A load generator for AMQP 0-9-1 brokers
///
/// Without a command: publishes and consumes, and prints throughput, latency and what it cost the broker.
#[derive(Parser, Debug)]
#[command(name = "leveret-bench", version, max_term_width = 100)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) peer: PeerArguments,
    #[command(flatten)]
    pub(crate) load: Load,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Open and close connections or channels, declare and delete queues, as fast as possible
    Churn {
        #[command(flatten)]
        peer: PeerArguments,
        #[command(flatten)]
        churn: Churn,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Open connections and queues, and tell what they cost while nothing happens
    Idle {
        #[command(flatten)]
        peer: PeerArguments,
        #[command(flatten)]
        idle: Idle,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run named workloads on several brokers in turn; print medians and ratios
    Compare(CompareArguments),
    /// Run a load against an echo that only frames: the most that client and loopback can do
    Limit {
        #[command(flatten)]
        load: Load,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Start a broker several times: how long until it serves a client
    Start {
        #[command(flatten)]
        start: Start,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the named workloads
    Workloads,
    /// Be the echo of `limit`
    #[command(name = limit::ECHO_COMMAND, hide = true)]
    Echo,
}

/// Which broker is measured.
#[derive(Args, Debug, Clone)]
pub(crate) struct PeerArguments {
    /// Address of the broker
    #[arg(
        long,
        default_value = "amqp://guest:guest@127.0.0.1:5672",
        value_name = "URL"
    )]
    pub(crate) url: BrokerUrl,
    /// Process of the broker, to tell what it costs (of RabbitMQ that of beam.smp)
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
}

#[derive(Args, Debug)]
pub(crate) struct CompareArguments {
    /// A broker: NAME=URL,PID. The first one is what the others are compared with
    #[arg(long = "peer", required = true, value_name = "PEER")]
    pub(crate) peers: Vec<NamedPeer>,
    /// Names of workloads, or starts of names; see `workloads` [default: all]
    #[arg(long = "workload", value_delimiter = ',', value_name = "NAME")]
    pub(crate) workloads: Vec<String>,
    /// How often each workload runs on each broker
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub(crate) rounds: usize,
    /// Measure each timed run for this long
    #[arg(long, default_value_t = 5.0, value_name = "SECS")]
    pub(crate) seconds: f64,
    /// Warm up each timed run for this long
    #[arg(long, default_value_t = 1.0, value_name = "SECS")]
    pub(crate) warmup: f64,
    /// Compare with the echo of `limit` too, where it can serve the workload
    #[arg(long)]
    pub(crate) limit: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A broker with the name it has in tables.
#[derive(Debug, Clone)]
pub(crate) struct NamedPeer {
    pub(crate) name: String,
    pub(crate) peer: Peer,
}

impl PeerArguments {
    pub(crate) fn peer(&self) -> Peer {
        Peer {
            url: self.url.clone(),
            pid: self.pid,
        }
    }
}

impl FromStr for NamedPeer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text
            .split_once('=')
            .ok_or("a peer is NAME=URL or NAME=URL,PID")?;
        let (url, pid) = match rest.rsplit_once(',') {
            None => (rest, None),
            Some((url, pid)) => {
                let pid = pid
                    .parse()
                    .map_err(|_| format!("{pid:?} is no process id"))?;
                (url, Some(pid))
            }
        };
        let url = url.parse().map_err(|error| format!("{error}"))?;
        Ok(Self {
            name: name.to_owned(),
            peer: Peer { url, pid },
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::{Arguments, Command, NamedPeer};

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn without_a_command_a_load_is_run() {
        let line = "leveret-bench --url amqp://h:1 --pid 7 --size 1024 --json";
        let arguments = Arguments::parse_from(line.split(' '));
        assert!(arguments.command.is_none() && arguments.json);
        assert_eq!(arguments.peer.pid, Some(7));
        assert_eq!(arguments.load.size.largest(), 1024);
    }

    #[test]
    fn peers_are_compared_in_their_order() {
        let line =
            "leveret-bench compare --peer r=amqp://h:1,7 --peer l=amqp://h:2,8 --workload a,b";
        let Some(Command::Compare(compare)) = Arguments::parse_from(line.split(' ')).command else {
            panic!("not a comparison");
        };
        let names: Vec<&str> = compare
            .peers
            .iter()
            .map(|peer| peer.name.as_str())
            .collect();
        assert_eq!(names, ["r", "l"]);
        assert_eq!(compare.workloads, ["a", "b"]);
    }

    #[test]
    fn a_peer_may_have_no_process() {
        let peer: NamedPeer = "far=amqp://u:p@h:1/v".parse().unwrap();
        assert_eq!(peer.peer.pid, None);
        assert!("amqp://h:1".parse::<NamedPeer>().is_err());
        assert!("far=amqp://h:1,x".parse::<NamedPeer>().is_err());
    }
}
