//! The exchange that is asked when the first one has no destination.

use leveret_core::vhost::ExchangeDeclare;

use crate::scenario::{VhostScenario, exchange, name, table, text};

fn with_alternate(name: &str, kind: &str, alternate: &str) -> ExchangeDeclare {
    ExchangeDeclare {
        arguments: table("alternate-exchange", text(alternate)),
        ..exchange(name, kind)
    }
}

#[test]
fn it_is_asked_only_when_nothing_else_matches() {
    let mut vhost = VhostScenario::new();
    vhost
        .declare_exchange(with_alternate("X", "direct", "x rest"))
        .expect("new");
    vhost.exchange("x rest", "fanout");
    vhost.queue("q");
    vhost.queue("rest");
    vhost.bind("X", "q", "k");
    vhost.bind("x rest", "rest", "");
    vhost.expect_route("X", "k", ["q"]);
    vhost.expect_route("X", "l", ["rest"]);
}

#[test]
fn alternates_chain_and_cycles_end() {
    let mut vhost = VhostScenario::new();
    vhost
        .declare_exchange(with_alternate("x1", "direct", "x2"))
        .expect("new");
    vhost
        .declare_exchange(with_alternate("x2", "topic", "x3"))
        .expect("new");
    vhost
        .declare_exchange(with_alternate("x3", "direct", "x1"))
        .expect("new");
    vhost.queue("q");
    vhost.expect_route("x1", "k", []);
    vhost.bind("x3", "q", "k");
    vhost.expect_route("x1", "k", ["q"]);
    vhost.expect_route("x1", "l", []);
    vhost.bind("x2", "q", "#");
    vhost.expect_route("x1", "l", ["q"]);
}

#[test]
fn a_missing_one_is_none() {
    let mut vhost = VhostScenario::new();
    vhost
        .declare_exchange(with_alternate("X", "direct", "x later"))
        .expect("new");
    vhost.queue("q");
    vhost.expect_route("X", "k", []);
    vhost.exchange("x later", "fanout");
    vhost.bind("x later", "q", "");
    vhost.expect_route("X", "k", ["q"]);
    vhost
        .vhost
        .delete_exchange(&name("x later"), false)
        .expect("it may go");
    vhost.expect_route("X", "k", []);
}

/// The exchange has a destination, even if that leads nowhere.
#[test]
fn a_binding_to_an_exchange_counts_as_a_destination() {
    let mut vhost = VhostScenario::new();
    vhost
        .declare_exchange(with_alternate("X", "fanout", "x rest"))
        .expect("new");
    vhost.exchange("x rest", "fanout");
    vhost.exchange("x nowhere", "fanout");
    vhost.queue("rest");
    vhost.bind("x rest", "rest", "");
    vhost.bind("X", "x nowhere", "");
    vhost.expect_route("X", "k", []);
}

#[test]
fn an_exchange_on_the_way_has_its_own_alternate() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "fanout");
    vhost
        .declare_exchange(with_alternate("x inner", "direct", "x rest"))
        .expect("new");
    vhost.exchange("x rest", "fanout");
    vhost.queue("rest");
    vhost.bind("X", "x inner", "");
    vhost.bind("x rest", "rest", "");
    vhost.expect_route("X", "k", ["rest"]);
}

/// It has no bindings; that it reaches queues by their names is for publishes only.
#[test]
fn the_default_exchange_as_an_alternate_leads_nowhere() {
    let mut vhost = VhostScenario::new();
    vhost
        .declare_exchange(with_alternate("X", "direct", ""))
        .expect("new");
    vhost.queue("q");
    vhost.expect_route("X", "q", []);
}

#[test]
fn an_internal_one_may_be_an_alternate() {
    let mut vhost = VhostScenario::new();
    vhost
        .declare_exchange(with_alternate("X", "direct", "x rest"))
        .expect("new");
    let internal = ExchangeDeclare {
        internal: true,
        ..exchange("x rest", "fanout")
    };
    vhost.declare_exchange(internal).expect("new");
    vhost.queue("rest");
    vhost.bind("x rest", "rest", "");
    vhost.expect_route("X", "k", ["rest"]);
}
