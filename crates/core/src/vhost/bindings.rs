//! Bindings come and go, and what goes with them.

use leveret_wire::value::ShortString;

use super::Vhost;
use crate::{
    exchange::BindingId,
    ids::ConnectionId,
    record::{BindingRecord, DelayRecord, Destination, MetaChange, QueueRecord},
    refusal::{ObjectKind, Refusal},
};

/// What goes, on the way.
#[derive(Debug, Default)]
struct Removal {
    /// Exchanges that are still to go.
    doomed: Vec<ShortString>,
    changes: Vec<MetaChange>,
}

impl Vhost {
    /// Binds; an identical binding is fine.
    ///
    /// # Errors
    ///
    /// [`Refusal::DefaultExchange`], [`Refusal::NotFound`] for either end, [`Refusal::Locked`], or
    /// what the exchange's type refuses.
    pub fn bind(
        &mut self,
        record: BindingRecord,
        connection: ConnectionId,
    ) -> Result<Vec<MetaChange>, Refusal> {
        self.refuse_default_exchange(&record)?;
        let source = self.exchange(&record.source)?;
        let queue_type = match &record.destination {
            Destination::Queue(name) => {
                let queue = self.usable_queue(name, connection)?;
                Some(queue.queue_type)
            }
            Destination::Exchange(name) => {
                self.exchange(name)?;
                None
            }
        };
        source.check_binding(&record, queue_type)?;
        let is_durable = self.is_durable(&record);
        if !self.add_binding(record.clone()) || !is_durable {
            return Ok(Vec::new());
        }
        Ok(vec![MetaChange::PutBinding(record)])
    }

    /// Unbinds; whatever is missing is fine.
    ///
    /// # Errors
    ///
    /// [`Refusal::DefaultExchange`], or [`Refusal::Locked`] for a binding that is there and leads to
    /// another connection's exclusive queue.
    pub fn unbind(
        &mut self,
        record: &BindingRecord,
        connection: ConnectionId,
    ) -> Result<Vec<MetaChange>, Refusal> {
        self.refuse_default_exchange(record)?;
        let id = BindingId::of(record);
        let exists = self
            .exchanges
            .get(&record.source)
            .is_some_and(|source| source.has_binding(&id));
        if exists && let Destination::Queue(name) = &record.destination {
            self.usable_queue(name, connection)?;
        }
        let mut removal = Removal::default();
        self.remove_binding(&record.source, &id, &mut removal);
        Ok(self.finish(removal))
    }

    /// Deletes an exchange with all bindings from and to it; a missing one is fine.
    ///
    /// # Errors
    ///
    /// [`Refusal::DefaultExchange`], [`Refusal::SystemExchange`], [`Refusal::InUse`].
    pub fn delete_exchange(
        &mut self,
        name: &ShortString,
        if_unused: bool,
    ) -> Result<Vec<MetaChange>, Refusal> {
        if name.as_bytes().is_empty() {
            return Err(Refusal::DefaultExchange);
        }
        if super::is_reserved(name) {
            return Err(Refusal::SystemExchange {
                name: name.clone(),
                vhost: self.name.clone(),
            });
        }
        let Ok(exchange) = self.exchange(name) else {
            return Ok(Vec::new());
        };
        if if_unused && exchange.has_bindings() {
            return Err(Refusal::InUse {
                kind: ObjectKind::Exchange,
                name: name.clone(),
                vhost: self.name.clone(),
            });
        }
        Ok(self.finish(Removal {
            doomed: vec![name.clone()],
            ..Removal::default()
        }))
    }

    /// Removes an exchange that the broker made for itself, with its bindings.
    pub fn remove_own_exchange(&mut self, name: &ShortString) -> Vec<MetaChange> {
        if self.exchange(name).is_err() {
            return Vec::new();
        }
        self.finish(Removal {
            doomed: vec![name.clone()],
            ..Removal::default()
        })
    }

    /// Removes a queue with all bindings to it, and auto-delete exchanges that had no others. That the
    /// queue is gone is for its state machine to write down.
    pub fn remove_queue(&mut self, record: &QueueRecord) -> Vec<MetaChange> {
        if self
            .queues
            .get(&record.name)
            .is_none_or(|known| known.id != record.id)
        {
            return Vec::new();
        }
        // While the queue is still known its bindings know that they were stored.
        let mut removal = Removal::default();
        self.remove_bindings_to(&Destination::Queue(record.name.clone()), &mut removal);
        self.queues.remove_mut(&record.name);
        self.finish(removal)
    }

