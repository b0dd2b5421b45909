//! `exchange.*` and `queue.*`: what reaches the broker, what is answered, what an empty name means.

use leveret_core::refusal::Refusal;
use leveret_session::{
    Answer, Call, ExchangeBind, ExchangeDeclare, ExchangeDelete, ExchangeUnbind, QueueBind,
    QueueDeclare, QueueDelete, QueuePurge, QueueUnbind,
};
use leveret_wire::{
    method::{Method, basic, exchange, queue},
    value::{FieldTable, FieldValue},
};

use crate::support::{MISSING, Scenario, declare, declare_ok, passive, short};

const NO_QUEUE_YET: &str = "NOT_FOUND - no previously declared queue";

fn arguments() -> FieldTable {
    FieldTable::new().with("x-max-length", FieldValue::Int(5))
}

#[track_caller]
fn expect_call(method: impl Into<Method>, call: &Call, reply: impl Into<Method>) {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, method);
    assert_eq!(&scenario.the_call(), call);
    scenario.expect(1, reply);
    scenario.expect_nothing();
}

#[test]
fn every_method_reaches_the_broker_with_its_fields_and_without_line_breaks() {
    expect_call(
        exchange::Declare {
            exchange: short("\nx\r"),
            kind: short("topic"),
            durable: true,
            internal: true,
            arguments: arguments(),
            ..exchange::Declare::default()
        },
        &Call::ExchangeDeclare(ExchangeDeclare {
            exchange: short("x"),
            kind: short("topic"),
            passive: false,
            durable: true,
            auto_delete: false,
            internal: true,
            arguments: arguments(),
            refused_if_new: None,
        }),
        exchange::DeclareOk {},
    );
    expect_call(
        exchange::Delete {
            exchange: short("x\n"),
            if_unused: true,
            ..exchange::Delete::default()
        },
        &Call::ExchangeDelete(ExchangeDelete {
            exchange: short("x"),
            if_unused: true,
        }),
        exchange::DeleteOk {},
    );
    expect_call(
        exchange::Bind {
            destination: short("d\n"),
            source: short("s\r"),
            routing_key: short("k\n"),
            arguments: arguments(),
            ..exchange::Bind::default()
        },
        &Call::ExchangeBind(ExchangeBind {
            destination: short("d"),
            source: short("s"),
            routing_key: short("k\n"),
            arguments: arguments(),
        }),
        exchange::BindOk {},
    );
    expect_call(
        exchange::Unbind {
            destination: short("d"),
            source: short("s"),
            routing_key: short("k"),
            ..exchange::Unbind::default()
        },
        &Call::ExchangeUnbind(ExchangeUnbind {
            destination: short("d"),
            source: short("s"),
            routing_key: short("k"),
            arguments: FieldTable::new(),
        }),
        exchange::UnbindOk {},
    );
    expect_call(
        queue::Declare {
            durable: true,
            exclusive: true,
            auto_delete: true,
            arguments: arguments(),
            ..declare("q\r\n")
        },
        &Call::QueueDeclare(QueueDeclare {
            queue: short("q"),
            server_named: false,
            passive: false,
            durable: true,
            exclusive: true,
            auto_delete: true,
            arguments: arguments(),
            refused_if_new: None,
        }),
        declare_ok("q"),
    );
    expect_call(
        queue::Bind {
            queue: short("q\n"),
            exchange: short("\nx"),
            routing_key: short(""),
            arguments: arguments(),
            ..queue::Bind::default()
        },
        &Call::QueueBind(QueueBind {
            queue: short("q"),
            exchange: short("x"),
            routing_key: short(""),
            arguments: arguments(),
        }),
        queue::BindOk {},
    );
    expect_call(
        queue::Unbind {
            queue: short("q\n"),
            exchange: short("x"),
            routing_key: short("k"),
            ..queue::Unbind::default()
        },
        &Call::QueueUnbind(QueueUnbind {
            queue: short("q"),
            exchange: short("x"),
            routing_key: short("k"),
            arguments: FieldTable::new(),
        }),
        queue::UnbindOk {},
    );
    expect_call(
        queue::Purge {
            queue: short("q\n"),
            ..queue::Purge::default()
        },
        &Call::QueuePurge(QueuePurge {
            queue: short("q\n"),
        }),
        queue::PurgeOk { message_count: 4 },
    );
    expect_call(
        queue::Delete {
            queue: short("q\n"),
            if_unused: true,
            if_empty: true,
            ..queue::Delete::default()
        },
        &Call::QueueDelete(QueueDelete {
            queue: short("q"),
            if_unused: true,
            if_empty: true,
        }),
        queue::DeleteOk { message_count: 5 },
    );
}

#[test]
fn nowait_suppresses_every_ok() {
    let mut scenario = Scenario::with_channel();
    let methods: [Method; 9] = [
        exchange::Declare {
            nowait: true,
            ..exchange::Declare::default()
        }
        .into(),
        exchange::Delete {
            nowait: true,
            ..exchange::Delete::default()
        }
        .into(),
        exchange::Bind {
            nowait: true,
            ..exchange::Bind::default()
        }
        .into(),
        exchange::Unbind {
            nowait: true,
            ..exchange::Unbind::default()
        }
        .into(),
        queue::Declare {
            nowait: true,
            ..declare("q")
        }
        .into(),
        queue::Declare {
            nowait: true,
            ..passive("q")
        }
        .into(),
        queue::Bind {
            nowait: true,
            ..queue::Bind::default()
        }
        .into(),
        queue::Purge {
            nowait: true,
            ..queue::Purge::default()
        }
        .into(),
        queue::Delete {
            nowait: true,
            ..queue::Delete::default()
        }
        .into(),
    ];
    for method in methods {
        scenario.send(1, method);
    }
    assert_eq!(scenario.events().len(), 9);
    scenario.expect_nothing();
}

