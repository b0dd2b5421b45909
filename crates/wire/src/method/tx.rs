//! Class tx: transactions over publishes and acknowledgements of one channel.

amqp_class! {
    /// Transactions.
    Tx = 90 {
        /// From now on publishes and acknowledgements wait for a commit.
        Select = 10, "tx.select" {}
        /// The channel is transactional.
        SelectOk = 11, "tx.select-ok" {}
        /// Lets everything since the last commit happen.
        Commit = 20, "tx.commit" {}
        /// It has happened.
        CommitOk = 21, "tx.commit-ok" {}
        /// Drops everything since the last commit.
        Rollback = 30, "tx.rollback" {}
        /// It is dropped.
        RollbackOk = 31, "tx.rollback-ok" {}
    }
}
