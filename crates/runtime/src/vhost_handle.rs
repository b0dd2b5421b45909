//! One vhost: a snapshot that everybody reads, and the one place where it changes.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use leveret_core::{
    arguments::QueueType,
    consume::Consuming,
    dead_letter::{DeadMessage, routing_keys_of},
    delay,
    ids::{ChannelKey, ConnectionId, ConsumerId, QueueId},
    message::Message,
    queue::{Answer, Command, ConsumerSettings, Got, Outcome},
    record::{
        BindingRecord, DelayRecord, Destination, ExchangeRecord, MetaChange, QueueRecord,
        QueueState, Write, limit,
    },
    refusal::{ObjectKind, Refusal},
    stream::StreamSubscription,
    vhost::{
        ExchangeDeclare, Hold, Occasion, QueueDeclare, QueueDeclared, Remember, Routable, Route,
        Vhost,
    },
};
use leveret_wire::{
    content::BasicProperties,
    value::{FieldTable, FieldValue, ShortString},
};
use parking_lot::Mutex;

use crate::{
    broker::Services,
    delay_handle::DelayHandle,
    events::Actor,
    firehose::{Handed, PublishedBy},
    history::Histories,
    outbox::Outbox,
    policies::Target,
    queue_handle::QueueHandle,
    replies::{self, ReplyAddress, ReplyAddresses, ReplyTarget},
    traffic::{ExchangeTraffic, ExchangeTraffics, Traffic, TrafficCounts},
};

/// What one request of the HTTP API may take off a queue; it gets fewer messages then.
const TAKEN_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Why a vhost cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VhostRefusal {
    /// There is none of this name.
    #[error("vhost {0} not found")]
    NotFound(ShortString),
}

/// What a declare answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueStatus {
    /// Its name.
    pub name: ShortString,
    /// Ready messages.
    pub ready: u64,
    /// Consumers.
    pub consumers: u64,
}

/// What a delete answers, and who is still to be told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueDeleted {
    /// Ready messages that went with the queue.
    pub ready: u64,
    /// Consumers that ended; told after the answer.
    pub cancelled: Vec<ConsumerId>,
}

/// A message that was taken off a queue by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The message.
    pub message: Message,
    /// Somebody may have had it before.
    pub redelivered: bool,
    /// Ready messages left behind it.
    pub remaining: u64,
}

/// How many queues were declared, created and deleted since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueChurn {
    /// Declares, also of queues that were there.
    pub declared: u64,
    /// New queues.
    pub created: u64,
    /// Queues that went.
    pub deleted: u64,
}

/// The same while it is counted.
#[derive(Debug, Default)]
pub(crate) struct ChurnCounters {
    declared: AtomicU64,
    created: AtomicU64,
    deleted: AtomicU64,
}

impl ChurnCounters {
    pub(crate) fn now(&self) -> QueueChurn {
        QueueChurn {
            declared: self.declared.load(Ordering::Relaxed),
            created: self.created.load(Ordering::Relaxed),
            deleted: self.deleted.load(Ordering::Relaxed),
        }
    }
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
    exclusive_queues: BTreeMap<ConnectionId, Vec<QueueId>>,
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

