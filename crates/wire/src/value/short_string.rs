//! A string of at most 255 bytes.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    str::Utf8Error,
};

use bytes::Bytes;

use crate::octets_text::lenient_text;

/// A string of at most 255 bytes: names, keys, tags. Text by intention, but any bytes may come from a peer.
///
/// Read from a frame it is a slice of the read buffer and keeps that whole buffer alive; whatever holds on to a name calls
/// [`ShortString::detach`].
#[derive(Clone, Default, Eq)]
pub struct ShortString(Bytes);

/// More bytes than a short string can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{len} bytes do not fit into a short string, which carries 255")]
pub struct TooLong {
    /// How many bytes there were.
    pub len: usize,
}

impl ShortString {
    /// The longest short string, since one octet carries the length.
    pub const LEN_MAX: usize = 255;

    /// The string without bytes.
    pub const fn empty() -> Self {
        Self(Bytes::new())
    }

    /// A string known at compile time.
    ///
    /// # Panics
    ///
    /// When the text is longer than [`Self::LEN_MAX`].
    pub const fn from_static(text: &'static str) -> Self {
        assert!(text.len() <= Self::LEN_MAX);
        Self(Bytes::from_static(text.as_bytes()))
    }

    /// The bytes as they came; whoever calls this has read the length from one octet.
    pub(crate) const fn from_wire(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The longest start of the text that fits, cut at a border of characters.
    pub fn cut(text: &str) -> Self {
        let end = text.floor_char_boundary(Self::LEN_MAX);
        let (start, _) = text.split_at(end);
        Self(Bytes::copy_from_slice(start.as_bytes()))
    }

    /// The bytes of the string.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The string as a slice of the buffer it came with.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// The string as text, if it is UTF-8.
    pub fn to_str(&self) -> Result<&str, Utf8Error> {
        std::str::from_utf8(&self.0)
    }

    /// How many bytes the string has.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the string has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A copy that keeps no read buffer alive.
    #[must_use]
    pub fn detach(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }
}

impl TryFrom<Bytes> for ShortString {
    type Error = TooLong;

    fn try_from(bytes: Bytes) -> Result<Self, TooLong> {
        if bytes.len() > Self::LEN_MAX {
            return Err(TooLong { len: bytes.len() });
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<&[u8]> for ShortString {
    type Error = TooLong;

    fn try_from(bytes: &[u8]) -> Result<Self, TooLong> {
        if bytes.len() > Self::LEN_MAX {
            return Err(TooLong { len: bytes.len() });
        }
        Ok(Self(Bytes::copy_from_slice(bytes)))
    }
}

impl TryFrom<&str> for ShortString {
    type Error = TooLong;

    fn try_from(text: &str) -> Result<Self, TooLong> {
        Self::try_from(text.as_bytes())
    }
}

impl TryFrom<String> for ShortString {
    type Error = TooLong;

    fn try_from(text: String) -> Result<Self, TooLong> {
        Self::try_from(Bytes::from(text))
    }
}

impl From<ShortString> for Bytes {
    fn from(string: ShortString) -> Self {
        string.0
    }
}

impl AsRef<[u8]> for ShortString {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for ShortString {
    /// Names are compared for every message, and that of the default exchange is empty. No bytes lie nowhere, and the C
    /// library's comparison looks there all the same: on processors with AVX-512 that took a fifth of a small message's time.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && (self.is_empty() || self.0 == other.0)
    }
}

impl Hash for ShortString {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Ord for ShortString {
    /// For the empty name see `eq`.
    fn cmp(&self, other: &Self) -> Ordering {
        if self.is_empty() || other.is_empty() {
            return self.len().cmp(&other.len());
        }
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for ShortString {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq<str> for ShortString {
    fn eq(&self, text: &str) -> bool {
        self.0 == text.as_bytes()
    }
}

impl PartialEq<&str> for ShortString {
    fn eq(&self, text: &&str) -> bool {
        self.0 == text.as_bytes()
    }
}

impl fmt::Display for ShortString {
    /// The text; bytes that are not UTF-8 are shown as one character each, as in RabbitMQ's reply texts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        lenient_text(&self.0).fmt(f)
    }
}

impl fmt::Debug for ShortString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::ShortString;

    #[test]
    fn names_compare_as_their_bytes_do_also_without_any() {
        let texts = ["", "a", "aa", "b", "B", "\0"];
        for one in texts {
            for other in texts {
                let (left, right) = (ShortString::from_static(one), ShortString::cut(other));
                assert_eq!(left == right, one == other, "{one:?} {other:?}");
                assert_eq!(left.cmp(&right), one.cmp(other), "{one:?} {other:?}");
            }
        }
    }
}
