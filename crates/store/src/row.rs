//! The form of every value: a version, a checksum over key and value, then fields one behind the other.
//!
//! ```text
//!   0         1            5
//!   │ version │ checksum 4 │ fields …
//!
//!   checksum = CRC-32C over  table 1 │ key │ version 1 │ fields …
//!
//!   number     1, 4 or 8 bytes, big-endian
//!   short      length 1, bytes
//!   long       length 4, bytes; also a field table in its form on the wire
//! ```
//!
//! The checksum covers the key too: a value that turns up under another key, or in another table, is damage.

use bytes::{Bytes, BytesMut};
use leveret_wire::value::{FieldTable, ShortString};

use crate::{error::Damage, schema::Table};

/// Version and checksum.
pub(crate) const HEAD_LEN: usize = 5;

/// One value while it is written; kept from row to row, so that nothing is allocated per row.
#[derive(Debug, Default)]
pub(crate) struct RowBuf {
    bytes: Vec<u8>,
}

impl RowBuf {
    /// Begins a value of this version and drops what was in the buffer.
    pub(crate) fn start(&mut self, version: u8) -> &mut Self {
        self.bytes.clear();
        self.bytes.extend_from_slice(&[version, 0, 0, 0, 0]);
        self
    }

    pub(crate) fn u8(&mut self, number: u8) -> &mut Self {
        self.bytes.push(number);
        self
    }

    pub(crate) fn u32(&mut self, number: u32) -> &mut Self {
        self.raw(&number.to_be_bytes())
    }

    pub(crate) fn u64(&mut self, number: u64) -> &mut Self {
        self.raw(&number.to_be_bytes())
    }

    /// Bytes whose length is known from elsewhere.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub(crate) fn short(&mut self, string: &ShortString) -> &mut Self {
        let bytes = string.as_bytes();
        self.u8(u8::try_from(bytes.len()).expect("a short string has at most 255 bytes"))
            .raw(bytes)
    }

    /// # Panics
    ///
    /// From 4 GiB on; whatever is stored came in a frame of less.
    pub(crate) fn long(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(u32::try_from(bytes.len()).expect("a field came in a frame"))
            .raw(bytes)
    }

    /// A number of texts, then the texts.
    pub(crate) fn texts(&mut self, texts: &[String]) -> &mut Self {
        self.u32(u32::try_from(texts.len()).expect("they came in one request"));
        for text in texts {
            self.long(text.as_bytes());
        }
        self
    }

    /// A limit that may be set, to a negative number too.
    pub(crate) fn limit(&mut self, limit: Option<i64>) -> &mut Self {
        self.u8(u8::from(limit.is_some()))
            .raw(&limit.unwrap_or(0).to_be_bytes())
    }

    pub(crate) fn table(&mut self, table: &FieldTable) -> &mut Self {
        let mut bytes = BytesMut::new();
        table.encode_payload(&mut bytes);
        self.long(&bytes)
    }

    /// The whole value, with its checksum.
    pub(crate) fn seal(&mut self, table: Table, key: &[u8]) -> &[u8] {
        self.seal_before(table, key, &[])
    }

    /// The value up to `tail`, which will follow it in the store and is covered by the checksum too.
    pub(crate) fn seal_before(&mut self, table: Table, key: &[u8], tail: &[u8]) -> &[u8] {
        let (head, fields) = self
            .bytes
            .split_first_chunk_mut::<HEAD_LEN>()
            .expect("start wrote the head");
        let [version, checksum @ ..] = head;
        let sum = crc32c::crc32c_append(checksum_of(table, key, *version, fields), tail);
        *checksum = sum.to_be_bytes();
        &self.bytes
    }
}

fn checksum_of(table: Table, key: &[u8], version: u8, fields: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&[table as u8]);
    let sum = crc32c::crc32c_append(sum, key);
    let sum = crc32c::crc32c_append(sum, &[version]);
    crc32c::crc32c_append(sum, fields)
}

/// Says whether a value is as it was written, whatever it means.
pub(crate) fn check_seal(table: Table, key: &[u8], value: &[u8]) -> Result<(), Damage> {
    let (&[version, ref checksum @ ..], rest) = value
        .split_first_chunk::<HEAD_LEN>()
        .ok_or(Damage::TooShort)?;
    if checksum_of(table, key, version, rest) == u32::from_be_bytes(*checksum) {
        Ok(())
    } else {
        Err(Damage::Checksum)
    }
}

