//! The broker as everybody else sees it: start, log in, find things.

mod disk;
mod options;
mod restore;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use arc_swap::{ArcSwap, ArcSwapOption};
use leveret_core::{
    arguments::{QueueType, with_ack_timeout},
    ids::{ConnectionId, QueueId, Timestamp},
    queue::{Command, Confirm, Counters},
    record::{ExchangeRecord, HashAlgorithm, MetaChange, QueueRecord, Write},
    vhost::Occasion,
};
use leveret_store::{CommitError, Committer, OpenError, Progress, Store};
use leveret_wire::value::{FieldTable, ShortString};
use parking_lot::Mutex;
use tokio::{runtime, sync::Notify, task::AbortHandle};
use tracing::{info, warn};

pub use self::options::{NodeOptions, StartOptions};
use crate::{
    access::Access,
    alarms::{Alarm, Alarms, Gauges, Limits},
    clock::Clock,
    connections::Connections,
    delay_handle::DelayHandle,
    events::{self, Events},
    failed_logins::FailedLogins,
    log_exchange,
    logins::{LoginCounts, LoginOver, Logins},
    outbox::Outbox,
    password_rule::{PasswordRefused, PasswordRule},
    policies::Policies,
    promise::{Payer, Promise},
    publishing::{DeadLetterStrategy, DeathCounts, Publishing, Sizes},
    queue_handle::QueueHandle,
    readers::Readers,
    registry::Registry,
    timers::Timers,
    traffic::TrafficCounts,
    transfers::Transfers,
    transient_memory::TransientMemory,
    vhost_handle::{ChurnCounters, QueueChurn, VhostHandle, VhostRefusal},
};

/// Why a broker does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The committer's thread.
    #[error("cannot start the storage thread: {0}")]
    Thread(#[from] std::io::Error),
    /// The first user cannot be made.
    #[error("the default user cannot be given the default password: {0}")]
    DefaultPassword(#[from] PasswordRefused),
}

/// What every handle of this broker shares.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) clock: Arc<Clock>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) committer: Committer<Promise>,
    pub(crate) readers: Readers,
    pub(crate) timers: Arc<Timers>,
    pub(crate) transfers: Arc<Transfers>,
    pub(crate) transient: TransientMemory,
    pub(crate) access: Access,
    pub(crate) connections: Connections,
    pub(crate) policies: ArcSwap<Policies>,
    /// [`NodeOptions::consumer_timeout_millis`], as it is now.
    consumer_timeout_millis: AtomicU64,
    /// [`NodeOptions::loopback_users`], as they are now.
    loopback_users: ArcSwap<Vec<String>>,
    /// What new connections are offered instead of what their listener was set to.
    offered_channel_max: ArcSwapOption<u16>,
    /// Queues that were declared, created and deleted.
    pub(crate) queue_churn: ChurnCounters,
    logins: Logins,
    pub(crate) failed_logins: FailedLogins,
    pub(crate) publishing: Publishing,
    data_dir: Option<PathBuf>,
    storage_sync: &'static str,
    pub(crate) node: NodeOptions,
    pub(crate) events: Events,
    pub(crate) alarms: Arc<Alarms>,
    /// The number of the next queue, in whichever vhost.
    next_queue_id: AtomicU64,
    /// Units of metadata handed to the committer, and how many of them are on disk.
    metadata_sent: Mutex<u64>,
    metadata_stored: Arc<AtomicU64>,
    relief: Arc<Notify>,
}

