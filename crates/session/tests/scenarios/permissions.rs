//! Which right each method needs, and that it is asked for before anything else is looked at.

use std::sync::Arc;

use leveret_core::{record::PermissionRecord, rights::Rights};
use leveret_session::Call;
use leveret_wire::{
    method::{Method, basic, exchange, queue},
    value::{FieldTable, FieldValue},
};

use crate::support::{MISSING, Scenario, TOPICS, declare, passive, short};

/// What a user may do who may configure `c…`, write `w…`, read `r…`; a name may have several letters.
fn rights() -> Arc<Rights> {
    let pattern = |letter: char| format!("^[a-z]*{letter}[a-z]*-");
    let permission = PermissionRecord {
        vhost: short("/"),
        user: short("guest"),
        configure: pattern('c'),
        write: pattern('w'),
        read: pattern('r'),
    };
    let rights = Rights::none(short("/"), short("guest"));
    Arc::new(rights.with_permission(Some(&permission)).expect("patterns"))
}

fn scenario() -> Scenario {
    let mut scenario = Scenario::with_channel();
    scenario.sink.rights = Some(rights());
    scenario
}

#[track_caller]
fn expect_refused(method: impl Into<Method>, text: &str) {
    let mut scenario = scenario();
    let method = method.into();
    let (class, id) = method.ids();
    scenario.send(1, method);
    let text = format!("ACCESS_REFUSED - {text} in vhost '/' refused for user 'guest'");
    scenario.expect_channel_close(1, 403, &text, (class.get(), id.get()));
}

#[track_caller]
fn expect_carried_out(method: impl Into<Method>) {
    let mut scenario = scenario();
    scenario.send(1, method);
    scenario.the_call();
}

/// Only whoever declares it knows whether it is new.
#[track_caller]
fn expect_refused_if_new(method: impl Into<Method>, text: Option<&str>) {
    let mut scenario = scenario();
    scenario.send(1, method.into());
    let refusal = match scenario.the_call() {
        Call::QueueDeclare(asked) => asked.refused_if_new,
        Call::ExchangeDeclare(asked) => asked.refused_if_new,
        other => panic!("{other:?} declares nothing"),
    };
    let text = text.map(|text| format!("{text} in vhost '/' refused for user 'guest'"));
    assert_eq!(refusal.map(|refusal| refusal.to_string()), text);
}

fn with_argument(key: &'static str, value: &str) -> FieldTable {
    FieldTable::new().with(key, FieldValue::text(value))
}

#[test]
fn declaring_and_deleting_needs_configure() {
    expect_refused(declare("wr-q"), "configure access to queue 'wr-q'");
    expect_carried_out(declare("c-q"));
    let delete = |name| queue::Delete {
        queue: short(name),
        ..queue::Delete::default()
    };
    expect_refused(delete("wr-q"), "configure access to queue 'wr-q'");
    expect_carried_out(delete("c-q"));
    let declare = |name, kind| exchange::Declare {
        exchange: short(name),
        kind: short(kind),
        ..exchange::Declare::default()
    };
    for kind in ["direct", "x-random", "x-delayed-message"] {
        expect_refused(declare("wr-x", kind), "configure access to exchange 'wr-x'");
        expect_carried_out(declare("c-x", kind));
    }
    // What the vhost says of it comes first.
    expect_carried_out(declare("wr-x", "no-such-type"));
    expect_carried_out(declare("", "direct"));
    let delete = |name| exchange::Delete {
        exchange: short(name),
        ..exchange::Delete::default()
    };
    expect_refused(delete("wr-x"), "configure access to exchange 'wr-x'");
    expect_carried_out(delete("c-x"));
    expect_carried_out(delete("amq.direct"));
}

#[test]
fn looking_needs_any_right() {
    for name in ["c-q", "w-q", "r-q"] {
        expect_carried_out(passive(name));
    }
    expect_refused(passive("x-q"), "configure access to queue 'x-q'");
    let look = |name| exchange::Declare {
        exchange: short(name),
        passive: true,
        ..exchange::Declare::default()
    };
    expect_carried_out(look("w-x"));
    expect_refused(look("x-x"), "configure access to exchange 'x-x'");
}

