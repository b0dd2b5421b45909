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
    let (page, size) = page_of(page, request.parameter("page_size"))?;
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
            format!("Page out of range, page: {page} page size: {size}, len: {filtered}"),
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

/// Which page is meant, and how long it is.
fn page_of(page: &str, size: Option<&str>) -> Result<(usize, usize), Refused> {
    let number = |text: &str| {
        text.parse::<i64>()
            .map_err(|_| Refused::bad_request("Pagination parameters are invalid"))
    };
    let (page, size) = (number(page)?, size.map(number).transpose()?);
    let possible = || {
        let page = usize::try_from(page).ok()?;
        let size = size.map_or(Some(PAGE_SIZE), |size| usize::try_from(size).ok())?;
        (page > 0 && (1..=PAGE_SIZE_MAX).contains(&size)).then_some((page, size))
    };
    possible().ok_or_else(|| {
        let size = size.map_or_else(|| "undefined".to_owned(), |size| size.to_string());
        Refused::new(
            StatusCode::BAD_REQUEST,
            "invalid_pagination_parameters",
            format!("Invalid pagination parameters: page number {page}, page size {size}"),
        )
    })
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
        keep(&item, column, &mut kept);
    }
    Value::Object(kept)
}

/// What clients name as they like, points and all: it is kept as a whole, as in RabbitMQ.
const WHOLE: [&str; 2] = ["arguments", "client_properties"];

/// Keeps one column, of inner objects and of those in inner lists where points say so.
fn keep(item: &Value, column: &str, kept: &mut Map<String, Value>) {
    let (outer, rest) = match column.split_once('.') {
        Some((outer, rest)) if !WHOLE.contains(&outer) => (outer, Some(rest)),
        Some((outer, _)) => (outer, None),
        None => (column, None),
    };
    let Some(value) = item.get(outer) else {
        return;
    };
    let Some(rest) = rest else {
        kept.insert(outer.to_owned(), value.clone());
        return;
    };
    match value {
        Value::Object(_) => {
            let mut inner = match kept.remove(outer) {
                Some(Value::Object(inner)) => inner,
                Some(_) | None => Map::new(),
            };
            keep(value, rest, &mut inner);
            if !inner.is_empty() {
                kept.insert(outer.to_owned(), inner.into());
            }
        }
        Value::Array(list) => {
            let before = match kept.remove(outer) {
                Some(Value::Array(before)) => before,
                Some(_) | None => Vec::new(),
            };
            let mut before = before.into_iter();
            let each = list.iter().map(|one| {
                let mut inner = match before.next() {
                    Some(Value::Object(inner)) => inner,
                    Some(_) | None => Map::new(),
                };
                keep(one, rest, &mut inner);
                Value::Object(inner)
            });
            let each: Vec<Value> = each.collect();
            kept.insert(outer.to_owned(), each.into());
        }
        _ => {}
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
    fn columns_reach_into_lists_and_not_into_what_clients_name() {
        let item = json!({
            "arguments": {"x-max-length": 1, "other": 2},
            "details": [{"tag": "a", "n": 1}, {"tag": "b", "n": 2}],
        });
        let kept = columns_of_one(
            &request("columns=arguments.x-max-length,details.tag,details.n,details.no"),
            item.clone(),
        );
        assert_eq!(kept, item);
        let kept = columns_of_one(&request("columns=details.tag"), item);
        assert_eq!(kept, json!({"details": [{"tag": "a"}, {"tag": "b"}]}));
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
