//! `meta`, kind user: name, password hash, number of tags, tags.

use leveret_core::record::UserRecord;
use leveret_wire::value::ShortString;

use crate::{
    error::Damage,
    key::{Kind, meta_name_key},
    row::{Fields, RowBuf},
    schema::Table,
};

const VERSION: u8 = 1;

pub(crate) fn key(name: &ShortString) -> [u8; 18] {
    meta_name_key(Kind::User, &[name.as_bytes()])
}

pub(crate) fn encode<'a>(row: &'a mut RowBuf, key: &[u8], user: &UserRecord) -> &'a [u8] {
    row.start(VERSION)
        .short(&user.name)
        .long(&user.password_hash);
    row.u32(u32::try_from(user.tags.len()).expect("tags came in one request"));
    for tag in &user.tags {
        row.long(tag.as_bytes());
    }
    row.seal(Table::Meta, key)
}

pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<UserRecord, Damage> {
    let mut fields = Fields::open(Table::Meta, key, value, VERSION)?;
    let name = fields.short()?;
    let password_hash = fields.long()?.to_vec();
    let mut tags = Vec::new();
    for _ in 0..fields.u32()? {
        let tag = String::from_utf8(fields.long()?.to_vec()).map_err(|_| Damage::Malformed)?;
        tags.push(tag);
    }
    fields.end()?;
    Ok(UserRecord {
        name,
        password_hash,
        tags,
    })
}
