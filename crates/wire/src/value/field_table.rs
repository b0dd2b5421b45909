//! Keys with typed values, in the order they came.

use bytes::Bytes;

use super::read::Reader;
use super::{FieldValue, ShortString, TABLE_ENTRIES_MAX, ValueError};

/// Keys with typed values, in the order they came. A key may be empty and may come twice; then the first one counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FieldTable {
    entries: Vec<(ShortString, FieldValue)>,
}

impl FieldTable {
    /// The table without entries.
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// Reads the payload of a table, which is what follows its four octets of length.
    ///
    /// `payload` is a part of `chunk`, and the strings of the table become slices of it.
    pub fn decode(chunk: &Bytes, payload: &[u8]) -> Result<Self, ValueError> {
        Self::decode_within(TABLE_ENTRIES_MAX, chunk, payload)
    }

    /// The same with another number of entries, instead of [`TABLE_ENTRIES_MAX`].
    pub(crate) fn decode_within(
        entries_max: usize,
        chunk: &Bytes,
        payload: &[u8],
    ) -> Result<Self, ValueError> {
        Reader::new(chunk, entries_max).table(payload)
    }

    /// Reads a table that fills a buffer of its own, without octets of length.
    pub fn decode_all(payload: &Bytes) -> Result<Self, ValueError> {
        Self::decode(payload, payload)
    }

    /// The first value under the key.
    pub fn get(&self, key: &[u8]) -> Option<&FieldValue> {
        self.entries
            .iter()
            .find(|(known, _)| known.as_bytes() == key)
            .map(|(_, value)| value)
    }

    /// Adds an entry behind the others, whether or not the key is there.
    pub fn push(&mut self, key: ShortString, value: FieldValue) {
        self.entries.push((key, value));
    }

    /// The table with one more entry; the key is known at compile time.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: FieldValue) -> Self {
        self.push(ShortString::from_static(key), value);
        self
    }

    /// Puts the value under the key: in the place of the first one there, or else behind the others.
    pub fn set(&mut self, key: ShortString, value: FieldValue) {
        match self.entries.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => *old = value,
            None => self.push(key, value),
        }
    }

    /// Removes all entries with the key and says whether there were any.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let before = self.entries.len();
        self.entries.retain(|(known, _)| known.as_bytes() != key);
        self.entries.len() != before
    }

    /// The entries in their order.
    pub fn iter(&self) -> std::slice::Iter<'_, (ShortString, FieldValue)> {
        self.entries.iter()
    }

    /// How many entries the table has.
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the table has no entries.
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A copy that keeps no read buffer alive; for what outlives the method it came with.
    #[must_use]
    pub fn detach(&self) -> Self {
        self.iter()
            .map(|(key, value)| (key.detach(), value.detach()))
            .collect()
    }
}

impl FromIterator<(ShortString, FieldValue)> for FieldTable {
    fn from_iter<I: IntoIterator<Item = (ShortString, FieldValue)>>(entries: I) -> Self {
        Self {
            entries: entries.into_iter().collect(),
        }
    }
}

impl Extend<(ShortString, FieldValue)> for FieldTable {
    fn extend<I: IntoIterator<Item = (ShortString, FieldValue)>>(&mut self, entries: I) {
        self.entries.extend(entries);
    }
}

impl IntoIterator for FieldTable {
    type Item = (ShortString, FieldValue);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<'a> IntoIterator for &'a FieldTable {
    type Item = &'a (ShortString, FieldValue);
    type IntoIter = std::slice::Iter<'a, (ShortString, FieldValue)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
