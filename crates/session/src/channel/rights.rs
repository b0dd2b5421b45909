//! Which rights each method needs; those of operations that other protocols know too are in
//! [`leveret_core::rights`].
//!
//! What the vhost refuses for everybody, such as a reserved name, comes first where RabbitMQ looks at it first; then
//! nothing is asked here.

use leveret_core::{
    record::ExchangeRecord,
    refusal::{ObjectKind, Refusal},
    rights::Right,
};
use leveret_wire::value::ShortString;

use super::publish::REPLY_TO;
use crate::{
    call::{ExchangeDeclare, QueueDeclare},
    sink::Sink,
};

/// Names the broker keeps for itself.
const RESERVED_PREFIX: &[u8] = b"amq.";

const EXCHANGE: ObjectKind = ObjectKind::Exchange;
const QUEUE: ObjectKind = ObjectKind::Queue;

/// One end of a binding.
#[derive(Debug, Clone, Copy)]
pub(super) struct End<'a> {
    pub(super) kind: ObjectKind,
    pub(super) name: &'a ShortString,
}

/// Says what refuses it unless it is there already.
pub(super) fn exchange_declare<S: Sink>(
    asked: &ExchangeDeclare,
    sink: &mut S,
) -> Result<Option<Refusal>, Refusal> {
    let name = &asked.exchange;
    if name.is_empty() {
        return Ok(None);
    }
    let rights = sink.rights();
    if asked.passive {
        return rights.check_any(EXCHANGE, name).map(|()| None);
    }
    if !ExchangeRecord::is_type(asked.kind.as_bytes()) {
        return Ok(None);
    }
    rights.check_exchange_declare(name, &asked.arguments)
}

pub(super) fn exchange_delete<S: Sink>(name: &ShortString, sink: &mut S) -> Result<(), Refusal> {
    if name.is_empty() || is_reserved(name) {
        return Ok(());
    }
    sink.rights().check(Right::Configure, EXCHANGE, name)
}

/// Says what refuses it unless it is there already.
pub(super) fn queue_declare<S: Sink>(
    asked: &QueueDeclare,
    sink: &mut S,
) -> Result<Option<Refusal>, Refusal> {
    let name = &asked.queue;
    if name.as_bytes().starts_with(REPLY_TO) {
        return Ok(None);
    }
    let rights = sink.rights();
    if asked.passive {
        return rights.check_any(QUEUE, name).map(|()| None);
    }
    if is_reserved(name) && !asked.server_named {
        return Ok(None);
    }
    rights.check_queue_declare(name, &asked.arguments)
}

pub(super) fn queue_delete<S: Sink>(name: &ShortString, sink: &mut S) -> Result<(), Refusal> {
    sink.rights().check(Right::Configure, QUEUE, name)
}

/// `purge`, `get` and `consume`.
pub(super) fn queue_read<S: Sink>(name: &ShortString, sink: &mut S) -> Result<(), Refusal> {
    if name.as_bytes().starts_with(REPLY_TO) {
        return Ok(());
    }
    sink.rights().check(Right::Read, QUEUE, name)
}

/// Binds and unbinds.
pub(super) fn binding<S: Sink>(
    destination: End<'_>,
    source: &ShortString,
    key: &ShortString,
    sink: &mut S,
) -> Result<(), Refusal> {
    let End { kind, name } = destination;
    let rights = sink.rights();
    rights.check_binding((kind, name), source, key, |source| {
        sink.exchange_kind(source)
    })
}

fn is_reserved(name: &ShortString) -> bool {
    name.as_bytes().starts_with(RESERVED_PREFIX)
}
