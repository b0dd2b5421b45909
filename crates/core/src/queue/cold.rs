//! The window of stored messages in memory, the cold range behind it, and how one becomes the other.

use super::{
    Effects, Queue, Ready, Refilled, Spot, WINDOW_BYTES_MAX, WINDOW_ROWS_MAX, spill::Spilled,
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
/// behind it all from `lowest` on.
#[derive(Debug, Clone, Copy)]
pub(super) struct ColdRange {
    /// The class that is read now; without priorities there is only one.
    class: u8,
    /// Before the first message of any class.
    lowest: Seq,
    /// Before the first message of this class.
    pub(super) from: Seq,
    /// Behind the last one.
    pub(super) until: Seq,
    pub(super) messages: u64,
    pub(super) body_bytes: u64,
    /// Of these, what ends with the process.
    pub(super) spilled: Spilled,
}

impl ColdRange {
    fn remove(&mut self, body_bytes: u64, is_kept: bool) {
        self.messages -= 1;
        self.body_bytes -= body_bytes;
        if !is_kept {
            self.spilled.remove(Spilled {
                messages: 1,
                body_bytes,
            });
        }
    }

    /// Each priority in it with its first position.
    pub(super) fn levels(self) -> impl Iterator<Item = (u8, Seq)> {
        (self.class..=Spot::LAST_CLASS).map(move |class| {
            let from = if class == self.class {
                self.from
            } else {
                self.lowest
            };
            (Spot::LAST_CLASS - class, from)
        })
    }
}

/// The cold range and what is being read of it.
#[derive(Debug)]
pub(super) struct Cold {
    range: ColdRange,
    /// What was asked for; the answer is still to come.
    asked: Option<Asked>,
}

/// Why rows are read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asked {
    /// To be handed out: from the start of the range on.
    Head { until: Seq },
    /// Some of them are due.
    Due { from: Seq, until: Seq },
}

impl Cold {
    /// After a start everything stored is cold.
    pub(super) const fn of(stored: QueueState) -> Self {
        Self {
            range: ColdRange {
                class: Spot::LAST_CLASS,
                lowest: stored.head,
                from: stored.head,
                until: stored.next,
                messages: stored.messages,
                body_bytes: stored.body_bytes,
                spilled: Spilled {
                    messages: 0,
                    body_bytes: 0,
                },
            },
            asked: None,
        }
    }

    pub(super) const fn messages(&self) -> u64 {
        self.range.messages
    }

    pub(super) const fn body_bytes(&self) -> u64 {
        self.range.body_bytes
    }

    /// Those that end with the process.
    pub(super) const fn spilled(&self) -> Spilled {
        self.range.spilled
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.range.messages == 0
    }

    /// Everything of the class before this position was read.
    pub(super) const fn start(&self) -> Seq {
        self.range.from
    }

    pub(super) const fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Nothing in it has a higher priority than this class stands for.
    pub(super) const fn start_at(&mut self, class: u8) {
        self.range.class = class;
    }

    /// Where the range begins, if anything is in it.
    pub(super) fn from(&self) -> Option<Spot> {
        (!self.is_empty()).then_some(Spot {
            class: self.range.class,
            seq: self.range.from,
        })
    }

    /// Below this position nothing is in it.
    pub(super) fn lowest(&self) -> Option<Seq> {
        let ColdRange {
            class,
            lowest,
            from,
            ..
        } = self.range;
        let is_last = class == Spot::LAST_CLASS;
        (!self.is_empty()).then_some(if is_last { from } else { lowest })
    }

    /// Behind everything in it.
    pub(super) const fn until(&self) -> Seq {
        self.range.until
    }

    pub(super) fn push(&mut self, seq: Seq, body_bytes: u64, is_kept: bool) {
        if self.is_empty() {
            self.range.from = seq;
        }
        self.range.until = seq.next();
        self.range.messages += 1;
        self.range.body_bytes += body_bytes;
        if !is_kept {
            self.range.spilled.add(body_bytes);
        }
    }

    pub(super) const fn ask(&mut self, asked: Asked) {
        self.asked = Some(asked);
    }

    /// A message somewhere in the range is gone.
    pub(super) fn remove(&mut self, body_bytes: u64, is_kept: bool) {
        self.range.remove(body_bytes, is_kept);
    }

    /// Empties the range and says what it was. A read of it may still be under way.
    pub(super) fn take(&mut self) -> Option<ColdRange> {
        let range = self.range;
        self.range.messages = 0;
        self.range.body_bytes = 0;
        self.range.spilled = Spilled::default();
        (range.messages > 0).then_some(range)
    }

    /// Everything up to this position was read, and was none of the range.
    const fn pass(&mut self, seq: Seq) {
        self.range.from = seq.next();
    }

    /// The message at the start of the range comes into memory; `false` when it is not in the range.
    fn take_first(&mut self, seq: Seq, body_bytes: u64, is_kept: bool) -> bool {
        // A purge may have emptied the range, or moved its start, while the rows were read.
        if self.is_empty() || seq < self.range.from {
            return false;
        }
        self.range.from = seq.next();
        self.range.remove(body_bytes, is_kept);
        true
    }

    /// Nothing of the class is left before `next`. Returns what should be left, but has no place to be any more.
    fn skip_to(&mut self, next: Seq) -> Option<ColdRange> {
        self.range.from = self.range.from.max(next);
        if self.range.from < self.range.until {
            return None;
        }
        if self.range.class < Spot::LAST_CLASS {
            self.range.class += 1;
            self.range.from = self.range.lowest;
            return None;
        }
        self.take()
    }
}

impl Queue {
    /// Asks for as many rows as the window has room for, unless that was done already. They come as
    /// [`super::Command::Refilled`].
    ///
    /// Called while the window is low or empty, so that there is room.
    pub(super) fn ask_refill(&mut self, effects: &mut Effects) {
        if self.cold.is_empty() || self.cold.is_asked() {
            return;
        }
        let ColdRange {
            class, from, until, ..
        } = self.cold.range;
        self.cold.ask(Asked::Head { until });
        // The window of a queue with priorities may be filled by what comes later than these rows.
        let window = match self.settings.max_priority {
            0 => self.window,
            _ => Window::default(),
        };
        effects.refill = Some(Refill {
            queue: self.id,
            priority: Spot::LAST_CLASS - class,
            from,
            until,
            rows_max: WINDOW_ROWS_MAX - window.rows,
            bytes_max: WINDOW_BYTES_MAX - window.bytes,
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
        let asked_until = match self.cold.asked.take() {
            None => return,
            Some(Asked::Head { until }) => until,
            Some(Asked::Due { from, until }) => {
                self.due_read(refilled, from, until, effects);
                self.serve_gets(effects);
                return;
            }
        };
        let Refilled { rows, next } = refilled;
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
            let body_bytes = row.message.body().len() as u64;
            if !self.cold.take_first(row.seq, body_bytes, is_kept) {
                continue;
            }
            let due = self.due_of(row.enqueued_at, &row.message);
            let ready = Ready {
                due,
                redelivered: row.seq < self.redelivered_below || row.message.was_delivered(),
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
        if let Some(missing) = self.cold.skip_to(next.unwrap_or(asked_until)) {
            self.cold_due.clear();
            self.drop_cold_retrying(effects);
            self.count_forgotten(missing.messages, missing.body_bytes, missing.spilled);
            effects.missing += missing.messages;
        }
        self.forget_leftovers(effects);
        self.serve_gets(effects);
    }
}
