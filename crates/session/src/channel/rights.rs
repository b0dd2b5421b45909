//! Which rights each method needs, in RabbitMQ's order.
//!
//! A right is asked for before it is known whether the thing exists: a name that the user may not touch is
//! refused as such, whatever there is. What the vhost refuses for everybody, such as a reserved name, comes
//! first where RabbitMQ looks at it first; then nothing is asked here.

use leveret_core::{
    record::ExchangeKind,
    refusal::{ObjectKind, Refusal},
    rights::Right,
};
use leveret_wire::value::{FieldTable, FieldValue, ShortString};

use super::publish::REPLY_TO;
use crate::{
    call::{ExchangeDeclare, QueueDeclare},
    sink::Sink,
};

/// Names the broker keeps for itself.
const RESERVED_PREFIX: &[u8] = b"amq.";

const ALTERNATE_EXCHANGE: &[u8] = b"alternate-exchange";
const DEAD_LETTER_EXCHANGE: &[u8] = b"x-dead-letter-exchange";

const EXCHANGE: ObjectKind = ObjectKind::Exchange;
const QUEUE: ObjectKind = ObjectKind::Queue;

/// One end of a binding.
#[derive(Debug, Clone, Copy)]
pub(super) struct End<'a> {
    pub(super) kind: ObjectKind,
    pub(super) name: &'a ShortString,
}

pub(super) fn exchange_declare<S: Sink>(
    asked: &ExchangeDeclare,
    sink: &mut S,
) -> Result<(), Refusal> {
    let name = &asked.exchange;
    if name.is_empty() {
        return Ok(());
    }
    let rights = sink.rights();
    if asked.passive {
        return rights.check_any(EXCHANGE, name);
    }
    if ExchangeKind::from_name(asked.kind.as_bytes()).is_none() {
        return Ok(());
    }
    rights.check(Right::Configure, EXCHANGE, name)?;
    let Some(alternate) = exchange_in(&asked.arguments, ALTERNATE_EXCHANGE) else {
        return Ok(());
    };
    if is_reserved(name) || sink.exchange_kind(name).is_some() {
        return Ok(());
    }
    rights.check(Right::Read, EXCHANGE, name)?;
    rights.check(Right::Write, EXCHANGE, &alternate)
}

pub(super) fn exchange_delete<S: Sink>(name: &ShortString, sink: &mut S) -> Result<(), Refusal> {
    if name.is_empty() || is_reserved(name) {
        return Ok(());
    }
    sink.rights().check(Right::Configure, EXCHANGE, name)
}

pub(super) fn queue_declare<S: Sink>(asked: &QueueDeclare, sink: &mut S) -> Result<(), Refusal> {
    let name = &asked.queue;
    if name.as_bytes().starts_with(REPLY_TO) {
        return Ok(());
    }
    let rights = sink.rights();
    if asked.passive {
        return rights.check_any(QUEUE, name);
    }
    if is_reserved(name) && !asked.server_named {
        return Ok(());
    }
    rights.check(Right::Configure, QUEUE, name)?;
    match exchange_in(&asked.arguments, DEAD_LETTER_EXCHANGE) {
        Some(dead_letter) if !sink.has_queue(name) => {
            rights.check(Right::Read, QUEUE, name)?;
            rights.check(Right::Write, EXCHANGE, &dead_letter)
        }
        Some(_) | None => Ok(()),
    }
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
    rights.check(Right::Write, kind, name)?;
    if source.is_empty() || (kind == EXCHANGE && name.is_empty()) {
        return Ok(());
    }
    rights.check(Right::Read, EXCHANGE, source)?;
    if rights.has_topics(source) && sink.exchange_kind(source) == Some(ExchangeKind::Topic) {
        rights.check_topic(Right::Read, source, key)?;
    }
    Ok(())
}

fn is_reserved(name: &ShortString) -> bool {
    name.as_bytes().starts_with(RESERVED_PREFIX)
}

/// The exchange that an argument names; one of another type is refused elsewhere.
fn exchange_in(arguments: &FieldTable, key: &[u8]) -> Option<ShortString> {
    let FieldValue::LongString(name) = arguments.get(key)? else {
        return None;
    };
    ShortString::try_from(name.as_bytes()).ok()
}
