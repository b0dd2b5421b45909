//! `/deprecated-features`: what RabbitMQ is to stop doing, has stopped doing by default, or does not do any more.
//!
//! The names, phases and addresses are RabbitMQ's, since tools look for them; the state is what is so here.

use leveret_core::record::QueueRecord;
use leveret_runtime::Permit;
use serde_json::{Value, json};

use crate::{error::Refused, reply::Reply, server::Api};

/// How far RabbitMQ is with one of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Permitted,
    Denied,
    Removed,
}

struct Feature {
    name: &'static str,
    phase: Phase,
    address: &'static str,
    provided_by: &'static str,
}

const FEATURES: [Feature; 8] = [
    of_core("queue_master_locator", Phase::Denied, ""),
    of_core(
        "global_qos",
        Phase::Denied,
        "https://blog.rabbitmq.com/posts/2021/08/4.0-deprecation-announcements/#removal-of-global-qos",
    ),
    of_core(
        "amqp_filter_set_bug",
        Phase::Denied,
        "https://docs.oasis-open.org/amqp/core/v1.0/os/amqp-core-messaging-v1.0-os.html#type-filter-set",
    ),
    of_core(
        "amqp_address_v1",
        Phase::Denied,
        "https://www.rabbitmq.com/docs/amqp#addresses",
    ),
    Feature {
        name: "management_metrics_collection",
        phase: Phase::Permitted,
        address: "https://blog.rabbitmq.com/posts/2021/08/4.0-deprecation-announcements/#disable-metrics-delivery-via-the-management-api--ui",
        provided_by: "rabbitmq_management_agent",
    },
    of_core(
        "transient_nonexcl_queues",
        Phase::Permitted,
        "https://blog.rabbitmq.com/posts/2021/08/4.0-deprecation-announcements/#removal-of-transient-non-exclusive-queues",
    ),
    of_core(
        "classic_queue_mirroring",
        Phase::Removed,
        "https://blog.rabbitmq.com/posts/2021/08/4.0-deprecation-announcements/#removal-of-classic-queue-mirroring",
    ),
    of_core(
        "ram_node_type",
        Phase::Removed,
        "https://blog.rabbitmq.com/posts/2021/08/4.0-deprecation-announcements/#removal-of-ram-nodes",
    ),
];

const fn of_core(name: &'static str, phase: Phase, address: &'static str) -> Feature {
    Feature {
        name,
        phase,
        address,
        provided_by: "rabbit",
    }
}

/// All of them, or those in use.
pub(crate) fn answer(api: &Api, path: &[&str]) -> Result<Reply, Refused> {
    let shown: Vec<Value> = match path {
        [] => FEATURES.iter().map(|feature| whole(api, feature)).collect(),
        ["used"] => {
            let used = FEATURES.iter().filter(|feature| is_used(api, feature.name));
            used.map(described).collect()
        }
        _ => return Err(Refused::not_found()),
    };
    Ok(Reply::Json(Value::Array(shown)))
}

fn described(feature: &Feature) -> Value {
    json!({
        "name": feature.name,
        "desc": "",
        "deprecation_phase": match feature.phase {
            Phase::Permitted => "permitted_by_default",
            Phase::Denied => "denied_by_default",
            Phase::Removed => "removed",
        },
        "doc_url": feature.address,
        "provided_by": feature.provided_by,
    })
}

fn whole(api: &Api, feature: &Feature) -> Value {
    let node = api.broker.node();
    let is_permitted = match feature.name {
        "queue_master_locator" => node.permits.master_locator,
        "transient_nonexcl_queues" => node.permits.transient_shared_queues == Permit::Given,
        "global_qos" => node.permits_global_qos,
        _ => feature.phase == Phase::Permitted,
    };
    let mut described = described(feature);
    described["state"] = if is_permitted { "permitted" } else { "denied" }.into();
    described
}

/// RabbitMQ looks for queues only, too.
fn is_used(api: &Api, feature: &str) -> bool {
    let is_one: fn(&QueueRecord) -> bool = match feature {
        "transient_nonexcl_queues" => |queue| !queue.durable && queue.exclusive_to.is_none(),
        "queue_master_locator" => |queue| queue.arguments.get(b"x-queue-master-locator").is_some(),
        _ => return false,
    };
    let vhosts = api.broker.vhosts();
    vhosts
        .iter()
        .any(|vhost| vhost.snapshot().queues().any(|queue| is_one(queue)))
}
