//! One AMQP connection as a pure state machine.
//!
//! No async, clock, sockets, locks or randomness: bytes and the time come in as arguments, replies
//! and staged work go out. `server` reads the socket, writes the socket and does what is asked.
//!
//! ```text
//!   socket ─▶ Input ─▶ Connection::receive ──┬─▶ Sink       publishes and settles, staged in order
//!                          ▲                 ├─▶ replies    what can be answered at once
//!                          │                 └─▶ Call       what somebody else must answer first
//!                       answer ◀── Answer ◀── server
//!
//!   queues ─▶ Outgoing: deliveries, confirms, returns, replies ─▶ segments ─▶ socket
//! ```
//!
//! A connection has two halves. The reader owns [`Connection`]: phases, channels, what is unacked.
//! [`Outgoing`] stands behind a lock of the server, since deliveries and confirms are encoded by
//! whoever has the queue at that moment; it knows the next delivery tag and the owed confirms.
//!
//! Always true:
//! * methods of a connection take effect in the order they came, and so do their replies;
//! * between a [`Step::Call`] and its answer nothing is parsed;
//! * behind a channel's close frame nothing is written for that channel;
//! * half-received contents keep no more memory than [`Settings::unfinished_content_max`], and no
//!   read buffer alive once `receive` has returned.
#![warn(missing_docs)]
#![warn(clippy::wildcard_enum_match_arm)]

mod call;
mod channel;
mod connection;
mod error;
mod heartbeat;
mod input;
mod outgoing;
pub mod settings;
mod sink;
mod status;
mod time;

pub use call::{
    Answer, Call, Cancel, ChannelEnd, Consume, ExchangeBind, ExchangeDeclare, ExchangeDelete,
    ExchangeUnbind, Get, Login, Password, QueueBind, QueueDeclare, QueueDelete, QueuePurge,
    QueueUnbind, SharePrefetch,
};
pub use connection::{CloseHow, Connection, EndReason, Step, Tick};
pub use error::{ChannelError, ConnectionError, OpenRefusal};
pub use input::Input;
pub use outgoing::{Capabilities, Delivered, News, Outgoing};
pub use settings::{Mechanism, Settings};
pub use sink::{Commit, Promise, Publish, Routed, Settle, Sink};
pub use status::{ChannelCounts, ChannelStatus, ConnectionStatus};
pub use time::Millis;
