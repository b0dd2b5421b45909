//! The store, played by a sorted map that is strict about what may be asked of it.

use std::collections::{BTreeMap, BTreeSet};

use leveret_core::{
    ids::{QueueId, Seq},
    message::Message,
    queue::{Refill, Refilled, StoredMessage},
    record::{Attempts, MetaChange, QueueState, Write},
};

/// The stored rows and counters of one queue.
///
/// Refuses what would harm a real store: a place that is put twice, a row that is removed and not
/// there, which includes one that went with a range. After every commit the counters must be those of
/// the rows.
#[derive(Debug)]
pub(crate) struct Store {
    queue: QueueId,
    rows: BTreeMap<Seq, StoredMessage>,
    /// What the rows were put under.
    priorities: BTreeMap<Seq, u8>,
    attempts: BTreeMap<Seq, Attempts>,
    state: QueueState,
    /// Whether the queue outlives the process.
    durable: bool,
    /// Delivery modes do not matter.
    keeps_all: bool,
    /// Every place that ever had a row.
    used: BTreeSet<Seq>,
    is_deleted: bool,
}

impl Store {
    pub(crate) fn new(queue: QueueId, durable: bool) -> Self {
        Self {
            queue,
            rows: BTreeMap::new(),
            priorities: BTreeMap::new(),
            attempts: BTreeMap::new(),
            durable,
            keeps_all: false,
            state: QueueState::default(),
            used: BTreeSet::new(),
            is_deleted: false,
        }
    }

    /// The same for a queue that keeps whatever it takes.
    pub(crate) const fn of_quorum(mut self, is_quorum: bool) -> Self {
        self.keeps_all = is_quorum;
        self
    }

    /// The counters for the next start.
    pub(crate) const fn recover(&self) -> QueueState {
        self.state
    }

    /// The counters are those of a build that counted bodies only.
    pub(crate) fn count_bodies_only(&mut self) {
        self.state.properties_count_from = None;
        self.state.message_bytes = self.bytes(None);
    }

    /// The rows are those of a build that did not write when a message is to leave.
    pub(crate) fn forget_times(&mut self) {
        for row in self.rows.values_mut() {
            row.due = None;
        }
    }

    /// Bytes of what outlives the process, with properties from that position on.
    fn bytes(&self, properties_count_from: Option<Seq>) -> u64 {
        let kept = self.rows.iter().filter(|(_, row)| self.keeps(&row.message));
        let bytes = kept.map(|(seq, row)| match properties_count_from {
            Some(from) if *seq >= from => row.message.published_bytes(),
            Some(_) | None => row.message.body().len() as u64,
        });
        bytes.sum()
    }

    fn keeps(&self, message: &Message) -> bool {
        self.durable && (self.keeps_all || message.is_persistent())
    }

    /// How often messages came back, for the next start.
    pub(crate) fn attempts(&self) -> impl Iterator<Item = (Seq, Attempts)> + use<> {
        self.attempts.clone().into_iter()
    }

    pub(crate) const fn state(&self) -> QueueState {
        self.state
    }

    pub(crate) const fn is_deleted(&self) -> bool {
        self.is_deleted
    }

