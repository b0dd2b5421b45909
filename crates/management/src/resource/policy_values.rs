//! Which keys a policy may have, and what they may be.

use leveret_core::arguments::check_own_argument;
use leveret_wire::value::FieldValue;
use serde_json::{Map, Value};

/// What a value has to be.
#[derive(Debug, Clone, Copy)]
enum Shape {
    AtLeast(i64),
    Integer,
    Text,
    OneOf(&'static [&'static str]),
    /// Kept and without an effect, whatever it is.
    Anything,
}

use Shape::{Anything, AtLeast, Integer, OneOf, Text};

const OVERFLOWS: Shape = OneOf(&["drop-head", "reject-publish", "reject-publish-dlx"]);

const KEYS: [(&str, Shape); 39] = [
    ("alternate-exchange", Text),
    ("consumer-disconnected-timeout", AtLeast(0)),
    ("consumer-timeout", AtLeast(0)),
    ("dead-letter-exchange", Text),
    ("dead-letter-routing-key", Text),
    (
        "dead-letter-strategy",
        OneOf(&["at-most-once", "at-least-once"]),
    ),
    ("delayed-retry-max", AtLeast(0)),
    ("delayed-retry-min", AtLeast(0)),
    ("delayed-retry-type", Text),
    ("delivery-limit", Integer),
    ("expires", AtLeast(1)),
    ("federation-upstream", Text),
    ("federation-upstream-pattern", Text),
    ("federation-upstream-set", Text),
    ("initial-cluster-size", AtLeast(1)),
    ("max-age", Text),
    ("max-in-memory-bytes", AtLeast(0)),
    ("max-in-memory-length", AtLeast(0)),
    ("max-length", AtLeast(0)),
    ("max-length-bytes", AtLeast(0)),
    ("member-placement-tag", Text),
    ("message-ttl", AtLeast(0)),
    ("overflow", OVERFLOWS),
    (
        "queue-leader-locator",
        OneOf(&["client-local", "balanced", "random", "least-leaders"]),
    ),
    ("queue-master-locator", Text),
    ("queue-mode", OneOf(&["default", "lazy"])),
    ("queue-version", AtLeast(1)),
    ("routing-key", Text),
    ("shards-per-node", AtLeast(0)),
    ("stream-filter-size-bytes", AtLeast(16)),
    ("stream-max-segment-size-bytes", AtLeast(0)),
    ("target-group-size", AtLeast(1)),
    // Mirroring, as stacks for older versions have it: accepted and without an effect.
    ("ha-mode", Anything),
    ("ha-params", Anything),
    ("ha-promote-on-failure", Anything),
    ("ha-promote-on-shutdown", Anything),
    ("ha-sync-batch-size", Anything),
    ("ha-sync-mode", Anything),
    ("queue-type", Anything),
];

/// The keys of operator policies.
const OPERATOR_KEYS: [&str; 14] = [
    "delayed-retry-max",
    "delayed-retry-min",
    "delayed-retry-type",
    "delivery-limit",
    "expires",
    "max-in-memory-bytes",
    "max-in-memory-length",
    "max-length",
    "max-length-bytes",
    "member-placement-tag",
    "message-ttl",
    "overflow",
    "queue-version",
    "target-group-size",
];

/// Checks a definition; what is wrong is said in RabbitMQ's words.
pub(crate) fn check(is_operator: bool, definition: &Map<String, Value>) -> Result<(), String> {
    let unknown: Vec<String> = definition
        .iter()
        .filter(|(key, value)| find(is_operator, key).is_none() && own(key, value).is_none())
        .map(|(key, value)| format!("{{<<\"{key}\">>,{}}}", erlang(value)))
        .collect();
    if !unknown.is_empty() {
        return Err(format!(
            "[{}] are not recognised policy settings",
            unknown.join(",")
        ));
    }
    definition.iter().try_for_each(|(key, value)| {
        if let Some(checked) = own(key, value) {
            return checked
                .map_err(|why| format!("{} is not a valid value of {key}: {why}", erlang(value)));
        }
        find(is_operator, key)
            .filter(|must| is_fine(*must, value))
            .map(|_| ())
            .ok_or_else(|| format!("{} is not a valid value of {key}", erlang(value)))
    })
}

/// What is wrong with the value of a key that is an argument of this broker's own.
fn own(key: &str, value: &Value) -> Option<Result<(), String>> {
    let value = match value {
        Value::Bool(value) => FieldValue::Bool(*value),
        Value::String(text) => FieldValue::text(text.clone()),
        other => other.as_i64().map_or(FieldValue::Void, FieldValue::Long),
    };
    check_own_argument(&format!("x-{key}"), &value)
}

fn find(is_operator: bool, key: &str) -> Option<Shape> {
    if is_operator && !OPERATOR_KEYS.contains(&key) {
        return None;
    }
    let mut known = KEYS.iter().filter(|(known, _)| *known == key);
    known.next().map(|(_, must)| *must)
}

fn is_fine(shape: Shape, value: &Value) -> bool {
    match shape {
        AtLeast(least) => value.as_i64().is_some_and(|number| number >= least),
        Integer => value.is_i64(),
        Text => value.is_string(),
        OneOf(known) => value.as_str().is_some_and(|text| known.contains(&text)),
        Anything => true,
    }
}

/// A value as Erlang prints it, as far as people see it.
pub(super) fn erlang(value: &Value) -> String {
    match value {
        Value::String(text) => format!("<<\"{text}\">>"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(is_operator: bool, value: &Value) -> Result<(), String> {
        check(is_operator, value.as_object().expect("an object"))
    }

    #[test]
    fn unknown_keys_are_named() {
        assert_eq!(
            checked(false, &json!({"max-lengthx": 1})),
            Err("[{<<\"max-lengthx\">>,1}] are not recognised policy settings".to_owned())
        );
        assert!(checked(true, &json!({"dead-letter-exchange": "x"})).is_err());
        assert!(checked(false, &json!({"dead-letter-exchange": "x"})).is_ok());
    }

    #[test]
    fn values_have_to_fit() {
        for wrong in [
            json!({"max-length": -1}),
            json!({"expires": 0}),
            json!({"overflow": "x"}),
            json!({"message-ttl": "1"}),
        ] {
            assert!(checked(false, &wrong).is_err(), "{wrong}");
        }
        for wrong in [
            json!({"retry-min": "x"}),
            json!({"expiry": 1}),
            json!({"retry-limit": 1.5}),
        ] {
            assert!(checked(false, &wrong).is_err(), "{wrong}");
        }
        assert!(checked(false, &json!({"retry-min": "2s", "expiry": "lazy"})).is_ok());
        assert!(checked(false, &json!({"delivery-limit": -1, "ha-mode": "all"})).is_ok());
    }
}
