//! Things made and removed as fast as possible: connections, channels, queues.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use clap::{Args, ValueEnum};
use leveret_wire::{
    ChannelId, RawProperties, ShortString, basic, put_body_frames, put_content_header, put_method,
    queue,
};

use crate::client::{CHANNEL, Client, short};
use crate::clock::now_nanos;
use crate::error::BenchError;
use crate::latency::{Latency, Percentiles};
use crate::process::{self, ProcessUse};
use crate::run::Peer;

/// What is made and removed in turn.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Churn")]
// The command of the same name has a group of its own.
#[group(skip)]
pub(crate) struct Churn {
    /// What to make and remove
    #[arg(long, value_enum, default_value_t = Thing::Connection, value_name = "THING")]
    pub(crate) of: Thing,
    /// Measure for this long
    #[arg(long, default_value_t = 5.0, value_name = "SECS")]
    pub(crate) seconds: f64,
    /// How many clients do it at once
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) threads: usize,
}

/// What one turn makes and removes.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thing {
    /// Connect, log in, close
    Connection,
    /// Connect, declare a queue, publish a message, delete the queue, close
    Visit,
    /// Open and close a channel of one connection
    Channel,
    /// Declare and delete a queue on one channel
    Queue,
    /// The same, durable
    DurableQueue,
    /// Bind a queue and unbind it
    Binding,
}

/// What the churn came to.
#[derive(Debug)]
pub(crate) struct ChurnOutcome {
    pub(crate) elapsed: Duration,
    pub(crate) turns: u64,
    pub(crate) latency: Option<Percentiles>,
    pub(crate) broker: Option<ProcessUse>,
    pub(crate) client: ProcessUse,
}

impl ChurnOutcome {
    pub(crate) fn rate(&self) -> f64 {
        self.turns as f64 / self.elapsed.as_secs_f64()
    }

    pub(crate) fn broker_us_per_turn(&self) -> Option<f64> {
        let broker = self.broker.as_ref()?;
        Some(broker.cpu.as_secs_f64() * 1e6 / (self.turns.max(1)) as f64)
    }

    pub(crate) fn client_us_per_turn(&self) -> f64 {
        self.client.cpu.as_secs_f64() * 1e6 / (self.turns.max(1)) as f64
    }
}

pub(crate) fn churn(peer: &Peer, churn: &Churn) -> Result<ChurnOutcome, BenchError> {
    if churn.threads == 0 || !(churn.seconds > 0.0 && churn.seconds < 1e6) {
        return Err(BenchError::Arguments(
            "--threads is at least 1 and --seconds is above 0".to_owned(),
        ));
    }
    let before = peer.sample()?;
    let client_before = process::sample_self();
    let begin = Instant::now();
    let until = begin + Duration::from_secs_f64(churn.seconds);
    let threads: Vec<_> = (0..churn.threads)
        .map(|_| {
            let peer = peer.clone();
            let thing = churn.of;
            thread::spawn(move || turn_until(&peer, thing, until))
        })
        .collect();
    let mut latency = Latency::new();
    for thread in threads {
        latency.merge(&thread.join().map_err(|_| BenchError::Panicked)??);
    }
    let elapsed = begin.elapsed();
    let broker = peer
        .sample()?
        .zip(before)
        .map(|(now, before)| now.since(&before));
    let latency = latency.percentiles();
    Ok(ChurnOutcome {
        elapsed,
        turns: latency.map_or(0, |latency| latency.count),
        latency,
        broker,
        client: process::sample_self().since(&client_before),
    })
}

fn turn_until(peer: &Peer, thing: Thing, until: Instant) -> Result<Latency, BenchError> {
    let mut latency = Latency::new();
    let mut turner = Turner::new(peer, thing)?;
    while Instant::now() < until {
        let begin = Instant::now();
        turner.turn()?;
        let nanos = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        latency.record(nanos);
    }
    turner.finish()?;
    Ok(latency)
}

