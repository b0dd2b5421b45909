//! A message with several routing keys: those of `CC` and `BCC` beside its own.

use crate::scenario::VhostScenario;

#[test]
fn each_queue_gets_one_copy() {
    let mut vhost = VhostScenario::new();
    for queue in ["a", "b", "c"] {
        vhost.queue(queue);
    }
    vhost.expect_route_of_keys("", ["b", "a", "b", "none"], ["a", "b"]);
    for kind in ["direct", "topic"] {
        vhost.exchange(kind, kind);
        vhost.bind(kind, "a", "k.a");
        vhost.bind(kind, "b", "k.b");
        vhost.bind(kind, "b", "k.a");
        vhost.expect_route_of_keys(kind, ["none", "k.a", "k.b"], ["a", "b"]);
        vhost.expect_route_of_keys(kind, ["none", "neither"], []);
    }
}

#[test]
fn keys_mean_nothing_to_a_fanout() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "fanout");
    vhost.queue("a");
    vhost.bind("X", "a", "k");
    vhost.expect_route_of_keys("X", ["one", "two"], ["a"]);
}

#[test]
fn a_key_that_is_there_again_changes_nothing() {
    let mut vhost = VhostScenario::new();
    vhost.queue("a");
    vhost.queue("b");
    vhost.exchange("x1", "topic");
    vhost.exchange("x2", "direct");
    vhost.bind("x1", "a", "#.k.#");
    vhost.bind("x1", "x2", "k.*");
    vhost.bind("x1", "x2", "*.k");
    vhost.bind("x2", "b", "k.k");
    vhost.expect_route_of_keys("x1", ["k.k"; 500], ["a", "b"]);
}
