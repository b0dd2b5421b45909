//! Which messages a reader wants: `x-stream-filter` and `x-stream-match-unfiltered` of its consume, against the header
//! `x-stream-filter-value` of each message.
//!
//! RabbitMQ looks at chunks, of which a filter says what may be in them, so that messages of other values come along and
//! clients look again. Here each message is looked at by itself.

use bytes::Bytes;
use leveret_wire::value::{FieldTable, FieldValue};

use crate::message::Message;

/// The argument of `basic.consume` with the values that are wanted.
pub const X_STREAM_FILTER: &str = "x-stream-filter";
/// The argument that has messages without a value come too.
pub const X_STREAM_MATCH_UNFILTERED: &str = "x-stream-match-unfiltered";
/// The header of a message that it is chosen by.
const X_STREAM_FILTER_VALUE: &str = "x-stream-filter-value";

/// What a reader wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamFilter {
    /// Any of these.
    values: Vec<Bytes>,
    /// Those without a value as well.
    unfiltered: bool,
}

impl StreamFilter {
    /// Reads the arguments of a consume; nothing when it wants everything. As in RabbitMQ only strings count, alone or in
    /// an array, and what else is there is passed over.
    #[must_use]
    pub fn of(arguments: &FieldTable) -> Option<Self> {
        let given = arguments.get(X_STREAM_FILTER.as_bytes())?;
        let given = if let FieldValue::Array(values) = given {
            values
        } else {
            std::slice::from_ref(given)
        };
        let values: Vec<Bytes> = given.iter().filter_map(long_string).collect();
        let unfiltered = arguments
            .get(X_STREAM_MATCH_UNFILTERED.as_bytes())
            .and_then(FieldValue::as_bool)
            .unwrap_or(false);
        // To RabbitMQ a message without a value is one of the empty value.
        let unfiltered = unfiltered || values.iter().any(Bytes::is_empty);
        (!values.is_empty()).then_some(Self { values, unfiltered })
    }

    /// Whether the reader wants this message. A value that is no string is none.
    pub(super) fn wants(&self, message: &Message) -> bool {
        let headers = message.decoded_properties().headers;
        let value = headers
            .as_ref()
            .and_then(|headers| headers.get(X_STREAM_FILTER_VALUE.as_bytes()));
        match value.and_then(FieldValue::as_bytes).unwrap_or_default() {
            [] => self.unfiltered,
            value => self.values.iter().any(|wanted| wanted == value),
        }
    }
}

fn long_string(value: &FieldValue) -> Option<Bytes> {
    if let FieldValue::LongString(text) = value {
        Some(Bytes::copy_from_slice(text.as_bytes()))
    } else {
        None
    }
}
