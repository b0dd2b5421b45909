//! One vhost, named `V`, and short words for what clients ask of it.

use leveret_core::{
    ids::{ConnectionId, QueueId},
    record::{BindingRecord, Destination, MetaChange, QueueRecord},
    refusal::Refusal,
    vhost::{ExchangeDeclare, QueueDeclare, QueueDeclared, Vhost},
};
use leveret_wire::value::{FieldTable, FieldValue, ShortString};

/// The client of every scenario.
pub(crate) const ME: ConnectionId = ConnectionId::new(1);
/// Another client.
pub(crate) const OTHER: ConnectionId = ConnectionId::new(2);

/// What came of a change: what is to be stored, or why not.
pub(crate) type Changed = Result<Vec<MetaChange>, Refusal>;

#[derive(Debug, Clone)]
pub(crate) struct VhostScenario {
    pub(crate) vhost: Vhost,
    last_queue: u64,
}

impl VhostScenario {
    pub(crate) fn new() -> Self {
        Self {
            vhost: Vhost::new(name("V")),
            last_queue: 0,
        }
    }

    /// Declares a durable exchange without further settings.
    #[track_caller]
    pub(crate) fn exchange(&mut self, name: &str, kind: &str) {
        self.declare_exchange(exchange(name, kind))
            .unwrap_or_else(|refusal| panic!("{refusal}: {self:#?}"));
    }

    pub(crate) fn declare_exchange(&mut self, asked: ExchangeDeclare) -> Changed {
        let next = self.last_queue + 1;
        let last = &mut self.last_queue;
        self.vhost.declare_exchange(asked, || {
            *last = next;
            QueueId::new(next)
        })
    }

    /// Declares a durable queue without further settings.
    #[track_caller]
    pub(crate) fn queue(&mut self, name: &str) -> QueueId {
        self.declare_queue(queue(name))
            .unwrap_or_else(|refusal| panic!("{refusal}: {self:#?}"))
            .id
    }

    pub(crate) fn declare_queue(&mut self, asked: QueueDeclare) -> Result<QueueRecord, Refusal> {
        self.declare_queue_as(ME, asked).map(|(record, _)| record)
    }

    pub(crate) fn declare_queue_as(
        &mut self,
        connection: ConnectionId,
        asked: QueueDeclare,
    ) -> Result<(QueueRecord, Vec<MetaChange>), Refusal> {
        let next = self.last_queue + 1;
        let (declared, changes) = self
            .vhost
            .declare_queue(asked, connection, || QueueId::new(next))?;
        let record = match declared {
            QueueDeclared::New(record) => {
                self.last_queue = next;
                assert_eq!(record.id, QueueId::new(next));
                record
            }
            QueueDeclared::Known(record) => {
                assert_eq!(changes, [], "nothing new is to be stored");
                record
            }
        };
        Ok((QueueRecord::clone(&record), changes))
    }

    /// Binds to a queue or, if the name begins with `x`, to an exchange.
    #[track_caller]
    pub(crate) fn bind(&mut self, source: &str, destination: &str, key: &str) {
        self.bind_with(source, destination, key, FieldTable::new());
    }

    #[track_caller]
    pub(crate) fn bind_with(
        &mut self,
        source: &str,
        destination: &str,
        key: &str,
        arguments: FieldTable,
    ) {
        self.try_bind(binding(source, destination, key, arguments))
            .unwrap_or_else(|refusal| panic!("{refusal}: {self:#?}"));
    }

    pub(crate) fn try_bind(&mut self, record: BindingRecord) -> Changed {
        self.vhost.bind(record, ME)
    }

    #[track_caller]
    pub(crate) fn unbind(&mut self, source: &str, destination: &str, key: &str) {
        self.try_unbind(&binding(source, destination, key, FieldTable::new()))
            .unwrap_or_else(|refusal| panic!("{refusal}: {self:#?}"));
    }

    pub(crate) fn try_unbind(&mut self, record: &BindingRecord) -> Changed {
        self.vhost.unbind(record, ME)
    }

    /// What is to be stored when this queue goes.
    #[track_caller]
    pub(crate) fn remove_queue(&mut self, queue: &str) -> Vec<MetaChange> {
        let record = self.vhost.queue(&name(queue)).cloned();
        let record = record.unwrap_or_else(|refusal| panic!("{refusal}: {self:#?}"));
        self.vhost.remove_queue(&record)
    }

