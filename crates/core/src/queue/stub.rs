//! Stored messages whose bodies are let go of while somebody holds them.
//!
//! ```text
//!   ready ──hand out──▶ unacked, whole            as long as they are few bytes
//!                       unacked, a stub ─ack────▶ gone             nothing else is needed for that
//!                              │ │
//!                              │ └─return───────▶ cold: read again when its turn comes; a retry is held back before
//!                              └─reject, expire─▶ sinking ─read──▶ dying
//! ```
//!
//! What is read again is told by its place: rows of others may stand between those that are wanted.

use super::{
    Asked, DeathReason, Effects, Outcome, Queue, Ready, Refill, Refilled, Spot, WINDOW_BYTES_MAX,
    WINDOW_ROWS_MAX, spill::Spilled,
};
use crate::{
    arguments::QueueType,
    ids::{QueueId, Seq, Timestamp},
    message::Message,
    record::Write,
};

/// Bytes of stored messages that a queue keeps in memory while they are unacked. Of what is handed out beyond that it
/// keeps the place and the length each.
pub const UNACKED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Rows of others that are read along rather than ask anew behind them.
const READ_ALONG_MAX: u64 = 64;

/// What is known of a message whose body is on disk only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stub {
    pub(super) due: Timestamp,
    message_bytes: u32,
    pub(super) class: u8,
    /// It outlives the process.
    is_kept: bool,
    /// An attempt with it failed.
    failed: bool,
}

impl Stub {
    pub(super) fn message_bytes(self) -> u64 {
        self.message_bytes.into()
    }

    /// Its part of what ends with the process.
    pub(super) fn spilled(self) -> Spilled {
        let mut spilled = Spilled::default();
        if !self.is_kept {
            spilled.add(self.message_bytes());
        }
        spilled
    }

    pub(super) const fn spot(self, seq: Seq) -> Spot {
        Spot::in_order(self.class, seq)
    }
}

/// An unacked message.
#[derive(Debug)]
pub(super) enum Held {
    Whole(Ready),
    OnDisk(Stub),
}

impl Held {
    pub(super) const fn whole(&self) -> Option<&Ready> {
        match self {
            Self::Whole(ready) => Some(ready),
            Self::OnDisk(_) => None,
        }
    }

    pub(super) const fn stub(&self) -> Option<Stub> {
        match self {
            Self::Whole(_) => None,
            Self::OnDisk(stub) => Some(*stub),
        }
    }
}

/// A dead message that is to go elsewhere, once its body is read.
#[derive(Debug)]
pub(super) struct Sinking {
    pub(super) stub: Stub,
    reason: DeathReason,
}

impl Queue {
    /// The same queue with another bound than [`UNACKED_BYTES_MAX`]; before anything else happens to it.
    #[must_use]
    pub const fn with_unacked_bytes_max(mut self, bytes: usize) -> Self {
        self.unacked_bytes_max = bytes;
        self
    }

    /// What is kept of a message while somebody holds it.
    pub(super) fn held(&mut self, spot: Spot, ready: Ready) -> Held {
        if !ready.stored {
            return Held::Whole(ready);
        }
        let bytes = self.unacked_bytes + ready.message.memory_bytes();
        if bytes > self.unacked_bytes_max
            && let Some(stub) = self.let_go(spot, &ready)
        {
            return Held::OnDisk(stub);
        }
        self.unacked_bytes = bytes;
        Held::Whole(ready)
    }

    pub(super) fn held_bytes(&self, seq: Seq, held: &Held) -> u64 {
        match held {
            Held::Whole(ready) => self.message_bytes(seq, &ready.message),
            Held::OnDisk(stub) => stub.message_bytes(),
        }
    }

    #[cold]
    pub(super) fn let_go(&self, spot: Spot, ready: &Ready) -> Option<Stub> {
        let message_bytes = self.message_bytes(spot.seq, &ready.message);
        Some(Stub {
            due: ready.due,
            message_bytes: u32::try_from(message_bytes).ok()?,
            class: spot.class(),
            is_kept: self.keeps(&ready.message),
            failed: ready.failed,
        })
    }

