//! What must hold for any request, as functions over bytes: the fuzz targets and the tests run them.
//!
//! Not part of the API; there with the feature `fuzzing` only.

use std::{
    net::Ipv4Addr,
    pin::pin,
    task::{Context, Poll, Waker},
};

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use bytes::{Bytes, BytesMut};
use leveret_wire::value::FieldTable;
use serde_json::{Value, json};

use crate::{
    error::Refused,
    lists::{self, Wanted},
    reply::Reply,
    request::{self, Request},
    resource::{definitions, permissions, policies, topic_permissions, users, vhosts},
    routes,
    values::{table_from_json, table_to_json},
};

/// Objects of a list.
const COUNT: usize = 7;

/// A path and behind a `?` a query: found or not, in pages, in order, filtered, with some columns.
pub fn query(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (path, query) = text.split_once('?').unwrap_or((&text, ""));
    let request = request_of(path, query, Bytes::new(), None);
    if let Some(segments) = request::segments(path) {
        assert_eq!(segments.len(), path_words(path), "{path:?}");
        if let Some(route) = routes::find(&segments) {
            let mut words = route.path.split('/');
            assert!(segments.iter().all(|segment| {
                let word = words.next();
                word.is_some_and(|word| word == segment || routes::placeholder(word).is_some())
            }));
        }
    }
    for of in ["lengths", "msg_rates", "data_rates", "node_stats"] {
        if let Some(age) = request.age(of) {
            assert!(age.step_secs > 0 && age.secs / age.step_secs <= 500);
        }
    }
    let show = |item: &Value, _: &Wanted| item.clone();
    match at_once(lists::paged(&request, items(), show)) {
        Ok(Reply::Json(Value::Array(list))) => assert_eq!(list.len(), COUNT),
        Ok(Reply::Json(page)) => {
            let number = |key: &str| page[key].as_u64().expect("a number");
            let count = page["items"].as_array().map_or(0, Vec::len) as u64;
            assert_eq!(number("item_count"), count);
            assert!(count <= number("page_size") && number("page_size") <= 500);
            assert!(number("filtered_count") <= number("total_count"));
            assert_eq!(number("total_count"), COUNT as u64);
        }
        Ok(other) => panic!("{other:?}"),
        Err(refused) => assert_eq!(refused.status, StatusCode::BAD_REQUEST),
    }
}

/// What waits for nothing.
fn at_once<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("so few objects are made at once"),
    }
}

/// The body of an import: JSON, or with a first octet that is odd a form around it. Whatever can be read of it can be
/// written, and reads as the same.
pub fn import(input: &[u8]) {
    let Some((kind, body)) = input.split_first() else {
        return;
    };
    let form = (kind % 2 == 1).then_some("multipart/form-data; boundary=\"b\"");
    let request = request_of("definitions", "", Bytes::copy_from_slice(body), form);
    let refused_well = |refused: Refused| assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    let definitions = match definitions::body(&request) {
        Ok(definitions) => definitions,
        Err(refused) => return refused_well(refused),
    };
    let algorithm = definitions::algorithm_of(&definitions);
    for (key, list) in &definitions {
        let objects = list.as_array().map(Vec::as_slice).unwrap_or_default();
        for object in objects.iter().filter_map(Value::as_object) {
            if let Ok(arguments) = request::nested(object, "arguments")
                && let Ok(table) = table_from_json(&arguments)
            {
                let mut bytes = BytesMut::new();
                table.encode_payload(&mut bytes);
                match FieldTable::decode_all(&bytes.freeze()) {
                    Ok(read) => assert_eq!(table_to_json(&read), table_to_json(&table)),
                    // Deeper, or with more entries, than a table may have.
                    Err(error) => drop(error.to_string()),
                }
            }
            let Ok(name) = request::text(object, "name").and_then(request::name) else {
                continue;
            };
            let text = |key| request::text(object, key);
            let read = match key.as_str() {
                "users" => users::read(name, object, None, (algorithm, algorithm)).map(drop),
                "vhosts" => vhosts::read(name, object, None).map(drop),
                "policies" => policies::read(policies::USER, object).map(drop),
                "permissions" => text("vhost")
                    .and_then(|vhost| permissions::read(vhost, text("user")?, object))
                    .map(drop),
                "topic_permissions" => text("vhost")
                    .and_then(|vhost| topic_permissions::read(vhost, text("user")?, object))
                    .map(drop),
                _ => continue,
            };
            if let Err(refused) = read {
                assert!(refused.status.is_client_error(), "{refused:?}");
            }
        }
    }
}

fn path_words(path: &str) -> usize {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.strip_suffix('/').unwrap_or(path).split('/').count()
}

fn request_of(path: &str, query: &str, body: Bytes, kind: Option<&'static str>) -> Request {
    let mut headers = HeaderMap::new();
    if let Some(kind) = kind {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    Request {
        method: Method::GET,
        path: request::segments(path).unwrap_or_default(),
        query: form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect(),
        headers,
        body,
        peer: Ipv4Addr::LOCALHOST.into(),
    }
}

fn items() -> Vec<Value> {
    (0..COUNT)
        .map(|n| match n % 3 {
            0 => json!({"name": format!("q.{n}"), "n": n, "in": {"x": n, "y": {"z": -1.5}}}),
            1 => json!({"name": "\u{e9}\n<b>", "n": null, "in": [n]}),
            _ => json!({"n": "text", "name": n}),
        })
        .collect()
}

#[cfg(test)]
#[path = "../../../fuzz/src/mutation.rs"]
#[expect(unreachable_pub, reason = "in its own place the fuzz targets reach it")]
mod mutation;

#[cfg(test)]
mod tests {
    use super::mutation;

    const ROUNDS: u32 = 5000;

    #[test]
    fn queries() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/query");
        mutation::run(&mutation::seeds(folder), ROUNDS, super::query);
    }

    #[test]
    fn imports() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/import");
        mutation::run(&mutation::seeds(folder), ROUNDS, super::import);
    }
}
