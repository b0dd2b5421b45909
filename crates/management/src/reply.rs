//! What a request is answered.

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header},
};
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
    Moved(&'static str),
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

pub(crate) fn response(outcome: Result<Reply, Refused>, is_encrypted: bool) -> Response<Body> {
    let mut response = match outcome {
        Ok(reply) => replied(reply),
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

fn replied(reply: Reply) -> Response<Body> {
    match reply {
        Reply::Json(value) => json(StatusCode::OK, &value),
        Reply::Status(status, value) => json(status, &value),
        Reply::Download(value, name) => {
            let mut response = json(StatusCode::OK, &value);
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
        Reply::Moved(to) => {
            let mut response = empty(StatusCode::MOVED_PERMANENTLY);
            response
                .headers_mut()
                .insert(header::LOCATION, HeaderValue::from_static(to));
            response
        }
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
        Some(body) => json(refused.status, body),
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

fn json(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
