//! What a connection publishes, counted until the end of a read.

use std::sync::Arc;

use leveret_runtime::{Broker, ExchangeTraffic, Sizes, Traffic, TrafficCounts};
use leveret_wire::value::ShortString;

/// Counts of one connection's publishes that nobody was told of yet. Only who publishes has one.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) counts: TrafficCounts,
    /// Of the bodies that were counted.
    pub(super) sizes: Sizes,
    /// The exchange that was published to last.
    exchange: Option<Counted>,
}

/// Publishes to one exchange that are still to be told.
#[derive(Debug)]
struct Counted {
    /// Of the vhost: in a later one it may be another exchange.
    version: u64,
    name: ShortString,
    traffic: Arc<ExchangeTraffic>,
    publish_in: u64,
    publish_out: u64,
}

impl Tally {
    /// A publish to this exchange of this version of its vhost goes on to so many queues; `find` is asked for
    /// an exchange that is not the last one.
    pub(super) fn count_exchange(
        &mut self,
        version: u64,
        name: &ShortString,
        targets: usize,
        find: impl FnOnce() -> Arc<ExchangeTraffic>,
    ) {
        let is_known = |known: &Counted| known.version == version && known.name == *name;
        if !self.exchange.as_ref().is_some_and(is_known) {
            self.end_exchange();
            self.exchange = Some(Counted {
                version,
                name: name.detach(),
                traffic: find(),
                publish_in: 0,
                publish_out: 0,
            });
        }
        if let Some(counted) = &mut self.exchange {
            counted.publish_in += 1;
            counted.publish_out += targets as u64;
        }
    }

    /// Tells what was counted, if anything was published.
    pub(super) fn tell(&mut self, broker: &Broker, traffic: &Traffic) {
        if self.counts.publish > 0 {
            traffic.add(&std::mem::take(&mut self.counts));
            self.end_exchange();
            broker.add_sizes(&std::mem::take(&mut self.sizes));
        }
    }

    fn end_exchange(&mut self) {
        if let Some(counted) = &mut self.exchange {
            let publish_in = std::mem::take(&mut counted.publish_in);
            let publish_out = std::mem::take(&mut counted.publish_out);
            if publish_in > 0 {
                counted.traffic.add(publish_in, publish_out);
            }
        }
    }
}
