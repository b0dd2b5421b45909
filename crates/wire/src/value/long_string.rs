//! A string with four octets of length.

use std::fmt;
use std::str::Utf8Error;

use bytes::Bytes;

use crate::octets_text::lenient_text;

/// A string of up to four gigabytes. Text by intention, but any bytes may come from a peer.
///
/// Read from a frame it is a slice of the read buffer; see [`LongString::detach`].
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LongString(Bytes);

impl LongString {
    /// The string without bytes.
    pub const fn empty() -> Self {
        Self(Bytes::new())
    }

    /// A string known at compile time.
    pub const fn from_static(text: &'static str) -> Self {
        Self(Bytes::from_static(text.as_bytes()))
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

impl From<Bytes> for LongString {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

impl From<&str> for LongString {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<String> for LongString {
    fn from(text: String) -> Self {
        Self(Bytes::from(text))
    }
}

impl From<Vec<u8>> for LongString {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Bytes::from(bytes))
    }
}

impl From<LongString> for Bytes {
    fn from(string: LongString) -> Self {
        string.0
    }
}

impl AsRef<[u8]> for LongString {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for LongString {
    /// The text; bytes that are not UTF-8 are shown as one character each, as in RabbitMQ's reply texts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        lenient_text(&self.0).fmt(f)
    }
}

impl fmt::Debug for LongString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}
