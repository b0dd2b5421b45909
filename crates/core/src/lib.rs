//! What a broker means: vhosts, exchanges, bindings and queues as values and state machines.
//!
//! Pure: no async, clock, sockets, files or randomness. `runtime` puts these machines behind locks,
//! `store` keeps what they ask to be kept.
#![warn(missing_docs)]
#![warn(clippy::wildcard_enum_match_arm)]

pub mod any_queue;
pub mod arguments;
mod chance;
pub mod consume;
pub mod dead_letter;
pub mod delay;
pub mod directory;
pub mod exchange;
pub mod ids;
pub mod message;
pub mod pattern;
pub mod policy;
pub mod queue;
pub mod record;
pub mod refusal;
pub mod rights;
pub mod scope;
pub mod stream;
mod turns;
pub mod vhost;
