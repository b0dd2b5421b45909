//! A message enters the queue.

use super::{Confirm, Effects, Queue, Ready};
use crate::{ids::Timestamp, message::Message, record::Write};

impl Queue {
    pub(super) fn enqueue(
        &mut self,
        message: Message,
        confirm: Option<Confirm>,
        effects: &mut Effects,
    ) {
        if self.is_deleted {
            // It was routed here just before: gone with the queue, and as good as delivered.
            effects.accepted.extend(confirm);
            return;
        }
        if self.settings.has_limits() && self.refuses(&message, effects) {
            effects.rejected.extend(confirm);
            return;
        }
        self.counters.publish += 1;
        let due = self.due_by_settings(self.now, &message);
        // A dead message of which an attempt failed is redelivered here, unless it goes straight through, as
        // RabbitMQ has it.
        let failed = message.was_delivered();
        let redelivered = failed && !(self.ready.is_empty() && self.consumers.is_anyone_ready());
        let seq = self.state.next;
        self.state.next = seq.next();
        if self.arrivals.is_new(self.now) {
            self.note_arrival(seq);
        }
        let spot = self.spot(seq, &message);
        let is_kept = self.keeps(&message);
        if !is_kept && !self.must_spill() {
            effects.accepted.extend(confirm);
            let ready = Ready {
                message,
                redelivered,
                failed,
                stored: false,
                due,
            };
            self.insert_ready(spot, ready);
            return;
        }
        let message_bytes = self.message_bytes(seq, &message);
        self.state.messages += 1;
        self.state.message_bytes += message_bytes;
        self.is_state_stale = true;
        if is_kept {
            effects.promises.extend(confirm);
        } else {
            effects.accepted.extend(confirm);
            self.count_spilled(message_bytes, effects);
        }
        self.counters.disk_writes += 1;
        effects.writes.push(Write::Put {
            queue: self.id,
            priority: spot.priority(),
            seq,
            enqueued_at: self.now,
            due,
            message: message.clone(),
        });
        // Behind cold messages it is cold as well, else it would overtake them.
        if self.window.is_full() || self.cold.has_before(spot) {
            self.cold.push(spot, message_bytes, is_kept);
            if due != Timestamp::NEVER {
                self.cold_due.insert((due, spot));
            }
        } else {
            let ready = Ready {
                message,
                redelivered,
                failed,
                stored: true,
                due,
            };
            self.insert_ready(spot, ready);
        }
    }
}
