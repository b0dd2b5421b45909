//! One vhost's exchanges, queues and bindings, and where a message goes.
//!
//! [`Vhost`] is a value: a clone is a snapshot that costs nothing and never changes, which is what
//! routing reads. Changes are made to a clone that then replaces it; each says what of it outlives a
//! restart. The checks and their order are RabbitMQ's.

mod bindings;
mod declare;
mod route;

use std::sync::Arc;

use leveret_wire::value::{FieldTable, ShortString};
use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

pub use self::{
    declare::{ExchangeDeclare, QueueDeclare, QueueDeclared},
    route::{Hold, Occasion, Remember, Routable, Route, distinct},
};
use crate::{
    arguments::{self, Permits, QueueType},
    exchange::{BindingId, Exchange},
    ids::ConnectionId,
    record::{BindingRecord, Destination, ExchangeKind, ExchangeRecord, MetaChange, QueueRecord},
    refusal::{ObjectKind, Refusal},
};

/// Exchanges every vhost has from the start.
const PREDECLARED: [(&str, ExchangeKind, bool); 7] = [
    ("", ExchangeKind::Direct, false),
    ("amq.direct", ExchangeKind::Direct, false),
    ("amq.fanout", ExchangeKind::Fanout, false),
    ("amq.headers", ExchangeKind::Headers, false),
    ("amq.match", ExchangeKind::Headers, false),
    ("amq.topic", ExchangeKind::Topic, false),
    ("amq.rabbitmq.trace", ExchangeKind::Topic, true),
];

/// Names the broker keeps for itself.
const RESERVED_PREFIX: &[u8] = b"amq.";

/// A snapshot of one vhost.
#[derive(Debug, Clone)]
pub struct Vhost {
    name: ShortString,
    /// What a queue is that names no type.
    default_queue_type: QueueType,
    /// The same in vhosts that say nothing of it.
    node_queue_type: QueueType,
    /// What new queues may be that RabbitMQ is to refuse one day.
    permits: Permits,
    exchanges: RedBlackTreeMapSync<ShortString, Exchange>,
    queues: RedBlackTreeMapSync<ShortString, Arc<QueueRecord>>,
    /// Which bindings lead to a destination; the source has the bindings themselves.
    leading_to: RedBlackTreeMapSync<Destination, RedBlackTreeSetSync<(ShortString, BindingId)>>,
}

impl Vhost {
    /// A vhost with nothing but the predeclared exchanges.
    #[must_use]
    pub fn new(name: ShortString) -> Self {
        let mut vhost = Self {
            name,
            default_queue_type: QueueType::Classic,
            node_queue_type: QueueType::Classic,
            permits: Permits::default(),
            exchanges: RedBlackTreeMapSync::default(),
            queues: RedBlackTreeMapSync::default(),
            leading_to: RedBlackTreeMapSync::default(),
        };
        for (name, kind, internal) in PREDECLARED {
            vhost.restore_exchange(ExchangeRecord {
                vhost: vhost.name.clone(),
                name: ShortString::from_static(name),
                kind,
                durable: true,
                auto_delete: false,
                internal,
                arguments: FieldTable::default(),
                delay: None,
            });
        }
        vhost
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &ShortString {
        &self.name
    }

    /// From now on a queue that names no type is of the vhost's; beside it that of vhosts which say nothing.
    pub const fn set_default_queue_types(&mut self, of_vhost: QueueType, of_node: QueueType) {
        self.default_queue_type = of_vhost;
        self.node_queue_type = of_node;
    }

    /// What new queues may be although its time is over.
    pub fn set_permits(&mut self, permits: Permits) {
        self.permits = permits;
    }

    /// Puts back an exchange that was stored.
    pub fn restore_exchange(&mut self, record: ExchangeRecord) {
        self.exchanges
            .insert_mut(record.name.clone(), Exchange::new(record));
    }

    /// Puts back a queue that was stored, and says what it is.
    pub fn restore_queue(&mut self, mut record: QueueRecord) -> Arc<QueueRecord> {
        // Those stored by the first version say nothing of their type.
        record.arguments = arguments::with_type(record.arguments, QueueType::Classic);
        let record = Arc::new(record);
        self.queues.insert_mut(record.name.clone(), record.clone());
        record
    }

    /// Puts back a binding that was stored; its ends are there already.
    pub fn restore_binding(&mut self, record: BindingRecord) {
        self.add_binding(record);
    }

    /// Every exchange, by name.
    pub fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        self.exchanges.values()
    }

    /// Every queue, by name.
    pub fn queues(&self) -> impl Iterator<Item = &Arc<QueueRecord>> {
        self.queues.values()
    }

    /// Gives every exchange the alternate that its policy names; `true` when that changes something.
    pub fn set_policy_alternates(
        &mut self,
        of_policy: impl Fn(&ShortString) -> Option<ShortString>,
    ) -> bool {
        let mut changed = Vec::new();
        for exchange in self.exchanges.values() {
            let mut exchange = exchange.clone();
            if exchange.set_policy_alternate(of_policy(&exchange.record().name)) {
                changed.push(exchange);
            }
        }
        let has_changed = !changed.is_empty();
        for exchange in changed {
            self.exchanges
                .insert_mut(exchange.record().name.clone(), exchange);
        }
        has_changed
    }

    /// How many queues there are.
    #[must_use]
    pub fn queue_count(&self) -> u64 {
        self.queues.size() as u64
    }

    /// What deletes every stored exchange and binding; queues are deleted on their own.
    #[must_use]
    pub fn everything_deleted(&self) -> Vec<MetaChange> {
        let mut changes = Vec::new();
        for exchange in self.exchanges.values() {
            let record = exchange.record();
            // A binding of a transient object has no row, which costs a needless delete at most.
            let bindings = exchange.bindings().cloned();
            changes.extend(record.delay.map(|delay| MetaChange::DeleteQueue(delay.id)));
            changes.extend(bindings.map(MetaChange::DeleteBinding));
            if record.durable && !is_reserved(&record.name) && !record.name.is_empty() {
                changes.push(MetaChange::DeleteExchange {
                    vhost: record.vhost.clone(),
                    name: record.name.clone(),
                });
            }
        }
        changes
    }

    /// The exchange of this name.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotFound`].
    pub fn exchange(&self, name: &ShortString) -> Result<&Exchange, Refusal> {
        self.exchanges.get(name).ok_or_else(|| Refusal::NotFound {
            kind: ObjectKind::Exchange,
            name: name.clone(),
            vhost: self.name.clone(),
        })
    }

    /// The queue of this name.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotFound`].
    pub fn queue(&self, name: &ShortString) -> Result<&Arc<QueueRecord>, Refusal> {
        self.queues.get(name).ok_or_else(|| Refusal::NotFound {
            kind: ObjectKind::Queue,
            name: name.clone(),
            vhost: self.name.clone(),
        })
    }

    /// The queue of this name, if this connection may use it.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotFound`], or [`Refusal::Locked`] for another connection's exclusive queue.
    pub fn usable_queue(
        &self,
        name: &ShortString,
        connection: ConnectionId,
    ) -> Result<&Arc<QueueRecord>, Refusal> {
        let record = self.queue(name)?;
        if record.exclusive_to.is_some_and(|owner| owner != connection) {
            return Err(self.locked(name));
        }
        Ok(record)
    }

    fn locked(&self, name: &ShortString) -> Refusal {
        Refusal::Locked {
            name: name.clone(),
            vhost: self.name.clone(),
        }
    }
}

fn is_reserved(name: &ShortString) -> bool {
    name.as_bytes().starts_with(RESERVED_PREFIX)
}
