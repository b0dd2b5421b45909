//! Arguments of new consumers: which types of queues take which, and which values.

use leveret_core::{
    arguments::QueueType,
    consume::Consuming,
    ids::{QueueId, Timestamp},
    queue::ConsumerSettings,
    record::QueueRecord,
    refusal::Refusal,
};
use leveret_wire::value::{FieldTable, FieldValue, ShortString};

use crate::scenario::{table, text};

fn read(queue_type: QueueType, arguments: &FieldTable) -> Result<Consuming, Refusal> {
    read_with(queue_type, SETTINGS, arguments)
}

fn read_with(
    queue_type: QueueType,
    settings: ConsumerSettings,
    arguments: &FieldTable,
) -> Result<Consuming, Refusal> {
    let queue = QueueRecord {
        id: QueueId::new(1),
        vhost: ShortString::from_static("V"),
        name: ShortString::from_static("Q"),
        durable: true,
        exclusive_to: None,
        auto_delete: false,
        queue_type,
        arguments: table("x-queue-type", text(queue_type.name())),
    };
    Consuming::of(&queue, settings, arguments, Timestamp::new(1))
}

/// A prefetch, which streams ask for.
const SETTINGS: ConsumerSettings = ConsumerSettings {
    prefetch: 7,
    no_ack: false,
    exclusive: false,
    priority: 0,
    ack_timeout_millis: None,
    shared_else: None,
};

#[track_caller]
fn expect_refused(queue_type: QueueType, arguments: &FieldTable, expected: &str) {
    let refusal = read(queue_type, arguments).expect_err("it is refused");
    assert_eq!(refusal.reply_code().code(), 406);
    assert_eq!(refusal.to_string(), expected);
}

#[test]
fn each_type_takes_its_own_arguments() {
    let taken = [
        ("x-priority", "CQ"),
        ("x-consumer-timeout", "Q"),
        ("x-stream-offset", "S"),
        ("x-stream-filter", "S"),
        ("x-stream-match-unfiltered", "S"),
        ("x-cancel-on-ha-failover", "CQS"),
        ("x-made-up", "CQS"),
    ];
    for (key, types) in taken {
        for (queue_type, letter) in QueueType::ALL.into_iter().zip("CQS".chars()) {
            let arguments = table(key, FieldValue::Int(5));
            if types.contains(letter) {
                assert!(read(queue_type, &arguments).is_ok(), "{key} {letter}");
            } else {
                let module = queue_type.module();
                let text = format!(
                    "invalid arg '{key}' for queue 'Q' in vhost 'V' of queue type {module}"
                );
                expect_refused(queue_type, &arguments, &text);
            }
        }
    }
}

#[test]
fn of_several_arguments_of_other_types_the_first_one_sent_is_named() {
    let forth = table("x-priority", FieldValue::Int(5)).with("x-consumer-timeout", text("abc"));
    let back = table("x-consumer-timeout", text("abc")).with("x-priority", FieldValue::Int(5));
    for (arguments, first) in [(forth, "x-priority"), (back, "x-consumer-timeout")] {
        let refused = format!(
            "invalid arg '{first}' for queue 'Q' in vhost 'V' of queue type rabbit_stream_queue"
        );
        expect_refused(QueueType::Stream, &arguments, &refused);
    }
}

#[test]
fn values_are_read() {
    let arguments = table("x-priority", FieldValue::Byte(-3))
        .with("x-consumer-timeout", FieldValue::Long(1000));
    let expected = ConsumerSettings {
        priority: -3,
        ack_timeout_millis: Some(1000),
        ..SETTINGS
    };
    let taking = read(QueueType::Quorum, &arguments);
    assert_eq!(taking, Ok(Consuming::Taking(expected)));
    let nothing = read(QueueType::Quorum, &FieldTable::new());
    assert_eq!(nothing, Ok(Consuming::Taking(SETTINGS)));
}

#[test]
fn values_have_their_ranges() {
    let refused = |key: &'static str, value, detail: &str| {
        let text = format!("invalid arg '{key}' for queue 'Q' in vhost 'V': {detail}");
        expect_refused(QueueType::Quorum, &table(key, value), &text);
    };
    refused(
        "x-consumer-timeout",
        FieldValue::Int(-1),
        "{value_negative,-1}",
    );
    for key in ["x-priority", "x-consumer-timeout"] {
        refused(key, text("5"), "\"expected integer, got longstr\"");
    }
}

#[test]
fn a_prefetch_that_a_channel_shares_is_one_of_its_own_where_it_cannot_be_shared() {
    let settings = ConsumerSettings {
        shared_else: Some(3),
        ..SETTINGS
    };
    let none = FieldTable::new();
    assert_eq!(
        read_with(QueueType::Classic, settings, &none),
        Ok(Consuming::Taking(settings))
    );
    let own = ConsumerSettings {
        prefetch: 3,
        ..SETTINGS
    };
    assert_eq!(
        read_with(QueueType::Quorum, settings, &none),
        Ok(Consuming::Taking(own))
    );
    let Ok(Consuming::Reading { prefetch, .. }) = read_with(QueueType::Stream, settings, &none)
    else {
        panic!("a stream is read");
    };
    assert_eq!(prefetch, 3);
}
