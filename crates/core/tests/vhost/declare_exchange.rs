//! `exchange.declare`, in the order of its checks.

use leveret_core::vhost::ExchangeDeclare;
use leveret_wire::value::FieldValue;

use crate::scenario::{VhostScenario, exchange, expect_refused, table, text};

fn passive(name: &str, kind: &str) -> ExchangeDeclare {
    ExchangeDeclare {
        passive: true,
        ..exchange(name, kind)
    }
}

#[test]
fn every_known_type_can_be_declared_again_and_again() {
    for kind in ["direct", "fanout", "topic", "headers"] {
        let mut vhost = VhostScenario::new();
        assert_eq!(
            vhost
                .declare_exchange(exchange("X", kind))
                .map(|changes| changes.len()),
            Ok(1)
        );
        assert_eq!(vhost.declare_exchange(exchange("X", kind)), Ok(vec![]));
    }
}

#[test]
fn an_unknown_type_is_refused_also_for_an_exchange_that_exists() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "direct");
    for name in ["X", "new", ""] {
        expect_refused(
            vhost.declare_exchange(exchange(name, "T")),
            406,
            "PRECONDITION_FAILED - unknown exchange type 'T'",
        );
        expect_refused(
            vhost.declare_exchange(exchange(name, "")),
            406,
            "PRECONDITION_FAILED - invalid exchange type ''",
        );
    }
    expect_refused(
        vhost.declare_exchange(exchange("new", "x-jms-topic")),
        406,
        "PRECONDITION_FAILED - invalid exchange type 'x-jms-topic'",
    );
    expect_refused(
        vhost.declare_exchange(exchange("new", "Direct")),
        406,
        "PRECONDITION_FAILED - unknown exchange type 'Direct'",
    );
}

#[test]
fn the_default_exchange_is_not_to_be_declared() {
    let mut vhost = VhostScenario::new();
    for asked in [exchange("", "direct"), passive("", "direct")] {
        expect_refused(
            vhost.declare_exchange(asked),
            403,
            "ACCESS_REFUSED - operation not permitted on the default exchange",
        );
    }
}

#[test]
fn names_of_the_broker_are_reserved_unless_they_exist() {
    let mut vhost = VhostScenario::new();
    expect_refused(
        vhost.declare_exchange(exchange("amq.new", "direct")),
        403,
        "ACCESS_REFUSED - exchange name 'amq.new' contains reserved prefix 'amq.*'",
    );
    assert_eq!(
        vhost.declare_exchange(exchange("amq.topic", "topic")),
        Ok(vec![])
    );
    for name in ["amq", "amqp.new", "AMQ.new"] {
        vhost.exchange(name, "direct");
    }
}

/// A bad argument of a reserved name does not matter.
#[test]
fn the_reserved_name_is_checked_before_arguments() {
    let asked = ExchangeDeclare {
        arguments: table("alternate-exchange", FieldValue::Int(5)),
        ..exchange("amq.new", "direct")
    };
    expect_refused(
        VhostScenario::new().declare_exchange(asked),
        403,
        "ACCESS_REFUSED - exchange name 'amq.new' contains reserved prefix 'amq.*'",
    );
}

#[test]
fn predeclared_exchanges_are_there_and_durable() {
    let mut vhost = VhostScenario::new();
    let predeclared = [
        ("amq.direct", "direct", false),
        ("amq.fanout", "fanout", false),
        ("amq.topic", "topic", false),
        ("amq.headers", "headers", false),
        ("amq.match", "headers", false),
        ("amq.rabbitmq.trace", "topic", true),
    ];
    for (name, kind, internal) in predeclared {
        let asked = ExchangeDeclare {
            internal,
            ..exchange(name, kind)
        };
        assert_eq!(vhost.declare_exchange(asked), Ok(vec![]), "{name}");
    }
    // And the default exchange.
    assert_eq!(vhost.vhost.exchanges().count(), predeclared.len() + 1);
}

