//! Addresses for replies without a queue.
//!
//! A consumer of `amq.rabbitmq.reply-to` has an address that nobody can guess: who knows it got it with
//! a request. Each channel has at most one, and [`ReplyAddress`] frees it when it is dropped.

use std::sync::Arc;

use dashmap::DashMap;
use leveret_core::{ids::ConsumerId, message::Message};
use leveret_wire::value::ShortString;

use crate::{names, names::generate_name, outbox::Outbox, vhost_handle::VhostHandle};

/// The name that stands for the replies of whichever channel uses it.
const REPLY_TO: &[u8] = b"amq.rabbitmq.reply-to";

/// What addresses begin with. No queue can be declared by such a name.
const PREFIX: &str = "amq.rabbitmq.reply-to.";

/// The consumer behind an address.
#[derive(Debug, Clone)]
pub struct ReplyTarget {
    consumer: ConsumerId,
    outbox: Arc<dyn Outbox>,
}

impl ReplyTarget {
    /// The consumer.
    #[must_use]
    pub const fn consumer(&self) -> ConsumerId {
        self.consumer
    }

    /// Hands it a reply; who is gone or does not read gets none.
    pub fn reply(&self, message: &Message) {
        self.outbox.reply(self.consumer, message);
    }
}

/// The addresses of one vhost.
#[derive(Debug, Default)]
pub(crate) struct ReplyAddresses(DashMap<ShortString, ReplyTarget>);

impl ReplyAddresses {
    pub(crate) fn find(&self, address: &ShortString) -> Option<ReplyTarget> {
        self.0.get(address).map(|found| found.clone())
    }

    pub(crate) fn add(&self, consumer: ConsumerId, outbox: Arc<dyn Outbox>) -> ShortString {
        let address = generate_name(PREFIX);
        self.0
            .insert(address.clone(), ReplyTarget { consumer, outbox });
        address
    }
}

/// An address that is somebody's until this is dropped.
#[derive(Debug)]
pub struct ReplyAddress {
    pub(crate) vhost: Arc<VhostHandle>,
    pub(crate) address: ShortString,
    pub(crate) consumer: ConsumerId,
}

impl ReplyAddress {
    /// What a request says where replies go.
    #[must_use]
    pub const fn address(&self) -> &ShortString {
        &self.address
    }

    /// Who gets them.
    #[must_use]
    pub const fn consumer(&self) -> ConsumerId {
        self.consumer
    }
}

impl Drop for ReplyAddress {
    fn drop(&mut self) {
        self.vhost.replies().0.remove(&self.address);
    }
}

/// Whether the name stands for the replies of a channel.
pub(crate) fn is_reply_to(name: &ShortString) -> bool {
    name.as_bytes() == REPLY_TO
}

/// Whether the name is kept for addresses, live, dead or malformed.
#[must_use]
pub fn is_reply_name(name: &ShortString) -> bool {
    name.as_bytes().starts_with(PREFIX.as_bytes())
}

/// Whether the name is or was an address.
pub(crate) fn is_reply_address(name: &ShortString) -> bool {
    let random = name.as_bytes().strip_prefix(PREFIX.as_bytes());
    random.is_some_and(names::is_random_part)
}
