//! The window of stored messages in memory, the cold range behind it, and how one becomes the other.

use std::collections::BTreeMap;

use super::{
    ColdPart, Effects, Queue, Ready, Refilled, Spot, WINDOW_BYTES_MAX, WINDOW_ROWS_MAX,
    returned::Returned,
    spill::Spilled,
    stub::{Run, Stub},
};
use crate::{
    ids::{QueueId, Seq, Timestamp},
    record::{QueueState, Write},
};

/// The read ahead starts when the window is down to this many rows.
const WINDOW_ROWS_LOW: usize = WINDOW_ROWS_MAX / 2;
/// And to this many bytes.
const WINDOW_BYTES_LOW: usize = WINDOW_BYTES_MAX / 2;

/// Rows to be read from the store, in order of their positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refill {
    /// The queue.
    pub queue: QueueId,
    /// The priority of the rows.
    pub priority: u8,
    /// First position to look at.
    pub from: Seq,
    /// Position behind the last one.
    pub until: Seq,
    /// At most this many rows.
    pub rows_max: usize,
    /// No further row once this many bytes are read.
    pub bytes_max: usize,
    /// Whatever is found there now is wanted, although writes that were asked for before may not be in the store yet: rows
    /// may be missing at the end, but none is there that is to go.
    pub at_once: bool,
}

/// How much of what is ready in memory is stored as well. Transient messages do not count: they have
/// no other place to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Window {
    rows: usize,
    bytes: usize,
}

impl Window {
    #[must_use]
    pub(super) fn with(self, ready: &Ready) -> Self {
        if !ready.stored {
            return self;
        }
        Self {
            rows: self.rows + 1,
            bytes: self.bytes + ready.message.memory_bytes(),
        }
    }

    #[must_use]
    pub(super) fn without(self, ready: &Ready) -> Self {
        if !ready.stored {
            return self;
        }
        Self {
            rows: self.rows - 1,
            bytes: self.bytes - ready.message.memory_bytes(),
        }
    }

    pub(super) const fn is_full(self) -> bool {
        self.rows >= WINDOW_ROWS_MAX || self.bytes >= WINDOW_BYTES_MAX
    }

    pub(super) const fn is_empty(self) -> bool {
        self.rows == 0
    }

    const fn is_low(self) -> bool {
        self.rows < WINDOW_ROWS_LOW && self.bytes < WINDOW_BYTES_LOW
    }
}

/// Positions whose stored messages are on disk only: of one class those from `from` on, of those
/// behind it up to the last one all from `lowest` on.
#[derive(Debug, Clone, Copy)]
pub(super) struct ColdRange {
    /// The class that is read now.
    class: u8,
    /// The last one that may have messages in it.
    last_class: u8,
    /// Before the first message of any class.
    lowest: Seq,
    /// Before the first message of this class.
    from: Seq,
    /// Behind the last one.
    pub(super) until: Seq,
    pub(super) messages: u64,
    pub(super) message_bytes: u64,
    /// Of these, what ends with the process.
    pub(super) spilled: Spilled,
}

impl ColdRange {
    /// One message.
    const fn of(spot: Spot, message_bytes: u64) -> Self {
        Self {
            class: spot.class(),
            last_class: spot.class(),
            lowest: spot.seq,
            from: spot.seq,
            until: spot.seq.next(),
            messages: 1,
            message_bytes,
            // A queue with priorities does not spill.
            spilled: Spilled {
                messages: 0,
                message_bytes: 0,
            },
        }
    }

    /// Each priority in it with its first position.
    pub(super) fn levels(self) -> impl Iterator<Item = (u8, Seq)> {
        (self.class..=self.last_class)
            .filter_map(move |class| Some((Spot::LAST_CLASS - class, self.first_of(class)?)))
    }

    /// The class that is read now.
    pub(super) const fn class(&self) -> u8 {
        self.class
    }

    /// The first position of this class in it.
    pub(super) fn first_of(&self, class: u8) -> Option<Seq> {
        let from = if class == self.class {
            self.from
        } else {
            self.lowest
        };
        (self.class..=self.last_class)
            .contains(&class)
            .then_some(from)
    }

    const fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Where it begins, if anything is in it.
    const fn first(&self) -> Option<Spot> {
        if self.is_empty() {
            return None;
        }
        Some(Spot::in_order(self.class, self.from))
    }

