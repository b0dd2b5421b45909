//! `commits`: one row per batch, the newest [`RING`] of them: milliseconds since 1970, flags (filler 1).
//!
//! Each batch carries its own row, so a row that is there proves its batch. Without a gap in the numbers nothing between two
//! of them is lost; the side file tells whether the newest are still there.

use crate::{
    error::Damage,
    row::{Fields, RowBuf},
    schema::Table,
};

const VERSION: u8 = 1;

/// How many rows are kept. Damage in the middle of the log loses a run of commits up to the next table flush; this many
/// are enough to see the edge of it.
pub(crate) const RING: u64 = 1024;

/// Put in place of a missing commit, when an operator chose to go on without it.
const FILLER: u8 = 1;

pub(crate) fn encode<'a>(row: &'a mut RowBuf, key: &[u8], millis: u64) -> &'a [u8] {
    row.start(VERSION)
        .u64(millis)
        .u8(0)
        .seal(Table::Commits, key)
}

pub(crate) fn encode_filler<'a>(row: &'a mut RowBuf, key: &[u8], millis: u64) -> &'a [u8] {
    row.start(VERSION)
        .u64(millis)
        .u8(FILLER)
        .seal(Table::Commits, key)
}

/// Says whether the row is whole.
pub(crate) fn check(key: &[u8], value: &[u8]) -> Result<(), Damage> {
    millis(key, value).map(|_| ())
}

/// When the commit was.
pub(crate) fn millis(key: &[u8], value: &[u8]) -> Result<u64, Damage> {
    let mut fields = Fields::open(Table::Commits, key, value, VERSION)?;
    let millis = fields.u64()?;
    fields.u8()?;
    fields.end()?;
    Ok(millis)
}
