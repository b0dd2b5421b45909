//! The properties as values, for whoever reads all of them or changes one.

use bytes::{BufMut, Bytes, BytesMut};

use super::{ContentError, RawProperties};
use crate::value::{FieldTable, ShortString, Timestamp, put_short_bytes};

/// The bit of each property in the word of flags; the properties follow in this order.
pub(super) mod flag {
    pub(in crate::content) const CONTENT_TYPE: u16 = 1 << 15;
    pub(in crate::content) const CONTENT_ENCODING: u16 = 1 << 14;
    pub(in crate::content) const HEADERS: u16 = 1 << 13;
    pub(in crate::content) const DELIVERY_MODE: u16 = 1 << 12;
    pub(in crate::content) const PRIORITY: u16 = 1 << 11;
    pub(in crate::content) const CORRELATION_ID: u16 = 1 << 10;
    pub(in crate::content) const REPLY_TO: u16 = 1 << 9;
    pub(in crate::content) const EXPIRATION: u16 = 1 << 8;
    pub(in crate::content) const MESSAGE_ID: u16 = 1 << 7;
    pub(in crate::content) const TIMESTAMP: u16 = 1 << 6;
    pub(in crate::content) const KIND: u16 = 1 << 5;
    pub(in crate::content) const USER_ID: u16 = 1 << 4;
    pub(in crate::content) const APP_ID: u16 = 1 << 3;
    pub(in crate::content) const CLUSTER_ID: u16 = 1 << 2;
}

/// The fourteen properties of a message. What is absent is `None`, which differs from empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct BasicProperties {
    /// MIME type of the body.
    pub content_type: Option<ShortString>,
    /// How the body is packed.
    pub content_encoding: Option<ShortString>,
    /// The headers table.
    pub headers: Option<FieldTable>,
    /// 2 is persistent; every other number, and absence, is transient.
    pub delivery_mode: Option<u8>,
    /// Where in a queue with priorities.
    pub priority: Option<u8>,
    /// For the application: which request this answers.
    pub correlation_id: Option<ShortString>,
    /// Where answers go.
    pub reply_to: Option<ShortString>,
    /// How many milliseconds the message lives, in decimal digits.
    pub expiration: Option<ShortString>,
    /// For the application: the name of the message.
    pub message_id: Option<ShortString>,
    /// Seconds since 1970.
    pub timestamp: Option<Timestamp>,
    /// For the application: the type of the message; `type` in the spec, which is a word of Rust.
    pub kind: Option<ShortString>,
    /// Who sent it; the broker checks the name.
    pub user_id: Option<ShortString>,
    /// For the application: what sent it.
    pub app_id: Option<ShortString>,
    /// Without a meaning, passed through.
    pub cluster_id: Option<ShortString>,
}

impl BasicProperties {
    /// The names of the spec with their types and flags, in the order of the wire.
    pub const DEFINITION: [(&'static str, &'static str, u16); 14] = [
        ("content-type", "shortstr", flag::CONTENT_TYPE),
        ("content-encoding", "shortstr", flag::CONTENT_ENCODING),
        ("headers", "table", flag::HEADERS),
        ("delivery-mode", "octet", flag::DELIVERY_MODE),
        ("priority", "octet", flag::PRIORITY),
        ("correlation-id", "shortstr", flag::CORRELATION_ID),
        ("reply-to", "shortstr", flag::REPLY_TO),
        ("expiration", "shortstr", flag::EXPIRATION),
        ("message-id", "shortstr", flag::MESSAGE_ID),
        ("timestamp", "timestamp", flag::TIMESTAMP),
        ("type", "shortstr", flag::KIND),
        ("user-id", "shortstr", flag::USER_ID),
        ("app-id", "shortstr", flag::APP_ID),
        ("cluster-id", "shortstr", flag::CLUSTER_ID),
    ];

    /// Reads all properties; their strings become slices of the received bytes.
    ///
    /// What a peer sent is to be scanned before ([`RawProperties::scan`]): here headers have no bound but their length, as the broker
    /// adds its own to those of a message that it has taken.
    pub fn decode(raw: &RawProperties) -> Result<Self, ContentError> {
        let scan = raw.scan_own()?;
        let chunk = &raw.0;
        let short = |bytes: Option<&[u8]>| -> Option<ShortString> {
            bytes.map(|bytes| ShortString::from_wire(chunk.slice_ref(bytes)))
        };
        let headers = scan
            .headers
            .map(|payload| FieldTable::decode_within(usize::MAX, chunk, payload))
            .transpose()?;
        Ok(Self {
            content_type: short(scan.content_type),
            content_encoding: short(scan.content_encoding),
            headers,
            delivery_mode: scan.delivery_mode,
            priority: scan.priority,
            correlation_id: short(scan.correlation_id),
            reply_to: short(scan.reply_to),
            expiration: short(scan.expiration),
            message_id: short(scan.message_id),
            timestamp: scan.timestamp.map(Timestamp),
            kind: short(scan.kind),
            user_id: short(scan.user_id),
            app_id: short(scan.app_id),
            cluster_id: short(scan.cluster_id),
        })
    }

    /// Writes the word of flags and the properties that are there.
    pub fn encode(&self) -> RawProperties {
        let mut fields = Fields {
            flags: 0,
            out: BytesMut::from(&[0, 0][..]),
        };
        // The order of the properties on the wire.
        fields.short(flag::CONTENT_TYPE, &self.content_type);
        fields.short(flag::CONTENT_ENCODING, &self.content_encoding);
        fields.put(flag::HEADERS, &self.headers, FieldTable::encode);
        fields.put(flag::DELIVERY_MODE, &self.delivery_mode, |mode, out| {
            out.put_u8(*mode)
        });
        fields.put(flag::PRIORITY, &self.priority, |priority, out| {
            out.put_u8(*priority)
        });
        fields.short(flag::CORRELATION_ID, &self.correlation_id);
        fields.short(flag::REPLY_TO, &self.reply_to);
        fields.short(flag::EXPIRATION, &self.expiration);
        fields.short(flag::MESSAGE_ID, &self.message_id);
        fields.put(flag::TIMESTAMP, &self.timestamp, |timestamp, out| {
            out.put_u64(timestamp.0)
        });
        fields.short(flag::KIND, &self.kind);
        fields.short(flag::USER_ID, &self.user_id);
        fields.short(flag::APP_ID, &self.app_id);
        fields.short(flag::CLUSTER_ID, &self.cluster_id);
        RawProperties(fields.finish())
    }
}

struct Fields {
    flags: u16,
    out: BytesMut,
}

impl Fields {
    fn put<T>(&mut self, flag: u16, value: &Option<T>, write: impl Fn(&T, &mut BytesMut)) {
        if let Some(value) = value {
            self.flags |= flag;
            write(value, &mut self.out);
        }
    }

    fn short(&mut self, flag: u16, string: &Option<ShortString>) {
        self.put(flag, string, |string, out| {
            put_short_bytes(out, string.as_bytes())
        });
    }

    fn finish(mut self) -> Bytes {
        self.out
            .first_chunk_mut()
            .map(|flags| *flags = self.flags.to_be_bytes())
            .expect("room for the flags was made first");
        self.out.freeze()
    }
}
