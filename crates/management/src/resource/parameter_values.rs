//! What parameters of RabbitMQ's plugins may be. They are kept for who reads them back, so what cannot be one is refused
//! as there.

use serde_json::Value;

use super::policy_values::erlang;

/// What a value has to be.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Text,
    Number,
    Boolean,
    /// An URI, or several.
    Uri,
    OneOf(&'static [&'static str]),
    /// Whatever it is.
    Anything,
}

use Shape::{Anything, Boolean, Number, OneOf, Text, Uri};

/// A key, and whether it must be there.
type Key = (&'static str, Shape, bool);

const ACK_MODES: Shape = OneOf(&["no-ack", "on-publish", "on-confirm"]);

/// Of upstreams and of what stands in sets of them.
const UPSTREAM: [Key; 14] = [
    ("exchange", Text, false),
    ("queue", Text, false),
    ("consumer-tag", Text, false),
    ("prefetch-count", Number, false),
    ("reconnect-delay", Number, false),
    ("max-hops", Number, false),
    ("expires", Number, false),
    ("message-ttl", Number, false),
    ("trust-user-id", Boolean, false),
    ("ack-mode", ACK_MODES, false),
    ("resource-cleanup-mode", OneOf(&["default", "never"]), false),
    ("queue-type", OneOf(&["classic", "quorum"]), false),
    ("bind-nowait", Boolean, false),
    ("channel-use-mode", OneOf(&["multiple", "single"]), false),
];

/// Of shovels between brokers that speak AMQP 0-9-1.
const SHOVEL: [Key; 30] = [
    ("dest-uri", Uri, true),
    ("src-uri", Uri, true),
    ("internal", Boolean, false),
    ("internal_owner", Anything, false),
    ("reconnect-delay", Number, false),
    ("ack-mode", ACK_MODES, false),
    ("src-protocol", Text, false),
    ("dest-protocol", Text, false),
    ("src-exchange", Text, false),
    ("src-exchange-key", Text, false),
    ("src-queue", Text, false),
    ("src-queue-args", Anything, false),
    ("src-consumer-args", Anything, false),
    ("src-consumer-name", Text, false),
    ("prefetch-count", Number, false),
    ("src-prefetch-count", Number, false),
    ("delete-after", Anything, false),
    ("src-delete-after", Anything, false),
    ("src-delete-after-duration", Anything, false),
    ("src-predeclared", Boolean, false),
    ("dest-exchange", Text, false),
    ("dest-exchange-key", Text, false),
    ("dest-queue", Text, false),
    ("dest-queue-args", Anything, false),
    ("add-forward-headers", Boolean, false),
    ("add-timestamp-header", Boolean, false),
    ("dest-add-forward-headers", Boolean, false),
    ("dest-add-timestamp-header", Boolean, false),
    ("publish-properties", Anything, false),
    ("dest-publish-properties", Anything, false),
];

/// Whether a value can be that of a parameter; if not, what is wrong, one thing a line.
pub(crate) fn check(component: &str, name: &str, value: &Value) -> Result<(), String> {
    let mut wrong = Vec::new();
    match component {
        "federation-upstream" => {
            let keys = [("uri", Uri, true)].into_iter().chain(UPSTREAM);
            keys_of(name, value, keys, &mut wrong);
        }
        "federation-upstream-set" => {
            for upstream in value.as_array().map(Vec::as_slice).unwrap_or_default() {
                let keys = [("upstream", Text, true)].into_iter().chain(UPSTREAM);
                keys_of(name, upstream, keys, &mut wrong);
            }
        }
        "shovel" => shovel(name, value, &mut wrong),
        _ => {}
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(wrong.join("\n"))
}

fn shovel(name: &str, value: &Value, wrong: &mut Vec<String>) {
    let is_amqp091 = |key| value.get(key).is_none_or(|protocol| *protocol == "amqp091");
    let (from_here, to_here) = (is_amqp091("src-protocol"), is_amqp091("dest-protocol"));
    let has = |key| value.get(key).is_some();
    match (has("src-exchange"), has("src-queue")) {
        (false, false) if from_here => {
            wrong.push("Must specify 'src-exchange' or 'src-queue'".to_owned());
        }
        (true, true) if from_here => {
            wrong.push("Cannot specify 'src-exchange' and 'src-queue'".to_owned());
        }
        _ => {}
    }
    if to_here && has("dest-exchange") && has("dest-queue") {
        wrong.push("Cannot specify 'dest-exchange' and 'dest-queue'".to_owned());
    }
    if from_here && to_here {
        keys_of(name, value, SHOVEL, wrong);
    } else {
        // Those of other protocols have keys of their own.
        let uris = [("dest-uri", Uri, true), ("src-uri", Uri, true)];
        for (key, shape, _) in uris {
            match value.get(key) {
                Some(value) => wrong.extend(fault(key, value, shape)),
                None => wrong.push(missing(key, name)),
            }
        }
    }
}

fn keys_of(
    name: &str,
    value: &Value,
    keys: impl IntoIterator<Item = Key>,
    wrong: &mut Vec<String>,
) {
    let Value::Object(object) = value else {
        wrong.push(format!("{name} not a list {}", erlang(value)));
        return;
    };
    let mut rest = object.clone();
    for (key, shape, is_mandatory) in keys {
        match rest.remove(key) {
            Some(value) => wrong.extend(fault(key, &value, shape)),
            None if is_mandatory => wrong.push(missing(key, name)),
            None => {}
        }
    }
    if !rest.is_empty() {
        let terms = rest.iter();
        let terms = terms.map(|(key, value)| format!("{{<<\"{key}\">>,{}}}", erlang(value)));
        let terms: Vec<String> = terms.collect();
        wrong.push(format!(
            "Unrecognised terms [{}] in {name}",
            terms.join(",")
        ));
    }
}

fn missing(key: &str, name: &str) -> String {
    format!("Key \"{key}\" not found in {name}")
}

fn fault(key: &str, value: &Value, shape: Shape) -> Option<String> {
    let should_be = |what: &str| {
        Some(format!(
            "{key} should be {what}, actually was {}",
            erlang(value)
        ))
    };
    match (shape, value) {
        (Anything, _)
        | (Text, Value::String(_))
        | (Number, Value::Number(_))
        | (Boolean, Value::Bool(_)) => None,
        (Text, _) => should_be("binary"),
        (Number, _) => should_be("a number"),
        (Boolean, _) => should_be("boolean"),
        (OneOf(words), Value::String(text)) if words.contains(&text.as_str()) => None,
        (OneOf(words), Value::String(_)) => {
            let words = words.iter().map(|word| format!("<<\"{word}\">>"));
            let words: Vec<String> = words.collect();
            should_be(&format!("one of [{}]", words.join(",")))
        }
        (OneOf(_), _) => should_be("binary"),
        (Uri, Value::String(text)) => not_a_uri(text),
        (Uri, Value::Array(list)) => list.iter().find_map(|uri| fault(key, uri, Uri)),
        (Uri, _) => should_be("list"),
    }
}

fn not_a_uri(text: &str) -> Option<String> {
    let quoted = match text {
        "" => "[]".to_owned(),
        text => format!("\"{text}\""),
    };
    let why = match text.split_once("://") {
        Some(("amqp" | "amqps", _)) => return None,
        Some((scheme, _)) => format!("{{{{unexpected_uri_scheme,\"{scheme}\"}},{quoted}}}"),
        None => format!("{{{{unable_to_parse_uri,no_scheme}},{quoted}}}"),
    };
    Some(format!("\"{text}\" not a valid URI: {why}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn refused(component: &str, value: &Value, why: &str) {
        assert_eq!(check(component, "x", value), Err(why.to_owned()), "{value}");
    }

    /// The texts are those that RabbitMQ 4.3 answered.
    #[test]
    fn an_upstream_is_refused_in_rabbitmqs_words() {
        let of = |value| ("federation-upstream", value);
        for ((component, value), why) in [
            (of(json!({})), "Key \"uri\" not found in x"),
            (
                of(json!({"uri": null})),
                "uri should be list, actually was null",
            ),
            (
                of(json!({"uri": ""})),
                "\"\" not a valid URI: {{unable_to_parse_uri,no_scheme},[]}",
            ),
            (
                of(json!({"uri": "http://x"})),
                "\"http://x\" not a valid URI: {{unexpected_uri_scheme,\"http\"},\"http://x\"}",
            ),
            (
                of(json!({"uri": "amqp://x", "max-hops": "a"})),
                "max-hops should be a number, actually was <<\"a\">>",
            ),
            (
                of(json!({"uri": "amqp://x", "ack-mode": "a"})),
                "ack-mode should be one of [<<\"no-ack\">>,<<\"on-publish\">>,<<\"on-confirm\">>], \
                 actually was <<\"a\">>",
            ),
            (
                of(json!({"uri": "amqp://x", "foo": 1})),
                "Unrecognised terms [{<<\"foo\">>,1}] in x",
            ),
            (
                of(json!({"uri": ["amqp://x", "y"]})),
                "\"y\" not a valid URI: {{unable_to_parse_uri,no_scheme},\"y\"}",
            ),
        ] {
            refused(component, &value, why);
        }
        let good =
            json!({"uri": ["amqp://x", "amqps://y"], "expires": 1.5, "queue-type": "quorum"});
        assert_eq!(check("federation-upstream", "x", &good), Ok(()));
        let set = json!([{"upstream": "a"}, {}]);
        refused(
            "federation-upstream-set",
            &set,
            "Key \"upstream\" not found in x",
        );
    }

    #[test]
    fn a_shovel_has_two_ends() {
        refused(
            "shovel",
            &json!({}),
            "Must specify 'src-exchange' or 'src-queue'\nKey \"dest-uri\" not found in x\n\
             Key \"src-uri\" not found in x",
        );
        let with = |more: Value| {
            let mut value = json!({"src-uri": "amqp://", "dest-uri": "amqp://", "src-queue": "q"});
            if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
                value.extend(more);
            }
            value
        };
        assert_eq!(check("shovel", "x", &with(json!({}))), Ok(()));
        refused(
            "shovel",
            &with(json!({"src-exchange": "e"})),
            "Cannot specify 'src-exchange' and 'src-queue'",
        );
        refused(
            "shovel",
            &with(json!({"dest-exchange": "e", "dest-queue": "r"})),
            "Cannot specify 'dest-exchange' and 'dest-queue'",
        );
        let other = with(json!({"src-protocol": "amqp10", "src-address": "a"}));
        assert_eq!(check("shovel", "x", &other), Ok(()));
    }
}
