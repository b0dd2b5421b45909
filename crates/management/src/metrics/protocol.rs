//! What went through the broker since its start, whatever became of the queues.

use leveret_core::{arguments::QueueType, queue::Counters, record::QueueRecord};
use leveret_runtime::{DeadLetterStrategy, DeathCounts, ExchangeCounts, SIZE_BOUNDS};

use super::{PROTOCOL, Queues};
use crate::{
    metrics_text::{
        Kind::{Counter, Gauge, Histogram},
        Page,
    },
    server::Api,
};

/// RabbitMQ's names of the types, in the order in which deleted queues are counted.
const TYPES: [&str; 3] = [
    "rabbit_classic_queue",
    "rabbit_quorum_queue",
    "rabbit_stream_queue",
];

const fn place(queue_type: QueueType) -> usize {
    match queue_type {
        QueueType::Classic => 0,
        QueueType::Quorum => 1,
        QueueType::Stream => 2,
    }
}

/// RabbitMQ's name of a queue's type.
pub(super) fn type_name(record: &QueueRecord) -> &'static str {
    TYPES[place(record.queue_type)]
}

/// Sums by type over the queues there are and those that were.
pub(super) fn messages(api: &Api, page: &mut Page, queues: &Queues) {
    let mut by_type = api.broker.counters_of_deleted_queues();
    let mut consumers = 0;
    for (queue, report) in queues {
        by_type[place(queue.queue_type())].add(&report.counters);
        consumers += report.consumers as u64;
    }
    type Of = fn(&Counters) -> u64;
    let families: [(&str, &str, Of); 8] = [
        (
            "delivered_total",
            "Total number of messages delivered to consumers",
            |c| c.deliver + c.deliver_no_ack + c.get + c.get_no_ack,
        ),
        (
            "delivered_consume_manual_ack_total",
            "Total number of messages delivered to consumers using basic.consume with manual acknowledgment",
            |c| c.deliver,
        ),
        (
            "delivered_consume_auto_ack_total",
            "Total number of messages delivered to consumers using basic.consume with automatic acknowledgment",
            |c| c.deliver_no_ack,
        ),
        (
            "delivered_get_manual_ack_total",
            "Total number of messages delivered to consumers using basic.get with manual acknowledgment",
            |c| c.get,
        ),
        (
            "delivered_get_auto_ack_total",
            "Total number of messages delivered to consumers using basic.get with automatic acknowledgment",
            |c| c.get_no_ack,
        ),
        (
            "get_empty_total",
            "Total number of times basic.get operations fetched no message",
            |c| c.get_empty,
        ),
        (
            "redelivered_total",
            "Total number of messages redelivered to consumers",
            |c| c.redeliver,
        ),
        (
            "acknowledged_total",
            "Total number of messages acknowledged by consumers",
            |c| c.ack,
        ),
    ];
    for (name, help, value) in families {
        let name = format!("rabbitmq_global_messages_{name}");
        page.family(&name, Counter, help);
        for (queue_type, counters) in TYPES.iter().zip(&by_type) {
            let labels = [PROTOCOL, ("queue_type", *queue_type)];
            page.series(&name, &labels, value(counters));
        }
    }
    let mut traffic = api.broker.traffic_of_deleted_vhosts();
    for vhost in api.broker.vhosts() {
        traffic.add(&vhost.traffic().counts());
    }
    let routed = by_type.iter().map(|counters| counters.publish).sum();
    for (name, help, value) in [
        (
            "received_total",
            "Total number of messages received from publishers",
            traffic.publish,
        ),
        (
            "received_confirm_total",
            "Total number of messages received from publishers expecting confirmations",
            traffic.confirm,
        ),
        (
            "confirmed_total",
            "Total number of messages confirmed to publishers",
            traffic.confirm,
        ),
        (
            "routed_total",
            "Total number of messages routed to queues or streams",
            routed,
        ),
        (
            "unroutable_dropped_total",
            "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
            traffic.drop_unroutable,
        ),
        (
            "unroutable_returned_total",
            "Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable",
            traffic.return_unroutable,
        ),
    ] {
        let name = format!("rabbitmq_global_messages_{name}");
        page.family(&name, Counter, help);
        page.series(&name, &[PROTOCOL], value);
    }
    for (name, help, value) in [
        (
            "publishers",
            "Current number of publishers",
            api.broker.publishers(),
        ),
        ("consumers", "Current number of consumers", consumers),
    ] {
        let name = format!("rabbitmq_global_{name}");
        page.family(&name, Gauge, help);
        page.series(&name, &[PROTOCOL], value);
    }
}

