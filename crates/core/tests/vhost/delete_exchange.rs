//! `exchange.delete`.

use crate::scenario::{VhostScenario, exchange, expect_refused, name};

#[test]
fn it_takes_all_bindings_with_it() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("x1", "fanout");
    vhost.exchange("x2", "fanout");
    vhost.exchange("x3", "fanout");
    vhost.queue("q");
    vhost.bind("x1", "x2", "");
    vhost.bind("x2", "x3", "");
    vhost.bind("x2", "q", "");
    vhost.bind("x3", "q", "");
    vhost
        .vhost
        .delete_exchange(&name("x2"), false)
        .expect("it may go");

    assert!(!vhost.has_exchange("x2"));
    assert_eq!(vhost.bindings_of("x1"), 0);
    vhost.expect_route("x1", "", []);
    vhost.expect_route("x3", "", ["q"]);
    vhost.exchange("x2", "fanout");
    assert_eq!(vhost.bindings_of("x2"), 0, "a new one starts without");
    vhost.expect_route("x2", "", []);
}

#[test]
fn a_missing_one_is_fine() {
    let mut vhost = VhostScenario::new();
    assert_eq!(
        vhost.vhost.delete_exchange(&name("missing"), true),
        Ok(vec![])
    );
}

#[test]
fn names_of_the_broker_are_refused_existing_or_not() {
    let mut vhost = VhostScenario::new();
    for system in ["amq.direct", "amq.missing"] {
        let text = format!(
            "ACCESS_REFUSED - deletion of system exchange '{system}' in vhost 'V' not allowed"
        );
        expect_refused(
            vhost.vhost.delete_exchange(&name(system), false),
            403,
            &text,
        );
    }
    expect_refused(
        vhost.vhost.delete_exchange(&name(""), false),
        403,
        "ACCESS_REFUSED - operation not permitted on the default exchange",
    );
}

#[test]
fn if_unused_spares_a_source_but_not_a_destination() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("x1", "fanout");
    vhost.exchange("x2", "fanout");
    vhost.bind("x1", "x2", "");
    expect_refused(
        vhost.vhost.delete_exchange(&name("x1"), true),
        406,
        "PRECONDITION_FAILED - exchange 'x1' in vhost 'V' in use",
    );
    assert_eq!(vhost.bindings_of("x1"), 1);
    assert!(vhost.vhost.delete_exchange(&name("x2"), true).is_ok());
    assert!(vhost.vhost.delete_exchange(&name("x1"), true).is_ok());
}

#[test]
fn one_that_is_bound_to_itself_goes_too() {
    let mut vhost = VhostScenario::new();
    let asked = leveret_core::vhost::ExchangeDeclare {
        auto_delete: true,
        ..exchange("x", "fanout")
    };
    vhost.declare_exchange(asked).expect("new");
    vhost.bind("x", "x", "");
    let changes = vhost
        .vhost
        .delete_exchange(&name("x"), false)
        .expect("it may go");
    assert_eq!(
        changes.len(),
        2,
        "the binding and the exchange: {changes:?}"
    );
    assert!(!vhost.has_exchange("x"));
}
