//! Vhosts, users, permissions, policies and parameters.

use leveret_core::{
    directory::Directory,
    record::{MetaChange, ParameterRecord, UserRecord, VhostRecord},
};
use leveret_wire::value::{FieldTable, FieldValue, ShortString};
use serde_json::{Map, Value};

use super::{Actor, text, topology::of_queue};
use crate::{broker::Services, policies::Policies};

/// How limits are called among parameters.
const LIMITS: &str = "limits";

impl Services {
    /// What came of a change of the directory, which was so before.
    pub(crate) fn tell_changes(&self, changes: &[MetaChange], before: &Directory) {
        if self.events.is_on() {
            changes
                .iter()
                .for_each(|change| self.tell_change(change, before));
        }
    }

    #[cold]
    fn tell_change(&self, change: &MetaChange, before: &Directory) {
        let member = |vhost: &ShortString, user: &ShortString| {
            FieldTable::new()
                .with("user", text(user))
                .with("vhost", text(vhost))
        };
        match change {
            MetaChange::PutVhost(vhost) => self.tell_vhost(vhost, before),
            MetaChange::DeleteVhost(name) => {
                self.tell("vhost.deleted", || named(name));
                Actor::nobody().does(|| {
                    self.tell("vhost.down", || {
                        named(name).with("node", FieldValue::text(self.node.name.clone()))
                    });
                });
            }
            MetaChange::PutUser(user) => self.tell_user(user, before),
            MetaChange::DeleteUser(name) => self.tell("user.deleted", || named(name)),
            MetaChange::PutPermission(permission) => self.tell("permission.created", || {
                member(&permission.vhost, &permission.user)
                    .with("configure", FieldValue::text(permission.configure.clone()))
                    .with("read", FieldValue::text(permission.read.clone()))
                    .with("write", FieldValue::text(permission.write.clone()))
            }),
            MetaChange::DeletePermission { vhost, user } => {
                self.tell("permission.deleted", || member(vhost, user));
            }
            MetaChange::PutTopicPermission(permission) => {
                self.tell("topic.permission.created", || {
                    member(&permission.vhost, &permission.user)
                        .with("exchange", text(&permission.exchange))
                        .with("read", FieldValue::text(permission.read.clone()))
                        .with("write", FieldValue::text(permission.write.clone()))
                });
            }
            MetaChange::DeleteTopicPermission { vhost, user, .. } => {
                self.tell("topic.permission.deleted", || member(vhost, user));
            }
            MetaChange::PutParameter(parameter) => self.tell_parameter(parameter),
            MetaChange::DeleteParameter(parameter) => self.tell_parameter_gone(parameter),
            // Of a vhost's own; told by its snapshots.
            MetaChange::PutExchange(_)
            | MetaChange::DeleteExchange { .. }
            | MetaChange::PutQueue(_)
            | MetaChange::DeleteQueue(_)
            | MetaChange::FreeAtStart(_)
            | MetaChange::PutBinding(_)
            | MetaChange::DeleteBinding(_)
            | MetaChange::NextQueueId(_) => {}
        }
    }

    fn tell_vhost(&self, vhost: &VhostRecord, before: &Directory) {
        let Some(known) = before.vhost(&vhost.name) else {
            self.tell("vhost.created", || self.of_vhost(vhost));
            return;
        };
        let limits = |vhost: &VhostRecord| {
            limits(&[
                ("max-connections", vhost.max_connections),
                ("max-queues", vhost.max_queues),
            ])
        };
        let now = limits(vhost);
        if now == limits(known) {
            self.tell("vhost.updated", || {
                self.of_vhost(vhost)
                    .with("deletion_protection", FieldValue::Bool(vhost.protected))
            });
            return;
        }
        self.tell("parameter.set", || {
            let value = if now.is_empty() {
                FieldValue::Array(Vec::new())
            } else {
                FieldValue::Table(table_of(&now))
            };
            FieldTable::new()
                .with("component", FieldValue::text("vhost-limits"))
                .with("name", FieldValue::text(LIMITS))
                .with("value", value)
                .with("vhost", text(&vhost.name))
        });
        self.tell("vhost.limits.set", || {
            table_of(&now)
                .with("name", FieldValue::text(LIMITS))
                .with("vhost", text(&vhost.name))
        });
    }

    fn of_vhost(&self, vhost: &VhostRecord) -> FieldTable {
        let queue_type = vhost.default_queue_type;
        let queue_type = queue_type.unwrap_or(self.node.default_queue_type).name();
        let metadata = format!(
            "#{{description => <<{}>>,tags => [{}],default_queue_type => <<\"{queue_type}\">>}}",
            quoted(&vhost.description),
            vhost.tags.join(",")
        );
        let mut running = FieldTable::new();
        let node = ShortString::cut(&self.node.name);
        running.push(node, FieldValue::text("running"));
        FieldTable::new()
            .with("cluster_state", FieldValue::Table(running))
            .with("default_queue_type", FieldValue::text(queue_type))
            .with("description", FieldValue::text(vhost.description.clone()))
            .with("metadata", FieldValue::text(metadata))
            .with("name", text(&vhost.name))
            .with("protected_from_deletion", FieldValue::Bool(vhost.protected))
            .with("tags", texts(&vhost.tags))
            .with("tracing", FieldValue::Bool(vhost.tracing))
    }

