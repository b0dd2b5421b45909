//! Arguments of new queues: what is taken, what is refused, and how.

use std::sync::Arc;

use leveret_core::{
    arguments::{
        AttemptCounting, DeadLetter, Overflow, Permit, Permits, QueueSettings, QueueType, TypesOff,
        max_age_millis,
    },
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
fn a_type_is_told_as_erlang_prints_strings() {
    for (kind, detail) in [
        ("a\n\"\\", r#""unsupported queue type 'a\n\"\\'""#),
        ("ü", "\"unsupported queue type 'ü'\""),
        (
            "€",
            "[117,110,115,117,112,112,111,114,116,101,100,32,113,117,101,117,101,32,116,121,112,101,32,39,8364,39]",
        ),
    ] {
        expect_invalid("x-queue-type", text(kind), detail);
    }
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

/// Every argument that is known, and which types take it.
const TAKEN_BY: [(&str, &str); 27] = [
    ("x-queue-type", "CQS"),
    ("x-message-ttl", "CQ"),
    ("x-expires", "CQ"),
    ("x-max-length", "CQ"),
    ("x-max-length-bytes", "CQS"),
    ("x-overflow", "CQ"),
    ("x-dead-letter-exchange", "CQ"),
    ("x-dead-letter-routing-key", "CQ"),
    ("x-dead-letter-strategy", "Q"),
    ("x-max-priority", "C"),
    ("x-single-active-consumer", "CQ"),
    ("x-queue-mode", "C"),
    ("x-queue-version", "C"),
    ("x-queue-master-locator", "C"),
    ("x-queue-leader-locator", "CQS"),
    ("x-delivery-limit", "Q"),
    ("x-quorum-initial-group-size", "Q"),
    ("x-consumer-timeout", "Q"),
    ("x-consumer-disconnected-timeout", "Q"),
    ("x-delayed-retry-type", "Q"),
    ("x-delayed-retry-min", "Q"),
    ("x-delayed-retry-max", "Q"),
    ("x-max-in-memory-length", "Q"),
    ("x-max-in-memory-bytes", "Q"),
    ("x-max-age", "S"),
    ("x-stream-max-segment-size-bytes", "S"),
    ("x-initial-cluster-size", "S"),
];

#[test]
fn each_type_takes_its_own_arguments() {
    for (key, types) in TAKEN_BY {
        for (queue_type, letter) in QueueType::ALL.into_iter().zip("CQS".chars()) {
            let is_taken = types.contains(letter);
            assert_eq!(queue_type.takes(key.as_bytes()), is_taken, "{key} {letter}");
            if is_taken || key == "x-queue-type" {
                continue;
            }
            let text = format!(
                "PRECONDITION_FAILED - invalid arg '{key}' for queue 'Q' in vhost 'V' of queue type {}",
                queue_type.module()
            );
            let arguments = table("x-queue-type", self::text(queue_type.name()))
                .with("x-made-up", FieldValue::Void)
                .with(key, self::text("whatever it is"));
            // Its exchange has its type checked, whoever takes it.
            expect_refused(
                VhostScenario::new().declare_queue(with(arguments)),
                406,
                &text,
            );
        }
    }
}

#[test]
fn of_several_arguments_of_other_types_the_first_one_sent_or_of_the_alphabet_is_named() {
    let untyped = table("x-max-age", FieldValue::Int(5)).with("x-delivery-limit", text("5"));
    let typed = untyped.clone().with("x-queue-type", text("classic"));
    let no_word = untyped.clone().with("x-queue-type", text(""));
    for (arguments, first) in [
        (untyped, "x-delivery-limit"),
        (no_word, "x-delivery-limit"),
        (typed, "x-max-age"),
    ] {
        let refused = format!(
            "PRECONDITION_FAILED - invalid arg '{first}' for queue 'Q' in vhost 'V' of queue type \
             rabbit_classic_queue"
        );
        let declared = VhostScenario::new().declare_queue(with(arguments));
        expect_refused(declared, 406, &refused);
    }
}

#[test]
fn values_are_checked_before_whose_they_are() {
    let arguments = table("x-max-age", text("1D")).with("x-expires", FieldValue::Int(-1));
    let refused = "PRECONDITION_FAILED - invalid arg 'x-expires' for queue 'Q' in vhost 'V': \
                   {value_negative,-1}";
    expect_refused(
        VhostScenario::new().declare_queue(with(arguments)),
        406,
        refused,
    );
}

#[track_caller]
fn expect_invalid_of(queue_type: QueueType, key: &'static str, value: FieldValue, detail: &str) {
    let refused =
        format!("PRECONDITION_FAILED - invalid arg '{key}' for queue 'Q' in vhost 'V': {detail}");
    let arguments = table("x-queue-type", text(queue_type.name())).with(key, value);
    expect_refused(
        VhostScenario::new().declare_queue(with(arguments)),
        406,
        &refused,
    );
}

#[test]
fn values_of_quorum_queues_have_their_ranges() {
    let negative = FieldValue::Int(-1);
    for key in [
        "x-consumer-timeout",
        "x-consumer-disconnected-timeout",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-quorum-initial-group-size",
        "x-max-length",
        "x-message-ttl",
    ] {
        expect_invalid_of(
            QueueType::Quorum,
            key,
            negative.clone(),
            "{value_negative,-1}",
        );
        let detail = "\"expected integer, got longstr\"";
        expect_invalid_of(QueueType::Quorum, key, text("5"), detail);
    }
    let (key, none) = ("x-quorum-initial-group-size", FieldValue::Int(0));
    expect_invalid_of(QueueType::Quorum, key, none, "{value_zero,0}");
    let key = "x-dead-letter-strategy";
    expect_invalid_of(QueueType::Quorum, key, text("nope"), "invalid_dlx_strategy");
    let detail = "{unacceptable_type,signedint}";
    expect_invalid_of(QueueType::Quorum, key, negative, detail);
}

#[test]
fn values_of_streams_have_their_ranges() {
    for age in ["", "1", "0D", "1x", "D", "-1D", "1.5h", "1DD"] {
        expect_invalid_of(QueueType::Stream, "x-max-age", text(age), "invalid_max_age");
    }
    let (number, detail) = (FieldValue::Int(5), "{unacceptable_type,signedint}");
    expect_invalid_of(QueueType::Stream, "x-max-age", number, detail);
    let (key, none) = ("x-initial-cluster-size", FieldValue::Int(0));
    expect_invalid_of(QueueType::Stream, key, none, "{value_zero,0}");
    let key = "x-stream-max-segment-size-bytes";
    let sizes = [
        (
            key,
            3_000_000_001,
            "Exceeded max value for x-stream-max-segment-size-bytes",
        ),
        (
            "x-stream-filter-size-bytes",
            15,
            "Invalid value for x-stream-filter-size-bytes",
        ),
        (
            "x-stream-filter-size-bytes",
            256,
            "Invalid value for x-stream-filter-size-bytes",
        ),
    ];
    for (key, size, sentence) in sizes {
        let arguments = table("x-queue-type", text("stream")).with(key, FieldValue::Long(size));
        let refused = format!("PRECONDITION_FAILED - {sentence}");
        expect_refused(
            VhostScenario::new().declare_queue(with(arguments)),
            406,
            &refused,
        );
    }
}

#[test]
fn an_age_is_a_number_and_a_unit() {
    const DAY: u64 = 24 * 60 * 60 * 1000;
    let ages = [
        ("1Y", 365 * DAY),
        ("2M", 60 * DAY),
        ("3D", 3 * DAY),
        ("4h", DAY / 6),
        ("5m", 300_000),
        ("006s", 6000),
        ("99999999999999999999999s", u64::MAX),
    ];
    for (age, millis) in ages {
        assert_eq!(max_age_millis(age.as_bytes()), Some(millis), "{age}");
    }
}

#[test]
fn a_lasting_type_has_no_flags_of_other_ones() {
    let asked = |kind: &str| with(table("x-queue-type", text(kind)));
    for kind in ["quorum", "stream"] {
        let flags = [
            ("auto-delete", [true, true, false]),
            ("exclusive-owner", [false, true, false]),
            ("non-durable", [false, false, false]),
        ];
        for (property, [auto_delete, exclusive, durable]) in flags {
            let asked = QueueDeclare {
                auto_delete,
                exclusive,
                durable,
                ..asked(kind)
            };
            let refused = format!(
                "PRECONDITION_FAILED - invalid property '{property}' for queue 'Q' in vhost 'V'"
            );
            expect_refused(VhostScenario::new().declare_queue(asked), 406, &refused);
        }
    }
}

#[test]
fn a_lasting_queue_has_a_name_of_its_own() {
    for kind in ["quorum", "stream"] {
        let asked = QueueDeclare {
            server_named: true,
            auto_delete: true,
            ..with(table("x-queue-type", text(kind)).with("x-expires", FieldValue::Int(-1)))
        };
        let refused = format!(
            "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_{kind}_queue"
        );
        expect_refused(VhostScenario::new().declare_queue(asked), 406, &refused);
    }
}

#[test]
fn a_queue_without_a_name_is_of_a_type_that_there_is() {
    let words = [
        (text("bogus"), "bogus"),
        (FieldValue::Bytes(b"Classic".as_slice().into()), "Classic"),
        (FieldValue::Bool(true), "true"),
    ];
    for (word, told) in words {
        let asked = QueueDeclare {
            server_named: true,
            auto_delete: true,
            ..with(table("x-queue-type", word).with("x-expires", FieldValue::Int(-1)))
        };
        let refused = format!("PRECONDITION_FAILED - unknown queue type '{told}'");
        expect_refused(VhostScenario::new().declare_queue(asked), 406, &refused);
    }
}

#[test]
fn the_argument_of_this_broker_is_checked_like_the_others() {
    expect_invalid("x-expiry", text("sometimes"), "invalid_expiry");
    let detail = "{unacceptable_type,bool}";
    expect_invalid("x-expiry", FieldValue::Bool(true), detail);
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
fn a_bad_value_is_named_before_an_argument_of_another_type() {
    let arguments = table("x-consumer-timeout", FieldValue::Int(5))
        .with("x-queue-leader-locator", text("nope"));
    let text = "PRECONDITION_FAILED - invalid arg 'x-queue-leader-locator' for queue 'Q' in vhost \
                'V': invalid_queue_locator_arg";
    let declared = VhostScenario::new().declare_queue(with(arguments));
    expect_refused(declared, 406, text);
}

#[test]
fn a_dead_letter_exchange_is_a_string() {
    let bytes = FieldValue::Bytes(bytes::Bytes::from_static(b"x"));
    for value in [FieldValue::Int(5), bytes] {
        let text = format!(
            "PRECONDITION_FAILED - invalid type '{}' for arg 'x-dead-letter-exchange' in queue 'Q' in \
             vhost 'V'",
            value.type_name()
        );
        let asked = with(table("x-dead-letter-exchange", value));
        expect_refused(VhostScenario::new().declare_queue(asked), 406, &text);
    }
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
        .with("x-dead-letter-routing-key", text("key"))
        .with("x-attempt-counting", text("all"))
        .with("x-delivery-limit", number(5));
    let short = |text: &'static str| Some(ShortString::from_static(text));
    let expected = QueueSettings {
        retry: None,
        queue_type: QueueType::Classic,
        max_priority: 10,
        default_priority: 0,
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
        dead_letter_at_least_once: false,
        delivery_limit: Some(5),
        attempt_counting: Some(AttemptCounting::All),
        ack_timeout_millis: None,
    };
    assert_eq!(QueueSettings::of(&arguments), expected);
    let nothing = QueueSettings::of(&FieldTable::default());
    assert_eq!(nothing, QueueSettings::default());
}

#[test]
fn a_highest_priority_of_0_makes_two_levels() {
    let settings = QueueSettings::of(&table("x-max-priority", FieldValue::Int(0)));
    assert_eq!(settings.max_priority, 1);
    assert_eq!(QueueSettings::of(&FieldTable::new()).max_priority, 0);
}

#[test]
fn a_quorum_queue_has_settings_without_being_told() {
    let quorum = table("x-queue-type", text("quorum"));
    let expected = QueueSettings {
        queue_type: QueueType::Quorum,
        max_priority: 31,
        default_priority: 4,
        delivery_limit: Some(20),
        attempt_counting: Some(AttemptCounting::Failures),
        ack_timeout_millis: Some(1_800_000),
        ..QueueSettings::default()
    };
    assert_eq!(QueueSettings::of(&quorum), expected);

    let limits = [
        (FieldValue::Int(0), Some(0)),
        (FieldValue::Long(7), Some(7)),
        (FieldValue::Int(-1), None),
        // Not checked, and no word about it.
        (text("7"), Some(20)),
        (FieldValue::Bool(true), Some(20)),
    ];
    for (limit, delivery_limit) in limits {
        let settings = QueueSettings::of(&quorum.clone().with("x-delivery-limit", limit));
        assert_eq!(settings.delivery_limit, delivery_limit);
    }
    // It cannot refuse a message and dead-letter it.
    let arguments = quorum
        .with("x-overflow", text("reject-publish-dlx"))
        .with("x-consumer-timeout", FieldValue::Int(1000));
    let settings = QueueSettings::of(&arguments);
    assert_eq!(settings.overflow, Overflow::DropHead);
    assert_eq!(settings.ack_timeout_millis, Some(1000));
}

#[test]
fn at_least_once_needs_somewhere_to_wait() {
    let strategy = table("x-queue-type", text("quorum"))
        .with("x-dead-letter-strategy", text("at-least-once"))
        .with("x-dead-letter-exchange", text(""));
    assert!(!QueueSettings::of(&strategy).dead_letter_at_least_once);
    let waiting = strategy.with("x-overflow", text("reject-publish"));
    assert!(QueueSettings::of(&waiting).dead_letter_at_least_once);
}

#[test]
fn a_classic_queue_that_counts_takes_a_delivery_limit() {
    let limit = table("x-delivery-limit", FieldValue::Int(3));
    let counting = limit.with("x-attempt-counting", text("all"));
    let mut vhost = VhostScenario::new();
    vhost.declare_queue(with(counting.clone())).expect("new");
    assert!(vhost.declare_queue(with(counting)).is_ok());
    let refused = "PRECONDITION_FAILED - inequivalent arg 'x-delivery-limit' for queue 'Q' in vhost \
                   'V': received none but current is the value '3' of type 'signedint'";
    let without = with(table("x-attempt-counting", text("all")));
    expect_refused(vhost.declare_queue(without), 406, refused);

    expect_invalid(
        "x-attempt-counting",
        text("some"),
        "invalid_attempt_counting",
    );
    let detail = "{unacceptable_type,signedint}";
    expect_invalid("x-attempt-counting", FieldValue::Int(1), detail);
}

#[test]
fn a_strict_vhost_refuses_what_is_permitted_for_the_time_being_only() {
    let mut vhost = VhostScenario::new();
    let transient = || QueueDeclare {
        durable: false,
        ..queue("T")
    };
    let mode = || with(table("x-queue-mode", text("lazy")));
    let strict = Permits {
        transient_shared_queues: Permit::WithdrawnByDefault,
        queue_mode: false,
        ..Permits::default()
    };
    vhost.vhost.set_permits(strict.clone());
    let feature = "INTERNAL_ERROR - Feature `transient_nonexcl_queues` is deprecated.\nBy default, this \
                   feature is not permitted anymore.\nThe feature will be removed from a future major \
                   RabbitMQ version, regardless of the configuration; actual version to be determined.\nTo \
                   continue using this fea...";
    let refusal = vhost.declare_queue(transient()).expect_err("it is refused");
    assert_eq!(refusal.reply_code().code(), 541);
    assert!(
        format!("INTERNAL_ERROR - {refusal}").starts_with(feature.trim_end_matches("...")),
        "{refusal}"
    );
    expect_refused(
        vhost.declare_queue(mode()),
        406,
        "PRECONDITION_FAILED - invalid arg 'x-queue-mode' for queue 'Q' in vhost 'V' of queue type \
         rabbit_classic_queue",
    );
    let exclusive = QueueDeclare {
        exclusive: true,
        ..transient()
    };
    vhost
        .declare_queue(exclusive)
        .expect("it ends with its connection");

    vhost.vhost.set_permits(Permits::default());
    vhost.declare_queue(mode()).expect("it is permitted");
    // What is there is found again.
    vhost.vhost.set_permits(strict);
    vhost.declare_queue(mode()).expect("it is there");
}

#[test]
fn a_configuration_that_withdraws_a_permit_is_named() {
    let mut vhost = VhostScenario::new();
    vhost.vhost.set_permits(Permits {
        transient_shared_queues: Permit::WithdrawnByConfiguration,
        ..Permits::default()
    });
    let transient = QueueDeclare {
        durable: false,
        ..with(table("x-queue-master-locator", text("random")))
    };
    let refusal = vhost.declare_queue(transient).expect_err("it is refused");
    assert_eq!(refusal.reply_code().code(), 541);
    let told = "Feature `transient_nonexcl_queues` is deprecated.\nIts use is not permitted per the configuration \
                (overriding the default, which is permitted):\n    \
                \"deprecated_features.permit.transient_nonexcl_queues = false\"\nIts use will not be permit";
    assert!(refusal.to_string().starts_with(told), "{refusal}");
}

#[test]
fn a_master_locator_that_is_permitted_may_be_anything_on_a_classic_queue() {
    for value in [text("random"), text("nonsense"), FieldValue::Int(5)] {
        let mut vhost = VhostScenario::new();
        vhost.vhost.set_permits(Permits {
            master_locator: true,
            ..Permits::default()
        });
        let declared = vhost.declare_queue(with(table("x-queue-master-locator", value)));
        assert!(declared.is_ok(), "{declared:?}");
    }
}

#[test]
fn a_version_below_zero_is_said_to_be_that() {
    expect_invalid(
        "x-queue-version",
        FieldValue::Int(-1),
        "{value_negative,-1}",
    );
}

#[test]
fn no_new_queue_is_of_a_type_that_is_off_and_what_is_there_stays() {
    let mut vhost = VhostScenario::new();
    vhost.declare_queue(queue("there")).expect("it is new");
    vhost.vhost.set_permits(Permits {
        off: Some(Arc::new(TypesOff {
            types: vec![QueueType::Classic],
            node: "rabbit@host".to_owned(),
        })),
        ..Permits::default()
    });
    let refusal = vhost.declare_queue(queue("Q")).expect_err("it is refused");
    assert_eq!(refusal.reply_code().code(), 541);
    assert_eq!(
        refusal.to_string(),
        "Cannot declare a queue 'queue 'Q' in vhost 'V'' of type 'rabbit_classic_queue' on node \
         'rabbit@host': the corresponding feature flag is disabled"
    );
    vhost.declare_queue(queue("there")).expect("it is there");
    let quorum = with(table("x-queue-type", text("quorum")));
    vhost.declare_queue(quorum).expect("that type is on");
}
