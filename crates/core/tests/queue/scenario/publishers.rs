//! What publishers do to a queue, time that passes, and what comes of messages that die.

use std::fmt::Display;

use bytes::Bytes;
use leveret_core::{
    ids::{Seq, Timestamp},
    message::{Life, Message, MessageParts},
    queue::{Command, Confirm, DeathReason, Transfer},
};
use leveret_wire::{content::BasicProperties, value::FieldTable};

use super::{QueueScenario, channel, message, parts, persistent, transient};

impl QueueScenario {
    /// Publishes persistent messages, each with its label as the body, in one batch.
    #[track_caller]
    pub(crate) fn publish<L: Display>(&mut self, labels: impl IntoIterator<Item = L>) {
        let messages = labels
            .into_iter()
            .map(|label| persistent(&label.to_string()));
        self.publish_messages(messages.collect());
    }

    /// Publishes messages that are not to be stored.
    #[track_caller]
    pub(crate) fn publish_transient<L: Display>(&mut self, labels: impl IntoIterator<Item = L>) {
        let messages = labels
            .into_iter()
            .map(|label| transient(&label.to_string()));
        self.publish_messages(messages.collect());
    }

    /// Publishes one transient message with a body of this size.
    #[track_caller]
    pub(crate) fn publish_transient_sized(&mut self, label: &str, body_bytes: usize) {
        let body = Bytes::from(vec![b'.'; body_bytes]);
        self.publish_messages(vec![message(label, body, false)]);
    }

    /// Whether transient messages are to be stored.
    pub(crate) const fn set_memory_short(&mut self, is_short: bool) {
        self.queue.set_memory_short(is_short);
    }

    /// Bytes of ready messages that are in memory and nowhere else.
    pub(crate) const fn transient_bytes(&self) -> usize {
        self.queue.transient_bytes()
    }

    /// Publishes one persistent message with a body of zeros.
    #[track_caller]
    pub(crate) fn publish_sized(&mut self, label: &str, body_bytes: usize) {
        self.publish_messages(vec![message(label, Bytes::from(vec![0; body_bytes]), true)]);
    }

    /// Publishes persistent messages of one priority.
    #[track_caller]
    pub(crate) fn publish_with_priority<L: Display>(
        &mut self,
        priority: u8,
        labels: impl IntoIterator<Item = L>,
    ) {
        let messages = labels.into_iter().map(|label| {
            let label = label.to_string();
            Message::new(MessageParts {
                priority: Some(priority),
                ..parts(&label, Bytes::new(), true)
            })
        });
        self.publish_messages(messages.collect());
    }

    /// Publishes persistent messages that expire by themselves.
    #[track_caller]
    pub(crate) fn publish_expiring<L: Display>(
        &mut self,
        expiration_millis: u64,
        labels: impl IntoIterator<Item = L>,
    ) {
        let life = Life {
            expiration_millis: Some(expiration_millis),
            ..Life::default()
        };
        let messages = labels.into_iter().map(|label| {
            let label = label.to_string();
            Message::with_life(parts(&label, Bytes::new(), true), life)
        });
        self.publish_messages(messages.collect());
    }

    /// Dead letters come, of messages that somebody had in their old queue.
    #[track_caller]
    pub(crate) fn publish_delivered_elsewhere<L: Display>(
        &mut self,
        labels: impl IntoIterator<Item = L>,
    ) {
        let life = Life {
            has_died: true,
            was_delivered: true,
            ..Life::default()
        };
        let messages = labels.into_iter().map(|label| {
            let label = label.to_string();
            Message::with_life(parts(&label, Bytes::new(), true), life)
        });
        self.publish_messages(messages.collect());
    }

    /// Publishes one persistent message with everything it may bring.
    #[track_caller]
    pub(crate) fn publish_as(
        &mut self,
        label: &str,
        body_bytes: usize,
        priority: Option<u8>,
        expiration_millis: Option<u64>,
    ) {
        let life = Life {
            expiration_millis,
            ..Life::default()
        };
        let message = MessageParts {
            priority,
            ..parts(label, Bytes::from(vec![0; body_bytes]), true)
        };
        self.publish_messages(vec![Message::with_life(message, life)]);
    }

    /// Publishes one persistent message with headers.
    #[track_caller]
    pub(crate) fn publish_with_headers(&mut self, label: &str, headers: FieldTable) {
        let properties = BasicProperties {
            headers: Some(headers),
            ..BasicProperties::default()
        };
        let properties = properties.encode();
        let message = MessageParts {
            properties: properties.as_bytes(),
            ..parts(label, Bytes::new(), true)
        };
        self.publish_messages(vec![Message::new(message)]);
    }

    /// The places of what has died since the last look.
    pub(crate) fn take_dead(&mut self) -> Vec<(Seq, String)> {
        let dead = std::mem::take(&mut self.dead).into_iter();
        dead.filter_map(|(transfer, label)| Some((transfer.seq?, label)))
            .collect()
    }

    /// The labels of what is handed out and not settled, as far as this run knows.
    pub(crate) fn held(&self) -> Vec<String> {
        self.unacked.keys().cloned().collect()
    }

    /// Time goes on, and nobody tells the queue.
    pub(crate) fn wait(&mut self, millis: u64) {
        self.now += millis;
    }

    /// Time goes on, and the queue is told if it wants to know.
    #[track_caller]
    pub(crate) fn pass(&mut self, millis: u64) {
        let end = self.now + millis;
        // It may look at every message in a read of its own, and no longer.
        let depth = self.queue.depth();
        let mut again = depth.ready + depth.unacked + 1;
        while let Some(due) = self.queue.next_due().map(Timestamp::get)
            && due <= end
        {
            self.now = self.now.max(due);
            self.together(vec![Command::Tick]);
            let next = self.queue.next_due().map(Timestamp::get);
            if next.is_some_and(|next| next <= self.now) {
                if self.effects.expired {
                    break;
                }
                assert!(again > 0, "it asks for the same time for ever: {self:#?}");
                again -= 1;
            }
        }
        self.now = end;
    }

    /// These messages have died since the last look, in this order, for this reason.
    #[track_caller]
    pub(crate) fn expect_dead<L: Display>(
        &mut self,
        reason: DeathReason,
        labels: impl IntoIterator<Item = L>,
    ) -> Vec<Transfer> {
        let expected: Vec<_> = labels
            .into_iter()
            .map(|label| (reason, label.to_string()))
            .collect();
        let dead = std::mem::take(&mut self.dead);
        let found: Vec<_> = dead
            .iter()
            .map(|(transfer, label)| (transfer.reason, label.clone()))
            .collect();
        self.expect_equal("dead", &found, &expected);
        dead.into_iter().map(|(transfer, _)| transfer).collect()
    }

    /// Whether nobody has used the queue for long enough.
    pub(crate) fn take_expired(&mut self) -> bool {
        std::mem::take(&mut self.effects.expired)
    }

    /// Somebody looks at the queue.
    pub(crate) fn touch(&mut self) {
        self.queue.touch(Timestamp::new(self.now));
    }

    #[track_caller]
    fn publish_messages(&mut self, messages: Vec<Message>) {
        let commands = messages.into_iter().map(|message| {
            self.last_confirm += 1;
            Command::Enqueue {
                message,
                confirm: Some(Confirm {
                    channel: channel(0),
                    number: self.last_confirm,
                }),
            }
        });
        let commands = commands.collect();
        self.together(commands);
    }
}
