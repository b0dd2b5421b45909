//! Where a dead message goes.

use bytes::Bytes;
use leveret_core::{
    arguments::DeadLetter,
    dead_letter::{DeadMessage, Death},
    ids::Timestamp,
    message::{Message, MessageParts},
    queue::DeathReason,
    vhost::{ExchangeDeclare, Occasion},
};

use crate::scenario::{VhostScenario, exchange, name};

/// A message with this key that was rejected in a queue with this dead-letter exchange.
fn dead(to: &str, key: &'static str) -> DeadMessage {
    let message = Message::new(MessageParts {
        exchange: b"",
        routing_key: key.as_bytes(),
        properties: &[0, 0],
        body: Bytes::new(),
        persistent: false,
        priority: None,
    });
    let death = Death {
        queue: &name("sick"),
        reason: DeathReason::Rejected,
        at: Timestamp::new(0),
        was_delivered: false,
    };
    let to = DeadLetter {
        exchange: Some(name(to)),
        routing_key: None,
    };
    DeadMessage::of(&message, death, &to).expect("the exchange can be asked")
}

#[test]
fn an_internal_exchange_may_be_asked_and_a_missing_one_leads_nowhere() {
    let mut vhost = VhostScenario::new();
    let internal = ExchangeDeclare {
        internal: true,
        ..exchange("X", "fanout")
    };
    vhost.declare_exchange(internal).expect("declared");
    let queue = vhost.queue("Q");
    vhost.bind("X", "Q", "");
    assert_eq!(
        vhost
            .vhost
            .route_dead(&dead("X", "any"), Occasion::default())
            .queues
            .as_slice(),
        [queue]
    );
    assert_eq!(
        vhost
            .vhost
            .route_dead(&dead("", "Q"), Occasion::default())
            .queues
            .as_slice(),
        [queue]
    );
    for nowhere in [dead("", "other"), dead("none", "Q")] {
        assert!(
            vhost
                .vhost
                .route_dead(&nowhere, Occasion::default())
                .queues
                .is_empty()
        );
    }
}
