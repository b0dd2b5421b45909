//! Messages put into an exchange and taken out of a queue by hand.

use axum::http::StatusCode;
use base64::{Engine, engine::general_purpose::STANDARD};
use leveret_core::{
    dead_letter::routing_keys_of,
    message::{Life, Message, MessageParts},
    queue::Outcome,
    record::ExchangeKind,
    refusal::{ObjectKind, Refusal},
    rights::Right,
};
use leveret_runtime::{Broker, Taken};
use leveret_wire::{
    content::{BasicProperties, RawProperties},
    reply_code::ReplyCode,
    value::{FieldTable, ShortString, Timestamp},
};
use serde_json::{Map, Value, json};

use crate::{
    error::Refused,
    reply::Reply,
    request::{Request, integer, nested, optional_text, required, text},
    resource::{entered, exchanges::real_name, queues},
    server::Api,
    values::{table_from_json, table_to_json},
    visitor::Visitor,
};

/// Messages that one request may take.
const COUNT_MAX: i64 = 100_000;

/// The longest a message may live: ten years.
const EXPIRATION_MAX_MILLIS: u64 = 315_360_000_000;

pub(crate) async fn publish(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    vhost: &str,
    exchange: &str,
) -> Result<Reply, Refused> {
    let vhost = entered(api, visitor, vhost)?;
    let exchange = real_name(exchange)?;
    let kind = match vhost.snapshot().exchange(&exchange) {
        Ok(found) => found.record().kind,
        Err(_) => return Err(Refused::missing("exchange_not_found")),
    };
    let object = request.object()?;
    required(
        &object,
        &["routing_key", "properties", "payload", "payload_encoding"],
    )?;
    let properties = properties_from_json(&nested(&object, "properties")?)?;
    let key = ShortString::try_from(text(&object, "routing_key")?)
        .map_err(|_| Refused::bad_request("routing_key too long"))?;
    let payload = text(&object, "payload")?;
    let body = decoded(payload, text(&object, "payload_encoding")?)?;
    let rights = visitor.rights(&api.broker, vhost.name());
    rights
        .check(Right::Write, ObjectKind::Exchange, &exchange)
        .map_err(|refusal| closed_channel(&refusal))?;
    check_size(&api.broker, &body)?;
    if let Some(user_id) = &properties.user_id
        && *user_id != visitor.name
        && !visitor.tags.iter().any(|tag| tag == "impersonator")
    {
        return Err(Refused::bad_request(format!(
            "406 PRECONDITION_FAILED - user_id property set to '{user_id}' but authenticated user was '{}'",
            visitor.name
        )));
    }
    let message = built(&exchange, &key, &properties, body)?;
    if kind == ExchangeKind::Topic {
        // Those in CC and BCC too.
        for key in routing_keys_of(&message, &properties) {
            rights
                .check_topic(Right::Write, &exchange, &key)
                .map_err(|refusal| closed_channel(&refusal))?;
        }
    }
    let routed = vhost.publish_message(&message, &visitor.name).await;
    let routed = routed.map_err(|refusal| match refusal.reply_code() {
        ReplyCode::AccessRefused => closed_channel(&refusal),
        _ => refusal.into(),
    })?;
    Ok(Reply::Json(json!({ "routed": routed })))
}

/// A payload as bytes.
pub(crate) fn decoded(payload: &str, encoding: &str) -> Result<Vec<u8>, Refused> {
    match encoding {
        "string" => Ok(payload.as_bytes().to_vec()),
        "base64" => STANDARD
            .decode(payload)
            .map_err(|_| Refused::bad_request(json!(["not_base64", payload]))),
        other => Err(Refused::bad_request(format!(
            "Unsupported encoding: {other}. Must be string or base64."
        ))),
    }
}

pub(crate) fn check_size(broker: &Broker, body: &[u8]) -> Result<(), Refused> {
    let bytes_max = broker.node().message_size_max;
    if body.len() as u64 > bytes_max {
        return Err(Refused::bad_request(format!(
            "406 PRECONDITION_FAILED - message size {} is larger than configured max size {bytes_max}",
            body.len()
        )));
    }
    Ok(())
}