    /// The stored messages, oldest first.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &Message> {
        self.rows.values().map(|row| &row.message)
    }

    /// Those that outlive the process, and how often each came back.
    pub(crate) fn kept(&self) -> impl Iterator<Item = (&Message, Attempts)> {
        let attempts = |seq: &Seq| self.attempts.get(seq).copied().unwrap_or_default();
        self.rows
            .iter()
            .map(move |(seq, row)| (&row.message, attempts(seq)))
            .filter(|(message, _)| self.keeps(message))
    }

    /// Applies one unit of writes, or says what is wrong with it.
    pub(crate) fn commit(&mut self, writes: &[Write]) -> Result<(), String> {
        for write in writes {
            if self.is_deleted {
                return Err(format!("after the queue is gone: {write:?}"));
            }
            self.apply(write)?;
        }
        if self.is_deleted || !self.durable {
            return Ok(());
        }
        let is_there = |seq: &&Seq| self.rows.contains_key(*seq);
        if let Some(seq) = self.attempts.keys().find(|seq| !is_there(seq)) {
            return Err(format!("attempts of {seq} are stored, which has no row"));
        }
        let QueueState {
            head,
            next,
            messages,
            message_bytes,
            properties_count_from,
            delivered_below,
            spilled,
            ..
        } = self.state;
        let kept = self.kept().count() as u64;
        let kept_bytes = self.bytes(properties_count_from);
        let first = self.rows.keys().next().copied().unwrap_or(next);
        let behind_last = self.rows.keys().next_back().map_or(head, |seq| seq.next());
        let fits = (messages, message_bytes) == (kept, kept_bytes)
            && (spilled || self.rows.len() as u64 == kept)
            && head <= first
            && behind_last <= next
            && self.attempts.keys().all(|seq| self.rows.contains_key(seq))
            && delivered_below <= next;
        fits.then_some(()).ok_or_else(|| {
            format!(
                "counters {:?} do not fit to {kept} of {} rows of {kept_bytes} bytes from {first} to {behind_last}",
                self.state,
                self.rows.len(),
            )
        })
    }

    /// What a read finds at this moment.
    pub(crate) fn read(&self, refill: &Refill) -> Refilled {
        let mut rows: Vec<StoredMessage> = Vec::new();
        let lower = self.rows.keys().filter_map(|seq| self.priorities.get(seq));
        let lower = lower.filter(|priority| **priority < refill.priority);
        let next_priority = lower.max().copied();
        let mut bytes = 0;
        for (&seq, row) in self.rows.range(refill.from..refill.until) {
            if self.priorities.get(&seq) != Some(&refill.priority) {
                continue;
            }
            if rows.len() >= refill.rows_max || bytes >= refill.bytes_max {
                return Refilled {
                    rows,
                    next: Some(seq),
                    next_priority: None,
                };
            }
            bytes += row.message.memory_bytes();
            rows.push(row.clone());
        }
        Refilled {
            next_priority: next_priority.filter(|_| rows.is_empty()),
            rows,
            next: None,
        }
    }

    /// A store that has lost this row and does not know it.
    pub(crate) fn lose(&mut self, seq: Seq) {
        self.rows.remove(&seq).expect("there is such a row");
    }

    fn apply(&mut self, write: &Write) -> Result<(), String> {
        match write {
            Write::Put {
                queue,
                priority,
                seq,
                enqueued_at,
                due,
                message,
            } if *queue == self.queue => {
                if !self.used.insert(*seq) {
                    return Err(format!("place {seq} is put a second time"));
                }
                let row = StoredMessage {
                    seq: *seq,
                    enqueued_at: *enqueued_at,
                    due: Some(*due),
                    message: message.clone(),
                };
                self.rows.insert(*seq, row);
                self.priorities.insert(*seq, *priority);
            }
            Write::Forget {
                queue,
                priority,
                seq,
            } if *queue == self.queue && self.priorities.get(seq) == Some(priority) => {
                let row = self.rows.remove(seq);
                row.ok_or_else(|| format!("place {seq} is forgotten and has no row"))?;
            }
            Write::ForgetRange {
                queue,
                priority,
                from,
                until,
            } if *queue == self.queue && from < until => {
                self.rows.retain(|seq, _| {
                    let is_meant = self.priorities.get(seq) == Some(priority);
                    !is_meant || !(from..until).contains(&seq)
                });
            }
            Write::Attempts {
                queue,
                seq,
                attempts,
            } if *queue == self.queue && self.rows.contains_key(seq) => {
                self.attempts.insert(*seq, *attempts);
            }
            Write::ForgetAttempts { queue, seq } if *queue == self.queue => {
                let row = self.attempts.remove(seq);
                row.ok_or_else(|| format!("attempts of {seq} are forgotten and not there"))?;
            }
            Write::State { queue, state } if *queue == self.queue => self.state = *state,
            Write::Meta(MetaChange::FreeAtStart(queue))
                if *queue == self.queue && !self.durable => {}
            Write::Meta(MetaChange::DeleteQueue(queue)) if *queue == self.queue => {
                self.is_deleted = true;
                self.attempts.clear();
            }
            other => return Err(format!("nothing such is expected of this queue: {other:?}")),
        }
        Ok(())
    }
}
