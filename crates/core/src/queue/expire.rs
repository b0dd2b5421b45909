//! Messages leave when their time is over, and so does a queue that nobody uses.
//!
//! A message lives through the millisecond it is due in: one with a TTL of 0 is handed to an idle
//! consumer, and expires behind the next hand-out if there is none. Its time is settled when it comes, is
//! stored with it, and stays what it is whatever becomes of the settings. What is in memory leaves in the
//! order of its time, wherever it stands. What is cold is read when it is due; what was cold at the
//! start is not known by its time, and leaves when it comes into memory, which a queue with a TTL of
//! its own takes care of: it has its head there, and knows the heads of all priorities. A queue declared with `x-expiry: lazy` looks at
//! its head only, a quorum queue at the head of each priority, as RabbitMQ does.

use std::collections::BTreeSet;

use super::{
    DeathReason, Effects, Queue, Ready, Refilled, Spot, StoredMessage, WINDOW_BYTES_MAX,
    WINDOW_ROWS_MAX, cold::Asked, stub::Run,
};
use crate::{
    arguments::QueueType,
    ids::{Seq, Timestamp},
    message::Message,
};

/// Dead messages on their way elsewhere from which on no more of the backlog is read only to die: they wait on disk.
pub(super) const DYING_READ_MAX: usize = 2 * WINDOW_ROWS_MAX;
/// Bytes of their bodies from which on it is the same.
pub(super) const DYING_BYTES_READ_MAX: u64 = 16 * 1024 * 1024;

