//! From exchange and routing key to queues, as a publish with a key that was not seen before asks.

use std::hint::black_box;

use gungraun::library_benchmark;
use leveret_core::{
    ids::{ConnectionId, QueueId},
    record::{BindingRecord, Destination},
    vhost::{ExchangeDeclare, QueueDeclare, Vhost},
};
use leveret_wire::{FieldTable, FieldValue, ShortString};

const ME: ConnectionId = ConnectionId::new(1);
const QUEUES: u64 = 10;
const ROUTES: usize = 1_000;

/// Where to look, and for what.
type Routes = (Vhost, Vec<ShortString>);

fn name(text: &str) -> ShortString {
    ShortString::try_from(text).expect("short")
}

/// An exchange `x` of this type with so many bindings, spread over ten queues.
fn bound(
    kind: &'static str,
    bindings: u64,
    binding: impl Fn(u64) -> (String, FieldTable),
) -> Vhost {
    let mut vhost = Vhost::new(name("/"));
    let exchange = ExchangeDeclare {
        name: name("x"),
        kind: name(kind),
        passive: false,
        durable: false,
        auto_delete: false,
        internal: false,
        arguments: FieldTable::new(),
        refused_if_new: None,
    };
    let none = || panic!("no queue of its own");
    vhost.declare_exchange(exchange, none).expect("declared");
    for number in 0..QUEUES {
        let queue = QueueDeclare {
            name: name(&format!("q{number}")),
            server_named: false,
            durable: false,
            exclusive: false,
            auto_delete: false,
            arguments: FieldTable::new(),
            refused_if_new: None,
        };
        let id = || QueueId::new(number + 1);
        vhost.declare_queue(queue, ME, id).expect("declared");
    }
    for number in 0..bindings {
        let (key, arguments) = binding(number);
        let record = BindingRecord {
            vhost: name("/"),
            source: name("x"),
            destination: Destination::Queue(name(&format!("q{}", number % QUEUES))),
            key: name(&key),
            arguments,
        };
        vhost.bind(record, ME).expect("bound");
    }
    vhost
}

fn keys(key: impl Fn(usize) -> String) -> Vec<ShortString> {
    (0..ROUTES).map(|number| name(&key(number))).collect()
}

/// Gives the vhost back, so that its end is not counted.
fn route_all(start: Routes, headers: &FieldTable) -> Routes {
    let (vhost, keys) = &start;
    let exchange = name("x");
    for key in keys {
        let key = std::slice::from_ref(key);
        black_box(vhost.route(&exchange, key, &|| headers.clone())).expect("an exchange");
    }
    start
}

fn direct_bindings() -> Routes {
    let key = |number| format!("key.{number}");
    let vhost = bound("direct", 10_000, |number| (key(number), FieldTable::new()));
    (vhost, keys(|number| format!("key.{}", number * 7)))
}

#[library_benchmark]
#[bench::of_10000_bindings(setup = direct_bindings)]
fn direct(start: Routes) -> Routes {
    route_all(start, &FieldTable::new())
}

fn topic_bindings() -> Routes {
    let vhost = bound("topic", 10_000, |number| {
        let key = match number % 100 {
            0 => format!("region{}.#", number / 100),
            1 => format!("*.device{number}.*"),
            _ => format!("region{}.device{number}.state", number % 50),
        };
        (key, FieldTable::new())
    });
    let key = |number: usize| format!("region{}.device{}.state", number % 50, number * 7);
    (vhost, keys(key))
}

#[library_benchmark]
#[bench::of_10000_bindings(setup = topic_bindings)]
fn topic(start: Routes) -> Routes {
    route_all(start, &FieldTable::new())
}

fn headers_bindings() -> Routes {
    let vhost = bound("headers", 100, |number| {
        let number = i32::try_from(number).expect("few");
        let arguments = FieldTable::new()
            .with("x-match", FieldValue::text("all"))
            .with("format", FieldValue::text("pdf"))
            .with("customer", FieldValue::Int(number));
        (String::new(), arguments)
    });
    (vhost, keys(|_| String::new()))
}

#[library_benchmark]
#[bench::of_100_bindings(setup = headers_bindings)]
fn headers(start: Routes) -> Routes {
    let headers = FieldTable::new()
        .with("format", FieldValue::text("pdf"))
        .with("customer", FieldValue::Int(42));
    route_all(start, &headers)
}
