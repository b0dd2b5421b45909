//! Tables from the wire to values.

use bytes::Bytes;

use super::raw::{Check, RawValue, raw_value};
use super::{FieldTable, FieldValue, LongString, ShortString, ValueError};
use crate::primitive::{advance, short_bytes};

/// A part of the chunk as a slice of its own, without copying.
pub(crate) fn slice_of(chunk: &Bytes, part: &[u8]) -> Bytes {
    chunk.slice_ref(part)
}

/// Builds tables whose strings are slices of the chunk.
pub(super) struct Reader<'a> {
    chunk: &'a Bytes,
    check: Check,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(chunk: &'a Bytes, entries_max: usize) -> Self {
        Self {
            chunk,
            check: Check::within(entries_max),
        }
    }

    pub(super) fn table(&mut self, payload: &[u8]) -> Result<FieldTable, ValueError> {
        self.table_below(payload, 0)
    }

    fn table_below(&mut self, mut payload: &[u8], depth: usize) -> Result<FieldTable, ValueError> {
        let depth = Check::level(depth)?;
        let mut table = FieldTable::new();
        while !payload.is_empty() {
            self.check.entry()?;
            let key = advance(&mut payload, short_bytes)?;
            let value = advance(&mut payload, raw_value)?;
            let key = ShortString::from_wire(slice_of(self.chunk, key));
            table.push(key, self.value(value, depth)?);
        }
        Ok(table)
    }

    fn array_below(
        &mut self,
        mut payload: &[u8],
        depth: usize,
    ) -> Result<Vec<FieldValue>, ValueError> {
        let depth = Check::level(depth)?;
        let mut elements = Vec::new();
        while !payload.is_empty() {
            self.check.entry()?;
            let value = advance(&mut payload, raw_value)?;
            elements.push(self.value(value, depth)?);
        }
        Ok(elements)
    }

    fn value(&mut self, value: RawValue<'_>, depth: usize) -> Result<FieldValue, ValueError> {
        Ok(match value {
            RawValue::LongString(bytes) => {
                FieldValue::LongString(LongString::from(slice_of(self.chunk, bytes)))
            }
            RawValue::Bytes(bytes) => FieldValue::Bytes(slice_of(self.chunk, bytes)),
            RawValue::Bool(truth) => FieldValue::Bool(truth),
            RawValue::Byte(number) => FieldValue::Byte(number),
            RawValue::UnsignedByte(number) => FieldValue::UnsignedByte(number),
            RawValue::Short(number) => FieldValue::Short(number),
            RawValue::UnsignedShort(number) => FieldValue::UnsignedShort(number),
            RawValue::Int(number) => FieldValue::Int(number),
            RawValue::UnsignedInt(number) => FieldValue::UnsignedInt(number),
            RawValue::Long(number) => FieldValue::Long(number),
            RawValue::Float(number) => FieldValue::Float(number),
            RawValue::Double(number) => FieldValue::Double(number),
            RawValue::Decimal(decimal) => FieldValue::Decimal(decimal),
            RawValue::Timestamp(timestamp) => FieldValue::Timestamp(timestamp),
            RawValue::Void => FieldValue::Void,
            RawValue::Table(table) => FieldValue::Table(self.table_below(table.payload(), depth)?),
            RawValue::Array(payload) => FieldValue::Array(self.array_below(payload, depth)?),
        })
    }
}
