//! `queue.declare`, in the order of its checks.

use leveret_core::{
    arguments::QueueType,
    record::QueueRecord,
    refusal::Refusal,
    vhost::{ExchangeDeclare, QueueDeclare},
};
use leveret_wire::value::{FieldTable, FieldValue, Timestamp};

use crate::scenario::{
    ME, OTHER, VhostScenario, exchange, expect_refused, name, queue, table, text,
};

const LOCKED: &str = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'Q' in vhost \
                      'V'. It could be originally declared on another connection or the exclusive \
                      property value does not match that of the original declaration.";

fn exclusive(name: &str) -> QueueDeclare {
    QueueDeclare {
        exclusive: true,
        ..queue(name)
    }
}

fn with(arguments: FieldTable) -> QueueDeclare {
    QueueDeclare {
        arguments,
        ..queue("Q")
    }
}

#[test]
fn the_same_again_finds_the_same_queue() {
    let mut vhost = VhostScenario::new();
    let first = vhost.declare_queue(queue("Q")).expect("new");
    let second = vhost.declare_queue(queue("Q")).expect("known");
    assert_eq!(first, second);
    assert_eq!(vhost.vhost.queues().count(), 1);
}

#[test]
fn names_of_the_broker_are_reserved_for_names_it_makes() {
    let mut vhost = VhostScenario::new();
    let refused = "ACCESS_REFUSED - queue name 'amq.gen-1' contains reserved prefix 'amq.*'";
    expect_refused(vhost.declare_queue(queue("amq.gen-1")), 403, refused);
    let made = QueueDeclare {
        server_named: true,
        ..queue("amq.gen-1")
    };
    vhost.declare_queue(made).expect("new");
    expect_refused(vhost.declare_queue(queue("amq.gen-1")), 403, refused);
}

#[test]
fn an_exclusive_queue_is_locked_for_others() {
    let mut vhost = VhostScenario::new();
    vhost.declare_queue(exclusive("Q")).expect("new");
    for asked in [exclusive("Q"), queue("Q")] {
        expect_refused(vhost.declare_queue_as(OTHER, asked), 405, LOCKED);
    }
    assert!(vhost.declare_queue(exclusive("Q")).is_ok(), "its owner may");
}

#[test]
fn another_exclusive_flag_is_locked_also_for_the_owner() {
    let mut vhost = VhostScenario::new();
    vhost.declare_queue(exclusive("Q")).expect("new");
    expect_refused(vhost.declare_queue(queue("Q")), 405, LOCKED);

    let mut vhost = VhostScenario::new();
    vhost.queue("Q");
    let asked = QueueDeclare {
        auto_delete: true,
        ..exclusive("Q")
    };
    expect_refused(vhost.declare_queue(asked), 405, LOCKED);
}

#[test]
fn an_exclusive_queue_is_never_durable() {
    let mut vhost = VhostScenario::new();
    let (record, changes) = vhost.declare_queue_as(ME, exclusive("Q")).expect("new");
    assert!(!record.durable);
    assert_eq!(record.exclusive_to, Some(ME));
    assert_eq!(changes, []);
    let transient = QueueDeclare {
        durable: false,
        ..exclusive("Q")
    };
    assert!(vhost.declare_queue(transient).is_ok(), "the same to it");
}

#[test]
fn what_differs_is_named_in_the_order_durable_auto_delete_arguments() {
    let mut vhost = VhostScenario::new();
    vhost.queue("Q");
    let mut asked = QueueDeclare {
        durable: false,
        auto_delete: true,
        ..with(table("x-queue-type", text("quorum")).with("x-max-length", FieldValue::Int(6)))
    };
    let refused = |vhost: &mut VhostScenario, asked: &QueueDeclare, detail: &str| {
        let text = format!("PRECONDITION_FAILED - inequivalent arg {detail}");
        expect_refused(vhost.declare_queue(asked.clone()), 406, &text);
    };

    let detail = "'durable' for queue 'Q' in vhost 'V': received 'false' but current is 'true'";
    refused(&mut vhost, &asked, detail);
    asked.durable = true;
    let detail = "'auto_delete' for queue 'Q' in vhost 'V': received 'true' but current is 'false'";
    refused(&mut vhost, &asked, detail);
    asked.auto_delete = false;
    let detail = "'x-max-length' for queue 'Q' in vhost 'V': received the value '6' of type \
                  'signedint' but current is none";
    refused(&mut vhost, &asked, detail);
    asked.arguments.remove(b"x-max-length");
    let detail =
        "'x-queue-type' for queue 'Q' in vhost 'V': received 'quorum' but current is 'classic'";
    refused(&mut vhost, &asked, detail);
}

