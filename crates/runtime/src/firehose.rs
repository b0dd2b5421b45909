//! The firehose: while a vhost is traced, a copy of each publish and each delivery goes to its trace exchange.
//!
//! Nothing is traced unless somebody asks for it, and not for longer than until the broker stops. Copies are never
//! traced again. A copy is transient, has the body of what was traced, and tells the rest in its headers.

use std::sync::Arc;

use leveret_core::{
    dead_letter::routing_keys_of,
    ids::ChannelKey,
    message::{Message, MessageParts},
    queue::Command,
};
use leveret_wire::{
    content::BasicProperties,
    value::{FieldTable, FieldValue, LongString, ShortString},
};

use crate::{connections::ConnectionFacts, queue_handle::QueueHandle, vhost_handle::VhostHandle};

/// Where copies go.
const EXCHANGE: &str = "amq.rabbitmq.trace";

/// What RabbitMQ says where it does not know.
const NOBODY: &str = "none";

/// A message that was handed to somebody.
#[derive(Debug)]
pub(crate) struct Handed {
    pub(crate) to: ChannelKey,
    pub(crate) redelivered: bool,
    pub(crate) message: Message,
}

/// Who published.
#[derive(Debug, Clone, Copy)]
pub struct PublishedBy<'a> {
    /// The connection; `None` for the HTTP API.
    pub facts: Option<&'a ConnectionFacts>,
    /// The user.
    pub user: &'a ShortString,
    /// The channel's number.
    pub channel: u16,
}

impl VhostHandle {
    /// A copy of a publish that goes to these queues.
    #[cold]
    pub fn trace_publish(
        &self,
        message: &Message,
        by: PublishedBy<'_>,
        queues: &mut dyn Iterator<Item = &Arc<QueueHandle>>,
    ) {
        let Some(headers) = self.headers_of(message, by) else {
            return;
        };
        let routed = queues.map(|queue| long_text(queue.record().name.as_bytes()));
        let headers = headers.with("routed_queues", FieldValue::Array(routed.collect()));
        let exchange = String::from_utf8_lossy(message.exchange());
        self.emit(&format!("publish.{exchange}"), headers, message);
    }

    /// A copy of each message that was taken from this queue.
    #[cold]
    pub(crate) fn trace_handed(&self, queue: &ShortString, handed: &[Handed]) {
        let key = format!("deliver.{queue}");
        for Handed {
            to,
            redelivered,
            message,
        } in handed
        {
            let connections = &self.services().connections;
            let facts = connections.facts(to.connection);
            let user = facts.as_ref().map(|facts| facts.user.clone());
            let user = user.or_else(|| connections.visitor(to.connection));
            let by = PublishedBy {
                facts: facts.as_deref(),
                user: &user.unwrap_or_else(|| ShortString::from_static(NOBODY)),
                channel: to.channel,
            };
            if let Some(headers) = self.headers_of(message, by) {
                let redelivered = FieldValue::Int(i32::from(*redelivered));
                self.emit(&key, headers.with("redelivered", redelivered), message);
            }
        }
    }

    /// What is told of publishes and deliveries alike; `None` for a copy.
    fn headers_of(&self, message: &Message, by: PublishedBy<'_>) -> Option<FieldTable> {
        if message.exchange() == EXCHANGE.as_bytes() {
            return None;
        }
        let node = &self.services().node.name;
        let connection = by
            .facts
            .map_or_else(|| format!("<{node}>"), ConnectionFacts::name);
        let properties = message.decoded_properties();
        let keys = routing_keys_of(message, &properties);
        let keys = keys.iter().map(|key| long_text(key.as_bytes()));
        Some(
            FieldTable::new()
                .with("exchange_name", long_text(message.exchange()))
                .with("routing_keys", FieldValue::Array(keys.collect()))
                .with("properties", FieldValue::Table(table_of(properties)))
                .with("node", FieldValue::text(node.clone()))
                .with("vhost", long_text(self.name().as_bytes()))
                .with("connection", FieldValue::text(connection))
                .with("channel", FieldValue::Int(i32::from(by.channel)))
                .with("user", long_text(by.user.as_bytes())),
        )
    }

    fn emit(&self, key: &str, headers: FieldTable, traced: &Message) {
        let properties = BasicProperties {
            headers: Some(headers.detach()),
            ..BasicProperties::default()
        };
        let key = ShortString::cut(key);
        let copy = Message::new(MessageParts {
            exchange: EXCHANGE.as_bytes(),
            routing_key: key.as_bytes(),
            properties: properties.encode().as_bytes(),
            body: traced.body_bytes(),
            persistent: false,
            priority: None,
        });
        self.publish_own(&copy);
    }
}

/// Properties under the names and in the types of RabbitMQ's copies.
fn table_of(properties: BasicProperties) -> FieldTable {
    let mut table = FieldTable::new();
    let mut text = |name, value: Option<ShortString>| {
        if let Some(value) = value {
            table.push(ShortString::from_static(name), long_text(value.as_bytes()));
        }
    };
    text("content_type", properties.content_type);
    text("content_encoding", properties.content_encoding);
    text("correlation_id", properties.correlation_id);
    text("reply_to", properties.reply_to);
    text("expiration", properties.expiration);
    text("message_id", properties.message_id);
    text("type", properties.kind);
    text("user_id", properties.user_id);
    text("app_id", properties.app_id);
    text("cluster_id", properties.cluster_id);
    let octets = [
        ("delivery_mode", properties.delivery_mode),
        ("priority", properties.priority),
    ];
    for (name, octet) in octets {
        if let Some(octet) = octet {
            table = table.with(name, FieldValue::Int(octet.into()));
        }
    }
    if let Some(timestamp) = properties.timestamp {
        // RabbitMQ cuts it to 32 bits; where it does not fit this is the whole of it.
        let value = i32::try_from(timestamp.0).map_or_else(
            |_| FieldValue::Long(i64::try_from(timestamp.0).unwrap_or(i64::MAX)),
            FieldValue::Int,
        );
        table = table.with("timestamp", value);
    }
    if let Some(headers) = properties.headers {
        table = table.with("headers", FieldValue::Table(headers));
    }
    table
}

fn long_text(bytes: &[u8]) -> FieldValue {
    FieldValue::LongString(LongString::from(bytes.to_vec()))
}

impl VhostHandle {
    /// Hands a message of the broker's own to the queues behind its exchange. It was written down by nobody and is
    /// owed to nobody.
    pub(crate) fn publish_own(&self, message: &Message) {
        for queue in self.targets_of_own(message) {
            queue.submit(&mut vec![Command::Enqueue {
                message: message.clone(),
                confirm: None,
            }]);
        }
    }
}
