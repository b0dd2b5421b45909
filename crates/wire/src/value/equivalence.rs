//! When a second declare asks for the same thing.

use super::FieldValue;

/// Whether two arguments of a declare ask for the same thing: values decide, widths do not.
///
/// Any integer equals any other of the same value, a timestamp included; float equals double; longstr equals binary. An
/// integer equals neither text nor float nor bool.
pub fn equivalent(current: &FieldValue, received: &FieldValue) -> bool {
    if let (Some(a), Some(b)) = (integer(current), integer(received)) {
        return a == b;
    }
    if let (Some(a), Some(b)) = (current.as_float(), received.as_float()) {
        return a == b;
    }
    if let (Some(a), Some(b)) = (current.as_bytes(), received.as_bytes()) {
        return a == b;
    }
    current == received
}

/// Wide enough for every integer type and for timestamps.
fn integer(value: &FieldValue) -> Option<i128> {
    match value {
        FieldValue::Timestamp(timestamp) => Some(timestamp.0.into()),
        number => number.as_integer().map(i128::from),
    }
}
