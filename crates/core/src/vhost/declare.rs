//! Exchanges and queues are declared: new ones checked, known ones compared.

use std::sync::Arc;

use leveret_wire::value::{FieldTable, FieldValue, ShortString, equivalent};

use super::Vhost;
use crate::{
    arguments::{self, QueueType},
    delay::DelayRules,
    exchange::Exchange,
    ids::{ConnectionId, QueueId},
    record::{DELAYED_MESSAGE, DelayRecord, ExchangeKind, ExchangeRecord, MetaChange, QueueRecord},
    refusal::{ExchangeTypeRefusal, ObjectKind, Refusal},
};

/// A type of RabbitMQ's that is there with its plugin only, and told apart from one that nobody knows.
const JMS_TOPIC: &[u8] = b"x-jms-topic";

/// `exchange.declare`.
#[derive(Debug, Clone)]
pub struct ExchangeDeclare {
    /// Its name.
    pub name: ShortString,
    /// The name of its type.
    pub kind: ShortString,
    /// Only look whether it is there.
    pub passive: bool,
    /// Outlives a restart.
    pub durable: bool,
    /// Goes with its last binding as a source.
    pub auto_delete: bool,
    /// Clients may not publish to it.
    pub internal: bool,
    /// Arguments.
    pub arguments: FieldTable,
    /// What refuses it unless it is there already: whoever makes it may not pass on to where it leads.
    pub refused_if_new: Option<Refusal>,
}

/// `queue.declare` with a name, which the broker may have made.
#[derive(Debug, Clone)]
pub struct QueueDeclare {
    /// Its name.
    pub name: ShortString,
    /// The broker made the name up, so that the reserved prefix is fine.
    pub server_named: bool,
    /// Outlives a restart.
    pub durable: bool,
    /// Only for this connection.
    pub exclusive: bool,
    /// Goes with its last consumer.
    pub auto_delete: bool,
    /// Arguments.
    pub arguments: FieldTable,
    /// What refuses it unless it is there already: whoever makes it may not pass on to where it leads.
    pub refused_if_new: Option<Refusal>,
}

/// What came of a queue declare.
#[derive(Debug, Clone)]
pub enum QueueDeclared {
    /// It did not exist.
    New(Arc<QueueRecord>),
    /// It existed, as asked for.
    Known(Arc<QueueRecord>),
}

impl Vhost {
    /// Declares an exchange, or looks for one; `next_id` is asked for a number if it is new and may keep
    /// messages until their time.
    ///
    /// # Errors
    ///
    /// In RabbitMQ's order: type, default exchange, reserved name, arguments; or what differs from the
    /// exchange of that name.
    pub fn declare_exchange(
        &mut self,
        asked: ExchangeDeclare,
        next_id: impl FnOnce() -> QueueId,
    ) -> Result<Vec<MetaChange>, Refusal> {
        if asked.passive {
            if asked.name.as_bytes().is_empty() {
                return Err(Refusal::DefaultExchange);
            }
            return self.exchange(&asked.name).map(|_| Vec::new());
        }
        if asked.kind.as_bytes().is_empty() {
            return Err(Refusal::EmptyExchangeType);
        }
        let by_type = asked.kind.as_bytes() == DELAYED_MESSAGE.as_bytes();
        let kind = if by_type {
            let kind = ExchangeRecord::delayed_kind(&asked.arguments);
            kind.ok_or(ExchangeTypeRefusal::NoDelayedType)?
        } else {
            ExchangeKind::from_name(asked.kind.as_bytes()).ok_or_else(|| {
                let name = asked.kind.clone();
                if name.as_bytes() == JMS_TOPIC {
                    Refusal::ExchangeTypeOfPlugin { name }
                } else {
                    Refusal::UnknownExchangeType { name }
                }
            })?
        };
        if asked.name.as_bytes().is_empty() {
            return Err(Refusal::DefaultExchange);
        }
        if let Ok(known) = self.exchange(&asked.name) {
            self.compare_exchange(known.record(), &asked)?;
            return Ok(Vec::new());
        }
        if super::is_reserved(&asked.name) {
            return Err(Refusal::ReservedName {
                kind: ObjectKind::Exchange,
                name: asked.name,
            });
        }
        self.check_alternate(&asked)?;
        if let Some(refusal) = asked.refused_if_new {
            return Err(refusal);
        }
        DelayRules::check(&asked.name, &self.name, &asked.arguments)?;
        let delays = DelayRules::of(by_type, &asked.arguments).is_some();
        let mut record = ExchangeRecord {
            vhost: self.name.clone(),
            name: asked.name.detach(),
            kind,
            durable: asked.durable,
            auto_delete: asked.auto_delete,
            internal: asked.internal,
            arguments: asked.arguments.detach(),
            delay: None,
        };
        Exchange::check_arguments(&record)?;
        record.delay = delays.then(|| DelayRecord {
            id: next_id(),
            by_type,
        });
        self.exchanges
            .insert_mut(record.name.clone(), Exchange::new(record.clone()));
        Ok(if record.durable {
            vec![MetaChange::PutExchange(record)]
        } else {
            Vec::new()
        })
    }

