//! `/exchanges`.

use std::sync::Arc;

use leveret_core::{
    exchange::Exchange,
    record::{Destination, ExchangeRecord},
    refusal::{ObjectKind, Refusal},
    rights::Right,
    vhost::ExchangeDeclare,
};
use leveret_runtime::VhostHandle;
use leveret_wire::value::ShortString;
use serde_json::{Map, Value, json};

use crate::{
    error::Refused,
    lists::{self, Wanted},
    reply::Reply,
    request::{self, Request, boolean, optional_text},
    resource::{bindings, entered, entered_if_there, entered_of},
    server::Api,
    values::{table_from_json, table_to_json},
    visitor::Visitor,
};

/// The default exchange in a path.
const DEFAULT_EXCHANGE: &str = "amq.default";

pub(crate) async fn answer(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    path: &[&str],
) -> Result<Reply, Refused> {
    match (request.method.as_str(), path) {
        ("GET", [] | [_]) => {
            let mut list = Vec::new();
            for vhost in entered_of(api, visitor, path)? {
                let snapshot = vhost.snapshot();
                let of_vhost = snapshot.exchanges();
                list.extend(of_vhost.map(|exchange| (vhost.clone(), exchange.clone())));
            }
            let show = |(vhost, exchange): &(Arc<VhostHandle>, Exchange), wanted: &Wanted| {
                counted(api, request, vhost, exchange.record(), wanted)
            };
            lists::paged(request, list, show).await
        }
        ("GET", [vhost, exchange]) => {
            let vhost = entered(api, visitor, vhost)?;
            let name = found(&vhost, exchange)?;
            let snapshot = vhost.snapshot();
            let record = snapshot.exchange(&name)?.record();
            let mut object = counted(api, request, &vhost, record, &Wanted::all());
            object["incoming"] = json!([]);
            object["outgoing"] = json!([]);
            Ok(lists::one(request, object))
        }
        ("PUT", [vhost, exchange]) => put(api, visitor, request, vhost, exchange).await,
        ("DELETE", [vhost, exchange]) => {
            let vhost = entered(api, visitor, vhost)?;
            let name = found(&vhost, exchange)?;
            let rights = visitor.rights(&api.broker, vhost.name());
            rights.check(Right::Configure, ObjectKind::Exchange, &name)?;
            vhost
                .delete_exchange(&name, request.flag("if-unused"))
                .await?;
            Ok(Reply::NoContent)
        }
        ("GET", [vhost, exchange, "bindings", "source"]) => {
            let vhost = entered_if_there(api, visitor, vhost)?;
            let name = real_name(exchange)?;
            let list = bindings::of_vhost(vhost.as_deref(), |binding| binding.source == name);
            Ok(lists::whole(request, list))
        }
        ("GET", [vhost, exchange, "bindings", "destination"]) => {
            let vhost = entered_if_there(api, visitor, vhost)?;
            let to = Destination::Exchange(real_name(exchange)?);
            let list = bindings::of_vhost(vhost.as_deref(), |binding| binding.destination == to);
            Ok(lists::whole(request, list))
        }
        _ => Err(Refused::not_found()),
    }
}

/// The name as the broker has it.
pub(crate) fn real_name(exchange: &str) -> Result<ShortString, Refused> {
    if exchange == DEFAULT_EXCHANGE {
        Ok(ShortString::empty())
    } else {
        request::name(exchange)
    }
}

fn found(vhost: &VhostHandle, exchange: &str) -> Result<ShortString, Refused> {
    let name = real_name(exchange)?;
    let snapshot = vhost.snapshot();
    snapshot
        .exchange(&name)
        .map(|_| name)
        .map_err(|_| Refused::not_found())
}

async fn put(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    vhost: &str,
    exchange: &str,
) -> Result<Reply, Refused> {
    let vhost = entered(api, visitor, vhost)?;
    let object = request.object()?;
    let name = real_name(exchange)?;
    let kind = optional_text(&object, "type")?.unwrap_or("direct");
    let mut declare = ExchangeDeclare {
        name: name.clone(),
        kind: request::name(kind)?,
        passive: false,
        durable: boolean(&object, "durable")?.unwrap_or(false),
        auto_delete: boolean(&object, "auto_delete")?.unwrap_or(false),
        internal: boolean(&object, "internal")?.unwrap_or(false),
        arguments: table_from_json(&request::nested(&object, "arguments")?)?,
        refused_if_new: None,
    };
    let rights = visitor.rights(&api.broker, vhost.name());
    let is_new = vhost.snapshot().exchange(&name).is_err();
    declare.refused_if_new = rights.check_exchange_declare(&name, &declare.arguments)?;
    match vhost.declare_exchange(declare).await {
        Ok(()) => Ok(Reply::put(is_new)),
        Err(Refusal::UnknownExchangeType { name }) => Err(Refused::bad_request(format!(
            "unknown exchange type '{name}'"
        ))),
        Err(refusal) => Err(refusal.into()),
    }
}

/// An exchange with what was published to it, once there was something.
fn counted(
    api: &Api,
    request: &Request,
    vhost: &VhostHandle,
    record: &ExchangeRecord,
    wanted: &Wanted,
) -> Value {
    let mut object = shown(record);
    if let Value::Object(fields) = &mut object {
        if wanted.has("policy")
            && let Some(policy) = vhost.exchange_policy(&record.name)
        {
            fields.insert("policy".to_owned(), policy.into());
        }
        if wanted.has("message_stats")
            && api.has_message_stats()
            && let Some(counts) = vhost.exchange_counts(&record.name)
        {
            let mut stats = Map::new();
            let key = format!("exchange {} {}", record.vhost, record.name);
            let counts = [
                ("publish_in", counts.publish_in),
                ("publish_out", counts.publish_out),
            ];
            api.rates
                .put_with(&mut stats, &key, &counts, request.age("msg_rates"));
            fields.insert("message_stats".to_owned(), stats.into());
        }
    }
    object
}

pub(crate) fn shown(record: &ExchangeRecord) -> Value {
    json!({
        "name": record.name.to_string(),
        "vhost": record.vhost.to_string(),
        "type": record.type_name(),
        "durable": record.durable,
        "auto_delete": record.auto_delete,
        "internal": record.internal,
        "arguments": table_to_json(&record.arguments),
        "user_who_performed_action": "rmq-internal",
    })
}
