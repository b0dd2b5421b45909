//! `meta`, kind user: name, password hash, number of tags, tags, algorithm (SHA-256 1, SHA-512 2, MD5 3, Argon2id 4),
//! limits on connections and channels. Version 1 ended behind the tags, with SHA-256.

use leveret_core::record::{HashAlgorithm, UserRecord};
use leveret_wire::value::ShortString;

use crate::{
    error::Damage,
    key::{Kind, meta_name_key},
    row::{Fields, RowBuf},
    schema::Table,
};

const VERSION: u8 = 2;

pub(crate) fn key(name: &ShortString) -> [u8; 18] {
    meta_name_key(Kind::User, &[name.as_bytes()])
}

pub(crate) fn encode<'a>(row: &'a mut RowBuf, key: &[u8], user: &UserRecord) -> &'a [u8] {
    let algorithm = match user.algorithm {
        HashAlgorithm::Sha256 => 1,
        HashAlgorithm::Sha512 => 2,
        HashAlgorithm::Md5 => 3,
        HashAlgorithm::Argon2id => 4,
    };
    row.start(VERSION)
        .short(&user.name)
        .long(&user.password_hash)
        .texts(&user.tags)
        .u8(algorithm)
        .limit(user.max_connections)
        .limit(user.max_channels)
        .seal(Table::Meta, key)
}

pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<UserRecord, Damage> {
    let is_old = value.first() == Some(&1);
    let mut fields = Fields::open(Table::Meta, key, value, if is_old { 1 } else { VERSION })?;
    let mut user = UserRecord {
        name: fields.short()?,
        password_hash: fields.long()?.to_vec(),
        tags: fields.texts()?,
        ..UserRecord::default()
    };
    if !is_old {
        user.algorithm = match fields.u8()? {
            1 => HashAlgorithm::Sha256,
            2 => HashAlgorithm::Sha512,
            3 => HashAlgorithm::Md5,
            4 => HashAlgorithm::Argon2id,
            _ => return Err(Damage::Malformed),
        };
        user.max_connections = fields.limit()?;
        user.max_channels = fields.limit()?;
    }
    fields.end()?;
    Ok(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_of_version_1_is_read() {
        let name = ShortString::from_static("old");
        let key = key(&name);
        let mut row = RowBuf::default();
        let value = row
            .start(1)
            .short(&name)
            .long(b"hash")
            .texts(&["monitoring".to_owned()])
            .seal(Table::Meta, &key)
            .to_vec();
        let user = decode(&key, &value).expect("a user");
        assert_eq!((user.name, user.algorithm), (name, HashAlgorithm::Sha256));
        assert_eq!(user.password_hash, b"hash");
        assert_eq!(user.tags, ["monitoring"]);
    }
}
