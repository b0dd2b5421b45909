//! One vhost: a snapshot that everybody reads, and the one place where it changes.

mod consuming;
mod exchanges;
mod queues;
mod routing;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use leveret_core::{
    ids::{ConnectionId, QueueId},
    record::{MetaChange, Write},
    refusal::Refusal,
    vhost::Vhost,
};
use leveret_wire::value::ShortString;
use parking_lot::Mutex;

pub(crate) use self::queues::ChurnCounters;
pub use self::{
    consuming::Taken,
    queues::{QueueChurn, QueueDeleted, QueueStatus},
};
use crate::{
    broker::Services,
    history::Histories,
    policies::Target,
    replies::ReplyAddresses,
    traffic::{ExchangeCounts, ExchangeTraffic, ExchangeTraffics, Traffic},
};

/// Why a vhost cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VhostRefusal {
    /// There is none of this name.
    #[error("vhost {0} not found")]
    NotFound(ShortString),
}

/// One vhost.
#[derive(Debug)]
pub struct VhostHandle {
    name: ShortString,
    services: Arc<Services>,
    snapshot: ArcSwap<Vhost>,
    /// Grows with every snapshot; what was found in an older one is to be looked up again.
    version: AtomicU64,
    /// What exchanges remember for bindings to come.
    histories: Mutex<Histories>,
    /// Who waits for replies without a queue.
    replies: ReplyAddresses,
    traffic: Arc<Traffic>,
    exchange_traffic: ExchangeTraffics,
    /// Copies of everything go to the trace exchange.
    is_traced: Arc<AtomicBool>,
    /// Held by whoever changes the vhost.
    applier: Mutex<Applier>,
}

/// What only the applier knows.
#[derive(Debug, Default)]
struct Applier {
    /// The vhost was deleted; nothing is made in it any more.
    is_ended: bool,
    exclusive_queues: BTreeMap<ConnectionId, BTreeSet<QueueId>>,
}

impl VhostHandle {
    pub(crate) fn new(vhost: Vhost, services: Arc<Services>) -> Arc<Self> {
        Arc::new(Self {
            name: vhost.name().clone(),
            services,
            snapshot: ArcSwap::from_pointee(vhost),
            version: AtomicU64::new(1),
            histories: Mutex::default(),
            replies: ReplyAddresses::default(),
            traffic: Arc::default(),
            exchange_traffic: ExchangeTraffics::default(),
            is_traced: Arc::default(),
            applier: Mutex::default(),
        })
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &ShortString {
        &self.name
    }

    pub(crate) const fn services(&self) -> &Arc<Services> {
        &self.services
    }

    /// Whether copies of everything go to the trace exchange. Whoever remembers it looks again when
    /// [`Self::version`] changes.
    #[must_use]
    pub fn is_traced(&self) -> bool {
        self.is_traced.load(Ordering::Relaxed)
    }

    /// The same for the queues of the vhost, which look at every delivery.
    pub(crate) const fn traced(&self) -> &Arc<AtomicBool> {
        &self.is_traced
    }

    /// Begins or ends to trace.
    pub(crate) fn set_traced(&self, is_traced: bool) {
        if self.is_traced.swap(is_traced, Ordering::Relaxed) != is_traced {
            self.version.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// What was published into it.
    #[must_use]
    pub const fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    /// Where publishes to this exchange are counted, until [`Self::version`] changes.
    #[must_use]
    pub fn exchange_traffic(&self, name: &ShortString) -> Arc<ExchangeTraffic> {
        self.exchange_traffic.of(name, &self.snapshot.load())
    }

    /// What was published to this exchange; `None` when nothing was.
    #[must_use]
    pub fn exchange_counts(&self, name: &ShortString) -> Option<ExchangeCounts> {
        self.exchange_traffic.counts(name)
    }

    /// The policy that applies to this exchange.
    #[must_use]
    pub fn exchange_policy(&self, name: &ShortString) -> Option<String> {
        let policies = self.services.policies.load();
        let effective = policies.effective(&self.name, Target::Exchange, name);
        effective.user.map(|policy| policy.name.clone())
    }

    /// The exchanges, queues and bindings of this moment.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Vhost> {
        self.snapshot.load_full()
    }

    /// Which snapshot is the newest.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Ends the vhost with everything in it: the writes that make it so, which belong into one unit with the
    /// end of the vhost itself.
    pub(crate) fn end(&self) -> Vec<Write> {
        let mut applier = self.applier.lock();
        applier.is_ended = true;
        let traffic = self.traffic.counts();
        self.services.publishing.vhost_gone(&traffic);
        applier.exclusive_queues.clear();
        let snapshot = self.snapshot.load();
        let mut writes = Vec::new();
        for record in snapshot.queues() {
            if let Some(handle) = self.services.registry.queue(record.id) {
                // Its consumers are connections of this vhost, which are closed.
                let counters = handle.report().counters;
                let publishing = &self.services.publishing;
                publishing.queue_gone(record.queue_type, &counters);
                let (_, of_queue, _) = handle.delete(false, false);
                writes.extend(of_queue);
                self.services.registry.remove_queue(record.id);
                let churn = &self.services.queue_churn;
                churn.deleted.fetch_add(1, Ordering::Relaxed);
            }
        }
        writes.extend(snapshot.everything_deleted().into_iter().map(Write::Meta));
        self.end_delays(&writes);
        if self.services.events.is_on() {
            let nothing = Vhost::new(self.name.clone());
            self.services.tell_difference(&snapshot, &nothing);
            for exchange in nothing.exchanges() {
                self.services.tell_exchange_gone(exchange.record());
            }
        }
        self.snapshot.store(Arc::new(Vhost::new(self.name.clone())));
        self.version.fetch_add(1, Ordering::AcqRel);
        self.forget_histories();
        writes
    }

    fn check_alive(&self, applier: &Applier) -> Result<(), Refusal> {
        if applier.is_ended {
            let vhost = self.name.clone();
            return Err(Refusal::VhostDeleted { vhost });
        }
        Ok(())
    }

    fn change(
        &self,
        change: impl FnOnce(&mut Vhost) -> Result<Vec<MetaChange>, Refusal>,
    ) -> Result<(), Refusal> {
        let applier = self.applier.lock();
        self.check_alive(&applier)?;
        let mut vhost = Vhost::clone(&self.snapshot.load());
        let changes = change(&mut vhost)?;
        self.publish(vhost, changes);
        self.forget_histories();
        Ok(())
    }

    fn publish(&self, vhost: Vhost, changes: Vec<MetaChange>) {
        self.replace(vhost, changes.into_iter().map(Write::Meta).collect());
    }

    fn replace(&self, vhost: Vhost, writes: Vec<Write>) {
        self.end_delays(&writes);
        self.services.send_metadata(writes);
        let vhost = Arc::new(vhost);
        let before = self.snapshot.swap(vhost.clone());
        self.version.fetch_add(1, Ordering::AcqRel);
        if self.services.events.is_on() {
            self.services.tell_difference(&before, &vhost);
        }
    }
}
