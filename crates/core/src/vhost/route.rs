//! Where a message goes.

use std::collections::BTreeSet;

use leveret_wire::value::{FieldTable, ShortString};
use smallvec::SmallVec;

use super::Vhost;
use crate::{
    dead_letter::DeadMessage,
    exchange::Exchange,
    ids::QueueId,
    record::{Destination, ExchangeKind},
    refusal::Refusal,
};

/// The queues a message reaches, each once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Route {
    /// In the order of their numbers.
    pub queues: SmallVec<[QueueId; 4]>,
    /// Exchange and routing keys alone decided: the answer holds for every message with the same ones
    /// as long as the snapshot stands.
    pub by_key_alone: bool,
}

impl Vhost {
    /// The queues that a publish reaches, over exchange-to-exchange bindings and alternates.
    ///
    /// A message may have several routing keys: its own and those of its headers `CC` and `BCC`. Each
    /// exchange is asked once, for all of them, so that cycles end and an alternate is asked only when
    /// no key leads anywhere. `headers` is called only if a headers exchange is asked.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotFound`] without such an exchange, [`Refusal::InternalExchange`].
    pub fn route(
        &self,
        exchange: &ShortString,
        routing_keys: &[ShortString],
        headers: &dyn Fn() -> FieldTable,
    ) -> Result<Route, Refusal> {
        if exchange.as_bytes().is_empty() {
            return Ok(self.route_by_name(routing_keys));
        }
        let first = self.exchange(exchange)?;
        if first.record().internal {
            return Err(Refusal::InternalExchange {
                name: exchange.clone(),
                vhost: self.name.clone(),
            });
        }
        Ok(self.route_from(first, routing_keys, headers))
    }

    /// The queues that a dead message reaches; none without its exchange, which may be internal.
    #[must_use]
    pub fn route_dead(&self, dead: &DeadMessage) -> Route {
        if dead.exchange.as_bytes().is_empty() {
            return self.route_by_name(&dead.routing_keys);
        }
        let headers = || dead.headers.clone();
        self.exchange(&dead.exchange).map_or_else(
            |_| Route::default(),
            |first| self.route_from(first, &dead.routing_keys, &headers),
        )
    }

    fn route_from(
        &self,
        first: &Exchange,
        routing_keys: &[ShortString],
        headers: &dyn Fn() -> FieldTable,
    ) -> Route {
        let mut queues = BTreeSet::new();
        let mut by_key_alone = true;
        let mut asked = BTreeSet::from([&first.record().name]);
        let mut waiting = vec![first];
        while let Some(exchange) = waiting.pop() {
            by_key_alone &= exchange.record().kind != ExchangeKind::Headers;
            let mut destinations = Vec::new();
            exchange.matches(routing_keys, headers, &mut |found| destinations.push(found));
            for destination in &destinations {
                match destination {
                    Destination::Queue(name) => {
                        queues.extend(self.queues.get(name).map(|record| record.id));
                    }
                    Destination::Exchange(name) if asked.insert(name) => {
                        waiting.extend(self.exchanges.get(name));
                    }
                    Destination::Exchange(_) => {}
                }
            }
            if destinations.is_empty()
                && let Some(alternate) = exchange.alternate()
                && asked.insert(alternate)
            {
                waiting.extend(self.exchanges.get(alternate));
            }
        }
        Route {
            queues: queues.into_iter().collect(),
            by_key_alone,
        }
    }

    /// What the default exchange does: to each queue whose name is a routing key.
    fn route_by_name(&self, routing_keys: &[ShortString]) -> Route {
        let found = routing_keys.iter().filter_map(|key| self.queues.get(key));
        let mut queues: SmallVec<[QueueId; 4]> = found.map(|record| record.id).collect();
        queues.sort_unstable();
        queues.dedup();
        Route {
            queues,
            by_key_alone: true,
        }
    }
}
