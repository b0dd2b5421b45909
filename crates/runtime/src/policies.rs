//! Policies: which one applies to a queue or exchange, and what it says.
//!
//! Kept as parameters, read anew whenever one changes.

use std::{cmp::Reverse, sync::Arc};

use leveret_core::{
    directory::Directory,
    pattern::Pattern,
    policy::effective_arguments,
    record::{ParameterRecord, QueueRecord},
};
use leveret_wire::value::{FieldTable, FieldValue, ShortString};
use serde_json::{Map, Value};

/// The component of parameters that are policies.
const USER: &str = "policy";
/// The component of parameters that are operator policies.
pub(crate) const OPERATOR: &str = "operator_policy";

/// One policy.
#[derive(Debug)]
pub struct Policy {
    /// Its name.
    pub name: String,
    vhost: ShortString,
    pattern: Pattern,
    apply_to: String,
    priority: i64,
    definition: Map<String, Value>,
}

/// What applies to one queue or exchange.
#[derive(Debug, Clone, Default)]
pub struct Effective {
    /// The policy.
    pub user: Option<Arc<Policy>>,
    /// The operator policy.
    pub operator: Option<Arc<Policy>>,
    /// Both together.
    pub definition: Map<String, Value>,
}

/// What a policy may be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    Exchange,
    Queue {
        queue_type: &'a str,
        /// Its arguments ask it to count attempts.
        counts: bool,
    },
}

/// Keys of which a queue of this type knows nothing: a policy that has one is not for it, as in RabbitMQ, whatever else
/// it says.
const FOREIGN_KEYS: [(&str, &[&str]); 3] = [
    (
        "classic",
        &[
            "dead-letter-strategy",
            DELIVERY_LIMIT,
            "initial-cluster-size",
            "max-age",
            "max-in-memory-bytes",
            "max-in-memory-length",
            "stream-max-segment-size-bytes",
            "target-group-size",
        ],
    ),
    (
        "quorum",
        &[
            "initial-cluster-size",
            "max-age",
            "queue-mode",
            "stream-max-segment-size-bytes",
        ],
    ),
    (
        "stream",
        &[
            "dead-letter-exchange",
            "dead-letter-routing-key",
            "dead-letter-strategy",
            DELIVERY_LIMIT,
            "expires",
            "max-in-memory-bytes",
            "max-in-memory-length",
            "max-length",
            "message-ttl",
            "overflow",
            "queue-mode",
            "target-group-size",
        ],
    ),
];
const DELIVERY_LIMIT: &str = "delivery-limit";
/// With it a classic queue knows of attempts, and of a limit to them.
const ATTEMPT_COUNTING: &str = "attempt-counting";

/// All policies, those of the highest priority first.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    user: Vec<Arc<Policy>>,
    operator: Vec<Arc<Policy>>,
}

/// Whether a parameter of this component is a policy.
pub(crate) fn is_policy(component: &str) -> bool {
    component == USER || component == OPERATOR
}

impl Policies {
    pub(crate) fn of(directory: &Directory) -> Self {
        let of = |component: &str| {
            let found = directory.parameters();
            let found = found.filter(|known| known.component == component);
            let mut policies: Vec<_> = found.filter_map(|known| Policy::of(known)).collect();
            policies.sort_by_key(|policy| Reverse(policy.priority));
            policies
        };
        Self {
            user: of(USER),
            operator: of(OPERATOR),
        }
    }

    /// What applies to the object of this name.
    pub(crate) fn effective(
        &self,
        vhost: &ShortString,
        target: Target<'_>,
        name: &ShortString,
    ) -> Effective {
        let first = |policies: &[Arc<Policy>]| {
            let mut fits = policies
                .iter()
                .filter(|policy| policy.vhost == *vhost && policy.is_for(target))
                .filter(|policy| policy.pattern.is_match(name.as_bytes()));
            fits.next().cloned()
        };
        let (user, operator) = (first(&self.user), first(&self.operator));
        let definition = match (&user, &operator) {
            (None, None) => Map::new(),
            (Some(one), None) | (None, Some(one)) => one.definition.clone(),
            (Some(user), Some(operator)) => merged(&user.definition, &operator.definition),
        };
        Effective {
            user,
            operator,
            definition,
        }
    }