impl Queue {
    /// When the queue is to be sent the next [`super::Command::Tick`] at the latest.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        if self.is_deleted {
            return None;
        }
        let waits = self.retries.as_ref().and_then(|retries| retries.next_due());
        let acks = self.acks.next_check();
        let stranded = self.stranded_due();
        let returning = self.returning.is_some().then_some(self.now);
        let holdings = self.holdings_end();
        if !(self.has_deadlines() || self.settings.has_limits()) {
            let dues = [acks, waits, stranded, returning, holdings];
            return dues.into_iter().flatten().min();
        }
        let in_memory = if self.settings.lazy_expiry {
            self.known_head().map(|(_, due)| due)
        } else {
            self.due.first().map(|(due, _)| *due)
        };
        let cold = self.cold_due.first().map(|(due, _)| *due);
        let cold = cold.filter(|_| self.may_read_to_expire() && !self.settings.lazy_expiry);
        let must_read = self.must_read_on() || self.must_foresee();
        let unread = must_read.then_some(self.now);
        // After a start only: what was dying is back, and the queue longer than it may be.
        let overflow = self.must_drop().then_some(self.now);
        [
            in_memory,
            cold,
            unread,
            overflow,
            self.ends_at(),
            acks,
            waits,
            stranded,
            returning,
            holdings,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Somebody declared the queue or looked at it.
    pub fn touch(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        self.last_used = self.now;
    }

    /// Whether nobody has used the queue for as long as it lasts without.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.ends_at().is_some_and(|end| end <= now)
    }

    fn ends_at(&self) -> Option<Timestamp> {
        let millis = self.settings.expires_millis?;
        (self.consumers.len() == 0).then(|| self.last_used.plus_millis(millis))
    }

    /// When a message that enters the queue is to leave it. Decided once: other settings later change nothing of it.
    pub(super) fn due_by_settings(&self, enqueued_at: Timestamp, message: &Message) -> Timestamp {
        let own = message.life().expiration_millis;
        match (own, self.settings.message_ttl_millis) {
            (None, None) => Timestamp::NEVER,
            (Some(millis), None) | (None, Some(millis)) => enqueued_at.plus_millis(millis),
            (Some(own), Some(of_queue)) => enqueued_at.plus_millis(own.min(of_queue)),
        }
    }

    /// When a stored message is to leave.
    pub(super) fn due_of_row(&self, row: &StoredMessage) -> Timestamp {
        let by_settings = || self.due_by_settings(row.enqueued_at, &row.message);
        row.due.unwrap_or_else(by_settings)
    }

    /// What is over leaves, all of it or so much that others are to have their turn first. Runs behind every hand-out.
    pub(super) fn expire(&mut self, effects: &mut Effects) {
        while self.may_die()
            && let Some(spot) = self.next_over()
        {
            let Some(ready) = self.ready.remove(spot) else {
                break;
            };
            self.left_ready(spot, &ready);
            self.die(spot, ready, DeathReason::Expired, effects);
        }
        self.read_due(effects);
        if self.must_read_on() {
            self.ask_refill(effects);
        }
        effects.expired |= !self.is_deleted && self.is_expired(self.now);
    }

    /// Asks for what is over and cold, or when more of it is.
    pub(super) fn read_to_expire(&mut self, effects: &mut Effects) {
        self.read_due(effects);
        self.foresee(effects);
    }

    /// The next message in memory whose time is over.
    fn next_over(&self) -> Option<Spot> {
        let (spot, due) = if self.settings.lazy_expiry {
            self.known_head()?
        } else {
            self.due.first().map(|&(due, spot)| (spot, due))?
        };
        (due <= self.now).then_some(spot)
    }

    /// The head with its time, when it is in memory and expires; of a quorum queue the one of the heads of all its
    /// priorities that is due first.
    fn known_head(&self) -> Option<(Spot, Timestamp)> {
        let has_heads = self.settings.queue_type == QueueType::Quorum;
        let first_cold = self.cold.from();
        let mut found: Option<(Spot, Timestamp)> = None;
        let mut head = self.ready.first();
        while let Some((spot, ready)) = head {
            if first_cold.is_some_and(|from| from <= spot) {
                break;
            }
            if found.is_none_or(|(_, due)| ready.due < due) {
                found = Some((spot, ready.due));
            }
            head = spot
                .next_class()
                .filter(|_| has_heads)
                .and_then(|next| self.ready.first_from(next));
        }
        found.filter(|(_, due)| *due != Timestamp::NEVER)
    }

    /// Whether anything here has to do with time.
    pub(super) fn has_deadlines(&self) -> bool {
        !self.due.is_empty()
            || !self.cold_due.is_empty()
            || self.settings.expires_millis.is_some()
            || self.settings.message_ttl_millis.is_some()
    }

    /// What was stored before the start expires one behind the other: the next one is to be known.
    pub(super) fn must_read_on(&self) -> bool {
        // What came back is known by its time; where only the head leaves, it is to be there.
        let is_head_cold = self.settings.lazy_expiry && self.cold.returned().len() > 0;
        let is_next_unknown = self.window.is_empty() || is_head_cold;
        let is_next_wanted = self.settings.message_ttl_millis.is_some()
            && self
                .cold
                .from()
                .is_some_and(|from| from.seq < self.restored_until);
        let is_head_wanted = self.settings.lazy_expiry && !self.cold_due.is_empty();
        (is_next_wanted || is_head_wanted)
            && is_next_unknown
            && !self.cold.is_empty()
            && self.may_read_to_expire()
    }

    /// Nothing is being read, and those that died before are mostly gone.
    pub(super) fn may_read_to_expire(&self) -> bool {
        !self.cold.is_asked() && self.has_room_for_dead()
    }

    /// Asks for cold messages whose time is over, if any is, a page at a time.
    fn read_due(&mut self, effects: &mut Effects) {
        if self.settings.lazy_expiry || !self.may_read_to_expire() {
            return;
        }
        let mut over: Vec<Spot> = self.next_over_cold().map(|(_, spot)| spot).collect();
        over.sort_unstable();
        let Some(run) = Run::of(over) else {
            return;
        };
        self.cold.ask(Asked::Due(run));
        effects.refill = Some(run.refill(self.id, WINDOW_BYTES_MAX));
    }

    /// Cold messages whose time is over, those that were due first, and not more than are read together.
    fn next_over_cold(&self) -> impl Iterator<Item = (Timestamp, Spot)> {
        let over = self.cold_due.iter().copied();
        let over = over.take_while(|(due, _)| *due <= self.now);
        over.take(WINDOW_ROWS_MAX)
    }

    /// Of what came back, those whose time is over die; the others stay cold.
    pub(super) fn due_read(&mut self, refilled: Refilled, run: Run, effects: &mut Effects) {
        let until = refilled.next.unwrap_or(run.until);
        let over = self.next_over_cold();
        let over = over.filter(|(_, spot)| run.has(*spot) && spot.seq < until);
        let mut over: Vec<(Timestamp, Spot)> = over.collect();
        over.sort_unstable_by_key(|(_, spot)| spot.seq);
        let mut rows = refilled.rows.into_iter().peekable();
        for (due, spot) in over {
            self.cold_due.remove(&(due, spot));
            while rows.next_if(|row| row.seq < spot.seq).is_some() {}
            // What should have been there and was not is found to be missing when it is read in turn.
            let Some(row) = rows.next_if(|row| row.seq == spot.seq) else {
                continue;
            };
            self.die_cold(spot, due, row, effects);
        }
    }

    /// The time of a message is over that is cold and was just read.
    pub(super) fn die_cold(
        &mut self,
        spot: Spot,
        due: Timestamp,
        row: StoredMessage,
        effects: &mut Effects,
    ) {
        let is_kept = self.keeps(&row.message);
        let message_bytes = self.message_bytes(row.seq, &row.message);
        let Some(has_returned) = self.cold.remove(spot, message_bytes, is_kept) else {
            return;
        };
        self.drop_held_cold(row.seq);
        let ready = Ready {
            redelivered: has_returned
                || row.seq < self.redelivered_below
                || self.attempts.contains_key(&row.seq)
                || row.message.was_delivered(),
            failed: self.has_failed(row.seq, &row.message),
            message: row.message,
            stored: true,
            due,
        };
        self.die(spot, ready, DeathReason::Expired, effects);
    }

    pub(super) fn check_due(&self) -> Result<(), String> {
        let due = self.ready.iter().map(|(spot, ready)| (ready.due, spot));
        let due = due.filter(|(due, _)| *due != Timestamp::NEVER);
        if due.collect::<BTreeSet<_>>() != self.due {
            return Err(format!("not what expires: {:?}", self.due));
        }
        // One that is neither cold nor here was lost by the store, and is dropped when it is due.
        let in_memory: BTreeSet<Seq> = self.in_memory().map(|(seq, _)| seq).collect();
        let is_here = |seq: Seq| in_memory.contains(&seq) || self.unacked.contains(seq);
        for (due, spot) in &self.cold_due {
            let is_cold = self.cold.covers(*spot) || self.cold.returned().contains(*spot);
            if !is_cold && (is_here(spot.seq) || self.sinking.contains_key(&spot.seq)) {
                return Err(format!("{spot:?} is due at {due} and not cold"));
            }
        }
        Ok(())
    }
}
