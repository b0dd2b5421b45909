//! What goes out to the client: replies, deliveries, returns and confirms, encoded where they arise.
//!
//! The server keeps this behind a lock of its own, since whoever has a queue delivers. What the other
//! half of the connection has to know of it is collected as [`News`].
//!
//! Always true:
//! * delivery tags of a channel are given in the order of the bytes;
//! * every delivery that is to be settled is in the news before its bytes can be taken;
//! * nothing is written for a channel that is not open, or for an earlier opening of its number.

mod confirms;
mod room;
mod segments;

use bytes::{Bytes, BytesMut};
use leveret_core::{
    ids::{ChannelKey, ConsumerId, HandedOut},
    message::Message,
    queue::Overdue,
};
use leveret_wire::{
    frame,
    ids::{ChannelId, DeliveryTag},
    method::{self, Method, basic, connection},
    reply_code::ReplyCode,
    value::ShortString,
};

use crate::status::ChannelCounts;

use self::{
    confirms::{Confirms, Run},
    room::Room,
    segments::Segments,
};

/// What the client said it can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// `connection.close` after a refused login.
    pub authentication_failure_close: bool,
    /// `basic.cancel` from the server.
    pub consumer_cancel_notify: bool,
    /// `connection.blocked` and `unblocked`.
    pub connection_blocked: bool,
}

/// A delivery that waits to be settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered {
    /// The channel that has it.
    pub channel: ChannelKey,
    /// Its tag there.
    pub tag: DeliveryTag,
    /// Where it came from.
    pub at: HandedOut,
    /// The number of the consumer that has it; 0 for `basic.get`.
    pub consumer: u32,
    /// It takes of the room that the consumers of a channel may share.
    pub takes_room: bool,
}

/// What happened on the outgoing side and the [`crate::Connection`] has to learn.
#[derive(Debug, Default)]
pub struct News {
    pub(crate) delivered: Vec<Delivered>,
    pub(crate) cancelled: Vec<ConsumerId>,
    /// Channels that are to end, because they had messages for so many milliseconds.
    pub(crate) overdue: Vec<(ChannelKey, u64)>,
}

/// Entries of news whose memory is kept for the next ones.
const NEWS_KEPT: usize = 1024;

impl News {
    /// Gives up what only a burst needs, once it was drained.
    pub fn release_capacity(&mut self) {
        self.delivered.shrink_to(NEWS_KEPT);
        self.cancelled.shrink_to(NEWS_KEPT);
        self.overdue.shrink_to(NEWS_KEPT);
    }

    /// Nothing happened.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.delivered.is_empty() && self.cancelled.is_empty() && self.overdue.is_empty()
    }

    /// Deliveries that wait to be settled, in the order of their tags on each channel.
    #[must_use]
    pub fn delivered(&self) -> &[Delivered] {
        &self.delivered
    }
}

/// The outgoing half of a connection.
#[derive(Debug)]
pub struct Outgoing {
    segments: Segments,
    /// Agreed size of a frame, envelope included.
    frame_max: usize,
    capabilities: Capabilities,
    /// Sorted by number.
    channels: Vec<Channel>,
    /// Where the last one was found.
    last: usize,
    news: News,
    /// How the commit that was waited for ended. There is one at a time: the connection waits for it.
    committed: Option<bool>,
    /// Confirms written and not asked for.
    confirmed: u64,
    /// Channels with confirms that are decided and not written.
    decided: Vec<ChannelKey>,
}

#[derive(Debug)]
struct Channel {
    key: ChannelKey,
    next_tag: u64,
    /// Sorted by number, since numbers are given in rising order.
    consumers: Vec<Consumer>,
    /// Those among them that are gone: so many that all of them are worth one move.
    gone: usize,
    /// Consumers above all that were added; they were cancelled before they were answered.
    cancelled_early: Vec<u32>,
    /// The highest number that was added.
    last_number: u32,
    confirms: Confirms,
    /// The numbers are those of commits.
    is_transactional: bool,
    /// It is in [`Outgoing::decided`].
    is_decided: bool,
    /// Only of a channel whose consumers share a bound, or did.
    room: Option<Box<Room>>,
    /// What went out on it.
    counts: ChannelCounts,
}

#[derive(Debug)]
struct Consumer {
    number: u32,
    tag: ShortString,
    no_ack: bool,
    takes_room: bool,
    is_gone: bool,
}