#[test]
fn nowait_does_not_suppress_errors() {
    let mut scenario = Scenario::with_channel();
    scenario.send(
        1,
        queue::Declare {
            nowait: true,
            ..passive(MISSING)
        },
    );
    let text = "NOT_FOUND - no queue 'missing' in vhost '/'";
    scenario.expect_channel_close(1, 404, text, (50, 10));
}

#[test]
fn a_queue_without_a_name_gets_one() {
    let mut scenario = Scenario::with_channel();
    for name in ["", "\r\n"] {
        scenario.send(1, declare(name));
        let Call::QueueDeclare(declare) = scenario.the_call() else {
            panic!("no declare")
        };
        assert!(declare.server_named);
        assert!(declare.queue.to_string().starts_with("amq.gen-"));
        scenario.expect(1, declare_ok(&declare.queue.to_string()));
    }
    scenario.send(1, passive(""));
    let Call::QueueDeclare(declare) = scenario.the_call() else {
        panic!("no declare")
    };
    assert!(!declare.server_named && declare.queue.is_empty());
}

#[test]
fn an_empty_name_needs_a_declared_queue() {
    let methods: [Method; 6] = [
        queue::Bind::default().into(),
        queue::Unbind::default().into(),
        queue::Purge::default().into(),
        queue::Delete::default().into(),
        basic::Consume::default().into(),
        basic::Get::default().into(),
    ];
    for method in methods {
        let (class, id) = method.ids();
        let mut scenario = Scenario::with_channel();
        scenario.send(1, method);
        scenario.expect_channel_close(1, 404, NO_QUEUE_YET, (class.get(), id.get()));
        assert!(matches!(scenario.the_call(), Call::CloseChannel(_)));
    }
}

#[test]
fn an_empty_name_is_the_queue_declared_last() {
    let declares = [
        declare("q"),
        passive("q"),
        queue::Declare {
            nowait: true,
            ..declare("q")
        },
    ];
    for method in declares {
        let mut scenario = Scenario::with_channel();
        scenario.send(1, declare("before"));
        scenario.send(1, method);
        scenario.forget();
        scenario.send(1, queue::Purge::default());
        assert_eq!(
            scenario.the_call(),
            Call::QueuePurge(QueuePurge { queue: short("q") })
        );
        scenario.send(1, queue::Delete::default());
        assert!(matches!(scenario.the_call(), Call::QueueDelete(delete) if delete.queue == "q"));
        scenario.send(1, basic::Get::default());
        assert!(matches!(scenario.the_call(), Call::Get(get) if get.queue == "q"));
        scenario.send(1, basic::Consume::default());
        assert!(matches!(scenario.the_call(), Call::Consume(consume) if consume.queue == "q"));
    }
}

#[test]
fn an_empty_binding_key_with_an_empty_name_is_the_queues_name() {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, declare("q"));
    scenario.forget();
    for (name, key, expected) in [("", "", "q"), ("", "k", "k"), ("q", "", "")] {
        let (queue, routing_key) = (short(name), short(key));
        let bind = queue::Bind {
            queue,
            routing_key,
            ..queue::Bind::default()
        };
        scenario.send(1, bind.clone());
        let Call::QueueBind(call) = scenario.the_call() else {
            panic!("no bind")
        };
        assert_eq!(
            (call.queue, call.routing_key),
            (short("q"), short(expected))
        );
        let queue::Bind {
            queue, routing_key, ..
        } = bind;
        scenario.send(
            1,
            queue::Unbind {
                queue,
                routing_key,
                ..queue::Unbind::default()
            },
        );
        let Call::QueueUnbind(call) = scenario.the_call() else {
            panic!("no unbind")
        };
        assert_eq!(
            (call.queue, call.routing_key),
            (short("q"), short(expected))
        );
    }
}

#[test]
fn only_a_successful_declare_is_remembered() {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, passive(MISSING));
    scenario.next_method();
    scenario.send(1, leveret_wire::channel::CloseOk {});
    scenario.open_channel(1);
    scenario.send(1, queue::Purge::default());
    scenario.expect_channel_close(1, 404, NO_QUEUE_YET, (50, 30));
}

#[test]
fn a_refusal_comes_with_its_code_and_text() {
    let mut scenario = Scenario::with_channel();
    let refusal = Refusal::Inequivalent {
        kind: leveret_core::refusal::ObjectKind::Queue,
        name: short("q"),
        vhost: short("/"),
        arg: "durable".to_owned(),
        received: "'false'".to_owned(),
        current: "'true'".to_owned(),
    };
    scenario.answer_next(Answer::Refused(refusal));
    scenario.send(1, declare("q"));
    let text = "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received \
                'false' but current is 'true'";
    scenario.expect_channel_close(1, 406, text, (50, 10));
}

#[test]
fn a_long_text_is_cut() {
    let mut scenario = Scenario::with_channel();
    let name = "q".repeat(255);
    let refusal = Refusal::NotFound {
        kind: leveret_core::refusal::ObjectKind::Queue,
        name: short(&name),
        vhost: short("/"),
    };
    scenario.answer_next(Answer::Refused(refusal));
    scenario.send(1, passive(&name));
    let text = format!("NOT_FOUND - no queue '{name}' in vhost '/'");
    scenario.expect_channel_close(1, 404, &format!("{}...", &text[..252]), (50, 10));
}