    /// A delivery ended of which no body is in memory. Its consumer has its credit back.
    #[cold]
    pub(super) fn end_stub(
        &mut self,
        seq: Seq,
        mut stub: Stub,
        outcome: Outcome,
        effects: &mut Effects,
    ) {
        stub.failed |= outcome.is_failure();
        match outcome {
            Outcome::Acked => {
                self.counters.ack += 1;
                self.forget_stub(seq, stub, effects);
            }
            Outcome::Discarded | Outcome::Rejected => {
                self.sink(seq, stub, DeathReason::Rejected, effects)
            }
            Outcome::Returned => self.stub_comes_back(seq, stub, false, effects),
            Outcome::Failed => self.stub_comes_back(seq, stub, true, effects),
        }
    }

    /// As [`Queue::come_back`], of a stub.
    fn stub_comes_back(&mut self, seq: Seq, stub: Stub, is_failure: bool, effects: &mut Effects) {
        let is_over = !self.settings.lazy_expiry && stub.due <= self.now;
        let mut until = None;
        if self.counts_returns() {
            let Some(mut attempts) = self.count_return(seq, is_failure) else {
                self.sink(seq, stub, DeathReason::DeliveryLimit, effects);
                return;
            };
            if !is_over {
                until = self.held_until(seq, attempts, is_failure);
            }
            attempts.due = until.unwrap_or_default();
            self.keep_attempts(seq, stub.is_kept, attempts, effects);
        }
        if is_over {
            self.sink(seq, stub, DeathReason::Expired, effects);
            return;
        }
        match until {
            Some(until) => self.hold_back_on_disk(seq, until, stub),
            None => self.put_stub_back(seq, stub),
        }
    }

    fn put_stub_back(&mut self, seq: Seq, stub: Stub) {
        let spot = match self.settings.queue_type {
            QueueType::Quorum => self.take_turn(stub.spot(seq)),
            QueueType::Classic | QueueType::Stream => stub.spot(seq),
        };
        if stub.due != Timestamp::NEVER {
            self.cold_due.insert((stub.due, spot));
        }
        self.cold.put_back(spot, stub);
    }

    /// One that was held back goes on.
    pub(super) fn end_wait_on_disk(&mut self, seq: Seq, stub: Stub, effects: &mut Effects) {
        if stub.due <= self.now && !self.settings.lazy_expiry {
            self.sink(seq, stub, DeathReason::Expired, effects);
        } else {
            self.put_stub_back(seq, stub);
        }
    }

    pub(super) fn forget_stub(&mut self, seq: Seq, stub: Stub, effects: &mut Effects) {
        if !self.attempts.is_empty() {
            self.forget_attempts(seq, effects);
        }
        self.count_forgotten(1, stub.message_bytes(), stub.spilled());
        effects.writes.push(Write::Forget {
            queue: self.id,
            priority: stub.spot(seq).priority(),
            seq,
        });
    }

    /// A message dies whose body is still to be read, if anybody is to have it.
    fn sink(&mut self, seq: Seq, stub: Stub, reason: DeathReason, effects: &mut Effects) {
        if self.settings.dead_letter.is_none() {
            effects.deaths.note(reason);
            self.forget_stub(seq, stub, effects);
            return;
        }
        self.dying_message_bytes += stub.message_bytes();
        self.sinking_message_bytes += stub.message_bytes();
        self.sinking.insert(seq, Sinking { stub, reason });
    }

    /// Asks for the bodies of dead messages, unless enough of those are on their way.
    pub(super) fn read_sinking(&mut self, effects: &mut Effects) {
        if self.cold.is_asked() || !self.has_room_for_dead() {
            return;
        }
        let stubs = self.sinking.iter();
        let spots = stubs.map(|(&seq, sinking)| sinking.stub.spot(seq));
        let Some(run) = Run::of(spots) else {
            return;
        };
        self.cold.ask(Asked::Sinking(run));
        effects.refill = Some(run.refill(self.id, WINDOW_BYTES_MAX));
    }

