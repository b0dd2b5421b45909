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
    /// Exchange and routing key alone decided: the answer holds for every message with the same two
    /// as long as the snapshot stands.
    pub by_key_alone: bool,
}

impl Vhost {
    /// The queues that a publish reaches, over exchange-to-exchange bindings and alternates.
    ///
    /// Each exchange is asked once, so that cycles end. `headers` is called only if a headers
    /// exchange is asked.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotFound`] without such an exchange, [`Refusal::InternalExchange`].
    pub fn route(
        &self,
        exchange: &ShortString,
        routing_key: &ShortString,
        headers: &dyn Fn() -> FieldTable,
    ) -> Result<Route, Refusal> {
        if exchange.as_bytes().is_empty() {
            let queues = self.queues.get(routing_key).map(|record| record.id);
            return Ok(Route {
                queues: queues.into_iter().collect(),
                by_key_alone: true,
            });
        }
        let first = self.exchange(exchange)?;
        if first.record().internal {
            return Err(Refusal::InternalExchange {
                name: exchange.clone(),
                vhost: self.name.clone(),
            });
        }
        Ok(self.route_from(first, routing_key, headers))
    }

    /// The queues that a dead message reaches; none without its exchange, which may be internal.
    #[must_use]
    pub fn route_dead(&self, dead: &DeadMessage) -> Vec<QueueId> {
        let headers = || dead.headers.clone();
        let mut queues = BTreeSet::new();
        for key in &dead.routing_keys {
            if dead.exchange.as_bytes().is_empty() {
                queues.extend(self.queues.get(key).map(|record| record.id));
            } else if let Ok(first) = self.exchange(&dead.exchange) {
                queues.extend(self.route_from(first, key, &headers).queues);
            }
        }
        queues.into_iter().collect()
    }

    fn route_from(
        &self,
        first: &Exchange,
        routing_key: &ShortString,
        headers: &dyn Fn() -> FieldTable,
    ) -> Route {
        let mut queues = BTreeSet::new();
        let mut by_key_alone = true;
        let mut asked = BTreeSet::from([&first.record().name]);
        let mut waiting = vec![first];
        while let Some(exchange) = waiting.pop() {
            by_key_alone &= exchange.record().kind != ExchangeKind::Headers;
            let mut destinations = Vec::new();
            exchange.matches(routing_key, headers, &mut |found| destinations.push(found));
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
}
