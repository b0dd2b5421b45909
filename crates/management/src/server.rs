//! The listeners of the API and of the metrics, and what every request goes through.

use std::{io, net::SocketAddr, sync::Arc, time::Instant};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{ConnectInfo, State},
    http::{self, Method, Response, StatusCode},
};
use leveret_runtime::Broker;
use tokio::{net::TcpListener, task::JoinHandle};
use tracing::error;

use crate::{
    error::Refused,
    metrics,
    rates::Rates,
    reply::{self, Reply},
    request::{self, Request},
    routes,
    visitor::{Needs, Visitor},
};

/// The largest body of a request, as RabbitMQ's `management.http.max_body_size`.
const BODY_BYTES_MAX: usize = 20_000_000;

/// A listener cannot be had. The text is for the operator.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({option}): {source}")]
pub struct HttpError {
    address: SocketAddr,
    option: &'static str,
    source: io::Error,
}

/// An address that is bound and not served yet.
#[derive(Debug)]
pub struct BoundListener(std::net::TcpListener, SocketAddr);

impl BoundListener {
    /// Binds an address; `option` is how the operator gave it.
    ///
    /// # Errors
    ///
    /// When it cannot be had.
    pub fn bind(address: SocketAddr, option: &'static str) -> Result<Self, HttpError> {
        let bound = || {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Self(listener, address))
        };
        bound().map_err(|source| HttpError {
            address,
            option,
            source,
        })
    }

    /// The address in use, with the port that was chosen for port 0.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.1
    }
}

/// Where the broker listens, as the API tells it.
#[derive(Debug, Clone, Default)]
pub struct Listening {
    /// AMQP clients.
    pub amqp: Vec<SocketAddr>,
    /// This API.
    pub http: Option<SocketAddr>,
    /// Prometheus.
    pub metrics: Option<SocketAddr>,
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
    /// Serves what is bound.
    ///
    /// # Errors
    ///
    /// When a listener cannot be given to the runtime.
    pub fn start(
        broker: Arc<Broker>,
        amqp: Vec<SocketAddr>,
        http: Option<BoundListener>,
        metrics: Option<BoundListener>,
    ) -> io::Result<Self> {
        let listening = Listening {
            amqp,
            http: http.as_ref().map(BoundListener::address),
            metrics: metrics.as_ref().map(BoundListener::address),
        };
        let api = Arc::new(Api::of(broker, listening));
        let mut tasks = Vec::new();
        if let Some(BoundListener(listener, _)) = http {
            let router = Router::new().fallback(answer).with_state(api.clone());
            tasks.push(serve(listener, router)?);
        }
        if let Some(BoundListener(listener, _)) = metrics {
            let router = Router::new().fallback(scrape).with_state(api);
            tasks.push(serve(listener, router)?);
        }
        Ok(Self { tasks })
    }
}

impl Drop for Management {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn serve(listener: std::net::TcpListener, router: Router) -> io::Result<JoinHandle<()>> {
    let listener = TcpListener::from_std(listener)?;
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    Ok(tokio::spawn(async move {
        if let Err(reason) = axum::serve(listener, service).await {
            error!(%reason, "an HTTP listener ended");
        }
    }))
}

async fn scrape(State(api): State<Arc<Api>>, request: http::Request<Body>) -> Response<Body> {
    metrics::answer(&api, request.uri().path(), request.uri().query())
}

async fn answer(
    State(api): State<Arc<Api>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: http::Request<Body>,
) -> Response<Body> {
    reply::response(outcome(&api, peer, request).await)
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
    let body = to_bytes(body, BODY_BYTES_MAX)
        .await
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
