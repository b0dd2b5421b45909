//! Open connections: who and where they are, how many a vhost or user has, and how to reach them.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Debug,
    sync::Arc,
};

use leveret_core::{
    ids::{ChannelKey, ConnectionId, ConsumerId, Timestamp},
    queue::Counters,
};
use leveret_wire::value::{EncodedTable, FieldTable, FieldValue, ShortString};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{endpoint::Endpoint, traffic::TrafficCounts};

/// Where clients say what they want a connection to be called.
pub(crate) const CONNECTION_NAME: &[u8] = b"connection_name";

/// What is known of a connection from its `connection.open` on.
#[derive(Debug)]
pub struct ConnectionFacts {
    /// Its number.
    pub id: ConnectionId,
    /// Who logged in.
    pub user: ShortString,
    /// Where they work.
    pub vhost: ShortString,
    /// The client's end.
    pub peer: Endpoint,
    /// The broker's end.
    pub local: Endpoint,
    /// When it was opened.
    pub connected_at: Timestamp,
    /// What the client says of itself; see [`ConnectionFacts::given_name`] for what is asked for most.
    pub client_properties: EncodedTable,
    /// How the user proved who they are.
    pub mechanism: &'static str,
    /// What was agreed, if it is encrypted.
    pub tls: Option<Box<TlsFacts>>,
}

/// What came of a TLS handshake, in the words of the HTTP API.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFacts {
    /// Such as `tlsv1.3`.
    pub protocol: &'static str,
    /// How the key was agreed on.
    pub key_exchange: &'static str,
    /// What encrypts.
    pub cipher: &'static str,
    /// What authenticates.
    pub hash: &'static str,
    /// The certificate of the client, if it has shown one.
    pub peer: Option<PeerCertFacts>,
}

/// A client's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertFacts {
    /// Whose it is.
    pub subject: String,
    /// Who made it.
    pub issuer: String,
    /// From when to when it is good.
    pub validity: String,
}

impl ConnectionFacts {
    /// The name under which operators find it: both ends.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} -> {}", self.peer, self.local)
    }

    /// The name that the client gave it.
    #[must_use]
    pub fn given_name(&self) -> Option<FieldValue> {
        self.client_properties.table().get(CONNECTION_NAME).cloned()
    }
}

/// What a connection does at this moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConnectionState {
    /// Agreed number of channels.
    pub channel_max: u16,
    /// Agreed size of a frame.
    pub frame_max: u32,
    /// Agreed heartbeat interval, 0 for none.
    pub heartbeat_secs: u16,
    /// Bytes read from the socket.
    pub received_bytes: u64,
    /// Bytes written to it.
    pub sent_bytes: u64,
    /// How often something was read.
    pub reads: u64,
    /// How often something was written.
    pub writes: u64,
    /// Bytes that wait for the client to read.
    pub pending_bytes: u64,
    /// It publishes and waits for memory, disk or its turn.
    pub is_blocked: bool,
    /// Its open channels.
    pub channels: Vec<ChannelState>,
}

/// What a channel does at this moment.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelState {
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
    /// Publishes that are not confirmed.
    pub unconfirmed: u64,
    /// Publishes that wait for a commit.
    pub uncommitted: u64,
    /// Settled deliveries that wait for a commit.
    pub acks_uncommitted: u64,
    /// Its consumers.
    pub consumers: Vec<ConsumerState>,
    /// What was delivered, got and acked on it.
    pub counters: Counters,
    /// What was published on it.
    pub published: TrafficCounts,
}

/// A consumer as its channel knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct ConsumerState {
    /// The consumer.
    pub id: ConsumerId,
    /// Its tag.
    pub tag: ShortString,
    /// The arguments of its `basic.consume`.
    pub arguments: FieldTable,
}

/// The connection's own task, which does as it is told when it next has time.
pub trait ConnectionControl: Send + Sync + Debug {
    /// Close with 320 and this text.
    fn close(&self, text: &str);

    /// Tell what it does.
    fn inspect(&self, answer: oneshot::Sender<ConnectionState>);
}

/// Why a connection is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenRefused {
    /// The node has as many connections as it may.
    #[error("node connection limit ({0}) is reached")]
    NodeLimit(u64),
    /// There is no such vhost.
    #[error("no such vhost")]
    NoVhost,
    /// The vhost has as many connections as it may.
    #[error("connection limit ({0}) of the vhost is reached")]
    VhostLimit(u64),
    /// The user has as many connections as they may.
    #[error("connection limit ({0}) of the user is reached")]
    UserLimit(u64),
    /// The user has no permissions there.
    #[error("no permission")]
    NoPermission,
}

/// Why a channel is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChannelRefused {
    /// The user has as many channels as they may.
    #[error("channel limit ({0}) of the user is reached")]
    UserLimit(u64),
    /// The node has as many channels as it may.
    #[error("channel limit ({0}) of the node is reached")]
    NodeLimit(u64),
}

