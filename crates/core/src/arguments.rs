//! Arguments of declares: which ones are known, what they may be, and as typed settings.
//!
//! What is stored of a queue is its arguments as they were declared: [`QueueSettings::of`] reads them
//! again after a restart.

use std::borrow::Cow;

use leveret_wire::value::{FieldTable, FieldValue, ShortString};

mod check;
mod queue_type;
mod retry;

pub(crate) use self::{
    check::{check_queue, check_server_named},
    queue_type::QUEUE_TYPE,
};
pub use self::{queue_type::QueueType, retry::RetrySettings};

/// Where messages go that an exchange has no binding for.
pub(crate) const ALTERNATE_EXCHANGE: &str = "alternate-exchange";
/// Where messages go that a queue is done with.
const DEAD_LETTER_EXCHANGE: &str = "x-dead-letter-exchange";
/// How long a stream keeps what it has.
const MAX_AGE: &str = "x-max-age";

/// What a queue does beyond keeping messages in order; from the arguments it was declared with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueSettings {
    /// Whose rules it follows.
    pub queue_type: QueueType,
    /// Messages are handed out by priority, from this one down; 0 ignores priorities.
    pub max_priority: u8,
    /// Only one consumer is served; the others wait until it is gone.
    pub single_active_consumer: bool,
    /// Ready messages the queue keeps.
    pub max_length: Option<u64>,
    /// Body bytes of the ready messages it keeps.
    pub max_length_bytes: Option<u64>,
    /// What happens to messages beyond these.
    pub overflow: Overflow,
    /// How long a message lives in this queue.
    pub message_ttl_millis: Option<u64>,
    /// Only the head of the queue expires, as in RabbitMQ: `x-expiry: lazy`, an argument of this broker.
    pub lazy_expiry: bool,
    /// How long the queue lasts without being used.
    pub expires_millis: Option<u64>,
    /// Where messages go that are rejected, expire or do not fit.
    pub dead_letter: Option<DeadLetter>,
    /// What happens to messages that come back.
    pub retry: Option<RetrySettings>,
}

/// What a full queue does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The message at the head goes.
    #[default]
    DropHead,
    /// The new message is refused.
    RejectPublish,
    /// The new message is refused and dead-lettered.
    RejectPublishDeadLetter,
}

/// Where dead messages go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The exchange; it need not exist. `None` for a name that no exchange can have.
    pub exchange: Option<ShortString>,
    /// The routing key they get, instead of their own.
    pub routing_key: Option<ShortString>,
}

impl QueueSettings {
    /// Reads arguments that were checked when the queue was declared.
    #[must_use]
    pub fn of(arguments: &FieldTable) -> Self {
        let number = |key: &str| {
            let value = arguments.get(key.as_bytes())?.as_integer()?;
            u64::try_from(value).ok()
        };
        let text = |key: &str| arguments.get(key.as_bytes())?.as_bytes();
        let max_priority = number("x-max-priority").and_then(|max| u8::try_from(max).ok());
        let single_active_consumer = arguments
            .get(b"x-single-active-consumer")
            .and_then(FieldValue::as_bool);
        Self {
            queue_type: QueueType::of(arguments),
            // Of 0 RabbitMQ makes two levels, as of 1.
            max_priority: max_priority.map_or(0, |max| max.max(1)),
            single_active_consumer: single_active_consumer.unwrap_or(false),
            max_length: number("x-max-length"),
            max_length_bytes: number("x-max-length-bytes"),
            overflow: match text("x-overflow") {
                Some(b"reject-publish") => Overflow::RejectPublish,
                Some(b"reject-publish-dlx") => Overflow::RejectPublishDeadLetter,
                Some(_) | None => Overflow::DropHead,
            },
            message_ttl_millis: number("x-message-ttl"),
            lazy_expiry: text("x-expiry") == Some(b"lazy"),
            expires_millis: number("x-expires"),
            retry: RetrySettings::of(arguments),
            dead_letter: text("x-dead-letter-exchange").map(|exchange| {
                let name = ShortString::try_from(exchange).ok();
                let key = text("x-dead-letter-routing-key").map(ShortString::try_from);
                DeadLetter {
                    // A key that is too long leads nowhere either.
                    exchange: name.filter(|_| !matches!(key, Some(Err(_)))),
                    routing_key: key.and_then(Result::ok),
                }
            }),
        }
    }
}

/// The arguments of a new queue as they are stored: with its type, also if it is the default.
pub(crate) fn with_type(mut arguments: FieldTable, default: QueueType) -> FieldTable {
    if arguments.get(QUEUE_TYPE.as_bytes()).is_none() {
        let key = ShortString::from_static(QUEUE_TYPE);
        arguments.push(key, FieldValue::text(default.name()));
    }
    arguments
}

/// A value as it is compared: ages by their length.
pub(crate) fn comparable<'a>(key: &str, value: &'a FieldValue) -> Cow<'a, FieldValue> {
    let age = || max_age_millis(value.as_bytes()?).and_then(|age| i64::try_from(age).ok());
    match key {
        MAX_AGE => age().map_or(Cow::Borrowed(value), |age| {
            Cow::Owned(FieldValue::Long(age))
        }),
        _ => Cow::Borrowed(value),
    }
}

/// A positive number and one of the letters Y, M, D, h, m, s; a month has 30 days and a year 365.
#[must_use]
pub fn max_age_millis(text: &[u8]) -> Option<u64> {
    const SECOND: u64 = 1000;
    const DAY: u64 = 24 * 60 * 60 * SECOND;
    let (unit, digits) = text.split_last()?;
    let unit = match unit {
        b'Y' => 365 * DAY,
        b'M' => 30 * DAY,
        b'D' => DAY,
        b'h' => 60 * 60 * SECOND,
        b'm' => 60 * SECOND,
        b's' => SECOND,
        _ => return None,
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count = digits.iter().fold(0_u64, |count, digit| {
        count
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    });
    (count > 0).then(|| count.saturating_mul(unit))
}
