//! Every class, method, argument and type is the one of the spec, and nothing is there beside them.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of a test unwrap as the test does"
)]

use std::collections::BTreeMap;

use bytes::{BufMut, BytesMut};
use leveret_wire::frame::{FRAME_END, FRAME_MIN_SIZE};
use leveret_wire::{BasicProperties, FrameKind, Method, ReplyCode};
use serde_json::Value;

mod support;

/// A method in the words of the spec: ids, whether content follows, and arguments with their types.
#[derive(Debug, PartialEq)]
struct Definition {
    ids: (u64, u64),
    has_content: bool,
    arguments: Vec<(String, String)>,
}

fn spec(file: &str) -> Value {
    let path = format!("{}/../../spec/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap()
}

fn protocol() -> Value {
    spec("amqp-rabbitmq-0.9.1.json")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap()
}

fn domains() -> BTreeMap<String, String> {
    list(&protocol(), "domains")
        .iter()
        .map(|pair| {
            (
                pair[0].as_str().unwrap().to_owned(),
                pair[1].as_str().unwrap().to_owned(),
            )
        })
        .collect()
}

/// The type of an argument, which may be named through a domain.
fn type_of(argument: &Value, domains: &BTreeMap<String, String>) -> String {
    match argument["type"].as_str() {
        Some(name) => name.to_owned(),
        None => domains[text(argument, "domain")].clone(),
    }
}

/// The name that a field of ours has for an argument of the spec.
fn field_name(method: &str, argument: &str) -> String {
    match (method, argument) {
        // Only here the ticket is more than a leftover.
        ("access.request-ok", "ticket") => "ticket".to_owned(),
        (_, "ticket") => "reserved_1".to_owned(),
        // A word of Rust.
        (_, "type") => "kind".to_owned(),
        (_, plain) => plain.replace('-', "_"),
    }
}

fn spec_methods() -> BTreeMap<String, Definition> {
    let domains = domains();
    let mut methods = BTreeMap::new();
    for file in [protocol(), spec("credit_extension.json")] {
        for class in list(&file, "classes") {
            for method in list(class, "methods") {
                let name = format!("{}.{}", text(class, "name"), text(method, "name"));
                let arguments = list(method, "arguments")
                    .iter()
                    .map(|argument| {
                        (
                            field_name(&name, text(argument, "name")),
                            type_of(argument, &domains),
                        )
                    })
                    .collect();
                let definition = Definition {
                    ids: (
                        class["id"].as_u64().unwrap(),
                        method["id"].as_u64().unwrap(),
                    ),
                    has_content: method["content"].as_bool().unwrap_or(false),
                    arguments,
                };
                methods.insert(name, definition);
            }
        }
    }
    methods
}

fn our_methods() -> BTreeMap<String, Definition> {
    Method::definitions()
        .map(|method| {
            let arguments = method
                .arguments
                .iter()
                .map(|argument| (argument.name.to_owned(), argument.domain.to_owned()))
                .collect();
            let definition = Definition {
                ids: (method.class_id.into(), method.method_id.into()),
                has_content: method.has_content,
                arguments,
            };
            (method.name.to_owned(), definition)
        })
        .collect()
}

#[test]
fn all_methods_with_all_arguments_are_those_of_the_spec() {
    let spec = spec_methods();
    let ours = our_methods();
    assert_eq!(spec.len(), 69);
    for (name, definition) in &spec {
        assert_eq!(Some(definition), ours.get(name), "{name}");
    }
    for name in ours.keys() {
        assert!(spec.contains_key(name), "{name} is not in the spec");
    }
}

/// Writes arguments as the spec describes them, with a value of its own for each, and no code of ours.
fn encode_by_spec(definition: &Definition) -> Vec<u8> {
    let mut out = BytesMut::new();
    out.put_u16(definition.ids.0.try_into().unwrap());
    out.put_u16(definition.ids.1.try_into().unwrap());
    let mut bits = 0;
    for (index, (name, domain)) in definition.arguments.iter().enumerate() {
        if domain == "bit" {
            // Every other bit is set; eight fit an octet, and no method has more in a row.
            if bits == 0 {
                out.put_u8(0);
            }
            if bits % 2 == 0 {
                *out.last_mut().unwrap() |= 1 << bits;
            }
            bits += 1;
            continue;
        }
        bits = 0;
        let number = u8::try_from(index + 1).unwrap();
        match domain.as_str() {
            "octet" => out.put_u8(number),
            "short" => out.put_u16(0x0100 | u16::from(number)),
            "long" => out.put_u32(0x0102_0300 | u32::from(number)),
            "longlong" => out.put_u64(0x0102_0304_0506_0700 | u64::from(number)),
            "shortstr" => {
                out.put_u8(name.len().try_into().unwrap());
                out.put_slice(name.as_bytes());
            }
            "longstr" => {
                out.put_u32(name.len().try_into().unwrap());
                out.put_slice(name.as_bytes());
            }
            "table" => out.put_slice(&support::hex("00000007 01 6b 49 000000 01")),
            other => panic!("a type that no method has: {other}"),
        }
    }
    out.to_vec()
}

#[test]
fn every_method_of_the_spec_is_read_and_written_back() {
    for (name, definition) in &spec_methods() {
        let payload = encode_by_spec(definition);
        let method = support::decode(&payload).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(method.name(), name);
        assert_eq!(method.has_content(), definition.has_content);
        let mut written = BytesMut::new();
        method.encode(&mut written);
        assert_eq!(support::unhex(&written), support::unhex(&payload), "{name}");
    }
}

#[test]
fn properties_are_those_of_the_spec() {
    let protocol = protocol();
    let basic = list(&protocol, "classes")
        .iter()
        .find(|class| class["name"] == "basic")
        .unwrap();
    let spec: Vec<_> = list(basic, "properties")
        .iter()
        .enumerate()
        .map(|(index, property)| {
            (
                text(property, "name"),
                text(property, "type"),
                0x8000 >> index,
            )
        })
        .collect();
    assert_eq!(spec, BasicProperties::DEFINITION);
    // No other class has properties, so no other content header exists.
    for class in list(&protocol, "classes") {
        assert!(class["name"] == "basic" || list(class, "properties").is_empty());
    }
}

#[test]
fn reply_codes_and_frame_constants_are_those_of_the_spec() {
    let mut codes: BTreeMap<u64, (&str, bool)> = ReplyCode::ALL
        .into_iter()
        .map(|code| (code.code().into(), (code.name(), code.is_hard())))
        .collect();
    for constant in list(&protocol(), "constants") {
        let name = text(constant, "name").replace('-', "_");
        let value = constant["value"].as_u64().unwrap();
        let ours = match name.as_str() {
            "FRAME_METHOD" => FrameKind::Method.octet().into(),
            "FRAME_HEADER" => FrameKind::Header.octet().into(),
            "FRAME_BODY" => FrameKind::Body.octet().into(),
            "FRAME_HEARTBEAT" => FrameKind::Heartbeat.octet().into(),
            "FRAME_END" => FRAME_END.into(),
            "FRAME_MIN_SIZE" => FRAME_MIN_SIZE as u64,
            code => {
                let (ours, is_hard) = codes.remove(&value).expect("a code of ours");
                assert_eq!(ours, code.trim_start_matches("REPLY_"));
                assert_eq!(is_hard, constant["class"] == "hard-error", "{code}");
                value
            }
        };
        assert_eq!(value, ours, "{name}");
    }
    assert_eq!(codes, BTreeMap::new(), "codes that are not in the spec");
    for code in ReplyCode::ALL {
        assert_eq!(ReplyCode::from_code(code.code()), Some(code));
    }
    assert_eq!(ReplyCode::from_code(999), None);
}
