//! Queues of a vhost are declared, looked at, emptied and deleted.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use leveret_core::{
    arguments::QueueType,
    ids::{ConnectionId, ConsumerId, QueueId, Seq},
    queue::{Answer, Command},
    record::{Attempts, QueueRecord, QueueState, Write, limit},
    refusal::{ObjectKind, Refusal},
    vhost::{QueueDeclare, QueueDeclared, Vhost},
};
use leveret_wire::value::ShortString;

use super::{Applier, VhostHandle};
use crate::{events::Actor, panics::contained, queue_handle::QueueHandle, replies};

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
    pub(super) deleted: AtomicU64,
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

impl VhostHandle {
    /// Gives every queue what its policies say.
    pub(crate) fn apply_queue_policies(&self) {
        for record in self.snapshot().queues() {
            if let Some(queue) = self.services.registry.queue(record.id) {
                queue.apply_policy();
            }
        }
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
            vhost.set_permits(self.services.node.permits.clone());
            let of_node = self.services.node.default_queue_type;
            vhost.set_default_queue_types(self.default_queue_type(), of_node);
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
                            .insert(record.id);
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

    /// The number of a queue that this connection may use.
    #[must_use]
    pub fn queue_id(&self, name: &ShortString, connection: ConnectionId) -> Option<QueueId> {
        let snapshot = self.snapshot.load();
        let record = snapshot.usable_queue(name, connection).ok()?;
        Some(record.id)
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

    /// A queue takes the place of one that has broken, unless that was deleted meanwhile.
    pub(crate) fn replace_broken(
        &self,
        broken: &Arc<QueueHandle>,
        stored: QueueState,
        attempts: Vec<(Seq, Attempts)>,
    ) -> bool {
        // Nobody deletes it meanwhile.
        let _applier = self.applier.lock();
        let known = self.services.registry.queue(broken.id());
        if !known.is_some_and(|known| Arc::ptr_eq(&known, broken)) {
            return false;
        }
        // The bug may be there.
        if let Ok(report) = contained(|| broken.report()) {
            let publishing = &self.services.publishing;
            publishing.queue_gone(broken.queue_type(), &report.counters);
        }
        let successor = broken.successor(stored, attempts);
        self.services.registry.add_queue(successor.clone());
        successor.touch();
        // Routes that publishers remember lead to the broken one.
        self.version.fetch_add(1, Ordering::AcqRel);
        true
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
            Answer::Subscribed
            | Answer::ExclusiveUse
            | Answer::Got(_)
            | Answer::Unreadable
            | Answer::Purged(_) => 0,
        };
        if let Some(owner) = record.exclusive_to
            && let Some(queues) = applier.exclusive_queues.get_mut(&owner)
        {
            queues.remove(&record.id);
        }
        let mut vhost = Vhost::clone(&self.snapshot.load());
        writes.extend(vhost.remove_queue(record).into_iter().map(Write::Meta));
        self.replace(vhost, writes);
        self.services.registry.remove_queue(record.id);
        let publishing = &self.services.publishing;
        publishing.queue_gone(record.queue_type, &counters);
        let churn = &self.services.queue_churn;
        churn.deleted.fetch_add(1, Ordering::Relaxed);
        self.forget_histories();
        Ok(QueueDeleted { ready, cancelled })
    }

    fn default_queue_type(&self) -> QueueType {
        let directory = self.services.access.directory();
        let record = directory.vhost(&self.name);
        let named = record.and_then(|record| record.default_queue_type);
        named.unwrap_or(self.services.node.default_queue_type)
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

    pub(super) fn usable_queue(
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

    pub(super) fn queue_not_found(&self, name: &ShortString) -> Refusal {
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

/// Nothing is taken out of a stream.
pub(super) fn refuse_stream(queue: &QueueRecord, operation: &'static str) -> Result<(), Refusal> {
    match queue.queue_type {
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
    let queue_type = record.queue_type;
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
