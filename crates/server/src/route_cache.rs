//! Routes a connection has used lately.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;
use leveret_core::{
    message::Message,
    refusal::Refusal,
    vhost::{self, Hold, Remember, Routable, Vhost},
};
use leveret_runtime::{Broker, DelayHandle, QueueHandle, ReplyTarget, VhostHandle, is_reply_name};
use leveret_wire::value::{FieldTable, ShortString};
use smallvec::SmallVec;

/// Routes kept per connection. A publisher with more keys than this looks each of them up anew, at
/// the cost of some map walks.
const ROUTES_MAX: usize = 1024;

/// The queues one exchange and routing key lead to.
pub(crate) type Route = SmallVec<[Arc<QueueHandle>; 1]>;

/// What came of a look-up.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) route: Arc<Route>,
    /// Exchanges that are to remember the message.
    pub(crate) remembered_by: Vec<Remember>,
    /// What is to keep the message until its time.
    pub(crate) held_by: Vec<(Arc<DelayHandle>, Hold)>,
}

impl From<Arc<Route>> for Found {
    fn from(route: Arc<Route>) -> Self {
        Self {
            route,
            remembered_by: Vec::new(),
            held_by: Vec::new(),
        }
    }
}

/// Answers that hold as long as the vhost's snapshot does.
#[derive(Debug)]
pub(crate) struct RouteCache {
    broker: Arc<Broker>,
    vhost: Arc<VhostHandle>,
    version: u64,
    snapshot: Arc<Vhost>,
    routes: HashMap<Box<[u8]>, Arc<Route>, RandomState>,
    /// Exchange and routing key of the look-up at hand; kept for its capacity.
    key: Vec<u8>,
}

impl RouteCache {
    pub(crate) fn new(broker: Arc<Broker>, vhost: Arc<VhostHandle>) -> Self {
        // Version before snapshot: a change in between costs a needless refresh, never a stale route.
        let version = vhost.version();
        let snapshot = vhost.snapshot();
        Self {
            broker,
            vhost,
            version,
            snapshot,
            routes: HashMap::default(),
            key: Vec::new(),
        }
    }

    /// Where a message with these routing keys goes.
    pub(crate) fn route(
        &mut self,
        exchange: &ShortString,
        routing_key: &ShortString,
        extra_keys: &[ShortString],
        message: &dyn Routable,
    ) -> Result<Found, Refusal> {
        self.refresh();
        if !extra_keys.is_empty() {
            // Whatever the sender chose for this message: not worth remembering.
            let mut keys = Vec::with_capacity(1 + extra_keys.len());
            keys.push(routing_key.clone());
            keys.extend_from_slice(extra_keys);
            let found = self.snapshot.route(exchange, &keys, message)?;
            return Ok(self.found(found));
        }
        if exchange.is_empty() && is_reply_name(routing_key) {
            // No queue has such a name, and there may be one for each request.
            return Ok(Arc::<Route>::default().into());
        }
        self.key.clear();
        // The length keeps `a` + `bc` and `ab` + `c` apart; a short string has 255 bytes at most.
        self.key.extend(u8::try_from(exchange.as_bytes().len()));
        self.key.extend_from_slice(exchange.as_bytes());
        self.key.extend_from_slice(routing_key.as_bytes());
        if let Some(route) = self.routes.get(self.key.as_slice()) {
            return Ok(route.clone().into());
        }
        let keys = std::slice::from_ref(routing_key);
        let found = self.snapshot.route(exchange, keys, message)?;
        let by_key_alone = found.by_key_alone;
        let found = self.found(found);
        if by_key_alone {
            if self.routes.len() >= ROUTES_MAX {
                self.routes.clear();
            }
            self.routes
                .insert(self.key.as_slice().into(), Arc::clone(&found.route));
        }
        Ok(found)
    }

    /// Has exchanges remember the message; `false` when it is to be routed anew, because the vhost has changed.
    #[must_use]
    pub(crate) fn remember(&self, by: &[Remember], message: &Message) -> bool {
        self.vhost.remember(by, message, self.version)
    }

    /// Whether the bindings of this moment lead a message somewhere that is held first.
    pub(crate) fn reaches(
        &self,
        hold: &Hold,
        routing_key: &ShortString,
        extra_keys: &[ShortString],
        message: &dyn Routable,
    ) -> bool {
        let keys: Vec<_> = [routing_key]
            .into_iter()
            .chain(extra_keys)
            .cloned()
            .collect();
        let found = self.snapshot.route_due(&hold.exchange, &keys, message);
        !(found.queues.is_empty() && found.held_by.is_empty())
    }

    /// Who waits for this message as a reply: keys of the default exchange may be reply addresses.
    pub(crate) fn reply_targets(
        &self,
        exchange: &ShortString,
        routing_key: &ShortString,
        extra_keys: &[ShortString],
    ) -> Vec<ReplyTarget> {
        let mut targets: Vec<ReplyTarget> = Vec::new();
        if exchange.is_empty() {
            for key in std::iter::once(routing_key).chain(extra_keys) {
                if is_reply_name(key)
                    && let Some(target) = self.vhost.reply_target(key)
                    && !targets
                        .iter()
                        .any(|known| known.consumer() == target.consumer())
                {
                    targets.push(target);
                }
            }
        }
        targets
    }

    /// The exchange could be published to.
    pub(crate) fn check_exchange(&mut self, exchange: &ShortString) -> Result<(), Refusal> {
        self.refresh();
        self.snapshot
            .route(exchange, &[], &FieldTable::default)
            .map(|_| ())
    }

    fn found(&self, found: vhost::Route) -> Found {
        let queues = found.queues.iter();
        let queues: Route = queues.filter_map(|&id| self.broker.queue(id)).collect();
        let holds = found.held_by.into_iter();
        let holds = holds.filter_map(|hold| Some((self.broker.delay(hold.delay)?, hold)));
        Found {
            route: Arc::new(queues),
            remembered_by: found.remembered_by,
            held_by: holds.collect(),
        }
    }

    fn refresh(&mut self) {
        let version = self.vhost.version();
        if version != self.version {
            self.version = version;
            self.snapshot = self.vhost.snapshot();
            self.routes.clear();
        }
    }
}