    /// Rows came among which there are those of dead messages.
    pub(super) fn sinking_read(&mut self, refilled: Refilled, run: Run, effects: &mut Effects) {
        let until = refilled.next.unwrap_or(run.until).min(run.until);
        let sinking = self.sinking.range(run.first.seq..until);
        let of_class = sinking.filter(|(_, sinking)| sinking.stub.class == run.first.class());
        let wanted: Vec<Seq> = of_class.map(|(&seq, _)| seq).collect();
        let mut rows = refilled.rows.into_iter().peekable();
        for seq in wanted {
            let Some(Sinking { stub, reason }) = self.sinking.remove(&seq) else {
                continue;
            };
            self.dying_message_bytes -= stub.message_bytes();
            self.sinking_message_bytes -= stub.message_bytes();
            while rows.next_if(|row| row.seq < seq).is_some() {}
            match rows.next_if(|row| row.seq == seq) {
                Some(row) => {
                    let ready = stub.whole_again(row.message);
                    self.die(stub.spot(seq), ready, reason, effects);
                }
                None => self.lost(seq, stub, effects),
            }
        }
    }

    /// Asks for the first of those that came back.
    pub(super) fn read_returned(&mut self, bytes_max: usize, effects: &mut Effects) {
        let Some(run) = Run::of(self.cold.returned().keys()) else {
            return;
        };
        self.cold.ask(Asked::Returned(run));
        effects.refill = Some(run.refill(self.id, bytes_max));
    }

    /// Rows came among which there are those of messages that came back.
    pub(super) fn returned_read(&mut self, refilled: Refilled, run: Run, effects: &mut Effects) {
        let until = refilled.next.unwrap_or(run.until).min(run.until);
        let mut rows = refilled.rows.into_iter().peekable();
        let mut from = run.first;
        while let Some(spot) = self.cold.returned().first_from(from)
            && run.goes_on_with(from, spot)
            && spot.seq < until
        {
            let Some(stub) = self.cold.take_returned(spot) else {
                break;
            };
            if stub.due != Timestamp::NEVER {
                self.cold_due.remove(&(stub.due, spot));
            }
            while rows.next_if(|row| row.seq < spot.seq).is_some() {}
            match rows.next_if(|row| row.seq == spot.seq) {
                Some(row) => self.insert_ready(spot, stub.whole_again(row.message)),
                None => self.lost(spot.seq, stub, effects),
            }
            from = spot;
        }
    }

    /// It should have been there and was not.
    #[cold]
    fn lost(&mut self, seq: Seq, stub: Stub, effects: &mut Effects) {
        if !self.attempts.is_empty() {
            self.forget_attempts(seq, effects);
        }
        self.count_forgotten(1, stub.message_bytes(), stub.spilled());
        effects.missing += 1;
    }

    /// Of what is unacked, held back or dead, what is on disk only.
    pub(super) fn stubs(&self) -> impl Iterator<Item = Stub> {
        let unacked = self.unacked.values();
        let unacked = unacked.filter_map(|unacked| unacked.held.stub());
        let held_back = self.waiting_on_disk().map(|(_, _, stub)| stub);
        unacked
            .chain(held_back)
            .chain(self.sinking.values().map(|sinking| sinking.stub))
    }

    /// Drops those that came back and are cold, for whoever empties the queue.
    pub(super) fn forget_returned(&mut self, effects: &mut Effects) {
        let mut run: Option<(Spot, Seq)> = None;
        for (spot, stub) in self.cold.take_all_returned() {
            self.count_forgotten(1, stub.message_bytes(), stub.spilled());
            // One behind the other go in one write: nothing else stands between them.
            match &mut run {
                Some((first, until)) if first.class() == spot.class() && *until == spot.seq => {
                    *until = spot.seq.next();
                }
                _ => {
                    self.forget_run(run.replace((spot, spot.seq.next())), effects);
                }
            }
        }
        self.forget_run(run, effects);
    }

