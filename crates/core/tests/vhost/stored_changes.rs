//! What outlives a restart is written down, and nothing else.

use leveret_core::{
    arguments::QueueType,
    record::{BindingRecord, ExchangeKind, ExchangeRecord, MetaChange, QueueRecord},
    vhost::{ExchangeDeclare, QueueDeclare, Vhost},
};
use leveret_wire::value::FieldTable;

use crate::scenario::{ME, OTHER, VhostScenario, binding, exchange, name, queue, table, text};

fn transient_exchange(name: &str) -> ExchangeDeclare {
    ExchangeDeclare {
        durable: false,
        ..exchange(name, "fanout")
    }
}

fn transient_queue(name: &str) -> QueueDeclare {
    QueueDeclare {
        durable: false,
        ..queue(name)
    }
}

#[test]
fn a_durable_exchange_is_written_with_everything_it_was_declared_with() {
    let mut vhost = VhostScenario::new();
    let arguments = table("alternate-exchange", text("a")).with("other", text("b"));
    let asked = ExchangeDeclare {
        auto_delete: true,
        internal: true,
        arguments: arguments.clone(),
        ..exchange("X", "topic")
    };
    let record = ExchangeRecord {
        vhost: name("V"),
        name: name("X"),
        kind: ExchangeKind::Topic,
        durable: true,
        auto_delete: true,
        internal: true,
        arguments,
        delay: None,
    };
    assert_eq!(
        vhost.declare_exchange(asked),
        Ok(vec![MetaChange::PutExchange(record)])
    );
    assert_eq!(
        vhost.vhost.delete_exchange(&name("X"), false),
        Ok(vec![MetaChange::DeleteExchange {
            vhost: name("V"),
            name: name("X")
        }])
    );

    assert_eq!(vhost.declare_exchange(transient_exchange("X")), Ok(vec![]));
    assert_eq!(vhost.vhost.delete_exchange(&name("X"), false), Ok(vec![]));
}

#[test]
fn a_durable_queue_is_written_with_everything_it_was_declared_with() {
    let mut vhost = VhostScenario::new();
    let arguments = table("x-queue-type", text("classic")).with("other", text("b"));
    let asked = QueueDeclare {
        auto_delete: true,
        arguments: arguments.clone(),
        ..queue("Q")
    };
    let (record, changes) = vhost.declare_queue_as(ME, asked).expect("new");
    let expected = QueueRecord {
        id: record.id,
        vhost: name("V"),
        name: name("Q"),
        durable: true,
        exclusive_to: None,
        auto_delete: true,
        queue_type: QueueType::Classic,
        arguments,
    };
    assert_eq!(changes, [MetaChange::PutQueue(expected)]);
    let exclusive = QueueDeclare {
        exclusive: true,
        ..queue("E")
    };
    for asked in [transient_queue("T"), exclusive] {
        let (_, changes) = vhost.declare_queue_as(OTHER, asked).expect("new");
        assert_eq!(changes, []);
    }
}

/// That the queue itself is gone is written by its state machine, together with its messages.
#[test]
fn a_queue_that_goes_names_only_its_bindings() {
    let mut vhost = VhostScenario::new();
    vhost.queue("q");
    assert_eq!(vhost.remove_queue("q"), []);
}

#[test]
fn a_binding_is_written_when_both_its_ends_are() {
    let ends = [true, false];
    for (source, destination) in ends.into_iter().flat_map(|a| ends.map(|b| (a, b))) {
        for to in ["q", "x"] {
            let mut vhost = VhostScenario::new();
            let asked = exchange("X", "fanout");
            let durable = source;
            vhost
                .declare_exchange(ExchangeDeclare { durable, ..asked })
                .expect("new");
            let durable = destination;
            let asked = exchange("x", "fanout");
            vhost
                .declare_exchange(ExchangeDeclare { durable, ..asked })
                .expect("new");
            vhost
                .declare_queue(QueueDeclare {
                    durable,
                    ..queue("q")
                })
                .expect("new");

            let record = binding("X", to, "k", table("a", text("b")));
            let written = |change: fn(BindingRecord) -> MetaChange| {
                (source && destination).then(|| change(record.clone()))
            };
            let put: Vec<_> = written(MetaChange::PutBinding).into_iter().collect();
            let deleted: Vec<_> = written(MetaChange::DeleteBinding).into_iter().collect();
            let what = format!("from durable={source} to {to} durable={destination}");
            assert_eq!(vhost.try_bind(record.clone()), Ok(put.clone()), "{what}");
            assert_eq!(vhost.try_bind(record.clone()), Ok(vec![]), "{what}");
            assert_eq!(vhost.try_unbind(&record), Ok(deleted.clone()), "{what}");
            assert_eq!(vhost.try_unbind(&record), Ok(vec![]), "{what}");

            // And when it goes with one of its ends.
            vhost.try_bind(record.clone()).expect("it may be bound");
            let mut from_source = vhost.clone();
            let changes = from_source
                .vhost
                .delete_exchange(&name("X"), false)
                .expect("it may go");
            let is_binding = |change: &MetaChange| matches!(change, MetaChange::DeleteBinding(_));
            let found: Vec<_> = changes.into_iter().filter(is_binding).collect();
            assert_eq!(found, deleted, "{what}");
            let changes = if to == "q" {
                vhost.remove_queue("q")
            } else {
                vhost
                    .vhost
                    .delete_exchange(&name("x"), false)
                    .expect("it may go")
            };
            let found: Vec<_> = changes.into_iter().filter(is_binding).collect();
            assert_eq!(found, deleted, "{what}");
        }
    }
}

