//! Which keys a policy may have, and what they may be.

use leveret_core::arguments::{check_own_argument, max_age_millis};
use leveret_wire::value::FieldValue;
use serde_json::{Map, Value};

/// What a value has to be.
#[derive(Debug, Clone, Copy)]
enum Shape {
    AtLeast(i64),
    Between(i64, i64),
    Integer,
    Text,
    OneOf(&'static [&'static str]),
    /// A length of time with a letter, such as `7D`.
    Age,
    /// Kept and without an effect, whatever it is.
    Anything,
}

use Shape::{Age, Anything, AtLeast, Between, Integer, OneOf, Text};

const OVERFLOWS: Shape = OneOf(&["drop-head", "reject-publish", "reject-publish-dlx"]);
const LOCATORS: Shape = OneOf(&["client-local", "balanced", "random", "least-leaders"]);
const RETRY_TYPES: Shape = OneOf(&["all", "failed", "returned", "disabled"]);
const STRATEGIES: Shape = OneOf(&["at-most-once", "at-least-once"]);
const SEGMENT_BYTES_MAX: i64 = 3_000_000_000;

/// A key, what its value has to be, and what RabbitMQ says that a wrong one is no valid one of.
type Key = (&'static str, Shape, &'static str);

const KEYS: [Key; 39] = [
    ("alternate-exchange", Text, "alternate exchange name"),
    (
        "consumer-disconnected-timeout",
        AtLeast(0),
        "consumer disconnected timeout",
    ),
    ("consumer-timeout", AtLeast(0), "consumer timeout"),
    ("dead-letter-exchange", Text, "dead letter exchange name"),
    ("dead-letter-routing-key", Text, "dead letter routing key"),
    ("dead-letter-strategy", STRATEGIES, "dead letter strategy"),
    (
        "delayed-retry-max",
        AtLeast(1),
        "delayed retry maximum delay. Must be a positive integer",
    ),
    (
        "delayed-retry-min",
        AtLeast(1),
        "delayed retry minimum delay. Must be a positive integer",
    ),
    (
        "delayed-retry-type",
        RETRY_TYPES,
        "delayed retry type. Must be one of: all, failed, returned, disabled",
    ),
    ("delivery-limit", Integer, "delivery limit"),
    ("expires", AtLeast(1), "queue expiry"),
    ("federation-upstream", Text, "federation-upstream"),
    (
        "federation-upstream-pattern",
        Text,
        "federation-upstream-pattern",
    ),
    ("federation-upstream-set", Text, "federation-upstream-set"),
    ("initial-cluster-size", AtLeast(0), "cluster size"),
    ("max-age", Age, "max age"),
    ("max-in-memory-bytes", AtLeast(0), "maximum memory in bytes"),
    (
        "max-in-memory-length",
        AtLeast(0),
        "maximum memory in bytes",
    ),
    ("max-length", AtLeast(0), "maximum length"),
    ("max-length-bytes", AtLeast(0), "maximum length in bytes"),
    ("member-placement-tag", Text, "member-placement-tag"),
    ("message-ttl", AtLeast(0), "message TTL"),
    ("overflow", OVERFLOWS, "overflow value"),
    (
        "queue-leader-locator",
        LOCATORS,
        "queue leader locator value",
    ),
    ("queue-master-locator", Text, "queue master locator"),
    (
        "queue-mode",
        OneOf(&["default", "lazy"]),
        "queue-mode value",
    ),
    ("queue-version", Between(1, 2), "queue-version value"),
    ("routing-key", Text, "routing-key"),
    ("shards-per-node", AtLeast(0), "shards-per-node"),
    (
        "stream-filter-size-bytes",
        Between(16, 255),
        "filter size. Valid range is 16-255",
    ),
    (
        "stream-max-segment-size-bytes",
        Between(0, SEGMENT_BYTES_MAX),
        "segment size",
    ),
    ("target-group-size", AtLeast(1), "qq target count value"),
    // Mirroring, as stacks for older versions have it: accepted and without an effect.
    ("ha-mode", Anything, ""),
    ("ha-params", Anything, ""),
    ("ha-promote-on-failure", Anything, ""),
    ("ha-promote-on-shutdown", Anything, ""),
    ("ha-sync-batch-size", Anything, ""),
    ("ha-sync-mode", Anything, ""),
    ("queue-type", Anything, ""),
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

/// Checks a definition; the first thing that is wrong is said in RabbitMQ's words. Keys that nobody knows come last.
pub(crate) fn check(is_operator: bool, definition: &Map<String, Value>) -> Result<(), String> {
    let mut unknown: Vec<(String, String)> = Vec::new();
    for (key, value) in definition {
        if let Some(checked) = own(key, value) {
            checked
                .map_err(|why| format!("{} is not a valid value of {key}: {why}", erlang(value)))?;
        } else if let Some((_, must, noun)) = find(is_operator, key) {
            if !is_fine(must, value) {
                return Err(format!("{} is not a valid {noun}", erlang(value)));
            }
        } else {
            unknown.push((format!("<<\"{key}\">>"), erlang(value)));
        }
    }
    if unknown.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} are not recognised policy settings",
        list_of_pairs(&unknown)
    ))
}

