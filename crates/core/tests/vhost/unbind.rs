//! `queue.unbind` and `exchange.unbind`.

use leveret_wire::value::{FieldTable, FieldValue};

use crate::scenario::{VhostScenario, binding, table};

#[test]
fn whatever_is_missing_is_fine() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "direct");
    vhost.queue("q");
    vhost.bind("X", "q", "k");
    let missing = [
        binding("Y", "q", "k", FieldTable::new()),
        binding("X", "r", "k", FieldTable::new()),
        binding("X", "x missing", "k", FieldTable::new()),
        binding("X", "q", "l", FieldTable::new()),
        binding("X", "q", "k", table("a", FieldValue::Void)),
    ];
    for record in &missing {
        assert_eq!(vhost.try_unbind(record), Ok(vec![]));
    }
    vhost.expect_route("X", "k", ["q"]);
}

#[test]
fn only_the_binding_with_the_same_typed_arguments_goes() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "direct");
    vhost.queue("q");
    let int = table("a", FieldValue::Int(1));
    let long = table("a", FieldValue::Long(1));
    vhost.bind_with("X", "q", "k", int.clone());
    vhost.bind_with("X", "q", "k", long.clone());

    vhost
        .try_unbind(&binding("X", "q", "k", int))
        .expect("it may go");
    assert_eq!(vhost.bindings_of("X"), 1);
    vhost.expect_route("X", "k", ["q"]);
    vhost
        .try_unbind(&binding("X", "q", "k", long))
        .expect("it may go");
    vhost.expect_route("X", "k", []);
}

/// A topic exchange keeps its bindings in a second form for matching.
#[test]
fn a_topic_key_leads_somewhere_as_long_as_one_binding_says_so() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "topic");
    vhost.queue("q");
    vhost.queue("r");
    let arguments = table("a", FieldValue::Int(1));
    vhost.bind("X", "q", "a.*");
    vhost.bind_with("X", "q", "a.*", arguments.clone());
    vhost.bind("X", "r", "a.*");

    vhost.unbind("X", "q", "a.*");
    vhost.expect_route("X", "a.b", ["q", "r"]);
    vhost
        .try_unbind(&binding("X", "q", "a.*", arguments))
        .expect("it may go");
    vhost.expect_route("X", "a.b", ["r"]);
    vhost.unbind("X", "r", "a.*");
    vhost.expect_route("X", "a.b", []);
}

/// `#.#` and `#` match alike, but they are two bindings.
#[test]
fn keys_that_mean_the_same_stay_apart() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "topic");
    vhost.queue("q");
    vhost.bind("X", "q", "#");
    vhost.bind("X", "q", "#.#");
    assert_eq!(vhost.bindings_of("X"), 2);
    vhost.unbind("X", "q", "#");
    vhost.expect_route("X", "a.b", ["q"]);
    vhost.unbind("X", "q", "#.#");
    vhost.expect_route("X", "a.b", []);
}
