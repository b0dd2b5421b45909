//! Exchanges and bindings of a vhost come and go.

use std::sync::Arc;

use leveret_core::{
    ids::{ConnectionId, QueueId},
    queue::Command,
    record::{
        BindingRecord, DelayRecord, Destination, ExchangeRecord, MetaChange, QueueState, Write,
    },
    refusal::Refusal,
    vhost::{ExchangeDeclare, Vhost},
};
use leveret_wire::value::ShortString;

use super::VhostHandle;
use crate::{delay_handle::DelayHandle, replies};

impl VhostHandle {
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

    fn set_policy_alternates(&self, vhost: &mut Vhost) -> bool {
        let policies = self.services.policies.load();
        vhost.set_policy_alternates(|name| policies.alternate(&self.name, name))
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
    pub(super) fn end_delays(&self, writes: &[Write]) {
        for write in writes {
            if let Write::Meta(MetaChange::DeleteQueue(id)) = write
                && let Some(delay) = self.services.registry.remove_delay(*id)
            {
                // It writes nothing behind its deletion.
                delay.delete();
            }
        }
    }
}

fn refuse_reply_address(binding: &BindingRecord) -> Result<(), Refusal> {
    match &binding.destination {
        Destination::Queue(name) if replies::is_reply_name(name) => Err(Refusal::ReplyAddressBound),
        Destination::Queue(_) | Destination::Exchange(_) => Ok(()),
    }
}
