//! One measurement from the first connection to the last delete.
//!
//! ```text
//!   declare ─▶ connect ─▶ warm up ─▶ │ measure │ ─▶ stop publishing ─▶ drain ─▶ delete
//!                                    └ use of the broker's process at both ends
//! ```

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use leveret_wire::{Method, basic, confirm, tx};

use crate::board::{Board, Counts};
use crate::broker_url::BrokerUrl;
use crate::client::{CHANNEL, Client, short};
use crate::clock::now_nanos;
use crate::drive::consumer::Consumer;
use crate::drive::producer::Producer;
use crate::drive::{Link, Role, Seen, drive};
use crate::error::BenchError;
use crate::latency::{Latency, Percentiles};
use crate::load::{Extent, Load, share};
use crate::process::{self, ProcessUse};
use crate::topology::Topology;

/// How often the run looks at its counts.
const TICK: Duration = Duration::from_millis(5);

/// Memory and progress are looked at in every so many ticks.
const TICKS_PER_SAMPLE: u64 = 20;
const TICKS_PER_PROGRESS: u64 = 200;

/// How long messages that were sent in time may take to arrive after the end, so that their latency counts.
const DRAIN: Duration = Duration::from_secs(3);

/// Above this share a rate counts as reached: a measurement may cut a few messages off.
const REACHED: f64 = 0.98;

/// Without any movement for so long a run that counts messages is given up.
const STALL: Duration = Duration::from_secs(30);

/// The broker that is measured.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) url: BrokerUrl,
    /// Its process; children are found from there.
    pub(crate) pid: Option<u32>,
}

impl Peer {
    /// What its process has spent; `None` when nobody said which one it is.
    pub(crate) fn sample(&self) -> Result<Option<ProcessUse>, BenchError> {
        let sample =
            |pid| process::sample_tree(pid).map_err(|source| BenchError::Process { pid, source });
        self.pid.map(sample).transpose()
    }
}

/// What was measured.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// How long it was measured.
    pub(crate) elapsed: Duration,
    /// What happened meanwhile.
    pub(crate) counts: Counts,
    /// Queues that each message went to.
    pub(crate) copies: u64,
    /// The rate that was asked for.
    pub(crate) intended_rate: Option<f64>,
    pub(crate) delivery: Option<Percentiles>,
    pub(crate) confirm: Option<Percentiles>,
    pub(crate) broker: Option<BrokerUse>,
    pub(crate) client: ProcessUse,
}

/// What the broker's process spent, and its memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BrokerUse {
    pub(crate) spent: ProcessUse,
    pub(crate) rss_before_bytes: u64,
    /// The most that was seen while measuring.
    pub(crate) rss_peak_bytes: u64,
}

impl Outcome {
    /// Messages that went all the way: published, and taken from each of their queues.
    ///
    /// What was published and not delivered yet, or delivered and published before, counts half.
    pub(crate) fn messages(&self) -> f64 {
        let published = self.counts.published as f64;
        let delivered = self.counts.delivered as f64 / self.copies.max(1) as f64;
        if self.counts.delivered == 0 {
            published
        } else if self.counts.published == 0 {
            delivered
        } else {
            (published + delivered) / 2.0
        }
    }

    /// Messages per second: as they were delivered, or published when there are no consumers.
    pub(crate) fn rate(&self) -> f64 {
        match self.counts.delivered {
            0 => self.published_rate(),
            _ => self.delivered_rate(),
        }
    }

    pub(crate) fn published_rate(&self) -> f64 {
        self.counts.published as f64 / self.elapsed.as_secs_f64()
    }

    pub(crate) fn delivered_rate(&self) -> f64 {
        self.counts.delivered as f64 / self.elapsed.as_secs_f64()
    }

    /// Whether the broker took clearly less than the rate that was asked for.
    pub(crate) fn is_behind(&self) -> bool {
        self.intended_rate
            .is_some_and(|rate| self.published_rate() < rate * REACHED)
    }

    /// CPU of the broker in microseconds per message, which is also seconds per million messages.
    pub(crate) fn broker_us_per_message(&self) -> Option<f64> {
        let spent = self.broker.as_ref()?.spent.cpu;
        Some(self.us_per_message(spent))
    }

    /// The same of the bench itself.
    pub(crate) fn client_us_per_message(&self) -> f64 {
        self.us_per_message(self.client.cpu)
    }

    fn us_per_message(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1e6 / self.messages().max(1.0)
    }
}

/// Runs a load against a broker.
pub(crate) fn run(peer: &Peer, load: &Load) -> Result<Outcome, BenchError> {
    load.check()?;
    let prefix = load.name.clone().unwrap_or_else(own_prefix);
    let topology = Topology::plan(load, &prefix);
    let mut control = Client::with_channel(&peer.url)?;
    let result = topology
        .declare(&mut control)
        .and_then(|()| measure(peer, load, &topology));
    if load.keep {
        return result;
    }
    // A refused declare has closed the channel.
    let cleaned = topology.delete(&mut control).or_else(|_| {
        let mut control = Client::with_channel(&peer.url)?;
        topology.delete(&mut control)
    });
    let outcome = result?;
    cleaned?;
    Ok(outcome)
}

