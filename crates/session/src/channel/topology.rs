//! `exchange.*` and `queue.*`: from methods to calls.

use leveret_core::refusal::ObjectKind;
use leveret_wire::{
    method::{Method, exchange, queue},
    value::ShortString,
};

use super::{
    Channel, Next, Then,
    rights::{self, End},
    unimplemented,
};
use crate::{
    call::{
        Call, ExchangeBind, ExchangeDeclare, ExchangeDelete, ExchangeUnbind, QueueBind,
        QueueDeclare, QueueDelete, QueuePurge, QueueUnbind,
    },
    error::Fault,
    sink::Sink,
};

impl Channel {
    pub(super) fn exchange<S: Sink>(
        method: exchange::Exchange,
        sink: &mut S,
    ) -> Result<Next, Fault> {
        let next = match method {
            exchange::Exchange::Declare(declare) => {
                let exchange::Declare {
                    exchange,
                    kind,
                    passive,
                    durable,
                    auto_delete,
                    internal,
                    nowait,
                    arguments,
                    ..
                } = declare;
                let mut asked = ExchangeDeclare {
                    exchange: without_line_breaks(&exchange),
                    kind: kind.detach(),
                    passive,
                    durable,
                    auto_delete,
                    internal,
                    arguments: arguments.detach(),
                    refused_if_new: None,
                };
                asked.refused_if_new = rights::exchange_declare(&asked, sink)?.map(Box::new);
                let call = Call::ExchangeDeclare(asked);
                Next::call(call, reply(nowait, exchange::DeclareOk {}))
            }
            exchange::Exchange::Delete(delete) => {
                let exchange::Delete {
                    exchange,
                    if_unused,
                    nowait,
                    ..
                } = delete;
                let exchange = without_line_breaks(&exchange);
                rights::exchange_delete(&exchange, sink)?;
                let call = Call::ExchangeDelete(ExchangeDelete {
                    exchange,
                    if_unused,
                });
                Next::call(call, reply(nowait, exchange::DeleteOk {}))
            }
            exchange::Exchange::Bind(bind) => {
                let exchange::Bind {
                    destination,
                    source,
                    routing_key,
                    nowait,
                    arguments,
                    ..
                } = bind;
                let destination = without_line_breaks(&destination);
                let source = without_line_breaks(&source);
                let end = End {
                    kind: ObjectKind::Exchange,
                    name: &destination,
                };
                rights::binding(end, &source, &routing_key, sink)?;
                let call = Call::ExchangeBind(ExchangeBind {
                    destination,
                    source,
                    routing_key: routing_key.detach(),
                    arguments: arguments.detach(),
                });
                Next::call(call, reply(nowait, exchange::BindOk {}))
            }
            exchange::Exchange::Unbind(unbind) => {
                let exchange::Unbind {
                    destination,
                    source,
                    routing_key,
                    nowait,
                    arguments,
                    ..
                } = unbind;
                let destination = without_line_breaks(&destination);
                let source = without_line_breaks(&source);
                let end = End {
                    kind: ObjectKind::Exchange,
                    name: &destination,
                };
                rights::binding(end, &source, &routing_key, sink)?;
                let call = Call::ExchangeUnbind(ExchangeUnbind {
                    destination,
                    source,
                    routing_key: routing_key.detach(),
                    arguments: arguments.detach(),
                });
                Next::call(call, reply(nowait, exchange::UnbindOk {}))
            }
            exchange::Exchange::DeclareOk(_)
            | exchange::Exchange::DeleteOk(_)
            | exchange::Exchange::BindOk(_)
            | exchange::Exchange::UnbindOk(_) => return unimplemented(),
        };
        Ok(next)
    }

