//! `/metrics/detailed`: only the families that are asked for, of the vhosts and queues that are asked for.

use regex::RegexBuilder;

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

/// What is told when no family is asked for.
const BY_DEFAULT: [&str; 4] = [
    "connection_churn_metrics",
    "node_coarse_metrics",
    "node_metrics",
    "auth_attempt_metrics",
];

/// Gauges of queues that make a family of their own, as in RabbitMQ.
const COARSE: [&str; 3] = ["messages", "messages_ready", "messages_unacked"];
const CONSUMERS: &str = "consumers";

/// Memory of the filter of queues.
const FILTER_BYTES_MAX: usize = 256 * 1024;

const PREFIX: &str = "rabbitmq_detailed_";
const QUEUE_PREFIX: &str = "rabbitmq_detailed_queue_";

pub(super) async fn page(node: &Node, api: &Api, query: &str) -> String {
    let query: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    let asked = |name: &str| -> Vec<&str> {
        let found = query.iter().filter(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).collect()
    };
    let (vhosts, mut families) = (asked("vhost"), asked("family"));
    if families.is_empty() {
        families.extend(BY_DEFAULT);
    }
    let asks_connections = |family: &&str| connections::FAMILIES.contains(family);
    let live = match families.iter().find(|family| asks_connections(family)) {
        Some(_) => Some(Live::asked(api).await),
        None => None,
    };
    let is_meant = |vhost: &str| vhosts.is_empty() || vhosts.contains(&vhost);
    let pattern = asked("queue").first().map(|pattern| {
        let built = RegexBuilder::new(pattern)
            .size_limit(FILTER_BYTES_MAX)
            .build();
        built.ok()
    });
    let mut queues = super::queues(api);
    queues.retain(|(queue, _)| {
        let record = queue.record();
        let fits = match &pattern {
            None => true,
            Some(pattern) => pattern
                .as_ref()
                .is_some_and(|pattern| pattern.is_match(&record.name.to_string())),
        };
        fits && is_meant(&record.vhost.to_string())
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
                of_queues(&mut page, QUEUE_PREFIX, &queues, &of, Gauge, true);
                queue_info(&mut page, PREFIX, &queues);
            }
            "queue_consumer_count" => {
                let of = gauges(&|name| name == CONSUMERS);
                of_queues(&mut page, QUEUE_PREFIX, &queues, &of, Gauge, true);
            }
            "queue_metrics" => {
                let has_count = done.contains(&"queue_consumer_count");
                let of =
                    gauges(&|name| !(COARSE.contains(&name) || has_count && name == CONSUMERS));
                of_queues(&mut page, QUEUE_PREFIX, &queues, &of, Gauge, true);
                of_queues(&mut page, QUEUE_PREFIX, &queues, &OF_DISK, Counter, true);
                of_streams(&mut page, PREFIX, &queues, true);
                of_each_queue(api, &mut page, PREFIX, &queues);
            }
            "queue_delivery_metrics" => {
                of_queues(&mut page, QUEUE_PREFIX, &queues, &COUNTERS, Counter, true);
            }
            "exchange_metrics" => {
                super::protocol::exchanges(api, &mut page, PREFIX, true, &is_meant);
            }
            "connection_churn_metrics" => churn(api, &mut page, PREFIX),
            "node_coarse_metrics" => super::resources(api, &mut page, PREFIX),
            "node_metrics" => super::limits(api, &mut page, PREFIX),
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
    page.into_text()
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

/// Every exchange: with 1, or with the number of bindings from it.
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
