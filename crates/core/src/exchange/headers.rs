//! What a headers binding wants of a message.

use std::collections::BTreeMap;

use leveret_wire::{
    octets_text,
    value::{FieldTable, FieldValue, ShortString, equivalent},
};

use crate::refusal::Refusal;

/// A message's headers by name, so that a binding with many wishes does not walk over many headers for
/// each.
pub(super) type Headers<'a> = BTreeMap<&'a [u8], &'a FieldValue>;

/// Of two headers with one name the first one counts.
pub(super) fn by_name(headers: &FieldTable) -> Headers<'_> {
    let entries = headers.iter().rev();
    entries
        .map(|(name, value)| (name.as_bytes(), value))
        .collect()
}

/// Binding arguments, read once at bind time.
#[derive(Debug)]
pub(super) struct HeadersMatch {
    is_any: bool,
    /// A header and the value it has to have; `None` for any.
    wanted: Vec<(ShortString, Option<FieldValue>)>,
}

impl HeadersMatch {
    pub(super) fn of(arguments: &FieldTable) -> Result<Self, Refusal> {
        let (is_any, with_x) = match arguments.get(b"x-match") {
            None => (false, false),
            Some(FieldValue::LongString(text)) => match text.as_bytes() {
                b"all" => (false, false),
                b"any" => (true, false),
                b"all-with-x" => (false, true),
                b"any-with-x" => (true, true),
                other => {
                    return Err(Refusal::InvalidMatch {
                        value: octets_text(other),
                    });
                }
            },
            Some(other) => {
                return Err(Refusal::InvalidMatchType {
                    type_name: other.type_name(),
                    // As an Erlang term, unlike the bare strings of other texts.
                    value: if let FieldValue::Bytes(bytes) = other {
                        octets_text(bytes)
                    } else {
                        other.to_string()
                    },
                });
            }
        };
        let mut wanted: Vec<_> = arguments
            .iter()
            .filter(|(key, _)| match key.as_bytes() {
                b"x-match" => false,
                key => with_x || !key.starts_with(b"x-"),
            })
            .map(|(key, value)| {
                let value = (!matches!(value, FieldValue::Void)).then(|| value.clone());
                (key.clone(), value)
            })
            .collect();
        // Of two entries with one key the first one counts, as everywhere.
        wanted.sort_by(|(a, _), (b, _)| a.cmp(b));
        wanted.dedup_by(|(later, _), (first, _)| later == first);
        Ok(Self { is_any, wanted })
    }

    pub(super) fn matches(&self, headers: &Headers<'_>) -> bool {
        let mut each = self.wanted.iter().map(|(key, wanted)| {
            headers
                .get(key.as_bytes())
                .is_some_and(|has| wanted.as_ref().is_none_or(|wanted| is_equal(wanted, has)))
        });
        if self.is_any {
            each.any(|fits| fits)
        } else {
            each.all(|fits| fits)
        }
    }
}

/// As redeclares compare values, except that in RabbitMQ a timestamp of a message equals nothing: not
/// even a timestamp of a binding, which equals integers instead.
fn is_equal(wanted: &FieldValue, has: &FieldValue) -> bool {
    let is_equivalent = equivalent(wanted, has) || (is_empty(wanted) && is_empty(has));
    is_equivalent && !matches!(has, FieldValue::Timestamp(_))
}

/// RabbitMQ compares what is inside of a table or an array; if that is nothing, they are equal.
fn is_empty(value: &FieldValue) -> bool {
    matches!(value, FieldValue::Table(table) if table.is_empty())
        || matches!(value, FieldValue::Array(values) if values.is_empty())
}