/// A list of pairs as Erlang prints one on lines of eighty characters: on one line, or a pair on each, or the half of a pair.
fn list_of_pairs(pairs: &[(String, String)]) -> String {
    const LIST_MAX: usize = 78;
    const PAIR_MAX: usize = 77;
    let pair =
        |(key, value): &(String, String), separator: &str| format!("{{{key},{separator}{value}}}");
    let on_one_line: Vec<String> = pairs.iter().map(|each| pair(each, "")).collect();
    let list = format!("[{}]", on_one_line.join(","));
    if list.chars().count() <= LIST_MAX {
        return list;
    }
    let lines = pairs.iter().zip(on_one_line).enumerate();
    let lines = lines.map(|(at, (each, line))| {
        // The bracket that ends the list is on the last one's line.
        let max = PAIR_MAX - usize::from(at + 1 == pairs.len());
        if line.chars().count() <= max {
            line
        } else {
            pair(each, "\n  ")
        }
    });
    format!("[{}]", lines.collect::<Vec<_>>().join(",\n "))
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

fn find(is_operator: bool, key: &str) -> Option<Key> {
    if is_operator && !OPERATOR_KEYS.contains(&key) {
        return None;
    }
    KEYS.into_iter().find(|(known, ..)| *known == key)
}

fn is_fine(shape: Shape, value: &Value) -> bool {
    match shape {
        AtLeast(least) => value.as_i64().is_some_and(|number| number >= least),
        Between(least, most) => {
            let number = value.as_i64();
            number.is_some_and(|number| (least..=most).contains(&number))
        }
        Integer => value.is_i64(),
        Age => {
            let text = value.as_str();
            text.is_some_and(|text| max_age_millis(text.as_bytes()).is_some())
        }
        Text => value.is_string(),
        OneOf(known) => value.as_str().is_some_and(|text| known.contains(&text)),
        Anything => true,
    }
}

/// A value as Erlang prints it, as far as people see it.
pub(super) fn erlang(value: &Value) -> String {
    let all = |items: Vec<String>| items.join(",");
    match value {
        Value::String(text) if text.is_empty() => "<<>>".to_owned(),
        Value::String(text) => format!("<<\"{text}\">>"),
        Value::Array(items) => format!("[{}]", all(items.iter().map(erlang).collect())),
        Value::Object(object) => {
            let pairs = object.iter();
            let pairs = pairs.map(|(key, value)| format!("<<\"{key}\">> => {}", erlang(value)));
            format!("#{{{}}}", all(pairs.collect()))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
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
    }

    #[test]
    fn a_long_list_of_unknown_keys_has_lines() {
        let told = |value: Value| checked(false, &value).expect_err("unknown keys");
        let text = |length| "k".repeat(length);
        let fits = told(json!({"aaaaaaaaaa": "bbbbb", text(19): "ccccccccccc"}));
        assert!(!fits.contains('\n'), "{fits}");
        let two = told(json!({"aaaaaaaaaa": "bbbbb", text(20): "ccccccccccc"}));
        assert!(
            two.starts_with("[{<<\"aaaaaaaaaa\">>,<<\"bbbbb\">>},\n {<<\"kkk"),
            "{two}"
        );
        let three = told(json!({"aa": text(60), "b": 1, "zz": text(60)}));
        let widths: Vec<usize> = three
            .split(" are")
            .next()
            .unwrap_or_default()
            .split('\n')
            .map(str::len)
            .collect();
        assert_eq!(widths, [79, 13, 11, 70]);
    }

    #[test]
    fn some_keys_are_of_users_policies_only() {
        assert!(checked(true, &json!({"dead-letter-exchange": "x"})).is_err());
        assert!(checked(false, &json!({"dead-letter-exchange": "x"})).is_ok());
    }

    #[test]
    fn what_is_wrong_is_said_in_rabbitmqs_words() {
        for (definition, text) in [
            (
                json!({"max-length": -1}),
                "-1 is not a valid maximum length",
            ),
            (json!({"expires": 0}), "0 is not a valid queue expiry"),
            (
                json!({"message-ttl": ""}),
                "<<>> is not a valid message TTL",
            ),
            (
                json!({"overflow": {"a": [1, "b", null]}}),
                "#{<<\"a\">> => [1,<<\"b\">>,null]} is not a valid overflow value",
            ),
            (json!({"max-age": "1"}), "<<\"1\">> is not a valid max age"),
            // What is wrong with a key that is known comes before those that are not.
            (
                json!({"a": 1, "max-length": "x", "message-ttl": -1}),
                "<<\"x\">> is not a valid maximum length",
            ),
        ] {
            assert_eq!(checked(false, &definition), Err(text.to_owned()));
        }
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
