//! The messages that wait for their time before an exchange routes them: one pure state machine per
//! exchange.
//!
//! ```text
//!   hold ─▶ soon ──due──▶ leaving ──stored elsewhere──▶ gone
//!            ▲  │
//!     refill │  │ pushed out by sooner ones
//!            │  ▼
//!           later (on disk only)
//! ```
//!
//! The position of a message is made from its time, so that the store keeps them in the order in which
//! they are needed; there is no second index. In memory is what is due soonest: a window of a few thousand
//! messages. All others cost nothing but their row. What nobody will find after a restart, because the
//! exchange is not durable, is not stored and stays in memory.
//!
//! Always true between two calls, and [`Delay::check`] is the same list as code:
//! * a stored message is in exactly one of `soon`, `leaving` and what is on disk only;
//! * every message of `soon` has a position before `horizon`, every one that is on disk only stands behind it;
//! * exactly the messages of `soon` are in `due`;
//! * the stored counters count what is stored.

mod due;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use self::due::DelayRules;
pub use self::due::Wait;
use crate::{
    ids::{QueueId, Seq, Timestamp},
    message::Message,
    queue::{Confirm, Refill, Refilled},
    record::{QueueState, Write},
};

/// Messages kept in memory because they are due soonest.
pub const SOON_MAX: usize = 2000;
/// Bytes of these messages; at least one is kept.
pub const SOON_BYTES_MAX: usize = 1024 * 1024;
/// Messages on their way to queues; further ones wait until some have arrived.
pub const LEAVING_MAX: usize = 2000;

/// The more is read when so few are left.
const SOON_LOW: usize = SOON_MAX / 2;
const SOON_BYTES_LOW: usize = SOON_BYTES_MAX / 2;

/// A position is a slot of 16 ms and a count within it. Within a slot messages stand in the order in which
/// they came; each still leaves at its own millisecond.
const SLOT_SHIFT: u32 = 4;
/// Bits of the count: two messages share a position only if they are due in the same slot, both pending,
/// and 33 million messages apart.
const COUNT_BITS: u32 = 25;

/// What may be asked of it.
#[derive(Debug, Clone)]
pub enum Command {
    /// Keep a message until its time.
    Hold {
        /// The message.
        message: Message,
        /// Its time.
        due: Timestamp,
        /// Who waits for the confirm.
        confirm: Option<Confirm>,
    },
    /// Time has passed. Nothing but the time of the call matters.
    Tick,
    /// A message is in its queues, or had none: it need not be kept here any more.
    Sent {
        /// Its position.
        seq: Seq,
    },
    /// What was read for the last refill; each is answered exactly once.
    Refilled(Refilled),
    /// The exchange is gone, and with it everything that waits.
    Delete,
}

/// What commands ask of the surroundings.
#[derive(Debug, Default)]
pub struct Effects {
    /// Committed as one unit.
    pub writes: Vec<Write>,
    /// Leave only when `writes` is on disk.
    pub promises: Vec<Confirm>,
    /// May leave at once: these messages are not stored.
    pub accepted: Vec<Confirm>,
    /// To be routed now, in this order; each is answered by [`Command::Sent`].
    pub released: Vec<Released>,
    /// To be read once `writes` is in the store, and given back as [`Command::Refilled`].
    pub refill: Option<Refill>,
    /// Stored messages that were counted and then not found. Never so with an intact store.
    pub missing: u64,
}

/// A message whose time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Released {
    /// Its position.
    pub seq: Seq,
    /// The message.
    pub message: Message,
}

#[derive(Debug, Clone)]
struct Held {
    message: Message,
    due: Timestamp,
}

/// A read under way.
#[derive(Debug, Default)]
struct Read {
    /// What came meanwhile and may or may not be among what is read, as much as is worth having in memory.
    came: BTreeMap<Seq, Held>,
    came_bytes: usize,
    /// From here on it is not known what came.
    until: Option<Seq>,
    /// What was forgotten meanwhile and may still be among what is read.
    gone: BTreeSet<Seq>,
    /// Where it began.
    from: Seq,
}

impl Read {
    /// A message came. Of too many those that are due last are on disk only.
    fn note(&mut self, seq: Seq, held: Held) {
        if self.until.is_some_and(|until| seq >= until) {
            return;
        }
        self.came_bytes += held.message.memory_bytes();
        self.came.insert(seq, held);
        while (self.came.len() > SOON_MAX || self.came_bytes > SOON_BYTES_MAX)
            && let Some((last, held)) = self.came.pop_last()
        {
            self.came_bytes -= held.message.memory_bytes();
            self.until = Some(last);
        }
    }
}

/// The waiting messages of one exchange.
#[derive(Debug)]
pub struct Delay {
    id: QueueId,
    durable: bool,
    soon: BTreeMap<Seq, Held>,
    soon_bytes: usize,
    due: BTreeSet<(Timestamp, Seq)>,
    /// Where that begins which is on disk only; `None` when nothing is.
    horizon: Option<Seq>,
    /// How many messages are on disk only.
    later: u64,
    /// With the bytes of their bodies.
    leaving: BTreeMap<Seq, u64>,
    read: Option<Read>,
    /// `next` counts messages, and is no position.
    state: QueueState,
    is_state_stale: bool,
    is_deleted: bool,
    now: Timestamp,
}

