//! A queue goes, and its bindings with it.

use crate::scenario::VhostScenario;

#[test]
fn its_bindings_vanish_everywhere() {
    let mut vhost = VhostScenario::new();
    vhost.queue("q");
    vhost.queue("r");
    for kind in ["direct", "fanout", "topic", "headers"] {
        vhost.exchange(kind, kind);
        vhost.bind(kind, "q", "k");
        vhost.bind(kind, "q", "l");
        vhost.bind(kind, "r", "k");
    }
    vhost.remove_queue("q");
    for kind in ["direct", "fanout", "topic", "headers"] {
        assert_eq!(vhost.bindings_of(kind), 1);
        vhost.expect_route(kind, "k", ["r"]);
    }
    vhost.expect_route("", "q", []);

    vhost.queue("q");
    vhost.expect_route("direct", "k", ["r"]);
    vhost.expect_route("", "q", ["q"]);
}

/// Somebody deletes by a record that is old: the queue of that name is another one by now.
#[test]
fn a_later_queue_of_the_same_name_stays() {
    let mut vhost = VhostScenario::new();
    vhost.queue("q");
    let old = vhost.vhost.queues().next().cloned().expect("it is there");
    vhost.remove_queue("q");
    vhost.queue("q");
    vhost.exchange("X", "fanout");
    vhost.bind("X", "q", "");

    assert_eq!(vhost.vhost.remove_queue(&old), []);
    vhost.expect_route("X", "", ["q"]);
}
