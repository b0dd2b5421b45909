//! The broker as everybody else sees it: start, log in, find things, stop.

use std::{
    collections::HashMap,
    future,
    path::{Path, PathBuf},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use leveret_core::{
    arguments::{ACK_TIMEOUT_MILLIS, Permits, QueueType, with_ack_timeout},
    ids::{ConnectionId, QueueId, Timestamp},
    queue::{Command, Confirm, Counters},
    record::{
        BindingRecord, DelayRecord, ExchangeRecord, HashAlgorithm, MetaChange, PermissionRecord,
        QueueRecord, QueueState, UserRecord, VhostRecord, Write,
    },
    vhost::{Occasion, Vhost},
};
use leveret_store::{
    CommitError, Committer, OpenError, Options as StoreOptions, Progress, Recovered, Store,
};
use leveret_wire::value::{FieldTable, ShortString};
use parking_lot::Mutex;
use tokio::{
    runtime,
    sync::{Notify, oneshot},
    task::AbortHandle,
};
use tracing::{info, warn};

use crate::{
    access::Access,
    alarms::{Alarm, Alarms, Gauges, Limits},
    backends::AuthBackend,
    clock::Clock,
    connections::Connections,
    defaults::VhostDefaults,
    delay_handle::DelayHandle,
    events::{self, Events},
    failed_logins::FailedLogins,
    log_exchange,
    logins::{LoginCounts, LoginOver, Logins},
    outbox::Outbox,
    passwords::hash_password,
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
    unwritten::Unwritten,
    vhost_handle::{ChurnCounters, QueueChurn, VhostHandle, VhostRefusal},
};

/// Within which time a disk that is well ends a write or a sync, also a slow one. Beyond it health checks fail.
const DISK_ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// Writes that may wait for the committer before publishing connections are no longer read.
const UNWRITTEN_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What of it may be one connection's: a flood on one leaves room for the others.
const UNWRITTEN_BYTES_OF_ONE_MAX: u64 = 16 * 1024 * 1024;

/// Far beyond what clients with a wrong password do that try again each second, all of them behind one address.
const LOGIN_FAILURES_MAX: u32 = 1000;

/// How a broker starts.
#[derive(Debug, Clone)]
pub struct StartOptions {
    /// Where everything durable lies; without a directory everything is kept in memory and ends with the process.
    pub data_dir: Option<PathBuf>,
    /// How storage works.
    pub store: StoreOptions,
    /// What an operator can set about the node.
    pub node: NodeOptions,
    /// When publishers have to wait.
    pub limits: Limits,
}

/// What an operator can set about the node.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// Its name in texts and in the HTTP API.
    pub name: String,
    /// Who is asked whether somebody may come in, one after the other.
    pub auth_backends: Vec<AuthBackend>,
    /// Logins from one place that may fail within a minute before nobody from there is listened to; 0 for any number.
    pub login_failures_max: u32,
    /// How new passwords are hashed.
    pub password_hashing: HashAlgorithm,
    /// Users who may log in from this machine only.
    pub loopback_users: Vec<String>,
    /// Connections there may be; `None` for any number.
    pub connection_max: Option<u64>,
    /// Vhosts there may be; `None` for any number.
    pub vhost_max: Option<u64>,
    /// Channels there may be over all connections; `None` for any number.
    pub channel_max: Option<u64>,
    /// The largest body that may be published, in bytes.
    pub message_size_max: u64,
    /// The user an empty directory gets.
    pub default_user: String,
    /// Their password.
    pub default_password: String,
    /// Their tags.
    pub default_tags: Vec<String>,
    /// What they may configure, write and read in the vhost of an empty directory.
    pub default_permission: [String; 3],
    /// The vhost an empty directory gets.
    pub default_vhost: String,
    /// What every new vhost gets.
    pub vhost_defaults: VhostDefaults,
    /// The type of a durable queue that asks for none in a vhost that names none.
    pub default_queue_type: QueueType,
    /// The name of the cluster; `None` is that of the node.
    pub cluster_name: Option<String>,
    /// Within which time messages of quorum queues are to be acked when nobody says otherwise, in milliseconds; 0 is no
    /// such time.
    pub consumer_timeout_millis: u64,
    /// An empty directory stays empty: definitions will say who there is.
    pub is_seeded: bool,
    /// What happens to connections, queues, users and so on goes to the exchange `amq.rabbitmq.event`.
    pub tells_events: bool,
    /// What new queues may be that RabbitMQ permits for the time being only, or not any more.
    pub permits: Permits,
    /// Consumers of a channel may share a prefetch; the sessions see to it.
    pub permits_global_qos: bool,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            name: "rabbit@localhost".to_owned(),
            auth_backends: vec![AuthBackend::Internal],
            login_failures_max: LOGIN_FAILURES_MAX,
            password_hashing: HashAlgorithm::default(),
            loopback_users: vec!["guest".to_owned()],
            connection_max: None,
            vhost_max: None,
            channel_max: None,
            message_size_max: 16 * 1024 * 1024,
            default_user: "guest".to_owned(),
            default_password: "guest".to_owned(),
            default_tags: vec!["administrator".to_owned()],
            default_permission: [".*", ".*", ".*"].map(str::to_owned),
            default_vhost: "/".to_owned(),
            vhost_defaults: VhostDefaults::default(),
            default_queue_type: QueueType::Classic,
            cluster_name: None,
            consumer_timeout_millis: ACK_TIMEOUT_MILLIS,
            is_seeded: true,
            tells_events: false,
            permits: Permits::default(),
            permits_global_qos: true,
        }
    }
}