    /// What applies to a queue.
    pub(crate) fn of_queue(&self, record: &QueueRecord) -> Effective {
        if self.user.is_empty() && self.operator.is_empty() {
            return Effective::default();
        }
        let queue_type = record.queue_type.name();
        let counts = record.arguments.get(b"x-attempt-counting").is_some();
        let target = Target::Queue { queue_type, counts };
        self.effective(&record.vhost, target, &record.name)
    }

    /// A queue's arguments together with what its policies say, and its type in any case.
    pub(crate) fn arguments(&self, record: &QueueRecord) -> FieldTable {
        let arguments = record.typed_arguments();
        let definition = self.of_queue(record).definition;
        if definition.is_empty() {
            return arguments;
        }
        effective_arguments(&arguments, &table_of(&definition))
    }

    /// The alternate of an exchange that its policy names.
    pub(crate) fn alternate(&self, vhost: &ShortString, name: &ShortString) -> Option<ShortString> {
        if self.user.is_empty() {
            return None;
        }
        let definition = self.effective(vhost, Target::Exchange, name).definition;
        let alternate = definition.get("alternate-exchange")?.as_str()?;
        ShortString::try_from(alternate).ok()
    }
}

impl Policy {
    /// The policy that a parameter holds; what is none was never taken.
    fn of(parameter: &ParameterRecord) -> Option<Arc<Self>> {
        let value: Value = serde_json::from_str(&parameter.value).ok()?;
        Some(Arc::new(Self {
            name: parameter.name.clone(),
            vhost: parameter.vhost.clone(),
            pattern: Pattern::new(value["pattern"].as_str()?).ok()?,
            apply_to: value["apply-to"].as_str().unwrap_or("all").to_owned(),
            priority: value["priority"].as_i64().unwrap_or(0),
            definition: value["definition"].as_object()?.clone(),
        }))
    }

    fn is_for(&self, target: Target<'_>) -> bool {
        let Target::Queue { queue_type, counts } = target else {
            return matches!(self.apply_to.as_str(), "all" | "exchanges");
        };
        let is_meant = match self.apply_to.as_str() {
            "all" | "queues" => true,
            "classic_queues" => queue_type == "classic",
            "quorum_queues" => queue_type == "quorum",
            "streams" => queue_type == "stream",
            _ => false,
        };
        is_meant && self.suits(queue_type, counts)
    }

    /// Whether a queue of this type knows all of its keys.
    fn suits(&self, queue_type: &str, counts: bool) -> bool {
        let counts = counts || self.definition.contains_key(ATTEMPT_COUNTING);
        let mut types = FOREIGN_KEYS.iter();
        let foreign = types.find(|(known, _)| *known == queue_type);
        foreign.is_none_or(|(_, keys)| {
            let mut found = keys
                .iter()
                .filter(|key| self.definition.contains_key(**key));
            found.all(|key| counts && queue_type == "classic" && *key == DELIVERY_LIMIT)
        })
    }
}

/// The keys of both; where both have one, the lower limit counts, and else the operator's word.
fn merged(user: &Map<String, Value>, operator: &Map<String, Value>) -> Map<String, Value> {
    let mut merged = user.clone();
    for (key, of_operator) in operator {
        let value = match (user.get(key).and_then(Value::as_i64), of_operator.as_i64()) {
            (Some(a), Some(b)) if key == "delivery-limit" && (a < 0 || b < 0) => a.max(b).into(),
            (Some(a), Some(b)) if key != "queue-version" => a.min(b).into(),
            _ => of_operator.clone(),
        };
        merged.insert(key.clone(), value);
    }
    merged
}