/// How many there are, and how many there may be.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    pub(crate) node: Option<u64>,
    pub(crate) vhost: Option<u64>,
    pub(crate) user: Option<u64>,
}

/// Connections and channels that came and went since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Churn {
    /// Connections that were opened.
    pub connections_created: u64,
    /// Connections that ended.
    pub connections_closed: u64,
    /// Channels that were opened.
    pub channels_created: u64,
    /// Channels that ended.
    pub channels_closed: u64,
}

/// The open connections of this node.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    open: Mutex<Open>,
    /// Users of the HTTP API who take messages at this moment, under the number that stands for their connection.
    visitors: Mutex<BTreeMap<ConnectionId, ShortString>>,
}

/// A user of the HTTP API is known until this is dropped.
#[derive(Debug)]
pub(crate) struct Visit<'a> {
    connections: &'a Connections,
    id: ConnectionId,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.connections.visitors.lock().remove(&self.id);
    }
}

#[derive(Debug, Default)]
struct Open {
    by_id: BTreeMap<ConnectionId, Entry>,
    of_vhost: HashMap<ShortString, u64>,
    of_user: HashMap<ShortString, Count>,
    channels: u64,
    churn: Churn,
}

#[derive(Debug, Default)]
struct Count {
    connections: u64,
    channels: u64,
}

#[derive(Debug)]
struct Entry {
    facts: Arc<ConnectionFacts>,
    control: Arc<dyn ConnectionControl>,
    channels: u64,
}

/// An open connection.
#[derive(Debug, Clone)]
pub struct OpenConnection {
    /// What is known of it.
    pub facts: Arc<ConnectionFacts>,
    /// How to reach it.
    pub control: Arc<dyn ConnectionControl>,
    /// Channels it has open.
    pub channels: u64,
}

impl Connections {
    /// Adds a connection unless there are too many. In RabbitMQ's order: node, vhost, user.
    pub(crate) fn add(
        &self,
        facts: Arc<ConnectionFacts>,
        control: Arc<dyn ConnectionControl>,
        limits: Limits,
    ) -> Result<(), OpenRefused> {
        let mut open = self.open.lock();
        let reached = |limit: Option<u64>, count: u64| limit.filter(|max| count >= *max);
        if let Some(max) = reached(limits.node, open.by_id.len() as u64) {
            return Err(OpenRefused::NodeLimit(max));
        }
        let of_vhost = open.of_vhost.get(&facts.vhost).copied().unwrap_or(0);
        if let Some(max) = reached(limits.vhost, of_vhost) {
            return Err(OpenRefused::VhostLimit(max));
        }
        let of_user = open.of_user.get(&facts.user);
        if let Some(max) = reached(limits.user, of_user.map_or(0, |count| count.connections)) {
            return Err(OpenRefused::UserLimit(max));
        }
        *open.of_vhost.entry(facts.vhost.clone()).or_default() += 1;
        open.of_user
            .entry(facts.user.clone())
            .or_default()
            .connections += 1;
        open.churn.connections_created += 1;
        let entry = Entry {
            facts,
            control,
            channels: 0,
        };
        open.by_id.insert(entry.facts.id, entry);
        Ok(())
    }

    /// The connection is gone with all its channels; nothing if it was never added.
    /// `false` then.
    pub(crate) fn remove(&self, id: ConnectionId) -> bool {
        let open = &mut *self.open.lock();
        let Some(Entry {
            facts, channels, ..
        }) = open.by_id.remove(&id)
        else {
            return false;
        };
        open.churn.connections_closed += 1;
        open.churn.channels_closed += channels;
        open.channels -= channels;
        if let Some(count) = open.of_vhost.get_mut(&facts.vhost) {
            *count -= 1;
            if *count == 0 {
                open.of_vhost.remove(&facts.vhost);
            }
        }
        if let Some(count) = open.of_user.get_mut(&facts.user) {
            count.connections -= 1;
            count.channels -= channels;
            if count.connections == 0 {
                open.of_user.remove(&facts.user);
            }
        }
        true
    }

    /// Counts a channel unless there are too many.
    pub(crate) fn add_channel(
        &self,
        id: ConnectionId,
        of_user: Option<u64>,
        of_node: Option<u64>,
    ) -> Result<(), ChannelRefused> {
        let open = &mut *self.open.lock();
        let Some(entry) = open.by_id.get_mut(&id) else {
            return Ok(());
        };
        let count = open.of_user.entry(entry.facts.user.clone()).or_default();
        if let Some(max) = of_user.filter(|max| count.channels >= *max) {
            return Err(ChannelRefused::UserLimit(max));
        }
        if let Some(max) = of_node.filter(|max| open.channels >= *max) {
            return Err(ChannelRefused::NodeLimit(max));
        }
        count.channels += 1;
        entry.channels += 1;
        open.channels += 1;
        open.churn.channels_created += 1;
        Ok(())
    }