/// Removes what a run with a name of its own has left behind, as far as that can be done.
pub(crate) fn remove(peer: &Peer, load: &Load) {
    if let (Some(name), Ok(mut control)) = (&load.name, Client::with_channel(&peer.url)) {
        let _ = Topology::plan(load, name).delete(&mut control);
    }
}

fn measure(peer: &Peer, load: &Load, topology: &Topology) -> Result<Outcome, BenchError> {
    let board = Arc::new(Board::new());
    let mut watch = Watch::new(peer, load);
    if load.producers == 0 {
        // Deliveries begin while the consumers are being set up.
        watch.begin(&board)?;
    }
    let mut consumers = connect_consumers(peer, load, topology)?;
    let mut producers = connect_producers(peer, load, topology)?;
    if load.producers > 0 && load.warmup().is_zero() {
        watch.begin(&board)?;
    }
    let threads: Vec<JoinHandle<Result<Seen, BenchError>>> = (0..load.threads)
        .map(|thread| {
            let mut links = take_every(&mut producers, thread, load.threads);
            // The other way round, so that one producer and one consumer get a thread each.
            let mirrored = load.threads - 1 - thread;
            links.extend(take_every(&mut consumers, mirrored, load.threads));
            let board = Arc::clone(&board);
            thread::spawn(move || drive(links, &board))
        })
        .collect();
    let watched = watch.until_the_end(&board);
    board.stop();
    let mut delivery = Latency::new();
    let mut confirm = Latency::new();
    for thread in threads {
        let seen = thread.join().map_err(|_| BenchError::Panicked)??;
        delivery.merge(&seen.delivery);
        confirm.merge(&seen.confirm);
    }
    let mut outcome = watched?;
    outcome.delivery = delivery.percentiles();
    outcome.confirm = confirm.percentiles();
    Ok(outcome)
}

/// Takes every `of`-th link, from `first` on, out of those that are left.
fn take_every(links: &mut [Option<Link>], first: usize, of: usize) -> Vec<Link> {
    links
        .iter_mut()
        .skip(first)
        .step_by(of)
        .filter_map(Option::take)
        .collect()
}

fn connect_consumers(
    peer: &Peer,
    load: &Load,
    topology: &Topology,
) -> Result<Vec<Option<Link>>, BenchError> {
    let connect = |index| {
        let mut client = Client::with_channel(&peer.url)?;
        let queues = share(index, load.consumers, topology.queues.len());
        if load.get {
            // A poller asks one queue; with fewer pollers than queues the rest stays unread.
            let consumer = Consumer::new(load, &topology.queues[queues[0]])?;
            return Link::new(client.into_parts(), Role::Consumer(Box::new(consumer)));
        }
        if load.prefetch > 0 {
            let qos = basic::Qos {
                prefetch_count: load.prefetch,
                ..basic::Qos::default()
            };
            client.call(CHANNEL, qos)?;
        }
        for queue in queues {
            // Without an answer: deliveries of a queue that is not empty would come before the next one's.
            let consume = basic::Consume {
                queue: short(&topology.queues[queue])?,
                consumer_tag: short(&format!("c{queue}"))?,
                no_ack: load.auto_ack,
                nowait: true,
                ..basic::Consume::default()
            };
            client.send(CHANNEL, consume)?;
        }
        let consumer = Consumer::new(load, "")?;
        Link::new(client.into_parts(), Role::Consumer(Box::new(consumer)))
    };
    (0..load.consumers)
        .map(|index| connect(index).map(Some))
        .collect()
}

fn connect_producers(
    peer: &Peer,
    load: &Load,
    topology: &Topology,
) -> Result<Vec<Option<Link>>, BenchError> {
    let mut clients = Vec::with_capacity(load.producers);
    for _ in 0..load.producers {
        let mut client = Client::with_channel(&peer.url)?;
        let select: Option<Method> = match (load.confirm_window, load.tx_every) {
            (Some(_), _) => Some(confirm::Select::default().into()),
            (None, Some(_)) => Some(tx::Select::default().into()),
            (None, None) => None,
        };
        if let Some(select) = select {
            client.call(CHANNEL, select)?;
        }
        clients.push(client);
    }
    let start = now_nanos();
    clients
        .into_iter()
        .enumerate()
        .map(|(index, client)| {
            let frame_max = client.frame_max();
            let producer = Producer::new(load, &topology.addresses, index, frame_max, start)?;
            Link::new(client.into_parts(), Role::Producer(Box::new(producer))).map(Some)
        })
        .collect()
}

/// What was there when measuring began.
struct Begin {
    nanos: u64,
    counts: Counts,
    broker: Option<ProcessUse>,
    client: ProcessUse,
}

/// Looks at the run from outside.
struct Watch<'a> {
    peer: &'a Peer,
    load: &'a Load,
    begin: Option<Begin>,
    rss_peak_bytes: u64,
    ticks: u64,
    shown: Counts,
}

