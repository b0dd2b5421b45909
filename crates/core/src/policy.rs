//! What policies ask of queues, and how that goes together with their arguments.
//!
//! A policy says of many queues what an argument says of one, by the same word without `x-`. So the two are joined into
//! the arguments the queue would have had, and those are read as any others.

use leveret_wire::value::{FieldTable, FieldValue, ShortString};

use crate::arguments::QueueType;

/// What stays as it was declared.
const FIXED: [&str; 4] = [
    "queue-type",
    "max-priority",
    "single-active-consumer",
    "queue-mode",
];

/// What only a quorum queue heeds.
const QUORUM_ONLY: [&str; 5] = [
    "consumer-timeout",
    "dead-letter-strategy",
    "delayed-retry-max",
    "delayed-retry-min",
    "delayed-retry-type",
];

/// Whose word counts where an argument and a policy both have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Argument,
    Policy,
    Lower,
    /// Below zero is no limit.
    LowerUnlessNegative,
}

impl Rule {
    /// `behaviour/queues.md`, policies.
    fn of(queue_type: QueueType, key: &str) -> Self {
        let (is_quorum, is_stream) = (
            queue_type == QueueType::Quorum,
            queue_type == QueueType::Stream,
        );
        match key {
            "max-length-bytes" | "max-age" | "stream-max-segment-size-bytes" if is_stream => {
                Self::Policy
            }
            "message-ttl" | "expires" | "max-length" | "max-length-bytes" | "consumer-timeout" => {
                Self::Lower
            }
            "delivery-limit" => Self::LowerUnlessNegative,
            "overflow" if is_quorum => Self::Policy,
            "delayed-retry-max" | "delayed-retry-min" | "delayed-retry-type" => Self::Policy,
            _ => Self::Argument,
        }
    }

    fn join(self, argument: &FieldValue, policy: &FieldValue) -> FieldValue {
        let numbers = argument.as_integer().zip(policy.as_integer());
        match (self, numbers) {
            (Self::Argument, _) => argument.clone(),
            (Self::Lower, Some((a, b))) => FieldValue::Long(a.min(b)),
            (Self::LowerUnlessNegative, Some((a, b))) if a < 0 || b < 0 => {
                FieldValue::Long(a.max(b))
            }
            (Self::LowerUnlessNegative, Some((a, b))) => FieldValue::Long(a.min(b)),
            // An argument that is no number is no word about it.
            (Self::Policy | Self::Lower | Self::LowerUnlessNegative, _) => policy.clone(),
        }
    }
}

