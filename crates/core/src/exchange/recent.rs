//! What an `x-recent-history` exchange remembers: the newest messages, for queues that are bound later.
//!
//! The messages themselves are state of the vhost's surroundings; here is only how many there are to be.

use leveret_wire::{
    octets_text,
    value::{FieldTable, FieldValue},
};

use crate::refusal::ExchangeTypeRefusal;

const LENGTH: &str = "x-recent-history-length";
const NO_STORE: &str = "x-recent-history-no-store";

/// RabbitMQ's default.
const LENGTH_DEFAULT: usize = 20;

/// How many messages an exchange with these arguments remembers.
pub(super) fn length(arguments: &FieldTable) -> Result<usize, ExchangeTypeRefusal> {
    let Some(value) = arguments.get(LENGTH.as_bytes()) else {
        return Ok(LENGTH_DEFAULT);
    };
    // RabbitMQ knows no unsigned ones here.
    let is_signed = matches!(
        value,
        FieldValue::Byte(_) | FieldValue::Short(_) | FieldValue::Int(_) | FieldValue::Long(_)
    );
    match value.as_integer().filter(|_| is_signed) {
        Some(length @ 1..) => Ok(usize::try_from(length).unwrap_or(usize::MAX)),
        Some(_) | None => Err(ExchangeTypeRefusal::InvalidHistoryLength {
            value: value
                .as_bytes()
                .map_or_else(|| value.to_string(), octets_text),
        }),
    }
}

/// Whether a message with these headers is to be remembered.
pub(super) fn is_kept(headers: &FieldTable) -> bool {
    headers.get(NO_STORE.as_bytes()) != Some(&FieldValue::Bool(true))
}
