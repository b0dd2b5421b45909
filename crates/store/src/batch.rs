//! From units of writes to one RocksDB batch.
//!
//! Rows are appended in the order of the writes, so that a range delete covers what was put before it and nothing that comes
//! after. Two things are not written as they come: a put whose forget is in the same batch, and all but the last counters
//! of a queue.

use std::{
    collections::{HashMap, HashSet},
    io::IoSlice,
    time::{SystemTime, UNIX_EPOCH},
};

use foldhash::fast::FixedState;
use leveret_core::{
    ids::QueueId,
    message::Message,
    record::{MetaChange, QueueState, Write},
};
use rocksdb::{ColumnFamily, DB, WriteBatch};

use crate::{
    key::{Place, attempts_key, commit_key, queue_key},
    row::RowBuf,
    schema::Table,
    table::{
        attempts, bindings, commits, dropped, exchanges,
        marks::{self, Mark},
        messages::{self, Times},
        parameters, permissions, queue_states, queues, users, vhosts,
    },
};

/// A batch that once was larger than this is not kept for the next one.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// The column families of an open database, looked up once per batch.
#[derive(Clone, Copy)]
pub(crate) struct Families<'a> {
    messages: &'a ColumnFamily,
    small: &'a ColumnFamily,
}

impl<'a> Families<'a> {
    pub(crate) fn of(db: &'a DB) -> Self {
        Self {
            messages: Table::Messages.family(db),
            small: Table::Meta.family(db),
        }
    }
}

