//! What a connection and its channels are doing, for whoever looks at them.

use leveret_core::ids::{ChannelKey, ConsumerId};
use leveret_wire::value::ShortString;

/// One connection at this moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectionStatus {
    /// Agreed number of channels.
    pub channel_max: u16,
    /// Agreed size of a frame.
    pub frame_max: u32,
    /// Agreed heartbeat interval, 0 for none.
    pub heartbeat_secs: u16,
    /// Channels that nobody has closed.
    pub channels: Vec<ChannelStatus>,
}

/// What went through a channel since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChannelCounts {
    /// Publishes that were taken.
    pub publish: u64,
    /// Publishes that were confirmed.
    pub confirm: u64,
    /// Publishes that no queue wanted, and that went back.
    pub return_unroutable: u64,
    /// Publishes that no queue wanted, and nobody wanted back.
    pub drop_unroutable: u64,
    /// Messages handed to consumers that ack.
    pub deliver: u64,
    /// Messages handed to consumers that do not.
    pub deliver_no_ack: u64,
    /// Messages got and to be acked.
    pub get: u64,
    /// Messages got for good.
    pub get_no_ack: u64,
    /// Gets that found nothing.
    pub get_empty: u64,
    /// Of the messages handed out, those that somebody may have had before.
    pub redeliver: u64,
    /// Acks.
    pub ack: u64,
}

impl ChannelCounts {
    /// Adds what the other half of the connection counted.
    pub const fn add(&mut self, other: &Self) {
        self.publish += other.publish;
        self.confirm += other.confirm;
        self.return_unroutable += other.return_unroutable;
        self.drop_unroutable += other.drop_unroutable;
        self.deliver += other.deliver;
        self.deliver_no_ack += other.deliver_no_ack;
        self.get += other.get;
        self.get_no_ack += other.get_no_ack;
        self.get_empty += other.get_empty;
        self.redeliver += other.redeliver;
        self.ack += other.ack;
    }
}

/// One channel at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelStatus {
    /// The channel.
    pub key: ChannelKey,
    /// Publishes are confirmed.
    pub is_confirming: bool,
    /// Publishes and acks wait for commits.
    pub is_transactional: bool,
    /// The bound that new consumers get; 0 for none.
    pub prefetch: u16,
    /// The bound that its consumers share; 0 for none.
    pub shared_prefetch: u16,
    /// Deliveries that are not settled.
    pub unacked: u64,
    /// Settled deliveries that wait for a commit.
    pub acks_uncommitted: u64,
    /// Its consumers with their tags.
    pub consumers: Vec<(ConsumerId, ShortString)>,
    /// What came in on it.
    pub counts: ChannelCounts,
}
