//! `meta`, kind permission: vhost, user, patterns for configure, write and read; kind topic permission:
//! vhost, user, exchange, patterns for write and read.

use leveret_core::record::{PermissionRecord, TopicPermissionRecord};
use leveret_wire::value::ShortString;

use crate::{
    error::Damage,
    key::{Kind, meta_name_key},
    row::{Fields, RowBuf},
    schema::Table,
};

const VERSION: u8 = 1;

pub(crate) fn key(vhost: &ShortString, user: &ShortString) -> [u8; 18] {
    meta_name_key(Kind::Permission, &[vhost.as_bytes(), user.as_bytes()])
}

pub(crate) fn encode<'a>(
    row: &'a mut RowBuf,
    key: &[u8],
    permission: &PermissionRecord,
) -> &'a [u8] {
    row.start(VERSION)
        .short(&permission.vhost)
        .short(&permission.user)
        .long(permission.configure.as_bytes())
        .long(permission.write.as_bytes())
        .long(permission.read.as_bytes())
        .seal(Table::Meta, key)
}

pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<PermissionRecord, Damage> {
    let mut fields = Fields::open(Table::Meta, key, value, VERSION)?;
    let permission = PermissionRecord {
        vhost: fields.short()?,
        user: fields.short()?,
        configure: fields.text()?,
        write: fields.text()?,
        read: fields.text()?,
    };
    fields.end()?;
    Ok(permission)
}

pub(crate) fn topic_key(
    vhost: &ShortString,
    user: &ShortString,
    exchange: &ShortString,
) -> [u8; 18] {
    let names: [&[u8]; 3] = [vhost.as_bytes(), user.as_bytes(), exchange.as_bytes()];
    meta_name_key(Kind::TopicPermission, &names)
}

pub(crate) fn encode_topic<'a>(
    row: &'a mut RowBuf,
    key: &[u8],
    permission: &TopicPermissionRecord,
) -> &'a [u8] {
    row.start(VERSION)
        .short(&permission.vhost)
        .short(&permission.user)
        .short(&permission.exchange)
        .long(permission.write.as_bytes())
        .long(permission.read.as_bytes())
        .seal(Table::Meta, key)
}

pub(crate) fn decode_topic(key: &[u8], value: &[u8]) -> Result<TopicPermissionRecord, Damage> {
    let mut fields = Fields::open(Table::Meta, key, value, VERSION)?;
    let permission = TopicPermissionRecord {
        vhost: fields.short()?,
        user: fields.short()?,
        exchange: fields.short()?,
        write: fields.text()?,
        read: fields.text()?,
    };
    fields.end()?;
    Ok(permission)
}
