//! `messages`: one message in one queue.
//!
//! ```text
//!   0         1            5       6          7             15             16          17               21
//!   │ version │ checksum 4 │ flags │ priority │ enqueued at 8 │ exchange len │ key len │ properties len 4 │
//!   │ exchange │ routing key │ properties as received │ body …
//! ```
//!
//! Flags: persistent 1, has a priority property 2. The body comes last and has no length: it is never copied on its way
//! into the batch.

use bytes::{Bytes, BytesMut};
use leveret_core::{
    ids::Timestamp,
    message::{Message, MessageParts},
};

use crate::{
    error::Damage,
    key::MessageKey,
    row::{Fields, RowBuf},
    schema::Table,
};

const VERSION: u8 = 1;

const PERSISTENT: u8 = 1;
const HAS_PRIORITY: u8 = 2;
const KNOWN_FLAGS: u8 = PERSISTENT | HAS_PRIORITY;

/// The row up to its body; the body follows it in the store.
pub(crate) fn encode_before_body<'a>(
    row: &'a mut RowBuf,
    key: &MessageKey,
    enqueued_at: Timestamp,
    message: &Message,
) -> &'a [u8] {
    let flags = if message.is_persistent() {
        PERSISTENT
    } else {
        0
    } | if message.priority().is_some() {
        HAS_PRIORITY
    } else {
        0
    };
    let (exchange, routing_key) = (message.exchange(), message.routing_key());
    let properties = message.properties();
    row.start(VERSION)
        .u8(flags)
        .u8(message.priority().unwrap_or(0))
        .u64(enqueued_at.get())
        .u8(u8::try_from(exchange.len()).expect("a short string has at most 255 bytes"))
        .u8(u8::try_from(routing_key.len()).expect("a short string has at most 255 bytes"))
        .u32(u32::try_from(properties.len()).expect("properties fit into a frame"))
        .raw(exchange)
        .raw(routing_key)
        .raw(properties)
        .seal_before(Table::Messages, key, message.body())
}

/// Reads a row. `bodies` is where bodies are copied to, so that a page of small ones costs few allocations.
pub(crate) fn decode(
    key: &[u8],
    value: &[u8],
    bodies: &mut BytesMut,
) -> Result<(Timestamp, Message), Damage> {
    let mut fields = Fields::open(Table::Messages, key, value, VERSION)?;
    let flags = fields.u8()?;
    if flags & !KNOWN_FLAGS != 0 {
        return Err(Damage::Malformed);
    }
    let priority = fields.u8()?;
    let enqueued_at = Timestamp::new(fields.u64()?);
    let exchange_len = fields.u8()?;
    let routing_key_len = fields.u8()?;
    let properties_len = usize::try_from(fields.u32()?).map_err(|_| Damage::Malformed)?;
    let exchange = fields.raw(exchange_len.into())?;
    let routing_key = fields.raw(routing_key_len.into())?;
    let properties = fields.raw(properties_len)?;
    let message = Message::new(MessageParts {
        exchange,
        routing_key,
        properties,
        body: copy_body(fields.rest(), bodies),
        persistent: flags & PERSISTENT != 0,
        priority: (flags & HAS_PRIORITY != 0).then_some(priority),
    });
    Ok((enqueued_at, message))
}

/// Small bodies are copied once more by the message and leave the buffer free again; large ones stay, each in a piece of
/// its own.
fn copy_body(body: &[u8], bodies: &mut BytesMut) -> Bytes {
    if body.len() < leveret_core::message::SHARED_BODY_MIN {
        bodies.extend_from_slice(body);
        bodies.split().freeze()
    } else {
        Bytes::copy_from_slice(body)
    }
}

#[cfg(test)]
mod tests {
    use leveret_core::ids::{QueueId, Seq};

    use super::*;
    use crate::key::Place;

    fn key() -> MessageKey {
        Place {
            queue: QueueId::new(1),
            priority: 0,
            seq: Seq::new(2),
        }
        .key()
    }

    fn message(body: Vec<u8>, persistent: bool, priority: Option<u8>) -> Message {
        Message::new(MessageParts {
            exchange: b"ex",
            routing_key: b"key",
            properties: &[0x10, 0x00, 0x02],
            body: body.into(),
            persistent,
            priority,
        })
    }

    fn row(message: &Message) -> Vec<u8> {
        let mut row = RowBuf::default();
        let at = Timestamp::new(0x0102);
        let mut value = encode_before_body(&mut row, &key(), at, message).to_vec();
        value.extend_from_slice(message.body());
        value
    }

    #[test]
    fn a_message_row_is_drawn_as_it_is() {
        let hex: String = row(&message(b"body".to_vec(), true, Some(5)))
            .iter()
            .skip(5)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let parts = ["03", "05", "0000000000000102", "02", "03", "00000003"];
        assert_eq!(
            hex,
            format!("{}{}", parts.concat(), "65786b6579100002626f6479")
        );
    }

    #[test]
    fn a_message_comes_back_equal() {
        let mut bodies = BytesMut::new();
        for body_len in [0, 1, 4095, 4096, 100_000] {
            for (persistent, priority) in [(true, None), (false, Some(0)), (true, Some(255))] {
                let sent = message(vec![7; body_len], persistent, priority);
                let (at, found) = decode(&key(), &row(&sent), &mut bodies).unwrap();
                assert_eq!(at, Timestamp::new(0x0102));
                assert_eq!(found, sent);
            }
        }
    }

    #[test]
    fn lengths_beyond_the_row_are_damage() {
        let mut row = RowBuf::default();
        let value = row
            .start(VERSION)
            .u8(0)
            .u8(0)
            .u64(0)
            .u8(200)
            .u8(0)
            .u32(u32::MAX)
            .raw(b"short")
            .seal(Table::Messages, &key())
            .to_vec();
        assert_eq!(
            decode(&key(), &value, &mut BytesMut::new()),
            Err(Damage::TooShort)
        );
    }
}
