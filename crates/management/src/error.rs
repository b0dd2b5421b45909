//! Why a request is refused, as status and body.

use axum::http::{Method, StatusCode};
use leveret_core::{directory::DirectoryError, refusal::Refusal};
use leveret_wire::reply_code::ReplyCode;
use serde_json::{Value, json};

/// Columns of a line that Erlang prints.
const ERLANG_COLUMNS: usize = 80;

/// A request that is not carried out.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    pub(crate) body: Option<Value>,
    /// Who asks without credentials is told how to give them.
    pub(crate) asks_for_login: bool,
    /// What the path can do, of a method it cannot.
    pub(crate) allow: Option<String>,
    /// The path names a vhost that is not there.
    pub(crate) names_no_vhost: bool,
}

impl Refused {
    pub(crate) const fn empty(status: StatusCode) -> Self {
        Self {
            status,
            body: None,
            asks_for_login: false,
            allow: None,
            names_no_vhost: false,
        }
    }

    pub(crate) fn new(status: StatusCode, error: &str, reason: impl Into<Value>) -> Self {
        Self {
            body: Some(json!({ "error": error, "reason": reason.into() })),
            ..Self::empty(status)
        }
    }

    /// The request is wrong in itself.
    pub(crate) fn bad_request(reason: impl Into<Value>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", reason)
    }

    /// Somebody asks for what statistics show, and for none of them.
    pub(crate) fn without_stats() -> Self {
        Self::bad_request("Stats in management UI are disabled on this node")
    }

    /// A mandatory key is missing.
    pub(crate) fn key_missing(key: &str) -> Self {
        Self::keys_missing(&[key])
    }

    /// Mandatory keys are missing: the list as Erlang prints it, which is one line as long as it fits.
    pub(crate) fn keys_missing(keys: &[&str]) -> Self {
        let keys: Vec<String> = keys
            .iter()
            .map(|key| format!("{{key_missing,{key}}}"))
            .collect();
        let line = format!("[{}]", keys.join(","));
        Self::bad_request(if line.len() < ERLANG_COLUMNS {
            line
        } else {
            format!("[{}]", keys.join(",\n "))
        })
    }

    /// No such path or object.
    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Object Not Found", "Not Found")
    }

    /// What the request speaks of is missing.
    pub(crate) fn missing(reason: impl Into<Value>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", reason)
    }

    /// The path names a vhost that is not there.
    pub(crate) fn no_vhost() -> Self {
        Self {
            names_no_vhost: true,
            ..Self::missing("vhost_not_found")
        }
    }

    /// As it is told with this method. Who reads or deletes something in a vhost that is not there is told that the
    /// thing is not there, as in RabbitMQ; who makes something is told of the vhost.
    pub(crate) fn of_method(self, method: &Method) -> Self {
        if self.names_no_vhost && (*method == Method::GET || *method == Method::DELETE) {
            return Self::not_found();
        }
        self
    }

    /// The same with what it is about behind the reason.
    pub(crate) fn with_context(mut self, context: &str) -> Self {
        if let Some(Value::String(reason)) = self.body.as_mut().map(|body| &mut body["reason"]) {
            reason.push_str(context);
        }
        self
    }

    /// The broker was stopped and the process lives on.
    pub(crate) fn stopped() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "not_running",
            "the broker is not running on this node",
        )
    }

    /// The visitor is known and may not.
    pub(crate) fn not_authorised(reason: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "not_authorised", reason)
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        match refusal.reply_code() {
            ReplyCode::AccessRefused => Self::not_authorised("Access refused."),
            ReplyCode::NotFound => Self::missing(refusal.to_string()),
            _ => Self::bad_request(refusal.to_string()),
        }
    }
}

impl From<DirectoryError> for Refused {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::NoUser(_) | DirectoryError::NoVhost(_) => {
                Self::bad_request("vhost_or_user_not_found")
            }
            DirectoryError::Pattern { .. } => Self::bad_request(error.to_string()),
        }
    }
}
