//! The one order in which a broker that serves comes to its end, whoever asks for it and wherever it runs.
//!
//! ```text
//!   nobody new ─▶ what was read is answered ─▶ clients are told (320) ─▶ dead messages arrive ─▶ the last commit
//!              └──────── Patience::clients ─────────────────────────┘ └ Patience::arrivals ┘   └ Broker::stop ┘
//! ```
//!
//! Every step has a deadline, so that a client that does not answer, a full disk or one that hangs ends it later, and not
//! never. A step that runs out of time breaks no promise: what is not stored by then was not confirmed.

use std::{sync::Arc, time::Duration};

use leveret_runtime::{Broker, CommitError};
use tokio::time::timeout;
use tracing::warn;

use crate::Server;

/// How long whom a stop waits for may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Connected clients, to answer a close.
    pub clients: Duration,
    /// Dead messages on their way, to arrive.
    pub arrivals: Duration,
}

impl Default for Patience {
    /// Together with the disk's share less than the half minute that most supervisors give a process.
    fn default() -> Self {
        Self {
            clients: Duration::from_secs(5),
            arrivals: Duration::from_secs(5),
        }
    }
}

/// Stops a broker and the server in front of it.
///
/// # Errors
///
/// See [`Broker::stop`]: nothing that was confirmed is missing then, and the next start treats the stop as a crash.
pub async fn stop(
    server: Server,
    broker: Arc<Broker>,
    patience: Patience,
) -> Result<(), CommitError> {
    if !server.stop(patience.clients).await {
        warn!("some clients did not answer the close in time");
    }
    // A disk that is full or slow would hold them up for ever; where they are they are stored.
    let arrived = timeout(patience.arrivals, broker.drain());
    if arrived.await.is_err() {
        warn!("some dead messages are still in their old queues, and go on at the next start");
    }
    broker.stop()
}