    /// What was published to this exchange, and how often it went on to a queue; `None` when nothing was.
    #[must_use]
    pub fn exchange_counts(&self, name: &ShortString) -> Option<(u64, u64)> {
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

    /// `exchange.declare`; returns once it is stored.
    ///
    /// # Errors
    ///
    /// See [`Vhost::declare_exchange`].
    pub async fn declare_exchange(self: &Arc<Self>, asked: ExchangeDeclare) -> Result<(), Refusal> {
        let passive = asked.passive;
        let name = asked.name.clone();
        self.change(|vhost| {
            let changes = vhost.declare_exchange(asked, || self.services.next_queue_id())?;
            let record = vhost.exchange(&name)?.record();
            if let Some(DelayRecord { id, .. }) = record.delay
                && self.services.registry.delay(id).is_none()
            {
                // Known by its number before anything can be routed to it.
                self.add_delay(id, record, None);
            }
            if !passive {
                self.set_policy_alternates(vhost);
            }
            Ok(changes)
        })?;
        if !passive {
            self.services.metadata_stored().await;
        }
        Ok(())
    }

    /// Gives every exchange what its policy says.
    pub(crate) fn apply_exchange_policies(&self) {
        let _applier = self.applier.lock();
        let mut vhost = Vhost::clone(&self.snapshot.load());
        if self.set_policy_alternates(&mut vhost) {
            self.publish(vhost, Vec::new());
        }
    }

    /// Gives every queue what its policies say.
    pub(crate) fn apply_queue_policies(&self) {
        for record in self.snapshot().queues() {
            if let Some(queue) = self.services.registry.queue(record.id) {
                queue.apply_policy();
            }
        }
    }

    fn set_policy_alternates(&self, vhost: &mut Vhost) -> bool {
        let policies = self.services.policies.load();
        vhost.set_policy_alternates(|name| policies.alternate(&self.name, name))
    }

    /// Publishes a message that came by no connection; `false` when no queue takes it. Returns once it is stored,
    /// if it is to be.
    ///
    /// # Errors
    ///
    /// See [`Vhost::route`].
    pub async fn publish_message(
        &self,
        message: &Message,
        user: &ShortString,
    ) -> Result<bool, Refusal> {
        let is_routed = self.publish_unstored(message, user)?;
        if is_routed && message.is_persistent() {
            self.services.barrier().await;
        }
        Ok(is_routed)
    }

    /// The same for who waits for many messages at once, by [`crate::Broker::flush`].
    ///
    /// # Errors
    ///
    /// See [`Vhost::route`].
    pub fn publish_unstored(&self, message: &Message, user: &ShortString) -> Result<bool, Refusal> {
        let exchange = ShortString::try_from(message.exchange()).unwrap_or_default();
        let properties = message.decoded_properties();
        let keys = routing_keys_of(message, &properties);
        let occasion = self.services.occasion();
        let routable = Known {
            properties,
            occasion,
        };
        let found = loop {
            let version = self.version();
            let found = self.snapshot.load().route(&exchange, &keys, &routable)?;
            if found.remembered_by.is_empty()
                || self.remember(&found.remembered_by, message, version)
            {
                break found;
            }
        };
        let mut is_routed = false;
        let targets = (found.held_by.len() + found.queues.len()) as u64;
        self.exchange_traffic(&exchange).add(1, targets);
        self.traffic.add(&TrafficCounts {
            publish: 1,
            drop_unroutable: u64::from(targets == 0),
            ..TrafficCounts::default()
        });
        for Hold { delay, wait, .. } in &found.held_by {
            if let Some(delay) = self.services.registry.delay(*delay) {
                delay.submit(&mut vec![delay::Command::Hold {
                    message: wait.held(message),
                    due: wait.due,
                    confirm: None,
                }]);
                is_routed = true;
            }
        }
        let queues: Vec<_> = found
            .queues
            .iter()
            .filter_map(|id| self.services.registry.queue(*id))
            .collect();
        if self.is_traced() {
            let by = PublishedBy {
                facts: None,
                user,
                channel: 1,
            };
            self.trace_publish(message, by, &mut queues.iter());
        }
        for queue in queues {
            queue.submit(&mut vec![Command::Enqueue {
                message: message.clone(),
                confirm: None,
            }]);
            is_routed = true;
        }
        Ok(is_routed)
    }

    /// Takes up to `count` messages off a queue for a user of the HTTP API, and says the same of all: they are gone, come back, or are rejected.
    ///
    /// Whoever waits for it may lose patience: it goes on to its end.
    ///
    /// # Errors
    ///
    /// See [`Self::get`].
    pub async fn take(
        self: &Arc<Self>,
        queue: ShortString,
        (connection, user): (ConnectionId, ShortString),
        count: usize,
        outcome: Outcome,
    ) -> Result<Vec<Taken>, Refusal> {
        let vhost = self.clone();
        let taking = tokio::spawn(async move {
            let _visit = vhost.services.connections.visit(connection, user);
            let channel = ChannelKey {
                connection,
                channel: 1,
                opening: 1,
            };
            let mut taken = Vec::new();
            let mut settles = Vec::new();
            let mut from = None;
            let mut bytes = 0;
            while taken.len() < count && bytes < TAKEN_BYTES_MAX {
                let Some((id, got)) = vhost.get(&queue, channel, false).await? else {
                    break;
                };
                from = Some(id);
                settles.push(Command::Settle {
                    seq: got.seq,
                    handout: got.handout,
                    outcome,
                    more: false,
                });
                bytes += got.message.memory_bytes();
                taken.push(Taken {
                    message: got.message,
                    redelivered: got.redelivered,
                    remaining: got.remaining,
                });
            }
            if let Some(queue) = from.and_then(|id| vhost.services.registry.queue(id)) {
                queue.submit(&mut settles);
            }
            Ok(taken)
        });
        taking.await.unwrap_or_else(|_| Ok(Vec::new()))
    }

    /// `exchange.delete`; returns once it is stored.
    ///
    /// # Errors
    ///
    /// See [`Vhost::delete_exchange`].
    pub async fn delete_exchange(
        &self,
        name: &ShortString,
        if_unused: bool,
    ) -> Result<(), Refusal> {
        self.change(|vhost| vhost.delete_exchange(name, if_unused))?;
        self.exchange_traffic.forget(name);
        self.services.metadata_stored().await;
        Ok(())
    }

    /// `queue.bind` and `exchange.bind`; returns once it is stored.
    ///
    /// # Errors
    ///
    /// [`Refusal::ReplyAddressBound`]; else see [`Vhost::bind`].
    pub async fn bind(
        &self,
        binding: BindingRecord,
        connection: ConnectionId,
    ) -> Result<(), Refusal> {
        refuse_reply_address(&binding)?;
        self.bind_now(&binding, connection)?;
        self.services.metadata_stored().await;
        Ok(())
    }

    /// A new binding of an exchange that remembers messages leads to a copy of each: before any that is
    /// published later, and of no message twice.
    fn bind_now(&self, binding: &BindingRecord, connection: ConnectionId) -> Result<(), Refusal> {
        let applier = self.applier.lock();
        self.check_alive(&applier)?;
        let mut vhost = Vhost::clone(&self.snapshot.load());
        let count = |vhost: &Vhost| {
            let source = vhost.exchange(&binding.source);
            source.map_or(0, |source| source.binding_count())
        };
        let count_before = count(&vhost);
        let changes = vhost.bind(binding.clone(), connection)?;
        let remembers = vhost.exchange(&binding.source)?.history_length().is_some();
        let is_new = count(&vhost) != count_before;
        if !is_new {
            // That it was asked for again is told as well.
            self.services.tell_bound(binding);
        }
        if !remembers || !is_new {
            self.publish(vhost, changes);
            return Ok(());
        }
        // Held until the new snapshot is there: whoever routed by the old one is remembered before, and
        // whoever comes later routes anew.
        let histories = self.histories.lock();
        for message in histories.of(&binding.source) {
            for queue in self.targets_of(&vhost, &binding.destination, message) {
                queue.submit(&mut vec![Command::Enqueue {
                    message: message.clone(),
                    confirm: None,
                }]);
            }
        }
        self.publish(vhost, changes);
        Ok(())
    }

    /// The queues that a remembered message reaches from this end of a binding on.
    fn targets_of(
        &self,
        vhost: &Vhost,
        destination: &Destination,
        message: &Message,
    ) -> Vec<Arc<QueueHandle>> {
        let queues = match destination {
            Destination::Queue(name) => vhost
                .queue(name)
                .map(|record| record.id)
                .into_iter()
                .collect(),
            Destination::Exchange(name) => {
                let properties = message.decoded_properties();
                let keys = routing_keys_of(message, &properties);
                let occasion = self.services.occasion();
                let message = Known {
                    properties,
                    occasion,
                };
                vhost.route_on(name, &keys, &message).queues
            }
        };
        let queues = queues.iter();
        queues
            .filter_map(|id| self.services.registry.queue(*id))
            .collect()
    }

    /// Keeps a message for bindings to come; `false`, and nothing is kept, when the vhost has changed since
    /// that version: then the message is to be routed anew.
    #[must_use]
    pub fn remember(&self, by: &[Remember], message: &Message, version: u64) -> bool {
        let mut histories = self.histories.lock();
        let is_current = self.version() == version;
        if is_current {
            histories.remember(by, message);
        }
        is_current
    }

    /// The queues that a message of the broker's own reaches from its exchange on.
    pub(crate) fn targets_of_own(&self, message: &Message) -> Vec<Arc<QueueHandle>> {
        let exchange = ShortString::try_from(message.exchange()).unwrap_or_default();
        let snapshot = self.snapshot.load();
        self.targets_of(&snapshot, &Destination::Exchange(exchange), message)
    }

    /// Where a dead message goes.
    pub(crate) fn route_dead(&self, snapshot: &Vhost, dead: &DeadMessage) -> Route {
        let found = snapshot.route_dead(dead, self.services.occasion());
        self.noted(found, &dead.message)
    }

    /// Where a message goes whose time on an exchange has come.
    pub(crate) fn route_due(
        &self,
        snapshot: &Vhost,
        exchange: &ShortString,
        message: &Message,
    ) -> Route {
        let properties = message.decoded_properties();
        let keys = routing_keys_of(message, &properties);
        let occasion = self.services.occasion();
        let known = Known {
            properties,
            occasion,
        };
        let found = snapshot.route_due(exchange, &keys, &known);
        self.noted(found, message)
    }

    /// Exchanges on the way of a message remember it.
    fn noted(&self, found: Route, message: &Message) -> Route {
        if !found.remembered_by.is_empty() {
            self.histories
                .lock()
                .remember(&found.remembered_by, message);
        }
        found
    }

    /// `queue.unbind` and `exchange.unbind`; returns once it is stored.
    ///
    /// # Errors
    ///
    /// [`Refusal::ReplyAddressBound`]; else see [`Vhost::unbind`].
    pub async fn unbind(
        &self,
        binding: &BindingRecord,
        connection: ConnectionId,
    ) -> Result<(), Refusal> {
        refuse_reply_address(binding)?;
        self.change(|vhost| vhost.unbind(binding, connection))?;
        self.services.metadata_stored().await;
        Ok(())
    }

    /// `queue.declare`; returns once it is stored.
    ///
    /// # Errors
    ///
    /// See [`Vhost::declare_queue`].
    pub async fn declare_queue(
        self: &Arc<Self>,
        asked: QueueDeclare,
        connection: ConnectionId,
    ) -> Result<QueueStatus, Refusal> {
        if let Some(status) = self.reply_status(&asked.name) {
            return status;
        }
        let record = {
            let mut applier = self.applier.lock();
            self.check_alive(&applier)?;
            let mut vhost = Vhost::clone(&self.snapshot.load());
            vhost.set_permits(self.services.node.permits);
            let asked = self.with_default_type(asked);
            self.check_queue_limit(&vhost, &asked)?;
            let churn = &self.services.queue_churn;
            let declared =
                vhost.declare_queue(asked, connection, || self.services.next_queue_id())?;
            churn.declared.fetch_add(1, Ordering::Relaxed);
            match declared {
                (QueueDeclared::Known(record), _) => record,
                (QueueDeclared::New(record), changes) => {
                    if let Some(owner) = record.exclusive_to {
                        applier
                            .exclusive_queues
                            .entry(owner)
                            .or_default()
                            .push(record.id);
                    }
                    churn.created.fetch_add(1, Ordering::Relaxed);
                    // Known by its number before anything can be routed to it.
                    let this = Arc::downgrade(self);
                    let handle = QueueHandle::new(
                        record.clone(),
                        this,
                        self.services.clone(),
                        None,
                        Vec::new(),
                    );
                    self.services.registry.add_queue(handle.clone());
                    handle.touch();
                    self.publish(vhost, changes);
                    record
                }
            }
        };
        if record.durable {
            self.services.metadata_stored().await;
        }
        Ok(self.status(&record))
    }

    /// A passive `queue.declare`.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotFound`], [`Refusal::Locked`].
    pub fn look_at_queue(
        &self,
        name: &ShortString,
        connection: ConnectionId,
    ) -> Result<QueueStatus, Refusal> {
        if let Some(status) = self.reply_status(name) {
            return status;
        }
        let snapshot = self.snapshot.load();
        Ok(self.status(snapshot.usable_queue(name, connection)?))
    }

    /// `queue.delete`; returns once it is stored. A missing queue is fine.
    ///
    /// # Errors
    ///
    /// [`Refusal::Locked`], [`Refusal::InUse`], [`Refusal::NotEmpty`].
    pub async fn delete_queue(
        &self,
        name: &ShortString,
        connection: ConnectionId,
        if_unused: bool,
        if_empty: bool,
    ) -> Result<QueueDeleted, Refusal> {
        let deleted = {
            let mut applier = self.applier.lock();
            let snapshot = self.snapshot.load();
            let record = match snapshot.usable_queue(name, connection) {
                Ok(record) => record.clone(),
                Err(Refusal::NotFound { .. }) => return Ok(QueueDeleted::default()),
                Err(refusal) => return Err(refusal),
            };
            check_conditions(&record, if_unused, if_empty)?;
            self.delete(&mut applier, &record, if_unused, if_empty)?
        };
        self.services.metadata_stored().await;
        Ok(deleted)
    }

    /// `queue.purge`: ready messages that were dropped. Returns when that is on disk: none of them comes back.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotFound`], [`Refusal::Locked`].
    pub async fn purge_queue(
        &self,
        name: &ShortString,
        connection: ConnectionId,
    ) -> Result<u64, Refusal> {
        if replies::is_reply_address(name) {
            return Ok(0);
        }
        let handle = self.usable_queue(name, connection)?;
        refuse_stream(handle.record(), "queue.purge")?;
        match handle.ask(|request| Command::Purge { request }).await {
            Some(Answer::Purged(ready)) => {
                if ready > 0 && handle.record().durable {
                    self.services.barrier().await;
                }
                Ok(ready)
            }
            _ => Err(self.queue_not_found(name)),
        }
    }

    /// `basic.consume`: the consumer exists and waits for [`QueueHandle::submit`] of a
    /// [`Command::Resume`].
    ///
    /// # Errors
    ///
    /// [`Refusal::NotFound`], [`Refusal::Locked`]; see [`Consuming::of`]; [`Refusal::ExclusiveUse`]; for a reply address
    /// [`Refusal::ReplyAddressOfAnother`] or [`Refusal::ReplyAddressInUse`].
    pub async fn subscribe(
        &self,
        name: &ShortString,
        consumer: ConsumerId,
        settings: ConsumerSettings,
        arguments: &FieldTable,
        outbox: Arc<dyn Outbox>,
    ) -> Result<Arc<QueueHandle>, Refusal> {
        if replies::is_reply_address(name) {
            return Err(self.reply_address_taken(name, consumer.channel));
        }
        let connection = consumer.channel.connection;
        let handle = self.usable_queue(name, connection)?;
        let now = self.services.clock.now();
        let consuming = Consuming::of(handle.record(), settings, arguments, now)?;
        handle.announce_consumers().await;
        handle.attach(connection, outbox);
        let subscribe = |request| match consuming {
            Consuming::Taking(settings) => Command::Subscribe {
                request,
                consumer,
                settings,
            },
            Consuming::Reading {
                prefetch,
                start,
                filter,
            } => Command::SubscribeStream(Box::new(StreamSubscription {
                request,
                consumer,
                prefetch,
                start,
                filter,
            })),
        };
        match handle.ask(subscribe).await {
            Some(Answer::Subscribed) => Ok(handle),
            Some(Answer::ExclusiveUse) => Err(Refusal::ExclusiveUse {
                name: name.clone(),
                vhost: self.name.clone(),
            }),
            _ => Err(self.queue_not_found(name)),
        }
    }

    /// `basic.get`: the message, if there is one, and the queue that has it.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotFound`], [`Refusal::Locked`], [`Refusal::ReplyAddressGet`].
    pub async fn get(
        &self,
        name: &ShortString,
        channel: ChannelKey,
        no_ack: bool,
    ) -> Result<Option<(QueueId, Got)>, Refusal> {
        if replies::is_reply_address(name) {
            let (name, vhost) = (name.clone(), self.name.clone());
            return Err(Refusal::ReplyAddressGet { name, vhost });
        }
        let handle = self.usable_queue(name, channel.connection)?;
        refuse_stream(handle.record(), "basic.get")?;
        check_get(handle.record())?;
        handle.announce_consumers().await;
        match handle
            .ask(|request| Command::Get {
                request,
                channel,
                no_ack,
            })
            .await
        {
            Some(Answer::Got(got)) => {
                if let Some(got) = got.as_ref().filter(|_| self.is_traced()) {
                    let handed = Handed {
                        to: channel,
                        redelivered: got.redelivered,
                        message: got.message.clone(),
                    };
                    self.trace_handed(name, &[handed]);
                }
                Ok(got.map(|got| (handle.id(), got)))
            }
            _ => Err(self.queue_not_found(name)),
        }
    }

    /// From now on what is published to the address goes to this consumer.
    pub fn add_reply_consumer(
        self: &Arc<Self>,
        consumer: ConsumerId,
        outbox: Arc<dyn Outbox>,
    ) -> ReplyAddress {
        ReplyAddress {
            vhost: self.clone(),
            address: self.replies.add(consumer, outbox),
            consumer,
        }
    }

    /// The consumer behind an address, while there is one.
    #[must_use]
    pub fn reply_target(&self, address: &ShortString) -> Option<ReplyTarget> {
        self.replies.find(address)
    }

    pub(crate) const fn replies(&self) -> &ReplyAddresses {
        &self.replies
    }

    /// A connection is gone: so are its exclusive queues. Their consumers are all its own.
    pub fn connection_gone(&self, connection: ConnectionId) {
        let mut applier = self.applier.lock();
        let queues = applier
            .exclusive_queues
            .remove(&connection)
            .unwrap_or_default();
        for queue in queues {
            if let Some(handle) = self.services.registry.queue(queue) {
                let delete = || self.delete(&mut applier, handle.record(), false, false);
                // Without conditions nothing refuses the deletion.
                let _ = Actor::nobody().does(delete);
            }
        }
    }

    /// An auto-delete queue whose last consumer left goes, unless another one came meanwhile.
    pub(crate) fn delete_unused(&self, queue: &QueueHandle) {
        // A new consumer keeps the queue: not an error.
        let _ = self.delete(&mut self.applier.lock(), queue.record(), true, false);
    }

    /// A queue goes that nobody has used for long enough, unless somebody did meanwhile.
    pub(crate) fn delete_expired(&self, queue: &QueueHandle) {
        let mut applier = self.applier.lock();
        if queue.is_expired() {
            // A new consumer keeps the queue: not an error.
            let _ = self.delete(&mut applier, queue.record(), true, false);
        }
    }

    fn delete(
        &self,
        applier: &mut Applier,
        record: &Arc<QueueRecord>,
        if_unused: bool,
        if_empty: bool,
    ) -> Result<QueueDeleted, Refusal> {
        let Some(handle) = self.services.registry.queue(record.id) else {
            return Ok(QueueDeleted::default());
        };
        let (name, vhost) = (record.name.clone(), self.name.clone());
        let counters = handle.report().counters;
        let (answer, mut writes, cancelled) = handle.delete(if_unused, if_empty);
        let ready = match answer {
            Answer::InUse => {
                return Err(Refusal::InUse {
                    kind: ObjectKind::Queue,
                    name,
                    vhost,
                });
            }
            Answer::NotEmpty => return Err(Refusal::NotEmpty { name, vhost }),
            Answer::Deleted(ready) => ready,
            Answer::Subscribed | Answer::ExclusiveUse | Answer::Got(_) | Answer::Purged(_) => 0,
        };
        if let Some(owner) = record.exclusive_to
            && let Some(queues) = applier.exclusive_queues.get_mut(&owner)
        {
            queues.retain(|id| *id != record.id);
        }
        let mut vhost = Vhost::clone(&self.snapshot.load());
        writes.extend(vhost.remove_queue(record).into_iter().map(Write::Meta));
        self.replace(vhost, writes);
        self.services.registry.remove_queue(record.id);
        let queue_type = QueueType::of(&record.arguments);
        self.services.publishing.queue_gone(queue_type, &counters);
        let churn = &self.services.queue_churn;
        churn.deleted.fetch_add(1, Ordering::Relaxed);
        self.forget_histories();
        Ok(QueueDeleted { ready, cancelled })
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
                let queue_type = QueueType::of(&record.arguments);
                let counters = handle.report().counters;
                self.services.publishing.queue_gone(queue_type, &counters);
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

    /// A queue that lasts and is for everybody gets the vhost's type, or else the node's, where it asks for none.
    fn with_default_type(&self, mut asked: QueueDeclare) -> QueueDeclare {
        let directory = self.services.access.directory();
        let record = directory.vhost(&self.name);
        let of_vhost = record.map_or("", |record| record.default_queue_type.as_str());
        let queue_type = match of_vhost {
            "" => self.services.node.default_queue_type,
            named => named,
        };
        let is_meant = asked.durable && !asked.exclusive && !asked.auto_delete;
        if is_meant && queue_type != "classic" && asked.arguments.get(b"x-queue-type").is_none() {
            let queue_type = FieldValue::text(queue_type);
            asked
                .arguments
                .push(ShortString::from_static("x-queue-type"), queue_type);
        }
        asked
    }

    /// A new queue may be one too many.
    fn check_queue_limit(&self, vhost: &Vhost, asked: &QueueDeclare) -> Result<(), Refusal> {
        let directory = self.services.access.directory();
        let record = directory.vhost(&self.name);
        let Some(max) = record.and_then(|record| limit(record.max_queues)) else {
            return Ok(());
        };
        if vhost.queue_count() < max || vhost.queue(&asked.name).is_ok() {
            return Ok(());
        }
        Err(Refusal::QueueLimit {
            name: asked.name.clone(),
            vhost: self.name.clone(),
            max,
        })
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

    /// The applier of the vhost is held.
    fn forget_histories(&self) {
        let vhost = self.snapshot.load();
        self.histories.lock().retain(|name| {
            let exchange = vhost.exchange(name);
            exchange.is_ok_and(|exchange| exchange.history_length().is_some())
        });
    }

    fn publish(&self, vhost: Vhost, changes: Vec<MetaChange>) {
        self.replace(vhost, changes.into_iter().map(Write::Meta).collect());
    }

    /// An exchange begins to keep messages, or goes on with what is stored.
    pub(crate) fn add_delay(
        self: &Arc<Self>,
        id: QueueId,
        exchange: &ExchangeRecord,
        stored: Option<QueueState>,
    ) -> Arc<DelayHandle> {
        let delay = DelayHandle::new(
            id,
            exchange.durable,
            exchange.name.clone(),
            Arc::downgrade(self),
            self.services.clone(),
            stored,
        );
        self.services.registry.add_delay(delay.clone());
        delay
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

    /// An exchange of the broker's own is there from now on; it is not stored.
    pub(crate) fn put_own_exchange(&self, exchange: ExchangeRecord) {
        let _applier = self.applier.lock();
        let mut vhost = Vhost::clone(&self.snapshot.load());
        if vhost.exchange(&exchange.name).is_err() {
            vhost.restore_exchange(exchange);
            self.publish(vhost, Vec::new());
        }
    }

    /// An exchange of the broker's own goes with its bindings.
    pub(crate) async fn remove_own_exchange(&self, name: &ShortString) {
        {
            let _applier = self.applier.lock();
            let mut vhost = Vhost::clone(&self.snapshot.load());
            let changes = vhost.remove_own_exchange(name);
            self.publish(vhost, changes);
        }
        self.services.metadata_stored().await;
    }

    /// Exchanges that are deleted keep no messages any more.
    fn end_delays(&self, writes: &[Write]) {
        for write in writes {
            if let Write::Meta(MetaChange::DeleteQueue(id)) = write
                && let Some(delay) = self.services.registry.remove_delay(*id)
            {
                // It writes nothing behind its deletion.
                delay.delete();
            }
        }
    }

    fn usable_queue(
        &self,
        name: &ShortString,
        connection: ConnectionId,
    ) -> Result<Arc<QueueHandle>, Refusal> {
        let snapshot = self.snapshot.load();
        let record = snapshot.usable_queue(name, connection)?;
        self.services
            .registry
            .queue(record.id)
            .ok_or_else(|| self.queue_not_found(name))
    }

    /// What a declare of a name for replies answers: an address that lives is a queue with a consumer.
    fn reply_status(&self, name: &ShortString) -> Option<Result<QueueStatus, Refusal>> {
        let is_address = replies::is_reply_name(name);
        if !is_address && !replies::is_reply_to(name) {
            return None;
        }
        if is_address && self.replies.find(name).is_none() {
            return Some(Err(self.queue_not_found(name)));
        }
        Some(Ok(QueueStatus {
            name: name.clone(),
            ready: 0,
            consumers: 1,
        }))
    }

    /// Why nobody consumes from an address by its name.
    fn reply_address_taken(&self, name: &ShortString, channel: ChannelKey) -> Refusal {
        let is_own = self
            .replies
            .find(name)
            .is_some_and(|target| target.consumer().channel == channel);
        let (name, vhost) = (name.clone(), self.name.clone());
        if is_own {
            Refusal::ReplyAddressInUse { name, vhost }
        } else {
            Refusal::ReplyAddressOfAnother { name, vhost }
        }
    }

    fn queue_not_found(&self, name: &ShortString) -> Refusal {
        Refusal::NotFound {
            kind: ObjectKind::Queue,
            name: name.clone(),
            vhost: self.name.clone(),
        }
    }

    fn status(&self, record: &QueueRecord) -> QueueStatus {
        let (depth, consumers) = self
            .services
            .registry
            .queue(record.id)
            .map(|queue| {
                queue.touch();
                queue.status()
            })
            .unwrap_or_default();
        QueueStatus {
            name: record.name.clone(),
            ready: depth.ready,
            consumers: consumers as u64,
        }
    }
}

/// A message of the broker's own memory on its way.
struct Known {
    properties: BasicProperties,
    occasion: Occasion,
}

impl Routable for Known {
    fn headers(&self) -> FieldTable {
        self.properties.headers.clone().unwrap_or_default()
    }

    fn properties(&self) -> BasicProperties {
        self.properties.clone()
    }

    fn occasion(&self) -> Occasion {
        self.occasion
    }
}

/// Nothing is taken out of a stream.
fn refuse_stream(queue: &QueueRecord, operation: &'static str) -> Result<(), Refusal> {
    match QueueType::of(&queue.arguments) {
        QueueType::Classic | QueueType::Quorum => Ok(()),
        queue_type @ QueueType::Stream => Err(Refusal::UnsupportedByType {
            operation,
            queue_type,
            name: queue.name.clone(),
            vhost: queue.vhost.clone(),
        }),
    }
}

/// A quorum queue is deleted without conditions only.
fn check_conditions(record: &QueueRecord, if_unused: bool, if_empty: bool) -> Result<(), Refusal> {
    let condition = match (if_unused, if_empty) {
        (true, _) => "if-unused",
        (false, true) => "if-empty",
        (false, false) => return Ok(()),
    };
    let queue_type = QueueType::of(&record.arguments);
    match queue_type {
        QueueType::Quorum => Err(Refusal::UnsupportedCondition {
            condition,
            queue_type,
            name: record.name.clone(),
            vhost: record.vhost.clone(),
        }),
        QueueType::Classic | QueueType::Stream => Ok(()),
    }
}

/// A quorum queue that serves one consumer only serves nobody else.
fn check_get(record: &QueueRecord) -> Result<(), Refusal> {
    let queue_type = QueueType::of(&record.arguments);
    let is_single = record.arguments.get(b"x-single-active-consumer");
    let is_single = is_single.and_then(FieldValue::as_bool).unwrap_or(false);
    if queue_type == QueueType::Quorum && is_single {
        return Err(Refusal::GetPastActiveConsumer {
            queue_type,
            name: record.name.clone(),
            vhost: record.vhost.clone(),
        });
    }
    Ok(())
}

fn refuse_reply_address(binding: &BindingRecord) -> Result<(), Refusal> {
    match &binding.destination {
        Destination::Queue(name) if replies::is_reply_name(name) => Err(Refusal::ReplyAddressBound),
        Destination::Queue(_) | Destination::Exchange(_) => Ok(()),
    }
}
