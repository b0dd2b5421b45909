//! Exchanges that give a message to one of their destinations: by a hash, or by chance.
//!
//! A consistent hash gives every destination a score for the key, and the best one wins: adding a
//! destination takes keys from the others for it alone, removing one moves only its own keys. A score is a
//! logarithm over the weight, which makes a destination win in proportion to its weight. All of it is
//! integers of our own making, so that a key keeps its queue over restarts and releases.

use leveret_wire::{
    content::BasicProperties,
    octets_text,
    value::{FieldTable, FieldValue, ShortString},
};
use rpds::{RedBlackTreeMapSync, VectorSync};

use super::BindingId;
use crate::{
    chance::{self, mixed},
    record::Destination,
    refusal::{ExchangeTypeRefusal, ObjectKind, Refusal},
    vhost::Routable,
};

const HASH_HEADER: &str = "hash-header";
const HASH_PROPERTY: &str = "hash-property";

/// RabbitMQ's bound on weights.
const WEIGHT_MAX: u32 = 10_000;

/// What stands for a header or property that a message does not have.
const ABSENT: &[u8] = b"absent";

/// What a consistent hash is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum HashOf {
    #[default]
    RoutingKey,
    Header(ShortString),
    Property(HashProperty),
}

/// The properties RabbitMQ hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HashProperty {
    MessageId,
    CorrelationId,
    Timestamp,
}

impl HashOf {
    /// Reads the arguments of the exchange's declare.
    pub(super) fn of(
        name: &ShortString,
        vhost: &ShortString,
        arguments: &FieldTable,
    ) -> Result<Self, Refusal> {
        let header = arguments.get(HASH_HEADER.as_bytes());
        let property = arguments.get(HASH_PROPERTY.as_bytes());
        match (header, property) {
            (None, None) => Ok(Self::RoutingKey),
            (Some(_), Some(_)) => Err(ExchangeTypeRefusal::TwoHashes.into()),
            (Some(header), None) => header
                .as_bytes()
                .and_then(|header| ShortString::try_from(header).ok())
                .map(Self::Header)
                .ok_or_else(|| Refusal::InvalidArgumentType {
                    kind: ObjectKind::Exchange,
                    name: name.clone(),
                    vhost: vhost.clone(),
                    arg: HASH_HEADER.to_owned(),
                    type_name: header.type_name(),
                }),
            (None, Some(property)) => match property.as_bytes() {
                Some(b"message_id") => Ok(Self::Property(HashProperty::MessageId)),
                Some(b"correlation_id") => Ok(Self::Property(HashProperty::CorrelationId)),
                Some(b"timestamp") => Ok(Self::Property(HashProperty::Timestamp)),
                Some(_) | None => {
                    let name = property.to_string();
                    Err(ExchangeTypeRefusal::UnsupportedProperty { name }.into())
                }
            },
        }
    }

    /// The hash of a message; of several routing keys the first one counts.
    fn hash(&self, routing_keys: &[ShortString], message: &dyn Routable) -> u64 {
        match self {
            Self::RoutingKey => hash_of(routing_keys.first().map_or(ABSENT, ShortString::as_bytes)),
            Self::Header(name) => match message.headers().get(name.as_bytes()) {
                None => hash_of(ABSENT),
                Some(FieldValue::LongString(text)) => hash_of(text.as_bytes()),
                Some(other) => {
                    hash_of(&FieldTable::new().with("", other.clone()).canonical_bytes())
                }
            },
            Self::Property(property) => property.hash(&message.properties()),
        }
    }
}

impl HashProperty {
    fn hash(self, properties: &BasicProperties) -> u64 {
        let text = |text: &Option<ShortString>| {
            hash_of(text.as_ref().map_or(ABSENT, ShortString::as_bytes))
        };
        match self {
            Self::MessageId => text(&properties.message_id),
            Self::CorrelationId => text(&properties.correlation_id),
            Self::Timestamp => match properties.timestamp {
                Some(seconds) => hash_of(&seconds.0.to_be_bytes()),
                None => hash_of(ABSENT),
            },
        }
    }
}

/// The weight that a binding key gives.
pub(super) fn weight(key: &ShortString) -> Result<u32, ExchangeTypeRefusal> {
    let text = std::str::from_utf8(key.as_bytes()).unwrap_or_default();
    match text.parse::<i128>() {
        Err(_) => Err(ExchangeTypeRefusal::WeightNotInteger {
            key: octets_text(key.as_bytes()),
        }),
        Ok(..=0) => Err(ExchangeTypeRefusal::WeightTooSmall),
        Ok(weight) => u32::try_from(weight)
            .ok()
            .filter(|weight| *weight <= WEIGHT_MAX)
            .ok_or(ExchangeTypeRefusal::WeightTooLarge),
    }
}

/// A destination among which one is chosen.
#[derive(Debug, Clone, Copy)]
struct Target {
    /// That of its first binding.
    weight: u32,
    /// Bindings that lead to it.
    bindings: u32,
    /// Makes its scores its own.
    seed: u64,
}

/// Destinations, each once.
#[derive(Debug, Clone, Default)]
pub(super) struct Targets(RedBlackTreeMapSync<Destination, Target>);

impl Targets {
    pub(super) fn add(&mut self, destination: &Destination, weight: u32) {
        let target = match self.0.get(destination) {
            Some(known) => Target {
                bindings: known.bindings + 1,
                ..*known
            },
            None => Target {
                weight,
                bindings: 1,
                seed: seed(destination),
            },
        };
        self.0.insert_mut(destination.clone(), target);
    }

