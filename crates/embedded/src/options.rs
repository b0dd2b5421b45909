//! What a broker begins with.

use std::path::PathBuf;

use crate::{Embedded, StartError};

/// What a broker begins with; what is not said is as in RabbitMQ.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) definitions: Vec<Given>,
    pub(crate) messages: Vec<Given>,
    pub(crate) has_http: bool,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) node_name: String,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) vhost: String,
}

/// Something in a file, or as it is.
#[derive(Debug, Clone)]
pub(crate) enum Given {
    File(PathBuf),
    Text(String),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            definitions: Vec::new(),
            messages: Vec::new(),
            has_http: false,
            data_dir: None,
            node_name: "rabbit@localhost".to_owned(),
            user: "guest".to_owned(),
            password: "guest".to_owned(),
            vhost: "/".to_owned(),
        }
    }
}

impl Options {
    /// A broker in memory, with user `guest` and vhost `/`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Queues, exchanges, users and so on, as RabbitMQ exports them; may be said several times. The user and the vhost of
    /// the broker are there beside them.
    #[must_use]
    pub fn definitions(mut self, file: impl Into<PathBuf>) -> Self {
        self.definitions.push(Given::File(file.into()));
        self
    }

    /// The same as a text.
    #[must_use]
    pub fn definitions_text(mut self, json: impl Into<String>) -> Self {
        self.definitions.push(Given::Text(json.into()));
        self
    }

    /// Messages that are published behind the definitions, one JSON object a line; may be said several times.
    ///
    /// A line has `queue`, or `exchange` and `routing_key`; `payload`, a text or any JSON; and if need be
    /// `payload_encoding` (`string` or `base64`), `properties` and `vhost`.
    #[must_use]
    pub fn messages(mut self, file: impl Into<PathBuf>) -> Self {
        self.messages.push(Given::File(file.into()));
        self
    }

    /// The same as a text.
    #[must_use]
    pub fn messages_text(mut self, lines: impl Into<String>) -> Self {
        self.messages.push(Given::Text(lines.into()));
        self
    }

    /// With the HTTP API, on a free port too.
    #[must_use]
    pub const fn http(mut self) -> Self {
        self.has_http = true;
        self
    }

    /// With everything durable in a directory, where the next broker finds it.
    #[must_use]
    pub fn data_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(dir.into());
        self
    }

    /// Under this name instead of `rabbit@localhost`.
    #[must_use]
    pub fn node_name(mut self, name: impl Into<String>) -> Self {
        self.node_name = name.into();
        self
    }

    /// With this administrator instead of `guest`.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = name.into();
        self.password = password.into();
        self
    }

    /// With this vhost instead of `/`.
    #[must_use]
    pub fn vhost(mut self, name: impl Into<String>) -> Self {
        self.vhost = name.into();
        self
    }

    /// Starts it; returns when clients are accepted.
    ///
    /// # Errors
    ///
    /// When definitions or messages are wrong, or the machine has no port or thread for it.
    pub fn start(&self) -> Result<Embedded, StartError> {
        Embedded::with(self)
    }
}