impl Channel {
    const fn id(&self) -> ChannelId {
        ChannelId::new(self.key.channel)
    }

    const fn take_tag(&mut self) -> DeliveryTag {
        let tag = DeliveryTag::new(self.next_tag);
        self.next_tag += 1;
        tag
    }

    fn consumer_position(&self, number: u32) -> Option<usize> {
        let at = self
            .consumers
            .binary_search_by_key(&number, |known| known.number)
            .ok()?;
        self.consumers
            .get(at)
            .is_some_and(|known| !known.is_gone)
            .then_some(at)
    }

    /// Takes a consumer out; its tag. Tens of thousands may go one by one: not each of them moves the others.
    fn take_consumer(&mut self, number: u32) -> Option<ShortString> {
        let at = self.consumer_position(number)?;
        let known = self.consumers.get_mut(at)?;
        known.is_gone = true;
        let tag = std::mem::take(&mut known.tag);
        self.gone += 1;
        if 2 * self.gone >= self.consumers.len() {
            self.consumers.retain(|known| !known.is_gone);
            self.gone = 0;
        }
        if let Some(room) = &mut self.room {
            room.forget(number);
        }
        Some(tag)
    }
}

impl Default for Outgoing {
    fn default() -> Self {
        Self::new()
    }
}

impl Outgoing {
    /// The outgoing half of a connection that was just accepted.
    #[must_use]
    pub fn new() -> Self {
        Self {
            segments: Segments::new(),
            frame_max: frame::FRAME_MIN_SIZE,
            capabilities: Capabilities::default(),
            channels: Vec::new(),
            last: 0,
            news: News::default(),
            committed: None,
            confirmed: 0,
            decided: Vec::new(),
        }
    }

    /// The agreed frame size, envelope included. [`crate::Connection::answer`] sets it.
    pub const fn set_frame_max(&mut self, frame_max: usize) {
        self.frame_max = frame_max;
    }

    /// What the client can take. [`crate::Connection::answer`] sets it.
    pub const fn set_capabilities(&mut self, capabilities: Capabilities) {
        self.capabilities = capabilities;
    }

    /// From now on there is this channel. [`crate::Connection::answer`] opens it.
    pub fn open_channel(&mut self, key: ChannelKey) {
        let channel = Channel {
            key,
            next_tag: 1,
            consumers: Vec::new(),
            gone: 0,
            cancelled_early: Vec::new(),
            last_number: 0,
            confirms: Confirms::new(),
            is_transactional: false,
            is_decided: false,
            room: None,
            counts: ChannelCounts::default(),
        };
        match self
            .channels
            .binary_search_by_key(&key.channel, |known| known.key.channel)
        {
            Ok(at) => {
                if let Some(known) = self.channels.get_mut(at) {
                    *known = channel;
                }
            }
            Err(at) => {
                if self.channels.is_empty() {
                    // Most connections have one channel; a vector would begin with room for four.
                    self.channels.reserve_exact(1);
                }
                self.channels.insert(at, channel);
            }
        }
    }

    /// From now on nothing is written for this channel. [`crate::Connection::answer`] closes it.
    pub fn close_channel(&mut self, key: ChannelKey) {
        self.channels.retain(|known| known.key != key);
        if self.channels.is_empty() {
            self.channels = Vec::new();
        }
    }

    /// From now on nothing is written for any channel.
    pub fn close_all_channels(&mut self) {
        self.channels = Vec::new();
        self.decided = Vec::new();
    }

    /// From now on there is this consumer. [`crate::Connection::answer`] adds it, behind its
    /// consume-ok. One that was cancelled before ends at once.
    /// `takes_room` is true where its deliveries are among those that the consumers of a channel may have a
    /// bound for together.
    pub fn add_consumer(
        &mut self,
        consumer: ConsumerId,
        tag: ShortString,
        no_ack: bool,
        takes_room: bool,
    ) {
        let Some(channel) = self.channel(consumer.channel) else {
            return;
        };
        let number = consumer.number;
        debug_assert!(
            channel.last_number < number,
            "consumers are numbered in rising order"
        );
        channel.last_number = number;
        channel.consumers.push(Consumer {
            number,
            tag,
            no_ack,
            takes_room,
            is_gone: false,
        });
        let is_cancelled = channel.cancelled_early.contains(&number);
        channel.cancelled_early.retain(|early| *early > number);
        if is_cancelled {
            self.cancel_consumer(consumer);
        }
    }

