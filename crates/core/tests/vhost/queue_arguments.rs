//! Arguments of new queues: what is taken, what is refused, and how.

use leveret_core::{
    arguments::{DeadLetter, Overflow, QueueSettings},
    vhost::QueueDeclare,
};
use leveret_wire::value::{FieldTable, FieldValue, ShortString};

use crate::scenario::{VhostScenario, expect_refused, queue, table, text};

#[track_caller]
fn expect_invalid(key: &'static str, value: FieldValue, detail: &str) {
    let text =
        format!("PRECONDITION_FAILED - invalid arg '{key}' for queue 'Q' in vhost 'V': {detail}");
    let mut vhost = VhostScenario::new();
    expect_refused(vhost.declare_queue(with(table(key, value))), 406, &text);
    assert_eq!(vhost.vhost.queues().count(), 0, "it was not made");
}

fn with(arguments: FieldTable) -> QueueDeclare {
    QueueDeclare {
        arguments,
        ..queue("Q")
    }
}

#[test]
fn arguments_without_effect_are_taken() {
    let taken = [
        ("x-queue-mode", text("lazy")),
        ("x-queue-mode", FieldValue::Int(-1)),
        ("x-queue-version", FieldValue::Short(2)),
        ("x-queue-leader-locator", text("client-local")),
        ("x-queue-leader-locator", text("balanced")),
        ("x-queue-leader-locator", text("random")),
        ("x-queue-leader-locator", text("least-leaders")),
        ("x-queue-leader-locator", text("min-masters")),
        ("x-whatever", FieldValue::Void),
    ];
    for (key, value) in taken {
        let declared = VhostScenario::new().declare_queue(with(table(key, value.clone())));
        assert!(declared.is_ok(), "{key} {value:?}: {declared:?}");
    }
}

#[test]
fn queue_types_are_exact() {
    for kind in ["nope", "Classic", "rabbit_classic_queue"] {
        let detail = format!("\"unsupported queue type '{kind}'\"");
        expect_invalid("x-queue-type", text(kind), &detail);
    }
    expect_invalid(
        "x-queue-type",
        FieldValue::Int(1),
        "{unacceptable_type,signedint}",
    );
    expect_invalid("x-queue-type", FieldValue::Void, "{unacceptable_type,void}");
}

#[test]
fn only_version_two_exists() {
    expect_invalid(
        "x-queue-version",
        FieldValue::Int(1),
        "\"unsupported queue version '1'\"",
    );
    expect_invalid(
        "x-queue-version",
        text("2"),
        "\"expected integer, got longstr\"",
    );
    expect_invalid(
        "x-queue-version",
        FieldValue::Bool(true),
        "\"expected integer, got bool\"",
    );
}

#[test]
fn unknown_leader_locators_are_refused() {
    expect_invalid(
        "x-queue-leader-locator",
        text("nope"),
        "invalid_queue_locator_arg",
    );
    let wrong = FieldValue::Long(1);
    expect_invalid("x-queue-leader-locator", wrong, "{unacceptable_type,long}");
}

#[test]
fn arguments_of_other_queue_types_are_refused() {
    for key in [
        "x-dead-letter-strategy",
        "x-delivery-limit",
        "x-quorum-initial-group-size",
        "x-consumer-timeout",
        "x-consumer-disconnected-timeout",
        "x-delayed-retry-type",
        "x-delayed-retry-min",
        "x-delayed-retry-max",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-stream-filter-size-bytes",
        "x-initial-cluster-size",
    ] {
        let text = format!(
            "PRECONDITION_FAILED - invalid arg '{key}' for queue 'Q' in vhost 'V' of queue type \
             rabbit_classic_queue"
        );
        let asked = with(table(key, FieldValue::Int(5)));
        expect_refused(VhostScenario::new().declare_queue(asked), 406, &text);
    }
}