/// Messages that died, by type, by what becomes of such, and by reason.
pub(super) fn deaths(api: &Api, page: &mut Page) {
    use DeadLetterStrategy::{AtLeastOnce, AtMostOnce, Disabled};
    type Of = fn(&DeathCounts) -> u64;
    type Strategies = &'static [DeadLetterStrategy];
    const BOTH: Strategies = &[AtMostOnce, Disabled];
    const ALL: Strategies = &[AtLeastOnce, AtMostOnce, Disabled];
    let families: [(&str, &str, Strategies, Strategies, Of); 5] = [
        (
            "confirmed",
            "Total number of messages dead-lettered and confirmed by target queues",
            &[],
            &[AtLeastOnce],
            |counts| counts.taken,
        ),
        (
            "delivery_limit",
            "Total number of messages dead-lettered due to delivery-limit exceeded",
            &[],
            ALL,
            |counts| counts.delivery_limit,
        ),
        (
            "expired",
            "Total number of messages dead-lettered due to message TTL exceeded",
            BOTH,
            ALL,
            |counts| counts.expired,
        ),
        (
            "maxlen",
            "Total number of messages dead-lettered due to overflow drop-head or reject-publish-dlx",
            BOTH,
            BOTH,
            |counts| counts.max_length,
        ),
        (
            "rejected",
            "Total number of messages dead-lettered due to basic.reject or basic.nack",
            BOTH,
            ALL,
            |counts| counts.rejected,
        ),
    ];
    for (name, help, of_classic, of_quorum, value) in families {
        let name = format!("rabbitmq_global_messages_dead_lettered_{name}_total");
        page.family(&name, Counter, help);
        for (queue_type, strategies) in [
            (QueueType::Classic, of_classic),
            (QueueType::Quorum, of_quorum),
        ] {
            for &strategy in strategies {
                let labels = [
                    ("queue_type", TYPES[place(queue_type)]),
                    (
                        "dead_letter_strategy",
                        match strategy {
                            Disabled => "disabled",
                            AtMostOnce => "at_most_once",
                            AtLeastOnce => "at_least_once",
                        },
                    ),
                ];
                page.series(
                    &name,
                    &labels,
                    value(&api.broker.deaths(queue_type, strategy)),
                );
            }
        }
    }
}

/// The sizes of what was published.
pub(super) fn sizes(api: &Api, page: &mut Page) {
    const NAME: &str = "rabbitmq_message_size_bytes";
    let sizes = api.broker.sizes();
    page.family(NAME, Histogram, "Size of messages received from publishers");
    let bucket = format!("{NAME}_bucket");
    let bounds = SIZE_BOUNDS.iter().map(u64::to_string);
    let mut so_far = 0;
    for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(sizes.counts) {
        so_far += count;
        page.series(&bucket, &[PROTOCOL, ("le", &bound)], so_far);
    }
    page.series(&format!("{NAME}_count"), &[PROTOCOL], so_far);
    page.series(&format!("{NAME}_sum"), &[PROTOCOL], sizes.bytes);
}

/// What is told of every exchange: name, help, value.
type OfExchange = (&'static str, &'static str, fn(&ExchangeCounts) -> u64);

const OF_EXCHANGES: [OfExchange; 4] = [
    (
        "exchange_messages_published_total",
        "Total number of messages published into an exchange",
        |counts| counts.publish_in,
    ),
    (
        "exchange_messages_confirmed_total",
        "Total number of messages published into an exchange and confirmed",
        |counts| counts.confirm,
    ),
    (
        "exchange_messages_unroutable_returned_total",
        "Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable",
        |counts| counts.return_unroutable,
    ),
    (
        "exchange_messages_unroutable_dropped_total",
        "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
        |counts| counts.drop_unroutable,
    ),
];

/// What was published to each exchange of these vhosts.
pub(super) fn exchanges(api: &Api, page: &mut Page, prefix: &str, is_meant: &dyn Fn(&str) -> bool) {
    let counted = counted_exchanges(api, is_meant);
    for (name, help, value) in OF_EXCHANGES {
        let name = format!("{prefix}{name}");
        page.family(&name, Counter, help);
        for (vhost, exchange, counts) in &counted {
            let labels = [("vhost", vhost.as_str()), ("exchange", exchange)];
            page.series(&name, &labels, value(counts));
        }
    }
}

/// The same of all exchanges together, and how often what was published to them went on to a queue.
pub(super) fn exchange_sums(api: &Api, page: &mut Page) {
    const OF_ROUTES: OfExchange = (
        "queue_exchange_messages_published_total",
        "Total number of messages published into a queue through an exchange",
        |counts| counts.publish_out,
    );
    let counted = counted_exchanges(api, &|_| true);
    for (name, help, value) in OF_EXCHANGES.into_iter().chain([OF_ROUTES]) {
        let sum = counted.iter().map(|(.., counts)| value(counts)).sum();
        page.single(&format!("rabbitmq_{name}"), Counter, help, sum);
    }
}

/// Exchanges of these vhosts that something was published to: vhost, name, counts.
fn counted_exchanges(
    api: &Api,
    is_meant: &dyn Fn(&str) -> bool,
) -> Vec<(String, String, ExchangeCounts)> {
    let mut counted = Vec::new();
    for vhost in api.broker.vhosts() {
        let vhost_name = vhost.name().to_string();
        if !is_meant(&vhost_name) {
            continue;
        }
        for exchange in vhost.snapshot().exchanges() {
            let name = &exchange.record().name;
            if let Some(counts) = vhost.exchange_counts(name) {
                counted.push((vhost_name.clone(), name.to_string(), counts));
            }
        }
    }
    counted
}
