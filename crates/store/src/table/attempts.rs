//! `attempts`: how often a message came back in all, how often because somebody tried in vain, until when it waits.

use leveret_core::{ids::Timestamp, record::Attempts};

use crate::{
    error::Damage,
    row::{Fields, RowBuf},
    schema::Table,
};

const VERSION: u8 = 1;

pub(crate) fn encode<'a>(row: &'a mut RowBuf, key: &[u8], attempts: &Attempts) -> &'a [u8] {
    row.start(VERSION)
        .u32(attempts.all)
        .u32(attempts.failed)
        .u64(attempts.due.get())
        .seal(Table::Attempts, key)
}

pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<Attempts, Damage> {
    let mut fields = Fields::open(Table::Attempts, key, value, VERSION)?;
    let attempts = Attempts {
        all: fields.u32()?,
        failed: fields.u32()?,
        due: Timestamp::new(fields.u64()?),
    };
    fields.end()?;
    Ok(attempts)
}
