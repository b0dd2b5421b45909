//! The maps from numbers and names to handles. No map guard leaves this file.

use std::sync::Arc;

use dashmap::DashMap;
use foldhash::fast::RandomState;
use leveret_core::{
    ids::{ConnectionId, QueueId},
    queue::Confirm,
};
use leveret_wire::value::ShortString;

use crate::{
    delay_handle::DelayHandle,
    outbox::{Answered, Outbox},
    queue_handle::QueueHandle,
    vhost_handle::VhostHandle,
};

/// Everything that is found by its number or name.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    queues: DashMap<QueueId, Arc<QueueHandle>, RandomState>,
    delays: DashMap<QueueId, Arc<DelayHandle>, RandomState>,
    outboxes: DashMap<ConnectionId, Arc<dyn Outbox>, RandomState>,
    vhosts: DashMap<ShortString, Arc<VhostHandle>>,
}

impl Registry {
    pub(crate) fn queue(&self, id: QueueId) -> Option<Arc<QueueHandle>> {
        self.queues.get(&id).map(|found| found.clone())
    }

    pub(crate) fn add_queue(&self, queue: Arc<QueueHandle>) {
        self.queues.insert(queue.id(), queue);
    }

    pub(crate) fn remove_queue(&self, id: QueueId) {
        self.queues.remove(&id);
    }

    pub(crate) fn all_queues(&self) -> Vec<Arc<QueueHandle>> {
        self.queues.iter().map(|found| found.clone()).collect()
    }

    pub(crate) fn delay(&self, id: QueueId) -> Option<Arc<DelayHandle>> {
        self.delays.get(&id).map(|found| found.clone())
    }

    pub(crate) fn add_delay(&self, delay: Arc<DelayHandle>) {
        self.delays.insert(delay.id(), delay);
    }

    pub(crate) fn remove_delay(&self, id: QueueId) -> Option<Arc<DelayHandle>> {
        self.delays.remove(&id).map(|(_, delay)| delay)
    }

    /// Answers publishers at once: there is nothing to be stored.
    pub(crate) fn answer(&self, confirms: &[Confirm], accepted: bool) {
        let connection_of = |confirm: &Confirm| confirm.channel.connection;
        for run in confirms.chunk_by(|a, b| connection_of(a) == connection_of(b)) {
            if let Some(outbox) = self.outbox(connection_of(&run[0])) {
                let answered: Vec<Answered> = run
                    .iter()
                    .map(|&confirm| Answered { confirm, accepted })
                    .collect();
                outbox.confirm(&answered);
            }
        }
    }

    pub(crate) fn outbox(&self, id: ConnectionId) -> Option<Arc<dyn Outbox>> {
        self.outboxes.get(&id).map(|found| found.clone())
    }

    pub(crate) fn add_outbox(&self, id: ConnectionId, outbox: Arc<dyn Outbox>) {
        self.outboxes.insert(id, outbox);
    }

    pub(crate) fn remove_outbox(&self, id: ConnectionId) {
        self.outboxes.remove(&id);
    }

    pub(crate) fn vhost(&self, name: &ShortString) -> Option<Arc<VhostHandle>> {
        self.vhosts.get(name).map(|found| found.clone())
    }

    pub(crate) fn remove_vhost(&self, name: &ShortString) -> Option<Arc<VhostHandle>> {
        self.vhosts.remove(name).map(|(_, found)| found)
    }

    pub(crate) fn add_vhost(&self, vhost: Arc<VhostHandle>) {
        self.vhosts.insert(vhost.name().clone(), vhost);
    }
}
