//! Exchanges that give a message to one destination, and one that remembers.

use std::collections::BTreeMap;

use leveret_core::{
    ids::Timestamp,
    vhost::{ExchangeDeclare, Occasion, QueueDeclare, Remember, Routable},
};
use leveret_wire::{
    content::BasicProperties,
    value::{FieldTable, FieldValue},
};

use crate::scenario::{VhostScenario, binding, exchange, expect_refused, name, queue, table, text};

fn keys() -> impl Iterator<Item = String> {
    (0..1000).map(|number| format!("key {number}"))
}

/// Which queue each key reaches.
#[track_caller]
fn owners(vhost: &VhostScenario) -> BTreeMap<String, String> {
    keys()
        .map(|key| {
            let mut reached = vhost.route("X", &key);
            assert_eq!(reached.len(), 1, "{key}: {reached:?}");
            (key, reached.remove(0))
        })
        .collect()
}

fn with_queues(kind: &str, weights: &[(&str, &str)]) -> VhostScenario {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", kind);
    for (queue, weight) in weights {
        vhost.queue(queue);
        vhost.bind("X", queue, weight);
    }
    vhost
}

fn share(owners: &BTreeMap<String, String>, queue: &str) -> usize {
    owners.values().filter(|owner| *owner == queue).count()
}

#[test]
fn a_consistent_hash_shares_keys_by_weight() {
    let vhost = with_queues("x-consistent-hash", &[("a", "1"), ("b", "1"), ("c", "2")]);
    let owners = owners(&vhost);
    for (queue, expected) in [("a", 250), ("b", 250), ("c", 500)] {
        let share = share(&owners, queue);
        assert!(share.abs_diff(expected) < 60, "{queue} has {share}");
    }
}

#[test]
fn removing_a_queue_moves_only_its_keys_and_adding_one_takes_keys_for_it_alone() {
    let mut vhost = with_queues("x-consistent-hash", &[("a", "3"), ("b", "1"), ("c", "2")]);
    let before = owners(&vhost);
    vhost.remove_queue("b");
    let without = owners(&vhost);
    for key in keys() {
        assert!(
            before[&key] == "b" || before[&key] == without[&key],
            "{key}"
        );
        assert_ne!(without[&key], "b");
    }
    vhost.queue("d");
    vhost.bind("X", "d", "2");
    let with = owners(&vhost);
    assert!(share(&with, "d") > 0);
    for key in keys() {
        assert!(with[&key] == "d" || with[&key] == without[&key], "{key}");
    }
}

#[test]
fn a_second_binding_of_a_queue_changes_nothing_while_one_is_left() {
    let mut vhost = with_queues("x-consistent-hash", &[("a", "1"), ("b", "1")]);
    let before = owners(&vhost);
    vhost.bind("X", "a", "10000");
    assert_eq!(owners(&vhost), before);
    vhost.unbind("X", "a", "1");
    assert_eq!(owners(&vhost), before);
    vhost.unbind("X", "a", "10000");
    assert_eq!(share(&owners(&vhost), "b"), 1000);
}

#[test]
fn a_hash_may_be_of_a_header_or_property() {
    for (argument, value, properties) in [
        ("hash-header", "h", headers(table("h", FieldValue::Int(7)))),
        (
            "hash-header",
            "h",
            headers(table("other", FieldValue::Int(7))),
        ),
        ("hash-property", "message_id", message_id("m")),
        ("hash-property", "timestamp", BasicProperties::default()),
    ] {
        let mut vhost = VhostScenario::new();
        let asked = ExchangeDeclare {
            arguments: table(argument, text(value)),
            ..exchange("X", "x-consistent-hash")
        };
        vhost.declare_exchange(asked).expect("declared");
        for queue in ["a", "b", "c", "d"] {
            vhost.queue(queue);
            vhost.bind("X", queue, "1");
        }
        let routes = keys().map(|key| {
            let message = Message {
                properties: properties.clone(),
                draw: 0,
            };
            let found = vhost.vhost.route(&name("X"), &[name(&key)], &message);
            let found = found.expect("routed");
            assert!(!found.by_key_alone);
            found.queues
        });
        let mut routes: Vec<_> = routes.collect();
        routes.dedup();
        assert_eq!(routes.len(), 1, "{argument} {value}");
    }
}

#[test]
fn a_modulus_hash_ignores_binding_keys_and_bindings_beyond_the_first() {
    let mut vhost = with_queues("x-modulus-hash", &[("a", ""), ("b", "x"), ("c", "y")]);
    let before = owners(&vhost);
    for queue in ["a", "b", "c"] {
        assert!(share(&before, queue) > 250, "{before:?}");
    }
    vhost.bind("X", "a", "again");
    assert_eq!(owners(&vhost), before);
}

#[test]
fn chance_chooses_among_bindings() {
    for (kind, key) in [("x-random", "any"), ("x-local-random", "")] {
        let vhost = with_queues(kind, &[("a", key), ("b", key), ("c", key)]);
        let draw = |draw| {
            let message = Message {
                properties: BasicProperties::default(),
                draw,
            };
            let found = vhost.vhost.route(&name("X"), &[name("k")], &message);
            let found = found.expect("routed");
            assert!(!found.by_key_alone, "a cache would freeze the choice");
            found.queues.to_vec()
        };
        let mut drawn = [0, u64::MAX / 2, u64::MAX].map(draw);
        drawn.sort();
        assert!(drawn.iter().all(|queues| queues.len() == 1));
        assert!(drawn.is_sorted_by(|a, b| a < b), "three queues: {drawn:?}");
    }
}

