//! The simple exchange types, and the default exchange.

use leveret_wire::value::{FieldTable, FieldValue};

use crate::scenario::{VhostScenario, expect_refused, name, table};

#[test]
fn direct_compares_the_whole_key() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "direct");
    for (queue, key) in [
        ("a", "k"),
        ("b", "k"),
        ("c", "kk"),
        ("d", ""),
        ("e", "K"),
        ("f", "*"),
    ] {
        vhost.queue(queue);
        vhost.bind("X", queue, key);
    }
    vhost.expect_route("X", "k", ["a", "b"]);
    vhost.expect_route("X", "kk", ["c"]);
    vhost.expect_route("X", "", ["d"]);
    vhost.expect_route("X", "K", ["e"]);
    vhost.expect_route("X", "*", ["f"]);
    vhost.expect_route("X", "j", []);
    vhost.expect_route("X", "l", []);
}

#[test]
fn fanout_ignores_the_key() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "fanout");
    for (queue, key) in [("a", "k"), ("b", ""), ("c", "#")] {
        vhost.queue(queue);
        vhost.bind("X", queue, key);
    }
    vhost.expect_route("X", "anything", ["a", "b", "c"]);
}

#[test]
fn the_default_exchange_reaches_the_queue_of_that_name() {
    let mut vhost = VhostScenario::new();
    vhost.queue("a");
    vhost.queue("a.b");
    vhost.expect_route("", "a", ["a"]);
    vhost.expect_route("", "a.b", ["a.b"]);
    vhost.expect_route("", "", []);
    vhost.expect_route("", "missing", []);
}

#[test]
fn a_queue_gets_a_message_once_whatever_leads_to_it() {
    for kind in ["direct", "fanout", "topic", "headers"] {
        let mut vhost = VhostScenario::new();
        vhost.exchange("X", kind);
        vhost.queue("q");
        for argument in 0..5 {
            vhost.bind_with("X", "q", "k", table("x-number", FieldValue::Int(argument)));
        }
        vhost.bind("X", "q", "k");
        if kind == "topic" {
            vhost.bind("X", "q", "*");
            vhost.bind("X", "q", "#");
        }
        vhost.expect_route("X", "k", ["q"]);
    }
}

#[test]
fn a_missing_exchange_is_refused() {
    let vhost = VhostScenario::new();
    expect_refused(
        vhost
            .vhost
            .route(&name("X"), &[name("k")], &FieldTable::new),
        404,
        "NOT_FOUND - no exchange 'X' in vhost 'V'",
    );
}

#[test]
fn keys_may_be_any_bytes() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "direct");
    vhost.queue("q");
    let bytes: Vec<u8> = (0..=254).collect();
    let key = leveret_wire::value::ShortString::try_from(bytes.as_slice()).expect("255 bytes");
    let record = leveret_core::record::BindingRecord {
        key: key.clone(),
        ..crate::scenario::binding("X", "q", "", FieldTable::new())
    };
    vhost.try_bind(record).expect("it may be bound");
    let route = vhost
        .vhost
        .route(&name("X"), &[key], &FieldTable::new)
        .expect("it exists");
    assert_eq!(route.queues.len(), 1);
}

#[test]
fn only_headers_keep_a_route_from_being_remembered() {
    let mut vhost = VhostScenario::new();
    for kind in ["direct", "fanout", "topic", "headers"] {
        vhost.exchange(&format!("x{kind}"), kind);
    }
    let by_key_alone = |vhost: &VhostScenario, exchange: &str| {
        let route = vhost
            .vhost
            .route(&name(exchange), &[name("k")], &FieldTable::new);
        route.expect("it exists").by_key_alone
    };
    for kind in ["direct", "fanout", "topic"] {
        assert!(by_key_alone(&vhost, &format!("x{kind}")), "{kind}");
    }
    assert!(by_key_alone(&vhost, ""));
    assert!(!by_key_alone(&vhost, "xheaders"));

    vhost.bind("xdirect", "xheaders", "k");
    assert!(
        !by_key_alone(&vhost, "xdirect"),
        "a headers exchange is asked on the way"
    );
}
