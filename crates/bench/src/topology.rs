//! What a run declares, and what its messages are addressed to.
//!
//! Every message matches exactly one binding, or all of them at a fanout exchange, so that the number of deliveries is known.

use leveret_wire::{FieldTable, FieldValue, Method, exchange, queue};

use crate::client::{CHANNEL, Client, short};
use crate::error::BenchError;
use crate::load::{ExchangeKind, Load};

/// How many routing keys are in use when nothing is said.
const KEYS_DEFAULT: usize = 1000;

/// A step that shares no divisor with any likely number of bindings: keys are picked from all over them, and from all
/// queues alike.
const KEY_STEP: usize = 7919;

/// Devices per site in the keys of a topic exchange.
const DEVICES_PER_SITE: usize = 100;

/// Queues, exchange and bindings of one run.
#[derive(Debug)]
pub(crate) struct Topology {
    pub(crate) queues: Vec<String>,
    /// What messages are published to, in turn.
    pub(crate) addresses: Vec<Address>,
    exchange: Option<Exchange>,
    bindings: Vec<Binding>,
    durable: bool,
    queue_arguments: FieldTable,
}

/// What a message is addressed to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Address {
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    pub(crate) headers: Option<FieldTable>,
}

#[derive(Debug)]
struct Exchange {
    name: String,
    kind: &'static str,
}

#[derive(Debug)]
struct Binding {
    queue: usize,
    key: String,
    arguments: FieldTable,
}

impl Topology {
    /// Plans what a load needs; nothing is declared yet.
    pub(crate) fn plan(load: &Load, prefix: &str) -> Self {
        let queues: Vec<String> = (0..load.queues)
            .map(|index| queue_name(prefix, index))
            .collect();
        let exchange_name = format!("{prefix}-x");
        let bindings = match load.exchange {
            ExchangeKind::Default => Vec::new(),
            kind => (0..load.binding_count())
                .map(|index| Binding {
                    queue: index % load.queues,
                    key: binding_key(kind, index),
                    arguments: binding_arguments(kind, index),
                })
                .collect(),
        };
        let addresses = match load.exchange {
            ExchangeKind::Default => queues
                .iter()
                .map(|queue| Address {
                    exchange: String::new(),
                    routing_key: queue.clone(),
                    headers: None,
                })
                .collect(),
            kind => picked_bindings(load)
                .map(|index| Address {
                    exchange: exchange_name.clone(),
                    routing_key: routing_key(kind, index),
                    headers: message_headers(kind, index),
                })
                .collect(),
        };
        let exchange = (load.exchange != ExchangeKind::Default).then(|| Exchange {
            name: exchange_name,
            kind: load.exchange.kind(),
        });
        Self {
            queues,
            addresses,
            exchange,
            bindings,
            durable: load.durable,
            queue_arguments: queue_arguments(load),
        }
    }

    /// Queues that nothing is published to.
    pub(crate) fn queues_only(count: usize, prefix: &str, durable: bool) -> Self {
        Self {
            queues: (0..count).map(|index| queue_name(prefix, index)).collect(),
            addresses: Vec::new(),
            exchange: None,
            bindings: Vec::new(),
            durable,
            queue_arguments: FieldTable::new(),
        }
    }

    pub(crate) fn declare(&self, client: &mut Client) -> Result<(), BenchError> {
        let mut methods: Vec<Method> = Vec::new();
        if let Some(exchange) = &self.exchange {
            let declare = exchange::Declare {
                exchange: short(&exchange.name)?,
                kind: short(exchange.kind)?,
                durable: self.durable,
                ..exchange::Declare::default()
            };
            methods.push(declare.into());
        }
        for name in &self.queues {
            let declare = queue::Declare {
                queue: short(name)?,
                durable: self.durable,
                arguments: self.queue_arguments.clone(),
                ..queue::Declare::default()
            };
            methods.push(declare.into());
        }
        if let Some(exchange) = &self.exchange {
            for binding in &self.bindings {
                let bind = queue::Bind {
                    queue: short(&self.queues[binding.queue])?,
                    exchange: short(&exchange.name)?,
                    routing_key: short(&binding.key)?,
                    arguments: binding.arguments.clone(),
                    ..queue::Bind::default()
                };
                methods.push(bind.into());
            }
        }
        client.call_all(CHANNEL, methods)
    }

    /// Removes what [`Topology::declare`] made, with all messages.
    pub(crate) fn delete(&self, client: &mut Client) -> Result<(), BenchError> {
        let mut methods: Vec<Method> = Vec::new();
        // The exchange first: all bindings go at once then.
        if let Some(exchange) = &self.exchange {
            let delete = exchange::Delete {
                exchange: short(&exchange.name)?,
                ..exchange::Delete::default()
            };
            methods.push(delete.into());
        }
        for name in &self.queues {
            let delete = queue::Delete {
                queue: short(name)?,
                ..queue::Delete::default()
            };
            methods.push(delete.into());
        }
        client.call_all(CHANNEL, methods)
    }
}

fn queue_name(prefix: &str, index: usize) -> String {
    format!("{prefix}-q{index}")
}

/// The bindings that messages are sent to, spread over all of them.
fn picked_bindings(load: &Load) -> impl Iterator<Item = usize> + use<> {
    let bindings = match load.exchange {
        ExchangeKind::Fanout => 1,
        _ => load.binding_count(),
    };
    let keys = load.keys.unwrap_or(KEYS_DEFAULT).clamp(1, bindings);
    (0..keys).map(move |key| {
        if keys == bindings {
            key
        } else {
            key * KEY_STEP % bindings
        }
    })
}

