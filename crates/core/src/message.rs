//! A message as it was published: never changed afterwards, cheap to clone.

use std::{fmt, num::NonZeroU32, sync::Arc};

use bytes::Bytes;
use leveret_wire::{
    content::{BasicProperties, RawProperties},
    value::ShortString,
};

/// Bodies from this size on stay slices of the read buffer; smaller ones are copied.
///
/// A slice keeps its whole read buffer alive, so a small body that waits in a queue would pin a
/// buffer many times its size; copying a large one would cost more than it frees.
pub const SHARED_BODY_MIN: usize = 4096;

/// A published message: where it was sent, its properties as received, its body.
///
/// Exchange and routing key are those of the publish, also behind exchange-to-exchange bindings.
#[derive(Clone)]
pub struct Message(Arc<Inner>);

struct Inner {
    /// Exchange, routing key, properties, hidden keys, and the body when it is small, one behind the other.
    bytes: Box<[u8]>,
    exchange_len: u8,
    routing_key_len: u8,
    properties_len: u32,
    /// Routing keys that nobody who gets the message may see, each behind its length.
    hidden_len: u32,
    /// The body when it is large; else empty.
    shared_body: Bytes,
    persistent: bool,
    priority: Option<u8>,
    life: Life,
}

/// How long a message lives, and whether it has died before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Life {
    /// The expiration property in milliseconds, if set.
    pub expiration_millis: Option<u64>,
    /// It was dead-lettered: its `x-death` header is the broker's own.
    pub has_died: bool,
    /// An attempt with it failed in a queue it died in, so that it counts as redelivered in the next one.
    pub was_delivered: bool,
    /// A queue it died in gave it a routing key of its own: its copies, which still stand in its headers, count no more.
    pub keys_replaced: bool,
    /// How long the properties were that it was published with, if the broker has written others since.
    pub published_properties_len: Option<NonZeroU32>,
}

/// What a message is made of.
#[derive(Debug, Clone)]
pub struct MessageParts<'a> {
    /// Exchange of the publish, at most 255 bytes; empty for the default exchange.
    pub exchange: &'a [u8],
    /// Routing key of the publish, at most 255 bytes.
    pub routing_key: &'a [u8],
    /// Property flags and fields, byte for byte as received.
    pub properties: &'a [u8],
    /// The whole body.
    pub body: Bytes,
    /// Delivery mode 2.
    pub persistent: bool,
    /// The priority property, if set.
    pub priority: Option<u8>,
}

impl Message {
    /// Builds a message; copies everything except a body of [`SHARED_BODY_MIN`] bytes or more.
    ///
    /// # Panics
    ///
    /// When exchange or routing key exceed 255 bytes or the properties 4 GiB: the wire format
    /// cannot carry such values, so they are a bug of the caller.
    #[must_use]
    pub fn new(parts: MessageParts<'_>) -> Self {
        Self::with_life(parts, Life::default())
    }

    /// Builds a message that expires by itself, or that was dead-lettered; see [`Self::new`].
    ///
    /// # Panics
    ///
    /// As [`Self::new`].
    #[must_use]
    pub fn with_life(parts: MessageParts<'_>, life: Life) -> Self {
        Self::with_hidden_keys(parts, life, &[])
    }

    /// The same message with other properties, of which delivery mode and priority are as they were.
    #[must_use]
    pub fn with_properties(&self, properties: &[u8]) -> Self {
        let hidden: Vec<ShortString> = self.hidden_keys().collect();
        let parts = MessageParts {
            exchange: self.exchange(),
            routing_key: self.routing_key(),
            properties,
            body: self.body_bytes(),
            persistent: self.is_persistent(),
            priority: self.priority(),
        };
        let life = Life {
            published_properties_len: self.published_properties_len(),
            ..self.life()
        };
        Self::with_hidden_keys(parts, life, &hidden)
    }

    /// Builds a message that was routed by the keys of a `BCC` header too, which only the broker knows; see
    /// [`Self::new`].
    ///
    /// # Panics
    ///
    /// As [`Self::new`].
    #[must_use]
    pub fn with_hidden_keys(
        parts: MessageParts<'_>,
        life: Life,
        hidden_keys: &[ShortString],
    ) -> Self {
        let MessageParts {
            exchange,
            routing_key,
            properties,
            body,
            persistent,
            priority,
        } = parts;
        let copied_body: &[u8] = if body.len() < SHARED_BODY_MIN {
            &body
        } else {
            &[]
        };
        let hidden_len: usize = hidden_keys.iter().map(|key| 1 + key.as_bytes().len()).sum();
        let mut bytes = Vec::with_capacity(
            exchange.len() + routing_key.len() + properties.len() + hidden_len + copied_body.len(),
        );
        bytes.extend_from_slice(exchange);
        bytes.extend_from_slice(routing_key);
        bytes.extend_from_slice(properties);
        for key in hidden_keys {
            bytes.extend(u8::try_from(key.as_bytes().len()));
            bytes.extend_from_slice(key.as_bytes());
        }
        bytes.extend_from_slice(copied_body);
        Self(Arc::new(Inner {
            bytes: bytes.into_boxed_slice(),
            exchange_len: u8::try_from(exchange.len()).expect("a short string has 255 bytes"),
            routing_key_len: u8::try_from(routing_key.len()).expect("a short string has 255 bytes"),
            properties_len: u32::try_from(properties.len()).expect("properties fit into a frame"),
            hidden_len: u32::try_from(hidden_len).expect("they came in a header"),
            shared_body: if body.len() < SHARED_BODY_MIN {
                Bytes::new()
            } else {
                body
            },
            persistent,
            priority,
            life,
        }))
    }