/// Why a broker does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The committer's thread.
    #[error("cannot start the storage thread: {0}")]
    Thread(#[from] std::io::Error),
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

    /// Returns once every change of metadata handed in so far is on disk, also those of others: a
    /// declare that finds what another one has just made promises as much.
    pub(crate) async fn metadata_stored(&self) {
        if self.metadata_stored.load(Ordering::Acquire) < *self.metadata_sent.lock() {
            self.barrier().await;
        }
    }

    /// Returns when no more waits for the disk than may wait.
    pub(crate) async fn disk_keeps_up(&self) {
        loop {
            let mut relieved = pin!(self.relief.notified());
            relieved.as_mut().enable();
            if self.committer.pending_bytes() < UNWRITTEN_BYTES_MAX {
                return;
            }
            relieved.await;
        }
    }

    /// Returns once everything handed to the committer so far is on disk.
    pub(crate) async fn barrier(&self) {
        let (sender, stored) = oneshot::channel();
        self.committer
            .send(&mut Vec::new(), &mut vec![Promise::Barrier(sender)], true);
        if stored.await.is_err() {
            // Dropped, not kept: the store failed or was closed, and nobody must hear that this is stored. Whoever ends the
            // process, or the connection, ends this wait as well.
            future::pending().await
        }
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

    /// What a confirm waits for: `always`, `interval` or `never`, as in `storage.sync`; `memory` without a directory.
    #[must_use]
    pub fn storage_sync(&self) -> &'static str {
        self.services.storage_sync
    }

    /// For how long the disk has not answered, once that is longer than a slow one takes.
    #[must_use]
    pub fn disk_silence(&self) -> Option<Duration> {
        let busy = self.services.committer.busy_for();
        busy.filter(|busy| *busy >= DISK_ANSWERS_WITHIN)
    }

    /// Batches that were written, and syncs of the log, since the start.
    #[must_use]
    pub fn commits_and_syncs(&self) -> (u64, u64) {
        let counters = self.services.committer.counters();
        (counters.commits, counters.syncs)
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

    /// Whether a publishing connection may be read on; it has handed in `unwritten`.
    #[must_use]
    pub fn has_room_for_writes(&self, unwritten: &mut Unwritten) -> bool {
        let committer = &self.services.committer;
        unwritten.forget_until(committer.written_bytes());
        self.services.transfers.has_room()
            && committer.pending_bytes() < UNWRITTEN_BYTES_MAX
            && unwritten.bytes < UNWRITTEN_BYTES_OF_ONE_MAX
    }

    /// Back-pressure: a publishing connection waits here before it reads on, while the disk is behind.
    pub async fn room_for_writes(&self, unwritten: &mut Unwritten) {
        loop {
            let mut relieved = pin!(self.services.relief.notified());
            relieved.as_mut().enable();
            if self.has_room_for_writes(unwritten) {
                return;
            }
            if self.services.transfers.has_room() {
                relieved.await;
            } else {
                self.services.transfers.room().await;
            }
        }
    }

    /// A connection handed in so many bytes that are to be stored, with everything it has submitted.
    pub fn note_unwritten(&self, unwritten: &mut Unwritten, bytes: u64) {
        unwritten.note(self.services.committer.sent_bytes(), bytes);
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

    /// Waits until everything handed in so far is on disk and what was promised for it has left.
    pub async fn flush(&self) {
        self.services.barrier().await;
    }

    /// Waits until everything that died is where it goes; before a stop, so that it is not in its old queue after it.
    pub async fn drain(&self) {
        self.services.transfers.idle().await;
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

    /// An orderly stop, when no connection is left: writes down what was handed out, syncs, and
    /// marks the directory as cleanly closed. Nothing may be sent to this broker afterwards.
    ///
    /// # Errors
    ///
    /// When the last writes fail; the next start then treats the stop as a crash.
    pub fn stop(&self) -> Result<(), CommitError> {
        let queues = self.services.registry.all_queues();
        let mut writes: Vec<Write> = queues
            .iter()
            .filter_map(|queue| queue.state_at_stop())
            .collect();
        self.services
            .committer
            .send(&mut writes, &mut Vec::new(), true);
        self.services.committer.stop()
    }

    fn restore(&self, mut recovered: Recovered) {
        let is_new = recovered.vhosts.is_empty() && recovered.users.is_empty();
        let mut vhosts = self.restore_directory(&recovered);
        if is_new && self.services.node.is_seeded {
            vhosts.push(self.first_start());
        }
        let mut in_vhost = InVhost::default();
        for exchange in recovered.exchanges {
            in_vhost.of(&exchange.vhost).exchanges.push(exchange);
        }
        for queue in recovered.queues {
            in_vhost.of(&queue.0.vhost).queues.push(queue);
        }
        for binding in recovered.bindings {
            in_vhost.of(&binding.vhost).bindings.push(binding);
        }
        for mut vhost in vhosts {
            let Stored {
                exchanges,
                queues,
                bindings,
            } = std::mem::take(in_vhost.of(vhost.name()));
            // Before their bindings, which are stored. They are not: whether they are there is said at every start.
            for exchange in self.services.own_exchanges(vhost.name()) {
                vhost.restore_exchange(exchange);
            }
            exchanges
                .iter()
                .for_each(|record| vhost.restore_exchange(record.clone()));
            let queues: Vec<_> = queues
                .into_iter()
                .map(|(record, state)| (vhost.restore_queue(record), state))
                .collect();
            bindings
                .into_iter()
                .for_each(|record| vhost.restore_binding(record));
            let handle = VhostHandle::new(vhost, self.services.clone());
            for (record, state) in queues {
                let attempts = recovered.attempts.remove(&record.id).unwrap_or_default();
                let queue = QueueHandle::new(
                    record,
                    Arc::downgrade(&handle),
                    self.services.clone(),
                    Some(state),
                    attempts,
                );
                self.services.registry.add_queue(queue.clone());
                queue.touch();
            }
            handle.apply_exchange_policies();
            self.services.registry.add_vhost(handle.clone());
            for record in &exchanges {
                if let Some(DelayRecord { id, .. }) = record.delay {
                    let held = recovered.held.iter().find(|(held, _)| *held == id);
                    let delay = handle.add_delay(id, record, held.map(|(_, state)| *state));
                    // Asks for what is due first.
                    delay.tick();
                }
            }
        }
    }

    /// Puts vhosts, users, permissions and parameters back. A directory of an earlier version has no
    /// permissions: its only user gets all of them.
    fn restore_directory(&self, recovered: &Recovered) -> Vec<Vhost> {
        let access = &self.services.access;
        let Ok(missing) = access.change(&access.lock(), |directory| {
            for vhost in &recovered.vhosts {
                // Nobody is traced for longer than until a stop.
                directory.put_vhost(VhostRecord {
                    tracing: false,
                    ..vhost.clone()
                });
            }
            for user in &recovered.users {
                directory.put_user(user.clone());
            }
            // What was stored was checked before.
            for permission in &recovered.permissions {
                let _ = directory.put_permission(permission.clone());
            }
            for permission in &recovered.topic_permissions {
                let _ = directory.put_topic_permission(permission.clone());
            }
            for parameter in &recovered.parameters {
                directory.put_parameter(parameter.clone());
            }
            let (root, guest) = ("/", "guest");
            let is_of_early_version = recovered.permissions.is_empty()
                && matches!(recovered.vhosts.as_slice(), [only] if only.name == *root)
                && matches!(recovered.users.as_slice(), [only] if only.name == *guest);
            let missing = is_of_early_version.then(|| full_permission(root, guest));
            let missing = missing.and_then(|missing| directory.put_permission(missing).ok());
            Ok::<_, std::convert::Infallible>(missing.unwrap_or_default())
        });
        let policies = Policies::of(&access.directory());
        self.services.policies.store(Arc::new(policies));
        self.services
            .send_metadata(missing.into_iter().map(Write::Meta).collect());
        let names = recovered.vhosts.iter().map(|vhost| vhost.name.clone());
        names.map(Vhost::new).collect()
    }

    /// What an empty directory gets: a vhost and an administrator who may do everything there.
    fn first_start(&self) -> Vhost {
        let node = &self.services.node;
        let vhost = VhostRecord {
            description: "Default virtual host".to_owned(),
            ..VhostRecord::named(ShortString::cut(&node.default_vhost))
        };
        let user = UserRecord {
            name: ShortString::cut(&node.default_user),
            password_hash: hash_password(node.password_hashing, node.default_password.as_bytes()),
            algorithm: node.password_hashing,
            tags: node.default_tags.clone(),
            ..UserRecord::default()
        };
        let name = vhost.name.clone();
        let [configure, write, read] = node.default_permission.clone();
        let permission = PermissionRecord {
            vhost: name.clone(),
            user: user.name.clone(),
            configure,
            write,
            read,
        };
        let access = &self.services.access;
        let Ok(changes) = access.change(&access.lock(), |directory| {
            let mut changes = node.vhost_defaults.put_new(directory, vhost);
            changes.extend(directory.put_user(user));
            // The patterns were read when they were set.
            changes.extend(directory.put_permission(permission).unwrap_or_default());
            Ok::<_, std::convert::Infallible>(changes)
        });
        let policies = Policies::of(&access.directory());
        self.services.policies.store(Arc::new(policies));
        self.services
            .send_metadata(changes.into_iter().map(Write::Meta).collect());
        Vhost::new(name)
    }
}

/// What was stored of each vhost.
#[derive(Debug, Default)]
struct InVhost(HashMap<ShortString, Stored>);

#[derive(Debug, Default)]
struct Stored {
    exchanges: Vec<ExchangeRecord>,
    queues: Vec<(QueueRecord, QueueState)>,
    bindings: Vec<BindingRecord>,
}

impl InVhost {
    fn of(&mut self, vhost: &ShortString) -> &mut Stored {
        self.0.entry(vhost.clone()).or_default()
    }
}

/// Everything in one vhost.
fn full_permission(vhost: &str, user: &str) -> PermissionRecord {
    let everything = || ".*".to_owned();
    PermissionRecord {
        vhost: ShortString::cut(vhost),
        user: ShortString::cut(user),
        configure: everything(),
        write: everything(),
        read: everything(),
    }
}