struct Turner<'a> {
    peer: &'a Peer,
    thing: Thing,
    /// What lasts from turn to turn, where something does.
    client: Option<Client>,
    queue: ShortString,
}

impl<'a> Turner<'a> {
    fn new(peer: &'a Peer, thing: Thing) -> Result<Self, BenchError> {
        static TURNERS: AtomicU64 = AtomicU64::new(0);
        let name = format!(
            "bench-{:x}-{}-{}",
            now_nanos(),
            std::process::id(),
            TURNERS.fetch_add(1, Relaxed)
        );
        let mut turner = Self {
            peer,
            thing,
            client: None,
            queue: short(&name)?,
        };
        match thing {
            Thing::Connection | Thing::Visit => {}
            Thing::Channel | Thing::Queue | Thing::DurableQueue => {
                turner.client = Some(Client::with_channel(&peer.url)?);
            }
            Thing::Binding => {
                let mut client = Client::with_channel(&peer.url)?;
                client.call(CHANNEL, turner.declare(false))?;
                turner.client = Some(client);
            }
        }
        Ok(turner)
    }

    fn turn(&mut self) -> Result<(), BenchError> {
        let Some(client) = &mut self.client else {
            return self.connect_and_close();
        };
        match self.thing {
            Thing::Connection | Thing::Visit => {}
            Thing::Channel => {
                let channel = ChannelId::new(2);
                client.open_channel(channel)?;
                client.close_channel(channel)?;
            }
            Thing::Queue | Thing::DurableQueue => {
                let declare = queue::Declare {
                    queue: self.queue.clone(),
                    durable: self.thing == Thing::DurableQueue,
                    ..queue::Declare::default()
                };
                client.call(CHANNEL, declare)?;
                client.call(CHANNEL, delete(&self.queue))?;
            }
            Thing::Binding => {
                let exchange = ShortString::from_static("amq.direct");
                let bind = queue::Bind {
                    queue: self.queue.clone(),
                    exchange: exchange.clone(),
                    routing_key: self.queue.clone(),
                    ..queue::Bind::default()
                };
                client.call(CHANNEL, bind)?;
                let unbind = queue::Unbind {
                    queue: self.queue.clone(),
                    exchange,
                    routing_key: self.queue.clone(),
                    ..queue::Unbind::default()
                };
                client.call(CHANNEL, unbind)?;
            }
        }
        Ok(())
    }

    fn connect_and_close(&self) -> Result<(), BenchError> {
        let mut client = Client::connect(&self.peer.url)?;
        if self.thing == Thing::Visit {
            client.open_channel(CHANNEL)?;
            client.call(CHANNEL, self.declare(false))?;
            client.send_bytes(&self.message(client.frame_max()))?;
            client.call(CHANNEL, delete(&self.queue))?;
        }
        client.close()
    }

    fn declare(&self, durable: bool) -> queue::Declare {
        queue::Declare {
            queue: self.queue.clone(),
            durable,
            ..queue::Declare::default()
        }
    }

    fn message(&self, frame_max: usize) -> BytesMut {
        let body = [0; 16];
        let publish = basic::Publish {
            routing_key: self.queue.clone(),
            ..basic::Publish::default()
        };
        let mut bytes = BytesMut::new();
        put_method(&mut bytes, CHANNEL, &publish.into());
        put_content_header(
            &mut bytes,
            CHANNEL,
            body.len() as u64,
            RawProperties::EMPTY.as_bytes(),
        );
        put_body_frames(&mut bytes, CHANNEL, &body, frame_max);
        bytes
    }

    fn finish(self) -> Result<(), BenchError> {
        let Some(mut client) = self.client else {
            return Ok(());
        };
        if self.thing == Thing::Binding {
            client.call(CHANNEL, delete(&self.queue))?;
        }
        client.close()
    }
}

fn delete(queue: &ShortString) -> queue::Delete {
    queue::Delete {
        queue: queue.clone(),
        ..queue::Delete::default()
    }
}