#[test]
fn values_decide_and_widths_do_not() {
    let mut vhost = VhostScenario::new();
    vhost
        .declare_queue(with(table("x-queue-version", FieldValue::Byte(2))))
        .expect("new");
    let same = [
        FieldValue::UnsignedByte(2),
        FieldValue::Short(2),
        FieldValue::UnsignedShort(2),
        FieldValue::Int(2),
        FieldValue::UnsignedInt(2),
        FieldValue::Long(2),
        // A second declare is compared, not checked.
        FieldValue::Timestamp(Timestamp(2)),
    ];
    for value in same {
        let asked = with(table("x-queue-version", value.clone()));
        assert!(vhost.declare_queue(asked).is_ok(), "{value:?}");
    }
    let other = [
        (FieldValue::Long(3), "3"),
        (text("2"), "2"),
        (FieldValue::Double(2.0), "2.0"),
        (FieldValue::Bool(true), "true"),
    ];
    for (value, shown) in other {
        let text = format!(
            "PRECONDITION_FAILED - inequivalent arg 'x-queue-version' for queue 'Q' in vhost 'V': \
             received '{shown}' but current is '2'"
        );
        expect_refused(
            vhost.declare_queue(with(table("x-queue-version", value))),
            406,
            &text,
        );
    }
    expect_refused(
        vhost.declare_queue(queue("Q")),
        406,
        "PRECONDITION_FAILED - inequivalent arg 'x-queue-version' for queue 'Q' in vhost 'V': \
         received none but current is the value '2' of type 'byte'",
    );
}

#[test]
fn strings_and_bytes_are_the_same_and_floats_and_doubles_too() {
    let mut vhost = VhostScenario::new();
    let mode = |value| with(table("x-queue-mode", value));
    vhost.declare_queue(mode(text("lazy"))).expect("new");
    let bytes = FieldValue::Bytes(bytes::Bytes::from_static(b"lazy"));
    assert!(vhost.declare_queue(mode(bytes)).is_ok());

    let mut vhost = VhostScenario::new();
    vhost
        .declare_queue(mode(FieldValue::Float(0.5)))
        .expect("new");
    assert!(vhost.declare_queue(mode(FieldValue::Double(0.5))).is_ok());
}

#[test]
fn unknown_arguments_are_kept_and_never_compared() {
    let mut vhost = VhostScenario::new();
    let arguments = table("x-ha-policy", text("all")).with("foo", FieldValue::Int(1));
    let record = vhost.declare_queue(with(arguments.clone())).expect("new");
    let arguments = arguments.with("x-queue-type", text("classic"));
    assert_eq!(record.arguments, arguments);
    for again in [
        FieldTable::new(),
        table("foo", FieldValue::Int(2)),
        table("bar", text("")),
    ] {
        let record = vhost.declare_queue(with(again)).expect("known");
        assert_eq!(record.arguments, arguments);
    }
}

#[test]
fn no_queue_type_is_the_default_type() {
    let mut vhost = VhostScenario::new();
    let record = vhost.declare_queue(queue("Q")).expect("new");
    assert_eq!(record.arguments, table("x-queue-type", text("classic")));
    let classic = with(table("x-queue-type", text("classic")));
    assert!(vhost.declare_queue(classic).is_ok());
    for (value, shown) in [
        (text("nope"), "'nope'"),
        (text(""), "''"),
        (FieldValue::Int(5), "'5'"),
        (FieldValue::Void, "none"),
    ] {
        let refused = format!(
            "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'Q' in vhost 'V': \
             received {shown} but current is 'classic'"
        );
        let asked = with(table("x-queue-type", value));
        expect_refused(vhost.declare_queue(asked), 406, &refused);
    }
}

/// The words are kept as they came.
#[test]
fn words_for_no_queue_type_are_the_default_type_and_equal_themselves_only() {
    for word in ["", "undefined"] {
        let mut vhost = VhostScenario::new();
        let asked = with(table("x-queue-type", text(word)));
        vhost.declare_queue(asked.clone()).expect("new");
        assert!(vhost.declare_queue(asked).is_ok());
        let refused = format!(
            "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'Q' in vhost 'V': \
             received 'classic' but current is '{word}'"
        );
        expect_refused(vhost.declare_queue(queue("Q")), 406, &refused);
    }
}

#[test]
fn what_leads_where_its_maker_may_not_write_is_refused_unless_it_is_there() {
    let refusal = Refusal::NoPreviouslyDeclaredQueue;
    let asked = |refused_if_new| QueueDeclare {
        refused_if_new,
        ..queue("Q")
    };
    let mut vhost = VhostScenario::new();
    let refused = vhost.declare_queue(asked(Some(refusal.clone())));
    assert_eq!(refused, Err(refusal.clone()));
    assert!(vhost.declare_queue(asked(None)).is_ok());
    assert!(vhost.declare_queue(asked(Some(refusal.clone()))).is_ok());

    let asked = |refused_if_new| ExchangeDeclare {
        refused_if_new,
        ..exchange("X", "fanout")
    };
    let refused = vhost.declare_exchange(asked(Some(refusal.clone())));
    assert_eq!(refused, Err(refusal.clone()));
    assert!(vhost.declare_exchange(asked(None)).is_ok());
    assert!(vhost.declare_exchange(asked(Some(refusal))).is_ok());
}

