//! What a dead message looks like: where it goes, what it tells of its deaths, and where it must not go.
//!
//! Deaths are told in the header `x-death`, newest first. It counts only when the broker wrote it: a
//! publisher that copies it into a new message starts from zero. Its form is RabbitMQ's.

use bytes::Bytes;
use leveret_wire::{
    content::{BasicProperties, RawProperties},
    value::{FieldTable, FieldValue, LongString, ShortString, Timestamp as Seconds},
};

use crate::{
    arguments::DeadLetter,
    ids::Timestamp,
    message::{Life, Message, MessageParts},
    queue::DeathReason,
};

const X_DEATH: &str = "x-death";

impl DeathReason {
    /// As it stands in the headers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::MaxLength => "maxlen",
            Self::DeliveryLimit => "delivery_limit",
        }
    }
}

/// How, where and when a message died.
#[derive(Debug, Clone, Copy)]
pub struct Death<'a> {
    /// The queue it died in.
    pub queue: &'a ShortString,
    /// Why.
    pub reason: DeathReason,
    /// When.
    pub at: Timestamp,
    /// An attempt with it failed.
    pub was_delivered: bool,
}

/// A dead message as it is published again.
#[derive(Debug, Clone)]
pub struct DeadMessage {
    /// The exchange to ask; the message shows it as its own.
    pub exchange: ShortString,
    /// Every key to route by: the first is the message's own, the others are its `CC` and `BCC`.
    pub routing_keys: Vec<ShortString>,
    /// The message, with its deaths in its headers and without an expiration.
    pub message: Message,
    /// Its headers.
    pub headers: FieldTable,
    /// Where it died and whether by a reject, newest first.
    history: Vec<(LongString, bool)>,
    reason: DeathReason,
}

impl DeadMessage {
    /// What becomes of a message that died in a queue with this dead-letter exchange. `None` when it
    /// can go nowhere.
    #[must_use]
    pub fn of(message: &Message, death: Death<'_>, to: &DeadLetter) -> Option<Self> {
        let exchange = to.exchange.clone()?;
        let raw = RawProperties::from_wire(Bytes::copy_from_slice(message.properties())).ok()?;
        let mut properties = BasicProperties::decode(&raw).ok()?;
        let mut headers = properties.headers.take().unwrap_or_default();
        let own_key = ShortString::try_from(message.routing_key()).ok()?;
        let cc = copies_of(message, &headers);
        let (routing_keys, hidden_keys) = match &to.routing_key {
            Some(key) => (vec![key.clone()], Vec::new()),
            None => {
                let hidden: Vec<ShortString> = message.hidden_keys().collect();
                let seen = [&own_key].into_iter().chain(&cc);
                (seen.chain(&hidden).cloned().collect(), hidden)
            }
        };
        let history = tell(&mut headers, message, death, &own_key, &cc);
        properties.headers = Some(headers.clone());
        properties.expiration = None;
        let properties = properties.encode();
        let parts = MessageParts {
            exchange: exchange.as_bytes(),
            routing_key: routing_keys.first()?.as_bytes(),
            properties: properties.as_bytes(),
            body: message.body_bytes(),
            persistent: message.is_persistent(),
            priority: message.priority(),
        };
        let life = Life {
            expiration_millis: None,
            has_died: true,
            was_delivered: death.was_delivered,
            keys_replaced: message.life().keys_replaced || to.routing_key.is_some(),
            published_properties_len: message.published_properties_len(),
        };
        Some(Self {
            message: Message::with_hidden_keys(parts, life, &hidden_keys),
            exchange,
            routing_keys,
            headers,
            history,
            reason: death.reason,
        })
    }

    /// Whether the message came from this queue before and would go round for ever: nobody has rejected
    /// it since.
    #[must_use]
    pub fn is_cycle(&self, queue: &ShortString) -> bool {
        if self.reason == DeathReason::Rejected {
            return false;
        }
        let mut since = self.history.iter();
        let mut has_reject = false;
        since.any(|(name, is_reject)| {
            has_reject |= is_reject;
            name.as_bytes() == queue.as_bytes()
        }) && !has_reject
    }
}

