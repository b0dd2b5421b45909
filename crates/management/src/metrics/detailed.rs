//! `/metrics/detailed`: only the families that are asked for, of the vhosts and queues that are asked for.

use regex::{Regex, RegexBuilder};

use super::{
    COUNTERS, GAUGES, OF_DISK, OfQueue, auth_attempts, churn, connections, connections::Live,
    identity, of_each_queue, of_queues, of_streams, queue_info,
};
use crate::{
    metrics_text::{
        Kind::{Counter, Gauge},
        Page,
    },
    node::Node,
    server::Api,
};

/// Families that come with what each queue is.
const OF_QUEUES: [&str; 3] = [
    "queue_coarse_metrics",
    "queue_consumer_count",
    "queue_metrics",
];

/// Gauges of queues that make a family of their own, as in RabbitMQ.
const COARSE: [&str; 3] = ["messages", "messages_ready", "messages_unacked"];
const CONSUMERS: &str = "consumers";

/// A longer filter of queues is refused, as by RabbitMQ.
const FILTER_LENGTH_MAX: usize = 2000;

/// Memory of the filter of queues.
const FILTER_BYTES_MAX: usize = 256 * 1024;

const PREFIX: &str = "rabbitmq_detailed_";
const QUEUE_PREFIX: &str = "rabbitmq_detailed_queue_";

/// The page, or why the query is none.
pub(super) async fn page(node: &Node, api: &Api, query: &str) -> Result<String, String> {
    let query: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    let asked = |name: &str| -> Vec<&str> {
        let found = query.iter().filter(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).collect()
    };
    let (vhosts, families) = (asked("vhost"), asked("family"));
    let asks_connections = |family: &&str| connections::FAMILIES.contains(family);
    let live = match families.iter().find(|family| asks_connections(family)) {
        Some(_) => Some(Live::asked(api).await),
        None => None,
    };
    let is_meant = |vhost: &str| vhosts.is_empty() || vhosts.contains(&vhost);
    let pattern = queue_filter(&asked("queue"))?;
    let mut queues = super::queues(api);
    queues.retain(|(queue, _)| {
        let record = queue.record();
        let fits = |pattern: &Regex| pattern.is_match(&record.name.to_string());
        pattern.as_ref().is_none_or(fits) && is_meant(&record.vhost.to_string())
    });
    let mut page = Page::default();
    identity(api, &mut page, "detailed");
    let gauges = |is_of: &dyn Fn(&str) -> bool| -> Vec<OfQueue> {
        GAUGES
            .iter()
            .filter(|(name, ..)| is_of(name))
            .copied()
            .collect()
    };
    let mut done: Vec<&str> = Vec::new();
    for family in families {
        // A family twice would be two families of one name.
        if done.contains(&family) {
            continue;
        }
        done.push(family);
        match family {
            "queue_coarse_metrics" => {
                let of = gauges(&|name| COARSE.contains(&name));
                of_queues(&mut page, QUEUE_PREFIX, &queues, &of, Gauge, true).await;
            }
            "queue_consumer_count" => {
                let of = gauges(&|name| name == CONSUMERS);
                of_queues(&mut page, QUEUE_PREFIX, &queues, &of, Gauge, true).await;
            }
            "queue_metrics" => {
                let has_count = done.contains(&"queue_consumer_count");
                let of =
                    gauges(&|name| !(COARSE.contains(&name) || has_count && name == CONSUMERS));
                of_queues(&mut page, QUEUE_PREFIX, &queues, &of, Gauge, true).await;
                of_queues(&mut page, QUEUE_PREFIX, &queues, &OF_DISK, Counter, true).await;
                of_streams(&mut page, PREFIX, &queues, true).await;
                of_each_queue(api, &mut page, PREFIX, &queues);
            }
            "queue_delivery_metrics" => {
                of_queues(&mut page, QUEUE_PREFIX, &queues, &COUNTERS, Counter, true).await;
            }
            "exchange_metrics" => {
                super::protocol::exchanges(api, &mut page, PREFIX, &is_meant);
            }
            "connection_churn_metrics" => churn(api, &mut page, PREFIX),
            "node_coarse_metrics" => super::resources(api, &mut page, PREFIX),
            "node_metrics" => super::limits(api, &mut page, PREFIX),
            "node_persister_metrics" => super::disk(api, &mut page, PREFIX),
            "auth_attempt_metrics" => auth_attempts(api, &mut page, PREFIX),
            "vhost_status" => vhosts_there(api, &mut page, &is_meant),
            "exchange_names" => exchanges_there(api, &mut page, "name", &is_meant),
            "exchange_bindings" => exchanges_there(api, &mut page, "bindings", &is_meant),
            // Families of what is none here are empty.
            other => {
                if let Some(live) = &live {
                    live.put(node, &mut page, PREFIX, other, &is_meant);
                }
            }
        }
    }
    if done.iter().any(|family| OF_QUEUES.contains(family)) {
        queue_info(&mut page, PREFIX, &queues);
    }
    Ok(page.into_text())
}

/// What the names of queues are to match, if anything.
fn queue_filter(asked: &[&str]) -> Result<Option<Regex>, String> {
    let pattern = match asked {
        [] | [""] => return Ok(None),
        [pattern] => pattern,
        _ => return Err("Only one 'queue' query parameter is allowed".to_owned()),
    };
    if pattern.len() > FILTER_LENGTH_MAX {
        return Err("'queue' regex too long".to_owned());
    }
    let built = RegexBuilder::new(pattern)
        .size_limit(FILTER_BYTES_MAX)
        .build();
    built
        .map(Some)
        .map_err(|reason| format!("Invalid 'queue' regex: {reason}"))
}

fn vhosts_there(api: &Api, page: &mut Page, is_meant: &dyn Fn(&str) -> bool) {
    let name = "rabbitmq_cluster_vhost_status";
    page.family(name, Gauge, "Whether a given vhost is running");
    for vhost in api.broker.vhosts() {
        let vhost = vhost.name().to_string();
        if is_meant(&vhost) {
            page.series(name, &[("vhost", &vhost)], 1);
        }
    }
}

/// Every exchange that clients publish to by its name: with 1, or with the number of bindings from it.
fn exchanges_there(api: &Api, page: &mut Page, what: &str, is_meant: &dyn Fn(&str) -> bool) {
    let name = format!("rabbitmq_cluster_exchange_{what}");
    let help = if what == "name" {
        "Enumerates exchanges without any additional info. This value is cluster-wide. A cheaper alternative to `exchange_bindings`"
    } else {
        "Number of bindings for an exchange. This value is cluster-wide."
    };
    page.family(&name, Gauge, help);
    for vhost in api.broker.vhosts() {
        let vhost_name = vhost.name().to_string();
        if !is_meant(&vhost_name) {
            continue;
        }
        for exchange in vhost.snapshot().exchanges() {
            let record = exchange.record();
            if record.internal || record.name.is_empty() {
                continue;
            }
            let exchange_name = record.name.to_string();
            let kind = record.type_name().to_string();
            let labels = [
                ("vhost", vhost_name.as_str()),
                ("exchange", &exchange_name),
                ("type", &kind),
            ];
            let value = if what == "name" {
                1
            } else {
                exchange.binding_count() as u64
            };
            page.series(&name, &labels, value);
        }
    }
}
