//! What is served where, and what every request goes through.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Extension, Router,
    body::{Body, to_bytes},
    extract::{ConnectInfo, State},
    http::{self, HeaderName, HeaderValue, Method, Response, StatusCode},
};
use bytes::Bytes;
use leveret_runtime::Broker;
use leveret_tls::Tls;
use tokio::{sync::Semaphore, task::JoinHandle, time::timeout};
use tracing::error;

use crate::{
    answers::Answers,
    cors::Cors,
    error::Refused,
    listener::{BoundListener, IsEncrypted},
    metrics,
    node::{Node, NodeFacts},
    rates::Rates,
    reply::{self, Reply, Sent},
    request::{self, Request},
    routes::{self, Asked},
    visitor::{Needs, Visitor},
};

/// The largest body of a request, as RabbitMQ's `management.http.max_body_size`.
const BODY_BYTES_MAX: usize = 20_000_000;

/// The largest body of somebody who has shown no credentials.
const OPEN_BODY_BYTES_MAX: usize = 64 * 1024;

/// Requests that take messages off queues at once: each may hold as much of them as one answer has room for.
const GETS_MAX: usize = 4;

/// Where the broker listens, as the API tells it.
#[derive(Debug, Clone, Default)]
pub struct Listening {
    /// AMQP clients.
    pub amqp: Vec<SocketAddr>,
    /// AMQP clients with TLS.
    pub amqps: Vec<SocketAddr>,
    /// What these are shown, if there are some.
    pub amqp_tls: Option<Arc<Tls>>,
    /// This API, plain or with TLS.
    pub http: Vec<ListeningHttp>,
    /// Prometheus, plain or with TLS.
    pub metrics: Vec<ListeningHttp>,
}

/// A socket of HTTP.
#[derive(Debug, Clone)]
pub struct ListeningHttp {
    /// Where.
    pub address: SocketAddr,
    /// What its clients are shown, with TLS.
    pub tls: Option<Arc<Tls>>,
}

impl From<&BoundListener> for ListeningHttp {
    fn from(listener: &BoundListener) -> Self {
        Self {
            address: listener.address(),
            tls: listener.tls().cloned(),
        }
    }
}

/// How long clients may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpTimeouts {
    /// The head of a request, and the wait for the next one.
    pub head: Duration,
    /// The body of a request.
    pub body: Duration,
}

impl Default for HttpTimeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(5),
            body: Duration::from_secs(60),
        }
    }
}

/// How the API and the metrics are served.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Everything is below this path, such as `/mq`; empty for the root.
    pub path_prefix: String,
    /// Which pages of other origins may use the API.
    pub cors: Cors,
    /// How long clients may take.
    pub timeouts: HttpTimeouts,
    /// Where the metrics are: `/metrics`, or what a deployment has instead.
    pub metrics_path: String,
    /// It has a series for each object, as its `/per-object` always has.
    pub metrics_per_object: bool,
    /// The largest body of a request.
    pub body_bytes_max: usize,
    /// Headers of every answer, in place of those that are sent otherwise.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// RabbitMQ's word for which rates tools are shown; with `none` no object has `message_stats`.
    pub rates_mode: &'static str,
    /// Every request is answered as if it asked for no statistics.
    pub disable_stats: bool,
    /// And for the depths of queues all the same.
    pub enable_queue_totals: bool,
    /// Nobody changes operator policies over the network.
    pub operator_policies_are_fixed: bool,
    /// Told to tools that upload definitions.
    pub definitions_need_json_extension: bool,
    /// After how many minutes a page should ask for the password again.
    pub login_session_minutes: Option<u64>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            path_prefix: String::new(),
            cors: Cors::default(),
            timeouts: HttpTimeouts::default(),
            metrics_path: "/metrics".to_owned(),
            metrics_per_object: false,
            body_bytes_max: BODY_BYTES_MAX,
            headers: Vec::new(),
            rates_mode: "basic",
            disable_stats: false,
            enable_queue_totals: false,
            operator_policies_are_fixed: false,
            definitions_need_json_extension: false,
            login_session_minutes: None,
        }
    }
}

