//! The messages that `x-recent-history` exchanges remember, for queues that are bound later.
//!
//! In memory only, as in RabbitMQ before it stored them: a restart begins with an empty history.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::RandomState;
use leveret_core::{message::Message, vhost::Remember};
use leveret_wire::value::ShortString;

/// The histories of one vhost, oldest message first.
#[derive(Debug, Default)]
pub(crate) struct Histories(HashMap<ShortString, VecDeque<Message>, RandomState>);

impl Histories {
    pub(crate) fn remember(&mut self, by: &[Remember], message: &Message) {
        for Remember { exchange, length } in by {
            let history = self.0.entry(exchange.clone()).or_default();
            history.push_back(message.clone());
            while history.len() > *length {
                history.pop_front();
            }
        }
    }

    pub(crate) fn of(&self, exchange: &ShortString) -> impl Iterator<Item = &Message> {
        self.0.get(exchange).into_iter().flatten()
    }

    /// Forgets the histories of exchanges that are gone.
    pub(crate) fn retain(&mut self, exists: impl Fn(&ShortString) -> bool) {
        self.0.retain(|exchange, _| exists(exchange));
    }
}