    /// From now on nothing is delivered to this consumer. [`crate::Connection::answer`] removes it.
    pub fn remove_consumer(&mut self, consumer: ConsumerId) -> bool {
        self.take_consumer(consumer).is_some()
    }

    /// The consumer ended on the server's side, for example with its queue. Clients that can take it are
    /// told; its tag is free either way.
    pub fn cancel_consumer(&mut self, consumer: ConsumerId) {
        let Some(tag) = self.take_consumer(consumer) else {
            self.note_early(consumer);
            return;
        };
        self.news.cancelled.push(consumer);
        if self.capabilities.consumer_cancel_notify {
            let cancel = basic::Cancel {
                consumer_tag: tag,
                nowait: true,
            };
            self.put_method(ChannelId::new(consumer.channel.channel), &cancel.into());
        }
    }

    /// A message was taken back because it was not acked in time. A consumer is cancelled; where that cannot be
    /// told, the channel is to end, which the [`crate::Connection`] does when it learns of it. True in that case.
    pub fn take_back(&mut self, overdue: Overdue) -> bool {
        let Overdue {
            channel,
            consumer,
            timeout_millis,
        } = overdue;
        match consumer {
            Some(consumer) if self.capabilities.consumer_cancel_notify => {
                self.cancel_consumer(consumer);
                false
            }
            Some(_) | None => {
                self.news.overdue.push((channel, timeout_millis));
                true
            }
        }
    }

    /// Hands a message to a consumer. False, and nothing is written, when it is gone.
    pub fn deliver(
        &mut self,
        consumer: ConsumerId,
        from: HandedOut,
        redelivered: bool,
        message: &Message,
    ) -> bool {
        let Some(at) = self.position(consumer.channel) else {
            return false;
        };
        let Some(channel) = self.channels.get_mut(at) else {
            return false;
        };
        let Some(consumer_at) = channel.consumer_position(consumer.number) else {
            return false;
        };
        let (tag, id) = (channel.take_tag(), channel.id());
        let Some(known) = channel.consumers.get(consumer_at) else {
            return false;
        };
        method::put_deliver(
            self.segments.tail(),
            id,
            known.tag.as_bytes(),
            tag,
            redelivered,
            message.exchange(),
            message.routing_key(),
        );
        if known.takes_room
            && let Some(room) = &mut channel.room
        {
            room.deliver(known.no_ack);
        }
        channel.counts.redeliver += u64::from(redelivered);
        if known.no_ack {
            channel.counts.deliver_no_ack += 1;
        } else {
            channel.counts.deliver += 1;
            self.news.delivered.push(Delivered {
                channel: consumer.channel,
                tag,
                at: from,
                consumer: consumer.number,
                takes_room: known.takes_room,
            });
        }
        self.segments.put_content(id, message, self.frame_max);
        true
    }

    /// From now on the consumers of this channel have a bound together, or none any more. Of the deliveries that
    /// take room of it `learned` are unacked as far as the [`crate::Connection`] knows. To be called before queues
    /// ask with [`Self::reserve`].
    pub fn set_room(&mut self, channel: ChannelKey, max: Option<u16>, learned: u64) {
        let in_news = self.news.delivered.iter();
        let in_news = in_news.filter(|known| known.takes_room && known.channel == channel);
        let held = learned + in_news.count() as u64;
        if let Some(known) = self.channel(channel) {
            known.room.get_or_insert_default().set(max, held);
        }
    }

    /// Keeps room in its channel for a message to this consumer. Without room the consumer is remembered, for
    /// [`Self::next_waiting`].
    pub fn reserve(&mut self, consumer: ConsumerId) -> bool {
        self.room(consumer.channel)
            .is_none_or(|room| room.reserve(consumer.number))
    }

    /// So many deliveries of the channel that took room are done with.
    pub fn give_back_room(&mut self, channel: ChannelKey, count: u64) {
        if let Some(room) = self.room(channel) {
            room.give_back(count);
        }
    }

    /// The consumer of this channel that has waited longest for room, if there is some. Its queue may ask again, for
    /// all of them that it has: until there is no room any more, or nobody waits.
    pub fn next_waiting(&mut self, channel: ChannelKey) -> Option<ConsumerId> {
        let number = self.room(channel)?.next_waiting()?;
        Some(ConsumerId { channel, number })
    }