/// One running broker.
#[derive(Debug)]
pub struct Broker {
    services: Arc<Services>,
    last_connection: AtomicU64,
    /// The tasks of the broker itself; they end with it.
    tasks: Vec<AbortHandle>,
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Services {
    /// A number no queue had before.
    pub(crate) fn next_queue_id(&self) -> QueueId {
        QueueId::new(self.next_queue_id.fetch_add(1, Ordering::Relaxed))
    }

    /// A queue's arguments together with what its policies say and what holds for all of its type.
    pub(crate) fn arguments_of(&self, record: &QueueRecord) -> FieldTable {
        let millis = self.consumer_timeout_millis.load(Ordering::Relaxed);
        with_ack_timeout(self.policies.load().arguments(record), millis)
    }

    /// Exchanges of the broker's own that a vhost of this name has.
    pub(crate) fn own_exchanges(&self, vhost: &ShortString) -> Vec<ExchangeRecord> {
        if *vhost != self.node.default_vhost.as_str() {
            return Vec::new();
        }
        let mut exchanges = vec![log_exchange::exchange(vhost.clone())];
        if self.events.is_on() {
            exchanges.push(events::exchange(vhost.clone()));
        }
        exchanges
    }

    /// What a message meets that is routed now.
    pub(crate) fn occasion(&self) -> Occasion {
        Occasion {
            now: self.clock.now(),
            draw: rand::random(),
        }
    }

    /// Hands changes of metadata to the committer as one unit.
    pub(crate) fn send_metadata(&self, mut writes: Vec<Write>) {
        if writes.is_empty() {
            return;
        }
        // Numbers and units in one order, whichever vhost they come from.
        let mut sent = self.metadata_sent.lock();
        *sent += 1;
        if writes.iter().any(|write| match write {
            Write::Meta(MetaChange::PutQueue(_)) => true,
            Write::Meta(MetaChange::PutExchange(exchange)) => exchange.delay.is_some(),
            _ => false,
        }) {
            let next = QueueId::new(self.next_queue_id.load(Ordering::Relaxed));
            writes.push(Write::Meta(MetaChange::NextQueueId(next)));
        }
        self.committer
            .send(&mut writes, &mut vec![Promise::MetadataStored(*sent)], true);
    }
}

impl Broker {
    /// Opens the data directory and puts everything stored back in its place. No message is read.
    ///
    /// Reads of stored messages run on the blocking threads of the runtime this is called in. When
    /// storage fails later nothing can be promised any more: `storage_failed` has to end the process.
    ///
    /// # Errors
    ///
    /// When the directory cannot be used, with a text for the operator.
    pub fn start(
        options: &StartOptions,
        storage_failed: impl FnOnce(CommitError) + Send + 'static,
    ) -> Result<Arc<Self>, StartError> {
        let store_options = options.store.clone().within(options.limits.memory_bytes());
        let (store, recovered) = match &options.data_dir {
            Some(dir) => Store::open(dir, &store_options)?,
            None => Store::in_memory(&store_options)?,
        };
        if recovered.is_new() && options.node.is_seeded {
            let node = &options.node;
            node.password_rule.check(&node.default_password)?;
        }
        info!("{}", recovered.report);
        if options.data_dir.is_some()
            && let Some(warning) = options.store.sync.warning()
        {
            warn!("{warning}");
        }
        let registry = Arc::new(Registry::default());
        let metadata_stored = Arc::new(AtomicU64::new(0));
        let relief = Arc::new(Notify::new());
        let readers = Readers {
            store: Arc::downgrade(&store),
            threads: runtime::Handle::current(),
        };
        let mut payer = Payer {
            registry: registry.clone(),
            readers: readers.clone(),
            threads: runtime::Handle::current(),
            metadata_stored: metadata_stored.clone(),
            answered: Vec::new(),
            stored: Vec::new(),
        };
        let alarms = Arc::new(Alarms::new(options.limits));
        // Before anybody can publish.
        alarms.look_around(&store);
        let committer = Committer::start(
            store.clone(),
            move |promises| payer.pay(promises),
            storage_failed,
        )?;
        committer.set_listener(Box::new({
            let (relieved, alarms) = (relief.clone(), alarms.clone());
            move |progress| match progress {
                Progress::Written => relieved.notify_waiters(),
                Progress::OutOfSpace => alarms.set_out_of_space(true),
                Progress::SpaceIsBack => alarms.set_out_of_space(false),
            }
        }));
        let clock = Arc::new(Clock::default());
        let events = Events::new(options.node.tells_events, clock.now());
        let timers = Arc::new(Timers::default());
        let (transfers, arrivals) = Transfers::new();
        let mut tasks = vec![
            tokio::spawn(alarms.clone().run(Arc::downgrade(&store))).abort_handle(),
            tokio::spawn(timers.clone().run(clock.clone(), registry.clone())).abort_handle(),
        ];
        let services = Arc::new(Services {
            clock,
            registry,
            committer,
            readers,
            timers,
            transfers,
            transient: TransientMemory::default(),
            access: Access::default(),
            connections: Connections::default(),
            policies: ArcSwap::default(),
            consumer_timeout_millis: options.node.consumer_timeout_millis.into(),
            loopback_users: ArcSwap::from_pointee(options.node.loopback_users.clone()),
            offered_channel_max: ArcSwapOption::empty(),
            queue_churn: ChurnCounters::default(),
            logins: Logins::default(),
            failed_logins: FailedLogins::new(options.node.login_failures_max),
            publishing: Publishing::default(),
            data_dir: options.data_dir.clone(),
            storage_sync: match options.data_dir {
                Some(_) => options.store.sync.name(),
                None => "memory",
            },
            node: options.node.clone(),
            events,
            alarms,
            next_queue_id: AtomicU64::new(recovered.next_queue_id.get()),
            metadata_sent: Mutex::new(0),
            metadata_stored,
            relief,
        });
        tasks.push(tokio::spawn(arrivals.run(services.clone())).abort_handle());
        let alarm = services.alarms.watch();
        tasks.push(tokio::spawn(services.clone().tell_alarms(alarm)).abort_handle());
        let broker = Self {
            services,
            last_connection: AtomicU64::new(0),
            tasks,
        };
        broker.restore(recovered);
        Ok(Arc::new(broker))
    }

