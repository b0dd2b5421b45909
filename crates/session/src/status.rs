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
}
