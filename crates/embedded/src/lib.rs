//! The whole broker inside a test: started in milliseconds on a free port, gone at the end of the test.
//!
//! ```
//! use std::{io::{Read, Write}, net::TcpStream};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let broker = leveret_embedded::Options::new()
//!     .definitions_text(r#"{"queues": [{"name": "jobs", "vhost": "/", "durable": true}]}"#)
//!     .messages_text(r#"{"queue": "jobs", "payload": "one"}"#)
//!     .start()?;
//!
//! // Any client goes to this URL: amqp://guest:guest@127.0.0.1:PORT/%2F
//! let url = broker.url();
//! assert!(url.starts_with("amqp://guest:guest@127.0.0.1:"));
//!
//! // Without a client, what a broker says to somebody who speaks another protocol.
//! let mut socket = TcpStream::connect(broker.address())?;
//! socket.write_all(b"GET / HT")?;
//! let mut answer = Vec::new();
//! socket.read_to_end(&mut answer)?;
//! assert_eq!(answer, b"AMQP\x00\x00\x09\x01");
//! # Ok(())
//! # }
//! ```
//!
//! Nothing is shared: any number of brokers live in one process, each with users, queues and a port of its own.
//! Everything is in memory unless [`Options::data_dir`] says otherwise. Dropping [`Embedded`] ends the broker and
//! cuts off whoever is still connected; [`Embedded::stop`] asks them to leave first.
//!
//! It needs no async runtime in the test and disturbs none: the broker has threads of its own. What it logs goes to
//! the `tracing` subscriber of the test, if there is one.

mod options;
mod running;

use std::{net::SocketAddr, time::Duration};

use leveret_management::{HttpError, ImportError, MessagesError};
use leveret_server::BindError;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

pub use self::options::Options;
use self::running::Running;

/// How long connected clients have to answer a close when the broker is told to stop.
const CLOSE_DEADLINE: Duration = Duration::from_secs(5);

/// Why there is no broker.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The port of the HTTP API.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The data directory.
    #[error(transparent)]
    Open(#[from] leveret_runtime::StartError),
    /// The definitions.
    #[error(transparent)]
    Definitions(#[from] ImportError),
    /// The messages.
    #[error(transparent)]
    Messages(#[from] MessagesError),
    /// Threads, or what they need.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
}

/// The last writes of a broker with a data directory failed.
#[derive(Debug, thiserror::Error)]
#[error("the last writes failed; the next start will treat this stop as a crash: {0}")]
pub struct StopError(String);

/// A broker that runs until this is dropped.
#[derive(Debug)]
pub struct Embedded {
    address: SocketAddr,
    http: Option<SocketAddr>,
    user: String,
    password: String,
    vhost: String,
    running: Running,
}

impl Embedded {
    /// A broker in memory, with user `guest` and vhost `/`.
    ///
    /// # Errors
    ///
    /// When the machine has no port or thread for it.
    pub fn start() -> Result<Self, StartError> {
        Options::new().start()
    }

    fn with(options: &Options) -> Result<Self, StartError> {
        let (running, address, http) = Running::start(options)?;
        Ok(Self {
            address,
            http,
            user: options.user.clone(),
            password: options.password.clone(),
            vhost: options.vhost.clone(),
            running,
        })
    }

    /// Where AMQP clients are accepted.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where AMQP clients are accepted, as they are told it: with user, password and vhost.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of(&self.vhost)
    }

    /// The same for another vhost, which definitions have made.
    #[must_use]
    pub fn url_of(&self, vhost: &str) -> String {
        let vhost = encoded(vhost);
        format!("amqp://{}@{}/{vhost}", self.credentials(), self.address)
    }

    /// Where the HTTP API is, with user and password; `None` without [`Options::http`].
    #[must_use]
    pub fn http_url(&self) -> Option<String> {
        let address = self.http?;
        Some(format!("http://{}@{address}", self.credentials()))
    }

    /// Stops in order: what was published is confirmed, and clients are told (320). Not for a test whose only thread
    /// also runs the client, which could not answer.
    ///
    /// # Errors
    ///
    /// When the last writes to a data directory fail.
    pub fn stop(mut self) -> Result<(), StopError> {
        self.running.stop(CLOSE_DEADLINE)
    }

    fn credentials(&self) -> String {
        format!("{}:{}", encoded(&self.user), encoded(&self.password))
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = self.running.stop(Duration::ZERO);
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
