//! One sequence of bytes for all tables that mean the same binding.

use bytes::BytesMut;

use super::FieldTable;
use super::write::put_short_bytes;

impl FieldTable {
    /// The entries encoded in the order of their keys: equal exactly when two tables hold the same keys with the same
    /// types and values, in whatever order.
    ///
    /// This is what tells two bindings apart: `{a: I 1}` and `{a: l 1}` are two, the order of keys makes none. As in
    /// RabbitMQ only the outermost keys are put in order; a table inside counts as it was sent.
    pub fn canonical_bytes(&self) -> Vec<u8> {
        let mut entries: Vec<_> = self.iter().collect();
        // Stable, because of two entries with one key the first one counts.
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut out = BytesMut::new();
        for (key, value) in entries {
            put_short_bytes(&mut out, key.as_bytes());
            value.encode(&mut out);
        }
        out.into()
    }
}
