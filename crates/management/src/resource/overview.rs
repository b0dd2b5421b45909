//! `/overview` and `/whoami`.

use axum::http::{HeaderMap, HeaderValue, Method, header};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use crate::{
    error::Refused,
    lists,
    reply::Reply,
    request::Request,
    resource::{
        connections, entered_all, node,
        queues::{Totals, total},
    },
    server::Api,
    visitor::{Needs, Visitor},
};

pub(crate) fn show(api: &Api, visitor: &Visitor, request: &Request) -> Result<Reply, Refused> {
    let vhosts = entered_all(api, visitor);
    let mut totals = Totals::default();
    let mut exchanges = 0;
    for vhost in &vhosts {
        totals.add(&total(api, vhost));
        exchanges += vhost.snapshot().exchanges().count();
    }
    let visible = connections::visible(api, visitor);
    let channels: u64 = visible.iter().map(|known| known.channels).sum();
    let node = &api.broker.node().name;
    let mut object_totals = json!({
        "connections": visible.len(),
        "channels": channels,
        "queues": totals.queues,
        "exchanges": exchanges,
    });
    let key = format!("overview {}", visitor.name);
    let mut queue_totals = Map::new();
    api.rates.put_with(
        &mut queue_totals,
        &key,
        &totals.depths(),
        request.age("lengths"),
    );
    let mut object = json!({
        "management_version": api.facts.version,
        "rabbitmq_version": api.facts.version,
        "product_name": "RabbitMQ",
        "product_version": api.facts.version,
        "cluster_name": node::cluster_name(api),
        "cluster_tags": {},
        "node_tags": {},
        "erlang_version": node::ERLANG_VERSION,
        "erlang_full_version": node::ERLANG_VERSION,
        "crypto_lib_version": "",
        "rates_mode": api.settings.rates_mode,
        "sample_retention_policies": {
            "global": [600, 3600, 28800, 86400],
            "basic": [600, 3600],
            "detailed": [600],
        },
        "exchange_types": node::exchange_types(),
        "disable_stats": request.flag("disable_stats"),
        "enable_queue_totals": request.flag("enable_queue_totals"),
        "default_queue_type": api.broker.node().default_queue_type.name(),
        "is_op_policy_updating_enabled": !api.settings.operator_policies_are_fixed,
        "require_definition_json_extension": api.settings.definitions_need_json_extension,
        "statistics_db_event_queue": 0,
        "storage_sync": api.broker.storage_sync(),
        // Tools take an answer without it for a refusal.
        "message_stats": message_stats(api, request, &key, &totals),
        "queue_totals": queue_totals,
        "churn_rates": churn(api),
    });
    if visitor.is_monitor() {
        object_totals["consumers"] = totals.consumers.into();
        object["node"] = node.clone().into();
        object["listeners"] = node::listeners(api);
        object["contexts"] = node::contexts(api, true);
    }
    object["object_totals"] = object_totals;
    Ok(lists::one(request, object))
}

/// What went through, and what the store read and wrote for it.
fn message_stats(api: &Api, request: &Request, key: &str, totals: &Totals) -> Value {
    if !api.has_message_stats() {
        return json!({});
    }
    let mut stats = totals.message_stats(api, request, key);
    if let Value::Object(stats) = &mut stats {
        let of_disk = [
            ("disk_reads", totals.counters.disk_reads),
            ("disk_writes", totals.counters.disk_writes),
        ];
        let age = request.age("msg_rates");
        api.rates.put_with(stats, key, &of_disk, age);
    }
    stats
}

fn churn(api: &Api) -> Value {
    let churn = api.broker.churn();
    let queues = api.broker.queue_churn();
    let mut object = Map::new();
    api.rates.put(
        &mut object,
        "churn",
        &[
            ("connection_created", churn.connections_created),
            ("connection_closed", churn.connections_closed),
            ("channel_created", churn.channels_created),
            ("channel_closed", churn.channels_closed),
            ("queue_declared", queues.declared),
            ("queue_created", queues.created),
            ("queue_deleted", queues.deleted),
        ],
    );
    object.into()
}

/// `/login`: credentials in a form instead of a header, as the pages of the management plugin send them.
pub(crate) async fn login(api: &Api, request: &Request) -> Result<Reply, Refused> {
    if request.method == Method::DELETE {
        return Ok(Reply::NoContent);
    }
    let form: Vec<(String, String)> = form_urlencoded::parse(&request.body).into_owned().collect();
    let field = |name: &str| {
        let mut found = form.iter().filter(|(key, _)| key == name);
        found
            .next()
            .map(|(_, value)| value.as_str())
            .unwrap_or_default()
    };
    let credentials = STANDARD.encode(format!("{}:{}", field("username"), field("password")));
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(&format!("Basic {credentials}")) {
        headers.insert(header::AUTHORIZATION, value);
    }
    let visitor = Visitor::of(&api.broker, &headers, request.peer).await?;
    visitor.check(Needs::Management)?;
    Ok(Reply::Json(json!({
        "user": who(api, &visitor),
        "token": {"type": "basic", "value": credentials},
    })))
}

pub(crate) fn whoami(api: &Api, visitor: &Visitor) -> Reply {
    Reply::Json(who(api, visitor))
}

fn who(api: &Api, visitor: &Visitor) -> Value {
    let mut object = json!({
        "name": visitor.name.to_string(),
        "tags": visitor.tags,
        "is_internal_user": visitor.is_internal(),
    });
    if let Some(minutes) = api.settings.login_session_minutes {
        object["login_session_timeout"] = minutes.into();
    }
    object
}
