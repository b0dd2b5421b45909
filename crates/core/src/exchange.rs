//! One exchange of a snapshot: its record, its bindings, and which of them match a message.
//!
//! Everything is a persistent map: a clone shares all of it, a change copies one path. That is what
//! makes a snapshot of the routing tables free while bindings come and go.

mod headers;
mod topic;

use std::sync::Arc;

use leveret_wire::value::{FieldTable, ShortString};
use rpds::RedBlackTreeMapSync;

use self::{headers::HeadersMatch, topic::Trie};
use crate::{
    record::{BindingRecord, Destination, ExchangeKind, ExchangeRecord},
    refusal::Refusal,
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
    alternate: Option<ShortString>,
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
        Self {
            record: Arc::new(record),
            bindings: RedBlackTreeMapSync::default(),
            trie: Trie::default(),
            alternate,
        }
    }

    /// What it was declared as.
    #[must_use]
    pub fn record(&self) -> &ExchangeRecord {
        &self.record
    }

    /// The exchange that is asked when this one finds nothing.
    pub(crate) const fn alternate(&self) -> Option<&ShortString> {
        self.alternate.as_ref()
    }

    /// Whether it is the source of a binding.
    pub(crate) fn has_bindings(&self) -> bool {
        !self.bindings.is_empty()
    }

    pub(crate) fn has_binding(&self, id: &BindingId) -> bool {
        self.bindings.contains_key(id)
    }

    /// The bindings it is the source of.
    pub fn bindings(&self) -> impl Iterator<Item = &BindingRecord> {
        self.bindings.values().map(|binding| &binding.record)
    }

    /// Whether the exchange's type takes the binding.
    pub(crate) fn check_binding(&self, record: &BindingRecord) -> Result<(), Refusal> {
        match self.record.kind {
            ExchangeKind::Direct | ExchangeKind::Fanout => Ok(()),
            ExchangeKind::Topic => topic::check_key(&record.key),
            ExchangeKind::Headers => HeadersMatch::of(&record.arguments).map(|_| ()),
        }
    }

    /// Adds a binding that was checked; `false` when it was there.
    pub(crate) fn bind(&mut self, record: BindingRecord) -> bool {
        let id = BindingId::of(&record);
        if self.bindings.contains_key(&id) {
            return false;
        }
        if self.record.kind == ExchangeKind::Topic {
            self.trie.insert(record.key.as_bytes(), &record.destination);
        }
        let headers = match self.record.kind {
            ExchangeKind::Headers => HeadersMatch::of(&record.arguments).ok(),
            ExchangeKind::Direct | ExchangeKind::Fanout | ExchangeKind::Topic => None,
        };
        self.bindings
            .insert_mut(id, Arc::new(Binding { record, headers }));
        true
    }

    /// Removes a binding and says what it was; `None` when it was not there.
    pub(crate) fn unbind(&mut self, id: &BindingId) -> Option<BindingRecord> {
        let record = self.bindings.get(id)?.record.clone();
        self.bindings.remove_mut(id);
        if self.record.kind == ExchangeKind::Topic {
            self.trie.remove(id.key.as_bytes(), &id.destination);
        }
        Some(record)
    }

    /// Calls `found` with every destination that a message leads to, some more than once.
    pub(crate) fn matches<'a>(
        &'a self,
        routing_keys: &[ShortString],
        headers: &dyn Fn() -> FieldTable,
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
            ExchangeKind::Fanout => self.bindings.keys().for_each(|id| found(&id.destination)),
            ExchangeKind::Topic => routing_keys
                .iter()
                .for_each(|key| self.trie.matches(key.as_bytes(), found)),
            ExchangeKind::Headers if self.bindings.is_empty() => {}
            ExchangeKind::Headers => {
                let headers = headers();
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