#[test]
fn what_takes_over_messages_needs_write_and_the_new_object_read() {
    let dead_letter = |name, to| queue::Declare {
        queue: short(name),
        arguments: with_argument("x-dead-letter-exchange", to),
        ..queue::Declare::default()
    };
    expect_refused_if_new(
        dead_letter("c-q", "w-x"),
        Some("read access to queue 'c-q'"),
    );
    expect_refused_if_new(
        dead_letter("cr-q", "c-x"),
        Some("write access to exchange 'c-x'"),
    );
    expect_refused_if_new(dead_letter("cr-q", "w-x"), None);
    let alternate = |name, to| exchange::Declare {
        exchange: short(name),
        kind: short("fanout"),
        arguments: with_argument("alternate-exchange", to),
        ..exchange::Declare::default()
    };
    expect_refused_if_new(
        alternate("c-x", "w-x"),
        Some("read access to exchange 'c-x'"),
    );
    expect_refused_if_new(
        alternate("cr-x", "c-x"),
        Some("write access to exchange 'c-x'"),
    );
    expect_refused_if_new(alternate("cr-x", "w-x"), None);
}

#[test]
fn binding_needs_write_on_the_destination_then_read_on_the_source() {
    let bind = |queue, from| queue::Bind {
        queue: short(queue),
        exchange: short(from),
        ..queue::Bind::default()
    };
    expect_refused(bind("r-q", "x-x"), "write access to queue 'r-q'");
    expect_refused(bind("w-q", "w-x"), "read access to exchange 'w-x'");
    expect_carried_out(bind("w-q", "r-x"));
    let unbind = |to, from| exchange::Unbind {
        destination: short(to),
        source: short(from),
        ..exchange::Unbind::default()
    };
    expect_refused(unbind("r-x", "x-x"), "write access to exchange 'r-x'");
    expect_refused(unbind("w-x", "w-x"), "read access to exchange 'w-x'");
    expect_carried_out(unbind("w-x", "r-x"));
    // The default exchange cannot be bound by anybody.
    expect_carried_out(bind("w-q", ""));
}

#[test]
fn taking_messages_needs_read() {
    let purge = |name| queue::Purge {
        queue: short(name),
        ..queue::Purge::default()
    };
    let get = |name| basic::Get {
        queue: short(name),
        ..basic::Get::default()
    };
    let consume = |name| basic::Consume {
        queue: short(name),
        ..basic::Consume::default()
    };
    expect_refused(purge("cw-q"), "read access to queue 'cw-q'");
    expect_refused(get("cw-q"), "read access to queue 'cw-q'");
    expect_refused(consume("cw-q"), "read access to queue 'cw-q'");
    expect_carried_out(purge("r-q"));
    expect_carried_out(get("r-q"));
    expect_carried_out(consume("r-q"));
    let replies = basic::Consume {
        queue: short("amq.rabbitmq.reply-to"),
        no_ack: true,
        ..basic::Consume::default()
    };
    expect_carried_out(replies);
}

#[test]
fn a_missing_name_that_is_out_of_bounds_is_refused_as_such() {
    expect_refused(
        passive(MISSING),
        &format!("configure access to queue '{MISSING}'"),
    );
}

#[test]
fn a_binding_key_is_looked_at_on_topic_exchanges_only() {
    let permission = leveret_core::record::TopicPermissionRecord {
        vhost: short("/"),
        user: short("guest"),
        exchange: short(TOPICS),
        write: String::new(),
        read: "^yes".to_owned(),
    };
    let rights = Rights::all(short("/"), short("guest"))
        .with_topic_permission(&permission)
        .expect("patterns");
    let bind = |exchange, key| queue::Bind {
        queue: short("q"),
        exchange: short(exchange),
        routing_key: short(key),
        ..queue::Bind::default()
    };
    for (exchange, key, is_refused) in [
        (TOPICS, "yes.1", false),
        (TOPICS, "no.1", true),
        ("x", "no.1", false),
    ] {
        let mut scenario = Scenario::with_channel();
        scenario.sink.rights = Some(Arc::new(rights.clone()));
        scenario.send(1, bind(exchange, key));
        if is_refused {
            scenario.expect_channel_close(
                1,
                403,
                "ACCESS_REFUSED - read access to topic 'no.1' in exchange 'topics' in vhost '/' refused \
                 for user 'guest'",
                (50, 20),
            );
        } else {
            scenario.the_call();
        }
    }
}
