//! The arguments and flags of a new queue, checked in RabbitMQ's order and refused in its words.

use std::sync::Arc;

use leveret_wire::value::{FieldTable, FieldValue, ShortString};

use super::{
    ATTEMPT_COUNTING, DEAD_LETTER_EXCHANGE, DELIVERY_LIMIT, QUEUE_TYPE, QueueType,
    erlang_string::erlang_string, max_age_millis, retry,
};
use crate::{
    refusal::{ObjectKind, Refusal},
    vhost::QueueDeclare,
};

/// What `x-overflow` may say.
const OVERFLOWS: [&[u8]; 3] = [b"drop-head", b"reject-publish", b"reject-publish-dlx"];

/// What `x-dead-letter-strategy` may say.
const STRATEGIES: [&[u8]; 2] = [b"at-most-once", b"at-least-once"];

/// What `x-attempt-counting` may say.
const COUNTINGS: [&[u8]; 2] = [b"target", b"all"];

/// What `x-expiry` may say.
const EXPIRIES: [&[u8]; 2] = [b"exact", b"lazy"];

/// What `x-queue-leader-locator` may say; the last three are old names.
const LEADER_LOCATORS: [&[u8]; 5] = [
    b"client-local",
    b"balanced",
    b"random",
    b"least-leaders",
    b"min-masters",
];

/// The longest a message or an unused queue may last: ten years.
const TTL_MAX_MILLIS: i64 = 315_360_000_000;
/// The priorities there can be, as RabbitMQ bounds them.
const PRIORITY_MAX: i64 = 255;
/// The largest segment a stream may ask for.
const SEGMENT_MAX_BYTES: i64 = 3_000_000_000;
/// What a stream may ask for as the size of its filter.
const FILTER_BYTES: std::ops::RangeInclusive<i64> = 16..=255;

/// What is checked of one value.
type ValueCheck<'a> = fn(&Check<'a>, &'static str) -> Result<(), Refusal>;

/// Values in the order in which they are checked, this broker's own behind those of RabbitMQ; of a type
/// that does not take the argument the value does not matter.
fn values<'a>() -> [(&'static str, ValueCheck<'a>); 30] {
    [
        ("x-expires", Check::expires),
        ("x-message-ttl", Check::ttl),
        ("x-dead-letter-routing-key", Check::dead_letter_key),
        ("x-dead-letter-strategy", |check, key| {
            check.one_of(key, &STRATEGIES, "invalid_dlx_strategy")
        }),
        ("x-max-length", Check::not_negative),
        ("x-max-length-bytes", Check::not_negative),
        ("x-max-in-memory-length", Check::not_negative),
        ("x-max-in-memory-bytes", Check::not_negative),
        ("x-max-priority", Check::max_priority),
        ("x-overflow", |check, key| {
            check.one_of(key, &OVERFLOWS, "invalid_overflow")
        }),
        ("x-queue-version", Check::version),
        ("x-single-active-consumer", Check::truth),
        ("x-max-age", Check::max_age),
        ("x-stream-max-segment-size-bytes", Check::not_negative),
        ("x-stream-filter-size-bytes", Check::not_negative),
        ("x-consumer-timeout", Check::not_negative),
        ("x-consumer-disconnected-timeout", Check::not_negative),
        ("x-quorum-initial-group-size", Check::positive),
        ("x-initial-cluster-size", Check::positive),
        ("x-queue-leader-locator", |check, key| {
            check.one_of(key, &LEADER_LOCATORS, "invalid_queue_locator_arg")
        }),
        ("x-expiry", |check, key| {
            check.one_of(key, &EXPIRIES, "invalid_expiry")
        }),
        (ATTEMPT_COUNTING, |check, key| {
            check.one_of(key, &COUNTINGS, "invalid_attempt_counting")
        }),
        ("x-retry-backoff", |check, key| {
            check.one_of(key, &retry::BACKOFFS, "invalid_backoff")
        }),
        ("x-retry-min", Check::span),
        ("x-retry-max", Check::span),
        ("x-retry-factor", |check, key| check.permille(key, 1000)),
        ("x-retry-jitter", |check, key| check.permille(key, 0)),
        ("x-retry-delays", Check::steps),
        ("x-retry-limit", Check::positive),
        ("x-retry-on", |check, key| {
            check.one_of(key, &retry::OCCASIONS, "invalid_occasion")
        }),
    ]
}

/// Where a queue of a cluster was to begin once.
const MASTER_LOCATOR: &[u8] = b"x-queue-master-locator";

/// What this broker's own arguments are called begins with one of these.
const OWN: [&str; 3] = ["x-expiry", ATTEMPT_COUNTING, "x-retry-"];

