//! What a run puts on a broker: the options, and which of them fit together.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::error::BenchError;

/// Bodies that carry a time stamp are at least this long.
pub(crate) const STAMP_LEN: usize = 8;

/// How long a run takes when nothing is said.
const DEFAULT_SECS: f64 = 10.0;

/// The traffic of one run.
///
/// Named workloads are lines of these options, so whatever `compare` measures can be repeated alone.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Traffic")]
pub(crate) struct Load {
    /// Connections that publish
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) producers: usize,
    /// Connections that consume
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) consumers: usize,
    /// Queues; producers and consumers are spread over them
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) queues: usize,
    /// Size of the bodies, or a mix such as 16:90,1024:10 (size:share)
    #[arg(long, default_value = "16", value_name = "BYTES")]
    pub(crate) size: SizeMix,
    /// Stop after this many messages were published and delivered
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    pub(crate) messages: Option<u64>,
    /// Measure for this long [default: 10]
    #[arg(long, value_name = "SECS")]
    pub(crate) seconds: Option<f64>,
    /// Run for this long before measuring
    #[arg(long, default_value_t = 0.0, value_name = "SECS")]
    pub(crate) warmup: f64,
    /// Messages per second of all producers together; latency then counts from the intended time
    #[arg(long, value_name = "R")]
    pub(crate) rate: Option<f64>,
    /// Publish only while fewer than this many messages are on their way to consumers
    #[arg(long, value_name = "N")]
    pub(crate) in_flight: Option<u64>,

    /// Delivery mode 2
    #[arg(long)]
    pub(crate) persistent: bool,
    /// Wait for confirms, with at most this many missing per producer
    #[arg(long, value_name = "W")]
    pub(crate) confirm_window: Option<usize>,
    /// Publish in transactions of this many messages
    #[arg(long, value_name = "N", conflicts_with = "confirm_window")]
    pub(crate) tx_every: Option<u64>,
    /// Set the mandatory flag
    #[arg(long)]
    pub(crate) mandatory: bool,
    /// Publish with priorities 0 to N-1 in turn, to queues that know as many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) priorities: Option<u8>,

    /// Consume without acknowledgements
    #[arg(long, conflicts_with_all = ["ack_every", "prefetch"])]
    pub(crate) auto_ack: bool,
    /// Unacked messages per consumer; 0 is no bound
    #[arg(long, default_value_t = 0, value_name = "P")]
    pub(crate) prefetch: u16,
    /// Acknowledge every K messages at once
    #[arg(long, default_value_t = 1, value_name = "K")]
    pub(crate) ack_every: u64,
    /// Poll with basic.get instead of consuming
    #[arg(long, conflicts_with = "prefetch")]
    pub(crate) get: bool,

    /// Seconds that a consumer works on a message before it acknowledges
    #[arg(long, value_name = "SECS", conflicts_with_all = ["auto_ack", "get"])]
    pub(crate) work: Option<f64>,

    /// Durable queues and exchanges
    #[arg(long)]
    pub(crate) durable: bool,
    /// The argument x-queue-type
    #[arg(long, value_name = "TYPE")]
    pub(crate) queue_type: Option<String>,
    /// One more argument of the queues: a number, true, false or text
    #[arg(long = "queue-argument", value_name = "KEY=VALUE")]
    pub(crate) queue_arguments: Vec<String>,
    /// Exchange to publish to
    #[arg(long, value_enum, default_value_t = ExchangeKind::Default, value_name = "TYPE")]
    pub(crate) exchange: ExchangeKind,
    /// Bindings, spread over the queues [default: one per queue]
    #[arg(long, value_name = "N")]
    pub(crate) bindings: Option<usize>,
    /// Different routing keys in use [default: all that are bound, at most 1000]
    #[arg(long, value_name = "N")]
    pub(crate) keys: Option<usize>,

    /// Threads of the client
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) threads: usize,
    /// Start of the names of queues and exchange [default: one of its own]
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
    /// Leave queues and messages behind, for a later run with the same --name
    #[arg(long)]
    pub(crate) keep: bool,
}

/// Where messages are published to.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExchangeKind {
    /// The nameless one: the key is the queue's name.
    Default,
    Direct,
    Fanout,
    Topic,
    Headers,
}

impl ExchangeKind {
    /// The type as exchange.declare names it.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Default | Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
            Self::Headers => "headers",
        }
    }
}

/// When a run is over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Extent {
    Messages(u64),
    Time(Duration),
}

/// Sizes of bodies in the order they are sent; after the last one comes the first again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SizeMix {
    cycle: Vec<usize>,
}