/// One batch in the making. Everything in it is reused for the next.
pub(crate) struct Batch {
    rows: WriteBatch,
    row: RowBuf,
    /// Places of the forgets of this batch, and whether their put was met in it.
    forgotten: HashMap<Place, bool, FixedState>,
    /// Counters still to be written; those of an earlier batch too, if that one had nothing else.
    states: HashMap<QueueId, QueueState, FixedState>,
    /// Queues whose stored counters say that messages may have been handed out.
    consumed: HashSet<QueueId, FixedState>,
    dropped: Vec<QueueId>,
    row_count: u64,
    cancelled: u64,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self {
            rows: WriteBatch::new(),
            row: RowBuf::default(),
            forgotten: HashMap::default(),
            states: HashMap::default(),
            consumed: HashSet::default(),
            dropped: Vec::new(),
            row_count: 0,
            cancelled: 0,
        }
    }

    /// Appends the writes of whole units. `may_cancel` says that there are puts and forgets among them.
    pub(crate) fn add(
        &mut self,
        families: Families<'_>,
        writes: &[Write],
        may_cancel: bool,
    ) -> Result<(), rocksdb::Error> {
        if may_cancel {
            self.note_forgets(writes);
        }
        for write in writes {
            match write {
                Write::Put {
                    queue,
                    priority,
                    seq,
                    enqueued_at,
                    due,
                    message,
                } => {
                    let times = Times {
                        enqueued_at: *enqueued_at,
                        due: Some(*due),
                    };
                    let place = Place {
                        queue: *queue,
                        priority: *priority,
                        seq: *seq,
                    };
                    self.put(families, place, times, message)?;
                }
                Write::Forget {
                    queue,
                    priority,
                    seq,
                } => {
                    self.forget(
                        families,
                        Place {
                            queue: *queue,
                            priority: *priority,
                            seq: *seq,
                        },
                    );
                }
                Write::ForgetRange {
                    queue,
                    priority,
                    from,
                    until,
                } => {
                    let start = Place {
                        queue: *queue,
                        priority: *priority,
                        seq: *from,
                    };
                    let end = Place {
                        queue: *queue,
                        priority: *priority,
                        seq: *until,
                    };
                    if from < until {
                        self.rows
                            .delete_range_cf(&families.messages, start.key(), end.key());
                        self.row_count += 1;
                    }
                }
                Write::Attempts {
                    queue,
                    seq,
                    attempts,
                } => {
                    let key = attempts_key(*queue, *seq);
                    let value = attempts::encode(&mut self.row, &key, attempts);
                    self.rows.put_cf(&families.small, key, value);
                    self.row_count += 1;
                }
                Write::ForgetAttempts { queue, seq } => {
                    // Not a single delete: it may have been put several times.
                    let key = attempts_key(*queue, *seq);
                    self.rows.delete_cf(&families.small, key);
                    self.row_count += 1;
                }
                Write::State { queue, state } => {
                    self.states.insert(*queue, *state);
                }
                Write::Meta(change) => self.change(families, change),
            }
        }
        self.forgotten.clear();
        Ok(())
    }

    /// Whether something must reach the store now.
    ///
    /// Counters alone can wait for the next batch: they differ from the stored ones by messages that came and went without
    /// being stored, which a restart cannot tell from messages that never came. Only "was handed to somebody" must not
    /// be late.
    pub(crate) fn must_be_written(&self) -> bool {
        self.row_count > 0
            || self
                .states
                .iter()
                .any(|(queue, state)| state.consumed && !self.consumed.contains(queue))
    }

    /// Whether counters wait for the next batch.
    pub(crate) fn has_states(&self) -> bool {
        !self.states.is_empty()
    }

    /// Adds what every batch has: counters, and its row in the ring of commits.
    pub(crate) fn close(&mut self, families: Families<'_>, number: u64) {
        for (queue, state) in self.states.drain() {
            let key = queue_key(Table::QueueStates, queue);
            let value = queue_states::encode(&mut self.row, &key, &state);
            self.rows.put_cf(&families.small, key, value);
            self.row_count += 1;
            if state.consumed {
                self.consumed.insert(queue);
            } else {
                self.consumed.remove(&queue);
            }
        }
        let key = commit_key(number);
        let value = commits::encode(&mut self.row, &key, now_millis());
        self.rows.put_cf(&families.small, key, value);
        if let Some(oldest @ 1..) = number.checked_sub(commits::RING) {
            self.rows
                .single_delete_cf(&families.small, commit_key(oldest));
        }
    }

    /// Says that the broker stops cleanly with this commit.
    pub(crate) fn mark_clean_stop(&mut self, families: Families<'_>, number: u64) {
        let key = marks::key(Mark::CleanStop);
        let value = marks::encode(&mut self.row, &key, number);
        self.rows.put_cf(&families.small, key, value);
    }

    /// What is to be handed to RocksDB.
    pub(crate) fn rows(&self) -> &WriteBatch {
        &self.rows
    }

    /// Queues that this batch deletes.
    pub(crate) fn dropped(&self) -> &[QueueId] {
        &self.dropped
    }

    /// Rows of this batch, without the one in the ring.
    pub(crate) fn row_count(&self) -> u64 {
        self.row_count
    }

    /// Puts that never reach the store because their forget came in the same batch.
    pub(crate) fn cancelled(&self) -> u64 {
        self.cancelled
    }

    /// Ready for the next batch; counters that were not written stay.
    pub(crate) fn clear(&mut self) {
        if self.rows.size_in_bytes() > KEPT_BYTES_MAX {
            self.rows = WriteBatch::new();
        } else {
            self.rows.clear();
        }
        self.dropped.clear();
        self.row_count = 0;
        self.cancelled = 0;
    }

    /// Gives memory back when there is nothing to do.
    pub(crate) fn shrink(&mut self) {
        self.rows = WriteBatch::new();
        self.row = RowBuf::default();
        self.forgotten.shrink_to_fit();
        self.states.shrink_to_fit();
    }

    fn note_forgets(&mut self, writes: &[Write]) {
        for write in writes {
            if let Write::Forget {
                queue,
                priority,
                seq,
            } = write
            {
                let place = Place {
                    queue: *queue,
                    priority: *priority,
                    seq: *seq,
                };
                self.forgotten.insert(place, false);
            }
        }
    }

    fn put(
        &mut self,
        families: Families<'_>,
        place: Place,
        times: Times,
        message: &Message,
    ) -> Result<(), rocksdb::Error> {
        if !self.forgotten.is_empty()
            && let Some(met) = self.forgotten.get_mut(&place)
        {
            *met = true;
            self.cancelled += 1;
            return Ok(());
        }
        let key = place.key();
        let head = messages::encode_before_body(&mut self.row, &key, times, message);
        self.rows.put_cf_vectored(
            &families.messages,
            &[IoSlice::new(&key)],
            &[IoSlice::new(head), IoSlice::new(message.body())],
        )?;
        self.row_count += 1;
        Ok(())
    }

    fn forget(&mut self, families: Families<'_>, place: Place) {
        let cancelled = !self.forgotten.is_empty() && self.forgotten.get(&place) == Some(&true);
        if !cancelled {
            self.rows.single_delete_cf(&families.messages, place.key());
            self.row_count += 1;
        }
    }

    fn change(&mut self, families: Families<'_>, change: &MetaChange) {
        let small = &families.small;
        self.row_count += 1;
        match change {
            MetaChange::PutVhost(vhost) => {
                let key = vhosts::key(&vhost.name);
                self.rows
                    .put_cf(small, key, vhosts::encode(&mut self.row, &key, vhost));
            }
            MetaChange::DeleteVhost(name) => self.rows.delete_cf(small, vhosts::key(name)),
            MetaChange::PutExchange(exchange) => {
                let key = exchanges::key(&exchange.vhost, &exchange.name);
                self.rows
                    .put_cf(small, key, exchanges::encode(&mut self.row, &key, exchange));
            }
            MetaChange::DeleteExchange { vhost, name } => {
                self.rows.delete_cf(small, exchanges::key(vhost, name));
            }
            MetaChange::PutQueue(queue) => {
                let key = queues::key(queue.id);
                self.rows
                    .put_cf(small, key, queues::encode(&mut self.row, &key, queue));
            }
            MetaChange::DeleteQueue(queue) => self.drop_queue(families, *queue),
            MetaChange::FreeAtStart(queue) => self.note_dropped(families, *queue),
            MetaChange::PutBinding(binding) => {
                let key = bindings::key(binding);
                self.rows
                    .put_cf(small, key, bindings::encode(&mut self.row, &key, binding));
            }
            MetaChange::DeleteBinding(binding) => {
                self.rows.delete_cf(small, bindings::key(binding));
            }
            MetaChange::PutUser(user) => {
                let key = users::key(&user.name);
                self.rows
                    .put_cf(small, key, users::encode(&mut self.row, &key, user));
            }
            MetaChange::DeleteUser(name) => self.rows.delete_cf(small, users::key(name)),
            MetaChange::PutPermission(permission) => {
                let key = permissions::key(&permission.vhost, &permission.user);
                let value = permissions::encode(&mut self.row, &key, permission);
                self.rows.put_cf(small, key, value);
            }
            MetaChange::DeletePermission { vhost, user } => {
                self.rows.delete_cf(small, permissions::key(vhost, user));
            }
            MetaChange::PutTopicPermission(permission) => {
                let (vhost, user) = (&permission.vhost, &permission.user);
                let key = permissions::topic_key(vhost, user, &permission.exchange);
                let value = permissions::encode_topic(&mut self.row, &key, permission);
                self.rows.put_cf(small, key, value);
            }
            MetaChange::DeleteTopicPermission {
                vhost,
                user,
                exchange,
            } => {
                let key = permissions::topic_key(vhost, user, exchange);
                self.rows.delete_cf(small, key);
            }
            MetaChange::PutParameter(parameter) => {
                let key = parameters::key(parameter);
                let value = parameters::encode(&mut self.row, &key, parameter);
                self.rows.put_cf(small, key, value);
            }
            MetaChange::DeleteParameter(parameter) => {
                self.rows.delete_cf(small, parameters::key(parameter));
            }
            MetaChange::NextQueueId(next) => {
                let key = marks::key(Mark::NextQueueId);
                self.rows
                    .put_cf(small, key, marks::encode(&mut self.row, &key, next.get()));
            }
        }
    }

    /// Whatever the queue stores is freed by the next start, if not before.
    fn note_dropped(&mut self, families: Families<'_>, queue: QueueId) {
        let key = queue_key(Table::Dropped, queue);
        self.rows.put_cf(
            families.small,
            key,
            dropped::encode(&mut self.row, &key, now_millis()),
        );
    }

    /// The queue is gone with this batch; its messages are freed later (see `reclaim`).
    fn drop_queue(&mut self, families: Families<'_>, queue: QueueId) {
        let small = &families.small;
        self.rows.delete_cf(small, queues::key(queue));
        self.rows
            .delete_cf(small, queue_key(Table::QueueStates, queue));
        self.note_dropped(families, queue);
        self.states.remove(&queue);
        self.consumed.remove(&queue);
        self.dropped.push(queue);
        self.row_count += 2;
    }
}

pub(crate) fn now_millis() -> u64 {
    // Only for people who look at the ring: a clock before 1970 or far beyond is shown as the edge.
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}