/// Puts the death into the headers; says what is told of all deaths.
fn tell(
    headers: &mut FieldTable,
    message: &Message,
    death: Death<'_>,
    own_key: &ShortString,
    cc: &[ShortString],
) -> Vec<(LongString, bool)> {
    let has_died = message.life().has_died;
    let mut deaths: Vec<FieldTable> = match headers.get(X_DEATH.as_bytes()) {
        Some(FieldValue::Array(deaths)) if has_died => deaths
            .iter()
            .filter_map(FieldValue::as_table)
            .cloned()
            .collect(),
        Some(_) | None => Vec::new(),
    };
    let reason = text(death.reason.name().as_bytes());
    let queue = text(death.queue.as_bytes());
    let exchange = text(message.exchange());
    let is_same = |entry: &FieldTable| {
        entry.get(b"queue") == Some(&queue) && entry.get(b"reason") == Some(&reason)
    };
    let newest = match deaths.iter().position(is_same) {
        Some(at) => {
            let mut entry = deaths.remove(at);
            let count = entry.get(b"count").and_then(FieldValue::as_integer);
            let count = FieldValue::Long(count.unwrap_or(0).saturating_add(1));
            entry.set(ShortString::from_static("count"), count);
            entry
        }
        None => {
            let expiration = message.life().expiration_millis.map(|millis| {
                let key = ShortString::from_static("original-expiration");
                (key, text(millis.to_string().as_bytes()))
            });
            let keys = [own_key].into_iter().chain(cc);
            let keys = keys.map(|key| text(key.as_bytes())).collect();
            expiration
                .into_iter()
                .collect::<FieldTable>()
                .with("count", FieldValue::Long(1))
                .with("reason", reason.clone())
                .with("queue", queue.clone())
                .with(
                    "time",
                    FieldValue::Timestamp(Seconds(death.at.get() / 1000)),
                )
                .with("exchange", exchange.clone())
                .with("routing-keys", FieldValue::Array(keys))
        }
    };
    deaths.insert(0, newest);
    let history = deaths.iter().map(|entry| {
        let queue = entry.get(b"queue").and_then(FieldValue::as_bytes);
        let is_reject = entry.get(b"reason").and_then(FieldValue::as_bytes) == Some(b"rejected");
        let queue = LongString::from(queue.unwrap_or_default().to_vec());
        (queue, is_reject)
    });
    let history = history.collect();
    let mut set = |key: &'static str, value: FieldValue| {
        headers.remove(key.as_bytes());
        headers.push(ShortString::from_static(key), value);
    };
    set(
        X_DEATH,
        FieldValue::Array(deaths.into_iter().map(FieldValue::Table).collect()),
    );
    if !has_died {
        set("x-first-death-exchange", exchange.clone());
        set("x-first-death-queue", queue.clone());
        set("x-first-death-reason", reason.clone());
    }
    set("x-last-death-exchange", exchange);
    set("x-last-death-queue", queue);
    set("x-last-death-reason", reason);
    history
}

/// Every key that a message was published with: its own, those of `CC`, and the hidden ones.
#[must_use]
pub fn routing_keys_of(message: &Message, properties: &BasicProperties) -> Vec<ShortString> {
    let own = ShortString::try_from(message.routing_key()).ok();
    let cc = properties
        .headers
        .iter()
        .flat_map(|headers| copies_of(message, headers));
    own.into_iter()
        .chain(cc)
        .chain(message.hidden_keys())
        .collect()
}

/// The keys of `CC`, unless they are history: a key that a queue gave to its dead letters replaced them too.
fn copies_of(message: &Message, headers: &FieldTable) -> Vec<ShortString> {
    if message.life().keys_replaced {
        Vec::new()
    } else {
        keys_of(headers, b"CC")
    }
}

/// The strings of a header that is an array of routing keys.
fn keys_of(headers: &FieldTable, name: &[u8]) -> Vec<ShortString> {
    let elements = headers.get(name).and_then(FieldValue::as_array);
    let keys = elements.unwrap_or_default().iter();
    keys.filter_map(FieldValue::as_bytes)
        .filter_map(|key| ShortString::try_from(key).ok())
        .collect()
}

fn text(bytes: &[u8]) -> FieldValue {
    FieldValue::LongString(LongString::from(bytes.to_vec()))
}
