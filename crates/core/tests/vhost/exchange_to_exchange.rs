//! Exchanges bound to exchanges.

use crate::scenario::VhostScenario;

#[test]
fn a_message_passes_along_a_chain_with_its_own_key() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("x1", "topic");
    vhost.exchange("x2", "direct");
    vhost.exchange("x3", "fanout");
    vhost.queue("q");
    vhost.bind("x1", "x2", "a.*");
    vhost.bind("x2", "x3", "a.b");
    vhost.bind("x3", "q", "");
    vhost.expect_route("x1", "a.b", ["q"]);
    vhost.expect_route("x1", "a.c", []);
    vhost.expect_route("x2", "a.b", ["q"]);
}

#[test]
fn cycles_end_and_every_queue_gets_it_once() {
    let mut vhost = VhostScenario::new();
    for exchange in ["x1", "x2", "x3"] {
        vhost.exchange(exchange, "fanout");
    }
    vhost.queue("q");
    vhost.queue("r");
    for (source, destination) in [
        ("x1", "x1"),
        ("x1", "x2"),
        ("x2", "x3"),
        ("x3", "x1"),
        ("x3", "x2"),
        ("x1", "q"),
        ("x2", "q"),
        ("x3", "q"),
        ("x3", "r"),
    ] {
        vhost.bind(source, destination, "");
    }
    for exchange in ["x1", "x2", "x3"] {
        vhost.expect_route(exchange, "k", ["q", "r"]);
    }
}

#[test]
fn two_ways_to_one_exchange_are_one() {
    let mut vhost = VhostScenario::new();
    for exchange in ["x1", "x left", "x right", "x end"] {
        vhost.exchange(exchange, "fanout");
    }
    vhost.queue("q");
    vhost.bind("x1", "x left", "");
    vhost.bind("x1", "x right", "");
    vhost.bind("x left", "x end", "");
    vhost.bind("x right", "x end", "");
    vhost.bind("x end", "q", "");
    vhost.expect_route("x1", "", ["q"]);
    vhost.unbind("x left", "x end", "");
    vhost.expect_route("x1", "", ["q"]);
    vhost.unbind("x right", "x end", "");
    vhost.expect_route("x1", "", []);
}

#[test]
fn an_exchange_and_a_queue_of_one_name_are_two_destinations() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "direct");
    vhost.exchange("x", "fanout");
    vhost.queue("other");
    vhost
        .declare_queue(crate::scenario::queue("x"))
        .expect("new");
    vhost.bind("x", "other", "");
    vhost.bind("X", "x", "k");
    vhost.expect_route("X", "k", ["other"]);
    vhost.remove_queue("x");
    vhost.expect_route("X", "k", ["other"]);
}
