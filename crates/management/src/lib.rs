//! The HTTP API that RabbitMQ's tools expect, and metrics for Prometheus.
//!
//! ```text
//!   socket ─▶ axum ─▶ Request: path split before it is decoded ─▶ route ─▶ resource ─▶ handle of runtime
//!                        │
//!                        └─ who asks, by the users of the broker; each route says who may
//! ```
//!
//! All of it runs on one thread of its own ([`HttpThread`]). Nothing here costs a message anything: counts are read from queues when somebody asks, and what a connection
//! does is asked of its own task. Rates come from what was seen when somebody asked before.

mod answers;
mod cors;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod http_thread;
mod listener;
mod lists;
mod message_file;
mod metrics;
mod metrics_text;
mod node;
mod openapi;
mod patient;
mod rates;
mod reply;
mod request;
mod resource;
mod routes;
mod server;
mod values;
mod visitor;

pub use axum::http::{HeaderValue, header};

pub use self::{
    cors::Cors,
    http_thread::HttpThread,
    listener::{BoundListener, HttpError},
    message_file::{MessagesError, load_messages, load_messages_from},
    node::{AdminSocket, LogControl, Node, NodeFacts, Order, Ordered, Phase, Plugins},
    resource::definitions::{ImportError, import_file, import_text},
    server::{HttpSettings, HttpTimeouts, Listening, ListeningHttp, Management},
};