    /// Below this position nothing is in it.
    fn lowest(&self) -> Option<Seq> {
        let is_last = self.class == self.last_class;
        (!self.is_empty()).then_some(if is_last { self.from } else { self.lowest })
    }

    fn covers(&self, spot: Spot) -> bool {
        self.first().is_some_and(|first| spot >= first) && spot.seq < self.until
    }

    fn push(&mut self, seq: Seq, message_bytes: u64, is_kept: bool) {
        if self.is_empty() {
            self.from = seq;
        }
        self.until = seq.next();
        self.messages += 1;
        self.message_bytes += message_bytes;
        if !is_kept {
            self.spilled.add(message_bytes);
        }
    }

    fn remove(&mut self, message_bytes: u64, is_kept: bool) {
        self.messages -= 1;
        self.message_bytes -= message_bytes;
        if !is_kept {
            self.spilled.remove(Spilled {
                messages: 1,
                message_bytes,
            });
        }
    }

    /// The message at its start comes into memory; `false` when it is not in it.
    fn take_first(&mut self, seq: Seq, message_bytes: u64, is_kept: bool) -> bool {
        // A purge may have emptied it, or moved its start, while the rows were read.
        if self.is_empty() || seq < self.from {
            return false;
        }
        self.from = seq.next();
        self.remove(message_bytes, is_kept);
        true
    }

    /// Nothing of the class is left before `next`, and nothing of the classes before `next_class` if that is
    /// known. Whether all classes are read, and what is counted has no place to be any more.
    fn skip_to(&mut self, next: Seq, next_class: Option<u8>) -> bool {
        self.from = self.from.max(next);
        if self.from < self.until {
            return false;
        }
        if self.class < self.last_class {
            let next = self.class + 1;
            self.class = next_class.unwrap_or(next).clamp(next, self.last_class);
            self.from = self.lowest;
            return false;
        }
        true
    }
}

/// What is cold, and what is being read of it.
#[derive(Debug)]
pub(super) struct Cold {
    /// What was stored before the start; in a queue without priorities whatever is cold.
    range: ColdRange,
    /// What came since then in a queue with priorities, by class.
    levels: BTreeMap<u8, ColdRange>,
    has_priorities: bool,
    /// What came back, wherever it stands.
    returned: Returned,
    /// In all ranges, and returned.
    messages: u64,
    message_bytes: u64,
    /// What was asked for; the answer is still to come.
    asked: Option<Asked>,
    /// The last answer was for somebody who is to be handed messages: what is over has its turn.
    has_served: bool,
    /// And nobody knows when.
    is_unreadable: bool,
    /// Messages left it from its middle. Until the store has forgotten them it shows them among the others.
    has_gaps: bool,
}

/// Why rows are read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asked {
    /// To be handed out: from the start of a range on, which is that of a class or, without one, [`Cold::range`].
    Head { class: Option<u8>, until: Seq },
    /// Some of them are due.
    Due(Run),
    /// To know when those of a class leave.
    Times { class: u8 },
    /// Some of them came back, and are to be handed out.
    Returned(Run),
    /// Some of them are dead, and are to go elsewhere.
    Sinking(Run),
}

impl Cold {
    /// After a start everything stored is cold.
    pub(super) const fn of(stored: QueueState) -> Self {
        Self {
            range: ColdRange {
                class: Spot::LAST_CLASS,
                last_class: Spot::LAST_CLASS,
                lowest: stored.head,
                from: stored.head,
                until: stored.next,
                messages: stored.messages,
                message_bytes: stored.message_bytes,
                spilled: Spilled {
                    messages: 0,
                    message_bytes: 0,
                },
            },
            levels: BTreeMap::new(),
            has_priorities: false,
            returned: Returned::new(),
            messages: stored.messages,
            message_bytes: stored.message_bytes,
            asked: None,
            has_served: false,
            is_unreadable: false,
            has_gaps: false,
        }
    }

    pub(super) const fn messages(&self) -> u64 {
        self.messages
    }

    pub(super) const fn message_bytes(&self) -> u64 {
        self.message_bytes
    }

    /// Those that end with the process.
    pub(super) const fn spilled(&self) -> Spilled {
        let mut spilled = self.range.spilled;
        spilled.add_all(self.returned.spilled());
        spilled
    }

    /// What came back.
    pub(super) const fn returned(&self) -> &Returned {
        &self.returned
    }

    /// A message comes back whose body is on disk only.
    pub(super) fn put_back(&mut self, spot: Spot, stub: Stub) {
        self.messages += 1;
        self.message_bytes += stub.message_bytes();
        self.returned.insert(spot, stub);
    }

