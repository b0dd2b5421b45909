//! `qstate`: head, next, messages, body bytes, delivered below, flags (1 consumed, 2 spilled).

use leveret_core::{ids::Seq, record::QueueState};

use crate::{
    error::Damage,
    row::{Fields, RowBuf},
    schema::Table,
};

const VERSION: u8 = 1;
const CONSUMED: u8 = 1;
const SPILLED: u8 = 2;

pub(crate) fn encode<'a>(row: &'a mut RowBuf, key: &[u8], state: &QueueState) -> &'a [u8] {
    row.start(VERSION)
        .u64(state.head.get())
        .u64(state.next.get())
        .u64(state.messages)
        .u64(state.body_bytes)
        .u64(state.delivered_below.get())
        .u8(u8::from(state.consumed) * CONSUMED + u8::from(state.spilled) * SPILLED)
        .seal(Table::QueueStates, key)
}

pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<QueueState, Damage> {
    let mut fields = Fields::open(Table::QueueStates, key, value, VERSION)?;
    let mut state = QueueState {
        head: Seq::new(fields.u64()?),
        next: Seq::new(fields.u64()?),
        messages: fields.u64()?,
        body_bytes: fields.u64()?,
        delivered_below: Seq::new(fields.u64()?),
        ..QueueState::default()
    };
    let flags = fields.u8()?;
    if flags > CONSUMED + SPILLED {
        return Err(Damage::Malformed);
    }
    state.consumed = flags & CONSUMED != 0;
    state.spilled = flags & SPILLED != 0;
    fields.end()?;
    Ok(state)
}
