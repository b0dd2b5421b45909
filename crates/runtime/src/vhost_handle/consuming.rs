//! Messages of a vhost are consumed: by consumers, one by one, by hand, and as replies without a queue.

use std::sync::Arc;

use leveret_core::{
    arguments::QueueType,
    consume::Consuming,
    ids::{ChannelKey, ConnectionId, ConsumerId, QueueId},
    message::Message,
    queue::{Answer, Command, ConsumerSettings, Got, Outcome},
    record::QueueRecord,
    refusal::Refusal,
    stream::StreamSubscription,
};
use leveret_wire::value::{FieldTable, FieldValue, ShortString};

use super::{VhostHandle, queues::refuse_stream};
use crate::{
    firehose::Handed,
    outbox::Outbox,
    queue_handle::QueueHandle,
    replies::{self, ReplyAddress, ReplyAddresses, ReplyTarget},
};

/// What one request of the HTTP API may take off a queue; it gets fewer messages then.
const TAKEN_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A message that was taken off a queue by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The message.
    pub message: Message,
    /// Somebody may have had it before.
    pub redelivered: bool,
    /// Ready messages left behind it.
    pub remaining: u64,
}

impl VhostHandle {
    /// Takes up to `count` messages off a queue for a user of the HTTP API, and says the same of all: they are gone, come back, or are rejected.
    ///
    /// Whoever waits for it may lose patience: it goes on to its end.
    ///
    /// # Errors
    ///
    /// See [`Self::get`].
    pub async fn take(
        self: &Arc<Self>,
        queue: ShortString,
        (connection, user): (ConnectionId, ShortString),
        count: usize,
        outcome: Outcome,
    ) -> Result<Vec<Taken>, Refusal> {
        let vhost = self.clone();
        let taking = tokio::spawn(async move {
            let _visit = vhost.services.connections.visit(connection, user);
            let channel = ChannelKey {
                connection,
                channel: 1,
                opening: 1,
            };
            let mut taken = Vec::new();
            let mut settles = Vec::new();
            let mut from = None;
            let mut bytes = 0;
            while taken.len() < count && bytes < TAKEN_BYTES_MAX {
                let Some((id, got)) = vhost.get(&queue, channel, false).await? else {
                    break;
                };
                from = Some(id);
                settles.push(Command::Settle {
                    seq: got.seq,
                    handout: got.handout,
                    outcome,
                    more: false,
                });
                bytes += got.message.memory_bytes();
                taken.push(Taken {
                    message: got.message,
                    redelivered: got.redelivered,
                    remaining: got.remaining,
                });
            }
            if let Some(queue) = from.and_then(|id| vhost.services.registry.queue(id)) {
                queue.submit(&mut settles);
            }
            Ok(taken)
        });
        taking.await.unwrap_or_else(|_| Ok(Vec::new()))
    }

    /// `basic.consume`: the consumer exists and waits for [`QueueHandle::submit`] of a
    /// [`Command::Resume`].
    ///
    /// # Errors
    ///
    /// [`Refusal::NotFound`], [`Refusal::Locked`]; see [`Consuming::of`]; [`Refusal::ExclusiveUse`]; for a reply address
    /// [`Refusal::ReplyAddressOfAnother`] or [`Refusal::ReplyAddressInUse`].
    pub async fn subscribe(
        &self,
        name: &ShortString,
        consumer: ConsumerId,
        settings: ConsumerSettings,
        arguments: &FieldTable,
        outbox: Arc<dyn Outbox>,
    ) -> Result<Arc<QueueHandle>, Refusal> {
        if replies::is_reply_address(name) {
            return Err(self.reply_address_taken(name, consumer.channel));
        }
        let connection = consumer.channel.connection;
        let handle = self.usable_queue(name, connection)?;
        let now = self.services.clock.now();
        let consuming = Consuming::of(handle.record(), settings, arguments, now)?;
        handle.announce_consumers().await;
        handle.attach(connection, outbox);
        let subscribe = |request| match consuming {
            Consuming::Taking(settings) => Command::Subscribe {
                request,
                consumer,
                settings,
            },
            Consuming::Reading {
                prefetch,
                start,
                filter,
            } => Command::SubscribeStream(Box::new(StreamSubscription {
                request,
                consumer,
                prefetch,
                start,
                filter,
            })),
        };
        match handle.ask(subscribe).await {
            Some(Answer::Subscribed) => Ok(handle),
            Some(Answer::ExclusiveUse) => Err(Refusal::ExclusiveUse {
                name: name.clone(),
                vhost: self.name.clone(),
            }),
            _ => Err(self.queue_not_found(name)),
        }
    }

