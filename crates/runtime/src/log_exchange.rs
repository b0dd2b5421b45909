//! The log exchange: lines of the log as messages of the topic exchange `amq.rabbitmq.log` of the default vhost, with the
//! level as key. The exchange is always there; whether lines come is the operator's choice.

use leveret_core::{
    message::{Message, MessageParts},
    record::{ExchangeKind, ExchangeRecord},
};
use leveret_wire::{
    content::BasicProperties,
    value::{FieldTable, FieldValue, ShortString, Timestamp as WireTimestamp},
};

use crate::broker::Broker;

const EXCHANGE: &str = "amq.rabbitmq.log";

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
    /// Publishes a line of the log to whoever has bound a queue for it.
    pub fn publish_log(&self, level: &str, content_type: &'static str, line: String) {
        let services = self.services();
        let vhost = ShortString::cut(&services.node.default_vhost);
        let Some(vhost) = services.registry.vhost(&vhost) else {
            return;
        };
        let node = FieldValue::text(services.node.name.clone());
        let properties = BasicProperties {
            content_type: Some(ShortString::from_static(content_type)),
            headers: Some(FieldTable::new().with("node", node)),
            timestamp: Some(WireTimestamp(services.clock.now().get() / 1000)),
            ..BasicProperties::default()
        };
        vhost.publish_own(&Message::new(MessageParts {
            exchange: EXCHANGE.as_bytes(),
            routing_key: level.as_bytes(),
            properties: properties.encode().as_bytes(),
            body: line.into_bytes().into(),
            persistent: false,
            priority: None,
        }));
    }
}