#[test]
fn without_bindings_nothing_is_chosen() {
    for kind in [
        "x-consistent-hash",
        "x-modulus-hash",
        "x-random",
        "x-local-random",
    ] {
        let vhost = with_queues(kind, &[]);
        vhost.expect_route("X", "k", []);
    }
}

#[test]
fn a_recent_history_is_a_fanout_that_wants_to_remember() {
    let mut vhost = VhostScenario::new();
    let asked = ExchangeDeclare {
        arguments: table("x-recent-history-length", FieldValue::Byte(3)),
        ..exchange("xhistory", "x-recent-history")
    };
    vhost.declare_exchange(asked).expect("declared");
    vhost.exchange("X", "fanout");
    vhost.bind("X", "xhistory", "");
    let queue = vhost.queue("a");
    vhost.bind("xhistory", "a", "whatever");
    let route = |headers: FieldTable| {
        let found = vhost
            .vhost
            .route(&name("X"), &[name("k")], &|| headers.clone());
        found.expect("routed")
    };
    let kept = route(FieldTable::new());
    assert_eq!(kept.queues.as_slice(), [queue]);
    assert!(!kept.by_key_alone);
    let exchange = name("xhistory");
    assert_eq!(
        kept.remembered_by,
        [Remember {
            exchange,
            length: 3
        }]
    );
    let no_store = route(table("x-recent-history-no-store", FieldValue::Bool(true)));
    assert_eq!(no_store.queues.as_slice(), [queue]);
    assert_eq!(no_store.remembered_by, []);
}

#[test]
fn what_an_exchange_type_does_not_take_is_refused_in_rabbitmqs_words() {
    let mut vhost = VhostScenario::new();
    for (kind, arguments, text) in [
        (
            "x-consistent-hash",
            table("hash-header", text("h")).with("hash-property", text("message_id")),
            "hash-header and hash-property are mutually exclusive",
        ),
        (
            "x-consistent-hash",
            table("hash-property", text("nope")),
            "Unsupported property: nope",
        ),
        (
            "x-recent-history",
            table("x-recent-history-length", FieldValue::Int(0)),
            "Invalid argument 0, 'x-recent-history-length' must be a positive integer",
        ),
        (
            "x-recent-history",
            table("x-recent-history-length", FieldValue::UnsignedByte(3)),
            "Invalid argument 3, 'x-recent-history-length' must be a positive integer",
        ),
        (
            "x-recent-history",
            table("x-recent-history-length", text("abc")),
            "Invalid argument <<\"abc\">>, 'x-recent-history-length' must be a positive integer",
        ),
    ] {
        let asked = ExchangeDeclare {
            arguments,
            ..exchange("refused", kind)
        };
        let refused = vhost.declare_exchange(asked);
        expect_refused(refused, 406, &format!("PRECONDITION_FAILED - {text}"));
    }
    vhost.exchange("xhash", "x-consistent-hash");
    vhost.exchange("xlocal", "x-local-random");
    vhost.exchange("xother", "fanout");
    vhost.queue("a");
    let quorum = QueueDeclare {
        arguments: table("x-queue-type", text("quorum")),
        ..queue("lasting")
    };
    vhost.declare_queue(quorum).expect("it is new");
    for (source, destination, key, text) in [
        (
            "xhash",
            "a",
            "5 ",
            "The binding key must be an integer: <<\"5 \">>",
        ),
        ("xhash", "a", "", "The binding key must be an integer: <<>>"),
        ("xhash", "a", "-1", "The binding key must be greater than 0"),
        (
            "xhash",
            "a",
            "10001",
            "The binding key must not exceed 10000",
        ),
        (
            "xlocal",
            "a",
            "k",
            "Non empty binding 'k' key not permitted",
        ),
        ("xlocal", "xother", "", "Destination not found"),
        (
            "xlocal",
            "lasting",
            "",
            "Queue type rabbit_quorum_queue not valid for this exchange type",
        ),
    ] {
        let refused = vhost.try_bind(binding(source, destination, key, FieldTable::new()));
        expect_refused(refused, 406, &format!("PRECONDITION_FAILED - {text}"));
    }
    vhost.bind("xhash", "a", "+5");
}

struct Message {
    properties: BasicProperties,
    draw: u64,
}

impl Routable for Message {
    fn headers(&self) -> FieldTable {
        self.properties.headers.clone().unwrap_or_default()
    }

    fn properties(&self) -> BasicProperties {
        self.properties.clone()
    }

    fn occasion(&self) -> Occasion {
        Occasion {
            now: Timestamp::default(),
            draw: self.draw,
        }
    }
}

fn headers(headers: FieldTable) -> BasicProperties {
    BasicProperties {
        headers: Some(headers),
        ..BasicProperties::default()
    }
}

fn message_id(id: &str) -> BasicProperties {
    BasicProperties {
        message_id: Some(name(id)),
        ..BasicProperties::default()
    }
}
