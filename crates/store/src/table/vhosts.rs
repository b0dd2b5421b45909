//! `meta`, kind vhost: name.

use leveret_wire::value::ShortString;

use crate::{
    error::Damage,
    key::{Kind, meta_name_key},
    row::{Fields, RowBuf},
    schema::Table,
};

const VERSION: u8 = 1;

pub(crate) fn key(name: &ShortString) -> [u8; 18] {
    meta_name_key(Kind::Vhost, &[name.as_bytes()])
}

pub(crate) fn encode<'a>(row: &'a mut RowBuf, key: &[u8], name: &ShortString) -> &'a [u8] {
    row.start(VERSION).short(name).seal(Table::Meta, key)
}

pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<ShortString, Damage> {
    let mut fields = Fields::open(Table::Meta, key, value, VERSION)?;
    let name = fields.short()?;
    fields.end()?;
    Ok(name)
}
