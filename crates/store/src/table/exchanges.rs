//! `meta`, kind exchange: vhost, name, kind by name, flags (durable 1, auto-delete 2, internal 4,
//! may keep messages 8), arguments. With the last flag the number its messages are stored under comes behind, in 8 bytes.

use leveret_core::{
    ids::QueueId,
    record::{DELAYED_MESSAGE, DelayRecord, ExchangeKind, ExchangeRecord},
};
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
const KEEPS_MESSAGES: u8 = 8;

pub(crate) fn key(vhost: &ShortString, name: &ShortString) -> [u8; 18] {
    meta_name_key(Kind::Exchange, &[vhost.as_bytes(), name.as_bytes()])
}

pub(crate) fn encode<'a>(row: &'a mut RowBuf, key: &[u8], exchange: &ExchangeRecord) -> &'a [u8] {
    let flags = if exchange.durable { DURABLE } else { 0 }
        | if exchange.auto_delete { AUTO_DELETE } else { 0 }
        | if exchange.internal { INTERNAL } else { 0 }
        | if exchange.delay.is_some() {
            KEEPS_MESSAGES
        } else {
            0
        };
    row.start(VERSION)
        .short(&exchange.vhost)
        .short(&exchange.name)
        .short(&ShortString::from_static(exchange.type_name()))
        .u8(flags)
        .table(&exchange.arguments);
    if let Some(DelayRecord { id, .. }) = exchange.delay {
        row.u64(id.get());
    }
    row.seal(Table::Meta, key)
}

pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<ExchangeRecord, Damage> {
    let mut fields = Fields::open(Table::Meta, key, value, VERSION)?;
    let vhost = fields.short()?;
    let name = fields.short()?;
    let type_name = fields.short()?;
    let flags = fields.u8()?;
    let arguments = fields.table()?;
    let by_type = type_name == DELAYED_MESSAGE;
    let kind = if by_type {
        ExchangeRecord::delayed_kind(&arguments)
    } else {
        ExchangeKind::from_name(type_name.as_bytes())
    };
    let delay = match flags & KEEPS_MESSAGES {
        0 => None,
        _ => Some(DelayRecord {
            id: QueueId::new(fields.u64()?),
            by_type,
        }),
    };
    fields.end()?;
    Ok(ExchangeRecord {
        vhost,
        name,
        kind: kind.ok_or(Damage::Malformed)?,
        durable: flags & DURABLE != 0,
        auto_delete: flags & AUTO_DELETE != 0,
        internal: flags & INTERNAL != 0,
        arguments,
        delay,
    })
}