fn binding_key(kind: ExchangeKind, index: usize) -> String {
    match kind {
        ExchangeKind::Topic => {
            let (site, device) = site_and_device(index);
            // A third each of what people bind: a word left open, an open end, and none of both.
            match index % 3 {
                0 => format!("site-{site}.*.device-{device}"),
                1 => format!("site-{site}.status.device-{device}.#"),
                _ => format!("site-{site}.status.device-{device}"),
            }
        }
        kind => routing_key(kind, index),
    }
}

/// A key that matches the binding with this index and no other.
fn routing_key(kind: ExchangeKind, index: usize) -> String {
    match kind {
        ExchangeKind::Topic => {
            let (site, device) = site_and_device(index);
            format!("site-{site}.status.device-{device}")
        }
        ExchangeKind::Direct => format!("key-{index}"),
        ExchangeKind::Default | ExchangeKind::Fanout | ExchangeKind::Headers => String::new(),
    }
}

fn site_and_device(index: usize) -> (usize, usize) {
    (index / DEVICES_PER_SITE, index % DEVICES_PER_SITE)
}

fn binding_arguments(kind: ExchangeKind, index: usize) -> FieldTable {
    match message_headers(kind, index) {
        Some(headers) => headers.with("x-match", FieldValue::text("all")),
        None => FieldTable::new(),
    }
}

fn message_headers(kind: ExchangeKind, index: usize) -> Option<FieldTable> {
    if kind != ExchangeKind::Headers {
        return None;
    }
    let device = FieldValue::text(format!("device-{index}"));
    Some(
        FieldTable::new()
            .with("device", device)
            .with("format", FieldValue::text("json")),
    )
}

fn queue_arguments(load: &Load) -> FieldTable {
    let mut arguments = FieldTable::new();
    if let Some(kind) = &load.queue_type {
        arguments = arguments.with("x-queue-type", FieldValue::text(kind.as_str()));
    }
    // Quorum queues have priorities without being told.
    let is_quorum = load.queue_type.as_deref() == Some("quorum");
    if let Some(priorities) = load.priorities.filter(|_| !is_quorum) {
        let highest = (priorities - 1).max(1);
        arguments = arguments.with("x-max-priority", FieldValue::Long(highest.into()));
    }
    for argument in &load.queue_arguments {
        let (key, value) = argument.split_once('=').unwrap_or((argument, ""));
        if let Ok(key) = short(key) {
            arguments.push(key, typed(value));
        }
    }
    arguments
}

fn typed(text: &str) -> FieldValue {
    if let Ok(number) = text.parse() {
        return FieldValue::Long(number);
    }
    match text.parse() {
        Ok(truth) => FieldValue::Bool(truth),
        Err(_) => FieldValue::text(text),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;
    use leveret_wire::FieldValue;

    use super::{Topology, typed};
    use crate::load::Load;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        load: Load,
    }

    #[track_caller]
    fn plan(line: &str) -> Topology {
        let line = Line::try_parse_from(format!("bench {line}").split_ascii_whitespace()).unwrap();
        Topology::plan(&line.load, "p")
    }

    #[test]
    fn the_nameless_exchange_needs_no_binding() {
        let plan = plan("--queues 3");
        assert_eq!(plan.queues, ["p-q0", "p-q1", "p-q2"]);
        assert!(plan.bindings.is_empty() && plan.exchange.is_none());
        let keys: Vec<&str> = plan
            .addresses
            .iter()
            .map(|to| to.routing_key.as_str())
            .collect();
        assert_eq!(keys, ["p-q0", "p-q1", "p-q2"]);
    }

    #[test]
    fn one_message_to_a_fanout_exchange_reaches_all_queues() {
        let plan = plan("--queues 10 --exchange fanout");
        assert_eq!(plan.addresses.len(), 1);
        let bound: BTreeSet<usize> = plan.bindings.iter().map(|binding| binding.queue).collect();
        assert_eq!(bound.len(), 10);
    }

    #[test]
    fn picked_keys_are_different_and_spread_over_all_queues() {
        let plan = plan("--queues 10 --exchange topic --bindings 10000");
        assert_eq!(plan.bindings.len(), 10_000);
        let keys: BTreeSet<&str> = plan
            .addresses
            .iter()
            .map(|to| to.routing_key.as_str())
            .collect();
        assert_eq!(keys.len(), 1000);
        let sites: BTreeSet<&str> = keys
            .iter()
            .filter_map(|key| key.split('.').next())
            .collect();
        assert_eq!(sites.len(), 100);
    }

    #[test]
    fn every_key_of_a_topic_matches_one_binding() {
        let plan = plan("--queues 10 --exchange topic --bindings 300");
        for address in &plan.addresses {
            let matching = plan.bindings.iter().filter(|binding| {
                let key = binding.key.trim_end_matches(".#").replace('*', "status");
                key == address.routing_key
            });
            assert_eq!(matching.count(), 1, "{address:?}");
        }
    }

    #[test]
    fn headers_are_bound_as_they_are_sent() {
        let plan = plan("--queues 2 --exchange headers");
        let sent = plan.addresses[1].headers.as_ref().unwrap();
        let bound = &plan.bindings[1].arguments;
        assert_eq!(sent.get(b"device"), bound.get(b"device"));
        assert!(bound.get(b"x-match").is_some());
    }

    #[test]
    fn arguments_get_the_type_they_look_like() {
        assert_eq!(typed("5"), FieldValue::Long(5));
        assert_eq!(typed("true"), FieldValue::Bool(true));
        assert_eq!(typed("lazy"), FieldValue::text("lazy"));
        let plan = plan("--queue-type quorum --queue-argument x-max-length=7 --priorities 5");
        let arguments = &plan.queue_arguments;
        assert_eq!(arguments.get(b"x-max-length"), Some(&FieldValue::Long(7)));
        assert_eq!(arguments.get(b"x-max-priority"), None);
    }
}
