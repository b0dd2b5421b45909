//! `meta`, kind mark: numbers about the store itself.

use crate::{
    error::Damage,
    key::{Kind, meta_number_key},
    row::{Fields, RowBuf},
    schema::Table,
};

const VERSION: u8 = 1;

/// What a mark tells. The discriminant is the number in its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Queue ids below this one have been given.
    NextQueueId = 1,
    /// The commit with which the broker last stopped cleanly. Any later commit makes the mark void, so nobody has to
    /// take it back.
    CleanStop = 2,
}

pub(crate) fn key(mark: Mark) -> [u8; 10] {
    meta_number_key(Kind::Mark, mark as u64)
}

pub(crate) fn encode<'a>(row: &'a mut RowBuf, key: &[u8], number: u64) -> &'a [u8] {
    row.start(VERSION).u64(number).seal(Table::Meta, key)
}

pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<u64, Damage> {
    let mut fields = Fields::open(Table::Meta, key, value, VERSION)?;
    let number = fields.u64()?;
    fields.end()?;
    Ok(number)
}
