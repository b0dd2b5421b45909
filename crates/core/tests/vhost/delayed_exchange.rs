//! Exchanges that keep messages until their time.

use leveret_core::{
    ids::{QueueId, Timestamp},
    record::{DelayRecord, MetaChange},
    vhost::{ExchangeDeclare, Occasion, Routable, Route},
};
use leveret_wire::{
    content::BasicProperties,
    value::{FieldTable, FieldValue},
};

use crate::scenario::{VhostScenario, exchange, expect_refused, name, table, text};

const NOW: u64 = 1_800_000_000_000;

/// A message with this header, now.
struct Message(FieldTable);

impl Routable for Message {
    fn headers(&self) -> FieldTable {
        self.0.clone()
    }

    fn properties(&self) -> BasicProperties {
        BasicProperties {
            headers: Some(self.0.clone()),
            ..BasicProperties::default()
        }
    }

    fn occasion(&self) -> Occasion {
        Occasion {
            now: Timestamp::new(NOW),
            draw: 0,
        }
    }
}

fn delay(millis: i32) -> Message {
    Message(table("x-delay", FieldValue::Int(millis)))
}

fn delayed(name: &str, kind: &str) -> ExchangeDeclare {
    ExchangeDeclare {
        arguments: table("x-delayed-type", text(kind)),
        ..exchange(name, "x-delayed-message")
    }
}

/// Through `X`, which is delayed, to the queue `Q` with key `k`.
fn with_queue() -> (VhostScenario, QueueId) {
    let mut vhost = VhostScenario::new();
    vhost.declare_exchange(delayed("X", "direct")).expect("new");
    let queue = vhost.queue("Q");
    vhost.bind("X", "Q", "k");
    (vhost, queue)
}

#[track_caller]
fn route(vhost: &VhostScenario, exchange: &str, message: &Message) -> Route {
    let route = vhost.vhost.route(&name(exchange), &[name("k")], message);
    route.expect("there is such an exchange")
}

#[track_caller]
fn expect_held(route: &Route, exchange: &str, due: u64) {
    assert!(route.queues.is_empty() && !route.by_key_alone, "{route:?}");
    let [hold] = route.held_by.as_slice() else {
        panic!("{route:?}");
    };
    assert_eq!(
        (&hold.exchange, hold.wait.due),
        (&name(exchange), Timestamp::new(due))
    );
}

#[test]
fn a_message_with_a_delay_is_held_and_then_routed() {
    let (vhost, queue) = with_queue();
    expect_held(&route(&vhost, "X", &delay(5)), "X", NOW + 5);
    for message in [delay(0), delay(-5), Message(FieldTable::new())] {
        let route = route(&vhost, "X", &message);
        assert_eq!(
            (route.queues.as_slice(), route.held_by.len()),
            (&[queue][..], 0)
        );
        assert!(!route.by_key_alone, "the next message may have a delay");
    }
    let due = vhost.vhost.route_due(&name("X"), &[name("k")], &delay(5));
    assert_eq!(
        (due.queues.as_slice(), due.held_by.len()),
        (&[queue][..], 0)
    );
    let other = vhost
        .vhost
        .route_due(&name("X"), &[name("other")], &delay(5));
    assert!(other.queues.is_empty());
}

#[test]
fn a_message_is_held_behind_other_exchanges_too() {
    let (mut vhost, queue) = with_queue();
    vhost.exchange("xfirst", "fanout");
    vhost
        .declare_exchange(delayed("xlate", "fanout"))
        .expect("new");
    vhost.bind("xfirst", "xlate", "");
    vhost.bind("xlate", "Q", "");
    expect_held(&route(&vhost, "xfirst", &delay(7)), "xlate", NOW + 7);
    vhost.bind("xfirst", "Q", "");
    let route = route(&vhost, "xfirst", &delay(7));
    assert_eq!(
        (route.queues.as_slice(), route.held_by.len()),
        (&[queue][..], 1)
    );
}

#[test]
fn an_exchange_that_delays_has_a_number_which_is_deleted_with_it() {
    let mut vhost = VhostScenario::new();
    let by_argument = |argument, value| ExchangeDeclare {
        arguments: table(argument, value),
        ..exchange("X", "topic")
    };
    for (asked, by_type) in [
        (delayed("X", "topic"), true),
        (
            by_argument("x-delayed-exchange", FieldValue::Bool(true)),
            false,
        ),
        (by_argument("x-delay-until-header", text("eta")), false),
    ] {
        let changes = vhost.declare_exchange(asked.clone()).expect("new");
        let [MetaChange::PutExchange(record)] = changes.as_slice() else {
            panic!("{changes:?}");
        };
        let Some(DelayRecord { id, by_type: found }) = record.delay else {
            panic!("{record:?}");
        };
        assert_eq!(found, by_type);
        assert_eq!(
            record.type_name(),
            if by_type {
                "x-delayed-message"
            } else {
                "topic"
            }
        );
        assert_eq!(vhost.declare_exchange(asked), Ok(vec![]));
        let gone = vhost
            .vhost
            .delete_exchange(&name("X"), false)
            .expect("deleted");
        assert!(gone.contains(&MetaChange::DeleteQueue(id)), "{gone:?}");
    }
    let changes =
        vhost.declare_exchange(by_argument("x-delayed-exchange", FieldValue::Bool(false)));
    let changes = changes.expect("new");
    assert!(matches!(&changes[..], [MetaChange::PutExchange(record)] if record.delay.is_none()));
}

#[test]
fn arguments_that_say_nothing_are_refused() {
    let mut vhost = VhostScenario::new();
    let text = "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type";
    expect_refused(
        vhost.declare_exchange(exchange("X", "x-delayed-message")),
        406,
        text,
    );
    for kind in ["", "nope", "x-delayed-message"] {
        expect_refused(vhost.declare_exchange(delayed("X", kind)), 406, text);
    }
    let asked = ExchangeDeclare {
        arguments: table("x-delayed-exchange", FieldValue::Int(1)),
        ..exchange("X", "topic")
    };
    let text = "PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-delayed-exchange' in exchange 'X' \
                in vhost 'V'";
    expect_refused(vhost.declare_exchange(asked), 406, text);
}
