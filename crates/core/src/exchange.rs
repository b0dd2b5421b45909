//! One exchange of a snapshot: its record, its bindings, and which of them match a message.
//!
//! Everything is a persistent map: a clone shares all of it, a change copies one path. That is what
//! makes a snapshot of the routing tables free while bindings come and go.

mod choice;
mod headers;
mod recent;
mod topic;

use std::sync::Arc;

use leveret_wire::value::ShortString;
use rpds::RedBlackTreeMapSync;

use self::{
    choice::{HashOf, Numbered, Targets},
    headers::HeadersMatch,
    topic::Trie,
};
use crate::{
    arguments::QueueType,
    delay::DelayRules,
    ids::QueueId,
    record::{BindingRecord, DelayRecord, Destination, ExchangeKind, ExchangeRecord},
    refusal::{ExchangeTypeRefusal, Refusal},
    vhost::{Hold, Routable},
};

/// What makes two bindings of one exchange the same. Sorted by key first, so that a direct exchange
/// finds the bindings of a routing key side by side.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BindingId {
    key: ShortString,
    destination: Destination,
    /// Arguments with their types in an order of their own.
    arguments: Vec<u8>,
}

impl BindingId {
    pub(crate) fn of(record: &BindingRecord) -> Self {
        Self {
            key: record.key.clone(),
            destination: record.destination.clone(),
            arguments: record.arguments.canonical_bytes(),
        }
    }

    /// Before every binding with this key.
    fn before(key: &ShortString) -> Self {
        let destination = Destination::Queue(ShortString::default());
        Self {
            key: key.clone(),
            destination,
            arguments: Vec::new(),
        }
    }
}

#[derive(Debug)]
struct Binding {
    record: BindingRecord,
    /// Only for a headers exchange.
    headers: Option<HeadersMatch>,
}

/// One exchange with the bindings it is the source of.
#[derive(Debug, Clone)]
pub struct Exchange {
    record: Arc<ExchangeRecord>,
    bindings: RedBlackTreeMapSync<BindingId, Arc<Binding>>,
    /// Only for a topic exchange.
    trie: Trie,
    /// Only for an exchange that chooses among its destinations by a hash.
    targets: Targets,
    hash_of: HashOf,
    /// Only for an exchange that draws one of its bindings.
    numbered: Numbered,
    /// Only for an exchange that may keep messages until their time.
    delay: Option<(QueueId, DelayRules)>,
    alternate: Option<ShortString>,
    /// The alternate that a policy names; an argument comes before it.
    policy_alternate: Option<ShortString>,
}

impl Exchange {
    pub(crate) fn new(record: ExchangeRecord) -> Self {
        let alternate = record
            .arguments
            .get(b"alternate-exchange")
            .and_then(|value| {
                value
                    .as_bytes()
                    .and_then(|name| ShortString::try_from(name).ok())
            });
        let mut hash_of = HashOf::default();
        if record.kind == ExchangeKind::ConsistentHash {
            // What was declared was checked.
            let found = HashOf::of(&record.name, &record.vhost, &record.arguments);
            hash_of = found.unwrap_or_default();
        }
        let delay = record.delay.and_then(|DelayRecord { id, by_type }| {
            Some((id, DelayRules::of(by_type, &record.arguments)?))
        });
        Self {
            record: Arc::new(record),
            delay,
            bindings: RedBlackTreeMapSync::default(),
            trie: Trie::default(),
            targets: Targets::default(),
            hash_of,
            numbered: Numbered::default(),
            alternate,
            policy_alternate: None,
        }
    }

    /// Whether the exchange's type takes the arguments of a new exchange.
    pub(crate) fn check_arguments(record: &ExchangeRecord) -> Result<(), Refusal> {
        match record.kind {
            ExchangeKind::ConsistentHash => {
                HashOf::of(&record.name, &record.vhost, &record.arguments).map(|_| ())
            }
            ExchangeKind::RecentHistory => {
                recent::length(&record.arguments)?;
                Ok(())
            }
            ExchangeKind::Direct
            | ExchangeKind::Fanout
            | ExchangeKind::Topic
            | ExchangeKind::Headers
            | ExchangeKind::ModulusHash
            | ExchangeKind::Random
            | ExchangeKind::LocalRandom => Ok(()),
        }
    }

