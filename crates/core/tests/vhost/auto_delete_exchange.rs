//! An auto-delete exchange goes with its last binding as a source.

use leveret_core::{
    record::{Destination, MetaChange},
    vhost::ExchangeDeclare,
};

use crate::scenario::{VhostScenario, exchange, name};

fn auto_delete(name: &str) -> ExchangeDeclare {
    ExchangeDeclare {
        auto_delete: true,
        ..exchange(name, "topic")
    }
}

#[test]
fn it_goes_when_its_last_binding_is_unbound() {
    let mut vhost = VhostScenario::new();
    vhost.declare_exchange(auto_delete("x")).expect("new");
    vhost.queue("q");
    vhost.bind("x", "q", "a");
    vhost.bind("x", "q", "b");
    vhost.unbind("x", "q", "a");
    assert!(vhost.has_exchange("x"));
    vhost.unbind("x", "q", "b");
    assert!(!vhost.has_exchange("x"));
}

#[test]
fn it_goes_when_its_last_destination_does() {
    let mut vhost = VhostScenario::new();
    vhost.declare_exchange(auto_delete("x")).expect("new");
    vhost.queue("q");
    vhost.queue("r");
    vhost.exchange("x end", "fanout");
    vhost.bind("x", "q", "a");
    vhost.bind("x", "q", "b");
    vhost.bind("x", "r", "a");
    vhost.bind("x", "x end", "a");
    vhost.remove_queue("q");
    vhost
        .vhost
        .delete_exchange(&name("x end"), false)
        .expect("it may go");
    assert!(vhost.has_exchange("x"));
    vhost.remove_queue("r");
    assert!(!vhost.has_exchange("x"));
}

#[test]
fn it_stays_before_it_had_a_binding() {
    let mut vhost = VhostScenario::new();
    vhost.declare_exchange(auto_delete("x")).expect("new");
    vhost.queue("q");
    vhost.exchange("front", "fanout");
    vhost.unbind("x", "q", "a");
    vhost.bind("front", "x", "");
    vhost.unbind("front", "x", "");
    assert!(
        vhost.has_exchange("x"),
        "bindings as a destination do not count"
    );
}

#[test]
fn its_going_can_take_others_with_it() {
    let mut vhost = VhostScenario::new();
    for name in ["x1", "x2", "x3"] {
        vhost.declare_exchange(auto_delete(name)).expect("new");
    }
    vhost.exchange("stays", "fanout");
    vhost.queue("q");
    vhost.bind("x1", "x2", "");
    vhost.bind("x2", "x3", "");
    vhost.bind("x3", "q", "");
    vhost.bind("stays", "x1", "");

    let changes = vhost.remove_queue("q");
    for gone in ["x1", "x2", "x3"] {
        assert!(!vhost.has_exchange(gone), "{gone}");
        let deleted = MetaChange::DeleteExchange {
            vhost: name("V"),
            name: name(gone),
        };
        assert_eq!(
            changes.iter().filter(|change| **change == deleted).count(),
            1,
            "{gone}"
        );
    }
    assert!(vhost.has_exchange("stays"));
    assert_eq!(vhost.bindings_of("stays"), 0);
    assert_eq!(
        changes.len(),
        3 + 4,
        "each exchange and each binding once: {changes:?}"
    );
}

#[test]
fn a_cycle_of_them_goes_as_a_whole() {
    let mut vhost = VhostScenario::new();
    for name in ["x1", "x2"] {
        vhost.declare_exchange(auto_delete(name)).expect("new");
    }
    vhost.bind("x1", "x2", "");
    vhost.bind("x2", "x1", "");
    let changes = vhost
        .vhost
        .delete_exchange(&name("x1"), false)
        .expect("it may go");
    assert!(!vhost.has_exchange("x2"));
    assert_eq!(changes.len(), 4, "{changes:?}");
    vhost.exchange("x1", "topic");
    assert_eq!(vhost.bindings_of("x1"), 0);
}

/// Deleting one by one down a chain must not need a stack as deep as the chain is long.
#[test]
fn a_long_chain_goes_at_once() {
    const LENGTH: usize = 20_000;
    let mut vhost = VhostScenario::new();
    vhost.queue("q");
    let nth = |number: usize| format!("x{number}");
    for number in 0..LENGTH {
        vhost
            .declare_exchange(auto_delete(&nth(number)))
            .expect("new");
        let before = number.checked_sub(1).map_or_else(|| "q".to_owned(), nth);
        vhost.bind(&nth(number), &before, "");
    }
    let changes = std::thread::Builder::new()
        .stack_size(512 * 1024)
        .spawn(move || vhost.remove_queue("q"))
        .expect("a thread")
        .join()
        .expect("it does not overflow");
    assert_eq!(changes.len(), 2 * LENGTH);
    let to_queue = |change: &&MetaChange| {
        matches!(change, MetaChange::DeleteBinding(record)
            if record.destination == Destination::Queue(name("q")))
    };
    assert_eq!(changes.iter().filter(to_queue).count(), 1);
}
