//! `tx.*`: what a transactional channel did since its last commit.
//!
//! Publishes are checked and routed when they come and wait in the [`Sink`]; settled deliveries and
//! returns wait here. A commit stages publishes first and settles behind them, so that nothing that was
//! passed on can be forgotten before it is stored again. Whatever ends the channel rolls back: what was
//! settled is still unacked for its queues.

use bytes::BytesMut;
use leveret_core::{ids::QueueId, queue::Outcome};
use leveret_wire::method::tx;

use super::{Channel, Mode, Next, Then, ledger::Unsettled, unimplemented};
use crate::{
    call::Call,
    error::{ChannelError, Fault},
    sink::{Commit, Settle, Sink},
};

/// Bytes that a publish in a transaction counts for beside properties and body: its names, and what
/// keeps it in its place.
const PUBLISH_BYTES: u64 = 512;

/// What it counts for with each queue that it leads to: the commit hands all of them a command at once.
const TARGET_BYTES: u64 = 128;

/// What waits for the commit.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// Commits so far.
    commits: u64,
    settled: Vec<Settled>,
    /// Returned messages, encoded.
    returns: BytesMut,
    /// Properties and bodies of the publishes.
    publish_bytes: u64,
}

#[derive(Debug)]
struct Settled {
    delivery: Unsettled,
    outcome: Outcome,
    continues: bool,
}

impl Transaction {
    pub(super) fn settle(&mut self, delivery: Unsettled, outcome: Outcome, continues: bool) {
        self.settled.push(Settled {
            delivery,
            outcome,
            continues,
        });
    }

    /// How many of those it settled take room until the commit.
    pub(super) fn settled_room(&self) -> u64 {
        let settled = self.settled.iter();
        settled
            .filter(|settled| settled.delivery.takes_room)
            .count() as u64
    }

    /// A publish of so many bytes was staged.
    pub(super) const fn count_publish(&mut self, bytes: u64) {
        self.publish_bytes += PUBLISH_BYTES + bytes;
    }

    /// That publish leads to so many queues.
    pub(super) const fn count_targets(&mut self, queues: usize) {
        self.publish_bytes += queues as u64 * TARGET_BYTES;
    }

    /// Where messages are returned to until the commit.
    pub(super) const fn returns(&mut self) -> &mut BytesMut {
        &mut self.returns
    }

    /// Bytes that wait for the commit.
    pub(super) fn bytes(&self) -> u64 {
        self.publish_bytes + self.returns.len() as u64
    }

    /// The queues that hold what was settled.
    pub(super) fn queues(&self) -> impl Iterator<Item = QueueId> {
        self.settled.iter().map(|settled| settled.delivery.at.queue)
    }

    /// The next transaction begins.
    fn begin_next(&mut self) -> Self {
        let commits = self.commits;
        std::mem::replace(
            self,
            Self {
                commits,
                ..Self::default()
            },
        )
    }
}

impl Channel {
    pub(super) fn tx<S: Sink>(
        &mut self,
        method: &tx::Tx,
        sink: &mut S,
        replies: &mut BytesMut,
    ) -> Result<Next, Fault> {
        match method {
            tx::Tx::Select(_) => {
                match self.mode {
                    Mode::Normal => self.mode = Mode::Tx(Box::default()),
                    Mode::Tx(_) => {}
                    Mode::Confirm { .. } => return Err(ChannelError::TxInConfirm.into()),
                }
                self.reply(replies, tx::SelectOk {});
                Ok(Next::Go)
            }
            tx::Tx::Commit(_) => self.commit(sink, replies),
            tx::Tx::Rollback(_) => {
                let dropped = self.transaction()?.begin_next();
                sink.rollback(self.key);
                let settled = dropped.settled.into_iter();
                self.ledger.restore(settled.map(|settled| settled.delivery));
                self.reply(replies, tx::RollbackOk {});
                Ok(Next::Go)
            }
            tx::Tx::SelectOk(_) | tx::Tx::CommitOk(_) | tx::Tx::RollbackOk(_) => unimplemented(),
        }
    }

    fn commit<S: Sink>(&mut self, sink: &mut S, replies: &mut BytesMut) -> Result<Next, Fault> {
        let channel = self.key;
        let transaction = self.transaction()?;
        transaction.commits += 1;
        let number = transaction.commits;
        let committed = transaction.begin_next();
        let room = committed.settled_room();
        let settle = |settled: Settled| Settle {
            channel,
            at: settled.delivery.at,
            outcome: settled.outcome,
            continues: settled.continues,
        };
        replies.extend_from_slice(&committed.returns);
        sink.commit(Commit {
            channel,
            number,
            settles: committed.settled.into_iter().map(settle).collect(),
        });
        self.give_back_room(room, sink);
        Ok(Next::call(Call::Commit(channel), Then::Committed))
    }

    fn transaction(&mut self) -> Result<&mut Transaction, ChannelError> {
        match &mut self.mode {
            Mode::Tx(transaction) => Ok(transaction),
            Mode::Normal | Mode::Confirm { .. } => Err(ChannelError::NotTransactional),
        }
    }
}
