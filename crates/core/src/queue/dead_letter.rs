//! A message dies: it goes elsewhere, and is kept here until it is there.
//!
//! With the strategy at-least-once a message that nobody took is kept for longer: it is *stranded*, and tried again
//! until somebody does.

use std::collections::BTreeMap;

use super::{
    DYING_BYTES_READ_MAX, DYING_READ_MAX, DeathReason, Effects, Queue, Ready, Spot, Stranding,
    Transfer,
};
use crate::ids::{QueueId, Seq, Timestamp};

/// How long stranded messages wait for the next try. RabbitMQ takes 3 minutes.
pub const STRANDED_RETRY_MILLIS: u64 = 1000;
/// Stranded messages tried at once; the next ones have their turn a wait later, or at once when one was taken.
pub const STRANDED_TRIED_MAX: usize = 256;

/// Dead messages that somebody was to take and did not. They are counted to the limits of the queue.
#[derive(Debug, Default)]
pub(super) struct Stranded {
    /// Those that are not being tried at the moment.
    waiting: BTreeMap<Seq, Unwanted>,
    /// Where the next try goes on.
    next: Seq,
    /// When that is.
    retry_at: Timestamp,
}

#[derive(Debug)]
struct Unwanted {
    reason: DeathReason,
    died_at: Timestamp,
    taken_by: Box<[QueueId]>,
}

impl Queue {
    /// The message leaves the queue without being acked. It is in no other place already.
    pub(super) fn die(
        &mut self,
        spot: Spot,
        ready: Ready,
        reason: DeathReason,
        effects: &mut Effects,
    ) {
        effects.deaths.note(reason);
        self.deaths_left = self.deaths_left.saturating_sub(1);
        if self.settings.dead_letter.is_none() {
            self.forget(spot, &ready, effects);
            return;
        }
        // Behind those that wait, so that they arrive in order.
        if self.settings.dead_letter_at_least_once
            && let Some(stranded) = &mut self.stranded
            && !stranded.waiting.is_empty()
        {
            let unwanted = Unwanted {
                reason,
                died_at: self.now,
                taken_by: Box::default(),
            };
            stranded.waiting.insert(spot.seq, unwanted);
        } else {
            effects.transfers.push(Transfer {
                seq: Some(spot.seq),
                reason,
                died_at: self.now,
                message: ready.message.clone(),
                was_delivered: ready.failed,
                taken_by: Box::default(),
            });
        }
        self.dying_message_bytes += self.message_bytes(spot.seq, &ready.message);
        self.dying.insert(spot.seq, ready);
    }

    /// Whether others have had their turn since the last ones died.
    pub(super) const fn may_die(&self) -> bool {
        self.deaths_left > 0
    }

    /// Whether of those that died before so many are gone that more may be read from the disk only to die. Each that goes is a
    /// command, behind which the queue looks again.
    pub(super) fn has_room_for_dead(&self) -> bool {
        let in_memory = self.dying_message_bytes - self.sinking_message_bytes;
        self.dying.len() < DYING_READ_MAX && in_memory < DYING_BYTES_READ_MAX
    }

    /// Somebody else has the message, or nobody wants it.
    pub(super) fn transferred(&mut self, seq: Seq, effects: &mut Effects) {
        let Some(ready) = self.dying.remove(&seq) else {
            return;
        };
        self.dying_message_bytes -= self.message_bytes(seq, &ready.message);
        if self.settings.dead_letter_at_least_once {
            effects.deaths.taken += 1;
        }
        if let Some(stranded) = &mut self.stranded {
            stranded.waiting.remove(&seq);
            // There is room again for others.
            stranded.retry_at = self.now;
        }
        let spot = self.spot(seq, &ready.message);
        if self.cold.is_asked() {
            self.arrived.insert(seq);
        }
        self.forget(spot, &ready, effects);
    }

    /// The message was refused, or there is nobody who could take it, but for those.
    pub(super) fn strand(&mut self, stranding: Stranding) {
        let Stranding {
            seq,
            reason,
            died_at,
            taken_by,
        } = stranding;
        if !self.dying.contains_key(&seq) {
            return;
        }
        let stranded = self.stranded.get_or_insert_default();
        if stranded.waiting.is_empty() {
            stranded.retry_at = self.now.plus_millis(STRANDED_RETRY_MILLIS);
        }
        let unwanted = Unwanted {
            reason,
            died_at,
            taken_by,
        };
        stranded.waiting.insert(seq, unwanted);
    }

    /// When stranded messages are to be tried again.
    pub(super) fn stranded_due(&self) -> Option<Timestamp> {
        let stranded = self.stranded.as_ref()?;
        (!stranded.waiting.is_empty()).then_some(stranded.retry_at)
    }

    /// Sends stranded messages on their way again, when it is time.
    pub(super) fn retry_stranded(&mut self, effects: &mut Effects) {
        if self.stranded_due().is_none_or(|due| due > self.now) {
            return;
        }
        let Some(stranded) = &mut self.stranded else {
            return;
        };
        stranded.retry_at = self.now.plus_millis(STRANDED_RETRY_MILLIS);
        let behind = stranded.waiting.range(stranded.next..);
        let before = stranded.waiting.range(..stranded.next);
        let tried = behind.chain(before).map(|(&seq, _)| seq);
        let tried: Vec<Seq> = tried.take(STRANDED_TRIED_MAX).collect();
        for seq in tried {
            stranded.next = seq.next();
            let (Some(unwanted), Some(ready)) =
                (stranded.waiting.remove(&seq), self.dying.get(&seq))
            else {
                continue;
            };
            effects.transfers.push(Transfer {
                seq: Some(seq),
                reason: unwanted.reason,
                died_at: unwanted.died_at,
                message: ready.message.clone(),
                was_delivered: ready.failed,
                taken_by: unwanted.taken_by,
            });
        }
        if stranded.waiting.is_empty() {
            stranded.next = Seq::default();
        }
        // A policy has changed meanwhile: nobody is to have them.
        if self.settings.dead_letter.is_none() {
            for transfer in std::mem::take(&mut effects.transfers) {
                if let Some(seq) = transfer.seq {
                    self.transferred(seq, effects);
                }
            }
        }
    }

    pub(super) fn check_stranded(&self) -> Result<(), String> {
        let dying = self.dying.iter();
        let message_bytes: u64 = dying
            .map(|(&seq, ready)| self.message_bytes(seq, &ready.message))
            .sum();
        let sinking = self.sinking.values();
        let on_disk: u64 = sinking.map(|sinking| sinking.stub.message_bytes()).sum();
        let counted = (self.dying_message_bytes, self.sinking_message_bytes);
        if (message_bytes + on_disk, on_disk) != counted {
            return Err(format!("{counted:?} dying bytes are counted"));
        }
        let stranded = self.stranded.iter();
        let mut stranded = stranded.flat_map(|stranded| stranded.waiting.keys());
        match stranded.find(|seq| !self.dying.contains_key(seq)) {
            Some(seq) => Err(format!("message {seq} is stranded and not dying")),
            None => Ok(()),
        }
    }
}
