//! A request taken apart: the path split on its slashes before anything is decoded, so that a vhost may be called
//! `/`.

use std::net::IpAddr;

use axum::http::{HeaderMap, Method};
use bytes::Bytes;
use leveret_wire::value::ShortString;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::{error::Refused, rates::Age};

/// The most samples that one answer has of a counter.
const SAMPLES_MAX: u64 = 500;

/// One request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Behind `/api`, decoded once, without a trailing slash.
    pub(crate) path: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) peer: IpAddr,
}

/// The segments of a path; `None` for one that is not UTF-8.
pub(crate) fn segments(path: &str) -> Option<Vec<String>> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    let decoded = |segment| {
        percent_decode_str(segment)
            .decode_utf8()
            .ok()
            .map(Into::into)
    };
    path.split('/').map(decoded).collect()
}

impl Request {
    /// The value of a query parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let mut found = self.query.iter().filter(|(key, _)| key == name);
        found.next().map(|(_, value)| value.as_str())
    }

    /// Which samples of these counters are wanted, `lengths`, `msg_rates`, `data_rates` or `node_stats`.
    pub(crate) fn age(&self, of: &str) -> Option<Age> {
        self.asked_age(of).ok().flatten()
    }

    /// Whether the samples that are asked for can be had.
    pub(crate) fn check_ages(&self) -> Result<(), Refused> {
        for of in ["lengths", "msg_rates", "data_rates", "node_stats"] {
            self.asked_age(of)?;
        }
        Ok(())
    }

    fn asked_age(&self, of: &str) -> Result<Option<Age>, Refused> {
        let parameter = |what| self.parameter(&format!("{of}_{what}"));
        let number = |what| parameter(what).and_then(|text| text.parse::<i64>().ok());
        // As in RabbitMQ: whoever does not say both asks for none.
        let (Some(secs), Some(step_secs)) = (number("age"), number("incr")) else {
            return Ok(None);
        };
        let possible = || {
            let (secs, step_secs) = (secs.try_into().ok()?, step_secs.try_into().ok()?);
            (step_secs > 0 && secs / step_secs <= SAMPLES_MAX).then_some(Age { secs, step_secs })
        };
        possible().map(Some).ok_or_else(|| {
            Refused::bad_request(format!(
                "Invalid range parameters: age {secs}, incr {step_secs}"
            ))
        })
    }

    /// Whether a query parameter says yes.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.parameter(name) == Some("true")
    }

    /// The body as an object; nothing at all is an empty one.
    pub(crate) fn object(&self) -> Result<Map<String, Value>, Refused> {
        if self.body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Map::new());
        }
        match serde_json::from_slice(&self.body) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) | Err(_) => Err(Refused::bad_request("not_json")),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// A name out of a path or body.
pub(crate) fn name(text: &str) -> Result<ShortString, Refused> {
    ShortString::try_from(text).map_err(|_| Refused::not_found())
}

/// A text that must be there.
pub(crate) fn text<'a>(object: &'a Map<String, Value>, key: &str) -> Result<&'a str, Refused> {
    match object.get(key) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(Refused::bad_request(serde_json::json!([
            "not_a_string",
            other
        ]))),
        None => Err(Refused::key_missing(key)),
    }
}

/// Whether these are there.
pub(crate) fn required(object: &Map<String, Value>, keys: &[&str]) -> Result<(), Refused> {
    let missing = keys.iter().filter(|key| !object.contains_key(**key));
    let missing: Vec<&str> = missing.copied().collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(Refused::keys_missing(&missing))
    }
}

/// A text that may be missing.
pub(crate) fn optional_text<'a>(
    object: &'a Map<String, Value>,
    key: &str,
) -> Result<Option<&'a str>, Refused> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => text(object, key).map(Some),
    }
}

/// A boolean, also as a text, as forms and scripts send it.
pub(crate) fn boolean(object: &Map<String, Value>, key: &str) -> Result<Option<bool>, Refused> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(value)) => Ok(Some(*value)),
        Some(Value::String(text)) if text == "true" => Ok(Some(true)),
        Some(Value::String(text)) if text == "false" => Ok(Some(false)),
        Some(other) => Err(Refused::bad_request(serde_json::json!([
            "not_boolean",
            other
        ]))),
    }
}

/// A whole number, also as a text.
pub(crate) fn integer(object: &Map<String, Value>, key: &str) -> Result<Option<i64>, Refused> {
    let number = match object.get(key) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(number)) => number.as_i64(),
        Some(Value::String(text)) => text.parse().ok(),
        Some(_) => None,
    };
    number
        .map(Some)
        .ok_or_else(|| Refused::bad_request(serde_json::json!(["not_int", key])))
}

/// An object that may be missing.
pub(crate) fn nested(
    object: &Map<String, Value>,
    key: &str,
) -> Result<Map<String, Value>, Refused> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(nested)) => Ok(nested.clone()),
        // What Erlang makes of an empty object.
        Some(Value::Array(list)) if list.is_empty() => Ok(Map::new()),
        Some(other) => Err(Refused::bad_request(serde_json::json!([
            "not_an_object",
            other
        ]))),
    }
}

/// Tags, as a list or as a text with commas; `None` when nothing is said of them.
pub(crate) fn tags(object: &Map<String, Value>) -> Result<Option<Vec<String>>, Refused> {
    let from = |texts: &mut dyn Iterator<Item = &str>| {
        let texts = texts.map(|text| text.trim().to_owned());
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>()
    };
    match object.get("tags") {
        None => Ok(None),
        Some(Value::Null) => Ok(Some(Vec::new())),
        Some(Value::String(text)) => Ok(Some(from(&mut text.split(',')))),
        Some(Value::Array(list)) => Ok(Some(from(&mut list.iter().filter_map(Value::as_str)))),
        Some(other) => Err(Refused::bad_request(serde_json::json!(["not_tags", other]))),
    }
}

#[cfg(test)]
mod tests {
    use super::segments;

    #[test]
    fn a_path_is_split_before_it_is_decoded() {
        let split = |path| segments(path).expect("UTF-8");
        assert_eq!(split("/queues/%2F/a%2fb"), ["queues", "/", "a/b"]);
        assert_eq!(split("/queues/%2F/"), ["queues", "/"]);
        assert_eq!(
            split("/queues/v/%C3%A9%20a%2Fb"),
            ["queues", "v", "\u{e9} a/b"]
        );
        // Decoded once only.
        assert_eq!(split("/x/a%2523"), ["x", "a%23"]);
        assert_eq!(
            split("/exchanges/v//publish"),
            ["exchanges", "v", "", "publish"]
        );
        assert!(segments("/queues/%FF").is_none());
    }
}