    pub(super) fn remove(&mut self, destination: &Destination) {
        let Some(&target) = self.0.get(destination) else {
            return;
        };
        if target.bindings == 1 {
            self.0.remove_mut(destination);
        } else {
            let bindings = target.bindings - 1;
            let target = Target { bindings, ..target };
            self.0.insert_mut(destination.clone(), target);
        }
    }

    /// The one that has the best score for the message.
    pub(super) fn by_consistent_hash(
        &self,
        of: &HashOf,
        routing_keys: &[ShortString],
        message: &dyn Routable,
    ) -> Option<&Destination> {
        if self.0.is_empty() {
            return None;
        }
        let hash = of.hash(routing_keys, message);
        let cost = |target: &Target| (cost(mixed(hash ^ target.seed)), u64::from(target.weight));
        let best = self.0.iter().min_by(|(_, a), (_, b)| {
            let ((a_cost, a_weight), (b_cost, b_weight)) = (cost(a), cost(b));
            (a_cost * b_weight).cmp(&(b_cost * a_weight))
        });
        best.map(|(destination, _)| destination)
    }

    /// The one whose number is the hash of all routing keys, modulo their count.
    pub(super) fn by_modulus(&self, routing_keys: &[ShortString]) -> Option<&Destination> {
        let hash = routing_keys
            .iter()
            .fold(0, |hash, key| mixed(hash ^ hash_of(key.as_bytes())));
        self.0.keys().nth(nth(hash, self.0.size()))
    }
}

/// Bindings by number, so that one of a hundred thousand is drawn as fast as one of ten.
#[derive(Debug, Clone, Default)]
pub(super) struct Numbered {
    bindings: VectorSync<BindingId>,
    numbers: RedBlackTreeMapSync<BindingId, usize>,
}

impl Numbered {
    /// Adds a binding that is not there.
    pub(super) fn add(&mut self, id: &BindingId) {
        self.numbers.insert_mut(id.clone(), self.bindings.len());
        self.bindings.push_back_mut(id.clone());
    }

    /// The last one takes its number.
    pub(super) fn remove(&mut self, id: &BindingId) {
        let Some(&number) = self.numbers.get(id) else {
            return;
        };
        self.numbers.remove_mut(id);
        let last = self.bindings.last().cloned();
        self.bindings.drop_last_mut();
        if let Some(last) = last.filter(|last| last != id) {
            self.bindings.set_mut(number, last.clone());
            self.numbers.insert_mut(last, number);
        }
    }

    /// The one that falls to this number; each is as likely as the others.
    pub(super) fn drawn(&self, draw: u64) -> Option<&Destination> {
        let number = nth(draw, self.bindings.len());
        let id = self.bindings.get(number)?;
        Some(&id.destination)
    }
}

/// One of so many, or 0.
fn nth(random: u64, count: usize) -> usize {
    usize::try_from(chance::below(random, count as u64)).unwrap_or_default()
}

fn seed(destination: &Destination) -> u64 {
    match destination {
        Destination::Queue(name) => hash_of(name.as_bytes()),
        Destination::Exchange(name) => !hash_of(name.as_bytes()),
    }
}

/// FNV-1a, mixed so that every bit counts.
fn hash_of(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mixed(hash)
}

/// `-log2(hash / 2^64)` with 32 bits behind the point; below 2^39, so that a weight times it fits.
fn cost(hash: u64) -> u64 {
    let hash = hash | 1;
    let zeros = hash.leading_zeros();
    let mut mantissa = hash << zeros;
    let mut fraction = 0;
    for _ in 0..32 {
        let squared = (u128::from(mantissa) * u128::from(mantissa)) >> 63;
        let is_two_or_more = squared >> 64 != 0;
        fraction = fraction << 1 | u64::from(is_two_or_more);
        let halved = if is_two_or_more {
            squared >> 1
        } else {
            squared
        };
        // Between 1 and 2 with 63 bits behind the point.
        mantissa = u64::try_from(halved).unwrap_or(u64::MAX);
    }
    ((u64::from(zeros) + 1) << 32) - fraction
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use leveret_wire::value::ShortString;

    use super::{BindingId, Destination, Numbered, cost};

    fn binding(number: u64) -> BindingId {
        let queue = ShortString::try_from(format!("q{number}")).expect("a short name");
        BindingId {
            key: ShortString::default(),
            destination: Destination::Queue(queue),
            arguments: Vec::new(),
        }
    }

    #[test]
    fn exactly_those_that_are_there_are_drawn() {
        let count = 500;
        let mut numbered = Numbered::default();
        let mut there = BTreeSet::new();
        for step in 0..3 * count {
            let number = step * 7 % count;
            let id = binding(number);
            if step % 3 == 2 {
                let gone = binding((number + 7) % count);
                there.remove(&gone.destination);
                numbered.remove(&gone);
            } else if there.insert(id.destination.clone()) {
                numbered.add(&id);
            }
            let len = there.len() as u64;
            let draws = (0..len).map(|each| u64::MAX / len * each + u64::MAX / len / 2);
            let drawn = draws.filter_map(|draw| numbered.drawn(draw)).cloned();
            assert_eq!(drawn.collect::<BTreeSet<_>>(), there);
        }
    }

    #[test]
    fn a_cost_is_a_logarithm() {
        for (hash, bits) in [
            (1_u64 << 63, 1.0),
            (1 << 62, 2.0),
            (1, 64.0),
            (3 << 62, 0.415_037_5),
        ] {
            let found = cost(hash) as f64 / f64::from(2_u32.pow(16)).powi(2);
            assert!((found - bits).abs() < 1e-6, "{hash:x}: {found}");
        }
        assert!(cost(u64::MAX) > 0);
    }
}
