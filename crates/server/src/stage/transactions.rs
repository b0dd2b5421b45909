//! The transactions of a connection, between their publishes and their commits.

use std::collections::BTreeMap;

use leveret_core::{ids::ChannelKey, queue::Confirm};

use super::Pending;
use crate::batches::Batches;

/// What transactions hold back. Only who opens one has this.
#[derive(Debug)]
pub(super) struct Transactions {
    /// What was published in open ones.
    pending: BTreeMap<ChannelKey, Vec<Pending>>,
    /// What committed ones settle: submitted behind everything else.
    pub(super) settles: Batches,
    /// One is among what is to be submitted.
    pub(super) has_commit: bool,
    /// Commits that settle something: answered when that is stored, besides by the queues that they publish to.
    pub(super) settling: Vec<Confirm>,
}

impl Transactions {
    /// Those of a connection, which has some from now on.
    pub(super) fn of(connection: &mut Option<Box<Self>>) -> &mut Self {
        connection.get_or_insert_with(|| {
            Box::new(Self {
                pending: BTreeMap::new(),
                settles: Batches::new(),
                has_commit: false,
                settling: Vec::new(),
            })
        })
    }

    pub(super) fn publish(&mut self, channel: ChannelKey, pending: Pending) {
        self.pending.entry(channel).or_default().push(pending);
    }

    /// Publishes of this channel that wait for its commit.
    pub(super) fn uncommitted(&self, channel: ChannelKey) -> u64 {
        let pending = self.pending.get(&channel);
        pending.map_or(0, |pending| pending.len() as u64)
    }

    /// What was published in this channel's transaction, which is over.
    pub(super) fn take(&mut self, channel: ChannelKey) -> Vec<Pending> {
        self.pending.remove(&channel).unwrap_or_default()
    }
}
