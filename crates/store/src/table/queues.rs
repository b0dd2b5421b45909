//! `meta`, kind queue: vhost, name, flags (durable 1, auto-delete 2), arguments. The id is in the key.

use leveret_core::{ids::QueueId, record::QueueRecord};

use crate::{
    error::Damage,
    key::{Kind, meta_number_key, meta_number_of_key},
    row::{Fields, RowBuf},
    schema::Table,
};

const VERSION: u8 = 1;

const DURABLE: u8 = 1;
const AUTO_DELETE: u8 = 2;

pub(crate) fn key(queue: QueueId) -> [u8; 10] {
    meta_number_key(Kind::Queue, queue.get())
}

pub(crate) fn encode<'a>(row: &'a mut RowBuf, key: &[u8], queue: &QueueRecord) -> &'a [u8] {
    // Its connection does not outlive a restart, so neither may the queue.
    debug_assert_eq!(
        queue.exclusive_to, None,
        "an exclusive queue is never stored"
    );
    let flags =
        if queue.durable { DURABLE } else { 0 } | if queue.auto_delete { AUTO_DELETE } else { 0 };
    row.start(VERSION)
        .short(&queue.vhost)
        .short(&queue.name)
        .u8(flags)
        .table(&queue.arguments)
        .seal(Table::Meta, key)
}

pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<QueueRecord, Damage> {
    let mut fields = Fields::open(Table::Meta, key, value, VERSION)?;
    let id = meta_number_of_key(key).ok_or(Damage::Malformed)?;
    let vhost = fields.short()?;
    let name = fields.short()?;
    let flags = fields.u8()?;
    let arguments = fields.table()?;
    fields.end()?;
    Ok(QueueRecord {
        id: QueueId::new(id),
        vhost,
        name,
        durable: flags & DURABLE != 0,
        exclusive_to: None,
        auto_delete: flags & AUTO_DELETE != 0,
        arguments,
    })
}
