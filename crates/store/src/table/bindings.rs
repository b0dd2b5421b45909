//! `meta`, kind binding: vhost, source, destination kind (queue 1, exchange 2) and name, binding key, arguments.

use leveret_core::record::{BindingRecord, Destination};
use leveret_wire::value::ShortString;

use crate::{
    error::Damage,
    key::{Kind, meta_name_key},
    row::{Fields, RowBuf},
    schema::Table,
};

const VERSION: u8 = 1;

const TO_QUEUE: u8 = 1;
const TO_EXCHANGE: u8 = 2;

/// All fields are the identity; of the arguments, their order is none.
pub(crate) fn key(binding: &BindingRecord) -> [u8; 18] {
    let (kind, name) = destination(binding);
    let names: [&[u8]; 6] = [
        binding.vhost.as_bytes(),
        binding.source.as_bytes(),
        &[kind],
        name.as_bytes(),
        binding.key.as_bytes(),
        &binding.arguments.canonical_bytes(),
    ];
    meta_name_key(Kind::Binding, &names)
}

pub(crate) fn encode<'a>(row: &'a mut RowBuf, key: &[u8], binding: &BindingRecord) -> &'a [u8] {
    let (kind, name) = destination(binding);
    row.start(VERSION)
        .short(&binding.vhost)
        .short(&binding.source)
        .u8(kind)
        .short(name)
        .short(&binding.key)
        .table(&binding.arguments)
        .seal(Table::Meta, key)
}

pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<BindingRecord, Damage> {
    let mut fields = Fields::open(Table::Meta, key, value, VERSION)?;
    let vhost = fields.short()?;
    let source = fields.short()?;
    let destination = match (fields.u8()?, fields.short()?) {
        (TO_QUEUE, name) => Destination::Queue(name),
        (TO_EXCHANGE, name) => Destination::Exchange(name),
        _ => return Err(Damage::Malformed),
    };
    let binding_key = fields.short()?;
    let arguments = fields.table()?;
    fields.end()?;
    Ok(BindingRecord {
        vhost,
        source,
        destination,
        key: binding_key,
        arguments,
    })
}

fn destination(binding: &BindingRecord) -> (u8, &ShortString) {
    match &binding.destination {
        Destination::Queue(name) => (TO_QUEUE, name),
        Destination::Exchange(name) => (TO_EXCHANGE, name),
    }
}