/// Everything in a vhost, in an order that does not depend on how it came there.
fn contents(vhost: &Vhost) -> Vec<String> {
    let exchanges = vhost
        .exchanges()
        .map(|exchange| format!("{:?}", exchange.record()));
    let bindings = vhost.exchanges().flat_map(|exchange| exchange.bindings());
    let bindings = bindings.map(|binding| format!("{binding:?}"));
    let queues = vhost.queues().map(|queue| format!("{queue:?}"));
    exchanges.chain(bindings).chain(queues).collect()
}

/// Everything that was written and not deleted again makes a vhost that routes the same.
#[test]
fn what_was_written_makes_the_same_vhost_again() {
    let mut vhost = VhostScenario::new();
    let mut changes: Vec<MetaChange> = Vec::new();
    for (exchange_name, kind) in [("x1", "topic"), ("x2", "headers"), ("x gone", "fanout")] {
        changes.extend(
            vhost
                .declare_exchange(exchange(exchange_name, kind))
                .expect("new"),
        );
    }
    changes.extend(
        vhost
            .declare_exchange(transient_exchange("x transient"))
            .expect("new"),
    );
    for asked in [queue("q"), queue("r"), transient_queue("t")] {
        changes.extend(vhost.declare_queue_as(ME, asked).expect("new").1);
    }
    let bindings = [
        binding("x1", "q", "a.#", FieldTable::new()),
        binding("x1", "x2", "b.*", FieldTable::new()),
        binding("x2", "r", "", table("h", text("1"))),
        binding("x1", "t", "#", FieldTable::new()),
        binding("amq.topic", "q", "c", FieldTable::new()),
        binding("x gone", "q", "", FieldTable::new()),
        binding("x1", "r", "never", FieldTable::new()),
    ];
    for record in &bindings {
        changes.extend(vhost.try_bind(record.clone()).expect("it may be bound"));
    }
    changes.extend(vhost.try_unbind(&bindings[6]).expect("it may go"));
    changes.extend(
        vhost
            .vhost
            .delete_exchange(&name("x gone"), false)
            .expect("it may go"),
    );

    let mut again = Vhost::new(name("V"));
    for change in &changes {
        if let MetaChange::PutExchange(record) = change
            && record.name != name("x gone")
        {
            again.restore_exchange(record.clone());
        }
        if let MetaChange::PutQueue(record) = change {
            again.restore_queue(record.clone());
        }
    }
    let mut stored: Vec<&BindingRecord> = Vec::new();
    for change in &changes {
        if let MetaChange::PutBinding(record) = change {
            stored.push(record);
        }
        if let MetaChange::DeleteBinding(record) = change {
            stored.retain(|put| *put != record);
        }
    }
    for record in stored {
        again.restore_binding(record.clone());
    }

    vhost
        .vhost
        .delete_exchange(&name("x transient"), false)
        .expect("it may go");
    vhost.remove_queue("t");
    assert_eq!(contents(&again), contents(&vhost.vhost));
    let headers = table("h", text("1"));
    for key in ["a.b", "b.c", "c", "d"] {
        for exchange in ["x1", "amq.topic"] {
            let route =
                |vhost: &Vhost| vhost.route(&name(exchange), &[name(key)], &|| headers.clone());
            assert_eq!(route(&again), route(&vhost.vhost), "{exchange} {key}");
        }
    }
}
