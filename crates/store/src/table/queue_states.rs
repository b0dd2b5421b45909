//! `qstate`: head, next, messages, their bytes, delivered below, flags (1 consumed, 2 spilled, 4 properties count); then, where
//! properties count, from which position on.

use leveret_core::{ids::Seq, record::QueueState};

use crate::{
    error::Damage,
    row::{Fields, RowBuf},
    schema::Table,
};

const VERSION: u8 = 1;
const CONSUMED: u8 = 1;
const SPILLED: u8 = 2;
const PROPERTIES_COUNT: u8 = 4;

pub(crate) fn encode<'a>(row: &'a mut RowBuf, key: &[u8], state: &QueueState) -> &'a [u8] {
    let flags = [
        (state.consumed, CONSUMED),
        (state.spilled, SPILLED),
        (state.properties_count_from.is_some(), PROPERTIES_COUNT),
    ];
    let flags = flags
        .into_iter()
        .filter_map(|(is_set, flag)| is_set.then_some(flag))
        .sum();
    row.start(VERSION)
        .u64(state.head.get())
        .u64(state.next.get())
        .u64(state.messages)
        .u64(state.message_bytes)
        .u64(state.delivered_below.get())
        .u8(flags);
    if let Some(from) = state.properties_count_from {
        row.u64(from.get());
    }
    row.seal(Table::QueueStates, key)
}

pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<QueueState, Damage> {
    let mut fields = Fields::open(Table::QueueStates, key, value, VERSION)?;
    let mut state = QueueState {
        head: Seq::new(fields.u64()?),
        next: Seq::new(fields.u64()?),
        messages: fields.u64()?,
        message_bytes: fields.u64()?,
        delivered_below: Seq::new(fields.u64()?),
        ..QueueState::default()
    };
    let flags = fields.u8()?;
    if flags > CONSUMED + SPILLED + PROPERTIES_COUNT {
        return Err(Damage::Malformed);
    }
    state.consumed = flags & CONSUMED != 0;
    state.spilled = flags & SPILLED != 0;
    if flags & PROPERTIES_COUNT != 0 {
        state.properties_count_from = Some(Seq::new(fields.u64()?));
    }
    fields.end()?;
    Ok(state)
}
