//! `attempts`: how often a message came back in all, how often because somebody tried in vain, until when it waits.

use leveret_core::{ids::Timestamp, record::Attempts};

use crate::{
    error::Damage,
    row::{Fields, RowBuf},
    schema::Table,
};

const VERSION: u8 = 1;

pub(crate) fn encode<'a>(row: &'a mut RowBuf, key: &[u8], attempts: &Attempts) -> &'a [u8] {
    row.start(VERSION)
        .u32(attempts.all)
        .u32(attempts.failed)
        .u64(attempts.due.get())
        .seal(Table::Attempts, key)
}

pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<Attempts, Damage> {
    let mut fields = Fields::open(Table::Attempts, key, value, VERSION)?;
    let attempts = Attempts {
        all: fields.u32()?,
        failed: fields.u32()?,
        due: Timestamp::new(fields.u64()?),
    };
    fields.end()?;
    Ok(attempts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_two_counts_and_a_time() {
        let mut row = RowBuf::default();
        let attempts = Attempts {
            all: 0x0102,
            failed: 3,
            due: Timestamp::new(0x0405),
        };
        let value = encode(&mut row, b"key", &attempts).to_vec();
        let expected = [0, 0, 1, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 4, 5];
        assert_eq!(value[5..], expected);
        assert_eq!(decode(b"key", &value), Ok(attempts));
    }
}