    fn room(&mut self, channel: ChannelKey) -> Option<&mut Room> {
        self.channel(channel)?.room.as_deref_mut()
    }

    /// Answers `basic.get` with a message. [`crate::Connection::answer`] calls it.
    pub fn get_ok(
        &mut self,
        channel: ChannelKey,
        from: HandedOut,
        redelivered: bool,
        message: &Message,
        message_count: u32,
        no_ack: bool,
    ) -> bool {
        let Some(known) = self.channel(channel) else {
            return false;
        };
        let (tag, id) = (known.take_tag(), known.id());
        known.counts.redeliver += u64::from(redelivered);
        if no_ack {
            known.counts.get_no_ack += 1;
        } else {
            known.counts.get += 1;
            self.news.delivered.push(Delivered {
                channel,
                tag,
                at: from,
                consumer: 0,
                takes_room: false,
            });
        }
        let get_ok = basic::GetOk {
            delivery_tag: tag,
            redelivered,
            exchange: name(message.exchange()),
            routing_key: name(message.routing_key()),
            message_count,
        };
        self.put_method(id, &get_ok.into());
        self.segments.put_content(id, message, self.frame_max);
        true
    }

    /// What went out on a channel since it was opened.
    #[must_use]
    pub fn counts(&mut self, channel: ChannelKey) -> ChannelCounts {
        self.channel(channel)
            .map_or_else(ChannelCounts::default, |known| known.counts)
    }

    /// A publish will be confirmed once `targets` queues have answered; without targets it is
    /// confirmed by that. To be called in the order of the numbers, before the publish is submitted.
    pub fn expect_confirm(&mut self, channel: ChannelKey, number: u64, targets: u32) {
        let Some(at) = self.position(channel) else {
            return;
        };
        if let Some(known) = self.channels.get_mut(at) {
            known.confirms.expect(number, targets);
            note_decided(known, &mut self.decided);
        }
    }

    /// A transaction will be committed once `targets` queues have answered, one for each publish and
    /// queue; see [`Self::take_commit`]. To be called before the publishes are submitted.
    pub fn expect_commit(&mut self, channel: ChannelKey, number: u64, targets: u32) {
        if let Some(known) = self.channel(channel) {
            known.is_transactional = true;
        }
        self.expect_confirm(channel, number, targets);
    }

    /// Whether a commit is decided and was not taken.
    #[must_use]
    pub const fn has_commit(&self) -> bool {
        self.committed.is_some()
    }

    /// Whether every queue accepted the publishes of the commit that was waited for.
    pub const fn take_commit(&mut self) -> Option<bool> {
        self.committed.take()
    }

    /// One target of a publish answered. A publish that one of them refused is nacked.
    pub fn confirm(&mut self, channel: ChannelKey, number: u64, accepted: bool) {
        let Some(at) = self.position(channel) else {
            return;
        };
        if let Some(known) = self.channels.get_mut(at) {
            known.confirms.answer(number, accepted);
            note_decided(known, &mut self.decided);
        }
    }

    /// Publishes of a channel whose confirms are owed.
    #[must_use]
    pub fn unconfirmed(&mut self, channel: ChannelKey) -> u64 {
        self.channel(channel)
            .map_or(0, |known| known.confirms.owed())
    }

    /// Writes the confirms that are decided, in the order of the publishes: runs of the same outcome
    /// become one frame. To be called once per batch.
    pub fn flush_confirms(&mut self) {
        let mut decided = std::mem::take(&mut self.decided);
        for key in decided.drain(..) {
            let Some(at) = self.position(key) else {
                continue;
            };
            let Some(known) = self.channels.get_mut(at) else {
                continue;
            };
            known.is_decided = false;
            let id = known.id();
            while let Some(run) = known.confirms.take_run() {
                if known.is_transactional {
                    self.committed = Some(run.accepted);
                    continue;
                }
                self.confirmed += run.count;
                known.counts.confirm += run.count;
                frame::put_method(self.segments.tail(), id, &confirm_method(run));
            }
        }
        self.decided = decided;
    }

    /// Publishes that were confirmed since this was last asked.
    pub fn take_confirmed(&mut self) -> u64 {
        std::mem::take(&mut self.confirmed)
    }