/// A queue that silently keeps its messages longer than asked would be worse than none.
#[test]
fn what_is_not_there_yet_is_refused_and_not_ignored() {
    for kind in ["quorum", "stream"] {
        let text =
            format!("NOT_IMPLEMENTED - queue type '{kind}' is not supported by this version");
        let asked = with(table("x-queue-type", crate::scenario::text(kind)));
        expect_refused(VhostScenario::new().declare_queue(asked), 540, &text);
    }
}

#[test]
fn numbers_have_their_ranges() {
    let numbers = [
        ("x-message-ttl", -1, "{value_negative,-1}"),
        (
            "x-message-ttl",
            315_360_000_001,
            "{value_too_large,315360000001}",
        ),
        ("x-expires", 0, "{value_zero,0}"),
        ("x-expires", -5, "{value_negative,-5}"),
        (
            "x-expires",
            315_360_000_001,
            "{value_too_large,315360000001}",
        ),
        ("x-max-length", -1, "{value_negative,-1}"),
        ("x-max-length-bytes", -1, "{value_negative,-1}"),
        ("x-max-priority", -1, "{value_negative,-1}"),
        ("x-max-priority", 256, "{max_value_exceeded,256}"),
    ];
    for (key, number, detail) in numbers {
        expect_invalid(key, FieldValue::Long(number), detail);
        expect_invalid(key, text("5"), "\"expected integer, got longstr\"");
    }
}

#[test]
fn words_are_exact() {
    expect_invalid("x-overflow", text("nope"), "invalid_overflow");
    let wrong = "{unacceptable_type,signedint}";
    expect_invalid("x-overflow", FieldValue::Int(5), wrong);
    expect_invalid("x-single-active-consumer", FieldValue::Int(1), wrong);
    let detail = "routing_key_but_no_dlx_defined";
    expect_invalid("x-dead-letter-routing-key", text("k"), detail);
    expect_invalid("x-dead-letter-routing-key", FieldValue::Int(5), wrong);
}

#[test]
fn the_first_of_several_offences_is_named() {
    let arguments = table("x-message-ttl", FieldValue::Int(-1))
        .with("x-max-length", FieldValue::Int(-1))
        .with("x-expires", FieldValue::Int(-1));
    let text = "PRECONDITION_FAILED - invalid arg 'x-expires' for queue 'Q' in vhost 'V': \
                {value_negative,-1}";
    expect_refused(
        VhostScenario::new().declare_queue(with(arguments)),
        406,
        text,
    );
}

#[test]
fn a_dead_letter_exchange_is_a_string() {
    let text = "PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' in \
                queue 'Q' in vhost 'V'";
    let asked = with(table("x-dead-letter-exchange", FieldValue::Int(5)));
    expect_refused(VhostScenario::new().declare_queue(asked), 406, text);
}

#[test]
fn settings_are_what_was_declared() {
    let number = FieldValue::Long;
    let arguments = table("x-max-priority", number(10))
        .with("x-single-active-consumer", FieldValue::Bool(true))
        .with("x-max-length", number(1))
        .with("x-max-length-bytes", number(2))
        .with("x-overflow", text("reject-publish-dlx"))
        .with("x-message-ttl", number(3))
        .with("x-expires", number(4))
        .with("x-expiry", text("lazy"))
        .with("x-dead-letter-exchange", text("dlx"))
        .with("x-dead-letter-routing-key", text("key"));
    let short = |text: &'static str| Some(ShortString::from_static(text));
    let expected = QueueSettings {
        max_priority: 10,
        single_active_consumer: true,
        max_length: Some(1),
        max_length_bytes: Some(2),
        overflow: Overflow::RejectPublishDeadLetter,
        message_ttl_millis: Some(3),
        expires_millis: Some(4),
        lazy_expiry: true,
        dead_letter: Some(DeadLetter {
            exchange: short("dlx"),
            routing_key: short("key"),
        }),
    };
    assert_eq!(QueueSettings::of(&arguments), expected);
    let nothing = QueueSettings::of(&FieldTable::default());
    assert_eq!(nothing, QueueSettings::default());
}