    pub(super) fn add_binding(&mut self, record: BindingRecord) -> bool {
        let Some(mut exchange) = self.exchanges.get(&record.source).cloned() else {
            return false;
        };
        if !exchange.bind(record.clone()) {
            return false;
        }
        self.exchanges.insert_mut(record.source.clone(), exchange);
        let mut leading = self
            .leading_to
            .get(&record.destination)
            .cloned()
            .unwrap_or_default();
        leading.insert_mut((record.source.clone(), BindingId::of(&record)));
        self.leading_to.insert_mut(record.destination, leading);
        true
    }

    fn refuse_default_exchange(&self, record: &BindingRecord) -> Result<(), Refusal> {
        let is_default = |name: &ShortString| name.as_bytes().is_empty();
        match &record.destination {
            Destination::Exchange(name) if is_default(name) => Err(Refusal::DefaultExchange),
            Destination::Queue(_) | Destination::Exchange(_) if is_default(&record.source) => {
                Err(Refusal::DefaultExchange)
            }
            Destination::Queue(_) | Destination::Exchange(_) => Ok(()),
        }
    }

    /// A binding is stored when both its ends are.
    fn is_durable(&self, record: &BindingRecord) -> bool {
        let exchange = |name| {
            self.exchanges
                .get(name)
                .is_some_and(|found| found.record().durable)
        };
        let destination = match &record.destination {
            Destination::Queue(name) => self.queues.get(name).is_some_and(|queue| queue.durable),
            Destination::Exchange(name) => exchange(name),
        };
        destination && exchange(&record.source)
    }

    fn remove_binding(&mut self, source: &ShortString, id: &BindingId, removal: &mut Removal) {
        let Some(mut exchange) = self.exchanges.get(source).cloned() else {
            return;
        };
        let Some(record) = exchange.unbind(id) else {
            return;
        };
        if exchange.record().auto_delete && !exchange.has_bindings() {
            removal.doomed.push(source.clone());
        }
        self.exchanges.insert_mut(source.clone(), exchange);
        self.forget_binding(id, record, removal);
    }

    fn remove_bindings_to(&mut self, destination: &Destination, removal: &mut Removal) {
        let leading = self
            .leading_to
            .get(destination)
            .cloned()
            .unwrap_or_default();
        for (source, id) in &leading {
            self.remove_binding(source, id, removal);
        }
    }

    /// The exchange no longer has this binding; both its ends still exist.
    fn forget_binding(&mut self, id: &BindingId, record: BindingRecord, removal: &mut Removal) {
        if let Some(mut leading) = self.leading_to.get(&record.destination).cloned() {
            leading.remove_mut(&(record.source.clone(), id.clone()));
            if leading.is_empty() {
                self.leading_to.remove_mut(&record.destination);
            } else {
                self.leading_to
                    .insert_mut(record.destination.clone(), leading);
            }
        }
        if self.is_durable(&record) {
            removal.changes.push(MetaChange::DeleteBinding(record));
        }
    }

    /// Removes the doomed exchanges, and those that lose their last binding by it. A list instead of a
    /// recursion: clients can make chains longer than a stack is deep.
    fn finish(&mut self, mut removal: Removal) -> Vec<MetaChange> {
        while let Some(name) = removal.doomed.pop() {
            let Some(exchange) = self.exchanges.get(&name).cloned() else {
                continue;
            };
            for record in exchange.bindings() {
                // It goes anyway: losing its last binding must not doom it a second time.
                self.forget_binding(&BindingId::of(record), record.clone(), &mut removal);
            }
            self.remove_bindings_to(&Destination::Exchange(name.clone()), &mut removal);
            self.exchanges.remove_mut(&name);
            if let Some(DelayRecord { id, .. }) = exchange.record().delay {
                // What waits there is stored under this number.
                removal.changes.push(MetaChange::DeleteQueue(id));
            }
            if exchange.record().durable {
                let vhost = self.name.clone();
                removal
                    .changes
                    .push(MetaChange::DeleteExchange { vhost, name });
            }
        }
        removal.changes
    }
}