/// What every request is answered with.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) broker: Arc<Broker>,
    pub(crate) listening: Listening,
    pub(crate) started: Instant,
    pub(crate) rates: Rates,
    /// What was answered and not taken yet.
    pub(crate) answers: Answers,
    /// Requests that take messages off queues.
    pub(crate) gets: Semaphore,
    pub(crate) settings: HttpSettings,
    pub(crate) facts: Arc<NodeFacts>,
}

impl Api {
    pub(crate) fn of(
        broker: Arc<Broker>,
        listening: Listening,
        settings: HttpSettings,
        facts: Arc<NodeFacts>,
    ) -> Self {
        Self {
            broker,
            listening,
            settings,
            facts,
            started: Instant::now(),
            rates: Rates::default(),
            answers: Answers::default(),
            gets: Semaphore::new(GETS_MAX),
        }
    }

    /// Whether objects have `message_stats`.
    pub(crate) fn has_message_stats(&self) -> bool {
        self.settings.rates_mode != "none"
    }
}

/// The API and the metrics, while they are served.
#[derive(Debug)]
pub struct Management {
    node: Arc<Node>,
    tasks: Vec<JoinHandle<()>>,
}

impl Management {
    /// Serves what is bound; `amqp` and `amqps` are where AMQP clients are served, the latter with this TLS.
    #[must_use]
    pub fn start(
        node: &Arc<Node>,
        broker: Arc<Broker>,
        (amqp, amqps, amqp_tls): (Vec<SocketAddr>, Vec<SocketAddr>, Option<Arc<Tls>>),
        http: Vec<BoundListener>,
        metrics: Vec<BoundListener>,
        settings: HttpSettings,
    ) -> Self {
        let listening = Listening {
            amqp,
            amqps,
            amqp_tls,
            http: http.iter().map(ListeningHttp::from).collect(),
            metrics: metrics.iter().map(ListeningHttp::from).collect(),
        };
        let head_timeout = settings.timeouts.head;
        node.set_api(Some(Arc::new(Api::of(
            broker,
            listening,
            settings,
            node.facts().clone(),
        ))));
        let pages = Router::new().fallback(answer).with_state(node.clone());
        let http = http
            .into_iter()
            .map(|bound| serve(node, bound, pages.clone(), head_timeout));
        let scrapes = Router::new().fallback(scrape).with_state(node.clone());
        let metrics = metrics
            .into_iter()
            .map(|bound| serve(node, bound, scrapes.clone(), head_timeout));
        Self {
            node: node.clone(),
            tasks: http.chain(metrics).collect(),
        }
    }
}

impl Drop for Management {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.node.set_api(None);
    }
}

fn serve(
    node: &Node,
    listener: BoundListener,
    router: Router,
    head_timeout: Duration,
) -> JoinHandle<()> {
    node.runtime().spawn(async move {
        if let Err(reason) = listener.serve(router, head_timeout).await {
            error!(%reason, "an HTTP listener ended");
        }
    })
}

async fn scrape(State(node): State<Arc<Node>>, request: http::Request<Body>) -> Response<Body> {
    let Some(api) = node.api() else {
        return reply::response(Err(Refused::stopped()), Sent::default());
    };
    let place = node.scrapes().acquire().await;
    let page = metrics::answer(&node, &api, request.method(), request.uri()).await;
    drop(place);
    api.answers.hold(page, true).await
}

