//! The broker as everybody else sees it: start, log in, find things, stop.

use std::{
    net::IpAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use leveret_core::{
    ids::{ConnectionId, QueueId},
    record::{DelayRecord, MetaChange, UserRecord, Write},
    vhost::{Occasion, Vhost},
};
use leveret_store::{CommitError, Committer, OpenError, Options as StoreOptions, Recovered, Store};
use leveret_wire::value::ShortString;
use parking_lot::Mutex;
use tokio::{
    runtime,
    sync::{Notify, oneshot},
    task::AbortHandle,
};
use tracing::{info, warn};

use crate::{
    clock::Clock,
    delay_handle::DelayHandle,
    outbox::Outbox,
    promise::{Payer, Promise},
    queue_handle::QueueHandle,
    registry::Registry,
    timers::Timers,
    transfers::Transfers,
    transient_memory::TransientMemory,
    users::{LoginRefused, User, Users, hash_password},
    vhost_handle::{VhostHandle, VhostRefusal},
};

/// Writes that may wait for the committer before publishing connections are no longer read.
const UNWRITTEN_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How a broker starts.
#[derive(Debug, Clone)]
pub struct StartOptions {
    /// Where everything durable lies; without a directory everything is kept in memory and ends with the process.
    pub data_dir: Option<PathBuf>,
    /// How storage works.
    pub store: StoreOptions,
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
    pub(crate) clock: Clock,
    pub(crate) registry: Arc<Registry>,
    pub(crate) committer: Committer<Promise>,
    pub(crate) timers: Arc<Timers>,
    pub(crate) transfers: Arc<Transfers>,
    pub(crate) transient: TransientMemory,
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
    users: Users,
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

    /// Returns once everything handed to the committer so far is on disk.
    pub(crate) async fn barrier(&self) {
        let (sender, stored) = oneshot::channel();
        self.committer
            .send(&mut Vec::new(), &mut vec![Promise::Barrier(sender)], true);
        // A committer that failed ends the process; it never drops a promise otherwise.
        let _ = stored.await;
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
        let (store, recovered) = match &options.data_dir {
            Some(dir) => Store::open(dir, &options.store)?,
            None => Store::in_memory(&options.store)?,
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
        let mut payer = Payer {
            registry: registry.clone(),
            store: store.clone(),
            readers: runtime::Handle::current(),
            metadata_stored: metadata_stored.clone(),
            answered: Vec::new(),
        };
        let committer =
            Committer::start(store, move |promises| payer.pay(promises), storage_failed)?;
        let relieved = relief.clone();
        committer.set_relief(
            UNWRITTEN_BYTES_MAX / 2,
            Box::new(move || relieved.notify_waiters()),
        );
        let timers = Arc::new(Timers::default());
        let (transfers, arrivals) = Transfers::new(&registry);
        let tasks = vec![
            tokio::spawn(timers.clone().run(Clock, registry.clone())).abort_handle(),
            tokio::spawn(arrivals.run(transfers.clone(), registry.clone())).abort_handle(),
        ];
        let services = Arc::new(Services {
            clock: Clock,
            registry,
            committer,
            timers,
            transfers,
            transient: TransientMemory::default(),
            next_queue_id: AtomicU64::new(recovered.next_queue_id.get()),
            metadata_sent: Mutex::new(0),
            metadata_stored,
            relief,
        });
        let broker = Self {
            services,
            users: Users::default(),
            last_connection: AtomicU64::new(0),
            tasks,
        };
        broker.restore(recovered);
        Ok(Arc::new(broker))
    }

    /// Checks a login.
    ///
    /// # Errors
    ///
    /// [`LoginRefused`]; the peer is not told which.
    pub fn login(&self, name: &[u8], password: &[u8], peer: IpAddr) -> Result<User, LoginRefused> {
        self.users.login(name, password, peer)
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

    /// Whether publishing connections may be read on.
    #[must_use]
    pub fn has_room_for_writes(&self) -> bool {
        self.services.committer.pending_bytes() < UNWRITTEN_BYTES_MAX
    }

    /// Back-pressure: a publishing connection waits here before it reads on, while the disk is behind.
    pub async fn room_for_writes(&self) {
        loop {
            let relieved = self.services.relief.notified();
            if self.has_room_for_writes() {
                return;
            }
            relieved.await;
        }
    }

    /// Waits until everything handed in so far is on disk and what was promised for it has left.
    pub async fn flush(&self) {
        self.services.barrier().await;
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

    fn restore(&self, recovered: Recovered) {
        let is_clean = recovered.report.clean;
        for user in recovered.users {
            self.users.add(user);
        }
        let mut vhosts: Vec<Vhost> = recovered.vhosts.into_iter().map(Vhost::new).collect();
        if vhosts.is_empty() {
            vhosts.push(self.first_start());
        }
        for mut vhost in vhosts {
            let is_here = |name: &ShortString| name == vhost.name();
            let exchanges: Vec<_> = recovered
                .exchanges
                .iter()
                .filter(|record| is_here(&record.vhost))
                .collect();
            let queues: Vec<_> = recovered
                .queues
                .iter()
                .filter(|(record, _)| is_here(&record.vhost))
                .collect();
            let bindings: Vec<_> = recovered
                .bindings
                .iter()
                .filter(|record| is_here(&record.vhost))
                .collect();
            exchanges
                .iter()
                .for_each(|record| vhost.restore_exchange((*record).clone()));
            let queues: Vec<_> = queues
                .into_iter()
                .map(|(record, state)| (vhost.restore_queue(record.clone()), *state))
                .collect();
            bindings
                .into_iter()
                .for_each(|record| vhost.restore_binding(record.clone()));
            let handle = VhostHandle::new(vhost, self.services.clone());
            for (record, state) in queues {
                let queue = QueueHandle::new(
                    record,
                    Arc::downgrade(&handle),
                    self.services.clone(),
                    Some((state, is_clean)),
                );
                self.services.registry.add_queue(queue.clone());
                queue.touch();
            }
            self.services.registry.add_vhost(handle.clone());
            for record in exchanges {
                if let Some(DelayRecord { id, .. }) = record.delay {
                    let held = recovered.held.iter().find(|(held, _)| *held == id);
                    let delay = handle.add_delay(id, record, held.map(|(_, state)| *state));
                    // Asks for what is due first.
                    delay.tick();
                }
            }
        }
    }

    /// What an empty directory gets: the vhost `/` and the user guest, as RabbitMQ has them.
    fn first_start(&self) -> Vhost {
        let vhost = ShortString::from_static("/");
        let guest = UserRecord {
            name: ShortString::from_static("guest"),
            password_hash: hash_password(b"guest"),
            tags: vec!["administrator".to_owned()],
        };
        self.users.add(guest.clone());
        self.services.send_metadata(vec![
            Write::Meta(MetaChange::PutVhost(vhost.clone())),
            Write::Meta(MetaChange::PutUser(guest)),
        ]);
        Vhost::new(vhost)
    }
}
