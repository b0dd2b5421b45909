//! Exchanges, queues and bindings, as two snapshots of a vhost differ in them.

use std::collections::HashSet;

use leveret_core::{
    record::{BindingRecord, Destination, ExchangeRecord, QueueRecord},
    vhost::Vhost,
};
use leveret_wire::value::{FieldTable, FieldValue};

use super::{Actor, terms, text};
use crate::{broker::Services, policies::Target};

impl Services {
    /// What came and what went between two snapshots.
    #[cold]
    pub(crate) fn tell_difference(&self, before: &Vhost, after: &Vhost) {
        for exchange in before.exchanges() {
            let record = exchange.record();
            match after.exchange(&record.name) {
                Err(_) => {
                    self.tell_exchange_gone(record);
                    exchange
                        .bindings()
                        .for_each(|gone| self.tell_unbound(gone, after));
                }
                // A change of bindings is one of their number: they come and go one by one, or with an end.
                Ok(now) if now.binding_count() != exchange.binding_count() => {
                    let now: HashSet<BindingKey> = now.bindings().map(key_of).collect();
                    let gone = exchange.bindings();
                    gone.filter(|binding| !now.contains(&key_of(binding)))
                        .for_each(|gone| self.tell_unbound(gone, after));
                }
                Ok(_) => {}
            }
        }
        for queue in before.queues() {
            if after.queue(&queue.name).map(|now| now.id) != Ok(queue.id) {
                self.tell("queue.deleted", || of_queue(queue));
            }
        }
        for queue in after.queues() {
            if before.queue(&queue.name).map(|known| known.id) != Ok(queue.id) {
                self.tell_queue(queue);
            }
        }
        for exchange in after.exchanges() {
            let record = exchange.record();
            let bindings = exchange.bindings();
            match before.exchange(&record.name) {
                Err(_) => {
                    self.tell_exchange(record);
                    bindings.for_each(|binding| self.tell_bound(binding));
                }
                Ok(known) if known.binding_count() != exchange.binding_count() => {
                    let known: HashSet<BindingKey> = known.bindings().map(key_of).collect();
                    bindings
                        .filter(|binding| !known.contains(&key_of(binding)))
                        .for_each(|binding| self.tell_bound(binding));
                }
                Ok(_) => {}
            }
        }
    }

    pub(crate) fn tell_exchange(&self, record: &ExchangeRecord) {
        self.tell("exchange.created", || {
            let policies = self.policies.load();
            let policy = policies.effective(&record.vhost, Target::Exchange, &record.name);
            let policy = policy.user.map(|policy| policy.name.clone());
            FieldTable::new()
                .with("arguments", terms(&record.arguments))
                .with("auto_delete", FieldValue::Bool(record.auto_delete))
                .with("durable", FieldValue::Bool(record.durable))
                .with("internal", FieldValue::Bool(record.internal))
                .with("name", text(&record.name))
                .with("policy", FieldValue::text(policy.unwrap_or_default()))
                .with("type", FieldValue::text(record.type_name()))
                .with("vhost", text(&record.vhost))
        });
    }

    pub(crate) fn tell_exchange_gone(&self, record: &ExchangeRecord) {
        self.tell("exchange.deleted", || {
            FieldTable::new()
                .with("name", text(&record.name))
                .with("vhost", text(&record.vhost))
        });
    }

    fn tell_queue(&self, record: &QueueRecord) {
        self.tell("queue.created", || {
            let node = || FieldValue::text(self.node.name.clone());
            let owner = record.exclusive_to.map(|owner| self.pid(owner, 0));
            of_queue(record)
                .with("arguments", terms(&record.arguments))
                .with("auto_delete", FieldValue::Bool(record.auto_delete))
                .with("durable", FieldValue::Bool(record.durable))
                .with("exclusive", FieldValue::Bool(owner.is_some()))
                .with("leader", node())
                .with("members", FieldValue::Array(vec![node()]))
                .with("owner_pid", owner.unwrap_or_else(|| FieldValue::text("")))
        });
    }

    pub(crate) fn tell_bound(&self, record: &BindingRecord) {
        self.tell("binding.created", || of_binding(record));
    }

    /// That goes along with its queue is nobody's doing.
    fn tell_unbound(&self, record: &BindingRecord, after: &Vhost) {
        let tell = || self.tell("binding.deleted", || of_binding(record));
        match &record.destination {
            Destination::Queue(name) if after.queue(name).is_err() => Actor::nobody().does(tell),
            Destination::Queue(_) | Destination::Exchange(_) => tell(),
        }
    }
}

/// All fields together are a binding's identity; those of a table in the order in which they were given.
type BindingKey = (Destination, Vec<u8>, String);

fn key_of(record: &BindingRecord) -> BindingKey {
    let arguments = FieldValue::Table(record.arguments.clone()).to_string();
    (
        record.destination.clone(),
        record.key.as_bytes().to_vec(),
        arguments,
    )
}

pub(super) fn of_queue(record: &QueueRecord) -> FieldTable {
    FieldTable::new()
        .with("name", text(&record.name))
        .with("type", FieldValue::text(record.queue_type.module()))
        .with("vhost", text(&record.vhost))
}

fn of_binding(record: &BindingRecord) -> FieldTable {
    let (kind, name) = match &record.destination {
        Destination::Queue(name) => ("queue", name),
        Destination::Exchange(name) => ("exchange", name),
    };
    FieldTable::new()
        .with("arguments", terms(&record.arguments))
        .with("destination_kind", FieldValue::text(kind))
        .with("destination_name", text(name))
        .with("routing_key", text(&record.key))
        .with("source_kind", FieldValue::text("exchange"))
        .with("source_name", text(&record.source))
        .with("vhost", text(&record.vhost))
}
