//! What policies ask of queues and exchanges, and how that goes together with their arguments.

use leveret_wire::value::{FieldTable, ShortString};

use crate::arguments::{DeadLetter, Overflow, QueueSettings};

/// What the policies of one queue or exchange say, already merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicySettings {
    /// `message-ttl`.
    pub message_ttl_millis: Option<u64>,
    /// `expires`.
    pub expires_millis: Option<u64>,
    /// `max-length`.
    pub max_length: Option<u64>,
    /// `max-length-bytes`.
    pub max_length_bytes: Option<u64>,
    /// `overflow`.
    pub overflow: Option<Overflow>,
    /// `dead-letter-exchange`.
    pub dead_letter_exchange: Option<ShortString>,
    /// `dead-letter-routing-key`.
    pub dead_letter_routing_key: Option<ShortString>,
    /// `alternate-exchange`.
    pub alternate_exchange: Option<ShortString>,
}

impl PolicySettings {
    /// A queue's settings by its arguments and these policies: the lower limit counts, where dead messages go and
    /// what a full queue does is for the arguments first.
    #[must_use]
    pub fn joined(&self, of_arguments: QueueSettings, arguments: &FieldTable) -> QueueSettings {
        let has = |key: &str| arguments.get(key.as_bytes()).is_some();
        let QueueSettings {
            message_ttl_millis,
            expires_millis,
            max_length,
            max_length_bytes,
            overflow,
            dead_letter,
            ..
        } = of_arguments.clone();
        QueueSettings {
            message_ttl_millis: lower(message_ttl_millis, self.message_ttl_millis),
            expires_millis: lower(expires_millis, self.expires_millis),
            max_length: lower(max_length, self.max_length),
            max_length_bytes: lower(max_length_bytes, self.max_length_bytes),
            overflow: match self.overflow {
                Some(overflow) if !has("x-overflow") => overflow,
                Some(_) | None => overflow,
            },
            dead_letter: self.dead_letter(dead_letter),
            ..of_arguments
        }
    }

    fn dead_letter(&self, of_arguments: Option<DeadLetter>) -> Option<DeadLetter> {
        match of_arguments {
            Some(mut own) => {
                own.routing_key = own
                    .routing_key
                    .or_else(|| self.dead_letter_routing_key.clone());
                Some(own)
            }
            None => self
                .dead_letter_exchange
                .clone()
                .map(|exchange| DeadLetter {
                    exchange: Some(exchange),
                    routing_key: self.dead_letter_routing_key.clone(),
                }),
        }
    }
}

fn lower(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    [a, b].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use leveret_wire::value::FieldValue;

    use super::*;

    fn joined(arguments: &FieldTable, policy: &PolicySettings) -> QueueSettings {
        policy.joined(QueueSettings::of(arguments), arguments)
    }

    #[test]
    fn the_lower_limit_counts() {
        let policy = PolicySettings {
            max_length: Some(5),
            message_ttl_millis: Some(100),
            ..PolicySettings::default()
        };
        for (own, expected) in [(10, 5), (3, 3)] {
            let arguments = FieldTable::new().with("x-max-length", FieldValue::Long(own));
            let settings = joined(&arguments, &policy);
            assert_eq!(settings.max_length, Some(expected));
            assert_eq!(settings.message_ttl_millis, Some(100));
        }
    }

    #[test]
    fn arguments_win_for_overflow_and_dead_letters() {
        let policy = PolicySettings {
            overflow: Some(Overflow::RejectPublish),
            dead_letter_exchange: ShortString::try_from("policy").ok(),
            ..PolicySettings::default()
        };
        let settings = joined(&FieldTable::new(), &policy);
        assert_eq!(settings.overflow, Overflow::RejectPublish);
        let exchange = |settings: QueueSettings| settings.dead_letter?.exchange;
        assert_eq!(exchange(settings), ShortString::try_from("policy").ok());
        let arguments = FieldTable::new()
            .with("x-overflow", FieldValue::text("drop-head"))
            .with("x-dead-letter-exchange", FieldValue::text("argument"));
        let settings = joined(&arguments, &policy);
        assert_eq!(settings.overflow, Overflow::DropHead);
        assert_eq!(exchange(settings), ShortString::try_from("argument").ok());
    }
}