    fn forget_run(&self, run: Option<(Spot, Seq)>, effects: &mut Effects) {
        let Some((first, until)) = run else {
            return;
        };
        let (queue, priority, seq) = (self.id, first.priority(), first.seq);
        effects.writes.push(if seq.next() == until {
            Write::Forget {
                queue,
                priority,
                seq,
            }
        } else {
            Write::ForgetRange {
                queue,
                priority,
                from: seq,
                until,
            }
        });
    }

    pub(super) fn check_stubs(&self) -> Result<(), String> {
        let whole = self
            .unacked
            .values()
            .filter_map(|unacked| unacked.held.whole());
        let stored = whole.filter(|ready| ready.stored);
        let bytes: usize = stored.map(|ready| ready.message.memory_bytes()).sum();
        if bytes != self.unacked_bytes {
            return Err(format!(
                "{} unacked bytes are counted, not {bytes}",
                self.unacked_bytes
            ));
        }
        for spot in self.cold.returned().keys() {
            let seq = spot.seq;
            if self.ready.contains(spot)
                || self.unacked.contains(seq)
                || self.dying.contains_key(&seq)
                || self.sinking.contains_key(&seq)
            {
                return Err(format!("message {seq} came back and is elsewhere"));
            }
        }
        let mut sinking = self.sinking.keys();
        match sinking.find(|seq| self.unacked.contains(**seq) || self.dying.contains_key(seq)) {
            Some(seq) => Err(format!("message {seq} is dead and elsewhere")),
            None => self.cold.returned().check(),
        }
    }
}

impl Stub {
    /// Somebody has had it: it is flagged.
    const fn whole_again(self, message: Message) -> Ready {
        Ready {
            message,
            redelivered: true,
            failed: self.failed,
            stored: true,
            due: self.due,
        }
    }
}

/// Places of one class, the later ones behind the earlier ones, that are worth reading together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    first: Spot,
    pub(super) until: Seq,
}

impl Run {
    pub(super) fn of(spots: impl IntoIterator<Item = Spot>) -> Option<Self> {
        let mut spots = spots.into_iter();
        let first = spots.next()?;
        let mut run = Self {
            first,
            until: first.seq.next(),
        };
        let mut last = first;
        for spot in spots.take(WINDOW_ROWS_MAX - 1) {
            let is_near = spot.seq.get() <= last.seq.get() + READ_ALONG_MAX;
            if !run.goes_on_with(last, spot) || !is_near {
                break;
            }
            last = spot;
        }
        run.until = last.seq.next();
        Some(run)
    }

    /// Whether the next place is of the same run.
    const fn goes_on_with(&self, last: Spot, next: Spot) -> bool {
        next.seq.get() >= last.seq.get()
            && next.class() == self.first.class()
            && next.has_turn() == self.first.has_turn()
    }

    /// Whether a row of this place is among those of the run.
    pub(super) fn has(&self, spot: Spot) -> bool {
        spot.class() == self.first.class() && (self.first.seq..self.until).contains(&spot.seq)
    }

    /// Nothing that waits to be written can be missed: whether a row is wanted is known without.
    pub(super) const fn refill(&self, queue: QueueId, bytes_max: usize) -> Refill {
        Refill {
            queue,
            priority: self.first.priority(),
            from: self.first.seq,
            until: self.until,
            rows_max: WINDOW_ROWS_MAX,
            bytes_max,
            at_once: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Unacked;

    #[test]
    fn what_is_known_of_an_unacked_message_takes_no_more_than_the_message_itself() {
        assert_eq!(size_of::<Held>(), size_of::<Ready>());
        assert!(size_of::<(Seq, Option<Unacked>)>() <= 64);
    }
}
