//! What is served where, and what every request goes through.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Extension, Router,
    body::{Body, to_bytes},
    extract::{ConnectInfo, State},
    http::{self, Method, Response, StatusCode},
};
use leveret_runtime::Broker;
use tokio::{task::JoinHandle, time::timeout};
use tracing::error;

use crate::{
    error::Refused,
    listener::{BoundListener, IsEncrypted},
    metrics,
    rates::Rates,
    reply::{self, Reply},
    request::{self, Request},
    routes,
    visitor::{Needs, Visitor},
};

/// The largest body of a request, as RabbitMQ's `management.http.max_body_size`.
const BODY_BYTES_MAX: usize = 20_000_000;

/// How long a body may take to come.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Where the broker listens, as the API tells it.
#[derive(Debug, Clone, Default)]
pub struct Listening {
    /// AMQP clients.
    pub amqp: Vec<SocketAddr>,
    /// AMQP clients with TLS.
    pub amqps: Vec<SocketAddr>,
    /// This API, plain or with TLS.
    pub http: Vec<ListeningHttp>,
    /// Prometheus, plain or with TLS.
    pub metrics: Vec<ListeningHttp>,
}

/// A socket of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListeningHttp {
    /// Where.
    pub address: SocketAddr,
    /// With TLS.
    pub is_encrypted: bool,
}

impl From<&BoundListener> for ListeningHttp {
    fn from(listener: &BoundListener) -> Self {
        Self {
            address: listener.address(),
            is_encrypted: listener.is_encrypted(),
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
}

impl Api {
    pub(crate) fn of(broker: Arc<Broker>, listening: Listening) -> Self {
        Self {
            broker,
            listening,
            started: Instant::now(),
            rates: Rates::default(),
        }
    }
}

/// The API and the metrics, while they are served.
#[derive(Debug)]
pub struct Management {
    tasks: Vec<JoinHandle<()>>,
}

impl Management {
    /// Serves what is bound; `amqp` and `amqps` are where AMQP clients are served.
    #[must_use]
    pub fn start(
        broker: Arc<Broker>,
        (amqp, amqps): (Vec<SocketAddr>, Vec<SocketAddr>),
        http: Vec<BoundListener>,
        metrics: Vec<BoundListener>,
    ) -> Self {
        let listening = Listening {
            amqp,
            amqps,
            http: http.iter().map(ListeningHttp::from).collect(),
            metrics: metrics.iter().map(ListeningHttp::from).collect(),
        };
        let api = Arc::new(Api::of(broker, listening));
        let pages = Router::new().fallback(answer).with_state(api.clone());
        let http = http.into_iter().map(|bound| serve(bound, pages.clone()));
        let scrapes = Router::new().fallback(scrape).with_state(api);
        let metrics = metrics
            .into_iter()
            .map(|bound| serve(bound, scrapes.clone()));
        Self {
            tasks: http.chain(metrics).collect(),
        }
    }
}

impl Drop for Management {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn serve(listener: BoundListener, router: Router) -> JoinHandle<()> {
    tokio::spawn(async move {
        if let Err(reason) = listener.serve(router).await {
            error!(%reason, "an HTTP listener ended");
        }
    })
}

async fn scrape(State(api): State<Arc<Api>>, request: http::Request<Body>) -> Response<Body> {
    metrics::answer(&api, request.uri().path(), request.uri().query())
}

async fn answer(
    State(api): State<Arc<Api>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Extension(IsEncrypted(is_encrypted)): Extension<IsEncrypted>,
    request: http::Request<Body>,
) -> Response<Body> {
    reply::response(outcome(&api, peer, request).await, is_encrypted)
}

async fn outcome(
    api: &Api,
    peer: SocketAddr,
    request: http::Request<Body>,
) -> Result<Reply, Refused> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let Some(path) = path.strip_prefix("/api") else {
        return page(path);
    };
    if path.is_empty() || path == "/" {
        return Ok(Reply::Moved("/api/index.html"));
    }
    if path == "/index.html" {
        return Ok(Reply::Page(INDEX));
    }
    let path = request::segments(path).ok_or_else(Refused::not_found)?;
    let body = timeout(BODY_TIMEOUT, to_bytes(body, BODY_BYTES_MAX))
        .await
        .map_err(|_| Refused::empty(StatusCode::REQUEST_TIMEOUT))?
        .map_err(|_| Refused::empty(StatusCode::PAYLOAD_TOO_LARGE))?;
    let query = parts.uri.query().unwrap_or_default();
    let request = Request {
        method: if parts.method == Method::HEAD {
            Method::GET
        } else {
            parts.method
        },
        path,
        query: form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect(),
        headers: parts.headers,
        body,
        peer: peer.ip(),
    };
    let needs = routes::needs(&request)?;
    let visitor = if needs == Needs::Nothing {
        Visitor::nobody()
    } else {
        Visitor::of(&api.broker, &request.headers, request.peer)?
    };
    visitor.check(needs)?;
    routes::carry_out(api, &visitor, &request).await
}

/// What is no part of the API.
fn page(path: &str) -> Result<Reply, Refused> {
    match path {
        "/" | "/index.html" => Ok(Reply::Page(INDEX)),
        _ => Err(Refused::not_found()),
    }
}

const INDEX: &str = "<!doctype html><title>Leveret</title><h1>Leveret</h1>\
<p>The HTTP API is below <code>/api</code>; see <a href=\"/api/overview\">/api/overview</a>.</p>";
