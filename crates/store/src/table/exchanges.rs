//! `meta`, kind exchange: vhost, name, kind by name, flags (durable 1, auto-delete 2, internal 4), arguments.

use leveret_core::record::{ExchangeKind, ExchangeRecord};
use leveret_wire::value::ShortString;

use crate::{
    error::Damage,
    key::{Kind, meta_name_key},
    row::{Fields, RowBuf},
    schema::Table,
};

const VERSION: u8 = 1;

const DURABLE: u8 = 1;
const AUTO_DELETE: u8 = 2;
const INTERNAL: u8 = 4;

pub(crate) fn key(vhost: &ShortString, name: &ShortString) -> [u8; 18] {
    meta_name_key(Kind::Exchange, &[vhost.as_bytes(), name.as_bytes()])
}

pub(crate) fn encode<'a>(row: &'a mut RowBuf, key: &[u8], exchange: &ExchangeRecord) -> &'a [u8] {
    let flags = if exchange.durable { DURABLE } else { 0 }
        | if exchange.auto_delete { AUTO_DELETE } else { 0 }
        | if exchange.internal { INTERNAL } else { 0 };
    row.start(VERSION)
        .short(&exchange.vhost)
        .short(&exchange.name)
        .short(&ShortString::from_static(exchange.kind.name()))
        .u8(flags)
        .table(&exchange.arguments)
        .seal(Table::Meta, key)
}

pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<ExchangeRecord, Damage> {
    let mut fields = Fields::open(Table::Meta, key, value, VERSION)?;
    let vhost = fields.short()?;
    let name = fields.short()?;
    let kind = ExchangeKind::from_name(fields.short()?.as_bytes()).ok_or(Damage::Malformed)?;
    let flags = fields.u8()?;
    let arguments = fields.table()?;
    fields.end()?;
    Ok(ExchangeRecord {
        vhost,
        name,
        kind,
        durable: flags & DURABLE != 0,
        auto_delete: flags & AUTO_DELETE != 0,
        internal: flags & INTERNAL != 0,
        arguments,
    })
}
