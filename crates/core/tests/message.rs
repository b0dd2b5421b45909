//! A message gives back what it was made of, and copies only what is small.

use std::num::NonZeroU32;

use bytes::Bytes;
use leveret_core::message::{Life, Message, MessageParts, SHARED_BODY_MIN};
use leveret_wire::value::ShortString;

fn message(body: Bytes) -> Message {
    Message::new(MessageParts {
        exchange: b"exchange",
        routing_key: b"key",
        properties: b"\x80\0\x04text",
        body,
        persistent: true,
        priority: Some(3),
    })
}

#[test]
fn it_gives_back_what_it_was_made_of() {
    for len in [0, 1, SHARED_BODY_MIN - 1, SHARED_BODY_MIN, 1_000_000] {
        let body: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let message = message(Bytes::from(body.clone()));
        assert_eq!(message.exchange(), b"exchange");
        assert_eq!(message.routing_key(), b"key");
        assert_eq!(message.properties(), b"\x80\0\x04text");
        assert_eq!(message.body(), body);
        assert!(message.is_persistent());
        assert_eq!(message.priority(), Some(3));
        assert!(message.memory_bytes() > len);
    }
}

#[test]
fn everything_may_be_empty_or_as_long_as_it_can_be() {
    for len in [0, 255] {
        let long = vec![b'x'; len];
        let message = Message::new(MessageParts {
            exchange: &long,
            routing_key: &long,
            properties: &long,
            body: Bytes::new(),
            persistent: false,
            priority: None,
        });
        let parts = [
            message.exchange(),
            message.routing_key(),
            message.properties(),
        ];
        assert_eq!(parts, [long.as_slice(); 3]);
        assert_eq!(message.body(), b"");
        assert!(!message.is_persistent());
        assert_eq!(message.priority(), None);
    }
}

/// A small body must not keep its whole read buffer alive; a large one is not worth a copy.
#[test]
fn only_large_bodies_stay_slices_of_the_read_buffer() {
    let buffer = Bytes::from(vec![7; 3 * SHARED_BODY_MIN]);
    let small = buffer.slice(..SHARED_BODY_MIN - 1);
    let large = buffer.slice(..SHARED_BODY_MIN);
    let small_message = message(small);
    assert_eq!(small_message.shared_body(), None);
    assert!(
        !buffer
            .as_ptr_range()
            .contains(&small_message.body().as_ptr())
    );
    let large_message = message(large.clone());
    assert_eq!(large_message.shared_body(), Some(&large));
    assert_eq!(large_message.body().as_ptr(), buffer.as_ptr());

    drop((small_message, large_message, large));
    assert!(buffer.is_unique(), "nothing keeps it alive any more");
}

#[test]
fn messages_are_equal_when_all_they_carry_is() {
    let one = message(Bytes::from_static(b"one"));
    assert_eq!(one, one.clone());
    assert_eq!(one, message(Bytes::from_static(b"one")));
    assert_ne!(one, message(Bytes::from_static(b"two")));
    let shifted = Message::new(MessageParts {
        exchange: b"exchangek",
        routing_key: b"ey",
        properties: b"\x80\0\x04text",
        body: Bytes::from_static(b"one"),
        persistent: true,
        priority: Some(3),
    });
    assert_ne!(one, shifted, "the same bytes cut elsewhere");
}

/// Bodies and properties are the users' and do not belong into logs.
#[test]
fn debug_output_shows_neither_body_nor_properties() {
    let shown = format!("{:?}", message(Bytes::from_static(b"secret")));
    assert!(
        !shown.contains("secret") && !shown.contains("text"),
        "{shown}"
    );
}

#[test]
fn with_other_properties_all_else_stays() {
    for len in [4, SHARED_BODY_MIN] {
        let parts = MessageParts {
            exchange: b"exchange",
            routing_key: b"key",
            properties: b"\x80\0\x04text",
            body: vec![b'x'; len].into(),
            persistent: true,
            priority: Some(3),
        };
        let life = Life {
            expiration_millis: Some(7),
            ..Life::default()
        };
        let hidden = [ShortString::from_static("hidden")];
        let message = Message::with_hidden_keys(parts, life, &hidden);
        let other = message.with_properties(b"\0\0");
        assert_eq!(other.properties(), b"\0\0");
        assert_eq!(other.exchange(), message.exchange());
        assert_eq!(other.routing_key(), message.routing_key());
        assert_eq!(other.body(), message.body());
        let life = Life {
            published_properties_len: NonZeroU32::new(7),
            ..life
        };
        assert_eq!(other.life(), life);
        assert_eq!(other.published_bytes(), message.published_bytes());
        assert_eq!(other.with_properties(b"\0\0").life(), life);
        assert_eq!(other.hidden_keys().collect::<Vec<_>>(), hidden);
        assert!(other.is_persistent() && other.priority() == Some(3));
    }
}