    /// One that came back comes into memory, or is gone.
    pub(super) fn take_returned(&mut self, spot: Spot) -> Option<Stub> {
        let stub = self.returned.remove(spot)?;
        self.messages -= 1;
        self.message_bytes -= stub.message_bytes();
        Some(stub)
    }

    pub(super) fn take_all_returned(&mut self) -> Vec<(Spot, Stub)> {
        self.messages -= self.returned.len();
        self.message_bytes -= self.returned.message_bytes();
        self.returned.take_all()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Everything of the class before this position was read.
    pub(super) const fn start(&self) -> Seq {
        self.range.from
    }

    /// Everything up to this position was read, and was none of the range.
    const fn pass(&mut self, seq: Seq) {
        self.range.from = seq.next();
    }

    pub(super) const fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// What was asked for does not come for now.
    pub(super) const fn note_unreadable(&mut self) {
        self.is_unreadable = self.asked.is_some();
    }

    pub(super) const fn is_unreadable(&self) -> bool {
        self.is_unreadable
    }

    /// What was asked for has come.
    const fn take_asked(&mut self) -> Option<Asked> {
        self.is_unreadable = false;
        self.has_served = matches!(self.asked, Some(Asked::Head { .. } | Asked::Returned(_)));
        self.asked.take()
    }

    /// Nothing in it has a higher priority than this class stands for.
    pub(super) const fn start_at(&mut self, class: u8) {
        self.range.class = class;
        self.has_priorities = class < Spot::LAST_CLASS;
    }

    /// Where the first range begins, if anything is cold.
    pub(super) fn from(&self) -> Option<Spot> {
        if self.is_empty() {
            return None;
        }
        let of_level = self.levels.values().next().and_then(ColdRange::first);
        let firsts = [self.range.first(), of_level, self.returned.first()];
        firsts.into_iter().flatten().min()
    }

    /// Below this position nothing is cold.
    pub(super) fn lowest(&self) -> Option<Seq> {
        let of_levels = self.levels.values().filter_map(ColdRange::lowest);
        of_levels
            .chain(self.range.lowest())
            .chain(self.returned.lowest())
            .min()
    }

    /// Places of what came back while its body is on disk only.
    pub(super) fn returned_spots(&self) -> impl Iterator<Item = Spot> {
        self.returned.keys()
    }

    /// All of it, part by part.
    pub(super) fn parts(&self) -> Vec<ColdPart> {
        let of_range = |range: &ColdRange| {
            let until = range.until;
            let levels = (!range.is_empty()).then(|| range.levels());
            levels
                .into_iter()
                .flatten()
                .map(move |(priority, from)| ColdPart {
                    priority,
                    from,
                    until,
                })
        };
        let ranges = std::iter::once(&self.range).chain(self.levels.values());
        ranges.flat_map(of_range).collect()
    }

    /// How many there are of each priority; of a queue with priorities only what came since the start.
    pub(super) fn by_priority(&self) -> impl Iterator<Item = (u8, u64)> {
        let range = (!self.has_priorities).then_some((0, self.range.messages));
        let of_level =
            |(class, level): (&u8, &ColdRange)| (Spot::LAST_CLASS - class, level.messages);
        let of_returned = |spot: Spot| (spot.priority(), 1);
        let levels = self.levels.iter().map(of_level);
        range
            .into_iter()
            .chain(levels)
            .chain(self.returned.keys().map(of_returned))
    }

    /// In a queue with priorities, what is left of what was stored before the start.
    pub(super) fn restored(&self) -> Option<&ColdRange> {
        (self.has_priorities && !self.range.is_empty()).then_some(&self.range)
    }

    /// Whether the store may show what has left.
    pub(super) const fn has_gaps(&self) -> bool {
        self.has_gaps
    }

    /// Whether a stored message of this place is on disk only.
    pub(super) fn covers(&self, spot: Spot) -> bool {
        let level = self.levels.get(&spot.class());
        level.is_some_and(|level| level.covers(spot)) || self.range.covers(spot)
    }

    /// Whether a message at the end of this class must not be in memory, because others of the class are cold
    /// that came since the start.
    pub(super) fn has_before(&self, spot: Spot) -> bool {
        if self.has_priorities {
            self.levels.contains_key(&spot.class())
        } else {
            !self.range.is_empty()
        }
    }

    /// A message behind all others of its class.
    pub(super) fn push(&mut self, spot: Spot, message_bytes: u64, is_kept: bool) {
        // What left before stands before this message, where nothing is read any more.
        self.has_gaps &= !self.is_empty();
        self.messages += 1;
        self.message_bytes += message_bytes;
        if !self.has_priorities {
            self.range.push(spot.seq, message_bytes, is_kept);
            return;
        }
        self.levels
            .entry(spot.class())
            .and_modify(|level| level.push(spot.seq, message_bytes, is_kept))
            .or_insert_with(|| ColdRange::of(spot, message_bytes));
    }

    pub(super) const fn ask(&mut self, asked: Asked) {
        self.asked = Some(asked);
    }

    /// A message somewhere in it is gone. Says whether it had come back; `None` of one that is not in it.
    pub(super) fn remove(&mut self, spot: Spot, message_bytes: u64, is_kept: bool) -> Option<bool> {
        if self.take_returned(spot).is_some() {
            return Some(true);
        }
        let level = self.levels.get_mut(&spot.class());
        match level.filter(|level| level.covers(spot)) {
            Some(level) => {
                level.remove(message_bytes, is_kept);
                if level.is_empty() {
                    self.levels.remove(&spot.class());
                }
            }
            None if self.range.covers(spot) => self.range.remove(message_bytes, is_kept),
            None => return None,
        }
        self.has_gaps = true;
        self.messages -= 1;
        self.message_bytes -= message_bytes;
        Some(false)
    }

    /// Empties the ranges and says what they were. A read of them may still be under way. What came back is taken
    /// before, or is nobody's business any more.
    pub(super) fn take_all(&mut self) -> Vec<ColdRange> {
        self.returned = Returned::new();
        let mut taken: Vec<ColdRange> = std::mem::take(&mut self.levels).into_values().collect();
        if !self.range.is_empty() {
            taken.push(self.range);
        }
        self.range.messages = 0;
        self.range.message_bytes = 0;
        self.range.spilled = Spilled::default();
        self.messages = 0;
        self.message_bytes = 0;
        taken
    }

    /// The range that rows were asked of, if it is still there.
    fn asked_range(&mut self, class: Option<u8>) -> Option<&mut ColdRange> {
        match class {
            None => Some(&mut self.range),
            Some(class) => self.levels.get_mut(&class),
        }
    }

    /// The message at the start of a range comes into memory; `false` when it is not in the range.
    fn take_first(
        &mut self,
        class: Option<u8>,
        seq: Seq,
        message_bytes: u64,
        is_kept: bool,
    ) -> bool {
        let Some(range) = self.asked_range(class) else {
            return false;
        };
        if !range.take_first(seq, message_bytes, is_kept) {
            return false;
        }
        let is_empty = range.is_empty();
        if let Some(class) = class.filter(|_| is_empty) {
            self.levels.remove(&class);
        }
        self.messages -= 1;
        self.message_bytes -= message_bytes;
        true
    }

    /// Nothing of the range is left before `next`. Returns what should be left, but has no place to be any more.
    fn skip_to(
        &mut self,
        class: Option<u8>,
        next: Seq,
        next_class: Option<u8>,
    ) -> Option<ColdRange> {
        let range = self.asked_range(class)?;
        if !range.skip_to(next, next_class) {
            return None;
        }
        let missing = *range;
        range.messages = 0;
        range.message_bytes = 0;
        range.spilled = Spilled::default();
        if let Some(class) = class {
            self.levels.remove(&class);
        }
        self.messages -= missing.messages;
        self.message_bytes -= missing.message_bytes;
        (missing.messages > 0).then_some(missing)
    }
}

impl Queue {
    /// Asks for as many rows as the window has room for, unless that was done already. They come as
    /// [`super::Command::Refilled`].
    ///
    /// Called while the window is low or empty, so that there is room. However fast it empties, every other read is for
    /// what is over, if anything is.
    pub(super) fn ask_refill(&mut self, effects: &mut Effects) {
        if self.cold.is_empty() || self.cold.is_asked() {
            return;
        }
        if self.cold.has_served && self.has_deadlines() {
            self.read_to_expire(effects);
            if self.cold.is_asked() {
                return;
            }
        }
        let Some(first) = self.cold.from() else {
            return;
        };
        // It may be full of what comes later than these rows.
        let window = if self.window.is_low() {
            self.window
        } else {
            Window::default()
        };
        if self.cold.returned.first() == Some(first) {
            self.read_returned(WINDOW_BYTES_MAX - window.bytes, effects);
            return;
        }
        let level = self.cold.levels.get(&first.class());
        let level = level.filter(|level| level.first() == Some(first));
        let until = level.unwrap_or(&self.cold.range).until;
        let class = level.map(|_| first.class());
        self.cold.ask(Asked::Head { class, until });
        effects.refill = Some(Refill {
            queue: self.id,
            priority: first.priority(),
            from: first.seq,
            until,
            rows_max: WINDOW_ROWS_MAX - window.rows,
            bytes_max: WINDOW_BYTES_MAX - window.bytes,
            at_once: !self.cold.has_gaps,
        });
    }

