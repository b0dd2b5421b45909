//! One look at the properties, without building anything.

use nom::number::complete::{be_u8, be_u64};

use super::ContentError;
use super::properties::flag;
use crate::primitive::{advance, long_bytes, short_bytes};
use crate::value::{RawTable, ValueError};

/// The properties of a message where they stand in the received bytes. What is absent is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PropertyScan<'a> {
    /// MIME type of the body.
    pub content_type: Option<&'a [u8]>,
    /// How the body is packed.
    pub content_encoding: Option<&'a [u8]>,
    /// The payload of the headers table; read it with [`RawTable::new`] or [`crate::FieldTable::decode`].
    pub headers: Option<&'a [u8]>,
    /// 2 is persistent; every other number, and absence, is transient.
    pub delivery_mode: Option<u8>,
    /// Where in a queue with priorities.
    pub priority: Option<u8>,
    /// For the application: which request this answers.
    pub correlation_id: Option<&'a [u8]>,
    /// Where answers go.
    pub reply_to: Option<&'a [u8]>,
    /// How many milliseconds the message lives, in decimal digits.
    pub expiration: Option<&'a [u8]>,
    /// For the application: the name of the message.
    pub message_id: Option<&'a [u8]>,
    /// Seconds since 1970.
    pub timestamp: Option<u64>,
    /// For the application: the type of the message; `type` in the spec, which is a word of Rust.
    pub kind: Option<&'a [u8]>,
    /// Who sent it; the broker checks the name.
    pub user_id: Option<&'a [u8]>,
    /// For the application: what sent it.
    pub app_id: Option<&'a [u8]>,
    /// Without a meaning, passed through.
    pub cluster_id: Option<&'a [u8]>,
}

/// With at most so many entries of headers in all levels: what a peer sends is counted, what the broker keeps was.
pub(super) fn scan(
    flags: u16,
    fields: &[u8],
    entries_max: usize,
) -> Result<PropertyScan<'_>, ContentError> {
    let mut fields = Fields {
        flags,
        rest: fields,
    };
    // The order of the properties on the wire.
    let scan = PropertyScan {
        content_type: fields.short(flag::CONTENT_TYPE)?,
        content_encoding: fields.short(flag::CONTENT_ENCODING)?,
        headers: fields.headers(entries_max)?,
        delivery_mode: fields.octet(flag::DELIVERY_MODE)?,
        priority: fields.octet(flag::PRIORITY)?,
        correlation_id: fields.short(flag::CORRELATION_ID)?,
        reply_to: fields.short(flag::REPLY_TO)?,
        expiration: fields.short(flag::EXPIRATION)?,
        message_id: fields.short(flag::MESSAGE_ID)?,
        timestamp: fields.longlong(flag::TIMESTAMP)?,
        kind: fields.short(flag::KIND)?,
        user_id: fields.short(flag::USER_ID)?,
        app_id: fields.short(flag::APP_ID)?,
        cluster_id: fields.short(flag::CLUSTER_ID)?,
    };
    if !fields.rest.is_empty() {
        return Err(ValueError::Trailing.into());
    }
    Ok(scan)
}

struct Fields<'a> {
    flags: u16,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    const fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    fn short(&mut self, flag: u16) -> Result<Option<&'a [u8]>, ValueError> {
        self.has(flag)
            .then(|| advance(&mut self.rest, short_bytes))
            .transpose()
    }

    fn octet(&mut self, flag: u16) -> Result<Option<u8>, ValueError> {
        self.has(flag)
            .then(|| advance(&mut self.rest, be_u8))
            .transpose()
    }

    fn longlong(&mut self, flag: u16) -> Result<Option<u64>, ValueError> {
        self.has(flag)
            .then(|| advance(&mut self.rest, be_u64))
            .transpose()
    }

    fn headers(&mut self, entries_max: usize) -> Result<Option<&'a [u8]>, ValueError> {
        if !self.has(flag::HEADERS) {
            return Ok(None);
        }
        let payload = advance(&mut self.rest, long_bytes)?;
        RawTable::new(payload).check_within(entries_max)?;
        Ok(Some(payload))
    }
}
