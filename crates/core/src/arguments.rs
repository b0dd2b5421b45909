//! Arguments of declares: which ones are known, what they may be, and as typed settings.
//!
//! What is stored of a queue is its arguments as they were declared: [`QueueSettings::of`] reads them
//! again after a restart.

use std::borrow::Cow;

use leveret_wire::value::{FieldTable, FieldValue, ShortString};

use crate::record::Attempts;

mod check;
mod erlang_string;
mod queue_type;
mod retry;

pub use self::check::{Permit, Permits, TypesOff, check_own_argument};
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
/// How often a message may come back.
const DELIVERY_LIMIT: &str = "x-delivery-limit";
/// Which returns count: `target` or `all`. An argument of this broker; a classic queue that has it takes a delivery
/// limit as well.
const ATTEMPT_COUNTING: &str = "x-attempt-counting";
/// Within which time a message is to be acked.
const CONSUMER_TIMEOUT: &str = "x-consumer-timeout";

/// Within which time a message of a quorum queue is to be acked when nobody says otherwise: RabbitMQ's half an hour.
pub const ACK_TIMEOUT_MILLIS: u64 = 30 * 60 * 1000;
/// For whoever wants no such time: a hundred years.
const NO_ACK_TIMEOUT_MILLIS: i64 = 100 * 365 * 24 * 3600 * 1000;
/// How often a message of a quorum queue may come back when nobody says otherwise.
const QUORUM_DELIVERY_LIMIT: u64 = 20;
/// The highest priority in a quorum queue.
const QUORUM_PRIORITY_MAX: u8 = 31;
/// The priority there of a message that says none.
const QUORUM_PRIORITY: u8 = 4;

/// What a queue does beyond keeping messages in order; from the arguments it was declared with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueSettings {
    /// Whose rules it follows.
    pub queue_type: QueueType,
    /// Messages are handed out by priority, from this one down; 0 ignores priorities.
    pub max_priority: u8,
    /// The priority of a message that says none.
    pub default_priority: u8,
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
    /// Dead messages are kept until all their new queues have taken them.
    pub dead_letter_at_least_once: bool,
    /// How often a message may come back; `None` for any number.
    pub delivery_limit: Option<u64>,
    /// Which returns count to the limit; `None` when nobody counts.
    pub attempt_counting: Option<AttemptCounting>,
    /// Within which time a message is to be acked, unless its consumer says otherwise; `None` for any.
    pub ack_timeout_millis: Option<u64>,
}

/// Which returns of a message count to its delivery limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptCounting {
    /// `basic.reject` and the end of a channel, not `basic.nack` and `basic.recover`: RabbitMQ's way.
    Failures,
    /// Every one.
    All,
}

impl AttemptCounting {
    /// What of these attempts counts to the limit.
    #[must_use]
    pub const fn counted(self, attempts: Attempts) -> u32 {
        match self {
            Self::Failures => attempts.failed,
            Self::All => attempts.all,
        }
    }
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
        let queue_type = QueueType::of(arguments);
        let is_quorum = queue_type == QueueType::Quorum;
        let max_priority = number("x-max-priority").and_then(|max| u8::try_from(max).ok());
        let single_active_consumer = arguments
            .get(b"x-single-active-consumer")
            .and_then(FieldValue::as_bool);
        let dead_letter = dead_letter(text);
        let overflow = match text("x-overflow") {
            Some(b"reject-publish") => Overflow::RejectPublish,
            Some(b"reject-publish-dlx") if !is_quorum => Overflow::RejectPublishDeadLetter,
            Some(_) | None => Overflow::DropHead,
        };
        // Else it has nowhere to wait, and is at-most-once like any other.
        let can_wait = dead_letter.is_some() && overflow == Overflow::RejectPublish;
        Self {
            queue_type,
            max_priority: if is_quorum {
                QUORUM_PRIORITY_MAX
            } else {
                // Of 0 RabbitMQ makes two levels, as of 1.
                max_priority.map_or(0, |max| max.max(1))
            },
            default_priority: if is_quorum { QUORUM_PRIORITY } else { 0 },
            single_active_consumer: single_active_consumer.unwrap_or(false),
            max_length: number("x-max-length"),
            max_length_bytes: number("x-max-length-bytes"),
            overflow,
            message_ttl_millis: number("x-message-ttl"),
            lazy_expiry: text("x-expiry") == Some(b"lazy"),
            expires_millis: number("x-expires"),
            retry: RetrySettings::of(arguments),
            dead_letter_at_least_once: can_wait
                && text("x-dead-letter-strategy") == Some(b"at-least-once"),
            dead_letter,
            delivery_limit: delivery_limit(arguments, is_quorum),
            attempt_counting: match text(ATTEMPT_COUNTING) {
                Some(b"target") => Some(AttemptCounting::Failures),
                Some(_) => Some(AttemptCounting::All),
                None => is_quorum.then_some(AttemptCounting::Failures),
            },
            ack_timeout_millis: is_quorum
                .then(|| number(CONSUMER_TIMEOUT).unwrap_or(ACK_TIMEOUT_MILLIS)),
        }
    }
}

fn dead_letter<'a>(text: impl Fn(&str) -> Option<&'a [u8]>) -> Option<DeadLetter> {
    let exchange = text(DEAD_LETTER_EXCHANGE)?;
    let name = ShortString::try_from(exchange).ok();
    let key = text("x-dead-letter-routing-key").map(ShortString::try_from);
    Some(DeadLetter {
        // A key that is too long leads nowhere either.
        exchange: name.filter(|_| !matches!(key, Some(Err(_)))),
        routing_key: key.and_then(Result::ok),
    })
}

/// The arguments of a queue of which nobody else said within which time its messages are to be acked; 0 is no such time.
#[must_use]
pub fn with_ack_timeout(mut arguments: FieldTable, millis: u64) -> FieldTable {
    let is_said = arguments.get(CONSUMER_TIMEOUT.as_bytes()).is_some();
    if QueueType::of(&arguments) == QueueType::Quorum && !is_said {
        let millis = i64::try_from(millis).unwrap_or(0);
        let millis = match millis {
            0 => NO_ACK_TIMEOUT_MILLIS,
            millis => millis.min(NO_ACK_TIMEOUT_MILLIS),
        };
        let key = ShortString::from_static(CONSUMER_TIMEOUT);
        arguments.push(key, FieldValue::Long(millis));
    }
    arguments
}

/// A limit below zero is none, and what is no number is no word about it.
fn delivery_limit(arguments: &FieldTable, is_quorum: bool) -> Option<u64> {
    let limit = arguments.get(DELIVERY_LIMIT.as_bytes());
    match limit.and_then(FieldValue::as_integer) {
        Some(limit) => u64::try_from(limit).ok(),
        None => is_quorum.then_some(QUORUM_DELIVERY_LIMIT),
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

/// The arguments of a queue of this type that are compared with those of a second declare, in their order.
pub(crate) fn compared(queue_type: QueueType, known: &FieldTable) -> Vec<&'static str> {
    let own = queue_type.arguments();
    let others = QueueType::ALL.iter().flat_map(|other| other.arguments());
    // An argument of another type is only there when this queue was allowed to have it.
    let allowed = others.filter(|key| known.get(key.as_bytes()).is_some());
    let mut compared = own.to_vec();
    for key in allowed {
        if !compared.contains(key) {
            compared.push(key);
        }
    }
    compared
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