/// The arguments of a queue together with what its policies say, already merged and by their own keys.
///
/// ```
/// use leveret_core::policy::effective_arguments;
/// use leveret_wire::value::{FieldTable, FieldValue};
///
/// let arguments = FieldTable::new().with("x-max-length", FieldValue::Int(10));
/// let policy = FieldTable::new().with("max-length", FieldValue::Int(5));
/// let effective = effective_arguments(&arguments, &policy);
/// assert_eq!(effective.get(b"x-max-length"), Some(&FieldValue::Long(5)));
/// ```
#[must_use]
pub fn effective_arguments(arguments: &FieldTable, policy: &FieldTable) -> FieldTable {
    let queue_type = QueueType::of(arguments);
    let mut effective = arguments.clone();
    for (key, of_policy) in policy.iter() {
        let Ok(word) = key.to_str() else { continue };
        let is_for_others = queue_type != QueueType::Quorum && QUORUM_ONLY.contains(&word);
        if FIXED.contains(&word) || is_for_others {
            continue;
        }
        let Ok(name) = ShortString::try_from(format!("x-{word}").as_str()) else {
            continue;
        };
        let value = match arguments.get(name.as_bytes()) {
            Some(argument) => Rule::of(queue_type, word).join(argument, of_policy),
            None => of_policy.clone(),
        };
        effective.set(name, value);
    }
    effective
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{AttemptCounting, Overflow, QueueSettings};

    fn text(text: &'static str) -> FieldValue {
        FieldValue::text(text)
    }

    fn joined(arguments: &FieldTable, policy: &FieldTable) -> QueueSettings {
        QueueSettings::of(&effective_arguments(arguments, policy))
    }

    fn quorum() -> FieldTable {
        FieldTable::new().with("x-queue-type", text("quorum"))
    }

    #[test]
    fn the_lower_limit_counts() {
        let policy = FieldTable::new()
            .with("max-length", FieldValue::Long(5))
            .with("message-ttl", FieldValue::Long(100));
        for (own, expected) in [(10, 5), (3, 3)] {
            let arguments = FieldTable::new().with("x-max-length", FieldValue::Long(own));
            let settings = joined(&arguments, &policy);
            assert_eq!(settings.max_length, Some(expected));
            assert_eq!(settings.message_ttl_millis, Some(100));
        }
        let policy = FieldTable::new().with("consumer-timeout", FieldValue::Long(7000));
        let argument = |millis| quorum().with("x-consumer-timeout", FieldValue::Int(millis));
        let timeout = |arguments| joined(&arguments, &policy).ack_timeout_millis;
        assert_eq!(timeout(argument(1000)), Some(1000));
        assert_eq!(timeout(argument(9000)), Some(7000));
        assert_eq!(timeout(quorum()), Some(7000));
        assert_eq!(timeout(FieldTable::new()), None);
    }

    #[test]
    fn of_two_delivery_limits_no_limit_is_none() {
        let limit = |argument, policy| {
            let policy = FieldTable::new().with("delivery-limit", FieldValue::Long(policy));
            joined(&quorum().with("x-delivery-limit", argument), &policy).delivery_limit
        };
        assert_eq!(limit(FieldValue::Int(3), 5), Some(3));
        assert_eq!(limit(FieldValue::Int(5), 3), Some(3));
        assert_eq!(limit(FieldValue::Int(-1), 3), Some(3));
        assert_eq!(limit(FieldValue::Int(3), -1), Some(3));
        assert_eq!(limit(FieldValue::Int(-1), -1), None);
        assert_eq!(limit(text("no number"), 4), Some(4));
    }

    #[test]
    fn arguments_win_for_overflow_and_dead_letters() {
        let policy = FieldTable::new()
            .with("overflow", text("reject-publish"))
            .with("dead-letter-exchange", text("policy"))
            .with("dead-letter-strategy", text("at-least-once"));
        let settings = joined(&FieldTable::new(), &policy);
        assert_eq!(settings.overflow, Overflow::RejectPublish);
        assert!(!settings.dead_letter_at_least_once, "of quorum queues only");
        let exchange = |settings: QueueSettings| settings.dead_letter?.exchange;
        assert_eq!(exchange(settings), ShortString::try_from("policy").ok());
        let own = |arguments: FieldTable| {
            arguments
                .with("x-overflow", text("drop-head"))
                .with("x-dead-letter-exchange", text("argument"))
        };
        let settings = joined(&own(FieldTable::new()), &policy);
        assert_eq!(settings.overflow, Overflow::DropHead);
        assert_eq!(exchange(settings), ShortString::try_from("argument").ok());
        // In a quorum queue the policy wins for the one and not for the other.
        let settings = joined(&own(quorum()), &policy);
        assert_eq!(settings.overflow, Overflow::RejectPublish);
        assert!(settings.dead_letter_at_least_once);
        assert_eq!(exchange(settings), ShortString::try_from("argument").ok());
    }

    #[test]
    fn what_is_fixed_at_the_declare_comes_from_no_policy() {
        let policy = FieldTable::new()
            .with("queue-type", text("quorum"))
            .with("max-priority", FieldValue::Long(9))
            .with("single-active-consumer", FieldValue::Bool(true));
        let settings = joined(&FieldTable::new(), &policy);
        assert_eq!(settings, QueueSettings::default());
    }

    #[test]
    fn own_arguments_are_policy_keys_too() {
        let policy = FieldTable::new()
            .with("attempt-counting", text("all"))
            .with("delivery-limit", FieldValue::Long(3))
            .with("expiry", text("lazy"))
            .with("retry-min", text("2s"));
        let settings = joined(&FieldTable::new(), &policy);
        assert_eq!(settings.attempt_counting, Some(AttemptCounting::All));
        assert_eq!(settings.delivery_limit, Some(3));
        assert!(settings.lazy_expiry);
        assert!(settings.retry.is_some());
    }
}