    /// Counts a login.
    pub fn note_login(&self, over: LoginOver, is_let_in: bool) {
        self.services.logins.note(over, is_let_in);
    }

    /// Logins since the start, or since the counts were reset.
    #[must_use]
    pub fn logins(&self, over: LoginOver) -> LoginCounts {
        self.services.logins.counts(over)
    }

    /// Counts logins from nothing again.
    pub fn reset_logins(&self) {
        self.services.logins.reset();
    }

    /// Bodies were published.
    pub fn add_sizes(&self, sizes: &Sizes) {
        self.services.publishing.add_sizes(sizes);
    }

    /// The sizes of all bodies that were published.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        self.services.publishing.sizes()
    }

    /// A connection published for the first time.
    pub fn publisher_came(&self) {
        self.services.publishing.publisher_came();
    }

    /// A connection that had published is gone.
    pub fn publisher_left(&self) {
        self.services.publishing.publisher_left();
    }

    /// Open connections that have published.
    #[must_use]
    pub fn publishers(&self) -> u64 {
        self.services.publishing.publishers()
    }

    /// Messages that died in queues of a type, of which this becomes.
    #[must_use]
    pub fn deaths(&self, queue_type: QueueType, strategy: DeadLetterStrategy) -> DeathCounts {
        self.services.publishing.deaths(queue_type, strategy)
    }

    /// What was published into vhosts that were deleted.
    #[must_use]
    pub fn traffic_of_deleted_vhosts(&self) -> TrafficCounts {
        self.services.publishing.gone_traffic()
    }

    /// What went through queues that were deleted: classic, quorum, stream.
    #[must_use]
    pub fn counters_of_deleted_queues(&self) -> [Counters; 3] {
        self.services.publishing.gone()
    }

    /// Where everything durable lies, if anywhere.
    #[must_use]
    pub fn data_dir(&self) -> Option<&Path> {
        self.services.data_dir.as_deref()
    }

    /// Queues that were declared, created and deleted since the start.
    #[must_use]
    pub fn queue_churn(&self) -> QueueChurn {
        self.services.queue_churn.now()
    }

