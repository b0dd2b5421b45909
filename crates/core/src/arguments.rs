//! Arguments of declares: which ones are known, what they may be, what this broker does with them.

use leveret_wire::value::{FieldTable, FieldValue, ShortString};

use crate::refusal::Refusal;

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

/// What `x-queue-leader-locator` may say; the last three are old names.
const LEADER_LOCATORS: [&[u8]; 5] = [
    b"client-local",
    b"balanced",
    b"random",
    b"least-leaders",
    b"min-masters",
];

/// Known arguments that change nothing on one node, as in RabbitMQ.
const WITHOUT_EFFECT: [&str; 3] = ["x-queue-leader-locator", "x-queue-mode", "x-queue-version"];

/// Checks the arguments of a new queue.
///
/// What RabbitMQ would act on and this broker does not yet is refused: a queue that silently keeps
/// its messages longer than asked would be worse than none.
pub(crate) fn check_queue(
    name: &ShortString,
    vhost: &ShortString,
    arguments: &FieldTable,
) -> Result<(), Refusal> {
    let invalid = |arg: &str, detail: String| Refusal::InvalidArgument {
        name: name.clone(),
        vhost: vhost.clone(),
        arg: arg.to_owned(),
        detail,
    };
    match arguments.get(QUEUE_TYPE.as_bytes()) {
        None => {}
        Some(FieldValue::LongString(_)) => match queue_type(arguments).as_str() {
            "classic" => {}
            known @ ("quorum" | "stream") => {
                return Err(not_yet(&format!("queue type '{known}'")));
            }
            other => {
                let detail = format!("\"unsupported queue type '{other}'\"");
                return Err(invalid(QUEUE_TYPE, detail));
            }
        },
        Some(other) => return Err(invalid(QUEUE_TYPE, unacceptable(other))),
    }
    if let Some(version) = arguments.get(b"x-queue-version") {
        match version.as_integer() {
            Some(2) => {}
            Some(other) => {
                let detail = format!("\"unsupported queue version '{other}'\"");
                return Err(invalid("x-queue-version", detail));
            }
            None => {
                let detail = format!("\"expected integer, got {}\"", version.type_name());
                return Err(invalid("x-queue-version", detail));
            }
        }
    }
    match arguments.get(b"x-queue-leader-locator") {
        None => {}
        Some(FieldValue::LongString(text)) if LEADER_LOCATORS.contains(&text.as_bytes()) => {}
        Some(FieldValue::LongString(_)) => {
            let detail = "invalid_queue_locator_arg".to_owned();
            return Err(invalid("x-queue-leader-locator", detail));
        }
        Some(other) => return Err(invalid("x-queue-leader-locator", unacceptable(other))),
    }
    let is_given = |key: &&&str| arguments.get(key.as_bytes()).is_some();
    if let Some(key) = CLASSIC_QUEUE
        .iter()
        .filter(|key| !WITHOUT_EFFECT.contains(key))
        .find(is_given)
    {
        return Err(not_yet(&format!("queue argument '{key}'")));
    }
    NOT_CLASSIC_QUEUE
        .iter()
        .find(is_given)
        .map_or(Ok(()), |key| {
            Err(Refusal::ArgumentOfOtherType {
                name: name.clone(),
                vhost: vhost.clone(),
                arg: (*key).to_owned(),
            })
        })
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
