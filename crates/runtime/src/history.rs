//! The messages that `x-recent-history` exchanges remember, for queues that are bound later.
//!
//! In memory only, as in RabbitMQ before it stored them: a restart begins with an empty history.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::RandomState;
use leveret_core::{message::Message, vhost::Remember};
use leveret_wire::value::ShortString;

/// Memory of all histories of a vhost. An exchange may be declared to remember any number of messages, and nobody ever
/// takes them: without a bound they would fill memory, and every publisher of the node would wait for ever.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// The histories of one vhost, oldest message first.
#[derive(Debug, Default)]
pub(crate) struct Histories {
    by_exchange: HashMap<ShortString, VecDeque<Message>, RandomState>,
    /// Memory of all of them, as if each message were there once for each exchange.
    bytes: usize,
}

impl Histories {
    pub(crate) fn remember(&mut self, by: &[Remember], message: &Message) {
        for Remember { exchange, length } in by {
            let history = self.by_exchange.entry(exchange.clone()).or_default();
            history.push_back(message.clone());
            self.bytes += message.memory_bytes();
            // The newest one goes as well where others have taken all the room.
            while (history.len() > *length || self.bytes > BYTES_MAX)
                && let Some(oldest) = history.pop_front()
            {
                self.bytes -= oldest.memory_bytes();
            }
        }
    }

    pub(crate) fn of(&self, exchange: &ShortString) -> impl Iterator<Item = &Message> {
        self.by_exchange.get(exchange).into_iter().flatten()
    }

    /// Forgets the histories of exchanges that are gone.
    pub(crate) fn retain(&mut self, exists: impl Fn(&ShortString) -> bool) {
        let Self { by_exchange, bytes } = self;
        for (_, history) in by_exchange.extract_if(|exchange, _| !exists(exchange)) {
            *bytes -= history.iter().map(Message::memory_bytes).sum::<usize>();
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use leveret_core::message::MessageParts;

    use super::*;

    fn name(text: &'static str) -> ShortString {
        ShortString::from_static(text)
    }

    fn message(bytes: usize) -> Message {
        Message::new(MessageParts {
            exchange: b"x",
            routing_key: b"",
            properties: &[0, 0],
            body: Bytes::from(vec![0; bytes]),
            persistent: false,
            priority: None,
        })
    }

    fn remembers(histories: &mut Histories, exchange: &'static str, length: usize, bytes: usize) {
        let exchange = name(exchange);
        histories.remember(&[Remember { exchange, length }], &message(bytes));
    }

    #[test]
    fn sc21_histories_have_a_bound_whatever_exchanges_were_declared_with() {
        let mut histories = Histories::default();
        for _ in 0..200 {
            remembers(&mut histories, "greedy", usize::MAX, 1 << 20);
            assert!(histories.bytes <= BYTES_MAX);
        }
        assert!((60..64).contains(&histories.of(&name("greedy")).count()));
        for _ in 0..30 {
            remembers(&mut histories, "usual", 20, 100);
        }
        assert_eq!(histories.of(&name("usual")).count(), 20);
        histories.retain(|exchange| *exchange != *"greedy");
        assert_eq!(histories.of(&name("greedy")).count(), 0);
        histories.retain(|_| false);
        assert_eq!(histories.bytes, 0);
    }
}
