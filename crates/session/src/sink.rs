//! Where the hot path goes: publishes and settles, staged by the server and submitted per queue.

use std::sync::Arc;

use bytes::Bytes;
use leveret_core::{
    ids::{ChannelKey, HandedOut},
    message::Message,
    queue::Outcome,
    record::ExchangeKind,
    refusal::Refusal,
    rights::Rights,
};
use leveret_wire::{content::RawProperties, value::ShortString};

/// What the server does for a connection without being waited for.
///
/// `publish` and `settle` only stage work, in the order of the calls. The server submits what was
/// staged when `receive` returns, after it appended [`crate::Connection::replies`] to the outgoing
/// buffer.
pub trait Sink {
    /// Routes and stages one publish. A refusal closes the channel, or the connection where its code
    /// is a hard one.
    ///
    /// # Errors
    ///
    /// The exchange is missing or internal, or the user may not write to it.
    fn publish(&mut self, publish: Publish) -> Result<Routed, Refusal>;

    /// What [`Self::publish`] would say of this exchange and of these routing keys. Asked only for a publish that is
    /// refused for another reason, because these refusals come first.
    ///
    /// # Errors
    ///
    /// As for `publish`.
    fn check_exchange(
        &mut self,
        channel: ChannelKey,
        exchange: &ShortString,
        keys: &[ShortString],
    ) -> Result<(), Refusal>;

    /// What the user may do at this moment; asked for each method anew.
    fn rights(&mut self) -> Arc<Rights>;

    /// The type of this exchange, if it exists.
    fn exchange_kind(&mut self, name: &ShortString) -> Option<ExchangeKind>;

    /// Stages what was published in a transaction, in the order it came, and behind all of that what
    /// was settled. [`crate::Call::Commit`] follows at once.
    fn commit(&mut self, commit: Commit);

    /// Drops what was published in a transaction.
    fn rollback(&mut self, channel: ChannelKey);

    /// So much is staged that it is to be submitted before another frame is taken: a read holds thousands of publishes,
    /// and each of them may lead to thousands of queues.
    fn is_full(&self) -> bool;

    /// Stages the end of one delivery.
    fn settle(&mut self, settle: Settle);

    /// Of the deliveries that were settled before, or are by a commit that was staged before, so many took of the
    /// room that the consumers of the channel share. They give it back behind all that was staged.
    fn give_back_room(&mut self, channel: ChannelKey, count: u64);

    /// A name nobody else has: `prefix` and 22 random characters of URL-safe base64.
    fn generate_name(&mut self, prefix: &str) -> ShortString;
}

/// What became of a publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Routed {
    /// Staged for so many queues.
    Taken(usize),
    /// No queue takes it and nobody wants it back.
    Dropped,
    /// It was mandatory and no queue takes it. It goes back at once, so that the return stands before
    /// the replies to what came behind the publish.
    Returned(Message),
}

/// How a publish is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// Not at all.
    Nothing,
    /// By a confirm of this number.
    Confirm(u64),
    /// Together with its transaction. It is routed now and staged by [`Sink::commit`]; the end of its
    /// channel drops it.
    Commit,
}

/// The end of a transaction that takes effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The channel.
    pub channel: ChannelKey,
    /// Which commit of this channel, counted from 1.
    pub number: u64,
    /// What was settled, in order.
    pub settles: Vec<Settle>,
}

/// One published message. Strings, properties and a body of one frame are slices of the read buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish {
    /// The channel it came on.
    pub channel: ChannelKey,
    /// Its exchange; empty for the default one.
    pub exchange: ShortString,
    /// Its routing key.
    pub routing_key: ShortString,
    /// To be returned if no queue takes it.
    pub mandatory: bool,
    /// What the publisher is to learn of it.
    pub promise: Promise,
    /// Property flags and fields, byte for byte as received unless the broker had to change one;
    /// well-formed.
    pub properties: RawProperties,
    /// Delivery mode 2.
    pub persistent: bool,
    /// The priority property, if set.
    pub priority: Option<u8>,
    /// The expiration property in milliseconds, if set.
    pub expiration_millis: Option<u64>,
    /// The entries of the headers table, without its length, if set; well-formed.
    pub headers: Option<Bytes>,
    /// Further routing keys, from the headers `CC` and `BCC`. The latter is gone from the properties.
    pub extra_keys: Vec<ShortString>,
    /// How many of these, the last ones, are from `BCC`: nobody who gets the message may see them.
    pub hidden_keys: usize,
    /// The whole body.
    pub body: Bytes,
}

/// The end of one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settle {
    /// The channel that had it.
    pub channel: ChannelKey,
    /// What it had.
    pub at: HandedOut,
    /// How it ended.
    pub outcome: Outcome,
    /// It ended in one step with the delivery that was settled before: what comes back, comes back together.
    pub continues: bool,
}