/// What is wrong with the value of one of this broker's own arguments; `None` for other arguments.
#[must_use]
pub fn check_own_argument(key: &str, value: &FieldValue) -> Option<Result<(), String>> {
    if !OWN.iter().any(|own| key.starts_with(own)) {
        return None;
    }
    let (key, check) = values().into_iter().find(|(known, _)| *known == key)?;
    let nobody = ShortString::empty();
    let arguments = FieldTable::new().with(key, value.clone());
    let checked = check(
        &Check {
            name: &nobody,
            vhost: &nobody,
            arguments: &arguments,
        },
        key,
    );
    Some(checked.map_err(|refusal| {
        if let Refusal::InvalidArgument { detail, .. } = refusal {
            detail
        } else {
            refusal.to_string()
        }
    }))
}

/// Whether something that RabbitMQ is to stop doing is done, and if not, who said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// It is done.
    Given,
    /// It is refused as it will be by default one day.
    WithdrawnByDefault,
    /// It is refused because the configuration says so.
    WithdrawnByConfiguration,
}

/// Types of which there are no new queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypesOff {
    /// The types.
    pub types: Vec<QueueType>,
    /// The node that has none of them, for the text.
    pub node: String,
}

/// What of the things that RabbitMQ does not do any more, is to stop doing, or can be told not to do, is done for new
/// queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permits {
    /// Queues that neither last nor belong to a connection.
    pub transient_shared_queues: Permit,
    /// `x-queue-mode`, which has no effect.
    pub queue_mode: bool,
    /// `x-queue-master-locator`, which has no effect.
    pub master_locator: bool,
    /// What no queue can be; mostly nothing.
    pub off: Option<Arc<TypesOff>>,
}

impl Default for Permits {
    /// As RabbitMQ 4.3 has it.
    fn default() -> Self {
        Self {
            transient_shared_queues: Permit::Given,
            queue_mode: true,
            master_locator: false,
            off: None,
        }
    }
}

/// Checks a new queue and says of which type it is; `default` is that if it asks for none.
pub(crate) fn check_queue(
    asked: &QueueDeclare,
    vhost: &ShortString,
    default: QueueType,
    permits: &Permits,
) -> Result<QueueType, Refusal> {
    let check = Check {
        name: &asked.name,
        vhost,
        arguments: &asked.arguments,
    };
    check.dead_letter_exchange()?;
    let queue_type = check.queue_type(default)?;
    for (key, value_check) in values() {
        if queue_type.takes(key.as_bytes()) {
            value_check(&check, key)?;
        }
    }
    check.keys(queue_type, permits.queue_mode)?;
    let off = permits.off.as_ref();
    if let Some(off) = off.filter(|off| off.types.contains(&queue_type)) {
        return Err(Refusal::QueueTypeOff {
            name: asked.name.clone(),
            vhost: vhost.clone(),
            queue_type,
            node: off.node.clone(),
        });
    }
    if !asked.durable && !asked.exclusive {
        match permits.transient_shared_queues {
            Permit::Given => {}
            Permit::WithdrawnByDefault => {
                return Err(Refusal::DeprecatedFeature {
                    feature: "transient_nonexcl_queues",
                });
            }
            Permit::WithdrawnByConfiguration => {
                return Err(Refusal::FeatureNotPermitted {
                    feature: "transient_nonexcl_queues",
                });
            }
        }
    }
    if !permits.master_locator && asked.arguments.get(MASTER_LOCATOR).is_some() {
        return Err(Refusal::DeprecatedFeature {
            feature: "queue_master_locator",
        });
    }
    if queue_type.is_lasting() {
        check.flags(asked)?;
    }
    if queue_type == QueueType::Stream {
        check.stream_sizes()?;
    }
    Ok(queue_type)
}

/// The declare of a queue without a name: before anything else its type must be there, and none that lasts.
///
/// `default` is its type if it names none. A word for no word stands for the type `of_node` here, and for that of the
/// vhost later.
pub(crate) fn check_server_named(
    asked: &QueueDeclare,
    default: QueueType,
    of_node: QueueType,
) -> Result<(), Refusal> {
    if !asked.server_named {
        return Ok(());
    }
    let queue_type = match asked.arguments.get(QUEUE_TYPE.as_bytes()) {
        None => default,
        Some(word @ (FieldValue::LongString(_) | FieldValue::Bytes(_) | FieldValue::Bool(_))) => {
            let named = word.as_bytes().and_then(|name| named_type(name, of_node));
            named.ok_or_else(|| {
                let asked = word.to_string();
                Refusal::UnknownQueueType { asked }
            })?
        }
        // Told with the other arguments.
        Some(_) => QueueType::Classic,
    };
    if queue_type.is_lasting() {
        return Err(Refusal::ServerNamed { queue_type });
    }
    Ok(())
}

