//! A message dies: it goes elsewhere, and is kept here until it is there.

use super::{DeathReason, Effects, Queue, Ready, Spot, Transfer};
use crate::ids::Seq;

impl Queue {
    /// The message leaves the queue without being acked. It is in no other place already.
    pub(super) fn die(
        &mut self,
        spot: Spot,
        ready: Ready,
        reason: DeathReason,
        effects: &mut Effects,
    ) {
        if self.settings.dead_letter.is_none() {
            self.forget(spot, &ready, effects);
            return;
        }
        effects.transfers.push(Transfer {
            seq: Some(spot.seq),
            reason,
            message: ready.message.clone(),
            was_delivered: ready.redelivered,
        });
        self.dying.insert(spot.seq, ready);
    }

    /// Somebody else has the message, or nobody wants it.
    pub(super) fn transferred(&mut self, seq: Seq, effects: &mut Effects) {
        if let Some(ready) = self.dying.remove(&seq) {
            let spot = self.spot(seq, &ready.message);
            if self.cold.is_asked() {
                self.arrived.insert(seq);
            }
            self.forget(spot, &ready, effects);
        }
    }
}
