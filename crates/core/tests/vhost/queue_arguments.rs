//! Arguments of new queues: what is taken, what is refused, and how.

use leveret_core::vhost::QueueDeclare;
use leveret_wire::value::{FieldTable, FieldValue};

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
    for key in [
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-message-ttl",
        "x-overflow",
        "x-single-active-consumer",
    ] {
        let text =
            format!("NOT_IMPLEMENTED - queue argument '{key}' is not supported by this version");
        let asked = with(table(key, FieldValue::Int(5)));
        expect_refused(VhostScenario::new().declare_queue(asked), 540, &text);
    }
}