    /// Reads ahead for consumers while what is in memory still lasts. Not only when one has credit:
    /// those with a prefetch are out of it whenever everything was handed out that can be.
    pub(super) fn read_ahead(&mut self, effects: &mut Effects) {
        if self.consumers.len() > 0 && self.window.is_low() {
            self.ask_refill(effects);
        }
    }

    pub(super) fn refilled(&mut self, refilled: Refilled, effects: &mut Effects) {
        self.counters.disk_reads += refilled.rows.len() as u64;
        let (class, asked_until) = match self.cold.take_asked() {
            None => return,
            Some(Asked::Head { class, until }) => (class, until),
            Some(Asked::Due(run)) => {
                self.arrived.clear();
                self.due_read(refilled, run, effects);
                self.serve_gets(effects);
                return;
            }
            Some(Asked::Times { class }) => {
                let arrived = std::mem::take(&mut self.arrived);
                self.times_read(refilled, class, &arrived, effects);
                self.read_sinking(effects);
                self.serve_gets(effects);
                return;
            }
            Some(Asked::Returned(run)) => {
                self.arrived.clear();
                self.returned_read(refilled, run, effects);
                self.read_sinking(effects);
                self.serve_gets(effects);
                return;
            }
            Some(Asked::Sinking(run)) => {
                self.arrived.clear();
                self.sinking_read(refilled, run, effects);
                self.serve_gets(effects);
                return;
            }
        };
        let Refilled {
            rows,
            next,
            next_priority,
        } = refilled;
        let next_class = next_priority.map(|priority| Spot::LAST_CLASS - priority);
        let arrived = std::mem::take(&mut self.arrived);
        for row in rows {
            // It died while it was cold, and is not counted there any more.
            if self.dying.contains_key(&row.seq) || arrived.contains(&row.seq) {
                continue;
            }
            if self.is_leftover(row.seq, &row.message) {
                // Else a purge has covered it meanwhile.
                if self.has_leftovers && row.seq >= self.cold.start() {
                    effects.writes.push(Write::Forget {
                        queue: self.id,
                        priority: 0,
                        seq: row.seq,
                    });
                    self.cold.pass(row.seq);
                }
                continue;
            }
            let is_kept = self.keeps(&row.message);
            let message_bytes = self.message_bytes(row.seq, &row.message);
            if !self.cold.take_first(class, row.seq, message_bytes, is_kept) {
                continue;
            }
            if row.seq < self.restored_until {
                self.note_restored(row.seq, row.enqueued_at);
            }
            let due = self.due_of_row(&row);
            let ready = Ready {
                due,
                redelivered: row.seq < self.redelivered_below
                    || self.attempts.contains_key(&row.seq)
                    || row.message.was_delivered(),
                failed: self.has_failed(row.seq, &row.message),
                message: row.message,
                stored: true,
            };
            let spot = self.spot(row.seq, &ready.message);
            if due != Timestamp::NEVER {
                self.cold_due.remove(&(due, spot));
            }
            if let Some(ready) = self.thaw(row.seq, ready) {
                self.insert_ready(spot, ready);
            }
        }
        // Without this the queue would ask for them for ever.
        let next = next.unwrap_or(asked_until);
        if let Some(missing) = self.cold.skip_to(class, next, next_class) {
            let cold = &self.cold;
            self.cold_due
                .retain(|(_, spot)| cold.covers(*spot) || cold.returned().contains(*spot));
            if class.is_none() {
                self.drop_cold_retrying();
                self.forget_lost_attempts(effects);
            }
            self.count_forgotten(missing.messages, missing.message_bytes, missing.spilled);
            effects.missing += missing.messages;
        }
        self.forget_leftovers(effects);
        self.read_sinking(effects);
        self.serve_gets(effects);
    }
}
