//! Messages that a broker begins with: a file of them, one JSON object a line, as fixtures of tests are.
//!
//! ```text
//!   {"queue": "jobs", "payload": "one"}
//!   {"exchange": "events", "routing_key": "a.b", "payload": {"id": 7}, "properties": {"delivery_mode": 2}}
//! ```
//!
//! The names are those of the HTTP API, so that what its `get` shows of a message is a line too. Every message must
//! reach a queue: a fixture with a slip in it should not pass for an empty queue.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use leveret_runtime::Broker;
use leveret_wire::value::ShortString;
use serde_json::{Map, Value};

use crate::{
    error::Refused,
    request::{nested, optional_text},
    resource::messages::{built, check_size, decoded, properties_from_json},
};

/// The longest line. A body of the largest size that can be allowed, in base64, is longer: it is no fixture.
const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Bodies that may wait for the disk before the next line is read.
const UNSTORED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What a line may say.
const KEYS: [&str; 7] = [
    "vhost",
    "queue",
    "exchange",
    "routing_key",
    "payload",
    "payload_encoding",
    "properties",
];

/// What the HTTP API says of a message that it shows, and a new one has by itself.
const SHOWN_KEYS: [&str; 3] = ["payload_bytes", "redelivered", "message_count"];

/// The type of a payload that is no text.
const JSON_TYPE: &str = "application/json";

/// Messages that cannot be loaded. The text is for the operator.
#[derive(Debug, thiserror::Error)]
pub enum MessagesError {
    /// The file.
    #[error("cannot read messages from {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line of it.
    #[error("{path}:{line}: {reason}")]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// Why.
        reason: String,
    },
}

/// Publishes what a file says, before anybody is let in. Returns once it is stored.
///
/// # Errors
///
/// At the first line that is wrong; what stands before it is published.
pub async fn load_messages(broker: &Arc<Broker>, path: &Path) -> Result<u64, MessagesError> {
    let file = File::open(path).map_err(|source| MessagesError::Read {
        path: path.to_owned(),
        source,
    })?;
    load_messages_from(broker, path, file).await
}

/// The same from anywhere; `path` is how problems name it.
///
/// # Errors
///
/// See [`load_messages`].
pub async fn load_messages_from(
    broker: &Arc<Broker>,
    path: &Path,
    from: impl Read,
) -> Result<u64, MessagesError> {
    let mut from = BufReader::new(from);
    let (mut line, mut count, mut unstored) = (0, 0, 0);
    let mut text = String::new();
    loop {
        line += 1;
        let wrong = |reason: String| MessagesError::Line {
            path: path.to_owned(),
            line,
            reason,
        };
        text.clear();
        let read = from.by_ref().take(LINE_BYTES_MAX).read_line(&mut text);
        match read {
            Ok(0) => break,
            Ok(bytes) if bytes as u64 == LINE_BYTES_MAX && !text.ends_with('\n') => {
                return Err(wrong(format!("it is longer than {LINE_BYTES_MAX} bytes")));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(wrong("it is not UTF-8".to_owned()));
            }
            Err(source) => {
                return Err(MessagesError::Read {
                    path: path.to_owned(),
                    source,
                });
            }
        }
        if text.trim().is_empty() {
            continue;
        }
        let bytes = publish(broker, &text).map_err(wrong)?;
        count += 1;
        unstored += bytes;
        if unstored > UNSTORED_BYTES_MAX {
            broker.flush().await;
            unstored = 0;
        }
    }
    broker.flush().await;
    tracing::info!(file = %path.display(), messages = count, "messages loaded");
    Ok(count)
}

/// Publishes what a line says: the size of its body, or what is wrong.
fn publish(broker: &Broker, line: &str) -> Result<usize, String> {
    let object = match serde_json::from_str(line) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return Err("it is not a JSON object".to_owned()),
        Err(error) => {
            // The line it names is always the first.
            let column = error.column();
            return Err(format!("it is not JSON, at column {column}"));
        }
    };
    let mut keys = object.keys().map(String::as_str);
    if let Some(unknown) = keys.find(|key| !KEYS.contains(key) && !SHOWN_KEYS.contains(key)) {
        return Err(format!(
            "there is no key {unknown:?}; there are {}",
            KEYS.join(", ")
        ));
    }
    let vhost = name(&object, "vhost")?;
    let vhost = vhost.unwrap_or_else(|| ShortString::cut(&broker.node().default_vhost));
    let handle = broker.vhost(&vhost);
    let handle = handle.map_err(|_| format!("there is no vhost '{vhost}'"))?;
    let (exchange, key) = address(&object)?;
    let mut properties = nested(&object, "properties").map_err(reason)?;
    let body = match object.get("payload") {
        None => return Err("it has no payload".to_owned()),
        Some(Value::String(text)) => {
            let encoding = optional_text(&object, "payload_encoding").map_err(reason)?;
            decoded(text, encoding.unwrap_or("string")).map_err(reason)?
        }
        Some(value) => {
            let of_json = || Value::from(JSON_TYPE);
            properties.entry("content_type").or_insert_with(of_json);
            value.to_string().into_bytes()
        }
    };
    check_size(broker, &body).map_err(reason)?;
    let bytes = body.len();
    let properties = properties_from_json(&properties).map_err(reason)?;
    let message = built(&exchange, &key, &properties, body).map_err(reason)?;
    let user = ShortString::cut(&broker.node().default_user);
    match handle.publish_unstored(&message, &user) {
        Ok(true) => Ok(bytes),
        Ok(false) if exchange.is_empty() => {
            Err(format!("there is no queue '{key}' in vhost '{vhost}'"))
        }
        Ok(false) => Err(format!(
            "exchange '{exchange}' in vhost '{vhost}' has no queue for the key '{key}'"
        )),
        Err(refusal) => Err(refusal.to_string()),
    }
}

/// Exchange and routing key: those that are named, or a queue by its name.
fn address(object: &Map<String, Value>) -> Result<(ShortString, ShortString), String> {
    let exchange = name(object, "exchange")?;
    let key = name(object, "routing_key")?;
    match (name(object, "queue")?, exchange, key) {
        (Some(queue), None, None) => Ok((ShortString::default(), queue)),
        (Some(_), ..) => {
            Err("it has a queue, so that exchange and routing_key have no meaning".to_owned())
        }
        (None, None, None) => Err("it has neither a queue nor an exchange".to_owned()),
        (None, exchange, key) => Ok((exchange.unwrap_or_default(), key.unwrap_or_default())),
    }
}

fn name(object: &Map<String, Value>, key: &str) -> Result<Option<ShortString>, String> {
    let text = optional_text(object, key).map_err(reason)?;
    let name = text.map(ShortString::try_from).transpose();
    name.map_err(|_| format!("{key} has more than 255 bytes"))
}

fn reason(refused: Refused) -> String {
    let reason = refused.body.map(|mut body| body["reason"].take());
    match reason {
        Some(Value::String(text)) => text,
        other => other.unwrap_or_default().to_string(),
    }
}
