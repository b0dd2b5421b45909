//! What a connection publishes, counted until the end of a read.

use std::sync::Arc;

use leveret_runtime::{Broker, ExchangeCounts, ExchangeTraffic, Sizes, Traffic, TrafficCounts};
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
    counts: ExchangeCounts,
}

impl Tally {
    /// A publish to this exchange of this version of its vhost goes on to so many queues, and is to be confirmed or
    /// not; `find` is asked for an exchange that is not the last one.
    pub(super) fn count_exchange(
        &mut self,
        version: u64,
        name: &ShortString,
        (targets, is_confirmed): (usize, bool),
        find: impl FnOnce() -> Arc<ExchangeTraffic>,
    ) {
        let is_known = |known: &Counted| known.version == version && known.name == *name;
        if !self.exchange.as_ref().is_some_and(is_known) {
            self.end_exchange();
            self.exchange = Some(Counted {
                version,
                name: name.detach(),
                traffic: find(),
                counts: ExchangeCounts::default(),
            });
        }
        if let Some(Counted { counts, .. }) = &mut self.exchange {
            counts.publish_in += 1;
            counts.publish_out += targets as u64;
            counts.confirm += u64::from(is_confirmed);
        }
    }

    /// The publish that was counted last reaches no queue, and goes back or not.
    pub(super) fn count_unroutable(&mut self, is_returned: bool) {
        let (returned, dropped) = (u64::from(is_returned), u64::from(!is_returned));
        self.counts.return_unroutable += returned;
        self.counts.drop_unroutable += dropped;
        if let Some(Counted { counts, .. }) = &mut self.exchange {
            counts.return_unroutable += returned;
            counts.drop_unroutable += dropped;
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
            counted.traffic.add(&std::mem::take(&mut counted.counts));
        }
    }
}