    pub(crate) fn has_exchange(&self, exchange: &str) -> bool {
        self.vhost.exchange(&name(exchange)).is_ok()
    }

    /// Bindings of an exchange as a source.
    pub(crate) fn bindings_of(&self, exchange: &str) -> usize {
        self.vhost
            .exchange(&name(exchange))
            .map_or(0, |exchange| exchange.bindings().count())
    }

    /// The names of the queues a message reaches, sorted.
    #[track_caller]
    pub(crate) fn route(&self, exchange: &str, key: &str) -> Vec<String> {
        self.route_with(exchange, key, &FieldTable::new())
    }

    #[track_caller]
    pub(crate) fn route_with(
        &self,
        exchange: &str,
        key: &str,
        headers: &FieldTable,
    ) -> Vec<String> {
        let route = self
            .vhost
            .route(&name(exchange), &[name(key)], &|| headers.clone())
            .unwrap_or_else(|refusal| panic!("{refusal}: {self:#?}"));
        let mut names: Vec<String> = route.queues.iter().map(|id| self.name_of(*id)).collect();
        names.sort();
        names
    }

    #[track_caller]
    pub(crate) fn expect_route_of_keys<const K: usize, const N: usize>(
        &self,
        exchange: &str,
        keys: [&str; K],
        queues: [&str; N],
    ) {
        let route = self
            .vhost
            .route(&name(exchange), &keys.map(name), &FieldTable::new)
            .unwrap_or_else(|refusal| panic!("{refusal}: {self:#?}"));
        let found: Vec<String> = route.queues.iter().map(|id| self.name_of(*id)).collect();
        assert_eq!(found, queues, "{keys:?} by {exchange:?}");
    }

    #[track_caller]
    pub(crate) fn expect_route<const N: usize>(
        &self,
        exchange: &str,
        key: &str,
        queues: [&str; N],
    ) {
        let found = self.route(exchange, key);
        assert!(
            found == queues,
            "{key:?} by {exchange:?} should reach {queues:?}\nand reaches {found:?}\nin {self:#?}"
        );
    }

    fn name_of(&self, id: QueueId) -> String {
        let mut queues = self.vhost.queues();
        let queue = queues.find(|record| record.id == id);
        queue.expect("it exists").name.to_string()
    }
}

/// A durable exchange without further settings.
pub(crate) fn exchange(exchange: &str, kind: &str) -> ExchangeDeclare {
    ExchangeDeclare {
        name: name(exchange),
        kind: name(kind),
        passive: false,
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: FieldTable::new(),
        refused_if_new: None,
    }
}

/// A durable queue without further settings.
pub(crate) fn queue(queue: &str) -> QueueDeclare {
    QueueDeclare {
        name: name(queue),
        server_named: false,
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: FieldTable::new(),
        refused_if_new: None,
    }
}

/// A binding to a queue or, if the name begins with `x`, to an exchange.
pub(crate) fn binding(
    source: &str,
    destination: &str,
    key: &str,
    arguments: FieldTable,
) -> BindingRecord {
    let destination = if destination.starts_with('x') || destination.is_empty() {
        Destination::Exchange(name(destination))
    } else {
        Destination::Queue(name(destination))
    };
    BindingRecord {
        vhost: name("V"),
        source: name(source),
        destination,
        key: name(key),
        arguments,
    }
}

pub(crate) fn name(text: &str) -> ShortString {
    ShortString::try_from(text).expect("a short name")
}

/// A table with one entry.
pub(crate) fn table(key: &'static str, value: FieldValue) -> FieldTable {
    FieldTable::new().with(key, value)
}

/// A long string.
pub(crate) fn text(text: &str) -> FieldValue {
    FieldValue::text(text)
}

/// The whole reply text and its code are these.
#[track_caller]
pub(crate) fn expect_refused<T: std::fmt::Debug>(
    result: Result<T, Refusal>,
    code: u16,
    text: &str,
) {
    let refusal = result.expect_err("it is to be refused");
    let reply = refusal.reply_code();
    assert_eq!(format!("{} - {refusal}", reply.name()), text);
    assert_eq!(reply.code(), code, "{text}");
}
