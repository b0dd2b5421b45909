//! What a connection and its channels are doing, for those who look at them.

use leveret_core::queue::Counters;
use leveret_runtime::{ChannelState, ConnectionState, ConsumerState, TrafficCounts};
use leveret_session::{ChannelCounts, ChannelStatus, ConnectionStatus};

use super::Calls;
use crate::stage::Stage;

impl Calls {
    /// What the connection does, as far as its session knows.
    pub(crate) fn channel_states(
        &self,
        status: ConnectionStatus,
        stage: &Stage,
    ) -> ConnectionState {
        let ConnectionStatus {
            channel_max,
            frame_max,
            heartbeat_secs,
            channels,
        } = status;
        let consumer = |(id, tag)| ConsumerState {
            id,
            tag,
            arguments: self
                .consumer_arguments
                .get(&id)
                .cloned()
                .unwrap_or_default(),
        };
        let channel = |channel: ChannelStatus| {
            let mut counts = channel.counts;
            counts.add(&self.outbox.with(|outgoing| outgoing.counts(channel.key)));
            ChannelState {
                key: channel.key,
                is_confirming: channel.is_confirming,
                is_transactional: channel.is_transactional,
                prefetch: channel.prefetch,
                shared_prefetch: channel.shared_prefetch,
                unacked: channel.unacked,
                unconfirmed: self
                    .outbox
                    .with(|outgoing| outgoing.unconfirmed(channel.key)),
                uncommitted: stage.uncommitted(channel.key),
                acks_uncommitted: channel.acks_uncommitted,
                consumers: channel.consumers.into_iter().map(consumer).collect(),
                counters: counters(&counts),
                published: TrafficCounts {
                    publish: counts.publish,
                    confirm: counts.confirm,
                    drop_unroutable: counts.drop_unroutable,
                    return_unroutable: counts.return_unroutable,
                },
            }
        };
        ConnectionState {
            channel_max,
            frame_max,
            heartbeat_secs,
            channels: channels.into_iter().map(channel).collect(),
            ..ConnectionState::default()
        }
    }
}

/// Without what came in on a channel, which is no queue's.
const fn counters(counts: &ChannelCounts) -> Counters {
    Counters {
        publish: counts.publish,
        deliver: counts.deliver,
        deliver_no_ack: counts.deliver_no_ack,
        get: counts.get,
        get_no_ack: counts.get_no_ack,
        get_empty: counts.get_empty,
        redeliver: counts.redeliver,
        ack: counts.ack,
        // A channel has no part in what the store does.
        disk_reads: 0,
        disk_writes: 0,
    }
}
