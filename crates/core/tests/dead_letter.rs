//! What a dead message tells of its deaths, and where it must not go again.

use bytes::Bytes;
use leveret_core::{
    arguments::DeadLetter,
    dead_letter::{DeadMessage, Death},
    ids::Timestamp,
    message::{Life, Message, MessageParts},
    queue::DeathReason,
};
use leveret_wire::{
    content::{BasicProperties, RawProperties},
    value::{FieldTable, FieldValue, ShortString, TABLE_ENTRIES_MAX, Timestamp as Seconds},
};

fn short(text: &str) -> ShortString {
    ShortString::try_from(text).expect("a short string")
}

fn text(text: &str) -> FieldValue {
    FieldValue::LongString(text.into())
}

fn texts(texts: &[&str]) -> FieldValue {
    FieldValue::Array(texts.iter().map(|each| text(each)).collect())
}

/// Published to exchange `x` with key `k`.
fn published(properties: &BasicProperties, life: Life) -> Message {
    let properties = properties.encode();
    let parts = MessageParts {
        exchange: b"x",
        routing_key: b"k",
        properties: properties.as_bytes(),
        body: Bytes::from_static(b"body"),
        persistent: true,
        priority: Some(3),
    };
    Message::with_life(parts, life)
}

fn with_headers(headers: FieldTable) -> Message {
    let properties = BasicProperties {
        headers: Some(headers),
        ..BasicProperties::default()
    };
    published(&properties, Life::default())
}

/// The message dies in this queue and goes to exchange `dlx`.
#[track_caller]
fn die(message: &Message, queue: &str, reason: DeathReason, key: Option<&str>) -> DeadMessage {
    let queue = short(queue);
    let death = Death {
        queue: &queue,
        reason,
        at: Timestamp::new(5999),
        was_delivered: false,
    };
    let to = DeadLetter {
        exchange: Some(short("dlx")),
        routing_key: key.map(short),
    };
    DeadMessage::of(message, death, &to).expect("the exchange can be asked")
}

fn entry(count: i64, reason: &str, queue: &str, exchange: &str, keys: &[&str]) -> FieldValue {
    FieldValue::Table(
        FieldTable::new()
            .with("count", FieldValue::Long(count))
            .with("reason", text(reason))
            .with("queue", text(queue))
            .with("time", FieldValue::Timestamp(Seconds(5)))
            .with("exchange", text(exchange))
            .with("routing-keys", texts(keys)),
    )
}

#[test]
fn the_first_death_is_told_in_full() {
    let properties = BasicProperties {
        headers: Some(FieldTable::new().with("mine", FieldValue::Int(1))),
        expiration: Some(short("060")),
        message_id: Some(short("m")),
        ..BasicProperties::default()
    };
    let life = Life {
        expiration_millis: Some(60),
        ..Life::default()
    };
    let first = published(&properties, life);
    let dead = die(&first, "q", DeathReason::Expired, None);
    let death = FieldTable::new()
        .with("original-expiration", text("60"))
        .with("count", FieldValue::Long(1))
        .with("reason", text("expired"))
        .with("queue", text("q"))
        .with("time", FieldValue::Timestamp(Seconds(5)))
        .with("exchange", text("x"))
        .with("routing-keys", texts(&["k"]));
    let headers = FieldTable::new()
        .with("mine", FieldValue::Int(1))
        .with("x-death", FieldValue::Array(vec![FieldValue::Table(death)]))
        .with("x-first-death-exchange", text("x"))
        .with("x-first-death-queue", text("q"))
        .with("x-first-death-reason", text("expired"))
        .with("x-last-death-exchange", text("x"))
        .with("x-last-death-queue", text("q"))
        .with("x-last-death-reason", text("expired"));
    let raw = Bytes::copy_from_slice(dead.message.properties());
    let found = BasicProperties::decode(&RawProperties::from_wire(raw).unwrap()).unwrap();
    let expected = BasicProperties {
        headers: Some(headers.clone()),
        expiration: None,
        ..properties
    };
    assert_eq!((found, &dead.headers), (expected, &headers));
    let message = &dead.message;
    assert_eq!(
        (message.exchange(), message.routing_key(), message.body()),
        (b"dlx".as_slice(), b"k".as_slice(), b"body".as_slice())
    );
    assert_eq!(
        (message.is_persistent(), message.priority()),
        (true, Some(3))
    );
    let life = Life {
        has_died: true,
        published_properties_len: first.published_properties_len(),
        ..Life::default()
    };
    assert_eq!(message.life(), life);
    assert_eq!(message.published_bytes(), first.published_bytes());
}

#[test]
fn a_repeated_death_is_counted_and_moves_to_the_front() {
    let message = with_headers(FieldTable::new());
    let message = die(&message, "one", DeathReason::Rejected, None).message;
    let message = die(&message, "two", DeathReason::Expired, Some("other")).message;
    let dead = die(&message, "one", DeathReason::Rejected, None);
    let deaths = vec![
        entry(2, "rejected", "one", "x", &["k"]),
        entry(1, "expired", "two", "dlx", &["k"]),
    ];
    assert_eq!(
        dead.headers.get(b"x-death"),
        Some(&FieldValue::Array(deaths))
    );
    assert_eq!(dead.headers.get(b"x-first-death-queue"), Some(&text("one")));
    assert_eq!(
        dead.headers.get(b"x-last-death-exchange"),
        Some(&text("dlx"))
    );
    assert_eq!(dead.message.routing_key(), b"other");
}