impl SizeMix {
    /// How many bodies a cycle may have; shares are small whole numbers.
    const CYCLE_MAX: usize = 10_000;

    pub(crate) fn largest(&self) -> usize {
        self.cycle.iter().copied().max().unwrap_or_default()
    }

    pub(crate) fn smallest(&self) -> usize {
        self.cycle.iter().copied().min().unwrap_or_default()
    }

    pub(crate) fn is_one(&self) -> bool {
        self.largest() == self.smallest()
    }

    /// The size of message `number`.
    pub(crate) fn of(&self, number: u64) -> usize {
        match self.cycle[..] {
            [only] => only,
            _ => self.cycle[(number % self.cycle.len() as u64) as usize],
        }
    }
}

impl FromStr for SizeMix {
    type Err = String;

    /// Shares are interleaved, so that a mix is even over a short stretch too.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        for part in text.split(',') {
            let (size, share) = part.split_once(':').unwrap_or((part, "1"));
            let size: usize = size.parse().map_err(|_| format!("{size:?} is no size"))?;
            let share: usize = share
                .parse()
                .ok()
                .filter(|&share| share > 0)
                .ok_or_else(|| format!("{share:?} is no share"))?;
            parts.push((size, share));
        }
        let total: usize = parts.iter().map(|(_, share)| share).sum();
        if total > Self::CYCLE_MAX {
            return Err(format!(
                "the shares add up to more than {}",
                Self::CYCLE_MAX
            ));
        }
        // Each size is due in proportion to its share; the one furthest behind goes next.
        let mut sent = vec![0; parts.len()];
        let cycle = (1..=total)
            .map(|position| {
                let (next, _) = parts
                    .iter()
                    .enumerate()
                    .max_by_key(|&(index, &(_, share))| {
                        let ahead = (sent[index] * total) as i64 - (share * position) as i64;
                        std::cmp::Reverse((ahead, index))
                    })
                    .expect("there is at least one size");
                sent[next] += 1;
                parts[next].0
            })
            .collect();
        Ok(Self { cycle })
    }
}

impl Load {
    pub(crate) fn extent(&self) -> Extent {
        match self.messages {
            Some(count) => Extent::Messages(count),
            None => Extent::Time(seconds(self.seconds.unwrap_or(DEFAULT_SECS))),
        }
    }

    pub(crate) fn work(&self) -> Duration {
        seconds(self.work.unwrap_or_default())
    }

    pub(crate) fn warmup(&self) -> Duration {
        seconds(self.warmup)
    }

    /// How many queues each message goes to.
    pub(crate) fn copies(&self) -> u64 {
        match self.exchange {
            ExchangeKind::Fanout => self.queues as u64,
            _ => 1,
        }
    }

    pub(crate) fn binding_count(&self) -> usize {
        self.bindings.unwrap_or(self.queues)
    }

    /// Whether consumers can tell how long a message took.
    pub(crate) fn is_stamped(&self) -> bool {
        self.size.smallest() >= STAMP_LEN
    }

    /// Refuses what cannot run or would not measure what it says.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        let refuse = |text: &str| Err(BenchError::Arguments(text.to_owned()));
        if self.producers == 0 && self.consumers == 0 {
            return refuse("without producers and consumers there is nothing to measure");
        }
        if self.queues == 0 || self.threads == 0 {
            return refuse("--queues and --threads are at least 1");
        }
        if self.producers == 0 && (self.messages.is_none() || self.name.is_none()) {
            return refuse("without producers, --messages and --name say what is there to consume");
        }
        if self.ack_every == 0 {
            return refuse("--ack-every is at least 1");
        }
        if self.prefetch > 0 && self.ack_every > u64::from(self.prefetch) {
            return refuse("with --ack-every above --prefetch nothing would be acknowledged");
        }
        if self.confirm_window == Some(0) || self.tx_every == Some(0) {
            return refuse("--confirm-window and --tx-every are at least 1");
        }
        if self
            .rate
            .is_some_and(|rate| !(rate > 0.0 && rate.is_finite()))
        {
            return refuse("--rate is above 0");
        }
        let times = [Some(self.warmup), self.seconds, self.work];
        if times
            .iter()
            .flatten()
            .any(|secs| !(*secs >= 0.0 && *secs < 1e6))
        {
            return refuse("times are numbers of seconds, not negative and below a million");
        }
        if self.in_flight.is_some() && self.consumers == 0 {
            return refuse("--in-flight needs consumers");
        }
        if self.get && self.consumers > 0 && self.consumers < self.queues {
            return refuse(
                "a consumer polls one queue: with --get as many --consumers as --queues",
            );
        }
        match self.exchange {
            ExchangeKind::Default if self.bindings.is_some() => {
                refuse("--bindings needs an --exchange")
            }
            ExchangeKind::Fanout if self.bindings.is_some_and(|count| count != self.queues) => {
                refuse("a fanout exchange has one binding per queue")
            }
            _ if self.binding_count() < self.queues => refuse("--bindings is at least --queues"),
            _ => Ok(()),
        }
    }
}

