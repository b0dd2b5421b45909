//! `messages`: one message in one queue.
//!
//! ```text
//!   0         1            5       6          7             15             16          17               21
//!   │ version │ checksum 4 │ flags │ priority │ enqueued at 8 │ exchange len │ key len │ properties len 4 │
//!   │ exchange │ routing key │ properties as received │ body …
//! ```
//!
//! Flags: persistent 1, has a priority property 2, has an expiration 4, has died 8, has hidden keys 16, an attempt with it failed
//! before it came 32, its keys were replaced 64, the broker has written its properties anew 128. Between the lengths and the
//! exchange stand in version 3 when the message is to leave, in 8 bytes; with an expiration its milliseconds, in 8 bytes; with new properties how long they were at first, in 4 bytes;
//! with hidden keys their count in 4 bytes, then each behind its length. The body comes last and has no length: it is never copied on its way
//! into the batch.
//!
//! Version 2 is of messages that never leave by themselves, version 3 of those that do. Version 1 was written before that was
//! decided once and for all when a message came: when one leaves is for the settings of its queue to say.

use std::num::NonZeroU32;

use bytes::{Bytes, BytesMut};
use leveret_core::{
    ids::Timestamp,
    message::{Life, Message, MessageParts},
};

use crate::{
    error::Damage,
    key::MessageKey,
    row::{Fields, RowBuf},
    schema::Table,
};

const WITHOUT_TIME: u8 = 1;
const NEVER_LEAVES: u8 = 2;
const LEAVES: u8 = 3;

const PERSISTENT: u8 = 1;
const HAS_PRIORITY: u8 = 2;
const HAS_EXPIRATION: u8 = 4;
const HAS_DIED: u8 = 8;
const HAS_HIDDEN_KEYS: u8 = 16;
const WAS_DELIVERED: u8 = 32;
const KEYS_REPLACED: u8 = 64;
const HAS_NEW_PROPERTIES: u8 = 128;

/// When a message came and when it is to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) enqueued_at: Timestamp,
    /// `None` in a row of version 1.
    pub(crate) due: Option<Timestamp>,
}

impl Times {
    const fn version(self) -> u8 {
        match self.due {
            None => WITHOUT_TIME,
            Some(due) if due.get() == Timestamp::NEVER.get() => NEVER_LEAVES,
            Some(_) => LEAVES,
        }
    }
}

/// The row up to its body; the body follows it in the store.
pub(crate) fn encode_before_body<'a>(
    row: &'a mut RowBuf,
    key: &MessageKey,
    times: Times,
    message: &Message,
) -> &'a [u8] {
    let life = message.life();
    let flags = [
        (message.is_persistent(), PERSISTENT),
        (message.priority().is_some(), HAS_PRIORITY),
        (life.expiration_millis.is_some(), HAS_EXPIRATION),
        (life.has_died, HAS_DIED),
        (life.was_delivered, WAS_DELIVERED),
        (life.keys_replaced, KEYS_REPLACED),
        (message.hidden_keys().next().is_some(), HAS_HIDDEN_KEYS),
        (life.published_properties_len.is_some(), HAS_NEW_PROPERTIES),
    ];
    let flags = flags
        .into_iter()
        .filter_map(|(is_set, flag)| is_set.then_some(flag))
        .fold(0, |flags, flag| flags | flag);
    let (exchange, routing_key) = (message.exchange(), message.routing_key());
    let properties = message.properties();
    let version = times.version();
    row.start(version)
        .u8(flags)
        .u8(message.priority().unwrap_or(0))
        .u64(times.enqueued_at.get())
        .u8(u8::try_from(exchange.len()).expect("a short string has at most 255 bytes"))
        .u8(u8::try_from(routing_key.len()).expect("a short string has at most 255 bytes"))
        .u32(u32::try_from(properties.len()).expect("properties fit into a frame"));
    if let Some(due) = times.due.filter(|_| version == LEAVES) {
        row.u64(due.get());
    }
    if let Some(millis) = life.expiration_millis {
        row.u64(millis);
    }
    if let Some(published) = life.published_properties_len {
        row.u32(published.get());
    }
    if flags & HAS_HIDDEN_KEYS != 0 {
        let count = message.hidden_keys().count();
        row.u32(u32::try_from(count).expect("they came in a header"));
        message.hidden_keys().for_each(|key| {
            row.short(&key);
        });
    }
    row.raw(exchange)
        .raw(routing_key)
        .raw(properties)
        .seal_before(Table::Messages, key, message.body())
}