    fn tell_user(&self, user: &UserRecord, before: &Directory) {
        let limits = |user: &UserRecord| {
            limits(&[
                ("max-connections", user.max_connections),
                ("max-channels", user.max_channels),
            ])
        };
        let known = before.user(&user.name);
        let now = limits(user);
        let had = known.map(|known| limits(known)).unwrap_or_default();
        match known {
            None => self.tell("user.created", || named(&user.name)),
            Some(_) if now != had => {
                let key = if now.is_empty() {
                    "user.limits.cleared"
                } else {
                    "user.limits.set"
                };
                self.tell(key, || {
                    table_of(&now)
                        .with("name", FieldValue::text(LIMITS))
                        .with("username", text(&user.name))
                });
                return;
            }
            Some(known) if known.password_hash != user.password_hash => {
                let key = if user.password_hash.is_empty() {
                    "user.password.cleared"
                } else {
                    "user.password.changed"
                };
                self.tell(key, || named(&user.name));
                if known.tags == user.tags {
                    return;
                }
            }
            Some(_) => {}
        }
        self.tell("user.tags.set", || {
            named(&user.name).with("tags", texts(&user.tags))
        });
    }

    /// A policy is about to be set, or to go: what that is to queues, which RabbitMQ tells before it tells of the policy.
    pub(crate) fn tell_queue_policies(
        &self,
        component: &str,
        vhost: &ShortString,
        policy: &str,
        set: Option<&ParameterRecord>,
    ) {
        if self.events.is_on() && crate::policies::is_policy(component) {
            self.tell_queue_policies_now(component, vhost, policy, set);
        }
    }

    #[cold]
    fn tell_queue_policies_now(
        &self,
        component: &str,
        vhost: &ShortString,
        policy: &str,
        set: Option<&ParameterRecord>,
    ) {
        let Some(handle) = self.registry.vhost(vhost) else {
            return;
        };
        let mut directory = Directory::clone(&self.access.directory());
        let definition = match set {
            Some(parameter) => {
                directory.put_parameter(parameter.clone());
                serde_json::from_str(&parameter.value).ok()
            }
            None => {
                directory.delete_parameter(component, vhost, policy);
                None
            }
        };
        let (before, after) = (self.policies.load_full(), Policies::of(&directory));
        for record in handle.snapshot().queues() {
            let has = |policies: &Policies| {
                let effective = policies.of_queue(record);
                let found = if component == "policy" {
                    effective.user
                } else {
                    effective.operator
                };
                found.is_some_and(|found| found.name == policy)
            };
            if !has(&before) && !has(&after) {
                continue;
            }
            match &definition {
                Some(Value::Object(definition)) => self.tell("queue.policy.updated", || {
                    let mut headers = of_queue(record);
                    for (name, value) in definition {
                        headers.push(ShortString::cut(name), field_of(value));
                    }
                    headers
                }),
                _ => self.tell("queue.policy.cleared", || of_queue(record)),
            }
        }
    }

    fn tell_parameter(&self, parameter: &ParameterRecord) {
        let value: Value = serde_json::from_str(&parameter.value).unwrap_or_default();
        if parameter.component != "policy" {
            self.tell("parameter.set", || {
                of_parameter(parameter).with("value", field_of(&value))
            });
        }
        if crate::policies::is_policy(&parameter.component) {
            self.tell("policy.set", || {
                let policy = match &value {
                    Value::Object(policy) => table_of(policy),
                    _ => FieldTable::new(),
                };
                policy
                    .with("name", FieldValue::text(parameter.name.clone()))
                    .with("vhost", text(&parameter.vhost))
            });
        }
    }

    fn tell_parameter_gone(&self, parameter: &ParameterRecord) {
        let policy = match parameter.component.as_str() {
            "policy" => Some("policy.cleared"),
            "operator_policy" => Some("operator.policy.cleared"),
            _ => None,
        };
        if policy != Some("policy.cleared") {
            self.tell("parameter.cleared", || of_parameter(parameter));
        }
        if let Some(key) = policy {
            self.tell(key, || {
                FieldTable::new()
                    .with("name", FieldValue::text(parameter.name.clone()))
                    .with("vhost", text(&parameter.vhost))
            });
        }
    }
}

fn named(name: &ShortString) -> FieldTable {
    FieldTable::new().with("name", text(name))
}

/// A parameter of no component is one of the whole node.
fn of_parameter(parameter: &ParameterRecord) -> FieldTable {
    let headers = FieldTable::new().with("name", FieldValue::text(parameter.name.clone()));
    if parameter.component.is_empty() {
        return headers.with("component", FieldValue::text("global"));
    }
    headers
        .with("component", FieldValue::text(parameter.component.clone()))
        .with("vhost", text(&parameter.vhost))
}

/// Those that are set.
fn limits(limits: &[(&str, Option<i64>)]) -> Map<String, Value> {
    let set = limits.iter();
    set.filter_map(|(name, max)| Some(((*name).to_owned(), Value::from((*max)?))))
        .collect()
}

fn texts(texts: &[String]) -> FieldValue {
    FieldValue::Array(texts.iter().cloned().map(FieldValue::text).collect())
}

fn table_of(object: &Map<String, Value>) -> FieldTable {
    let mut table = FieldTable::new();
    for (name, value) in object {
        table.push(ShortString::cut(name), field_of(value));
    }
    table
}

fn field_of(value: &Value) -> FieldValue {
    match value {
        Value::Null => FieldValue::Void,
        Value::Bool(value) => FieldValue::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(number) => FieldValue::Long(number),
            None => FieldValue::Double(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => FieldValue::text(text.clone()),
        Value::Array(list) => FieldValue::Array(list.iter().map(field_of).collect()),
        Value::Object(object) => FieldValue::Table(table_of(object)),
    }
}

/// A text between the brackets of a binary of Erlang's.
fn quoted(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!("\"{}\"", text.escape_default())
}