/// Which of `items` belong to number `owner` of `owners`: all items are spread evenly, and nobody goes without.
pub(crate) fn share(owner: usize, owners: usize, items: usize) -> Vec<usize> {
    if items >= owners {
        (owner..items).step_by(owners).collect()
    } else {
        vec![owner % items]
    }
}

/// The part of number `index` of `count` when `total` is split; the first ones take what is left over.
pub(crate) fn portion(total: u64, index: u64, count: u64) -> u64 {
    total / count + u64::from(index < total % count)
}

fn seconds(secs: f64) -> Duration {
    Duration::try_from_secs_f64(secs).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Load, SizeMix, portion, share};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        load: Load,
    }

    #[track_caller]
    fn load(line: &str) -> Load {
        Line::try_parse_from(format!("bench {line}").split_ascii_whitespace())
            .unwrap()
            .load
    }

    #[track_caller]
    fn refused(line: &str) -> String {
        load(line).check().unwrap_err().to_string()
    }

    #[test]
    fn what_fits_together_is_taken() {
        for line in [
            "",
            "--auto-ack --size 1024",
            "--prefetch 100 --ack-every 100",
            "--ack-every 50",
            "--persistent --durable --confirm-window 200 --queues 10 --producers 4",
            "--exchange topic --bindings 10000 --queues 10",
            "--consumers 0 --messages 10 --keep --name n",
            "--producers 0 --messages 10 --name n",
        ] {
            load(line).check().unwrap();
        }
    }

    #[test]
    fn what_would_stand_still_is_refused() {
        assert!(refused("--prefetch 10 --ack-every 11").contains("--ack-every above --prefetch"));
        assert!(refused("--ack-every 0").contains("--ack-every"));
        assert!(refused("--confirm-window 0").contains("--confirm-window"));
        assert!(refused("--producers 0 --consumers 0").contains("nothing to measure"));
        assert!(refused("--producers 0").contains("--messages and --name"));
        assert!(refused("--rate 0").contains("--rate"));
        assert!(refused("--warmup=-1").contains("seconds"));
        assert!(refused("--in-flight 5 --consumers 0").contains("--in-flight"));
        assert!(refused("--get --queues 2").contains("--get"));
    }

    #[test]
    fn bindings_belong_to_an_exchange() {
        assert!(refused("--bindings 5").contains("--exchange"));
        assert!(refused("--exchange fanout --bindings 5").contains("one binding per queue"));
        assert!(refused("--exchange direct --queues 5 --bindings 4").contains("at least"));
    }

    #[test]
    fn auto_ack_and_acknowledgements_exclude_each_other() {
        let line = ["bench", "--auto-ack", "--ack-every", "5"];
        assert!(Line::try_parse_from(line).is_err());
    }

    #[test]
    fn a_mix_of_sizes_is_interleaved() {
        let mix: SizeMix = "16:3,1024:1".parse().unwrap();
        let sizes: Vec<usize> = (0..8).map(|number| mix.of(number)).collect();
        assert_eq!(sizes.iter().filter(|&&size| size == 1024).count(), 2);
        assert_eq!(sizes[..4], sizes[4..]);
        assert_eq!((mix.smallest(), mix.largest()), (16, 1024));
        assert!(!mix.is_one());
        let halves: SizeMix = "1,2".parse().unwrap();
        assert_ne!(halves.of(0), halves.of(1));
        assert!("16,".parse::<SizeMix>().is_err());
        assert!("16:0".parse::<SizeMix>().is_err());
    }

    #[test]
    fn queues_are_spread_over_connections() {
        assert_eq!(share(0, 2, 5), [0, 2, 4]);
        assert_eq!(share(1, 2, 5), [1, 3]);
        assert_eq!(share(4, 5, 2), [0]);
        assert_eq!(share(0, 1, 1), [0]);
    }

    #[test]
    fn portions_add_up() {
        let portions: Vec<u64> = (0..4).map(|index| portion(10, index, 4)).collect();
        assert_eq!(portions, [3, 3, 2, 2]);
    }
}
