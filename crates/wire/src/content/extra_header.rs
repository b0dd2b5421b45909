//! Properties that say a little more, put between bytes that stay as they were received.

use bytes::{BufMut, Bytes, BytesMut};

use super::properties::flag;
use super::{ContentError, RawProperties, scan};
use crate::value::{RawTable, put_short_bytes};

/// What [`RawProperties::put_with`] adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtraHeader<'a> {
    /// The header's name, at most 255 bytes. One of that name that is there already is left out.
    pub name: &'a [u8],
    /// Its value, a 64-bit number.
    pub value: i64,
    /// The delivery mode of properties that have none.
    pub delivery_mode: u8,
}

/// Octets of the length before a table.
const TABLE_LEN_LEN: usize = 4;

impl RawProperties {
    /// Appends properties to `out` with one more header behind the others.
    ///
    /// # Errors
    ///
    /// When the properties are malformed; `out` is as it was then.
    pub fn put_with(
        properties: &[u8],
        extra: ExtraHeader<'_>,
        out: &mut BytesMut,
    ) -> Result<(), ContentError> {
        let Some((&flags, fields)) = properties.split_first_chunk() else {
            let len = properties.len();
            return Err(ContentError::TooShort { len });
        };
        let flags = u16::from_be_bytes(flags);
        let found = scan::scan(flags, fields, usize::MAX)?;
        let headers = found.headers.unwrap_or_default();
        if RawTable::new(headers).get(extra.name).is_some() {
            let raw = Self::from_wire(Bytes::copy_from_slice(properties))?;
            let without = raw.without_header(extra.name)?;
            return Self::put_with(without.as_bytes(), extra, out);
        }
        // Headers come third on the wire, and the delivery mode fourth.
        let short_len = |string: Option<&[u8]>| string.map_or(0, |string| 1 + string.len());
        let before_len = short_len(found.content_type) + short_len(found.content_encoding);
        let (before, rest) = fields.split_at(before_len);
        let table_len = found.headers.map_or(0, |_| TABLE_LEN_LEN + headers.len());
        let (_table, behind) = rest.split_at(table_len);
        let entry_len = 1 + extra.name.len() + 1 + size_of::<i64>();
        let payload_len = u32::try_from(headers.len() + entry_len).expect("it came in a frame");
        out.reserve(properties.len() + TABLE_LEN_LEN + entry_len + 1);
        out.put_u16(flags | flag::HEADERS | flag::DELIVERY_MODE);
        out.put_slice(before);
        out.put_u32(payload_len);
        out.put_slice(headers);
        put_short_bytes(out, extra.name);
        out.put_u8(b'l');
        out.put_i64(extra.value);
        if found.delivery_mode.is_none() {
            out.put_u8(extra.delivery_mode);
        }
        out.put_slice(behind);
        Ok(())
    }
}