    /// Exchange of the publish; empty for the default exchange.
    #[must_use]
    pub fn exchange(&self) -> &[u8] {
        &self.0.bytes[..self.exchange_end()]
    }

    /// Routing key of the publish.
    #[must_use]
    pub fn routing_key(&self) -> &[u8] {
        &self.0.bytes[self.exchange_end()..self.routing_key_end()]
    }

    /// Property flags and fields, byte for byte as received.
    #[must_use]
    pub fn properties(&self) -> &[u8] {
        &self.0.bytes[self.routing_key_end()..self.properties_end()]
    }

    /// The properties, each on its own; none of those that are not well-formed, which none are.
    #[must_use]
    pub fn decoded_properties(&self) -> BasicProperties {
        RawProperties::from_wire(Bytes::copy_from_slice(self.properties()))
            .and_then(|raw| BasicProperties::decode(&raw))
            .unwrap_or_default()
    }

    /// Further routing keys of the publish that nobody who gets the message may see.
    pub fn hidden_keys(&self) -> impl Iterator<Item = ShortString> + '_ {
        let mut rest = &self.0.bytes[self.properties_end()..self.hidden_end()];
        std::iter::from_fn(move || {
            let (&len, behind) = rest.split_first()?;
            let (key, behind) = behind.split_at(len.into());
            rest = behind;
            ShortString::try_from(key).ok()
        })
    }

    /// The whole body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        match self.shared_body() {
            Some(body) => body,
            None => &self.0.bytes[self.hidden_end()..],
        }
    }

    /// The body for another message; copied only when it is small.
    #[must_use]
    pub fn body_bytes(&self) -> Bytes {
        match self.shared_body() {
            Some(body) => body.clone(),
            None => Bytes::copy_from_slice(self.body()),
        }
    }

    /// The body as a slice that can be kept without copying; `None` for small bodies.
    #[must_use]
    pub fn shared_body(&self) -> Option<&Bytes> {
        (!self.0.shared_body.is_empty()).then_some(&self.0.shared_body)
    }

    /// Delivery mode 2: to be stored in durable queues.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        self.0.persistent
    }

    /// The priority property, if set.
    #[must_use]
    pub fn priority(&self) -> Option<u8> {
        self.0.priority
    }

    /// An attempt with it failed before it came to its queue; see [`Life::was_delivered`].
    #[must_use]
    pub fn was_delivered(&self) -> bool {
        self.0.life.was_delivered
    }

    /// How long it lives, and whether it has died before.
    #[must_use]
    pub fn life(&self) -> Life {
        self.0.life
    }

    /// How long the properties were that it was published with; see [`Life::published_properties_len`].
    #[must_use]
    pub fn published_properties_len(&self) -> Option<NonZeroU32> {
        let published = self.0.life.published_properties_len;
        published.or_else(|| NonZeroU32::new(self.0.properties_len))
    }

    /// Bytes of the properties it was published with, and of its body.
    #[must_use]
    pub fn published_bytes(&self) -> u64 {
        let properties = self.published_properties_len();
        properties.map_or(0, |len| len.get().into()) + self.body().len() as u64
    }

    /// Bytes this message keeps in memory, about: everything it carries and its own entry.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Inner>() + self.0.bytes.len() + self.0.shared_body.len()
    }

    fn exchange_end(&self) -> usize {
        usize::from(self.0.exchange_len)
    }

    fn routing_key_end(&self) -> usize {
        self.exchange_end() + usize::from(self.0.routing_key_len)
    }

    fn properties_end(&self) -> usize {
        self.routing_key_end() + self.0.properties_len as usize
    }

    fn hidden_end(&self) -> usize {
        self.properties_end() + self.0.hidden_len as usize
    }
}

impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.exchange() == other.exchange()
                && self.routing_key() == other.routing_key()
                && self.properties() == other.properties()
                && self.hidden_keys().eq(other.hidden_keys())
                && self.body() == other.body()
                && self.is_persistent() == other.is_persistent()
                && self.priority() == other.priority()
                && self.life() == other.life())
    }
}

impl Eq for Message {}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("exchange", &self.exchange().escape_ascii().to_string())
            .field(
                "routing_key",
                &self.routing_key().escape_ascii().to_string(),
            )
            .field("body_bytes", &self.body().len())
            .field("persistent", &self.is_persistent())
            .field("priority", &self.priority())
            .field("life", &self.life())
            .finish()
    }
}
