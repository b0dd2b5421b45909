//! Where messages of a vhost go that came by no connection, and what its exchanges remember.

use std::sync::Arc;

use leveret_core::{
    dead_letter::{DeadMessage, routing_keys_of},
    delay,
    message::Message,
    queue::Command,
    record::Destination,
    refusal::Refusal,
    vhost::{Hold, Occasion, Remember, Routable, Route, Vhost},
};
use leveret_wire::{
    content::BasicProperties,
    value::{FieldTable, ShortString},
};

use super::VhostHandle;
use crate::{
    firehose::PublishedBy,
    queue_handle::QueueHandle,
    traffic::{ExchangeCounts, TrafficCounts},
};

impl VhostHandle {
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
        let drop_unroutable = u64::from(targets == 0);
        self.exchange_traffic(&exchange).add(&ExchangeCounts {
            publish_in: 1,
            publish_out: targets,
            drop_unroutable,
            ..ExchangeCounts::default()
        });
        self.traffic.add(&TrafficCounts {
            publish: 1,
            drop_unroutable,
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

    /// The queues that a remembered message reaches from this end of a binding on.
    pub(super) fn targets_of(
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

    /// The applier of the vhost is held.
    pub(super) fn forget_histories(&self) {
        let vhost = self.snapshot.load();
        self.histories.lock().retain(|name| {
            let exchange = vhost.exchange(name);
            exchange.is_ok_and(|exchange| exchange.history_length().is_some())
        });
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