impl<'a> Watch<'a> {
    fn new(peer: &'a Peer, load: &'a Load) -> Self {
        Self {
            peer,
            load,
            begin: None,
            rss_peak_bytes: 0,
            ticks: 0,
            shown: Counts::default(),
        }
    }

    fn begin(&mut self, board: &Board) -> Result<(), BenchError> {
        let broker = self.peer.sample()?;
        let client = process::sample_self();
        let nanos = now_nanos();
        board.begin_measuring(nanos);
        self.begin = Some(Begin {
            nanos,
            counts: board.counts(),
            broker,
            client,
        });
        Ok(())
    }

    fn until_the_end(&mut self, board: &Board) -> Result<Outcome, BenchError> {
        if self.begin.is_none() {
            let until = now_nanos() + nanos(self.load.warmup());
            while now_nanos() < until && board.is_running() {
                self.tick(board);
            }
            self.begin(board)?;
        }
        let begin = self.begin.take().ok_or(BenchError::Panicked)?;
        match self.load.extent() {
            Extent::Time(time) => {
                let until = begin.nanos + nanos(time);
                while now_nanos() < until && board.is_running() {
                    self.tick(board);
                }
                let outcome = self.end(begin, board, now_nanos())?;
                board.stop_publishing();
                self.drain(board);
                Ok(outcome)
            }
            Extent::Messages(count) => {
                self.wait_for_messages(count, board)?;
                let end = match self.load.consumers {
                    0 => now_nanos(),
                    _ => board.last_delivery_nanos(),
                };
                self.end(begin, board, end)
            }
        }
    }

    fn end(&self, begin: Begin, board: &Board, end_nanos: u64) -> Result<Outcome, BenchError> {
        let counts = board.counts().since(&begin.counts);
        let broker = self.peer.sample()?;
        let client = process::sample_self().since(&begin.client);
        board.end_measuring(end_nanos + 1);
        let broker = broker.zip(begin.broker).map(|(now, before)| BrokerUse {
            spent: now.since(&before),
            rss_before_bytes: before.rss_bytes,
            rss_peak_bytes: self.rss_peak_bytes.max(before.rss_bytes).max(now.rss_bytes),
        });
        Ok(Outcome {
            elapsed: Duration::from_nanos(end_nanos.saturating_sub(begin.nanos).max(1)),
            counts,
            copies: self.load.copies(),
            intended_rate: self.load.rate,
            delivery: None,
            confirm: None,
            broker,
            client,
        })
    }

    /// Until everything is published, confirmed and delivered.
    fn wait_for_messages(&mut self, count: u64, board: &Board) -> Result<(), BenchError> {
        let mut last = (now_nanos(), board.counts());
        loop {
            let counts = board.counts();
            let published = match self.load.producers {
                0 => count,
                _ => counts.published - counts.returned,
            };
            let expected = match self.load.consumers {
                0 => 0,
                _ => published * self.load.copies(),
            };
            let all_sent = board.finished_producers() == self.load.producers as u64;
            if all_sent && counts.delivered >= expected {
                return Ok(());
            }
            if !board.is_running() {
                // A thread failed; its error is found when it is joined.
                return Ok(());
            }
            if counts != last.1 {
                last = (now_nanos(), counts);
            } else if now_nanos() - last.0 > nanos(STALL) {
                return Err(BenchError::Stalled {
                    secs: STALL.as_secs(),
                    published: counts.published,
                    confirmed: counts.confirmed,
                    delivered: counts.delivered,
                    expected,
                });
            }
            self.tick(board);
        }
    }

    fn drain(&mut self, board: &Board) {
        let until = now_nanos() + nanos(DRAIN);
        while now_nanos() < until && board.is_running() {
            let counts = board.counts();
            let arrived = self.load.consumers == 0
                || counts.delivered >= (counts.published - counts.returned) * self.load.copies();
            if arrived && board.finished_producers() == self.load.producers as u64 {
                return;
            }
            self.tick(board);
        }
    }

    fn tick(&mut self, board: &Board) {
        thread::sleep(TICK);
        self.ticks += 1;
        if self.ticks.is_multiple_of(TICKS_PER_SAMPLE)
            && let Some(rss) = self.peer.pid.and_then(process::rss_bytes)
        {
            self.rss_peak_bytes = self.rss_peak_bytes.max(rss);
        }
        if self.ticks.is_multiple_of(TICKS_PER_PROGRESS) && std::io::stderr().is_terminal() {
            self.show_progress(board.counts());
        }
    }

    fn show_progress(&mut self, counts: Counts) {
        let fresh = counts.since(&self.shown);
        self.shown = counts;
        // Progress is a courtesy: a closed terminal ends no measurement.
        let _ = write!(
            std::io::stderr(),
            "\r{:>9} published/s {:>9} delivered/s ",
            fresh.published,
            fresh.delivered
        );
    }
}

/// Unlike those of any other run on any machine that shares the broker.
pub(crate) fn own_prefix() -> String {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let run = RUNS.fetch_add(1, Relaxed);
    format!("bench-{:x}-{}-{run}", now_nanos(), std::process::id())
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