    /// The broker's time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.services.clock.now()
    }

    /// What was set about the node.
    #[must_use]
    pub fn node(&self) -> &NodeOptions {
        &self.services.node
    }

    pub(crate) const fn services(&self) -> &Arc<Services> {
        &self.services
    }

    /// The vhost of this name.
    ///
    /// # Errors
    ///
    /// [`VhostRefusal::NotFound`].
    pub fn vhost(&self, name: &ShortString) -> Result<Arc<VhostHandle>, VhostRefusal> {
        self.services
            .registry
            .vhost(name)
            .ok_or_else(|| VhostRefusal::NotFound(name.clone()))
    }

    /// A number for a new connection.
    pub fn next_connection_id(&self) -> ConnectionId {
        ConnectionId::new(self.last_connection.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// From now on confirms for this connection find their way.
    pub fn connect(&self, connection: ConnectionId, outbox: Arc<dyn Outbox>) {
        self.services.registry.add_outbox(connection, outbox);
    }

    /// The connection is gone; what is still on its way to it is dropped.
    pub fn disconnect(&self, connection: ConnectionId) {
        self.services.registry.remove_outbox(connection);
        self.services.connections.remove(connection);
    }

    /// What a message meets that is routed now.
    #[must_use]
    pub fn occasion(&self) -> Occasion {
        self.services.occasion()
    }

    /// The queue of this number, until it is deleted.
    #[must_use]
    pub fn queue(&self, id: QueueId) -> Option<Arc<QueueHandle>> {
        self.services.registry.queue(id)
    }

    /// What keeps messages of an exchange until their time, until the exchange is deleted.
    #[must_use]
    pub fn delay(&self, id: QueueId) -> Option<Arc<DelayHandle>> {
        self.services.registry.delay(id)
    }

    /// Tells the consumers of a deleted queue.
    pub fn tell_cancelled(&self, consumers: &[leveret_core::ids::ConsumerId]) {
        for run in consumers.chunk_by(|a, b| a.channel.connection == b.channel.connection) {
            if let Some(outbox) = self.services.registry.outbox(run[0].channel.connection) {
                outbox.cancel(run);
            }
        }
    }

    /// Ends a consumer as if its client had: what it holds it keeps. The client is told by `basic.cancel`.
    pub fn cancel_consumer(&self, queue: &QueueHandle, consumer: leveret_core::ids::ConsumerId) {
        queue.submit(&mut vec![Command::Unsubscribe { consumer }]);
        self.tell_cancelled(&[consumer]);
    }

    /// Whether publishers have to wait for memory or disk.
    #[must_use]
    pub fn has_alarm(&self) -> bool {
        self.services.alarms.is_on()
    }

    /// Whether memory is short, at any moment from now on.
    #[must_use]
    pub fn memory_shortage(&self) -> Arc<AtomicBool> {
        self.services.alarms.memory_shortage()
    }

    /// Which alarms are on.
    #[must_use]
    pub fn alarm(&self) -> Alarm {
        self.services.alarms.alarm()
    }

    /// Returns when no alarm is on.
    pub async fn alarm_cleared(&self) {
        self.services.alarms.cleared().await;
    }

    /// What was measured last.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        self.services.alarms.gauges()
    }

    /// Where the alarms begin.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.services.alarms.limits()
    }

    /// Moves the limits; what that means for the alarms is found out at once.
    pub fn set_limits(&self, limits: Limits) {
        self.services.alarms.set_limits(limits);
    }

    /// Within which time messages of quorum queues are to be acked when nobody says otherwise; 0 is no such time.
    #[must_use]
    pub fn consumer_timeout_millis(&self) -> u64 {
        let millis = &self.services.consumer_timeout_millis;
        millis.load(Ordering::Relaxed)
    }

    /// Changes that time for the queues there are and for those to come, until the broker stops.
    pub fn set_consumer_timeout_millis(&self, millis: u64) {
        let services = &self.services;
        // As policies are applied: the newest is the one that is applied last.
        let _applier = services.access.lock();
        services
            .consumer_timeout_millis
            .store(millis, Ordering::Relaxed);
        for handle in self.vhosts() {
            handle.apply_queue_policies();
        }
    }

    /// How new passwords are hashed.
    #[must_use]
    pub fn password_hashing(&self) -> HashAlgorithm {
        self.services.node.password_hashing
    }

    /// What new passwords must be.
    #[must_use]
    pub fn password_rule(&self) -> &PasswordRule {
        &self.services.node.password_rule
    }

    /// Users who may log in from this machine only.
    #[must_use]
    pub fn loopback_users(&self) -> Arc<Vec<String>> {
        self.services.loopback_users.load_full()
    }

    /// Changes who they are, until the broker stops.
    pub fn set_loopback_users(&self, users: Vec<String>) {
        self.services.loopback_users.store(Arc::new(users));
    }

    /// How many channels new connections are offered, where that was changed since the start; 0 is no limit.
    #[must_use]
    pub fn offered_channel_max(&self) -> Option<u16> {
        self.services.offered_channel_max.load().as_deref().copied()
    }

    /// Changes how many channels new connections are offered, until the broker stops.
    pub fn offer_channel_max(&self, max: u16) {
        self.services.offered_channel_max.store(Some(Arc::new(max)));
    }

    /// Switches alarms on by hand, as tests of clients do, or leaves them to what is measured again.
    pub fn set_alarm_by_hand(&self, change: impl FnOnce(&mut Alarm)) {
        self.services.alarms.set_by_hand(change);
    }

    /// Stores whatever `work` does to queues as one unit: all of it, or nothing.
    pub fn as_one_unit<T>(&self, work: impl FnOnce() -> T) -> T {
        self.services.committer.as_one_unit(work)
    }

    /// Confirms these once everything that was handed in so far is stored, as a queue does with what it takes. Empties `confirms`.
    pub fn answer_when_stored(&self, confirms: &mut Vec<Confirm>) {
        let mut promises = confirms.drain(..).map(Promise::Confirm).collect();
        let committer = &self.services.committer;
        committer.send(&mut Vec::new(), &mut promises, true);
    }
}
