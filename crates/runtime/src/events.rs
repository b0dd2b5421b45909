//! The event exchange: what happens to connections, queues, users and so on, as messages without a body.
//!
//! ```text
//!   whoever changes something ─▶ Services::tell ─ nobody asked for events ─▶ nothing
//!                                      └─▶ topic exchange `amq.rabbitmq.event` of the default vhost, key `queue.created`
//! ```
//!
//! Names, keys and types are those of RabbitMQ's plugin; headers stand in the order of their names. A change of a vhost
//! is told by comparing its snapshots, so that nothing is left out that goes along with something else.

mod access;
mod connections;
mod topology;

use std::{
    future::Future,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use leveret_core::{
    ids::{ConnectionId, Timestamp},
    message::{Message, MessageParts},
    record::{ExchangeKind, ExchangeRecord},
};
use leveret_wire::{
    content::BasicProperties,
    value::{FieldTable, FieldValue, LongString, ShortString, Timestamp as WireTimestamp},
};
use tokio::{sync::watch, task_local};

pub use self::connections::{ConsumerFacts, LoginFacts, Tuned};
use crate::{
    alarms::Alarm,
    broker::{Broker, Services},
};

/// Where events go.
pub(crate) const EXCHANGE: &str = "amq.rabbitmq.event";

/// Who acts when nobody does: what follows from something else.
const NOBODY: &str = "rmq-internal";

task_local! {
    static ACTOR: Actor;
}

/// Who is behind what a task does: the user of a connection, known once they have logged in, or of a request.
#[derive(Debug, Clone, Default)]
pub struct Actor(Arc<OnceLock<ShortString>>);

impl Actor {
    /// Somebody who is known from the start.
    #[must_use]
    pub fn named(name: ShortString) -> Self {
        Self(Arc::new(name.into()))
    }

    /// Whoever it is from now on; the first one stays.
    pub fn is(&self, name: &ShortString) {
        // A second login on one connection does not happen.
        let _ = self.0.set(name.clone());
    }

    /// Does something in this name.
    pub fn acts<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        ACTOR.scope(self, work)
    }

    /// The same for what waits for nothing.
    pub(crate) fn does<T>(self, work: impl FnOnce() -> T) -> T {
        ACTOR.sync_scope(self, work)
    }

    /// Nobody in particular.
    pub(crate) fn nobody() -> Self {
        Self::named(ShortString::from_static(NOBODY))
    }

    fn current() -> ShortString {
        let known = ACTOR.try_with(|actor| actor.0.get().cloned());
        let known = known.ok().flatten();
        known.unwrap_or_else(|| ShortString::from_static(NOBODY))
    }
}

/// Whether events are told, and what they are told with.
#[derive(Debug)]
pub(crate) struct Events {
    is_on: AtomicBool,
    started_secs: u64,
}

impl Events {
    pub(crate) fn new(is_on: bool, now: Timestamp) -> Self {
        Self {
            is_on: AtomicBool::new(is_on),
            started_secs: now.get() / 1000,
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }
}

/// The exchange itself: clients may bind it and not publish to it.
pub(crate) fn exchange(vhost: ShortString) -> ExchangeRecord {
    ExchangeRecord {
        vhost,
        name: ShortString::from_static(EXCHANGE),
        kind: ExchangeKind::Topic,
        durable: true,
        auto_delete: false,
        internal: true,
        arguments: FieldTable::new(),
        delay: None,
    }
}

impl Broker {
    /// Begins or ends to tell events. The exchange is made, or goes with its bindings.
    pub async fn set_event_exchange(&self, is_on: bool) {
        let services = self.services();
        let vhost = ShortString::cut(&services.node.default_vhost);
        let Some(vhost) = services.registry.vhost(&vhost) else {
            return;
        };
        if is_on {
            vhost.put_own_exchange(exchange(vhost.name().clone()));
        } else {
            vhost
                .remove_own_exchange(&ShortString::from_static(EXCHANGE))
                .await;
        }
        services.events.is_on.store(is_on, Ordering::Relaxed);
    }
}

impl Broker {
    /// Tells that plugins were enabled or disabled.
    pub fn tell_plugins(&self, enabled: &[String], disabled: &[String]) {
        let list = |names: &[String]| {
            let names = names.iter().map(|name| FieldValue::text(name.clone()));
            FieldValue::Array(names.collect())
        };
        self.services().tell_of_nobody("plugins.changed", || {
            FieldTable::new()
                .with("enabled", list(enabled))
                .with("disabled", list(disabled))
        });
    }
}

impl Services {
    /// Tells an event in the name of whoever acts. The headers are made only if somebody asked for events.
    pub(crate) fn tell(&self, key: &'static str, headers: impl FnOnce() -> FieldTable) {
        if self.events.is_on() {
            let by = text(&Actor::current());
            self.tell_now(key, headers().with("user_who_performed_action", by));
        }
    }