/// A message of these parts, as if a client had published it.
pub(crate) fn built(
    exchange: &ShortString,
    key: &ShortString,
    properties: &BasicProperties,
    body: Vec<u8>,
) -> Result<Message, Refused> {
    let expiration_millis = match &properties.expiration {
        None => None,
        Some(millis) => Some(expiration(millis)?),
    };
    let raw = properties.encode();
    let parts = MessageParts {
        exchange: exchange.as_bytes(),
        routing_key: key.as_bytes(),
        properties: raw.as_bytes(),
        body: body.into(),
        persistent: properties.delivery_mode == Some(2),
        priority: properties.priority,
    };
    let life = Life {
        expiration_millis,
        ..Life::default()
    };
    Ok(Message::with_life(parts, life))
}

/// RabbitMQ publishes through a channel and tells what that was closed with.
fn closed_channel(refusal: &Refusal) -> Refused {
    Refused::bad_request(format!("403 ACCESS_REFUSED - {refusal}"))
}

fn expiration(millis: &ShortString) -> Result<u64, Refused> {
    let parsed = millis.to_str().ok().and_then(|text| text.parse().ok());
    parsed
        .filter(|millis| *millis <= EXPIRATION_MAX_MILLIS)
        .ok_or_else(|| {
            Refused::bad_request(format!(
                "406 PRECONDITION_FAILED - invalid expiration '{millis}'"
            ))
        })
}

pub(crate) async fn get(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    vhost: &str,
    queue: &str,
) -> Result<Reply, Refused> {
    let vhost = entered(api, visitor, vhost)?;
    let Ok((name, _)) = queues::found(api, &vhost, queue) else {
        return Err(Refused::missing("queue_not_found"));
    };
    let object = request.object()?;
    // Scripts for older versions say `requeue` in place of the first.
    let ways = ["ackmode", "count", "encoding"];
    let skipped = usize::from(object.contains_key("requeue"));
    required(&object, &ways[skipped..])?;
    let outcome = outcome(&object)?;
    let count = integer(&object, "count")?.ok_or_else(|| Refused::key_missing("count"))?;
    let encoding = text(&object, "encoding")?;
    if !matches!(encoding, "auto" | "base64") {
        return Err(Refused::bad_request(format!(
            "Unsupported encoding: {encoding}. Must be auto or base64."
        )));
    }
    let truncate = integer(&object, "truncate")?;
    let truncate = truncate.and_then(|bytes| usize::try_from(bytes).ok());
    let rights = visitor.rights(&api.broker, vhost.name());
    rights.check(Right::Read, ObjectKind::Queue, &name)?;
    let count = usize::try_from(count.clamp(0, COUNT_MAX)).unwrap_or(0);
    let taker = (api.broker.next_connection_id(), visitor.name.clone());
    // Given back when the answer is made of them.
    let _place = api.gets.acquire().await;
    if api.answers.is_crowded() {
        // While nothing is taken yet: what is in an answer that cannot be sent would be lost.
        return Err(Refused::empty(StatusCode::SERVICE_UNAVAILABLE));
    }
    let taken = vhost.take(name, taker, count, outcome).await?;
    let list = taken
        .iter()
        .map(|taken| shown(taken, encoding == "base64", truncate));
    Ok(Reply::Json(list.collect()))
}

fn outcome(object: &Map<String, Value>) -> Result<Outcome, Refused> {
    match optional_text(object, "ackmode")? {
        Some("ack_requeue_true" | "reject_requeue_true") => Ok(Outcome::Returned),
        Some("ack_requeue_false") => Ok(Outcome::Acked),
        Some("reject_requeue_false") => Ok(Outcome::Rejected),
        Some(other) => Err(Refused::bad_request(format!(
            "Unsupported ackmode: {other}. Must be one of: ack_requeue_true, ack_requeue_false, \
             reject_requeue_true, reject_requeue_false"
        ))),
        // What scripts for older versions say.
        None => match crate::request::boolean(object, "requeue")? {
            Some(true) => Ok(Outcome::Returned),
            Some(false) => Ok(Outcome::Acked),
            None => Err(Refused::key_missing("ackmode")),
        },
    }
}

