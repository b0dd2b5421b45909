//! What the process reads from the disk and writes to it, as the node and the metrics tell it.

use std::fs;

use super::node::number;
use crate::server::Api;

/// Counts since the start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Disk {
    /// Bytes that really came from a disk.
    pub(crate) read_bytes: u64,
    /// Bytes that really go to one.
    pub(crate) written_bytes: u64,
    /// Batches that the store wrote.
    pub(crate) writes: u64,
    /// Times it waited for the disk.
    pub(crate) syncs: u64,
}

impl Disk {
    pub(crate) fn measured(api: &Api) -> Self {
        // Where nobody may look at it there are no bytes.
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let (writes, syncs) = api.broker.commits_and_syncs();
        Self {
            read_bytes: number(&io, "read_bytes:"),
            written_bytes: number(&io, "write_bytes:"),
            writes,
            syncs,
        }
    }
}
