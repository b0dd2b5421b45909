//! What all lists have in common: columns, order, filter, pages.

use std::cmp::Ordering;

use axum::http::StatusCode;
use regex::RegexBuilder;
use serde_json::{Map, Value, json};

use crate::{error::Refused, reply::Reply, request::Request};

const PAGE_SIZE: usize = 100;
const PAGE_SIZE_MAX: usize = 500;

/// Memory of one compiled filter.
const FILTER_BYTES_MAX: usize = 256 * 1024;

/// A list that comes as a whole, or page by page when asked for.
pub(crate) fn paged(request: &Request, mut items: Vec<Value>) -> Result<Reply, Refused> {
    let Some(page) = request.parameter("page") else {
        return Ok(whole(request, items));
    };
    let invalid = || Refused::bad_request("invalid_pagination_parameters");
    let page: usize = page.parse().map_err(|_| invalid())?;
    let size = match request.parameter("page_size") {
        Some(size) => size.parse().map_err(|_| invalid())?,
        None => PAGE_SIZE,
    };
    if page == 0 || size == 0 || size > PAGE_SIZE_MAX {
        return Err(invalid());
    }
    let total = items.len();
    if let Some(name) = request.parameter("name").filter(|name| !name.is_empty()) {
        let is_meant = filter(name, request.flag("use_regex"));
        items.retain(|item| is_meant(item["name"].as_str().unwrap_or_default()));
    }
    sort(request, &mut items);
    let filtered = items.len();
    let pages = filtered.div_ceil(size);
    if page > pages.max(1) {
        return Err(Refused::new(
            StatusCode::BAD_REQUEST,
            "page_out_of_range",
            format!("page out of range, page: {page} page size: {size}, len: {filtered}"),
        ));
    }
    let items: Vec<Value> = items
        .into_iter()
        .skip((page - 1) * size)
        .take(size)
        .collect();
    Ok(Reply::Json(json!({
        "total_count": total,
        "filtered_count": filtered,
        "item_count": items.len(),
        "page": page,
        "page_size": size,
        "page_count": pages,
        "items": columns_of_all(request, items),
    })))
}

/// A list that always comes as a whole.
pub(crate) fn whole(request: &Request, mut items: Vec<Value>) -> Reply {
    sort(request, &mut items);
    Reply::Json(columns_of_all(request, items))
}

/// One object.
pub(crate) fn one(request: &Request, item: Value) -> Reply {
    Reply::Json(columns_of_one(request, item))
}

fn filter(name: &str, is_pattern: bool) -> Box<dyn Fn(&str) -> bool> {
    if is_pattern {
        let pattern = RegexBuilder::new(name)
            .case_insensitive(true)
            .size_limit(FILTER_BYTES_MAX)
            .build();
        return match pattern {
            Ok(pattern) => Box::new(move |name| pattern.is_match(name)),
            // As in RabbitMQ: nothing matches what is no pattern.
            Err(_) => Box::new(|_| false),
        };
    }
    let part = name.to_lowercase();
    Box::new(move |name| name.to_lowercase().contains(&part))
}

fn sort(request: &Request, items: &mut [Value]) {
    let is_reverse = request.flag("sort_reverse");
    let Some(field) = request.parameter("sort").filter(|field| !field.is_empty()) else {
        if is_reverse {
            items.reverse();
        }
        return;
    };
    items.sort_by(|a, b| compare(nested(a, field), nested(b, field)));
    if is_reverse {
        items.reverse();
    }
}

/// A field, of an inner object where dots say so.
fn nested<'a>(item: &'a Value, field: &str) -> &'a Value {
    field
        .split('.')
        .fold(item, |value, key| value.get(key).unwrap_or(&Value::Null))
}

/// What is missing first, then numbers, texts, and the rest by its text.
fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        (Value::Number(a), Value::Number(b)) => a
            .as_f64()
            .partial_cmp(&b.as_f64())
            .unwrap_or(Ordering::Equal),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        _ => a.to_string().cmp(&b.to_string()),
    }
}

fn columns_of_all(request: &Request, items: Vec<Value>) -> Value {
    let items = items.into_iter();
    items.map(|item| columns_of_one(request, item)).collect()
}

fn columns_of_one(request: &Request, item: Value) -> Value {
    let Some(columns) = request.parameter("columns").filter(|text| !text.is_empty()) else {
        return item;
    };
    let mut kept = Map::new();
    for column in columns.split(',') {
        let value = nested(&item, column);
        if !value.is_null() || item.get(column).is_some() {
            put(&mut kept, column, value.clone());
        }
    }
    Value::Object(kept)
}

fn put(into: &mut Map<String, Value>, column: &str, value: Value) {
    match column.split_once('.') {
        None => {
            into.insert(column.to_owned(), value);
        }
        Some((outer, rest)) => {
            let outer = into.entry(outer).or_insert_with(|| json!({}));
            if let Value::Object(outer) = outer {
                put(outer, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, Method};
    use bytes::Bytes;

    use super::*;

    fn request(query: &str) -> Request {
        Request {
            method: Method::GET,
            path: Vec::new(),
            query: form_urlencoded::parse(query.as_bytes())
                .into_owned()
                .collect(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            peer: std::net::Ipv4Addr::LOCALHOST.into(),
        }
    }

    fn items() -> Vec<Value> {
        vec![
            json!({"name": "a", "n": 10, "in": {"x": 1, "y": 2}}),
            json!({"name": "B", "n": 9}),
            json!({"name": "ab", "in": {"x": 0}}),
        ]
    }

    fn json_of(reply: Reply) -> Value {
        match reply {
            Reply::Json(value) => value,
            other => panic!("no JSON: {other:?}"),
        }
    }

    #[test]
    fn a_page_says_how_much_there_is() {
        let page = paged(&request("page=1&page_size=1&name=A&columns=name"), items());
        assert_eq!(
            json_of(page.expect("a page")),
            json!({
                "total_count": 3, "filtered_count": 2, "item_count": 1, "page": 1, "page_size": 1,
                "page_count": 2, "items": [{"name": "a"}],
            })
        );
        let none = paged(&request("page=1&name=zzz"), items()).expect("a page");
        assert_eq!(json_of(none)["page_count"], 0);
    }

    #[test]
    fn pages_that_cannot_be_are_refused() {
        for query in ["page=0", "page=x", "page=1&page_size=501", "page=9"] {
            let refused = paged(&request(query), items()).expect_err(query);
            assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        }
    }

    #[test]
    fn a_broken_pattern_matches_nothing() {
        let page = paged(&request("page=1&name=(&use_regex=true"), items());
        assert_eq!(json_of(page.expect("a page"))["items"], json!([]));
        let page = paged(
            &request("page=1&name=^b$&use_regex=true&columns=name"),
            items(),
        );
        assert_eq!(
            json_of(page.expect("a page"))["items"],
            json!([{"name": "B"}])
        );
    }

    #[test]
    fn columns_and_order_may_be_nested() {
        let list = whole(&request("sort=in.x&columns=name,in.y"), items());
        assert_eq!(
            json_of(list),
            json!([{"name": "B"}, {"name": "ab"}, {"name": "a", "in": {"y": 2}}])
        );
        let list = whole(&request("sort=n&sort_reverse=true&columns=name"), items());
        assert_eq!(
            json_of(list),
            json!([{"name": "a"}, {"name": "B"}, {"name": "ab"}])
        );
    }
}
