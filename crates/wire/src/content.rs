//! What travels with a message: the content header and its properties.
//!
//! ```text
//!   class (2)   weight (2)   body size (8)   flags (2)   the flagged properties, one after the other
//! ```
//!
//! The broker passes properties on as the bytes it received, so they stay [`RawProperties`] until someone asks.
//! [`RawProperties::scan`] looks at them once, without building anything; [`BasicProperties`] is for whoever changes them.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::ids::ClassId;
use crate::method::basic;
use crate::value::{ShortString, TABLE_ENTRIES_MAX, ValueError};

mod extra_header;
mod properties;
mod scan;

pub use extra_header::ExtraHeader;
pub use properties::BasicProperties;
pub use scan::PropertyScan;

/// The largest body that RabbitMQ can be configured to take; a header that announces more is a framing error.
pub const BODY_SIZE_MAX: u64 = 536_870_912;

/// Class, weight and body size.
const FIXED_LEN: usize = 12;

/// Says that another word of flags follows. No class has that many properties.
const FLAG_CONTINUATION: u16 = 1;

/// The one bit that means neither a property nor a continuation; RabbitMQ ignores it and does not pass it on.
const FLAG_UNUSED: u16 = 1 << 1;

/// A content header that cannot be read. The text is the one behind `FRAME_ERROR - `.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// The announced body is larger than [`BODY_SIZE_MAX`].
    #[error("content body size {size} exceeds maximum allowed size {BODY_SIZE_MAX}")]
    BodyTooLarge {
        /// The announced size.
        size: u64,
    },
    /// The frame ends before the flags do.
    #[error("content header of {len} bytes is too short")]
    TooShort {
        /// How long the payload is.
        len: usize,
    },
    /// The flags go on in another word, which RabbitMQ does not support either.
    #[error("content header with a second word of property flags")]
    Continuation,
    /// The flags promise what the bytes do not hold, or bytes are left over.
    #[error("cannot decode content properties: {0}")]
    Properties(#[from] ValueError),
}

/// A content header as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentHeader {
    /// The class of the method that the content belongs to.
    pub class_id: ClassId,
    /// Always 0; RabbitMQ takes a header with another weight for no header at all.
    pub weight: u16,
    /// How long the body is, all frames together.
    pub body_size: u64,
    /// The properties, not looked at.
    pub properties: RawProperties,
}

impl ContentHeader {
    /// Reads the payload of a header frame.
    ///
    /// The properties become a slice of the chunk; [`RawProperties::scan`] tells whether they are well-formed.
    ///
    /// # Panics
    ///
    /// When `payload` is not a part of `chunk`.
    pub fn decode(chunk: &Bytes, payload: &[u8]) -> Result<Self, ContentError> {
        let Some((mut fixed, properties)) = payload.split_at_checked(FIXED_LEN) else {
            return Err(ContentError::TooShort { len: payload.len() });
        };
        let class_id = ClassId::new(fixed.get_u16());
        let weight = fixed.get_u16();
        let body_size = fixed.get_u64();
        // RabbitMQ looks at class and weight first, and a header that fails there is not measured.
        let is_expected = class_id.get() == basic::Basic::CLASS_ID && weight == 0;
        if is_expected && body_size > BODY_SIZE_MAX {
            return Err(ContentError::BodyTooLarge { size: body_size });
        }
        let properties = RawProperties::from_wire(chunk.slice_ref(properties))?;
        Ok(Self {
            class_id,
            weight,
            body_size,
            properties,
        })
    }
}

/// The flags and properties of a message, byte by byte as they were received.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RawProperties(Bytes);

impl RawProperties {
    /// No properties: a word of flags with none set.
    pub const EMPTY: Self = Self(Bytes::from_static(&[0, 0]));

    /// Takes the bytes as they are. Only the flags are looked at; see [`RawProperties::scan`].
    pub fn from_wire(bytes: Bytes) -> Result<Self, ContentError> {
        match bytes.first_chunk::<2>() {
            None => Err(ContentError::TooShort {
                len: FIXED_LEN + bytes.len(),
            }),
            Some(&flags) if u16::from_be_bytes(flags) & FLAG_CONTINUATION != 0 => {
                Err(ContentError::Continuation)
            }
            Some(_) => Ok(Self(bytes)),
        }
    }

    /// The bytes as they are.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as a slice of the buffer they came with.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// Which properties are there, the highest bit first.
    pub fn flags(&self) -> u16 {
        self.split().0
    }

    /// Looks at every property once, without building anything, and tells whether they are well-formed.
    pub fn scan(&self) -> Result<PropertyScan<'_>, ContentError> {
        let (flags, fields) = self.split();
        scan::scan(flags, fields, TABLE_ENTRIES_MAX)
    }

    /// The same of what was scanned when it came: the broker's own headers are on top of what a peer may send.
    fn scan_own(&self) -> Result<PropertyScan<'_>, ContentError> {
        let (flags, fields) = self.split();
        scan::scan(flags, fields, usize::MAX)
    }

    /// The payload of the headers table as a slice of these bytes.
    pub fn headers(&self) -> Result<Option<Bytes>, ContentError> {
        let headers = self.scan()?.headers;
        Ok(headers.map(|payload| self.0.slice_ref(payload)))
    }

    /// The same without every header of this name; an empty table stays.
    pub fn without_header(&self, name: &[u8]) -> Result<Self, ContentError> {
        let mut properties = BasicProperties::decode(self)?;
        if let Some(headers) = &mut properties.headers {
            headers.remove(name);
        }
        Ok(properties.encode())
    }

    /// The same with another reply-to.
    pub fn with_reply_to(&self, reply_to: ShortString) -> Result<Self, ContentError> {
        let mut properties = BasicProperties::decode(self)?;
        properties.reply_to = Some(reply_to);
        Ok(properties.encode())
    }

    /// The same with another expiration.
    pub fn with_expiration(&self, expiration: ShortString) -> Result<Self, ContentError> {
        let mut properties = BasicProperties::decode(self)?;
        properties.expiration = Some(expiration);
        Ok(properties.encode())
    }

    /// A copy that keeps no read buffer alive.
    #[must_use]
    pub fn detach(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    fn split(&self) -> (u16, &[u8]) {
        match self.0.split_first_chunk() {
            Some((&flags, fields)) => (u16::from_be_bytes(flags), fields),
            None => (0, &[]),
        }
    }
}

impl Default for RawProperties {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Writes the payload of a header frame around properties that were received or encoded before.
pub(crate) fn put_header_payload(
    out: &mut BytesMut,
    class_id: ClassId,
    body_size: u64,
    properties: &[u8],
) {
    let (&flags, fields) = properties
        .split_first_chunk()
        .expect("properties begin with flags");
    out.reserve(FIXED_LEN + properties.len() + 1);
    out.put_slice(&class_id.to_be_bytes());
    out.put_u16(0);
    out.put_u64(body_size);
    out.put_u16(u16::from_be_bytes(flags) & !FLAG_UNUSED);
    out.put_slice(fields);
}
