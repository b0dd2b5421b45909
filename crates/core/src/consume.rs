//! `basic.consume`: what a consumer asks for, checked by the rules of the queue's type.

use leveret_wire::value::{FieldTable, ShortString};

use crate::{
    arguments::QueueType,
    ids::Timestamp,
    queue::ConsumerSettings,
    record::QueueRecord,
    refusal::Refusal,
    stream::{
        StreamFilter, StreamStart, X_STREAM_FILTER, X_STREAM_MATCH_UNFILTERED, X_STREAM_OFFSET,
    },
};

const PRIORITY: &str = "x-priority";
const TIMEOUT: &str = "x-consumer-timeout";

/// Arguments of consumers, and the types that take them.
const KNOWN: [(&str, &[QueueType]); 5] = [
    (PRIORITY, &[QueueType::Classic, QueueType::Quorum]),
    (TIMEOUT, &[QueueType::Quorum]),
    (X_STREAM_OFFSET, &[QueueType::Stream]),
    (X_STREAM_FILTER, &[QueueType::Stream]),
    (X_STREAM_MATCH_UNFILTERED, &[QueueType::Stream]),
];

/// How a consumer is to be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Consuming {
    /// Messages are handed out to whoever is next.
    Taking(ConsumerSettings),
    /// Messages are read from some place on.
    Reading {
        /// Bound on its unsettled deliveries.
        prefetch: u16,
        /// Where it starts.
        start: StreamStart,
        /// Which messages it wants; all of them without.
        filter: Option<StreamFilter>,
    },
}

impl Consuming {
    /// What these settings and arguments mean for a consumer of this queue that comes `now`.
    ///
    /// # Errors
    ///
    /// In RabbitMQ's order: values, arguments of other types, what the type cannot do.
    pub fn of(
        queue: &QueueRecord,
        settings: ConsumerSettings,
        arguments: &FieldTable,
        now: Timestamp,
    ) -> Result<Self, Refusal> {
        let queue_type = queue.queue_type;
        let check = Check { queue, arguments };
        let takes = |key| {
            let types = KNOWN.iter().find(|(known, _)| *known == key);
            types.is_some_and(|(_, types)| types.contains(&queue_type))
        };
        let priority = match takes(PRIORITY) {
            true => check.integer(PRIORITY)?,
            false => None,
        };
        let timeout = match takes(TIMEOUT) {
            true => check.integer(TIMEOUT)?,
            false => None,
        };
        if let Some(number) = timeout.filter(|number| *number < 0) {
            return Err(check.invalid(TIMEOUT, format!("{{value_negative,{number}}}")));
        }
        let start = match takes(X_STREAM_OFFSET) {
            true => StreamStart::of(arguments, now)
                .map_err(|detail| check.invalid(X_STREAM_OFFSET, detail))?,
            false => StreamStart::Next,
        };
        let is_of_others = |key: &ShortString| {
            let mut known = KNOWN
                .iter()
                .filter(|(_, types)| !types.contains(&queue_type));
            known.any(|(known, _)| known.as_bytes() == key.as_bytes())
        };
        // The first one as they were sent.
        if let Some((key, _)) = arguments.iter().find(|(key, _)| is_of_others(key)) {
            return Err(Refusal::ArgumentOfOtherType {
                name: queue.name.clone(),
                vhost: queue.vhost.clone(),
                arg: key.to_string(),
                queue_type,
            });
        }
        let settings = match (queue_type, settings.shared_else) {
            (QueueType::Quorum | QueueType::Stream, Some(prefetch)) => ConsumerSettings {
                prefetch,
                shared_else: None,
                ..settings
            },
            (QueueType::Classic, _) | (_, None) => settings,
        };
        if queue_type != QueueType::Stream {
            return Ok(Self::Taking(ConsumerSettings {
                priority: priority.unwrap_or_default(),
                ack_timeout_millis: timeout.and_then(|number| u64::try_from(number).ok()),
                ..settings
            }));
        }
        let (name, vhost) = (queue.name.clone(), queue.vhost.clone());
        if settings.prefetch == 0 {
            return Err(Refusal::StreamWithoutPrefetch { name, vhost });
        }
        if settings.no_ack {
            return Err(Refusal::StreamWithoutAcks { name, vhost });
        }
        Ok(Self::Reading {
            prefetch: settings.prefetch,
            start,
            filter: StreamFilter::of(arguments),
        })
    }
}

struct Check<'a> {
    queue: &'a QueueRecord,
    arguments: &'a FieldTable,
}

impl Check<'_> {
    fn integer(&self, key: &str) -> Result<Option<i64>, Refusal> {
        let value = self.arguments.get(key.as_bytes());
        let number = value.map(|value| {
            value.as_integer().ok_or_else(|| {
                let detail = format!("\"expected integer, got {}\"", value.type_name());
                self.invalid(key, detail)
            })
        });
        number.transpose()
    }

    fn invalid(&self, arg: &str, detail: String) -> Refusal {
        Refusal::InvalidArgument {
            name: self.queue.name.clone(),
            vhost: self.queue.vhost.clone(),
            arg: arg.to_owned(),
            detail,
        }
    }
}
