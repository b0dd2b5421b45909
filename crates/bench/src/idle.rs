//! What connections, channels and queues cost while nothing happens.

use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use leveret_wire::{ChannelId, Method, basic};

use crate::client::{Client, short};
use crate::clock::now_nanos;
use crate::error::BenchError;
use crate::load::share;
use crate::process::ProcessUse;
use crate::run::Peer;
use crate::topology::Topology;

/// Brokers return memory in their own time; what counts is what is left after a moment of rest.
const REST: Duration = Duration::from_secs(2);

/// What is opened and left alone.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Idle")]
// The command of the same name has a group of its own.
#[group(skip)]
pub(crate) struct Idle {
    /// Connections
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) connections: usize,
    /// Channels of each connection
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) channels: u16,
    /// Queues
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) queues: usize,
    /// Durable queues
    #[arg(long)]
    pub(crate) durable: bool,
    /// Let the connections consume from the queues
    #[arg(long)]
    pub(crate) consume: bool,
    /// Watch the broker for this long while nothing happens
    #[arg(long, default_value_t = 5.0, value_name = "SECS")]
    pub(crate) seconds: f64,
}

/// What was there, and what it cost.
#[derive(Debug)]
pub(crate) struct IdleOutcome {
    pub(crate) connections: usize,
    pub(crate) queues: usize,
    pub(crate) connect_secs: f64,
    pub(crate) declare_secs: f64,
    pub(crate) delete_secs: f64,
    pub(crate) broker: Option<IdleUse>,
}

/// Memory before and after, and what watching found.
#[derive(Debug)]
pub(crate) struct IdleUse {
    pub(crate) rss_before_bytes: u64,
    pub(crate) rss_bytes: u64,
    pub(crate) declare_cpu: Duration,
    pub(crate) connect_cpu: Duration,
    /// Spent while nothing happened.
    pub(crate) idle: ProcessUse,
    pub(crate) idle_secs: f64,
}

impl IdleOutcome {
    /// Added memory per connection, or per queue when there are no connections.
    pub(crate) fn bytes_each(&self) -> Option<f64> {
        let broker = self.broker.as_ref()?;
        let added = broker.rss_bytes as f64 - broker.rss_before_bytes as f64;
        let count = match self.connections {
            0 => self.queues,
            connections => connections,
        };
        Some(added / count.max(1) as f64)
    }
}

pub(crate) fn idle(peer: &Peer, idle: &Idle) -> Result<IdleOutcome, BenchError> {
    if idle.connections == 0 && idle.queues == 0 {
        return Err(BenchError::Arguments(
            "--connections or --queues say what is to be idle".to_owned(),
        ));
    }
    if idle.consume && (idle.queues == 0 || idle.connections == 0 || idle.channels == 0) {
        return Err(BenchError::Arguments(
            "--consume needs --connections with --channels, and --queues".to_owned(),
        ));
    }
    let prefix = format!("bench-{:x}-{}-idle", now_nanos(), std::process::id());
    let topology = Topology::queues_only(idle.queues, &prefix, idle.durable);
    let before = peer.sample()?;

    let begin = Instant::now();
    let mut control = Client::with_channel(&peer.url)?;
    topology.declare(&mut control)?;
    let declare_secs = begin.elapsed().as_secs_f64();
    let declared = peer.sample()?;

    let begin = Instant::now();
    let clients = connect(peer, idle, &topology)?;
    let connect_secs = begin.elapsed().as_secs_f64();
    let connected = peer.sample()?;

    thread::sleep(REST);
    let rested = peer.sample()?;
    let begin = Instant::now();
    thread::sleep(Duration::try_from_secs_f64(idle.seconds).unwrap_or_default());
    let watched = peer.sample()?;
    let idle_secs = begin.elapsed().as_secs_f64();

    for client in clients {
        client.close()?;
    }
    let begin = Instant::now();
    topology.delete(&mut control)?;
    let delete_secs = begin.elapsed().as_secs_f64();

    let broker = match (before, declared, connected, rested, watched) {
        (Some(before), Some(declared), Some(connected), Some(rested), Some(watched)) => {
            Some(IdleUse {
                rss_before_bytes: before.rss_bytes,
                rss_bytes: watched.rss_bytes,
                declare_cpu: declared.since(&before).cpu,
                connect_cpu: connected.since(&declared).cpu,
                idle: watched.since(&rested),
                idle_secs,
            })
        }
        _ => None,
    };
    Ok(IdleOutcome {
        connections: idle.connections,
        queues: idle.queues,
        connect_secs,
        declare_secs,
        delete_secs,
        broker,
    })
}

fn connect(peer: &Peer, idle: &Idle, topology: &Topology) -> Result<Vec<Client>, BenchError> {
    let connect_one = |index| {
        let mut client = Client::connect(&peer.url)?;
        for channel in 1..=idle.channels {
            client.open_channel(ChannelId::new(channel))?;
        }
        if idle.consume {
            let own = share(index, idle.connections, topology.queues.len());
            let consume = |queue: usize| -> Result<Method, BenchError> {
                let consume = basic::Consume {
                    queue: short(&topology.queues[queue])?,
                    ..basic::Consume::default()
                };
                Ok(consume.into())
            };
            let consumes: Result<Vec<Method>, BenchError> = own.into_iter().map(consume).collect();
            client.call_all(ChannelId::new(1), consumes?)?;
        }
        Ok(client)
    };
    (0..idle.connections).map(connect_one).collect()
}