fn shown(taken: &Taken, is_base64: bool, truncate: Option<usize>) -> Value {
    let message = &taken.message;
    let body = message.body();
    let shown = &body[..truncate.map_or(body.len(), |bytes| bytes.min(body.len()))];
    let (payload, encoding) = match std::str::from_utf8(shown) {
        Ok(text) if !is_base64 => (text.to_owned(), "string"),
        Ok(_) | Err(_) => (STANDARD.encode(shown), "base64"),
    };
    json!({
        "payload_bytes": body.len(),
        "redelivered": taken.redelivered,
        "exchange": String::from_utf8_lossy(message.exchange()),
        "routing_key": String::from_utf8_lossy(message.routing_key()),
        "message_count": taken.remaining,
        "properties": properties_to_json(message.properties()),
        "payload": payload,
        "payload_encoding": encoding,
    })
}

pub(super) fn properties_to_json(raw: &[u8]) -> Value {
    let raw = RawProperties::from_wire(bytes::Bytes::copy_from_slice(raw));
    let Some(properties) = raw.ok().and_then(|raw| BasicProperties::decode(&raw).ok()) else {
        return json!({});
    };
    let mut object = Map::new();
    let texts = [
        ("content_type", &properties.content_type),
        ("content_encoding", &properties.content_encoding),
        ("correlation_id", &properties.correlation_id),
        ("reply_to", &properties.reply_to),
        ("expiration", &properties.expiration),
        ("message_id", &properties.message_id),
        ("type", &properties.kind),
        ("user_id", &properties.user_id),
        ("app_id", &properties.app_id),
        ("cluster_id", &properties.cluster_id),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            object.insert(name.to_owned(), value.to_string().into());
        }
    }
    if let Some(headers) = &properties.headers {
        object.insert("headers".to_owned(), table_to_json(headers));
    }
    if let Some(mode) = properties.delivery_mode {
        object.insert("delivery_mode".to_owned(), mode.into());
    }
    if let Some(priority) = properties.priority {
        object.insert("priority".to_owned(), priority.into());
    }
    if let Some(timestamp) = properties.timestamp {
        object.insert("timestamp".to_owned(), timestamp.0.into());
    }
    object.into()
}

pub(crate) fn properties_from_json(
    object: &Map<String, Value>,
) -> Result<BasicProperties, Refused> {
    let text = |key: &str| -> Result<Option<ShortString>, Refused> {
        let Some(text) = optional_text(object, key)? else {
            return Ok(None);
        };
        ShortString::try_from(text)
            .map(Some)
            .map_err(|_| Refused::bad_request(format!("{key} too long")))
    };
    let octet = |key: &str| -> Result<Option<u8>, Refused> {
        let Some(number) = integer(object, key)? else {
            return Ok(None);
        };
        u8::try_from(number)
            .map(Some)
            .map_err(|_| Refused::bad_request(json!(["not_int", key])))
    };
    let headers = match object.get("headers") {
        None | Some(Value::Null) => None,
        Some(_) => Some(headers_from_json(&nested(object, "headers")?)?),
    };
    let timestamp = integer(object, "timestamp")?;
    Ok(BasicProperties {
        content_type: text("content_type")?,
        content_encoding: text("content_encoding")?,
        headers,
        delivery_mode: octet("delivery_mode")?,
        priority: octet("priority")?,
        correlation_id: text("correlation_id")?,
        reply_to: text("reply_to")?,
        expiration: text("expiration")?,
        message_id: text("message_id")?,
        timestamp: timestamp
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map(Timestamp),
        kind: text("type")?,
        user_id: text("user_id")?,
        app_id: text("app_id")?,
        cluster_id: text("cluster_id")?,
    })
}

fn headers_from_json(object: &Map<String, Value>) -> Result<FieldTable, Refused> {
    if object.values().any(Value::is_null) {
        return Err(Refused::bad_request("headers may not be null"));
    }
    table_from_json(object)
}
