//! AMQP on sockets: listeners, what comes before AMQP (`welcome`), and two tasks per connection around the pure machines of `session`.
//!
//! ```text
//!   socket ─▶ reader ─▶ session ─▶ Stage ── one batch per queue ──▶ QueueHandle::submit
//!                          │ replies                                      │ deliveries, confirms
//!                          ▼                                              ▼
//!   socket ◀─ writer ◀─ ConnectionOutbox: Outgoing behind a lock, and a bell for the writer
//! ```
//!
//! The reader owns the session and is the only one to await queues and metadata, so that methods of
//! a connection take effect in order. Nothing is flushed per message, nothing waits for a timer.

mod batches;
mod calls;
mod connection_task;
mod listener;
mod network;
mod outbox;
mod proxy;
mod route_cache;
mod server;
mod stage;
mod stop;
mod token_end;
mod told;
mod transport;
mod welcome;
mod writer;

pub use self::{
    listener::{BindError, Listeners},
    network::{Network, NoNetwork},
    server::{Server, ServerOptions},
    stop::{Patience, stop},
};
