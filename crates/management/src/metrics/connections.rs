//! Connections and channels, one by one or summed up: they are asked for their state as they are for a list of them.

use leveret_runtime::{ChannelState, ConnectionState, OpenConnection};

use crate::{
    metrics_text::{
        Kind::{self, Counter, Gauge},
        Page,
    },
    node::Node,
    resource::connections::inspected,
    server::Api,
};

/// Families that a page of single objects has.
pub(super) const FAMILIES: [&str; 5] = [
    "channel_metrics",
    "channel_exchange_metrics",
    "channel_queue_metrics",
    "connection_coarse_metrics",
    "connection_metrics",
];

/// Name, kind, help, value.
type Family<T> = (&'static str, Kind, &'static str, fn(&T) -> u64);

const OF_CHANNELS: [Family<ChannelState>; 7] = [
    ("channel_consumers", Gauge, "Consumers on a channel", |c| {
        c.consumers.len() as u64
    }),
    (
        "channel_messages_unacked",
        Gauge,
        "Delivered but not yet acknowledged messages",
        |c| c.unacked,
    ),
    (
        "channel_messages_unconfirmed",
        Gauge,
        "Published but not yet confirmed messages",
        |c| c.unconfirmed,
    ),
    (
        "channel_messages_uncommitted",
        Gauge,
        "Messages received in a transaction but not yet committed",
        |c| c.uncommitted,
    ),
    (
        "channel_acks_uncommitted",
        Gauge,
        "Message acknowledgements in a transaction not yet committed",
        |c| c.acks_uncommitted,
    ),
    (
        "consumer_prefetch",
        Gauge,
        "Limit of unacknowledged messages for each consumer",
        |c| c.prefetch.into(),
    ),
    (
        "channel_prefetch",
        Gauge,
        "Deprecated and will be removed in a future version",
        |c| c.shared_prefetch.into(),
    ),
];

const OF_PUBLISHES: [Family<ChannelState>; 4] = [
    (
        "channel_messages_published_total",
        Counter,
        "Total number of messages published into an exchange on a channel",
        |c| c.published.publish,
    ),
    (
        "channel_messages_confirmed_total",
        Counter,
        "Total number of messages published into an exchange and confirmed on the channel",
        |c| c.published.confirm,
    ),
    (
        "channel_messages_unroutable_returned_total",
        Counter,
        "Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable",
        |c| c.published.return_unroutable,
    ),
    (
        "channel_messages_unroutable_dropped_total",
        Counter,
        "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
        |c| c.published.drop_unroutable,
    ),
];

const OF_DELIVERIES: [Family<ChannelState>; 7] = [
    (
        "channel_get_ack_total",
        Counter,
        "Total number of messages fetched with basic.get in manual acknowledgement mode",
        |c| c.counters.get,
    ),
    (
        "channel_get_total",
        Counter,
        "Total number of messages fetched with basic.get in automatic acknowledgement mode",
        |c| c.counters.get_no_ack,
    ),
    (
        "channel_messages_delivered_ack_total",
        Counter,
        "Total number of messages delivered to consumers in manual acknowledgement mode",
        |c| c.counters.deliver,
    ),
    (
        "channel_messages_delivered_total",
        Counter,
        "Total number of messages delivered to consumers in automatic acknowledgement mode",
        |c| c.counters.deliver_no_ack,
    ),
    (
        "channel_messages_redelivered_total",
        Counter,
        "Total number of messages redelivered to consumers",
        |c| c.counters.redeliver,
    ),
    (
        "channel_messages_acked_total",
        Counter,
        "Total number of messages acknowledged by consumers",
        |c| c.counters.ack,
    ),
    (
        "channel_get_empty_total",
        Counter,
        "Total number of times basic.get operations fetched no message",
        |c| c.counters.get_empty,
    ),
];

const OF_BYTES: [Family<ConnectionState>; 2] = [
    (
        "connection_incoming_bytes_total",
        Counter,
        "Total number of bytes received on a connection",
        |c| c.received_bytes,
    ),
    (
        "connection_outgoing_bytes_total",
        Counter,
        "Total number of bytes sent on a connection",
        |c| c.sent_bytes,
    ),
];