#[test]
fn what_names_no_type_is_of_the_vhosts() {
    let flags = [
        (true, false, false),
        (true, true, false),
        (true, false, true),
        (false, false, false),
    ];
    for (durable, exclusive, auto_delete) in flags {
        let asked = |arguments| QueueDeclare {
            durable,
            exclusive,
            auto_delete,
            ..with(arguments)
        };
        let suits = durable && !exclusive && !auto_delete;
        let mut vhost = VhostScenario::new();
        let types = (QueueType::Quorum, QueueType::Classic);
        vhost.vhost.set_default_queue_types(types.0, types.1);
        for word in ["", "undefined"] {
            // Judged by the vhost's type, whatever its flags.
            let declared = vhost.declare_queue(QueueDeclare {
                name: name(&format!("open-{word}")),
                ..asked(table("x-queue-type", text(word)))
            });
            assert_eq!(declared.is_ok(), suits, "{declared:?}");
            if let Ok(record) = declared {
                assert_eq!(record.queue_type, QueueType::Quorum);
                assert_eq!(record.arguments, table("x-queue-type", text(word)));
                let typed = table("x-queue-type", text("quorum"));
                assert_eq!(record.typed_arguments(), typed);
            }
        }
        // Saying nothing is never wrong.
        let silent = vhost.declare_queue(asked(FieldTable::new())).expect("new");
        let expected = if suits { types.0 } else { types.1 };
        assert_eq!(silent.queue_type, expected);
        assert_eq!(
            silent.arguments,
            table("x-queue-type", text(expected.name()))
        );
    }
}

#[test]
fn of_a_queue_without_a_name_a_word_for_no_type_is_first_the_nodes_type() {
    let asked = || QueueDeclare {
        server_named: true,
        ..with(table("x-queue-type", text("")))
    };
    let mut vhost = VhostScenario::new();
    let (quorum, classic) = (QueueType::Quorum, QueueType::Classic);
    vhost.vhost.set_default_queue_types(quorum, classic);
    let record = vhost.declare_queue(asked()).expect("new");
    assert_eq!(record.queue_type, quorum);
    vhost.vhost.set_default_queue_types(classic, quorum);
    let refused =
        "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue";
    expect_refused(vhost.declare_queue(asked()), 406, refused);
}

#[test]
fn an_age_is_told_in_milliseconds_and_with_the_type_it_came_with() {
    let stream = || table("x-queue-type", text("stream"));
    let aged = |age: &'static str| with(stream().with("x-max-age", text(age)));
    let mut vhost = VhostScenario::new();
    vhost.declare_queue(aged("1h")).expect("new");
    vhost.declare_queue(aged("60m")).expect("the same");
    let inequivalent =
        "PRECONDITION_FAILED - inequivalent arg 'x-max-age' for queue 'Q' in vhost 'V': received";
    for (asked, detail) in [
        (aged("2h"), "'7200000' but current is '3600000'"),
        (
            with(stream()),
            "none but current is the value '3600000' of type 'longstr'",
        ),
    ] {
        let refused = format!("{inequivalent} {detail}");
        expect_refused(vhost.declare_queue(asked), 406, &refused);
    }
}

#[test]
fn what_was_stored_without_a_type_is_classic() {
    let mut vhost = VhostScenario::new();
    let record = vhost.declare_queue(queue("Q")).expect("new");
    let stored = QueueRecord {
        arguments: FieldTable::new(),
        ..record.clone()
    };
    let mut again = VhostScenario::new();
    assert_eq!(*again.vhost.restore_queue(stored), record);
    assert!(again.declare_queue(queue("Q")).is_ok());
}

/// What a classic queue does not know is not compared.
#[test]
fn an_argument_of_other_types_is_ignored_on_a_second_declare() {
    let mut vhost = VhostScenario::new();
    vhost.queue("Q");
    let asked = with(table("x-delivery-limit", FieldValue::Int(3)));
    assert!(vhost.declare_queue(asked).is_ok());
}

#[test]
fn a_later_queue_of_the_same_name_has_another_number() {
    let mut vhost = VhostScenario::new();
    let first = vhost.queue("Q");
    vhost.remove_queue("Q");
    let second = vhost.queue("Q");
    assert_ne!(first, second);
}
