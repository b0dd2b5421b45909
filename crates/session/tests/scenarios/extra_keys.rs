//! The headers `CC` and `BCC`: further routing keys.

use bytes::BytesMut;
use leveret_session::Publish;
use leveret_wire::{
    BasicProperties, RawProperties,
    method::basic,
    value::{FieldTable, FieldValue},
};

use crate::support::{
    NOBODY, Scenario, Seen, body_frame, header_frame, method_frame, publish_method, short,
};

fn keys(keys: &[&str]) -> FieldValue {
    FieldValue::Array(keys.iter().copied().map(FieldValue::text).collect())
}

fn with(headers: FieldTable) -> RawProperties {
    BasicProperties {
        headers: Some(headers),
        correlation_id: Some(short("c")),
        ..BasicProperties::default()
    }
    .encode()
}

fn published(headers: FieldTable) -> Publish {
    let mut scenario = Scenario::with_channel();
    scenario.publish_with(1, "x", &with(headers));
    scenario.the_publish()
}

#[test]
fn the_keys_of_both_headers_add_up() {
    let headers = FieldTable::new()
        .with("BCC", keys(&["b", ""]))
        .with("CC", keys(&["c", "c"]));
    let publish = published(headers);
    assert_eq!(publish.routing_key, short("key"));
    assert_eq!(publish.extra_keys, ["c", "c", "b", ""].map(short));
    assert_eq!(publish.hidden_keys, 2);
}

#[test]
fn bcc_is_gone_from_what_is_passed_on() {
    let rest = FieldTable::new()
        .with("CC", keys(&["c"]))
        .with("other", FieldValue::Int(1));
    let publish = published(rest.clone().with("BCC", keys(&["b"])));
    assert_eq!(publish.properties, with(rest.clone()));
    let headers = FieldTable::decode_all(&publish.headers.expect("headers"));
    assert_eq!(headers, Ok(rest));
}

#[test]
fn without_bcc_the_properties_are_passed_on_as_they_came() {
    let properties = with(FieldTable::new().with("CC", keys(&["c"])));
    let mut scenario = Scenario::with_channel();
    scenario.publish_with(1, "x", &properties);
    assert_eq!(scenario.the_publish().properties, properties);
}

#[test]
fn only_upper_case_counts() {
    let headers = FieldTable::new()
        .with("cc", keys(&["a"]))
        .with("Bcc", FieldValue::Int(1));
    let publish = published(headers.clone());
    assert!(publish.extra_keys.is_empty());
    assert_eq!(publish.properties, with(headers));
}

#[test]
fn what_cannot_be_a_routing_key_is_none() {
    let members = vec![
        FieldValue::Int(5),
        FieldValue::Void,
        FieldValue::text("k"),
        FieldValue::Table(FieldTable::new()),
        FieldValue::text("x".repeat(256).as_str()),
        FieldValue::text("y".repeat(255).as_str()),
    ];
    let publish = published(FieldTable::new().with("CC", FieldValue::Array(members)));
    assert_eq!(publish.extra_keys, [short("k"), short(&"y".repeat(255))]);
    assert_eq!(publish.hidden_keys, 0);
}

#[test]
fn bcc_does_not_come_back_with_a_return() {
    let rest = FieldTable::new().with("CC", keys(&["c"]));
    let properties = with(rest.clone().with("BCC", keys(&["b"])));
    let publish = basic::Publish {
        mandatory: true,
        ..publish_method("x", NOBODY)
    };
    let mut bytes = BytesMut::new();
    bytes.extend_from_slice(&method_frame(1, publish));
    bytes.extend_from_slice(&header_frame(1, 4, &properties));
    bytes.extend_from_slice(&body_frame(1, b"body"));
    let mut scenario = Scenario::with_channel();
    scenario.send_bytes(&bytes);
    scenario.next_method();
    let Some(Seen::Header(1, header)) = scenario.next() else {
        panic!("a content header follows the return");
    };
    assert_eq!(header.properties, with(rest));
}