const OF_PACKETS: [Family<ConnectionState>; 4] = [
    (
        "connection_incoming_packets_total",
        Counter,
        "Total number of packets received on a connection",
        |c| c.reads,
    ),
    (
        "connection_outgoing_packets_total",
        Counter,
        "Total number of packets sent on a connection",
        |c| c.writes,
    ),
    (
        "connection_pending_packets",
        Gauge,
        "Number of packets waiting to be sent on a connection",
        |c| c.pending_bytes,
    ),
    (
        "connection_channels",
        Gauge,
        "Channels on a connection",
        |c| c.channels.len() as u64,
    ),
];

/// The metrics of one family.
enum Families {
    OfChannels(&'static [Family<ChannelState>]),
    OfConnections(&'static [Family<ConnectionState>]),
}

impl Families {
    fn of(family: &str) -> Option<Self> {
        Some(match family {
            "channel_metrics" => Self::OfChannels(&OF_CHANNELS),
            "channel_exchange_metrics" => Self::OfChannels(&OF_PUBLISHES),
            "channel_queue_metrics" => Self::OfChannels(&OF_DELIVERIES),
            "connection_coarse_metrics" => Self::OfConnections(&OF_BYTES),
            "connection_metrics" => Self::OfConnections(&OF_PACKETS),
            _ => return None,
        })
    }
}

/// Connections that answered, each with its state.
pub(super) struct Live(Vec<(OpenConnection, ConnectionState)>);

impl Live {
    pub(super) async fn asked(api: &Api) -> Self {
        let states = inspected(api.broker.connections()).await.into_iter();
        Self(
            states
                .filter_map(|(connection, state)| Some((connection, state?)))
                .collect(),
        )
    }

    /// One family of a page, if it is one of these; with the objects of some vhosts only.
    pub(super) fn put(
        &self,
        node: &Node,
        page: &mut Page,
        prefix: &str,
        family: &str,
        is_meant: &dyn Fn(&str) -> bool,
    ) {
        let families = match Families::of(family) {
            Some(Families::OfChannels(families)) => families,
            Some(Families::OfConnections(families)) => {
                return self.put_connections(node, page, prefix, families, is_meant);
            }
            None => return,
        };
        // What goes through a channel is told of a vhost, its state is not.
        let has_vhost = family != "channel_metrics";
        for (name, kind, help, value) in families {
            let name = format!("{prefix}{name}");
            page.family(&name, *kind, help);
            for (connection, state) in &self.0 {
                let vhost = connection.facts.vhost.to_string();
                if !is_meant(&vhost) {
                    continue;
                }
                for channel in &state.channels {
                    let id = connection.facts.id.get();
                    let pid = node.pid(id, channel.key.channel.into());
                    let labels = [("channel", pid.as_str()), ("vhost", &vhost)];
                    let labels = &labels[..1 + usize::from(has_vhost)];
                    page.series(&name, labels, value(channel));
                }
            }
        }
    }

    /// One family of a page, each of its metrics as one sum.
    pub(super) fn put_sums(&self, page: &mut Page, prefix: &str, family: &str) {
        let states = || self.0.iter().map(|(_, state)| state);
        match Families::of(family) {
            Some(Families::OfChannels(families)) => {
                for (name, kind, help, value) in families {
                    let channels = states().flat_map(|state| &state.channels);
                    let sum = channels.map(value).sum();
                    page.single(&format!("{prefix}{name}"), *kind, help, sum);
                }
            }
            Some(Families::OfConnections(families)) => {
                for (name, kind, help, value) in families {
                    let sum = states().map(value).sum();
                    page.single(&format!("{prefix}{name}"), *kind, help, sum);
                }
            }
            None => {}
        }
    }

    fn put_connections(
        &self,
        node: &Node,
        page: &mut Page,
        prefix: &str,
        families: &[Family<ConnectionState>],
        is_meant: &dyn Fn(&str) -> bool,
    ) {
        for (name, kind, help, value) in families {
            let name = format!("{prefix}{name}");
            page.family(&name, *kind, help);
            for (connection, state) in &self.0 {
                if is_meant(&connection.facts.vhost.to_string()) {
                    let pid = node.pid(connection.facts.id.get(), 0);
                    // RabbitMQ's label, though it is a connection.
                    page.series(&name, &[("channel", &pid)], value(state));
                }
            }
        }
    }
}
