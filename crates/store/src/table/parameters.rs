//! `meta`, kind parameter: component, vhost, name, value as JSON.

use leveret_core::record::ParameterRecord;

use crate::{
    error::Damage,
    key::{Kind, meta_name_key},
    row::{Fields, RowBuf},
    schema::Table,
};

const VERSION: u8 = 1;

pub(crate) fn key(parameter: &ParameterRecord) -> [u8; 18] {
    let names: [&[u8]; 3] = [
        parameter.component.as_bytes(),
        parameter.vhost.as_bytes(),
        parameter.name.as_bytes(),
    ];
    meta_name_key(Kind::Parameter, &names)
}

pub(crate) fn encode<'a>(row: &'a mut RowBuf, key: &[u8], parameter: &ParameterRecord) -> &'a [u8] {
    row.start(VERSION)
        .long(parameter.component.as_bytes())
        .short(&parameter.vhost)
        .long(parameter.name.as_bytes())
        .long(parameter.value.as_bytes())
        .seal(Table::Meta, key)
}

pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<ParameterRecord, Damage> {
    let mut fields = Fields::open(Table::Meta, key, value, VERSION)?;
    let parameter = ParameterRecord {
        component: fields.text()?,
        vhost: fields.short()?,
        name: fields.text()?,
        value: fields.text()?,
    };
    fields.end()?;
    Ok(parameter)
}
