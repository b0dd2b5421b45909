//! When what was stored before the start of a queue with priorities is to leave.
//!
//! Of a queue without priorities the head leaves first, and the head is read. Here each priority has a head of its own, and
//! those of the lower ones may lie behind any number of others. So the times of some of each are looked up ahead, without
//! keeping the messages; the next ones when the last of these is over or was handed out.
//!
//! ```text
//!   priority 9   window ─────┬─ known ─┬───────────▶
//!   priority 2               ├─ known ─┼───────────▶        the messages themselves stay on disk
//!   priority 0               └─ known ─┴───────────▶
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::{Effects, Queue, Refill, Refilled, Spot, WINDOW_BYTES_MAX, cold::Asked};
use crate::ids::{Seq, Timestamp};

/// Times of one priority that are known ahead: more than expire while the next ones are read.
const FORESEEN_MAX: usize = 1000;

/// How far the times of what is on disk are known.
#[derive(Debug)]
pub(super) struct Foreseen {
    classes: BTreeMap<u8, Known>,
    /// From this class on none was looked at.
    next_class: Option<u8>,
}

/// What is known of one class.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Where to go on.
    next: Seq,
    /// The last one of those that were found there.
    last: Option<(Timestamp, Spot)>,
}

impl Foreseen {
    pub(super) const fn new() -> Self {
        Self {
            classes: BTreeMap::new(),
            next_class: Some(0),
        }
    }
}

impl Queue {
    /// Whether times are to be looked up, and may be at this moment.
    pub(super) fn must_foresee(&self) -> bool {
        self.next_unforeseen().is_some()
    }

    /// Looks some of them up.
    pub(super) fn foresee(&mut self, effects: &mut Effects) {
        let Some((class, from, until)) = self.next_unforeseen() else {
            return;
        };
        self.cold.ask(Asked::Times { class });
        effects.refill = Some(Refill {
            queue: self.id,
            priority: Spot::LAST_CLASS - class,
            from,
            until,
            rows_max: FORESEEN_MAX,
            bytes_max: WINDOW_BYTES_MAX,
            at_once: !self.cold.has_gaps(),
        });
    }

    /// Class, first position and the one behind the last.
    fn next_unforeseen(&self) -> Option<(u8, Seq, Seq)> {
        let leaves_by_time =
            self.settings.message_ttl_millis.is_some() && !self.settings.lazy_expiry;
        if !leaves_by_time || !self.may_read_to_expire() {
            return None;
        }
        let restored = self.cold.restored()?;
        let known = self.foreseen.classes.iter().find_map(|(&class, known)| {
            let is_ahead = known.last.is_some_and(|last| self.cold_due.contains(&last));
            let from = restored.first_of(class)?.max(known.next);
            (!is_ahead && from < restored.until).then_some((class, from))
        });
        let next = || {
            let class = self.foreseen.next_class?.max(restored.class());
            Some((class, restored.first_of(class)?))
        };
        let (class, from) = known.or_else(next)?;
        Some((class, from, restored.until))
    }

    /// Rows came: what is over leaves, and of the others the time is noted.
    pub(super) fn times_read(
        &mut self,
        refilled: Refilled,
        class: u8,
        arrived: &BTreeSet<Seq>,
        effects: &mut Effects,
    ) {
        let Refilled {
            rows,
            next,
            next_priority,
        } = refilled;
        let is_over = rows.is_empty() && next.is_none();
        let mut last = None;
        for row in rows {
            let spot = self.spot(row.seq, &row.message);
            let has_died = self.dying.contains_key(&row.seq) || arrived.contains(&row.seq);
            if has_died || !self.cold.covers(spot) || self.is_leftover(row.seq, &row.message) {
                continue;
            }
            // A former build has not written it: then it leaves when it comes into memory.
            let due = row.due.unwrap_or(Timestamp::NEVER);
            if due <= self.now {
                self.die_cold(spot, due, row, effects);
            } else if due != Timestamp::NEVER {
                self.cold_due.insert((due, spot));
                last = last.max(Some((due, spot)));
            }
        }
        let Foreseen {
            classes,
            next_class,
        } = &mut self.foreseen;
        if is_over {
            classes.remove(&class);
        } else {
            let next = next.unwrap_or(Seq::new(u64::MAX));
            classes.insert(class, Known { next, last });
        }
        if next_class.is_some_and(|next| next <= class) {
            let behind = class.checked_add(1);
            let found = next_priority.map(|priority| Spot::LAST_CLASS - priority);
            *next_class = match found {
                Some(found) => behind.map(|behind| behind.max(found)),
                None => behind.filter(|_| !is_over),
            };
        }
    }
}
