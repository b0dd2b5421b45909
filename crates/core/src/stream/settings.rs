//! What a stream was declared with.

use leveret_wire::value::{FieldTable, FieldValue};

use crate::arguments::max_age_millis;

/// Where a log is cut when nothing else is asked for, as in RabbitMQ.
pub const SEGMENT_BYTES_DEFAULT: u64 = 500_000_000;

/// How long a log becomes, and where it is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSettings {
    /// Messages older than this go.
    pub max_age_millis: Option<u64>,
    /// The oldest go when the log is longer than this.
    pub max_length_bytes: Option<u64>,
    /// They go by segments of this many bytes, and the newest segment always stays.
    pub segment_bytes: u64,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            max_age_millis: None,
            max_length_bytes: None,
            segment_bytes: SEGMENT_BYTES_DEFAULT,
        }
    }
}

impl StreamSettings {
    /// Reads arguments that were checked when the stream was declared.
    #[must_use]
    pub fn of(arguments: &FieldTable) -> Self {
        let number = |key: &str| {
            let value = arguments.get(key.as_bytes())?.as_integer()?;
            u64::try_from(value).ok()
        };
        let max_age = arguments.get(b"x-max-age").and_then(FieldValue::as_bytes);
        Self {
            max_age_millis: max_age.and_then(max_age_millis),
            max_length_bytes: number("x-max-length-bytes"),
            segment_bytes: number("x-stream-max-segment-size-bytes")
                .unwrap_or(SEGMENT_BYTES_DEFAULT),
        }
    }
}