#[test]
fn a_message_with_as_many_headers_as_may_be_dies_again_and_again() {
    let full = FieldValue::Array(vec![FieldValue::Void; TABLE_ENTRIES_MAX - 1]);
    let mut message = with_headers(FieldTable::new().with("full", full.clone()));
    for queue in ["one", "two", "three"] {
        message = die(&message, queue, DeathReason::Rejected, None).message;
    }
    let headers = message.decoded_properties().headers.unwrap();
    assert_eq!(headers.get(b"full"), Some(&full));
    let deaths = headers.get(b"x-death");
    assert!(matches!(deaths, Some(FieldValue::Array(deaths)) if deaths.len() == 3));
}

#[test]
fn what_a_publisher_says_of_deaths_does_not_count() {
    let copied = FieldValue::Array(vec![entry(7, "rejected", "q", "x", &["k"])]);
    for said in [copied, text("nonsense"), FieldValue::Int(5)] {
        let message = with_headers(FieldTable::new().with("x-death", said));
        let dead = die(&message, "q", DeathReason::Rejected, None);
        let deaths = FieldValue::Array(vec![entry(1, "rejected", "q", "x", &["k"])]);
        assert_eq!(dead.headers.get(b"x-death"), Some(&deaths));
    }
}

#[test]
fn own_keys_are_used_with_cc_and_bcc_and_a_key_of_the_queue_alone() {
    let properties = BasicProperties {
        headers: Some(FieldTable::new().with("CC", texts(&["cc"]))),
        ..BasicProperties::default()
    };
    let properties = properties.encode();
    let parts = MessageParts {
        exchange: b"x",
        routing_key: b"k",
        properties: properties.as_bytes(),
        body: Bytes::from_static(b"body"),
        persistent: true,
        priority: None,
    };
    let message = Message::with_hidden_keys(parts, Life::default(), &[short("bcc")]);
    assert_eq!(message.body(), b"body");
    let dead = die(&message, "q", DeathReason::Rejected, None);
    assert_eq!(dead.routing_keys, ["k", "cc", "bcc"].map(short));
    let told = entry(1, "rejected", "q", "x", &["k", "cc"]);
    assert_eq!(
        dead.headers.get(b"x-death"),
        Some(&FieldValue::Array(vec![told]))
    );
    let again = die(&dead.message, "r", DeathReason::Rejected, None);
    assert_eq!(again.routing_keys, ["k", "cc", "bcc"].map(short));
    let dead = die(&message, "q", DeathReason::Rejected, Some("fixed"));
    assert_eq!(dead.routing_keys, [short("fixed")]);
    assert_eq!(dead.message.hidden_keys().count(), 0);
    assert_eq!(dead.message.routing_key(), b"fixed");
}

#[test]
fn a_key_of_a_queue_replaces_cc_for_all_that_follows() {
    let message = with_headers(FieldTable::new().with("CC", texts(&["cc"])));
    let first = die(&message, "one", DeathReason::Rejected, Some("other"));
    let second = die(&first.message, "two", DeathReason::Rejected, None);
    let third = die(&second.message, "three", DeathReason::Rejected, None);
    assert_eq!(second.routing_keys, [short("other")]);
    assert_eq!(third.routing_keys, [short("other")]);
    let deaths = vec![
        entry(1, "rejected", "three", "dlx", &["other"]),
        entry(1, "rejected", "two", "dlx", &["other"]),
        entry(1, "rejected", "one", "x", &["k", "cc"]),
    ];
    assert_eq!(
        third.headers.get(b"x-death"),
        Some(&FieldValue::Array(deaths))
    );
    assert_eq!(third.headers.get(b"CC"), Some(&texts(&["cc"])));
}

#[test]
fn a_loop_ends_unless_somebody_rejected() {
    let message = with_headers(FieldTable::new());
    let dead = die(&message, "one", DeathReason::Expired, None);
    assert!(dead.is_cycle(&short("one")));
    assert!(!dead.is_cycle(&short("two")));

    let dead = die(&dead.message, "two", DeathReason::MaxLength, None);
    assert!(dead.is_cycle(&short("one")));

    let dead = die(&dead.message, "three", DeathReason::Rejected, None);
    assert!(!dead.is_cycle(&short("one")));
    let dead = die(&dead.message, "four", DeathReason::Expired, None);
    assert!(!dead.is_cycle(&short("one")), "rejected since");
    assert!(dead.is_cycle(&short("four")));
}

#[test]
fn without_an_exchange_that_can_exist_there_is_nowhere_to_go() {
    let queue = short("q");
    let death = Death {
        queue: &queue,
        reason: DeathReason::Rejected,
        at: Timestamp::new(0),
        was_delivered: false,
    };
    let to = DeadLetter {
        exchange: None,
        routing_key: None,
    };
    let message = with_headers(FieldTable::new());
    assert!(DeadMessage::of(&message, death, &to).is_none());
}
