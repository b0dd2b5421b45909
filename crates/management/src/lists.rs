//! What all lists have in common: columns, order, filter, pages.

use std::cmp::Ordering;

use axum::http::StatusCode;
use regex::RegexBuilder;
use serde_json::{Map, Value, json};
use tokio::task::yield_now;

use crate::{error::Refused, reply::Reply, request::Request};

const PAGE_SIZE: usize = 100;
const PAGE_SIZE_MAX: usize = 500;

/// A longer pattern is refused, as by RabbitMQ.
const FILTER_LENGTH_MAX: usize = 1024;

/// Memory of one compiled filter.
const FILTER_BYTES_MAX: usize = 256 * 1024;

/// Objects that are shown before others have the thread.
const OBJECTS_AT_ONCE: usize = 256;

/// The fields of an object that an answer needs, by their outermost names; an object is made of these only, because
/// what a list of thousands is made of costs more than the list.
#[derive(Debug, Clone)]
pub(crate) struct Wanted(Option<Vec<String>>);

impl Wanted {
    /// All there are.
    pub(crate) const fn all() -> Self {
        Self(None)
    }

    /// What a request is shown, and what it is sorted by.
    pub(crate) fn of(request: &Request) -> Self {
        Self(columns(request).map(|columns| {
            let columns = columns.split(',').chain(sort_field(request));
            columns.map(|column| outermost(column).to_owned()).collect()
        }))
    }

    /// What must be known of every object before it is known which of them are shown.
    fn before_page(request: &Request) -> Self {
        let named = name_filter(request).map(|_| "name");
        let fields = sort_field(request).map(outermost).into_iter().chain(named);
        Self(Some(fields.map(str::to_owned).collect()))
    }

    pub(crate) fn has(&self, field: &str) -> bool {
        let Self(fields) = self;
        let is_field = |known: &String| known == field;
        fields
            .as_ref()
            .is_none_or(|fields| fields.iter().any(is_field))
    }

    pub(crate) fn has_any(&self, fields: &[&str]) -> bool {
        fields.iter().any(|field| self.has(field))
    }

    /// Whether nothing but these is.
    pub(crate) fn is_within(&self, fields: &[&str]) -> bool {
        let Self(wanted) = self;
        let is_among = |known: &String| fields.contains(&known.as_str());
        wanted
            .as_ref()
            .is_some_and(|wanted| wanted.iter().all(is_among))
    }

    /// Puts those of these fields into an object that are.
    pub(crate) fn put<const N: usize>(
        &self,
        into: &mut Map<String, Value>,
        fields: [(&str, Value); N],
    ) {
        let fields = fields.into_iter().filter(|(name, _)| self.has(name));
        into.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    }
}

/// Whether a page, if one is asked for, is cut by any of these fields, so that all objects must have them.
pub(crate) fn is_cut_by(request: &Request, fields: &[&str]) -> bool {
    request.parameter("page").is_some() && Wanted::before_page(request).has_any(fields)
}

/// The thread is left to others now and then while a long list is made.
#[derive(Debug, Default)]
pub(crate) struct Turns(usize);

impl Turns {
    /// One more object is done.
    pub(crate) async fn done(&mut self) {
        self.0 += 1;
        if self.0.is_multiple_of(OBJECTS_AT_ONCE) {
            yield_now().await;
        }
    }
}

/// What of a list is shown, before it is made: the whole of it, or a page if one is asked for.
#[derive(Debug)]
pub(crate) struct Selected<T> {
    pub(crate) items: Vec<T>,
    page: Option<Page>,
}

/// A page among others.
#[derive(Debug)]
struct Page {
    total: usize,
    filtered: usize,
    page: usize,
    size: usize,
    pages: usize,
}

/// Chooses what is shown. `show` makes an object, with only what is needed for that.
pub(crate) async fn select<T>(
    request: &Request,
    mut items: Vec<T>,
    show: impl Fn(&T, &Wanted) -> Value,
) -> Result<Selected<T>, Refused> {
    let Some(page) = request.parameter("page") else {
        return Ok(Selected { items, page: None });
    };
    let (page, size) = page_of(page, request.parameter("page_size"))?;
    let total = items.len();
    let is_pattern = request.flag("use_regex");
    if is_pattern && name_filter(request).is_some_and(|name| name.len() > FILTER_LENGTH_MAX) {
        return Err(Refused::new(
            StatusCode::BAD_REQUEST,
            "invalid_pagination_parameters",
            "name filter regex is too long",
        ));
    }
    let wanted = Wanted::before_page(request);
    if !wanted.is_within(&[]) {
        let is_meant = name_filter(request).map(|name| filter(name, is_pattern));
        let field = sort_field(request);
        let mut turns = Turns::default();
        let mut keyed = Vec::with_capacity(items.len());
        for item in items {
            let object = show(&item, &wanted);
            let name = object["name"].as_str().unwrap_or_default();
            if is_meant.as_ref().is_none_or(|is_meant| is_meant(name)) {
                let key = field.map(|field| nested(&object, field).clone());
                keyed.push((key.unwrap_or_default(), item));
            }
            turns.done().await;
        }
        // Those with the same key stay in their order, also where there is no key.
        keyed.sort_by(|(a, _), (b, _)| compare(a, b));
        items = keyed.into_iter().map(|(_, item)| item).collect();
    }
    if request.flag("sort_reverse") {
        items.reverse();
    }
    let filtered = items.len();
    let pages = filtered.div_ceil(size);
    if page > pages.max(1) {
        return Err(Refused::new(
            StatusCode::BAD_REQUEST,
            "page_out_of_range",
            format!("Page out of range, page: {page} page size: {size}, len: {filtered}"),
        ));
    }
    let items = items.into_iter().skip((page - 1) * size).take(size);
    Ok(Selected {
        items: items.collect(),
        page: Some(Page {
            total,
            filtered,
            page,
            size,
            pages,
        }),
    })
}