    /// A channel ended.
    pub(crate) fn remove_channel(&self, id: ConnectionId) {
        let open = &mut *self.open.lock();
        let Some(entry) = open.by_id.get_mut(&id).filter(|entry| entry.channels > 0) else {
            return;
        };
        entry.channels -= 1;
        open.channels -= 1;
        open.churn.channels_closed += 1;
        if let Some(count) = open.of_user.get_mut(&entry.facts.user) {
            count.channels -= 1;
        }
    }

    /// Every open connection.
    pub(crate) fn all(&self) -> Vec<OpenConnection> {
        let open = self.open.lock();
        let entries = open.by_id.values().map(|entry| OpenConnection {
            facts: entry.facts.clone(),
            control: entry.control.clone(),
            channels: entry.channels,
        });
        entries.collect()
    }

    /// What is known of an open connection.
    pub(crate) fn facts(&self, id: ConnectionId) -> Option<Arc<ConnectionFacts>> {
        let open = self.open.lock();
        open.by_id.get(&id).map(|entry| entry.facts.clone())
    }

    /// Makes a user of the HTTP API known, who takes messages under this number.
    pub(crate) fn visit(&self, id: ConnectionId, user: ShortString) -> Visit<'_> {
        self.visitors.lock().insert(id, user);
        Visit {
            connections: self,
            id,
        }
    }

    /// The user of the HTTP API who takes messages under this number.
    pub(crate) fn visitor(&self, id: ConnectionId) -> Option<ShortString> {
        self.visitors.lock().get(&id).cloned()
    }

    /// Connections and channels that are open.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let open = self.open.lock();
        (open.by_id.len() as u64, open.channels)
    }

    pub(crate) fn churn(&self) -> Churn {
        self.open.lock().churn
    }

    /// Closes those that `is_meant` says.
    pub(crate) fn close(&self, is_meant: impl Fn(&ConnectionFacts) -> bool, text: &str) {
        for connection in self.all() {
            if is_meant(&connection.facts) {
                connection.control.close(text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Nobody;

    impl ConnectionControl for Nobody {
        fn close(&self, _: &str) {}

        fn inspect(&self, _: oneshot::Sender<ConnectionState>) {}
    }

    fn facts(id: u64, user: &'static str) -> Arc<ConnectionFacts> {
        let address: std::net::SocketAddr = "127.0.0.1:1".parse().expect("an address");
        Arc::new(ConnectionFacts {
            id: ConnectionId::new(id),
            user: ShortString::from_static(user),
            vhost: ShortString::from_static("/"),
            peer: address.into(),
            local: address.into(),
            connected_at: Timestamp::default(),
            client_properties: EncodedTable::default(),
            mechanism: "PLAIN",
            tls: None,
        })
    }

    #[test]
    fn limits_count_what_is_open() {
        let connections = Connections::default();
        let add = |id, user, limits| connections.add(facts(id, user), Arc::new(Nobody), limits);
        let of = |node, vhost, user| Limits { node, vhost, user };
        assert_eq!(add(1, "a", of(Some(2), Some(2), Some(1))), Ok(()));
        assert_eq!(
            add(2, "a", of(Some(2), Some(2), Some(1))),
            Err(OpenRefused::UserLimit(1))
        );
        assert_eq!(add(3, "b", of(Some(2), Some(2), Some(1))), Ok(()));
        assert_eq!(
            add(4, "c", of(None, Some(2), None)),
            Err(OpenRefused::VhostLimit(2))
        );
        assert_eq!(
            add(4, "c", of(Some(2), Some(2), None)),
            Err(OpenRefused::NodeLimit(2))
        );
        connections.remove(ConnectionId::new(1));
        connections.remove(ConnectionId::new(1));
        assert_eq!(add(5, "a", of(Some(2), Some(2), Some(1))), Ok(()));
        assert_eq!(
            add(6, "c", of(None, Some(0), None)),
            Err(OpenRefused::VhostLimit(0))
        );
    }

    #[test]
    fn channels_of_a_lost_connection_do_not_count() {
        let connections = Connections::default();
        for id in [1, 2] {
            connections
                .add(facts(id, "a"), Arc::new(Nobody), Limits::default())
                .expect("no limit");
        }
        let id = ConnectionId::new(1);
        assert_eq!(connections.add_channel(id, Some(2), None), Ok(()));
        assert_eq!(connections.add_channel(id, Some(2), None), Ok(()));
        let other = ConnectionId::new(2);
        assert_eq!(
            connections.add_channel(other, Some(2), None),
            Err(ChannelRefused::UserLimit(2))
        );
        assert_eq!(
            connections.add_channel(other, None, Some(2)),
            Err(ChannelRefused::NodeLimit(2))
        );
        connections.remove(id);
        assert_eq!(connections.add_channel(other, Some(1), Some(1)), Ok(()));
        connections.remove_channel(other);
        assert_eq!(connections.counts(), (1, 0));
        let churn = connections.churn();
        assert_eq!((churn.channels_created, churn.channels_closed), (3, 3));
    }
}