    /// The same for what has no actor.
    pub(crate) fn tell_of_nobody(&self, key: &'static str, headers: impl FnOnce() -> FieldTable) {
        if self.events.is_on() {
            self.tell_now(key, headers());
        }
    }

    #[cold]
    fn tell_now(&self, key: &'static str, headers: FieldTable) {
        let vhost = ShortString::cut(&self.node.default_vhost);
        let Some(vhost) = self.registry.vhost(&vhost) else {
            return;
        };
        let now = self.clock.now();
        let headers = headers.with("timestamp_in_ms", number(now.get()));
        let mut sorted: Vec<_> = headers.iter().cloned().collect();
        sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut headers = FieldTable::new();
        for (name, value) in sorted {
            headers.push(name, value);
        }
        let properties = BasicProperties {
            headers: Some(headers),
            delivery_mode: Some(2),
            timestamp: Some(WireTimestamp(now.get() / 1000)),
            ..BasicProperties::default()
        };
        vhost.publish_own(&Message::new(MessageParts {
            exchange: EXCHANGE.as_bytes(),
            routing_key: key.as_bytes(),
            properties: properties.encode().as_bytes(),
            body: Vec::new().into(),
            persistent: true,
            priority: None,
        }));
    }

    /// How events name a connection or channel: the shape of an Erlang process id.
    fn pid(&self, connection: ConnectionId, channel: u16) -> FieldValue {
        let (node, started) = (&self.node.name, self.events.started_secs);
        FieldValue::text(format!("<{node}.{started}.{}.{channel}>", connection.get()))
    }

    /// Tells of alarms, for as long as there are any to come.
    pub(crate) async fn tell_alarms(self: Arc<Self>, mut alarm: watch::Receiver<Alarm>) {
        let mut before = Alarm::default();
        loop {
            let now = *alarm.borrow_and_update();
            for (source, was, is) in [
                ("memory", before.memory, now.memory),
                ("disk", before.disk, now.disk),
            ] {
                if was != is {
                    let key = if is { "alarm.set" } else { "alarm.cleared" };
                    self.tell_of_nobody(key, || {
                        FieldTable::new()
                            .with("node", FieldValue::text(self.node.name.clone()))
                            .with("source", FieldValue::text(source))
                    });
                }
            }
            before = now;
            if alarm.changed().await.is_err() {
                return;
            }
        }
    }
}

fn text(name: &ShortString) -> FieldValue {
    FieldValue::LongString(LongString::from(name.as_bytes().to_vec()))
}

fn number(number: u64) -> FieldValue {
    FieldValue::Long(i64::try_from(number).unwrap_or(i64::MAX))
}

/// A table as a list of texts, each an Erlang term: how the plugin shows it.
fn terms(table: &FieldTable) -> FieldValue {
    let mut terms: Vec<String> = table
        .iter()
        .map(|(name, value)| {
            let mut pair = FieldTable::new();
            pair.push(name.clone(), value.clone());
            let shown = FieldValue::Table(pair).to_string();
            // Of a list of one what stands between its brackets.
            shown[1..shown.len() - 1].to_owned()
        })
        .collect();
    terms.sort();
    FieldValue::Array(terms.into_iter().map(FieldValue::text).collect())
}