impl<T> Selected<T> {
    /// Makes what was selected.
    pub(crate) async fn shown(
        self,
        request: &Request,
        show: impl Fn(&T, &Wanted) -> Value,
    ) -> Reply {
        let wanted = Wanted::of(request);
        let mut turns = Turns::default();
        let mut list = Vec::with_capacity(self.items.len());
        for item in &self.items {
            list.push(show(item, &wanted));
            turns.done().await;
        }
        let Some(page) = self.page else {
            return whole(request, list);
        };
        Reply::Json(json!({
            "total_count": page.total,
            "filtered_count": page.filtered,
            "item_count": list.len(),
            "page": page.page,
            "page_size": page.size,
            "page_count": page.pages,
            "items": columns_of_all(request, list),
        }))
    }
}

/// A list that always comes as a whole, made as it is shown.
pub(crate) async fn unpaged<T>(
    request: &Request,
    items: Vec<T>,
    show: impl Fn(&T, &Wanted) -> Value,
) -> Reply {
    Selected { items, page: None }.shown(request, show).await
}

/// A list that comes as a whole, or page by page when asked for.
pub(crate) async fn paged<T>(
    request: &Request,
    items: Vec<T>,
    show: impl Fn(&T, &Wanted) -> Value,
) -> Result<Reply, Refused> {
    let selected = select(request, items, &show).await?;
    Ok(selected.shown(request, show).await)
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

/// Whether a name is meant.
type NameFilter = Box<dyn Fn(&str) -> bool + Send + Sync>;

fn filter(name: &str, is_pattern: bool) -> NameFilter {
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
    let Some(field) = sort_field(request) else {
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

/// What a list is sorted by, if by anything but its own order.
fn sort_field(request: &Request) -> Option<&str> {
    request.parameter("sort").filter(|field| !field.is_empty())
}

/// What the names on a page are to contain.
fn name_filter(request: &Request) -> Option<&str> {
    request.parameter("name").filter(|name| !name.is_empty())
}

/// The fields that are to be shown, unless it is all.
fn columns(request: &Request) -> Option<&str> {
    request.parameter("columns").filter(|text| !text.is_empty())
}

/// The name of the field that a path of points begins with.
fn outermost(field: &str) -> &str {
    field.split_once('.').map_or(field, |(outer, _)| outer)
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
    let Some(columns) = columns(request) else {
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

    /// As lists of objects are made: of what is wanted only.
    async fn page_of_items(query: &str) -> Result<Value, Refused> {
        let show = |item: &Value, wanted: &Wanted| {
            let Value::Object(fields) = item else {
                return item.clone();
            };
            let fields = fields.iter().filter(|(name, _)| wanted.has(name));
            Value::Object(
                fields
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect(),
            )
        };
        paged(&request(query), items(), show).await.map(json_of)
    }

    fn json_of(reply: Reply) -> Value {
        match reply {
            Reply::Json(value) => value,
            other => panic!("no JSON: {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_page_says_how_much_there_is() {
        let page = page_of_items("page=1&page_size=1&name=A&columns=name").await;
        assert_eq!(
            page.expect("a page"),
            json!({
                "total_count": 3, "filtered_count": 2, "item_count": 1, "page": 1, "page_size": 1,
                "page_count": 2, "items": [{"name": "a"}],
            })
        );
        let none = page_of_items("page=1&name=zzz").await.expect("a page");
        assert_eq!(none["page_count"], 0);
    }

    #[tokio::test]
    async fn pages_that_cannot_be_are_refused() {
        for query in ["page=0", "page=x", "page=1&page_size=501", "page=9"] {
            let refused = page_of_items(query).await.expect_err(query);
            assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        }
    }

    #[tokio::test]
    async fn a_broken_pattern_matches_nothing() {
        let items = async |query| page_of_items(query).await.expect("a page")["items"].clone();
        assert_eq!(items("page=1&name=(&use_regex=true").await, json!([]));
        assert_eq!(
            items("page=1&name=^b$&use_regex=true&columns=name").await,
            json!([{"name": "B"}])
        );
    }

    #[tokio::test]
    async fn what_a_page_is_sorted_by_need_not_be_shown() {
        let names = async |query| {
            let page = page_of_items(query).await.expect("a page");
            let names = page["items"].as_array().expect("a list").iter();
            names
                .map(|item| item["name"].as_str().unwrap_or_default().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            names("page=1&sort=in.x&columns=name").await,
            ["B", "ab", "a"]
        );
        assert_eq!(
            names("page=1&sort=n&sort_reverse=true&page_size=2").await,
            ["a", "B"]
        );
        assert_eq!(names("page=2&sort_reverse=true&page_size=2").await, ["a"]);
    }

    #[tokio::test]
    async fn only_what_is_on_a_page_is_made() {
        let made = std::cell::Cell::new(0);
        let show = |item: &u64, wanted: &Wanted| {
            if wanted.has("dear") {
                made.set(made.get() + 1);
            }
            json!({"name": item.to_string(), "depth": item % 7})
        };
        for query in [
            "page=3&page_size=10",
            "page=3&page_size=10&name=9",
            "page=3&page_size=10&sort=depth&sort_reverse=true",
        ] {
            made.set(0);
            let page = paged(&request(query), (0..1000).collect(), show).await;
            assert_eq!(json_of(page.expect("a page"))["item_count"], 10, "{query}");
            assert_eq!(made.get(), 10, "{query}");
        }
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
