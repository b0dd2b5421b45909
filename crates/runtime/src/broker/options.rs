//! How a broker starts, and what an operator can set about it.

use std::path::PathBuf;

use leveret_core::{
    arguments::{ACK_TIMEOUT_MILLIS, Permits, QueueType},
    record::HashAlgorithm,
};
use leveret_store::Options as StoreOptions;

use crate::{
    alarms::Limits, backends::AuthBackend, defaults::VhostDefaults, password_rule::PasswordRule,
};

/// Far beyond what clients with a wrong password do that try again each second, all of them behind one address.
const LOGIN_FAILURES_MAX: u32 = 1000;

/// How a broker starts.
#[derive(Debug, Clone)]
pub struct StartOptions {
    /// Where everything durable lies; without a directory everything is kept in memory and ends with the process.
    pub data_dir: Option<PathBuf>,
    /// How storage works.
    pub store: StoreOptions,
    /// What an operator can set about the node.
    pub node: NodeOptions,
    /// When publishers have to wait.
    pub limits: Limits,
}

/// What an operator can set about the node.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// Its name in texts and in the HTTP API.
    pub name: String,
    /// Who is asked whether somebody may come in, one after the other.
    pub auth_backends: Vec<AuthBackend>,
    /// Logins from one place that may fail within a minute before nobody from there is listened to; 0 for any number.
    pub login_failures_max: u32,
    /// How new passwords are hashed.
    pub password_hashing: HashAlgorithm,
    /// What new passwords must be.
    pub password_rule: PasswordRule,
    /// Users who may log in from this machine only.
    pub loopback_users: Vec<String>,
    /// Connections there may be; `None` for any number.
    pub connection_max: Option<u64>,
    /// Vhosts there may be; `None` for any number.
    pub vhost_max: Option<u64>,
    /// Channels there may be over all connections; `None` for any number.
    pub channel_max: Option<u64>,
    /// The largest body that may be published, in bytes.
    pub message_size_max: u64,
    /// The user an empty directory gets.
    pub default_user: String,
    /// Their password.
    pub default_password: String,
    /// Their tags.
    pub default_tags: Vec<String>,
    /// What they may configure, write and read in the vhost of an empty directory.
    pub default_permission: [String; 3],
    /// The vhost an empty directory gets.
    pub default_vhost: String,
    /// What every new vhost gets.
    pub vhost_defaults: VhostDefaults,
    /// The type of a durable queue that asks for none in a vhost that names none.
    pub default_queue_type: QueueType,
    /// The name of the cluster; `None` is that of the node.
    pub cluster_name: Option<String>,
    /// Within which time messages of quorum queues are to be acked when nobody says otherwise, in milliseconds; 0 is no
    /// such time.
    pub consumer_timeout_millis: u64,
    /// An empty directory stays empty: definitions will say who there is.
    pub is_seeded: bool,
    /// What happens to connections, queues, users and so on goes to the exchange `amq.rabbitmq.event`.
    pub tells_events: bool,
    /// What new queues may be that RabbitMQ permits for the time being only, or not any more.
    pub permits: Permits,
    /// Consumers of a channel may share a prefetch; the sessions see to it.
    pub permits_global_qos: bool,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            name: "rabbit@localhost".to_owned(),
            auth_backends: vec![AuthBackend::Internal],
            login_failures_max: LOGIN_FAILURES_MAX,
            password_hashing: HashAlgorithm::default(),
            password_rule: PasswordRule::default(),
            loopback_users: vec!["guest".to_owned()],
            connection_max: None,
            vhost_max: None,
            channel_max: None,
            message_size_max: 16 * 1024 * 1024,
            default_user: "guest".to_owned(),
            default_password: "guest".to_owned(),
            default_tags: vec!["administrator".to_owned()],
            default_permission: [".*", ".*", ".*"].map(str::to_owned),
            default_vhost: "/".to_owned(),
            vhost_defaults: VhostDefaults::default(),
            default_queue_type: QueueType::Classic,
            cluster_name: None,
            consumer_timeout_millis: ACK_TIMEOUT_MILLIS,
            is_seeded: true,
            tells_events: false,
            permits: Permits::default(),
            permits_global_qos: true,
        }
    }
}