#[test]
fn what_differs_is_named_in_the_order_type_durable_auto_delete_internal() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "direct");
    let mut asked = ExchangeDeclare {
        durable: false,
        auto_delete: true,
        internal: true,
        arguments: table("alternate-exchange", text("a")),
        ..exchange("X", "fanout")
    };
    let refused = |vhost: &mut VhostScenario, asked: &ExchangeDeclare, detail: &str| {
        let text = format!("PRECONDITION_FAILED - inequivalent arg {detail}");
        expect_refused(vhost.declare_exchange(asked.clone()), 406, &text);
    };

    let detail = "'type' for exchange 'X' in vhost 'V': received 'fanout' but current is 'direct'";
    refused(&mut vhost, &asked, detail);
    asked.kind = exchange("X", "x-random").kind;
    let detail =
        "'type' for exchange 'X' in vhost 'V': received ''x-random'' but current is 'direct'";
    refused(&mut vhost, &asked, detail);
    asked.kind = exchange("X", "direct").kind;
    let detail = "'durable' for exchange 'X' in vhost 'V': received 'false' but current is 'true'";
    refused(&mut vhost, &asked, detail);
    asked.durable = true;
    let detail =
        "'auto_delete' for exchange 'X' in vhost 'V': received 'true' but current is 'false'";
    refused(&mut vhost, &asked, detail);
    asked.auto_delete = false;
    let detail = "'internal' for exchange 'X' in vhost 'V': received 'true' but current is 'false'";
    refused(&mut vhost, &asked, detail);
    asked.internal = false;
    let detail = "'alternate-exchange' for exchange 'X' in vhost 'V': received the value 'a' of \
                  type 'longstr' but current is none";
    refused(&mut vhost, &asked, detail);
    asked.arguments = Default::default();
    assert_eq!(vhost.declare_exchange(asked), Ok(vec![]));
}

#[test]
fn another_alternate_exchange_is_refused() {
    let with = |value| ExchangeDeclare {
        arguments: table("alternate-exchange", value),
        ..exchange("X", "direct")
    };
    let mut vhost = VhostScenario::new();
    vhost.declare_exchange(with(text("a"))).expect("new");

    expect_refused(
        vhost.declare_exchange(with(text("b"))),
        406,
        "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'X' in vhost 'V': \
         received 'b' but current is 'a'",
    );
    expect_refused(
        vhost.declare_exchange(exchange("X", "direct")),
        406,
        "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'X' in vhost 'V': \
         received none but current is the value 'a' of type 'longstr'",
    );
    assert_eq!(vhost.declare_exchange(with(text("a"))), Ok(vec![]));
}

#[test]
fn an_alternate_exchange_is_a_long_string_and_need_not_exist() {
    let mut vhost = VhostScenario::new();
    let with = |name, value| ExchangeDeclare {
        arguments: table("alternate-exchange", value),
        ..exchange(name, "direct")
    };
    expect_refused(
        vhost.declare_exchange(with("X", FieldValue::Int(5))),
        406,
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in exchange \
         'X' in vhost 'V'",
    );
    assert!(!vhost.has_exchange("X"), "it was not made");
    assert!(vhost.declare_exchange(with("X", text("missing"))).is_ok());
}

#[test]
fn other_arguments_are_never_compared() {
    let mut vhost = VhostScenario::new();
    let with = |value| ExchangeDeclare {
        arguments: table("hash-header", value),
        ..exchange("X", "direct")
    };
    vhost.declare_exchange(with(text("a"))).expect("new");
    for again in [
        with(text("b")),
        with(FieldValue::Void),
        exchange("X", "direct"),
    ] {
        assert_eq!(vhost.declare_exchange(again), Ok(vec![]));
    }
    let record = vhost
        .vhost
        .exchange(&crate::scenario::name("X"))
        .expect("it exists")
        .record();
    assert_eq!(
        record.arguments,
        table("hash-header", text("a")),
        "the old ones stay"
    );
}

#[test]
fn passive_looks_only_for_the_name() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "direct");
    let asked = ExchangeDeclare {
        durable: false,
        auto_delete: true,
        internal: true,
        arguments: table("alternate-exchange", FieldValue::Int(5)),
        ..passive("X", "no such type")
    };
    assert_eq!(vhost.declare_exchange(asked), Ok(vec![]));
    assert_eq!(vhost.declare_exchange(passive("amq.topic", "")), Ok(vec![]));
    for missing in ["Y", "amq.new"] {
        let text = format!("NOT_FOUND - no exchange '{missing}' in vhost 'V'");
        expect_refused(vhost.declare_exchange(passive(missing, "T")), 404, &text);
    }
}
