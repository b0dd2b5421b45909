//! A message enters the log.

use super::{MESSAGES, Stream, offset_header};
use crate::{
    ids::Timestamp,
    message::Message,
    queue::{Confirm, Effects},
    record::Write,
};

/// What a row costs beside what the message carries.
const ROW_BYTES: u64 = 40;

/// Bytes that count for the limits of a stream: the whole message, and about what its row adds.
pub(super) fn row_bytes(message: &Message) -> u64 {
    let carried = message.exchange().len()
        + message.routing_key().len()
        + message.properties().len()
        + message.body().len();
    carried as u64 + ROW_BYTES
}

impl Stream {
    pub(super) fn append(
        &mut self,
        message: &Message,
        confirm: Option<Confirm>,
        effects: &mut Effects,
    ) {
        if self.is_deleted {
            // It was routed here just before: gone with the stream, and as good as delivered.
            effects.accepted.extend(confirm);
            return;
        }
        self.counters.publish += 1;
        self.counters.disk_writes += 1;
        let offset = self.state.next;
        self.begin_segment(offset, effects);
        // Once here instead of once for every reader.
        let message = offset_header::with_offset(message, offset, &mut self.scratch);
        self.state.next = offset.next();
        self.state.messages += 1;
        self.state.message_bytes += row_bytes(&message);
        self.is_state_stale = true;
        effects.promises.extend(confirm);
        effects.writes.push(Write::Put {
            queue: self.id,
            priority: MESSAGES,
            seq: offset,
            enqueued_at: self.now,
            due: Timestamp::NEVER,
            message: message.clone(),
        });
        if self.readers.len() > 0 {
            self.tail.push(message);
        } else {
            self.tail.pass();
        }
    }
}