/// The fields of one stored value, taken off the front.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Checks the value as a whole: nothing is read from a row whose checksum does not match.
    pub(crate) fn open(
        table: Table,
        key: &[u8],
        value: &'a [u8],
        version: u8,
    ) -> Result<Self, Damage> {
        match Self::open_any(table, key, value)? {
            (found, fields) if found == version => Ok(fields),
            (found, _) => Err(Damage::Version { found }),
        }
    }

    /// The same where there are several versions: also says which one it is.
    pub(crate) fn open_any(
        table: Table,
        key: &[u8],
        value: &'a [u8],
    ) -> Result<(u8, Self), Damage> {
        let (&[found, ref checksum @ ..], rest) = value
            .split_first_chunk::<HEAD_LEN>()
            .ok_or(Damage::TooShort)?;
        if checksum_of(table, key, found, rest) != u32::from_be_bytes(*checksum) {
            return Err(Damage::Checksum);
        }
        Ok((found, Self { rest }))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Damage> {
        self.chunk::<1>().map(|[number]| number)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Damage> {
        self.chunk().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Damage> {
        self.chunk().map(u64::from_be_bytes)
    }

    pub(crate) fn raw(&mut self, len: usize) -> Result<&'a [u8], Damage> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Damage::TooShort)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn short(&mut self) -> Result<ShortString, Damage> {
        let len = self.u8()?;
        let bytes = self.raw(len.into())?;
        ShortString::try_from(bytes).map_err(|_| Damage::Malformed)
    }

    pub(crate) fn long(&mut self) -> Result<&'a [u8], Damage> {
        let len = usize::try_from(self.u32()?).map_err(|_| Damage::Malformed)?;
        self.raw(len)
    }

    pub(crate) fn text(&mut self) -> Result<String, Damage> {
        String::from_utf8(self.long()?.to_vec()).map_err(|_| Damage::Malformed)
    }

    pub(crate) fn texts(&mut self) -> Result<Vec<String>, Damage> {
        (0..self.u32()?).map(|_| self.text()).collect()
    }

    pub(crate) fn limit(&mut self) -> Result<Option<i64>, Damage> {
        let is_set = match self.u8()? {
            0 => false,
            1 => true,
            _ => return Err(Damage::Malformed),
        };
        let limit = self.chunk().map(i64::from_be_bytes)?;
        Ok(is_set.then_some(limit))
    }

    pub(crate) fn table(&mut self) -> Result<FieldTable, Damage> {
        let bytes = Bytes::copy_from_slice(self.long()?);
        FieldTable::decode_all(&bytes).map_err(|_| Damage::Malformed)
    }

    /// Everything that is left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Says that the row ends here.
    pub(crate) fn end(self) -> Result<(), Damage> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Damage::Malformed)
        }
    }

    fn chunk<const LEN: usize>(&mut self) -> Result<[u8; LEN], Damage> {
        let (taken, rest) = self
            .rest
            .split_first_chunk::<LEN>()
            .ok_or(Damage::TooShort)?;
        self.rest = rest;
        Ok(*taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"key";

    fn sealed() -> Vec<u8> {
        let mut row = RowBuf::default();
        row.start(1)
            .u8(7)
            .u64(9)
            .short(&ShortString::from_static("jobs"))
            .long(b"bytes");
        row.seal(Table::Meta, KEY).to_vec()
    }

    #[test]
    fn a_row_is_version_checksum_and_fields() {
        let hex: String = sealed().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            concat!(
                "01",
                "524ab614",
                "07",
                "0000000000000009",
                "046a6f6273",
                "000000056279746573"
            )
        );
    }

    #[test]
    fn fields_come_back_in_their_order() {
        let value = sealed();
        let mut fields = Fields::open(Table::Meta, KEY, &value, 1).unwrap();
        assert_eq!(fields.u8(), Ok(7));
        assert_eq!(fields.u64(), Ok(9));
        assert_eq!(fields.short().unwrap(), "jobs");
        assert_eq!(fields.long(), Ok(b"bytes".as_slice()));
        assert_eq!(fields.end(), Ok(()));
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let value = sealed();
        for bit in 0..value.len() * 8 {
            let mut damaged = value.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let opened = Fields::open(Table::Meta, KEY, &damaged, 1);
            assert_eq!(opened.map(|_| ()), Err(Damage::Checksum), "bit {bit}");
        }
    }

    #[test]
    fn a_value_under_another_key_or_in_another_table_is_damage() {
        let value = sealed();
        assert_eq!(
            Fields::open(Table::Meta, b"kez", &value, 1).map(|_| ()),
            Err(Damage::Checksum)
        );
        assert_eq!(
            Fields::open(Table::Commits, KEY, &value, 1).map(|_| ()),
            Err(Damage::Checksum)
        );
    }

    #[test]
    fn a_value_that_ends_early_is_damage() {
        assert_eq!(
            Fields::open(Table::Meta, KEY, &[1, 2, 3, 4], 1).map(|_| ()),
            Err(Damage::TooShort)
        );
        let value = sealed();
        let mut fields = Fields::open(Table::Meta, KEY, &value, 1).unwrap();
        assert_eq!(fields.raw(1000), Err(Damage::TooShort));
    }

    #[test]
    fn an_unknown_version_is_named() {
        let mut row = RowBuf::default();
        let value = row.start(2).seal(Table::Meta, KEY).to_vec();
        assert_eq!(
            Fields::open(Table::Meta, KEY, &value, 1).map(|_| ()),
            Err(Damage::Version { found: 2 })
        );
    }
}
