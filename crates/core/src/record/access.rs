//! What is kept about vhosts, users, and what they may do.

use std::fmt;

use leveret_wire::value::ShortString;

use crate::arguments::QueueType;

/// One vhost.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VhostRecord {
    /// Its name.
    pub name: ShortString,
    /// For people.
    pub description: String,
    /// For people.
    pub tags: Vec<String>,
    /// The type of queues that are declared without one; `None` for the node's default.
    pub default_queue_type: Option<QueueType>,
    /// Messages are traced. Kept and shown, without an effect.
    pub tracing: bool,
    /// It is not deleted before this is taken back.
    pub protected: bool,
    /// `max-connections`: more are refused; negative for any number.
    pub max_connections: Option<i64>,
    /// `max-queues`: more are refused; negative for any number.
    pub max_queues: Option<i64>,
}

impl VhostRecord {
    /// A vhost about which nothing is said.
    #[must_use]
    pub fn named(name: ShortString) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }
}

/// A limit as operators set it; `None` for no limit.
#[must_use]
pub fn limit(set: Option<i64>) -> Option<u64> {
    set.and_then(|max| u64::try_from(max).ok())
}

/// How a password was hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HashAlgorithm {
    /// SHA-256 over salt and password.
    #[default]
    Sha256,
    /// SHA-512 over salt and password.
    Sha512,
    /// MD5 over salt and password, from very old definitions.
    Md5,
    /// Argon2id, which takes memory. RabbitMQ has no such hash.
    Argon2id,
}

impl HashAlgorithm {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Sha256, Self::Sha512, Self::Md5, Self::Argon2id];

    /// Its name in definitions, which is RabbitMQ's where RabbitMQ has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "rabbit_password_hashing_sha256",
            Self::Sha512 => "rabbit_password_hashing_sha512",
            Self::Md5 => "rabbit_password_hashing_md5",
            Self::Argon2id => "leveret_password_hashing_argon2id",
        }
    }

    /// The algorithm of this name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// A user who may log in.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct UserRecord {
    /// The login name.
    pub name: ShortString,
    /// Four bytes of salt, then the hash over salt and password, as RabbitMQ's definitions have it; of Argon2id the text
    /// that all its implementations read. Empty for a user who cannot log in.
    pub password_hash: Vec<u8>,
    /// How.
    pub algorithm: HashAlgorithm,
    /// `administrator`, `monitoring` and so on.
    pub tags: Vec<String>,
    /// `max-connections`: more are refused; negative for any number.
    pub max_connections: Option<i64>,
    /// `max-channels`, over all connections: more are refused; negative for any number.
    pub max_channels: Option<i64>,
}

impl UserRecord {
    /// Whether the user has this tag.
    #[must_use]
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|known| known == tag)
    }
}

impl fmt::Debug for UserRecord {
    // No hash in any output.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserRecord")
            .field("name", &self.name)
            .field("tags", &self.tags)
            .finish_non_exhaustive()
    }
}

/// What a user may do in a vhost: patterns for names, see [`crate::pattern::Pattern`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PermissionRecord {
    /// The vhost.
    pub vhost: ShortString,
    /// The user.
    pub user: ShortString,
    /// What they may make and delete.
    pub configure: String,
    /// Where they may put messages.
    pub write: String,
    /// Where they may get messages from.
    pub read: String,
}

/// Which routing and binding keys a user may use with a topic exchange.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicPermissionRecord {
    /// The vhost.
    pub vhost: ShortString,
    /// The user.
    pub user: ShortString,
    /// The exchange; it need not exist.
    pub exchange: ShortString,
    /// Routing keys of publishes.
    pub write: String,
    /// Binding keys.
    pub read: String,
}

/// A named value that operators set: a policy, a parameter of a component, a global parameter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParameterRecord {
    /// What it is for: `policy`, `operator_policy`, `shovel`; empty for a global parameter.
    pub component: String,
    /// Its vhost; empty for a global parameter.
    pub vhost: ShortString,
    /// Its name, unique for the component in the vhost.
    pub name: String,
    /// The value as JSON.
    pub value: String,
}
