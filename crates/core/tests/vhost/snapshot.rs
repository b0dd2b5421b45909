//! A clone is a snapshot: later changes do not reach it.

use crate::scenario::{VhostScenario, name};

fn loaded() -> VhostScenario {
    let mut vhost = VhostScenario::new();
    vhost.queue("q");
    vhost.queue("r");
    for kind in ["direct", "fanout", "topic", "headers"] {
        vhost.exchange(kind, kind);
        vhost.bind(kind, "q", "k");
        vhost.bind(kind, "r", "a.b");
    }
    vhost.exchange("x end", "fanout");
    vhost.bind("fanout", "x end", "");
    vhost
}

#[test]
fn it_routes_as_before_whatever_changes() {
    let mut vhost = loaded();
    let snapshot = vhost.clone();
    let before = format!("{snapshot:?}");

    for kind in ["direct", "topic"] {
        vhost.unbind(kind, "q", "k");
        vhost.bind(kind, "r", "k");
    }
    vhost.remove_queue("r");
    vhost
        .vhost
        .delete_exchange(&name("fanout"), false)
        .expect("it may go");
    vhost.queue("new");
    vhost.bind("topic", "new", "#");
    vhost.exchange("x new", "topic");

    assert_eq!(format!("{snapshot:?}"), before);
    for kind in ["direct", "topic"] {
        snapshot.expect_route(kind, "k", ["q"]);
        snapshot.expect_route(kind, "a.b", ["r"]);
    }
    snapshot.expect_route("fanout", "", ["q", "r"]);
    snapshot.expect_route("", "r", ["r"]);
    assert!(!snapshot.has_exchange("x new"));
}

#[test]
fn changes_of_a_clone_do_not_reach_what_it_was_cloned_from() {
    let vhost = loaded();
    let before = format!("{vhost:?}");
    let mut changed = vhost.clone();
    changed.remove_queue("q");
    changed.bind("topic", "r", "#");
    assert_eq!(format!("{vhost:?}"), before);
    changed.expect_route("topic", "k", ["r"]);
    vhost.expect_route("topic", "k", ["q"]);
}

#[test]
fn a_refused_change_changes_nothing() {
    let mut vhost = loaded();
    let before = format!("{vhost:?}");
    assert!(vhost.vhost.delete_exchange(&name("direct"), true).is_err());
    assert!(
        vhost
            .declare_exchange(crate::scenario::exchange("direct", "topic"))
            .is_err()
    );
    assert!(
        vhost
            .declare_queue(crate::scenario::queue("amq.q"))
            .is_err()
    );
    for (source, destination, key) in [("direct", "missing", "k"), ("topic", "q", "#.#.#")] {
        let record = crate::scenario::binding(source, destination, key, Default::default());
        assert!(vhost.try_bind(record).is_err());
    }
    assert_eq!(format!("{vhost:?}"), before);
}
