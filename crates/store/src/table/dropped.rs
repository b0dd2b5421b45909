//! `dropped`: one row per queue whose messages are still to be freed: milliseconds since 1970 of the delete.

use crate::{row::RowBuf, schema::Table};

const VERSION: u8 = 1;

pub(crate) fn encode<'a>(row: &'a mut RowBuf, key: &[u8], millis: u64) -> &'a [u8] {
    row.start(VERSION).u64(millis).seal(Table::Dropped, key)
}
