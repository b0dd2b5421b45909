//! Values to the wire.

use bytes::{BufMut, BytesMut};

use super::{FieldTable, FieldValue};

/// An octet of length, then the bytes.
pub(crate) fn put_short_bytes(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u8(u8::try_from(bytes.len()).expect("a short string has at most 255 bytes"));
    out.put_slice(bytes);
}

/// Four octets of length, then the bytes.
pub(crate) fn put_long_bytes(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32(long_len(bytes.len()));
    out.put_slice(bytes);
}

/// Four octets of length, then whatever `fill` writes.
pub(crate) fn put_sized(out: &mut BytesMut, fill: impl FnOnce(&mut BytesMut)) {
    let length_at = out.len();
    out.put_u32(0);
    let start = out.len();
    fill(out);
    let length = long_len(out.len() - start);
    out.get_mut(length_at..start)
        .expect("the length was written above")
        .copy_from_slice(&length.to_be_bytes());
}

fn long_len(len: usize) -> u32 {
    u32::try_from(len).expect("nothing of four gigabytes is ever built for a frame")
}

impl FieldTable {
    /// Writes the table with its four octets of length.
    pub fn encode(&self, out: &mut BytesMut) {
        put_sized(out, |out| self.encode_payload(out));
    }

    /// Writes the entries alone.
    pub fn encode_payload(&self, out: &mut BytesMut) {
        for (key, value) in self {
            put_short_bytes(out, key.as_bytes());
            value.encode(out);
        }
    }
}

impl FieldValue {
    /// Writes the letter and the value.
    pub fn encode(&self, out: &mut BytesMut) {
        out.put_u8(self.letter());
        match self {
            Self::LongString(string) => put_long_bytes(out, string.as_bytes()),
            Self::Bytes(bytes) => put_long_bytes(out, bytes),
            Self::Bool(truth) => out.put_u8((*truth).into()),
            Self::Byte(number) => out.put_i8(*number),
            Self::UnsignedByte(number) => out.put_u8(*number),
            Self::Short(number) => out.put_i16(*number),
            Self::UnsignedShort(number) => out.put_u16(*number),
            Self::Int(number) => out.put_i32(*number),
            Self::UnsignedInt(number) => out.put_u32(*number),
            Self::Long(number) => out.put_i64(*number),
            Self::Float(number) => out.put_f32(*number),
            Self::Double(number) => out.put_f64(*number),
            Self::Decimal(decimal) => {
                out.put_u8(decimal.scale);
                out.put_u32(decimal.value);
            }
            Self::Timestamp(timestamp) => out.put_u64(timestamp.0),
            Self::Void => {}
            Self::Table(table) => table.encode(out),
            Self::Array(elements) => put_sized(out, |out| {
                for element in elements {
                    element.encode(out);
                }
            }),
        }
    }
}