    pub(super) fn queue<S: Sink>(&self, method: queue::Queue, sink: &mut S) -> Result<Next, Fault> {
        match method {
            queue::Queue::Declare(declare) => declare_queue(declare, sink),
            queue::Queue::Bind(bind) => {
                let queue::Bind {
                    queue,
                    exchange,
                    routing_key,
                    nowait,
                    arguments,
                    ..
                } = bind;
                let (queue, routing_key) = self.binding_end(&queue, &routing_key)?;
                let exchange = without_line_breaks(&exchange);
                let end = End {
                    kind: ObjectKind::Queue,
                    name: &queue,
                };
                rights::binding(end, &exchange, &routing_key, sink)?;
                let call = Call::QueueBind(QueueBind {
                    queue,
                    exchange,
                    routing_key,
                    arguments: arguments.detach(),
                });
                Ok(Next::call(call, reply(nowait, queue::BindOk {})))
            }
            queue::Queue::Unbind(unbind) => {
                let queue::Unbind {
                    queue,
                    exchange,
                    routing_key,
                    arguments,
                    ..
                } = unbind;
                let (queue, routing_key) = self.binding_end(&queue, &routing_key)?;
                let exchange = without_line_breaks(&exchange);
                let end = End {
                    kind: ObjectKind::Queue,
                    name: &queue,
                };
                rights::binding(end, &exchange, &routing_key, sink)?;
                let call = Call::QueueUnbind(QueueUnbind {
                    queue,
                    exchange,
                    routing_key,
                    arguments: arguments.detach(),
                });
                Ok(Next::call(call, reply(false, queue::UnbindOk {})))
            }
            queue::Queue::Purge(queue::Purge { queue, nowait, .. }) => {
                let queue = self.named_queue(&queue)?;
                rights::queue_read(&queue, sink)?;
                Ok(Next::call(
                    Call::QueuePurge(QueuePurge { queue }),
                    Then::QueuePurged { nowait },
                ))
            }
            queue::Queue::Delete(delete) => {
                let queue::Delete {
                    queue,
                    if_unused,
                    if_empty,
                    nowait,
                    ..
                } = delete;
                let queue = without_line_breaks(&self.named_queue(&queue)?);
                rights::queue_delete(&queue, sink)?;
                let call = Call::QueueDelete(QueueDelete {
                    queue,
                    if_unused,
                    if_empty,
                });
                Ok(Next::call(call, Then::QueueDeleted { nowait }))
            }
            queue::Queue::DeclareOk(_)
            | queue::Queue::BindOk(_)
            | queue::Queue::PurgeOk(_)
            | queue::Queue::DeleteOk(_)
            | queue::Queue::UnbindOk(_) => unimplemented(),
        }
    }

    /// Queue and binding key. When both are empty, both are the queue declared last.
    fn binding_end(
        &self,
        queue: &ShortString,
        routing_key: &ShortString,
    ) -> Result<(ShortString, ShortString), Fault> {
        let named = self.named_queue(queue)?;
        if queue.is_empty() && routing_key.is_empty() {
            Ok((named.clone(), named))
        } else {
            Ok((without_line_breaks(&named), routing_key.detach()))
        }
    }
}

fn declare_queue<S: Sink>(declare: queue::Declare, sink: &mut S) -> Result<Next, Fault> {
    let queue::Declare {
        queue,
        passive,
        durable,
        exclusive,
        auto_delete,
        nowait,
        arguments,
        ..
    } = declare;
    let queue = without_line_breaks(&queue);
    let server_named = queue.is_empty() && !passive;
    let mut asked = QueueDeclare {
        queue: if server_named {
            sink.generate_name("amq.gen-")
        } else {
            queue
        },
        server_named,
        passive,
        durable,
        exclusive,
        auto_delete,
        arguments: arguments.detach(),
        refused_if_new: None,
    };
    asked.refused_if_new = rights::queue_declare(&asked, sink)?.map(Box::new);
    Ok(Next::call(
        Call::QueueDeclare(asked),
        Then::QueueDeclared { nowait },
    ))
}

fn reply(nowait: bool, method: impl Into<Method>) -> Then {
    Then::Reply((!nowait).then(|| Box::new(method.into())))
}

/// RabbitMQ removes CR and LF from the names of what is declared, deleted and bound.
fn without_line_breaks(name: &ShortString) -> ShortString {
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    if !name.as_bytes().iter().any(is_break) {
        return name.detach();
    }
    let kept: Vec<u8> = name
        .as_bytes()
        .iter()
        .copied()
        .filter(|byte| !is_break(byte))
        .collect();
    ShortString::try_from(kept.as_slice()).expect("it only became shorter")
}