    /// Whether the answer for a message holds for every message with the same routing keys.
    pub(crate) fn asks_keys_alone(&self) -> bool {
        if self.delay.is_some() {
            return false;
        }
        match self.record.kind {
            ExchangeKind::Direct
            | ExchangeKind::Fanout
            | ExchangeKind::Topic
            | ExchangeKind::ModulusHash => true,
            ExchangeKind::ConsistentHash => self.hash_of == HashOf::RoutingKey,
            // The last one has to hear of every message.
            ExchangeKind::Headers
            | ExchangeKind::Random
            | ExchangeKind::LocalRandom
            | ExchangeKind::RecentHistory => false,
        }
    }

    /// How the message is to be kept before it is routed here; `None` when it goes on at once.
    pub(crate) fn holds(&self, message: &dyn Routable) -> Option<Hold> {
        let (delay, rules) = self.delay.as_ref()?;
        let wait = rules.wait(&message.headers(), message.occasion().now)?;
        Some(Hold {
            exchange: self.record.name.clone(),
            delay: *delay,
            wait,
        })
    }

    /// How many messages it remembers for bindings to come; `None` when it does not, or not this one.
    pub(crate) fn remembers(&self, message: &dyn Routable) -> Option<usize> {
        let length = self.history_length()?;
        recent::is_kept(&message.headers()).then_some(length)
    }

    /// How many messages it remembers for bindings to come.
    #[must_use]
    pub fn history_length(&self) -> Option<usize> {
        (self.record.kind == ExchangeKind::RecentHistory)
            .then(|| recent::length(&self.record.arguments).ok())
            .flatten()
    }

    /// What it was declared as.
    #[must_use]
    pub fn record(&self) -> &ExchangeRecord {
        &self.record
    }

    /// `true` when that changes something.
    pub(crate) fn set_policy_alternate(&mut self, alternate: Option<ShortString>) -> bool {
        let has_changed = self.policy_alternate != alternate;
        self.policy_alternate = alternate;
        has_changed
    }

    /// The exchange that is asked when this one finds nothing.
    pub(crate) fn alternate(&self) -> Option<&ShortString> {
        self.alternate.as_ref().or(self.policy_alternate.as_ref())
    }

    /// Whether it is the source of a binding.
    pub(crate) fn has_bindings(&self) -> bool {
        !self.bindings.is_empty()
    }

    pub(crate) fn has_binding(&self, id: &BindingId) -> bool {
        self.bindings.contains_key(id)
    }

    /// How many bindings it is the source of.
    #[must_use]
    pub fn binding_count(&self) -> usize {
        self.bindings.size()
    }

    /// The bindings it is the source of.
    pub fn bindings(&self) -> impl Iterator<Item = &BindingRecord> {
        self.bindings.values().map(|binding| &binding.record)
    }

    /// Whether the exchange's type takes the binding; `queue_type` is that of the queue it leads to.
    pub(crate) fn check_binding(
        &self,
        record: &BindingRecord,
        queue_type: Option<QueueType>,
    ) -> Result<(), Refusal> {
        match self.record.kind {
            ExchangeKind::Direct
            | ExchangeKind::Fanout
            | ExchangeKind::ModulusHash
            | ExchangeKind::Random
            | ExchangeKind::RecentHistory => Ok(()),
            ExchangeKind::Topic => topic::check_key(&record.key),
            ExchangeKind::Headers => HeadersMatch::of(&record.arguments).map(|_| ()),
            ExchangeKind::ConsistentHash => {
                choice::weight(&record.key)?;
                Ok(())
            }
            ExchangeKind::LocalRandom => match queue_type {
                _ if !record.key.is_empty() => {
                    let key = record.key.clone();
                    Err(ExchangeTypeRefusal::BindingKeyNotEmpty { key }.into())
                }
                None => Err(ExchangeTypeRefusal::DestinationNotQueue.into()),
                Some(QueueType::Classic) => Ok(()),
                Some(queue_type) => {
                    Err(ExchangeTypeRefusal::QueueTypeNotValid { queue_type }.into())
                }
            },
        }
    }

