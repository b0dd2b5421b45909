//! What outlives a restart: RocksDB with one layout, one writer and marks that tell damage from a torn tail.
//!
//! The only crate that knows files. It takes units of [`Write`](leveret_core::record::Write)s and gives promises back
//! when they are kept; what a queue is, and when something is worth keeping, is decided elsewhere.
//!
//! ```text
//!   send(unit) ─▶ inbox ─▶ one thread: build batch ─▶ write, sync ─▶ released(promises)
//!                                        │                  │
//!                                  pairs cancelled     about once a second: side file
//!
//!   read_messages ◀─ any thread of the caller's that may wait
//! ```
//!
//! Always true:
//! * a promise is released after the write that makes it true returned, and none after a write or sync failed;
//! * a unit is in one batch, and batches are numbered without a gap;
//! * a message row is put once and single-deleted at most once; a range delete covers only rows that nobody
//!   single-deletes later;
//! * no row is handed out whose checksum over key and value does not match.
#![warn(
    missing_docs,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]

mod batch;
mod committer;
mod directory;
mod error;
mod forget;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod key;
mod mark;
mod options;
mod reclaim;
mod recovery;
mod repair;
mod row;
mod schema;
mod stat;
mod store;
mod table;

pub use committer::{Committer, Counters, Progress};
pub use error::{CommitError, Damage, MissingCommits, Obstacle, OpenError, ReadError};
pub use forget::forget;
pub use options::{CallOff, Options, SyncMode};
pub use recovery::{AttemptsByQueue, Recovered, RecoveryReport};
pub use repair::{Repaired, repair};
pub use schema::FORMAT;
pub use stat::{StorageStat, stat};
pub use store::{QueueMemory, Store};