impl Delay {
    /// Nothing waits yet. Only for a durable exchange anything is stored.
    #[must_use]
    pub fn new(id: QueueId, durable: bool) -> Self {
        Self::recovered(id, durable, QueueState::default())
    }

    /// What the store remembers: everything is on disk only, until the first command.
    #[must_use]
    pub const fn recovered(id: QueueId, durable: bool, stored: QueueState) -> Self {
        Self {
            id,
            durable,
            soon: BTreeMap::new(),
            soon_bytes: 0,
            due: BTreeSet::new(),
            horizon: if stored.messages > 0 {
                Some(stored.head)
            } else {
                None
            },
            later: stored.messages,
            leaving: BTreeMap::new(),
            read: None,
            state: stored,
            is_state_stale: false,
            is_deleted: false,
            now: Timestamp::new(0),
        }
    }

    /// Does what `command` says.
    pub fn apply(&mut self, now: Timestamp, command: Command, effects: &mut Effects) {
        self.now = self.now.max(now);
        match command {
            Command::Hold {
                message,
                due,
                confirm,
            } => self.hold(message, due, confirm, effects),
            Command::Tick => {}
            Command::Sent { seq } => self.sent(seq, effects),
            Command::Refilled(refilled) => self.refilled(refilled, effects),
            Command::Delete => self.delete(),
        }
    }

    /// Closes a batch of commands: releases what is due, keeps the window, and lets changed counters
    /// join the writes of the rows they count.
    pub fn seal(&mut self, effects: &mut Effects) {
        self.release(effects);
        self.push_out();
        self.ask_refill(effects);
        if std::mem::take(&mut self.is_state_stale) && self.durable && !self.is_deleted {
            let state = QueueState {
                head: self.head(),
                ..self.state
            };
            effects.writes.push(Write::State {
                queue: self.id,
                state,
            });
        }
        debug_assert_eq!(self.check(), Ok(()));
    }