    /// Adds a binding that was checked; `false` when it was there.
    pub(crate) fn bind(&mut self, record: BindingRecord) -> bool {
        let id = BindingId::of(&record);
        if self.bindings.contains_key(&id) {
            return false;
        }
        let mut headers = None;
        match self.record.kind {
            ExchangeKind::Topic => self.trie.insert(record.key.as_bytes(), &record.destination),
            ExchangeKind::Headers => headers = HeadersMatch::of(&record.arguments).ok(),
            ExchangeKind::ConsistentHash | ExchangeKind::ModulusHash => {
                let weight = choice::weight(&record.key).unwrap_or(1);
                self.targets.add(&record.destination, weight);
            }
            ExchangeKind::Random | ExchangeKind::LocalRandom => self.numbered.add(&id),
            ExchangeKind::Direct | ExchangeKind::Fanout | ExchangeKind::RecentHistory => {}
        }
        self.bindings
            .insert_mut(id, Arc::new(Binding { record, headers }));
        true
    }

    /// Removes a binding and says what it was; `None` when it was not there.
    pub(crate) fn unbind(&mut self, id: &BindingId) -> Option<BindingRecord> {
        let record = self.bindings.get(id)?.record.clone();
        self.bindings.remove_mut(id);
        match self.record.kind {
            ExchangeKind::Topic => self.trie.remove(id.key.as_bytes(), &id.destination),
            ExchangeKind::ConsistentHash | ExchangeKind::ModulusHash => {
                self.targets.remove(&id.destination);
            }
            ExchangeKind::Random | ExchangeKind::LocalRandom => self.numbered.remove(id),
            ExchangeKind::Direct
            | ExchangeKind::Fanout
            | ExchangeKind::Headers
            | ExchangeKind::RecentHistory => {}
        }
        Some(record)
    }

    /// Calls `found` with every destination that a message with these keys leads to, of each binding at most once. No key is
    /// there twice.
    pub(crate) fn matches<'a>(
        &'a self,
        routing_keys: &[ShortString],
        message: &dyn Routable,
        found: &mut dyn FnMut(&'a Destination),
    ) {
        match self.record.kind {
            ExchangeKind::Direct => {
                for key in routing_keys {
                    self.bindings
                        .range(BindingId::before(key)..)
                        .take_while(|(id, _)| id.key == *key)
                        .for_each(|(id, _)| found(&id.destination));
                }
            }
            ExchangeKind::Fanout | ExchangeKind::RecentHistory => {
                self.bindings.keys().for_each(|id| found(&id.destination));
            }
            ExchangeKind::Topic => self.trie.matches(routing_keys, found),
            ExchangeKind::ConsistentHash => {
                let target = self
                    .targets
                    .by_consistent_hash(&self.hash_of, routing_keys, message);
                target.into_iter().for_each(found);
            }
            ExchangeKind::ModulusHash => {
                self.targets
                    .by_modulus(routing_keys)
                    .into_iter()
                    .for_each(found);
            }
            ExchangeKind::Random | ExchangeKind::LocalRandom => {
                let drawn = self.numbered.drawn(message.occasion().draw);
                drawn.into_iter().for_each(found);
            }
            ExchangeKind::Headers if self.bindings.is_empty() => {}
            ExchangeKind::Headers => {
                let headers = message.headers();
                let headers = headers::by_name(&headers);
                for (id, binding) in &self.bindings {
                    if binding
                        .headers
                        .as_ref()
                        .is_some_and(|wanted| wanted.matches(&headers))
                    {
                        found(&id.destination);
                    }
                }
            }
        }
    }
}
