//! `meta`, kind vhost: name, description, number of tags, tags, default queue type, flags (tracing 1,
//! protected 2), limits on connections and queues. Version 1 had the name alone.

use leveret_core::{arguments::QueueType, record::VhostRecord};
use leveret_wire::value::ShortString;

use crate::{
    error::Damage,
    key::{Kind, meta_name_key},
    row::{Fields, RowBuf},
    schema::Table,
};

const VERSION: u8 = 2;

const TRACING: u8 = 1;
const PROTECTED: u8 = 2;

pub(crate) fn key(name: &ShortString) -> [u8; 18] {
    meta_name_key(Kind::Vhost, &[name.as_bytes()])
}

pub(crate) fn encode<'a>(row: &'a mut RowBuf, key: &[u8], vhost: &VhostRecord) -> &'a [u8] {
    let flags =
        if vhost.tracing { TRACING } else { 0 } | if vhost.protected { PROTECTED } else { 0 };
    let default_queue_type = vhost.default_queue_type.map_or("", QueueType::name);
    row.start(VERSION)
        .short(&vhost.name)
        .long(vhost.description.as_bytes())
        .texts(&vhost.tags)
        .long(default_queue_type.as_bytes())
        .u8(flags)
        .limit(vhost.max_connections)
        .limit(vhost.max_queues)
        .seal(Table::Meta, key)
}

pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<VhostRecord, Damage> {
    if value.first() == Some(&1) {
        let mut fields = Fields::open(Table::Meta, key, value, 1)?;
        let vhost = VhostRecord::named(fields.short()?);
        fields.end()?;
        return Ok(vhost);
    }
    let mut fields = Fields::open(Table::Meta, key, value, VERSION)?;
    let name = fields.short()?;
    let description = fields.text()?;
    let tags = fields.texts()?;
    let default_queue_type = QueueType::from_name(fields.text()?.as_bytes());
    let flags = fields.u8()?;
    let max_connections = fields.limit()?;
    let max_queues = fields.limit()?;
    fields.end()?;
    Ok(VhostRecord {
        name,
        description,
        tags,
        default_queue_type,
        tracing: flags & TRACING != 0,
        protected: flags & PROTECTED != 0,
        max_connections,
        max_queues,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vhost_of_version_1_is_read() {
        let name = ShortString::from_static("old");
        let key = key(&name);
        let mut row = RowBuf::default();
        let value = row.start(1).short(&name).seal(Table::Meta, &key).to_vec();
        assert_eq!(decode(&key, &value), Ok(VhostRecord::named(name)));
    }
}