    /// The server does not read any more, for the reason given. Only clients that can take it are told.
    pub fn tell_blocked(&mut self, reason: &str) {
        if self.capabilities.connection_blocked {
            let blocked = connection::Blocked {
                reason: ShortString::cut(reason),
            };
            self.put_method(ChannelId::CONNECTION, &blocked.into());
        }
    }

    /// The server reads again.
    pub fn tell_unblocked(&mut self) {
        if self.capabilities.connection_blocked {
            self.put_method(ChannelId::CONNECTION, &connection::Unblocked {}.into());
        }
    }

    /// Adds encoded replies behind what is there; `replies` is empty afterwards and keeps its memory.
    pub fn append(&mut self, replies: &mut BytesMut) {
        if !replies.is_empty() {
            self.segments.tail().extend_from_slice(replies);
            replies.clear();
        }
    }

    /// Bytes that were not taken yet.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.segments.pending_bytes()
    }

    /// Everything there is, for one vectored write; put behind what `into` holds.
    pub fn take(&mut self, into: &mut Vec<Bytes>) {
        self.segments.take(into);
    }

    /// What happened since this was last asked; put behind what `into` holds.
    pub fn take_delivered(&mut self, into: &mut News) {
        if into.is_empty() {
            std::mem::swap(&mut self.news, into);
        } else {
            into.delivered.append(&mut self.news.delivered);
            into.cancelled.append(&mut self.news.cancelled);
            into.overdue.append(&mut self.news.overdue);
        }
    }

    /// Gives up buffers that are empty, so that a connection without traffic keeps none.
    pub fn release_idle_capacity(&mut self) {
        if self.pending_bytes() == 0 {
            self.segments = Segments::new();
        }
        if self.news.is_empty() {
            self.news = News::default();
        }
    }

    fn put_method(&mut self, channel: ChannelId, method: &Method) {
        frame::put_method(self.segments.tail(), channel, method);
    }

    /// A cancel for a consumer that is not known: gone already, or its consume is not answered yet.
    fn note_early(&mut self, consumer: ConsumerId) {
        if let Some(channel) = self.channel(consumer.channel)
            && channel.last_number < consumer.number
        {
            channel.cancelled_early.push(consumer.number);
        }
    }

    fn take_consumer(&mut self, consumer: ConsumerId) -> Option<ShortString> {
        let channel = self.channel(consumer.channel)?;
        channel.take_consumer(consumer.number)
    }

    fn channel(&mut self, key: ChannelKey) -> Option<&mut Channel> {
        let at = self.position(key)?;
        self.channels.get_mut(at)
    }

    /// Where this opening of the channel is; batches mostly ask for the same one again.
    fn position(&mut self, key: ChannelKey) -> Option<usize> {
        if self
            .channels
            .get(self.last)
            .is_some_and(|known| known.key == key)
        {
            return Some(self.last);
        }
        let at = self
            .channels
            .binary_search_by_key(&key.channel, |known| known.key.channel)
            .ok()?;
        self.last = at;
        self.channels
            .get(at)
            .is_some_and(|known| known.key == key)
            .then_some(at)
    }
}

fn note_decided(channel: &mut Channel, decided: &mut Vec<ChannelKey>) {
    if !channel.is_decided && channel.confirms.has_decided() {
        channel.is_decided = true;
        decided.push(channel.key);
    }
}

fn confirm_method(run: Run) -> Method {
    let delivery_tag = DeliveryTag::new(run.last);
    let multiple = run.count > 1;
    if run.accepted {
        basic::Ack {
            delivery_tag,
            multiple,
        }
        .into()
    } else {
        basic::Nack {
            delivery_tag,
            multiple,
            requeue: true,
        }
        .into()
    }
}

/// Hands a mandatory message back that no queue took, behind what `out` holds.
pub(crate) fn put_return(
    out: &mut BytesMut,
    channel: ChannelId,
    message: &Message,
    frame_max: usize,
) {
    let method = basic::Return {
        reply_code: ReplyCode::NoRoute.code(),
        reply_text: ShortString::from_static(ReplyCode::NoRoute.name()),
        exchange: name(message.exchange()),
        routing_key: name(message.routing_key()),
    };
    frame::put_method(out, channel, &method.into());
    let body = message.body();
    frame::put_content_header(out, channel, body.len() as u64, message.properties());
    frame::put_body_frames(out, channel, body, frame_max);
}

fn name(bytes: &[u8]) -> ShortString {
    ShortString::try_from(bytes).expect("a message's names were short strings when it came")
}