/// Reads a row. `bodies` is where bodies are copied to, so that a page of small ones costs few allocations.
pub(crate) fn decode(
    key: &[u8],
    value: &[u8],
    bodies: &mut BytesMut,
) -> Result<(Times, Message), Damage> {
    let (version, mut fields) = Fields::open_any(Table::Messages, key, value)?;
    let flags = fields.u8()?;
    let priority = fields.u8()?;
    let enqueued_at = Timestamp::new(fields.u64()?);
    let exchange_len = fields.u8()?;
    let routing_key_len = fields.u8()?;
    let properties_len = usize::try_from(fields.u32()?).map_err(|_| Damage::Malformed)?;
    let due = match version {
        WITHOUT_TIME => None,
        NEVER_LEAVES => Some(Timestamp::NEVER),
        LEAVES => Some(Timestamp::new(fields.u64()?)),
        found => return Err(Damage::Version { found }),
    };
    let expiration_millis = match flags & HAS_EXPIRATION {
        0 => None,
        _ => Some(fields.u64()?),
    };
    let published_properties_len = match flags & HAS_NEW_PROPERTIES {
        0 => None,
        _ => Some(NonZeroU32::new(fields.u32()?).ok_or(Damage::Malformed)?),
    };
    let mut hidden_keys = Vec::new();
    if flags & HAS_HIDDEN_KEYS != 0 {
        for _ in 0..fields.u32()? {
            hidden_keys.push(fields.short()?);
        }
    }
    let exchange = fields.raw(exchange_len.into())?;
    let routing_key = fields.raw(routing_key_len.into())?;
    let properties = fields.raw(properties_len)?;
    let parts = MessageParts {
        exchange,
        routing_key,
        properties,
        body: copy_body(fields.rest(), bodies),
        persistent: flags & PERSISTENT != 0,
        priority: (flags & HAS_PRIORITY != 0).then_some(priority),
    };
    let life = Life {
        expiration_millis,
        has_died: flags & HAS_DIED != 0,
        was_delivered: flags & WAS_DELIVERED != 0,
        keys_replaced: flags & KEYS_REPLACED != 0,
        published_properties_len,
    };
    let message = Message::with_hidden_keys(parts, life, &hidden_keys);
    let times = Times { enqueued_at, due };
    Ok((times, message))
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
    use leveret_wire::value::ShortString;

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
        row_due(message, Some(Timestamp::NEVER))
    }

    fn row_due(message: &Message, due: Option<Timestamp>) -> Vec<u8> {
        let mut row = RowBuf::default();
        let times = Times {
            enqueued_at: Timestamp::new(0x0102),
            due,
        };
        let mut value = encode_before_body(&mut row, &key(), times, message).to_vec();
        value.extend_from_slice(message.body());
        value
    }

    #[test]
    fn a_message_row_is_drawn_as_it_is() {
        let head = ["03", "05", "0000000000000102", "02", "03", "00000003"].concat();
        let rest = "65786b6579100002626f6479";
        for (due, version, time) in [
            (None, 1, ""),
            (Some(Timestamp::NEVER), 2, ""),
            (Some(Timestamp::new(0x0a0b)), 3, "0000000000000a0b"),
        ] {
            let row = row_due(&message(b"body".to_vec(), true, Some(5)), due);
            assert_eq!(row[0], version);
            let fields = row.iter().skip(5);
            let hex: String = fields.map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, format!("{head}{time}{rest}"));
        }
    }

    #[test]
    fn a_message_leaves_when_it_was_to_leave_and_a_former_build_did_not_say_when() {
        let sent = message(b"body".to_vec(), true, None);
        for due in [None, Some(Timestamp::NEVER), Some(Timestamp::new(0))] {
            let (times, found) =
                decode(&key(), &row_due(&sent, due), &mut BytesMut::new()).unwrap();
            assert_eq!((times.due, found), (due, sent.clone()));
        }
    }

    #[test]
    fn a_row_of_a_later_build_is_named() {
        let mut row = RowBuf::default();
        let value = row
            .start(4)
            .raw(&[0; 40])
            .seal(Table::Messages, &key())
            .to_vec();
        let found = decode(&key(), &value, &mut BytesMut::new());
        assert_eq!(found, Err(Damage::Version { found: 4 }));
    }

    #[test]
    fn a_message_comes_back_equal() {
        let mut bodies = BytesMut::new();
        for body_len in [0, 1, 4095, 4096, 100_000] {
            for (persistent, priority) in [(true, None), (false, Some(0)), (true, Some(255))] {
                let sent = message(vec![7; body_len], persistent, priority);
                let (times, found) = decode(&key(), &row(&sent), &mut bodies).unwrap();
                assert_eq!(times.enqueued_at, Timestamp::new(0x0102));
                assert_eq!(found, sent);
            }
        }
    }

    #[test]
    fn a_life_comes_back_equal() {
        for (expiration_millis, has_died) in [(Some(0), false), (Some(60_000), true), (None, true)]
        {
            let life = Life {
                expiration_millis,
                has_died,
                was_delivered: has_died,
                keys_replaced: has_died && expiration_millis.is_some(),
                published_properties_len: has_died.then_some(NonZeroU32::MAX),
            };
            let parts = MessageParts {
                exchange: b"ex",
                routing_key: b"key",
                properties: &[0, 0],
                body: b"body".as_slice().into(),
                persistent: true,
                priority: None,
            };
            let sent = Message::with_life(parts, life);
            let (_, found) = decode(&key(), &row(&sent), &mut BytesMut::new()).unwrap();
            assert_eq!(found, sent);
        }
    }

    #[test]
    fn hidden_keys_come_back_in_their_order() {
        for body_len in [0, 10, 5000] {
            let parts = MessageParts {
                exchange: b"ex",
                routing_key: b"key",
                properties: &[0, 0],
                body: vec![1; body_len].into(),
                persistent: true,
                priority: None,
            };
            let life = Life {
                expiration_millis: Some(7),
                has_died: true,
                published_properties_len: NonZeroU32::new(2),
                ..Life::default()
            };
            let keys = ["one", "", "three"].map(ShortString::from_static);
            let sent = Message::with_hidden_keys(parts, life, &keys);
            let (_, found) = decode(&key(), &row(&sent), &mut BytesMut::new()).unwrap();
            assert_eq!(found, sent);
            assert_eq!(found.hidden_keys().collect::<Vec<_>>(), keys);
        }
    }

    #[test]
    fn lengths_beyond_the_row_are_damage() {
        let mut row = RowBuf::default();
        let value = row
            .start(NEVER_LEAVES)
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
