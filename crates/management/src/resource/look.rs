//! `/x/queues/V/Q/messages`: what stands in a queue, without taking it out.

use base64::{Engine, engine::general_purpose::STANDARD};
use leveret_core::{
    ids::Seq,
    queue::{Look, Seen, Standing},
    rights::Right,
};
use leveret_runtime::OpenConnection;
use serde_json::{Value, json};

use crate::{
    error::Refused,
    reply::Reply,
    request::Request,
    resource::{messages::properties_to_json, queues},
    server::Api,
    values::iso_time,
    visitor::Visitor,
};

/// Messages that are shown when nobody says how many.
const LIMIT: usize = 50;

/// Messages that are shown at most.
const LIMIT_MAX: usize = 1000;

/// Bytes of bodies that are shown at most; of further ones only the size.
const BODIES_BYTES_MAX: usize = 16 * 1024 * 1024;

pub(crate) async fn messages(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    vhost: &str,
    queue: &str,
) -> Result<Reply, Refused> {
    // Who may see bodies here could as well take them.
    let (_, _, queue) = queues::granted(api, visitor, vhost, queue, Right::Read)?;
    let look = asked(request)?;
    let seen = queue.look(look).await;
    let seen = seen.map_err(|damage| Refused::bad_request(damage.to_string()))?;
    let next = (seen.len() == look.limit).then(|| seen.last().map(|last| last.seq.get()));
    let open = api.broker.connections();
    let mut room = if request.flag("body") {
        BODIES_BYTES_MAX
    } else {
        0
    };
    let list = seen.iter().map(|seen| shown(seen, &open, &mut room));
    Ok(Reply::Json(json!({
        "messages": list.collect::<Value>(),
        "next": next.flatten(),
    })))
}

fn asked(request: &Request) -> Result<Look, Refused> {
    let number = |name: &str| -> Result<Option<u64>, Refused> {
        let text = request.parameter(name).filter(|text| !text.is_empty());
        let number = text.map(str::parse).transpose();
        number.map_err(|_| Refused::bad_request(format!("{name} should be a number")))
    };
    let limit = number("limit")?.and_then(|limit| usize::try_from(limit).ok());
    let (ready, unacked, retrying) = match request.parameter("state").unwrap_or("all") {
        "all" => (true, true, true),
        "ready" => (true, false, false),
        "unacked" => (false, true, false),
        "retrying" => (false, false, true),
        other => {
            return Err(Refused::bad_request(format!(
                "state should be one of all, ready, unacked, retrying; actually was {other}"
            )));
        }
    };
    Ok(Look {
        after: number("after")?.map(Seq::new),
        limit: limit.unwrap_or(LIMIT).clamp(1, LIMIT_MAX),
        ready,
        unacked,
        retrying,
    })
}

fn shown(seen: &Seen, open: &[OpenConnection], room: &mut usize) -> Value {
    let message = &seen.message;
    let body = message.body();
    let mut object = json!({
        "ref": seen.seq.get(),
        "state": match seen.standing {
            Standing::Ready => "ready",
            Standing::Unacked(_) => "unacked",
            Standing::Retrying(_) => "retrying",
        },
        "exchange": String::from_utf8_lossy(message.exchange()),
        "routing_key": String::from_utf8_lossy(message.routing_key()),
        "properties": properties_to_json(message.properties()),
        "payload_bytes": body.len(),
        "redelivered": seen.redelivered,
        "attempts": seen.attempts,
        "came_at": seen.came.map(|came| iso_time(came.get())),
        "expires_at": seen.expires.map(|expires| iso_time(expires.get())),
    });
    match seen.standing {
        Standing::Ready => {}
        Standing::Unacked(channel) => {
            let mut open = open.iter();
            let holder = open.find(|known| known.facts.id == channel.connection);
            object["holder"] = json!({
                "connection": holder.map(|known| known.facts.name()),
                "channel": channel.channel,
            });
        }
        Standing::Retrying(until) => object["retry_at"] = iso_time(until.get()).into(),
    }
    if *room > 0 && body.len() <= *room {
        *room -= body.len();
        let (payload, encoding) = match std::str::from_utf8(body) {
            Ok(text) => (text.to_owned(), "string"),
            Err(_) => (STANDARD.encode(body), "base64"),
        };
        object["payload"] = payload.into();
        object["payload_encoding"] = encoding.into();
    }
    object
}