    /// Declares a queue; `next_id` is asked for a number if it is new.
    ///
    /// # Errors
    ///
    /// In RabbitMQ's order: reserved name; for a known queue its owner, flags and arguments; for a new
    /// one its arguments.
    pub fn declare_queue(
        &mut self,
        asked: QueueDeclare,
        connection: ConnectionId,
        next_id: impl FnOnce() -> QueueId,
    ) -> Result<(QueueDeclared, Vec<MetaChange>), Refusal> {
        let default = self.default_type_of(&asked);
        arguments::check_server_named(&asked, default, self.node_queue_type)?;
        if super::is_reserved(&asked.name) && !asked.server_named {
            return Err(Refusal::ReservedName {
                kind: ObjectKind::Queue,
                name: asked.name,
            });
        }
        let exclusive_to = asked.exclusive.then_some(connection);
        // An exclusive queue ends with its connection, whatever it says.
        let durable = asked.durable && !asked.exclusive;
        if let Ok(known) = self.queue(&asked.name) {
            if known.exclusive_to != exclusive_to {
                return Err(self.locked(&asked.name));
            }
            self.compare_queue(known, durable, asked, default)?;
            return Ok((QueueDeclared::Known(known.clone()), Vec::new()));
        }
        if let Some(refusal) = asked.refused_if_new {
            return Err(refusal);
        }
        let queue_type = arguments::check_queue(&asked, &self.name, default, &self.permits)?;
        let record = Arc::new(QueueRecord {
            id: next_id(),
            vhost: self.name.clone(),
            name: asked.name.detach(),
            durable,
            exclusive_to,
            auto_delete: asked.auto_delete,
            queue_type,
            arguments: arguments::with_type(asked.arguments.detach(), default),
        });
        self.queues.insert_mut(record.name.clone(), record.clone());
        let changes = if durable {
            vec![MetaChange::PutQueue((*record).clone())]
        } else {
            Vec::new()
        };
        Ok((QueueDeclared::New(record), changes))
    }

    /// What a queue is whose declare names no type. One that says nothing of it gets the type that is there in any case, where
    /// its flags do not suit the vhost's; one that says a word for no type is refused for them.
    fn default_type_of(&self, asked: &QueueDeclare) -> QueueType {
        let is_lasting = asked.durable && !asked.exclusive && !asked.auto_delete;
        let is_left_open = asked
            .arguments
            .get(arguments::QUEUE_TYPE.as_bytes())
            .is_some();
        if is_lasting || is_left_open {
            self.default_queue_type
        } else {
            QueueType::Classic
        }
    }

    fn check_alternate(&self, asked: &ExchangeDeclare) -> Result<(), Refusal> {
        match asked
            .arguments
            .get(arguments::ALTERNATE_EXCHANGE.as_bytes())
        {
            None | Some(FieldValue::LongString(_)) => Ok(()),
            Some(other) => Err(Refusal::InvalidArgumentType {
                kind: ObjectKind::Exchange,
                name: asked.name.clone(),
                vhost: self.name.clone(),
                arg: arguments::ALTERNATE_EXCHANGE.to_owned(),
                type_name: other.type_name(),
            }),
        }
    }