    /// When it is to be sent the next [`Command::Tick`] at the latest.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        if self.leaving.len() >= LEAVING_MAX {
            return None;
        }
        self.due.first().map(|(due, _)| *due)
    }

    /// Its number among queues.
    #[must_use]
    pub const fn id(&self) -> QueueId {
        self.id
    }

    /// Messages that wait, also those on their way.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.later + (self.soon.len() + self.leaving.len()) as u64
    }

    /// Those of them that are in memory, without those on their way.
    #[must_use]
    pub fn in_memory(&self) -> usize {
        let came = self.read.as_ref().map_or(0, |read| read.came.len());
        self.soon.len() + came
    }

    /// The invariants of the module text.
    ///
    /// # Errors
    ///
    /// The first that does not hold, in words.
    pub fn check(&self) -> Result<(), String> {
        let due: BTreeSet<_> = self
            .soon
            .iter()
            .map(|(&seq, held)| (held.due, seq))
            .collect();
        if due != self.due {
            return Err(format!("not what is due: {:?}", self.due));
        }
        let bytes: usize = self
            .soon
            .values()
            .map(|held| held.message.memory_bytes())
            .sum();
        if bytes != self.soon_bytes {
            return Err(format!(
                "{bytes} bytes in memory, counted {}",
                self.soon_bytes
            ));
        }
        if let (Some(horizon), Some((last, _))) = (self.horizon, self.soon.last_key_value())
            && *last >= horizon
        {
            return Err(format!(
                "{last} is in memory and behind the horizon {horizon}"
            ));
        }
        if let Some(seq) = self.leaving.keys().find(|seq| self.soon.contains_key(seq)) {
            return Err(format!("{seq} waits and is on its way"));
        }
        if self.horizon.is_none() && self.later > 0 {
            return Err(format!("{} messages are behind no horizon", self.later));
        }
        if self.durable && self.state.messages != self.pending() {
            return Err(format!(
                "{} are pending, counted {:?}",
                self.pending(),
                self.state
            ));
        }
        if !self.durable && self.later > 0 {
            return Err("what is not stored cannot be on disk".to_owned());
        }
        Ok(())
    }

    fn hold(
        &mut self,
        message: Message,
        due: Timestamp,
        confirm: Option<Confirm>,
        effects: &mut Effects,
    ) {
        if self.is_deleted {
            // It was routed here just before: gone with the exchange.
            effects.accepted.extend(confirm);
            return;
        }
        let seq = position(due, self.state.next.get());
        self.state.next = self.state.next.next();
        if !self.durable {
            effects.accepted.extend(confirm);
            self.insert(seq, Held { message, due });
            return;
        }
        self.state.messages += 1;
        self.state.message_bytes += message.body().len() as u64;
        self.is_state_stale = true;
        effects.promises.extend(confirm);
        effects.writes.push(Write::Put {
            queue: self.id,
            priority: 0,
            seq,
            // Nobody asks when it came, only when it is due.
            enqueued_at: due,
            due: Timestamp::NEVER,
            message: message.clone(),
        });
        let held = Held { message, due };
        if self.horizon.is_none_or(|horizon| seq < horizon) {
            self.insert(seq, held);
        } else {
            self.later += 1;
            if let Some(read) = &mut self.read {
                read.note(seq, held);
            }
        }
        self.push_out();
    }

    fn insert(&mut self, seq: Seq, held: Held) {
        self.soon_bytes += held.message.memory_bytes();
        self.due.insert((held.due, seq));
        self.soon.insert(seq, held);
    }

    fn remove(&mut self, seq: Seq) -> Option<Held> {
        let held = self.soon.remove(&seq)?;
        self.soon_bytes -= held.message.memory_bytes();
        self.due.remove(&(held.due, seq));
        Some(held)
    }

    /// What is due latest leaves memory when there is too much.
    fn push_out(&mut self) {
        while self.durable
            && self.soon.len() > 1
            && (self.soon.len() > SOON_MAX || self.soon_bytes > SOON_BYTES_MAX)
        {
            let Some((&last, _)) = self.soon.last_key_value() else {
                return;
            };
            self.remove(last);
            self.later += 1;
            self.horizon = Some(last);
        }
    }

    fn release(&mut self, effects: &mut Effects) {
        while self.leaving.len() < LEAVING_MAX
            && let Some(&(due, seq)) = self.due.first()
            && due <= self.now
            && let Some(Held { message, .. }) = self.remove(seq)
        {
            self.leaving.insert(seq, message.body().len() as u64);
            effects.released.push(Released { seq, message });
        }
    }

    fn sent(&mut self, seq: Seq, effects: &mut Effects) {
        let Some(message_bytes) = self.leaving.remove(&seq) else {
            return;
        };
        if let Some(read) = &mut self.read {
            read.gone.insert(seq);
        }
        if self.durable {
            self.state.messages -= 1;
            self.state.message_bytes -= message_bytes;
            self.is_state_stale = true;
            effects.writes.push(Write::Forget {
                queue: self.id,
                priority: 0,
                seq,
            });
        }
    }

    /// Reads ahead while what is in memory still lasts.
    fn ask_refill(&mut self, effects: &mut Effects) {
        let Some(from) = self.horizon else {
            return;
        };
        let is_low = self.soon.len() < SOON_LOW && self.soon_bytes < SOON_BYTES_LOW;
        if self.read.is_some() || !is_low {
            return;
        }
        self.read = Some(Read {
            from,
            ..Read::default()
        });
        effects.refill = Some(Refill {
            queue: self.id,
            priority: 0,
            from,
            until: Seq::new(u64::MAX),
            rows_max: SOON_MAX - self.soon.len(),
            bytes_max: SOON_BYTES_MAX - self.soon_bytes,
            at_once: false,
        });
    }

    fn refilled(&mut self, refilled: Refilled, effects: &mut Effects) {
        let Some(read) = self.read.take() else {
            return;
        };
        let Read {
            came,
            gone,
            from,
            until,
            came_bytes: _,
        } = read;
        if self.horizon != Some(from) {
            // Sooner ones have pushed the horizon forward: what was read does not begin there.
            return;
        }
        let Refilled { rows, next, .. } = refilled;
        let next = next.into_iter().chain(until).min();
        let read = rows.into_iter().map(|row| {
            let held = Held {
                message: row.message,
                due: row.enqueued_at,
            };
            (row.seq, held)
        });
        let is_before = |(seq, _): &(Seq, Held)| next.is_none_or(|next| *seq < next);
        for (seq, held) in read.chain(came).filter(is_before) {
            let is_known = self.soon.contains_key(&seq)
                || self.leaving.contains_key(&seq)
                || gone.contains(&seq);
            if !is_known && self.later > 0 {
                self.later -= 1;
                self.insert(seq, held);
            }
        }
        self.horizon = next;
        if next.is_none() {
            // Without this they would be asked for for ever.
            let missing = std::mem::take(&mut self.later);
            effects.missing += missing;
            self.state.messages -= missing;
            self.is_state_stale |= missing > 0;
        }
    }

    fn delete(&mut self) {
        self.is_deleted = true;
        self.soon.clear();
        self.soon_bytes = 0;
        self.due.clear();
        self.leaving.clear();
        self.read = None;
        self.horizon = None;
        self.later = 0;
        self.state.messages = 0;
        self.state.message_bytes = 0;
    }

    /// Nothing is stored before this position.
    fn head(&self) -> Seq {
        let soon = self.soon.keys().next().copied();
        let leaving = self.leaving.keys().next().copied();
        let first = soon.into_iter().chain(leaving).chain(self.horizon).min();
        first.unwrap_or_else(|| position(self.now, 0))
    }
}

/// Where a message stands that is due then and has this number.
const fn position(due: Timestamp, number: u64) -> Seq {
    const SLOT_MAX: u64 = (1 << (64 - COUNT_BITS)) - 1;
    let slot = due.get() >> SLOT_SHIFT;
    let slot = if slot > SLOT_MAX { SLOT_MAX } else { slot };
    Seq::new(slot << COUNT_BITS | number & ((1 << COUNT_BITS) - 1))
}
