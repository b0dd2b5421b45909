//! A queue may be full: the head makes room, or the new message is refused.

use super::{DYING_BYTES_READ_MAX, DYING_READ_MAX, DeathReason, Effects, Queue, Transfer};
use crate::{
    arguments::{Overflow, QueueSettings},
    message::Message,
};

impl QueueSettings {
    /// Whether the queue can be full.
    pub(super) const fn has_limits(&self) -> bool {
        self.max_length.is_some() || self.max_length_bytes.is_some()
    }

    fn is_too_much(&self, messages: u64, message_bytes: u64) -> bool {
        self.max_length.is_some_and(|max| messages > max)
            || self.max_length_bytes.is_some_and(|max| message_bytes > max)
    }
}

impl Queue {
    /// Whether a new message is refused: with it there would be too many ready ones.
    pub(super) fn refuses(&self, message: &Message, effects: &mut Effects) -> bool {
        if self.settings.overflow == Overflow::DropHead || !self.would_overflow(message) {
            return false;
        }
        if self.settings.overflow == Overflow::RejectPublishDeadLetter
            && self.settings.dead_letter.is_some()
        {
            effects.deaths.note(DeathReason::MaxLength);
            effects.transfers.push(Transfer {
                seq: None,
                reason: DeathReason::MaxLength,
                died_at: self.now,
                message: message.clone(),
                was_delivered: message.was_delivered(),
                taken_by: Box::default(),
            });
        }
        true
    }

    /// Drops messages from the head until the limits hold, or so many are gone that others are to have their turn first.
    ///
    /// Runs behind every hand-out, so that a message for an idle consumer never counts. A head that
    /// is still to be read is dropped when it came: until then the queue is longer than it should be.
    pub(super) fn drop_overflow(&mut self, effects: &mut Effects) {
        if self.settings.overflow != Overflow::DropHead {
            return;
        }
        while self.may_drop() {
            let Some((spot, ready)) = self.pop_head(effects) else {
                return;
            };
            // One that is over makes room like any other. Where only the head expires, it has become that only now.
            let is_over = !self.settings.lazy_expiry && ready.due < self.now;
            let reason = if is_over {
                DeathReason::Expired
            } else {
                DeathReason::MaxLength
            };
            self.die(spot, ready, reason, effects);
        }
    }

    /// Whether the queue is too long and nothing is under way to make it shorter.
    pub(super) fn must_drop(&self) -> bool {
        self.settings.overflow == Overflow::DropHead
            && self.returning.is_none()
            && self.is_too_long()
            && !self.is_backlog_held_up()
            && !self.cold.is_asked()
    }

    fn may_drop(&self) -> bool {
        self.may_die()
            && self.returning.is_none()
            && self.is_too_long()
            && !self.is_backlog_held_up()
    }

    /// A limit that came with a policy finds a backlog: it leaves no faster than the dead find their new places. Where there is
    /// little too much nobody waits, since it is publishers who make it so, and they wait for the dead.
    fn is_backlog_held_up(&self) -> bool {
        !self.has_room_for_dead()
            && self.settings.is_too_much(
                self.depth().ready.saturating_sub(DYING_READ_MAX as u64),
                self.ready_bytes().saturating_sub(DYING_BYTES_READ_MAX),
            )
    }

    fn is_too_long(&self) -> bool {
        self.settings
            .is_too_much(self.depth().ready, self.ready_bytes())
    }

    fn would_overflow(&self, message: &Message) -> bool {
        let mut messages = self.depth().ready + 1;
        let mut message_bytes = self.ready_bytes() + self.message_bytes(self.state.next, message);
        if self.settings.dead_letter_at_least_once {
            // They may stay for long.
            messages += (self.dying.len() + self.sinking.len()) as u64;
            message_bytes += self.dying_message_bytes;
        }
        self.settings.is_too_much(messages, message_bytes)
    }

    const fn ready_bytes(&self) -> u64 {
        self.ready_message_bytes + self.cold.message_bytes()
    }
}
