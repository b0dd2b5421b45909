//! `queue.bind` and `exchange.bind`, in the order of their checks.

use leveret_core::vhost::QueueDeclare;
use leveret_wire::value::{FieldTable, FieldValue};

use crate::scenario::{
    ME, OTHER, VhostScenario, binding, exchange, expect_refused, name, queue, table,
};

fn plain(source: &str, destination: &str) -> leveret_core::record::BindingRecord {
    binding(source, destination, "k", FieldTable::new())
}

#[test]
fn an_identical_binding_exists_once() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "direct");
    vhost.queue("q");
    assert_eq!(
        vhost.try_bind(plain("X", "q")).map(|changes| changes.len()),
        Ok(1)
    );
    assert_eq!(vhost.try_bind(plain("X", "q")), Ok(vec![]));
    assert_eq!(vhost.bindings_of("X"), 1);
    vhost.unbind("X", "q", "k");
    vhost.expect_route("X", "k", []);
}

#[test]
fn key_destination_and_typed_arguments_make_a_binding() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "direct");
    vhost.queue("q");
    vhost.queue("r");
    let int = |number| table("a", FieldValue::Int(number));
    let bindings = [
        binding("X", "q", "k", FieldTable::new()),
        binding("X", "q", "l", FieldTable::new()),
        binding("X", "r", "k", FieldTable::new()),
        binding("X", "q", "k", int(1)),
        binding("X", "q", "k", int(2)),
        binding("X", "q", "k", table("a", FieldValue::Long(1))),
        binding("X", "q", "k", int(1).with("b", FieldValue::Void)),
    ];
    for record in &bindings {
        vhost.try_bind(record.clone()).expect("it may be bound");
    }
    assert_eq!(vhost.bindings_of("X"), bindings.len());

    let swapped = table("b", FieldValue::Void).with("a", FieldValue::Int(1));
    assert_eq!(
        vhost.try_bind(binding("X", "q", "k", swapped)),
        Ok(vec![]),
        "order is nothing"
    );
    vhost.expect_route("X", "k", ["q", "r"]);
    vhost.expect_route("X", "l", ["q"]);
}

#[test]
fn the_default_exchange_is_not_to_be_bound() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("x", "direct");
    vhost.queue("q");
    for record in [
        plain("", "q"),
        plain("", "missing"),
        plain("", "x"),
        plain("x", ""),
    ] {
        let refused = "ACCESS_REFUSED - operation not permitted on the default exchange";
        expect_refused(vhost.try_bind(record.clone()), 403, refused);
        expect_refused(vhost.try_unbind(&record), 403, refused);
    }
}

#[test]
fn the_source_is_looked_for_first() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "direct");
    for destination in ["missing", "x missing"] {
        expect_refused(
            vhost.try_bind(plain("Y", destination)),
            404,
            "NOT_FOUND - no exchange 'Y' in vhost 'V'",
        );
    }
    expect_refused(
        vhost.try_bind(plain("X", "missing")),
        404,
        "NOT_FOUND - no queue 'missing' in vhost 'V'",
    );
    expect_refused(
        vhost.try_bind(plain("X", "x missing")),
        404,
        "NOT_FOUND - no exchange 'x missing' in vhost 'V'",
    );
}

#[test]
fn an_exclusive_queue_is_bound_only_by_its_connection() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("T", "topic");
    let asked = QueueDeclare {
        exclusive: true,
        ..queue("Q")
    };
    vhost.declare_queue(asked).expect("new");
    // Before the type looks at the key.
    let bad_key = binding("T", "Q", "#.a.#.b.#", FieldTable::new());
    expect_refused(
        vhost.vhost.bind(bad_key.clone(), OTHER),
        405,
        "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'Q' in vhost 'V'. It \
         could be originally declared on another connection or the exclusive property value does \
         not match that of the original declaration.",
    );
    expect_refused(
        vhost.vhost.bind(bad_key, ME),
        406,
        "PRECONDITION_FAILED - Topic binding key '#.a.#.b.#' uses 3 '#' wildcards, at most 2 are \
         allowed",
    );
}

#[test]
fn only_topic_exchanges_look_at_the_key() {
    let mut vhost = VhostScenario::new();
    vhost.queue("q");
    for kind in ["direct", "fanout", "headers"] {
        vhost.exchange(kind, kind);
        vhost.bind(kind, "q", "#.a.#.b.#");
    }
    vhost.exchange("topic", "topic");
    for key in ["#.#", "#.a.#", "#a.#b.##.#.#"] {
        vhost.bind("topic", "q", key);
    }
    expect_refused(
        vhost.try_bind(binding("topic", "q", "#.#.#.#", FieldTable::new())),
        406,
        "PRECONDITION_FAILED - Topic binding key '#.#.#.#' uses 4 '#' wildcards, at most 2 are \
         allowed",
    );
}

#[test]
fn internal_exchanges_may_be_bound_but_not_published_to() {
    let mut vhost = VhostScenario::new();
    let asked = leveret_core::vhost::ExchangeDeclare {
        internal: true,
        ..exchange("x", "fanout")
    };
    vhost.declare_exchange(asked).expect("new");
    vhost.exchange("front", "fanout");
    vhost.queue("q");
    vhost.bind("x", "q", "");
    vhost.bind("front", "x", "");
    vhost.expect_route("front", "", ["q"]);
    expect_refused(
        vhost.vhost.route(&name("x"), &[name("")], &FieldTable::new),
        403,
        "ACCESS_REFUSED - cannot publish to internal exchange 'x' in vhost 'V'",
    );
}