/// The type of this name; `default` of a word for no word.
fn named_type(name: &[u8], default: QueueType) -> Option<QueueType> {
    match name {
        b"" | b"undefined" => Some(default),
        _ => QueueType::from_name(name),
    }
}

/// The arguments of one declare under examination.
struct Check<'a> {
    name: &'a ShortString,
    vhost: &'a ShortString,
    arguments: &'a FieldTable,
}

impl Check<'_> {
    fn dead_letter_exchange(&self) -> Result<(), Refusal> {
        match self.arguments.get(DEAD_LETTER_EXCHANGE.as_bytes()) {
            None | Some(FieldValue::LongString(_)) => Ok(()),
            Some(other) => Err(Refusal::InvalidArgumentType {
                kind: ObjectKind::Queue,
                name: self.name.clone(),
                vhost: self.vhost.clone(),
                arg: DEAD_LETTER_EXCHANGE.to_owned(),
                type_name: other.type_name(),
            }),
        }
    }

    fn queue_type(&self, default: QueueType) -> Result<QueueType, Refusal> {
        match self.text(QUEUE_TYPE)? {
            None => Ok(default),
            Some(name) => named_type(name, default).ok_or_else(|| {
                let shown = FieldValue::text(name.to_vec());
                let detail = erlang_string(&format!("unsupported queue type '{shown}'"));
                self.invalid(QUEUE_TYPE, detail)
            }),
        }
    }

    /// The first argument that another type takes and this one does not.
    ///
    /// As they were sent; where RabbitMQ adds the type that nobody named, it sorts them.
    fn keys(&self, queue_type: QueueType, has_mode: bool) -> Result<(), Refusal> {
        // RabbitMQ limits deliveries of quorum queues only, and who names the counting knows this broker.
        let is_counting = self.arguments.get(ATTEMPT_COUNTING.as_bytes()).is_some();
        let is_taken = |key: &[u8]| {
            let is_limit = is_counting && key == DELIVERY_LIMIT.as_bytes();
            let is_over = !has_mode && key == b"x-queue-mode";
            (queue_type.takes(key) && !is_over) || (is_limit && queue_type == QueueType::Classic)
        };
        let is_of_others =
            |key: &[u8]| !is_taken(key) && QueueType::ALL.iter().any(|other| other.takes(key));
        let keys = self.arguments.iter().map(|(key, _)| key);
        let mut wrong = keys.filter(|key| is_of_others(key.as_bytes()));
        let asked = self.arguments.get(QUEUE_TYPE.as_bytes());
        let first = match asked.and_then(FieldValue::as_bytes) {
            None | Some(b"" | b"undefined") => wrong.min_by_key(|key| key.as_bytes()),
            Some(_) => wrong.next(),
        };
        if let Some(key) = first {
            return Err(Refusal::ArgumentOfOtherType {
                name: self.name.clone(),
                vhost: self.vhost.clone(),
                arg: key.to_string(),
                queue_type,
            });
        }
        Ok(())
    }

    /// A queue of a lasting type is durable and nobody's own.
    fn flags(&self, asked: &QueueDeclare) -> Result<(), Refusal> {
        let property = match asked {
            QueueDeclare {
                auto_delete: true, ..
            } => "auto-delete",
            QueueDeclare {
                exclusive: true, ..
            } => "exclusive-owner",
            QueueDeclare { durable: false, .. } => "non-durable",
            QueueDeclare { .. } => return Ok(()),
        };
        Err(Refusal::InvalidProperty {
            property,
            name: self.name.clone(),
            vhost: self.vhost.clone(),
        })
    }

    fn stream_sizes(&self) -> Result<(), Refusal> {
        let size = |key: &str| self.arguments.get(key.as_bytes())?.as_integer();
        let key = "x-stream-max-segment-size-bytes";
        if size(key).is_some_and(|size| size > SEGMENT_MAX_BYTES) {
            let what = format!("Exceeded max value for {key}");
            return Err(Refusal::StreamSize { what });
        }
        let key = "x-stream-filter-size-bytes";
        if size(key).is_some_and(|size| !FILTER_BYTES.contains(&size)) {
            let what = format!("Invalid value for {key}");
            return Err(Refusal::StreamSize { what });
        }
        Ok(())
    }

    fn expires(&self, key: &'static str) -> Result<(), Refusal> {
        self.positive(key)?;
        self.ttl(key)
    }

    fn ttl(&self, key: &'static str) -> Result<(), Refusal> {
        self.not_negative(key)?;
        self.at_most(key, TTL_MAX_MILLIS, "value_too_large")
    }

    fn max_priority(&self, key: &'static str) -> Result<(), Refusal> {
        self.not_negative(key)?;
        self.at_most(key, PRIORITY_MAX, "max_value_exceeded")
    }

    fn at_most(&self, key: &str, max: i64, term: &str) -> Result<(), Refusal> {
        match self.integer(key)? {
            Some(number) if number > max => Err(self.invalid(key, format!("{{{term},{number}}}"))),
            Some(_) | None => Ok(()),
        }
    }

    fn positive(&self, key: &'static str) -> Result<(), Refusal> {
        self.not_negative(key)?;
        if self.integer(key)? == Some(0) {
            return Err(self.invalid(key, "{value_zero,0}".to_owned()));
        }
        Ok(())
    }

    fn not_negative(&self, key: &'static str) -> Result<(), Refusal> {
        match self.integer(key)? {
            Some(number) if number < 0 => {
                Err(self.invalid(key, format!("{{value_negative,{number}}}")))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn dead_letter_key(&self, key: &'static str) -> Result<(), Refusal> {
        let has_key = self.text(key)?.is_some();
        let exchange = self.arguments.get(DEAD_LETTER_EXCHANGE.as_bytes());
        if has_key && exchange.is_none() {
            return Err(self.invalid(key, "routing_key_but_no_dlx_defined".to_owned()));
        }
        Ok(())
    }

    fn version(&self, key: &'static str) -> Result<(), Refusal> {
        self.not_negative(key)?;
        match self.integer(key)? {
            None | Some(2) => Ok(()),
            Some(version) => {
                let detail = format!("\"unsupported queue version '{version}'\"");
                Err(self.invalid(key, detail))
            }
        }
    }

    fn truth(&self, key: &'static str) -> Result<(), Refusal> {
        match self.arguments.get(key.as_bytes()) {
            None | Some(FieldValue::Bool(_)) => Ok(()),
            Some(other) => Err(self.invalid(key, unacceptable(other))),
        }
    }

    fn max_age(&self, key: &'static str) -> Result<(), Refusal> {
        match self.text(key)? {
            Some(age) if max_age_millis(age).is_none() => {
                Err(self.invalid(key, "invalid_max_age".to_owned()))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn span(&self, key: &'static str) -> Result<(), Refusal> {
        self.read_as(key, "a time", |value| retry::millis(value).is_some())
    }

    fn steps(&self, key: &'static str) -> Result<(), Refusal> {
        self.read_as(key, "times", |value| {
            value
                .as_bytes()
                .is_some_and(|text| retry::steps(text).is_some())
        })
    }

    /// A number of any type: a factor is 1 at least, a jitter 1 at most.
    fn permille(&self, key: &'static str, min: u64) -> Result<(), Refusal> {
        self.read_as(key, "a number", |value| {
            retry::permille(value).is_some_and(|number| match min {
                0 => number <= 1000,
                min => number >= min,
            })
        })
    }

    fn read_as(
        &self,
        key: &str,
        what: &str,
        is_right: impl Fn(&FieldValue) -> bool,
    ) -> Result<(), Refusal> {
        match self.arguments.get(key.as_bytes()) {
            Some(value) if !is_right(value) => {
                Err(self.invalid(key, format!("\"not {what}: '{value}'\"")))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn integer(&self, key: &str) -> Result<Option<i64>, Refusal> {
        let Some(value) = self.arguments.get(key.as_bytes()) else {
            return Ok(None);
        };
        value.as_integer().map(Some).ok_or_else(|| {
            let detail = format!("\"expected integer, got {}\"", value.type_name());
            self.invalid(key, detail)
        })
    }

    fn text(&self, key: &str) -> Result<Option<&[u8]>, Refusal> {
        match self.arguments.get(key.as_bytes()) {
            None => Ok(None),
            Some(FieldValue::LongString(text)) => Ok(Some(text.as_bytes())),
            Some(other) => Err(self.invalid(key, unacceptable(other))),
        }
    }

    fn one_of(&self, key: &str, known: &[&[u8]], detail: &str) -> Result<(), Refusal> {
        match self.text(key)? {
            Some(text) if !known.contains(&text) => Err(self.invalid(key, detail.to_owned())),
            Some(_) | None => Ok(()),
        }
    }

    fn invalid(&self, arg: &str, detail: String) -> Refusal {
        Refusal::InvalidArgument {
            name: self.name.clone(),
            vhost: self.vhost.clone(),
            arg: arg.to_owned(),
            detail,
        }
    }
}

/// RabbitMQ's term for an argument of a wrong type.
fn unacceptable(value: &FieldValue) -> String {
    format!("{{unacceptable_type,{}}}", value.type_name())
}