async fn answer(
    State(node): State<Arc<Node>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Extension(IsEncrypted(is_encrypted)): Extension<IsEncrypted>,
    request: http::Request<Body>,
) -> Response<Body> {
    let (method, headers) = (request.method().clone(), request.headers().clone());
    let is_forged = node
        .api()
        .is_some_and(|api| api.settings.cors.is_forged(&method, &headers));
    let outcome = if is_forged {
        Err(Refused::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "a page of another origin may not do that",
        ))
    } else {
        outcome(&node, Origin::Network(peer.ip()), request).await
    };
    let sent = Sent {
        is_encrypted,
        gzip: reply::takes_gzip(&headers),
    };
    let mut response = reply::response(outcome, sent);
    if let Some(api) = node.api() {
        // What only looks can be asked again.
        let only_looks = matches!(method, Method::GET | Method::HEAD);
        response = api.answers.hold(response, only_looks).await;
        let cors = &api.settings.cors;
        cors.allow(&method, &headers, response.headers_mut());
        for (name, value) in &api.settings.headers {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

/// Answers who came through the administrators' socket.
pub(crate) async fn answer_administrator(
    State(node): State<Arc<Node>>,
    request: http::Request<Body>,
) -> Response<Body> {
    reply::response(
        outcome(&node, Origin::Machine, request).await,
        Sent::default(),
    )
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Who asks proves it by a password.
    Network(IpAddr),
    /// The administrators' socket, which opens to them only.
    Machine,
}

async fn outcome(
    node: &Node,
    origin: Origin,
    request: http::Request<Body>,
) -> Result<Reply, Refused> {
    let (parts, body) = request.into_parts();
    let api = node.api();
    // What the operator says of requests is of those over the network.
    let reached = api.as_deref().filter(|_| origin != Origin::Machine);
    let prefix = reached.map_or("", |api| api.settings.path_prefix.trim_end_matches('/'));
    let path = match Place::of(parts.uri.path(), prefix) {
        Place::Resource(path) => path,
        Place::Elsewhere(to) => return Ok(Reply::Moved(to)),
        Place::Page(html) => return routes::of_page(&parts.method).map(|()| Reply::Page(html)),
        Place::Nowhere => {
            routes::of_page(&parts.method)?;
            return Err(Refused::not_found());
        }
    };
    let mut request = asked(parts, path, origin, reached);
    let route = routes::of(&request)?;
    let needs = route.needs(&request.method)?;
    request.check_ages()?;
    let visitor = visitor(&request, origin, needs, api.as_deref()).await?;
    visitor.check(needs)?;
    // Not before: who may not use the route has no memory here. What nothing is asked of is not waited for.
    let mut room = None;
    if takes_body(&request.method) {
        let (bytes_max, patience) = room_for_body(needs, api.as_deref());
        let announced = announced_bytes(&request, bytes_max)?;
        let receiving = async {
            let room = node.room_for_body(announced).await;
            body_of(body, bytes_max).await.map(|body| (body, room))
        };
        (request.body, room) = timeout(patience, receiving)
            .await
            .map_err(|_| Refused::empty(StatusCode::REQUEST_TIMEOUT))??;
    }
    let asked = Asked::new(node, api.as_deref(), &visitor, &request);
    let outcome = visitor.actor().acts(route.answer(&asked)).await;
    // The body is not needed any more.
    drop(room);
    outcome
}

/// What a path leads to.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// The API, with the path below it.
    Resource(Vec<String>),
    /// Another path.
    Elsewhere(String),
    Page(&'static str),
    Nowhere,
}

impl Place {
    fn of(path: &str, prefix: &str) -> Self {
        let Some(below) = path.strip_prefix(prefix) else {
            return match path {
                "/" => Self::Elsewhere(format!("{prefix}/")),
                _ => Self::Nowhere,
            };
        };
        match below {
            "" => Self::Elsewhere(format!("{prefix}/")),
            "/cli" | "/cli/" => Self::Elsewhere(format!("{prefix}/cli/index.html")),
            "/api" | "/api/" | "/doc/stats.html" => {
                Self::Elsewhere(format!("{prefix}/api/index.html"))
            }
            "/mgmt" | "/mgmt/" => Self::Elsewhere(format!("{prefix}/")),
            "/" | "/index.html" | "/api/index.html" => Self::Page(INDEX),
            _ => {
                let below_api = below.strip_prefix("/api");
                let below_api = below_api.filter(|rest| rest.starts_with('/'));
                let segments = below_api.and_then(request::segments);
                segments.map_or(Self::Nowhere, Self::Resource)
            }
        }
    }
}

/// A request taken apart, without its body.
fn asked(
    parts: http::request::Parts,
    path: Vec<String>,
    origin: Origin,
    reached: Option<&Api>,
) -> Request {
    let query = parts.uri.query().unwrap_or_default();
    Request {
        method: match parts.method {
            Method::HEAD => Method::GET,
            method => method,
        },
        path,
        query: parameters(query, reached),
        headers: parts.headers,
        body: Bytes::new(),
        peer: match origin {
            Origin::Network(peer) => peer,
            Origin::Machine => Ipv4Addr::LOCALHOST.into(),
        },
    }
}

/// Who asks.
async fn visitor(
    request: &Request,
    origin: Origin,
    needs: Needs,
    api: Option<&Api>,
) -> Result<Visitor, Refused> {
    match (origin, needs, api) {
        (Origin::Machine, ..) => Ok(Visitor::of_machine()),
        (Origin::Network(_), Needs::Nothing, _) => Ok(Visitor::nobody()),
        (Origin::Network(peer), _, Some(api)) => {
            Visitor::of(&api.broker, &request.headers, peer).await
        }
        // Nobody can be told from anybody else.
        (Origin::Network(_), _, None) => Err(Refused::stopped()),
    }
}

/// The parameters of a request, before them those that the operator wants every request to have.
fn parameters(query: &str, api: Option<&Api>) -> Vec<(String, String)> {
    let settings = api.map(|api| &api.settings);
    let always = [
        (
            "disable_stats",
            settings.is_some_and(|set| set.disable_stats),
        ),
        (
            "enable_queue_totals",
            settings.is_some_and(|set| set.enable_queue_totals),
        ),
    ];
    let always = always.into_iter().filter(|(_, is_set)| *is_set);
    let always = always.map(|(name, _)| (name.to_owned(), "true".to_owned()));
    always
        .chain(form_urlencoded::parse(query.as_bytes()).into_owned())
        .collect()
}

/// Whether a method brings something.
fn takes_body(method: &Method) -> bool {
    matches!(method.as_str(), "PUT" | "POST" | "DELETE")
}

/// How large a body may be, and how long it may take: of somebody without credentials no longer than a head.
fn room_for_body(needs: Needs, api: Option<&Api>) -> (usize, Duration) {
    let settings = api.map(|api| &api.settings);
    let timeouts = settings.map(|set| set.timeouts).unwrap_or_default();
    if needs == Needs::Nothing {
        return (OPEN_BODY_BYTES_MAX, timeouts.head);
    }
    let bytes_max = settings.map_or(BODY_BYTES_MAX, |set| set.body_bytes_max);
    (bytes_max, timeouts.body)
}

/// How many bytes a body can have: as many as there may be, where nobody says.
fn announced_bytes(request: &Request, bytes_max: usize) -> Result<usize, Refused> {
    let announced = request.header("content-length");
    match announced.and_then(|text| text.parse::<u64>().ok()) {
        Some(bytes) if bytes > bytes_max as u64 => {
            Err(Refused::empty(StatusCode::PAYLOAD_TOO_LARGE))
        }
        Some(bytes) => Ok(usize::try_from(bytes).unwrap_or(bytes_max)),
        None if request.header("transfer-encoding").is_none() => Ok(0),
        None => Ok(bytes_max),
    }
}

async fn body_of(body: Body, bytes_max: usize) -> Result<Bytes, Refused> {
    let body = to_bytes(body, bytes_max).await;
    body.map_err(|_| Refused::empty(StatusCode::PAYLOAD_TOO_LARGE))
}

const INDEX: &str = "<!doctype html><title>Leveret</title><h1>Leveret</h1>\
<p>The HTTP API is below <code>/api</code>; see <a href=\"api/overview\">overview</a> and \
<a href=\"api/x/openapi.json\">its description</a>.</p>";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_the_apis_only_if_it_is_below_it() {
        let resource =
            |words: &[&str]| Place::Resource(words.iter().map(|word| (*word).to_owned()).collect());
        for (path, prefix, place) in [
            ("/api/overview", "", resource(&["overview"])),
            ("/api/overview/", "", resource(&["overview"])),
            ("/api//overview", "", resource(&["", "overview"])),
            ("/apioverview", "", Place::Nowhere),
            ("/apix/overview", "", Place::Nowhere),
            ("/mq/api/overview", "/mq", resource(&["overview"])),
            ("/mqapi/overview", "/mq", Place::Nowhere),
            ("/mq/apioverview", "/mq", Place::Nowhere),
            ("/api/overview", "/mq", Place::Nowhere),
            ("/api", "", Place::Elsewhere("/api/index.html".to_owned())),
            ("/", "/mq", Place::Elsewhere("/mq/".to_owned())),
            ("/", "", Place::Page(INDEX)),
            ("/api/%FF", "", Place::Nowhere),
        ] {
            assert_eq!(Place::of(path, prefix), place, "{path} below {prefix:?}");
        }
    }
}