    /// `basic.get`: the message, if there is one, and the queue that has it.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotFound`], [`Refusal::Locked`], [`Refusal::ReplyAddressGet`].
    pub async fn get(
        &self,
        name: &ShortString,
        channel: ChannelKey,
        no_ack: bool,
    ) -> Result<Option<(QueueId, Got)>, Refusal> {
        if replies::is_reply_address(name) {
            let (name, vhost) = (name.clone(), self.name.clone());
            return Err(Refusal::ReplyAddressGet { name, vhost });
        }
        let handle = self.usable_queue(name, channel.connection)?;
        refuse_stream(handle.record(), "basic.get")?;
        check_get(handle.record())?;
        handle.announce_consumers().await;
        match handle
            .ask(|request| Command::Get {
                request,
                channel,
                no_ack,
            })
            .await
        {
            Some(Answer::Got(got)) => {
                if let Some(got) = got.as_ref().filter(|_| self.is_traced()) {
                    let handed = Handed {
                        to: channel,
                        redelivered: got.redelivered,
                        message: got.message.clone(),
                    };
                    self.trace_handed(name, &[handed]);
                }
                Ok(got.map(|got| (handle.id(), got)))
            }
            Some(Answer::Unreadable) => Err(Refusal::Storage {
                what: format!(
                    "messages of queue '{name}' in vhost '{}' cannot be read from the disk at the moment",
                    self.name
                ),
            }),
            _ => Err(self.queue_not_found(name)),
        }
    }

    /// From now on what is published to the address goes to this consumer.
    pub fn add_reply_consumer(
        self: &Arc<Self>,
        consumer: ConsumerId,
        outbox: Arc<dyn Outbox>,
    ) -> ReplyAddress {
        ReplyAddress {
            vhost: self.clone(),
            address: self.replies.add(consumer, outbox),
            consumer,
        }
    }

    /// The consumer behind an address, while there is one.
    #[must_use]
    pub fn reply_target(&self, address: &ShortString) -> Option<ReplyTarget> {
        self.replies.find(address)
    }

    pub(crate) const fn replies(&self) -> &ReplyAddresses {
        &self.replies
    }

    /// Why nobody consumes from an address by its name.
    fn reply_address_taken(&self, name: &ShortString, channel: ChannelKey) -> Refusal {
        let is_own = self
            .replies
            .find(name)
            .is_some_and(|target| target.consumer().channel == channel);
        let (name, vhost) = (name.clone(), self.name.clone());
        if is_own {
            Refusal::ReplyAddressInUse { name, vhost }
        } else {
            Refusal::ReplyAddressOfAnother { name, vhost }
        }
    }
}

/// A quorum queue that serves one consumer only serves nobody else.
fn check_get(record: &QueueRecord) -> Result<(), Refusal> {
    let queue_type = record.queue_type;
    let is_single = record.arguments.get(b"x-single-active-consumer");
    let is_single = is_single.and_then(FieldValue::as_bool).unwrap_or(false);
    if queue_type == QueueType::Quorum && is_single {
        return Err(Refusal::GetPastActiveConsumer {
            queue_type,
            name: record.name.clone(),
            vhost: record.vhost.clone(),
        });
    }
    Ok(())
}
