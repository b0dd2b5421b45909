//! What must hold for any stored value, as a function over bytes: the fuzz target and a test run it.
//!
//! Not part of the API; there with the feature `fuzzing` only.

use bytes::BytesMut;

use crate::{
    error::Damage,
    key::{MESSAGE_KEY_LEN, MessageKey},
    row::RowBuf,
    schema::Table,
    table::{
        attempts, bindings, commits, exchanges, marks, messages, parameters, permissions,
        queue_states, queues, users, vhosts,
    },
};

/// One value of one table: the first octet chooses which, the second is its version, the rest are its fields.
///
/// * With a checksum that is not its own no value is read.
/// * With its own it is read or it is damage; what was read is written, and reads as the same.
pub fn stored(input: &[u8]) {
    let Some((&[which, version], fields)) = input.split_first_chunk() else {
        return;
    };
    let key: MessageKey = [7; MESSAGE_KEY_LEN];
    let row_key = key.as_slice();
    match which % 13 {
        0 => row(
            Table::Attempts,
            row_key,
            version,
            fields,
            attempts::decode,
            attempts::encode,
        ),
        1 => row(
            Table::Meta,
            row_key,
            version,
            fields,
            bindings::decode,
            bindings::encode,
        ),
        2 => row(
            Table::Meta,
            row_key,
            version,
            fields,
            exchanges::decode,
            exchanges::encode,
        ),
        3 => row(
            Table::Meta,
            row_key,
            version,
            fields,
            parameters::decode,
            parameters::encode,
        ),
        4 => row(
            Table::Meta,
            row_key,
            version,
            fields,
            permissions::decode,
            permissions::encode,
        ),
        5 => row(
            Table::Meta,
            row_key,
            version,
            fields,
            permissions::decode_topic,
            permissions::encode_topic,
        ),
        6 => row(
            Table::QueueStates,
            row_key,
            version,
            fields,
            queue_states::decode,
            queue_states::encode,
        ),
        7 => row(
            Table::Meta,
            row_key,
            version,
            fields,
            queues::decode,
            queues::encode,
        ),
        8 => row(
            Table::Meta,
            row_key,
            version,
            fields,
            users::decode,
            users::encode,
        ),
        9 => row(
            Table::Meta,
            row_key,
            version,
            fields,
            vhosts::decode,
            vhosts::encode,
        ),
        10 => row(
            Table::Meta,
            row_key,
            version,
            fields,
            marks::decode,
            |row, key, number| marks::encode(row, key, *number),
        ),
        11 => row(
            Table::Commits,
            row_key,
            version,
            fields,
            commits::millis,
            |row, key, millis| commits::encode(row, key, *millis),
        ),
        _ => message(key, version, fields),
    }
}

/// As [`row`], but the body is no part of what is encoded.
fn message(key: MessageKey, version: u8, fields: &[u8]) {
    let mut buf = RowBuf::default();
    let value = buf
        .start(version)
        .raw(fields)
        .seal(Table::Messages, &key)
        .to_vec();
    let read = |value: &[u8]| messages::decode(&key, value, &mut BytesMut::new());
    match read(&value) {
        Ok((times, message)) => {
            let mut again = messages::encode_before_body(&mut buf, &key, times, &message).to_vec();
            again.extend_from_slice(message.body());
            assert_eq!(read(&again), Ok((times, message)));
        }
        Err(damage) => drop(damage.to_string()),
    }
}

fn row<T: std::fmt::Debug>(
    table: Table,
    key: &[u8],
    version: u8,
    fields: &[u8],
    decode: impl Fn(&[u8], &[u8]) -> Result<T, Damage>,
    encode: impl for<'a> Fn(&'a mut RowBuf, &[u8], &T) -> &'a [u8],
) {
    let mut buf = RowBuf::default();
    let value = buf.start(version).raw(fields).seal(table, key).to_vec();
    let mut other = value.clone();
    if let Some(octet) = other.get_mut(1) {
        *octet ^= 1;
    }
    let refused = decode(key, &other);
    assert!(matches!(refused, Err(Damage::Checksum)), "{refused:?}");
    match decode(key, &value) {
        Ok(record) => {
            let again = encode(&mut buf, key, &record).to_vec();
            // Compared by what is written: a number that is none equals nothing.
            let read = decode(key, &again).expect("what was written can be read");
            assert_eq!(encode(&mut buf, key, &read), again);
        }
        Err(damage) => drop(damage.to_string()),
    }
}

#[cfg(test)]
#[path = "../../../fuzz/src/mutation.rs"]
#[expect(unreachable_pub, reason = "in its own place the fuzz targets reach it")]
mod mutation;

#[cfg(test)]
mod tests {
    use super::mutation;

    const ROUNDS: u32 = 20_000;

    #[test]
    fn stored_values() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/stored");
        mutation::run(&mutation::seeds(folder), ROUNDS, super::stored);
    }
}
