//! Tables that are kept long and seldom read.

use bytes::{Bytes, BytesMut};

use super::FieldTable;

/// A table as it is sent: one piece of memory, where a [`FieldTable`] has one for itself and one for every string.
///
/// It is read anew for whoever asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EncodedTable {
    payload: Box<[u8]>,
}

impl EncodedTable {
    /// The table, read from a copy: what is kept stays in one piece.
    #[must_use]
    pub fn table(&self) -> FieldTable {
        // What was a table is one: it has as many levels and entries as it had.
        FieldTable::decode_all(&Bytes::copy_from_slice(&self.payload)).unwrap_or_default()
    }
}

impl From<&FieldTable> for EncodedTable {
    fn from(table: &FieldTable) -> Self {
        let mut payload = BytesMut::new();
        table.encode_payload(&mut payload);
        Self {
            payload: payload.as_ref().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::FieldValue;

    #[test]
    fn a_table_is_what_it_was() {
        let inner = FieldTable::new().with("consumer_cancel_notify", FieldValue::Bool(true));
        let table = FieldTable::new()
            .with("product", FieldValue::text("a client"))
            .with("capabilities", FieldValue::Table(inner));
        assert_eq!(EncodedTable::from(&table).table(), table);
    }

    #[test]
    fn nothing_is_an_empty_table() {
        assert_eq!(EncodedTable::default().table(), FieldTable::new());
    }
}