    fn compare_exchange(
        &self,
        known: &ExchangeRecord,
        asked: &ExchangeDeclare,
    ) -> Result<(), Refusal> {
        let compare = Compare {
            kind: ObjectKind::Exchange,
            name: &asked.name,
            vhost: &self.name,
        };
        let asked_kind = String::from_utf8_lossy(asked.kind.as_bytes()).into_owned();
        compare.text("type", &as_atom(&asked_kind), &as_atom(known.type_name()))?;
        compare.flag("durable", asked.durable, known.durable)?;
        compare.flag("auto_delete", asked.auto_delete, known.auto_delete)?;
        compare.flag("internal", asked.internal, known.internal)?;
        compare.argument(
            arguments::ALTERNATE_EXCHANGE,
            &asked.arguments,
            &known.arguments,
        )
    }

    fn compare_queue(
        &self,
        known: &QueueRecord,
        durable: bool,
        asked: QueueDeclare,
        default: QueueType,
    ) -> Result<(), Refusal> {
        let compare = Compare {
            kind: ObjectKind::Queue,
            name: &asked.name,
            vhost: &self.name,
        };
        compare.flag("durable", durable, known.durable)?;
        compare.flag("auto_delete", asked.auto_delete, known.auto_delete)?;
        let received = arguments::with_type(asked.arguments, default);
        let compared = arguments::compared(known.queue_type, &known.arguments);
        compared
            .into_iter()
            .try_for_each(|key| compare.argument(key, &received, &known.arguments))
    }
}

/// The name of an exchange type as Erlang prints it.
fn as_atom(name: &str) -> String {
    if name.contains('-') {
        format!("'{name}'")
    } else {
        name.to_owned()
    }
}

/// Compares a second declare with what is there, and words what differs.
struct Compare<'a> {
    kind: ObjectKind,
    name: &'a ShortString,
    vhost: &'a ShortString,
}

impl Compare<'_> {
    fn flag(&self, arg: &str, received: bool, current: bool) -> Result<(), Refusal> {
        self.text(arg, &received.to_string(), &current.to_string())
    }

    fn text(&self, arg: &str, received: &str, current: &str) -> Result<(), Refusal> {
        if received == current {
            return Ok(());
        }
        Err(self.differs(arg, format!("'{received}'"), format!("'{current}'")))
    }

    fn argument(&self, arg: &str, asked: &FieldTable, known: &FieldTable) -> Result<(), Refusal> {
        let value = |table: &'_ FieldTable| {
            let value = table.get(arg.as_bytes())?;
            Some(arguments::comparable(arg, value).into_owned())
        };
        // Told as it is compared, with the type that it came with.
        let typed = |value: &FieldValue, table: &'_ FieldTable| {
            let sent = table.get(arg.as_bytes()).unwrap_or(value);
            format!("the value '{value}' of type '{}'", sent.type_name())
        };
        let none = || "none".to_owned();
        let (received, current) = match (value(asked), value(known)) {
            (None, None) => return Ok(()),
            (Some(received), Some(current)) => {
                if equivalent(&current, &received) {
                    return Ok(());
                }
                // An argument without a value is told like none at all.
                let [received, current] = [received, current].map(|value| {
                    if value == FieldValue::Void {
                        none()
                    } else {
                        format!("'{value}'")
                    }
                });
                (received, current)
            }
            (None, Some(current)) => (none(), typed(&current, known)),
            (Some(received), None) => (typed(&received, asked), none()),
        };
        Err(self.differs(arg, received, current))
    }

    fn differs(&self, arg: &str, received: String, current: String) -> Refusal {
        Refusal::Inequivalent {
            kind: self.kind,
            name: self.name.clone(),
            vhost: self.vhost.clone(),
            arg: arg.to_owned(),
            received,
            current,
        }
    }
}