/// A definition as arguments; what no argument can be is left out.
fn table_of(definition: &Map<String, Value>) -> FieldTable {
    let mut table = FieldTable::new();
    for (key, value) in definition {
        let value = match value {
            Value::Bool(value) => FieldValue::Bool(*value),
            Value::String(text) => FieldValue::text(text.clone()),
            Value::Number(number) => match number.as_i64() {
                Some(number) => FieldValue::Long(number),
                None => continue,
            },
            Value::Null | Value::Array(_) | Value::Object(_) => continue,
        };
        if let Ok(key) = ShortString::try_from(key.as_str()) {
            table.push(key, value);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn name(text: &str) -> ShortString {
        ShortString::try_from(text).expect("short")
    }

    const fn queue_of(queue_type: &str) -> Target<'_> {
        let counts = false;
        Target::Queue { queue_type, counts }
    }

    fn directory(policies: &[(&str, &str, Value)]) -> Directory {
        let mut directory = Directory::default();
        for (component, name, value) in policies {
            directory.put_parameter(ParameterRecord {
                component: (*component).to_owned(),
                vhost: ShortString::from_static("/"),
                name: (*name).to_owned(),
                value: value.to_string(),
            });
        }
        directory
    }

    #[test]
    fn the_policy_of_the_highest_priority_applies() {
        let policies = Policies::of(&directory(&[
            (
                USER,
                "nothing",
                json!({"pattern": "^$", "definition": {"max-length": 1}, "priority": 9}),
            ),
            (
                USER,
                "jobs",
                json!({"pattern": "^jobs", "definition": {"max-length": 2}, "priority": 5}),
            ),
            (
                USER,
                "all",
                json!({"pattern": "", "definition": {"max-length": 3}, "priority": 7}),
            ),
            (
                USER,
                "streams",
                json!({"pattern": ".*", "definition": {"max-age": "1h"}, "priority": 8, "apply-to": "streams"}),
            ),
        ]));
        let of = |queue_type, queue: &str| {
            let effective = policies.effective(&name("/"), queue_of(queue_type), &name(queue));
            effective.user.map(|policy| policy.name.clone())
        };
        assert_eq!(of("classic", "jobs.1"), Some("all".to_owned()));
        assert_eq!(of("stream", "jobs.1"), Some("streams".to_owned()));
        let elsewhere = policies.effective(&name("v"), Target::Exchange, &name("x"));
        assert!(elsewhere.user.is_none() && elsewhere.definition.is_empty());
    }

    #[test]
    fn a_policy_with_a_key_that_a_queue_knows_nothing_of_is_not_for_it() {
        let policies = Policies::of(&directory(&[
            (
                USER,
                "limited",
                json!({"pattern": ".*", "definition": {"max-length": 1, "delivery-limit": 5}, "priority": 2}),
            ),
            (
                USER,
                "plain",
                json!({"pattern": ".*", "definition": {"max-length-bytes": 9}, "priority": 1}),
            ),
            (
                OPERATOR,
                "expiring",
                json!({"pattern": ".*", "definition": {"message-ttl": 1}}),
            ),
        ]));
        let counting = Target::Queue {
            queue_type: "classic",
            counts: true,
        };
        for (target, user, operator) in [
            (queue_of("quorum"), "limited", Some("expiring")),
            (queue_of("classic"), "plain", Some("expiring")),
            (counting, "limited", Some("expiring")),
            (queue_of("stream"), "plain", None),
        ] {
            let found = policies.effective(&name("/"), target, &name("q"));
            let [found_user, found_operator] =
                [found.user, found.operator].map(|policy| policy.map(|policy| policy.name.clone()));
            assert_eq!(found_user.as_deref(), Some(user), "{target:?}");
            assert_eq!(found_operator.as_deref(), operator, "{target:?}");
        }
    }

    #[test]
    fn of_a_policy_and_an_operator_policy_the_lower_limits_count() {
        let policies = Policies::of(&directory(&[
            (
                USER,
                "p",
                json!({"pattern": ".*", "definition": {
                    "max-length": 500, "message-ttl": 600, "overflow": "drop-head", "delivery-limit": -1,
                }}),
            ),
            (
                OPERATOR,
                "o",
                json!({"pattern": ".*", "definition": {
                    "max-length": 400, "expires": 9, "overflow": "reject-publish", "delivery-limit": 5,
                }}),
            ),
        ]));
        let effective = policies.effective(&name("/"), queue_of("quorum"), &name("q"));
        assert_eq!(
            Value::Object(effective.definition),
            json!({
                "max-length": 400, "message-ttl": 600, "expires": 9, "overflow": "reject-publish",
                "delivery-limit": 5,
            })
        );
    }
}
