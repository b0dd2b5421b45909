//! Where a reader starts.

use leveret_wire::{
    octets_text,
    value::{FieldTable, FieldValue},
};

use super::StreamFilter;
use crate::{
    arguments::max_age_millis,
    ids::{ConsumerId, Timestamp},
    queue::RequestId,
};

/// The argument of `basic.consume` that says where to start, and the header that says where a message stands.
pub const X_STREAM_OFFSET: &str = "x-stream-offset";

/// The first message a reader gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StreamStart {
    /// The oldest of the log.
    First,
    /// The newest of the log.
    Last,
    /// The next that is appended.
    #[default]
    Next,
    /// The one with this offset; the oldest, when that is gone.
    Offset(u64),
    /// The first that entered at this time or later.
    Since(Timestamp),
}

/// A reader and where it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSubscription {
    /// Who asks.
    pub request: RequestId,
    /// The consumer.
    pub consumer: ConsumerId,
    /// Bound on its unsettled deliveries; 0 is none.
    pub prefetch: u16,
    /// Where it starts.
    pub start: StreamStart,
    /// Which messages it wants; all of them without.
    pub filter: Option<StreamFilter>,
}

impl StreamStart {
    /// Reads `x-stream-offset` among the arguments of a consume that comes `now`.
    ///
    /// # Errors
    ///
    /// What is wrong with it, as RabbitMQ says it.
    pub fn of(arguments: &FieldTable, now: Timestamp) -> Result<Self, String> {
        let Some(value) = arguments.get(X_STREAM_OFFSET.as_bytes()) else {
            return Ok(Self::Next);
        };
        if let Some(offset) = value.as_integer() {
            // RabbitMQ takes a negative one for the beginning.
            return Ok(Self::Offset(u64::try_from(offset).unwrap_or(0)));
        }
        if let FieldValue::Timestamp(seconds) = value {
            let millis = seconds.0.saturating_mul(1000);
            return Ok(Self::Since(Timestamp::new(millis)));
        }
        match value.as_bytes() {
            Some(b"first") => Ok(Self::First),
            Some(b"last") => Ok(Self::Last),
            Some(b"next") => Ok(Self::Next),
            Some(text) => max_age_millis(text)
                .map(|age| Self::Since(Timestamp::new(now.get().saturating_sub(age))))
                .ok_or_else(|| {
                    let text = octets_text(text);
                    format!("{{invalid_stream_offset_arg,{{longstr,{text}}}}}")
                }),
            // RabbitMQ falls over these.
            None => Err(format!(
                "{{invalid_stream_offset_arg,{}}}",
                value.type_name()
            )),
        }
    }
}
