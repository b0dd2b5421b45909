//! Where a message goes.

use std::{borrow::Cow, collections::BTreeSet};

use leveret_wire::{
    content::BasicProperties,
    value::{FieldTable, ShortString},
};
use smallvec::{SmallVec, smallvec};

use super::Vhost;
use crate::{
    dead_letter::DeadMessage,
    delay::Wait,
    exchange::Exchange,
    ids::{QueueId, Timestamp},
    record::Destination,
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
    /// Exchanges on the way that are to remember the message.
    pub remembered_by: Vec<Remember>,
    /// Exchanges on the way that keep the message until its time.
    pub held_by: Vec<Hold>,
}

/// An exchange that keeps a message until its time, and routes it then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Its name.
    pub exchange: ShortString,
    /// The number of its [`crate::delay::Delay`].
    pub delay: QueueId,
    /// Until when.
    pub wait: Wait,
}

/// An exchange that remembers its newest messages for bindings to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remember {
    /// Its name.
    pub exchange: ShortString,
    /// How many messages.
    pub length: usize,
}

/// What is taken from the surroundings when a message is routed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Occasion {
    /// When.
    pub now: Timestamp,
    /// Whatever is left to chance is decided by this number.
    pub draw: u64,
}

/// A message on its way, as exchanges see it beyond its routing keys. Most of them ask nothing.
pub trait Routable {
    /// Its headers.
    fn headers(&self) -> FieldTable;
    /// All its properties.
    fn properties(&self) -> BasicProperties;
    /// When it is routed, and by which chance.
    fn occasion(&self) -> Occasion;
}

/// A message that has nothing but headers.
impl<H: Fn() -> FieldTable> Routable for H {
    fn headers(&self) -> FieldTable {
        self()
    }

    fn properties(&self) -> BasicProperties {
        BasicProperties {
            headers: Some(self()),
            ..BasicProperties::default()
        }
    }

    fn occasion(&self) -> Occasion {
        Occasion::default()
    }
}

/// A dead message on its new way.
struct Dead<'a> {
    dead: &'a DeadMessage,
    occasion: Occasion,
}

impl Routable for Dead<'_> {
    fn headers(&self) -> FieldTable {
        self.dead.headers.clone()
    }

    fn properties(&self) -> BasicProperties {
        self.dead.message.decoded_properties()
    }

    fn occasion(&self) -> Occasion {
        self.occasion
    }
}

impl Vhost {
    /// The queues that a publish reaches, over exchange-to-exchange bindings and alternates.
    ///
    /// A message may have several routing keys: its own and those of its headers `CC` and `BCC`. Each
    /// exchange is asked once, for all of them, so that cycles end and an alternate is asked only when
    /// no key leads anywhere.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotFound`] without such an exchange, [`Refusal::InternalExchange`].
    pub fn route(
        &self,
        exchange: &ShortString,
        routing_keys: &[ShortString],
        message: &dyn Routable,
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
        Ok(self.route_from(first, routing_keys, message, false))
    }

    /// The queues that a dead message reaches; none without its exchange, which may be internal.
    #[must_use]
    pub fn route_dead(&self, dead: &DeadMessage, occasion: Occasion) -> Route {
        self.route_on(&dead.exchange, &dead.routing_keys, &Dead { dead, occasion })
    }

    /// The queues that a message of the broker reaches from this exchange on; none without the exchange,
    /// which may be internal.
    #[must_use]
    pub fn route_on(
        &self,
        exchange: &ShortString,
        routing_keys: &[ShortString],
        message: &dyn Routable,
    ) -> Route {
        if exchange.as_bytes().is_empty() {
            return self.route_by_name(routing_keys);
        }
        self.exchange(exchange).map_or_else(
            |_| Route::default(),
            |first| self.route_from(first, routing_keys, message, false),
        )
    }

    /// Where a message goes whose time on this exchange has come.
    #[must_use]
    pub fn route_due(
        &self,
        exchange: &ShortString,
        routing_keys: &[ShortString],
        message: &dyn Routable,
    ) -> Route {
        self.exchange(exchange).map_or_else(
            |_| Route::default(),
            |first| self.route_from(first, routing_keys, message, true),
        )
    }

    fn route_from(
        &self,
        first: &Exchange,
        routing_keys: &[ShortString],
        message: &dyn Routable,
        is_due: bool,
    ) -> Route {
        let routing_keys = distinct(routing_keys);
        let mut route = Route {
            by_key_alone: true,
            ..Route::default()
        };
        // Beside the first one.
        let mut asked = BTreeSet::new();
        let mut waiting: SmallVec<[&Exchange; 4]> = smallvec![first];
        while let Some(exchange) = waiting.pop() {
            route.by_key_alone &= exchange.asks_keys_alone();
            let has_waited = is_due && exchange.record().name == first.record().name;
            if !has_waited && let Some(hold) = exchange.holds(message) {
                route.held_by.push(hold);
                continue;
            }
            if let Some(length) = exchange.remembers(message) {
                let exchange = exchange.record().name.clone();
                route.remembered_by.push(Remember { exchange, length });
            }
            let mut leads_anywhere = false;
            let mut next: SmallVec<[&ShortString; 4]> = SmallVec::new();
            exchange.matches(&routing_keys, message, &mut |destination| {
                leads_anywhere = true;
                match destination {
                    Destination::Queue(name) => {
                        let known = self.queues.get(name);
                        route.queues.extend(known.map(|record| record.id));
                    }
                    Destination::Exchange(name) => next.push(name),
                }
            });
            if !leads_anywhere {
                next.extend(exchange.alternate());
            }
            for name in next {
                if *name != first.record().name && asked.insert(name) {
                    waiting.extend(self.exchanges.get(name));
                }
            }
        }
        route.queues.sort_unstable();
        route.queues.dedup();
        route
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
            remembered_by: Vec::new(),
            held_by: Vec::new(),
        }
    }
}

/// The keys without those that were there before, in their order.
#[must_use]
pub fn distinct(keys: &[ShortString]) -> Cow<'_, [ShortString]> {
    if keys.len() < 2 {
        return Cow::Borrowed(keys);
    }
    let mut known = BTreeSet::new();
    let new = keys.iter().filter(|key| known.insert(*key));
    Cow::Owned(new.cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_counts_once_wherever_it_stands() {
        let keys = ["b", "a", "b", "c", "a"].map(ShortString::from_static);
        let expected = ["b", "a", "c"].map(ShortString::from_static);
        assert_eq!(*distinct(&keys), expected);
        assert!(matches!(distinct(&keys[..1]), Cow::Borrowed([_])));
    }
}
