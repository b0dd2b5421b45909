//! `meta`, kind queue: vhost, name, flags (durable 1, auto-delete 2, a quorum queue 4, a stream 8), arguments. The id is
//! in the key. The first rows told the type by their arguments only.

use leveret_core::{arguments::QueueType, ids::QueueId, record::QueueRecord};

use crate::{
    error::Damage,
    key::{Kind, meta_number_key, meta_number_of_key},
    row::{Fields, RowBuf},
    schema::Table,
};

const VERSION: u8 = 1;

const DURABLE: u8 = 1;
const AUTO_DELETE: u8 = 2;
const QUORUM: u8 = 4;
const STREAM: u8 = 8;

pub(crate) fn key(queue: QueueId) -> [u8; 10] {
    meta_number_key(Kind::Queue, queue.get())
}

pub(crate) fn encode<'a>(row: &'a mut RowBuf, key: &[u8], queue: &QueueRecord) -> &'a [u8] {
    // Its connection does not outlive a restart, so neither may the queue.
    debug_assert_eq!(
        queue.exclusive_to, None,
        "an exclusive queue is never stored"
    );
    let of_type = match queue.queue_type {
        QueueType::Classic => 0,
        QueueType::Quorum => QUORUM,
        QueueType::Stream => STREAM,
    };
    let flags = if queue.durable { DURABLE } else { 0 }
        | if queue.auto_delete { AUTO_DELETE } else { 0 }
        | of_type;
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
        queue_type: match flags & (QUORUM | STREAM) {
            QUORUM => QueueType::Quorum,
            STREAM => QueueType::Stream,
            _ => QueueType::of(&arguments),
        },
        arguments,
    })
}

#[cfg(test)]
mod tests {
    use leveret_wire::value::{FieldTable, FieldValue, ShortString};

    use super::*;

    #[test]
    fn a_row_without_a_type_is_of_the_type_its_arguments_name() {
        let key = key(QueueId::new(7));
        let mut row = RowBuf::default();
        for queue_type in QueueType::ALL {
            let arguments =
                FieldTable::new().with("x-queue-type", FieldValue::text(queue_type.name()));
            let value = row
                .start(VERSION)
                .short(&ShortString::from_static("v"))
                .short(&ShortString::from_static("q"))
                .u8(DURABLE)
                .table(&arguments)
                .seal(Table::Meta, &key)
                .to_vec();
            let queue = decode(&key, &value).expect("the row is whole");
            assert_eq!(queue.queue_type, queue_type);
        }
    }
}
