//! Arguments of declares: which ones are known, what they may be, and as typed settings.
//!
//! What is stored of a queue is its arguments as they were declared: [`QueueSettings::of`] reads them
//! again after a restart.

use leveret_wire::value::{FieldTable, FieldValue, ShortString};

use crate::refusal::{ObjectKind, Refusal};

/// Where messages go that an exchange has no binding for.
pub(crate) const ALTERNATE_EXCHANGE: &str = "alternate-exchange";
/// Classic, quorum or stream.
pub(crate) const QUEUE_TYPE: &str = "x-queue-type";

/// What a classic queue is declared with, and so is compared on a second declare.
pub(crate) const CLASSIC_QUEUE: [&str; 12] = [
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-message-ttl",
    "x-overflow",
    "x-queue-leader-locator",
    "x-queue-mode",
    "x-queue-version",
    "x-single-active-consumer",
];

/// What only quorum queues and streams are declared with.
const NOT_CLASSIC_QUEUE: [&str; 14] = [
    "x-consumer-disconnected-timeout",
    "x-consumer-timeout",
    "x-dead-letter-strategy",
    "x-delayed-retry-max",
    "x-delayed-retry-min",
    "x-delayed-retry-type",
    "x-delivery-limit",
    "x-initial-cluster-size",
    "x-max-age",
    "x-max-in-memory-bytes",
    "x-max-in-memory-length",
    "x-quorum-initial-group-size",
    "x-stream-filter-size-bytes",
    "x-stream-max-segment-size-bytes",
];

/// Where messages go that a queue is done with.
const DEAD_LETTER_EXCHANGE: &str = "x-dead-letter-exchange";

/// What `x-overflow` may say.
const OVERFLOWS: [&[u8]; 3] = [b"drop-head", b"reject-publish", b"reject-publish-dlx"];

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

/// What a queue does beyond keeping messages in order; from the arguments it was declared with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueSettings {
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
            max_priority: max_priority.unwrap_or(0),
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

/// Checks the arguments of a new queue, in RabbitMQ's order.
pub(crate) fn check_queue(
    name: &ShortString,
    vhost: &ShortString,
    arguments: &FieldTable,
) -> Result<(), Refusal> {
    let check = Check {
        name,
        vhost,
        arguments,
    };
    if let Some(value) = arguments.get(DEAD_LETTER_EXCHANGE.as_bytes())
        && value.as_bytes().is_none()
    {
        return Err(Refusal::InvalidArgumentType {
            kind: ObjectKind::Queue,
            name: name.clone(),
            vhost: vhost.clone(),
            arg: DEAD_LETTER_EXCHANGE.to_owned(),
            type_name: value.type_name(),
        });
    }
    check.queue_type()?;
    let is_given = |key: &&&str| arguments.get(key.as_bytes()).is_some();
    if is_given(&&"x-queue-master-locator") {
        return Err(Refusal::DeprecatedFeature {
            feature: "queue_master_locator",
        });
    }
    if let Some(key) = NOT_CLASSIC_QUEUE.iter().find(is_given) {
        return Err(Refusal::ArgumentOfOtherType {
            name: name.clone(),
            vhost: vhost.clone(),
            arg: (*key).to_owned(),
        });
    }
    check.values()
}

/// The arguments of one declare under examination.
struct Check<'a> {
    name: &'a ShortString,
    vhost: &'a ShortString,
    arguments: &'a FieldTable,
}

impl Check<'_> {
    fn queue_type(&self) -> Result<(), Refusal> {
        if self.text(QUEUE_TYPE)?.is_none() {
            return Ok(());
        }
        match queue_type(self.arguments).as_str() {
            "classic" => Ok(()),
            known @ ("quorum" | "stream") => Err(not_yet(&format!("queue type '{known}'"))),
            other => {
                let detail = format!("\"unsupported queue type '{other}'\"");
                Err(self.invalid(QUEUE_TYPE, detail))
            }
        }
    }

    fn values(&self) -> Result<(), Refusal> {
        let too_large =
            |key, number| Err(self.invalid(key, format!("{{value_too_large,{number}}}")));
        match self.not_negative("x-expires")? {
            Some(0) => return Err(self.invalid("x-expires", "{value_zero,0}".to_owned())),
            Some(number) if number > TTL_MAX_MILLIS => return too_large("x-expires", number),
            Some(_) | None => {}
        }
        if let Some(number) = self.not_negative("x-message-ttl")?
            && number > TTL_MAX_MILLIS
        {
            return too_large("x-message-ttl", number);
        }
        let has_key = self.text("x-dead-letter-routing-key")?.is_some();
        if has_key
            && self
                .arguments
                .get(DEAD_LETTER_EXCHANGE.as_bytes())
                .is_none()
        {
            let detail = "routing_key_but_no_dlx_defined".to_owned();
            return Err(self.invalid("x-dead-letter-routing-key", detail));
        }
        self.not_negative("x-max-length")?;
        self.not_negative("x-max-length-bytes")?;
        if let Some(max) = self.not_negative("x-max-priority")?
            && max > PRIORITY_MAX
        {
            let detail = format!("{{max_value_exceeded,{max}}}");
            return Err(self.invalid("x-max-priority", detail));
        }
        self.one_of("x-overflow", &OVERFLOWS, "invalid_overflow")?;
        if let Some(version) = self.integer("x-queue-version")?
            && version != 2
        {
            let detail = format!("\"unsupported queue version '{version}'\"");
            return Err(self.invalid("x-queue-version", detail));
        }
        match self.arguments.get(b"x-single-active-consumer") {
            None | Some(FieldValue::Bool(_)) => {}
            Some(other) => {
                return Err(self.invalid("x-single-active-consumer", unacceptable(other)));
            }
        }
        self.one_of(
            "x-queue-leader-locator",
            &LEADER_LOCATORS,
            "invalid_queue_locator_arg",
        )
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

    fn not_negative(&self, key: &str) -> Result<Option<i64>, Refusal> {
        match self.integer(key)? {
            Some(number) if number < 0 => {
                Err(self.invalid(key, format!("{{value_negative,{number}}}")))
            }
            number => Ok(number),
        }
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

/// The queue type asked for; no word about it means the default.
pub(crate) fn queue_type(arguments: &FieldTable) -> String {
    let asked = arguments
        .get(QUEUE_TYPE.as_bytes())
        .map(ToString::to_string)
        .unwrap_or_default();
    match asked.as_str() {
        "" | "undefined" => "classic".to_owned(),
        _ => asked,
    }
}

/// RabbitMQ's term for an argument of a wrong type.
fn unacceptable(value: &FieldValue) -> String {
    format!("{{unacceptable_type,{}}}", value.type_name())
}

fn not_yet(what: &str) -> Refusal {
    Refusal::NotImplemented {
        what: format!("{what} is not supported by this version"),
    }
}
