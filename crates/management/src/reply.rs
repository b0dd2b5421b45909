//! What a request is answered.

use std::io::{self, Write};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Response, StatusCode, header},
};
use flate2::{Compression, write::GzEncoder};
use serde_json::Value;

use crate::error::Refused;

/// An answer that is no refusal.
#[derive(Debug)]
pub(crate) enum Reply {
    Json(Value),
    /// JSON with another status than 200.
    Status(StatusCode, Value),
    /// JSON to be saved under a name.
    Download(Value, String),
    /// With where it is, relative to the path asked for.
    Created(Option<String>),
    NoContent,
    /// It will be done.
    Accepted,
    /// The page is elsewhere, for good.
    Moved(String),
    /// To be looked at elsewhere, after a form was sent.
    SeeOther(String),
    Page(&'static str),
}

impl Reply {
    /// What a PUT answers.
    pub(crate) const fn put(is_new: bool) -> Self {
        if is_new {
            Self::Created(None)
        } else {
            Self::NoContent
        }
    }
}

/// What a DELETE answers.
pub(crate) fn deleted(was_there: bool) -> Result<Reply, Refused> {
    if was_there {
        Ok(Reply::NoContent)
    } else {
        Err(Refused::not_found())
    }
}

/// Bodies from this size on are worth packing.
const PACKED_MIN: usize = 300;

/// Whether a client unpacks what it is sent.
pub(crate) fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT_ENCODING).iter();
    let accepted = accepted.filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts
            .next()
            .is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        is_gzip && !parts.any(|weight| matches!(weight, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

/// How an answer is sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sent {
    /// Over TLS.
    pub(crate) is_encrypted: bool,
    /// Packed, if that is worth it.
    pub(crate) gzip: bool,
}

pub(crate) fn response(outcome: Result<Reply, Refused>, sent: Sent) -> Response<Body> {
    let Sent { is_encrypted, gzip } = sent;
    let mut response = match outcome {
        Ok(reply) => replied(reply, gzip),
        Err(refused) => refusal(&refused),
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(
        header::VARY,
        HeaderValue::from_static("accept, accept-encoding, origin"),
    );
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("script-src 'self'; object-src 'self'"),
    );
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    );
    if is_encrypted {
        headers.insert(
            header::STRICT_TRANSPORT_SECURITY,
            HeaderValue::from_static("max-age=31536000"),
        );
    }
    response
}

fn replied(reply: Reply, gzip: bool) -> Response<Body> {
    match reply {
        Reply::Json(value) => json(StatusCode::OK, &value, gzip),
        Reply::Status(status, value) => json(status, &value, gzip),
        Reply::Download(value, name) => {
            let mut response = json(StatusCode::OK, &value, gzip);
            if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename={name}")) {
                response
                    .headers_mut()
                    .insert(header::CONTENT_DISPOSITION, value);
            }
            response
        }
        Reply::Created(location) => {
            let mut response = empty(StatusCode::CREATED);
            if let Some(Ok(location)) = location.as_deref().map(HeaderValue::from_str) {
                response.headers_mut().insert(header::LOCATION, location);
            }
            response
        }
        Reply::NoContent => empty(StatusCode::NO_CONTENT),
        Reply::Accepted => empty(StatusCode::ACCEPTED),
        Reply::Moved(to) => elsewhere(StatusCode::MOVED_PERMANENTLY, &to),
        Reply::SeeOther(to) => elsewhere(StatusCode::SEE_OTHER, &to),
        Reply::Page(html) => {
            let mut response = Response::new(Body::from(html));
            response.headers_mut().insert(
                header::CONTENT_TYPE,
                HeaderValue::from_static("text/html; charset=utf-8"),
            );
            response
        }
    }
}

fn refusal(refused: &Refused) -> Response<Body> {
    let mut response = match &refused.body {
        Some(body) => json(refused.status, body, false),
        None => empty(refused.status),
    };
    let headers = response.headers_mut();
    if refused.asks_for_login {
        let realm = HeaderValue::from_static("Basic realm=\"RabbitMQ Management\"");
        headers.insert(header::WWW_AUTHENTICATE, realm);
    }
    if let Some(Ok(allow)) = refused.allow.as_deref().map(HeaderValue::from_str) {
        headers.insert(header::ALLOW, allow);
    }
    response
}

fn elsewhere(status: StatusCode, to: &str) -> Response<Body> {
    let mut response = empty(status);
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

fn json(status: StatusCode, value: &Value, gzip: bool) -> Response<Body> {
    let text = value.to_string();
    let packed = (gzip && text.len() >= PACKED_MIN).then(|| packed(text.as_bytes()));
    let mut response = match packed.transpose() {
        Ok(Some(packed)) => {
            let mut response = Response::new(Body::from(packed));
            response
                .headers_mut()
                .insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            response
        }
        // Unpacked it is as good.
        Ok(None) | Err(_) => Response::new(Body::from(text)),
    };
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

fn packed(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(text)?;
    packer.finish()
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
