//! What a reader is told of a message: its offset, in the header `x-stream-offset`.

use bytes::BytesMut;
use leveret_wire::content::{ExtraHeader, RawProperties};

use super::X_STREAM_OFFSET;
use crate::{
    ids::Seq,
    message::{Message, MessageParts},
};

/// What RabbitMQ's streams say of a message that says nothing.
const TRANSIENT: u8 = 1;

/// Buffers above this size are not kept for the next message.
const SCRATCH_KEPT_MAX: usize = 4096;

/// The message with its offset among its headers, in place of one that its publisher set, and with a
/// delivery mode.
pub(super) fn with_offset(message: &Message, offset: Seq, scratch: &mut BytesMut) -> Message {
    scratch.clear();
    let extra = ExtraHeader {
        name: X_STREAM_OFFSET.as_bytes(),
        value: i64::try_from(offset.get()).unwrap_or(i64::MAX),
        delivery_mode: TRANSIENT,
    };
    if RawProperties::put_with(message.properties(), extra, scratch).is_err() {
        // The session takes no such message.
        return message.clone();
    }
    let told = Message::new(MessageParts {
        exchange: message.exchange(),
        routing_key: message.routing_key(),
        properties: scratch,
        body: message.body_bytes(),
        persistent: message.is_persistent(),
        priority: message.priority(),
    });
    if scratch.capacity() > SCRATCH_KEPT_MAX {
        *scratch = BytesMut::new();
    }
    told
}
