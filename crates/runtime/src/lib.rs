//! Puts the pure machines of `core` behind locks, and runs what they ask for.
//!
//! ```text
//!   Broker ── vhosts ──▶ VhostHandle   snapshot of the routing tables, one applier of changes
//!      │                     │
//!      ├── queues ──▶ QueueHandle      one queue behind its lock; no task, no timer, no channel
//!      │                     │ writes and promises          │ deliveries
//!      │                     ▼                              ▼
//!      ├────────────▶ Committer ── released promises ──▶ Outbox of a connection
//!      └── users, clock, alarms and back-pressure
//! ```
//!
//! Lock order: applier of users and vhosts, applier of a vhost, then its histories, then a queue, then an outbox or the committer's inbox. No two
//! queues' locks are ever held at once, and no lock across an await.

mod access;
mod admin;
mod alarms;
mod backends;
mod broker;
mod clock;
mod connections;
mod defaults;
mod delay_handle;
mod endpoint;
mod events;
mod failed_logins;
mod firehose;
mod history;
mod log_exchange;
mod logins;
mod names;
mod outbox;
mod panics;
mod password_rule;
mod passwords;
mod policies;
mod promise;
mod publishing;
mod queue_handle;
mod readers;
mod rebuild;
mod registry;
mod replies;
mod stream_reads;
mod timers;
mod traffic;
mod transfers;
mod transient_memory;
mod unwritten;
mod users;
mod vhost_handle;

pub use self::{
    admin::VhostKept,
    alarms::{Alarm, Amount, Gauges, Limits, NotAnAmount},
    backends::{AuthBackend, Issuer, SecretRefused},
    broker::{Broker, NodeOptions, StartError, StartOptions},
    clock::Clock,
    connections::{
        ChannelRefused, ChannelState, Churn, ConnectionControl, ConnectionFacts, ConnectionState,
        ConsumerState, OpenConnection, OpenRefused, PeerCertFacts, TlsFacts,
    },
    defaults::{DefaultLimits, DefaultPolicy, DefaultUser, VhostDefaults},
    delay_handle::DelayHandle,
    endpoint::Endpoint,
    events::{Actor, ConsumerFacts, LoginFacts, Tuned},
    firehose::PublishedBy,
    logins::{LoginCounts, LoginOver},
    names::generate_name,
    outbox::{Answered, Outbox, Pressure},
    panics::{Panic, contained, contained_task},
    password_rule::{PasswordRefused, PasswordRule},
    passwords::hash_password,
    policies::{Effective, Policy},
    publishing::{DeadLetterStrategy, DeathCounts, SIZE_BOUNDS, Sizes},
    queue_handle::QueueHandle,
    replies::{ReplyAddress, ReplyTarget, is_reply_name},
    traffic::{ExchangeCounts, ExchangeTraffic, Traffic, TrafficCounts},
    unwritten::Unwritten,
    users::{LoginRefused, User},
    vhost_handle::{QueueChurn, QueueDeleted, QueueStatus, Taken, VhostHandle, VhostRefusal},
};
pub use leveret_core::{
    arguments::{Permit, Permits, QueueType, TypesOff},
    pattern::Pattern,
    record::HashAlgorithm,
};
pub use leveret_oauth::{ProviderId, Token, TokenError};
pub use leveret_store::CommitError;
