//! Routes a connection has used lately.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use foldhash::fast::RandomState;
use leveret_core::{
    message::Message,
    record::ExchangeKind,
    refusal::{ObjectKind, Refusal},
    rights::{Right, Rights},
    vhost::{self, Hold, Remember, Routable, Vhost},
};
use leveret_runtime::{
    Broker, DelayHandle, ExchangeTraffic, QueueHandle, ReplyTarget, User, VhostHandle,
    is_reply_name,
};
use leveret_wire::value::{FieldTable, ShortString};
use smallvec::SmallVec;

/// Routes kept per connection. A publisher with more keys than this looks each of them up anew, at
/// the cost of some map walks.
const ROUTES_MAX: usize = 1024;

/// Queues in all of these together: a route may have thousands.
const TARGETS_MAX: usize = 16 * 1024;

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

/// Answers that hold as long as the vhost's snapshot and the user's rights do: a route that is known is one the
/// user may write to.
#[derive(Debug)]
pub(crate) struct RouteCache {
    broker: Arc<Broker>,
    vhost: Arc<VhostHandle>,
    version: u64,
    snapshot: Arc<Vhost>,
    user: ShortString,
    rights_version: u64,
    rights: Arc<Rights>,
    /// A token says what the user may do, whatever the directory knows of that name.
    is_by_token: bool,
    /// The exchange that was written to last without a route to remember.
    written: Option<ShortString>,
    /// Copies of everything are wanted.
    is_traced: bool,
    routes: HashMap<Box<[u8]>, Arc<Route>, RandomState>,
    /// Queues of all of them.
    targets: usize,
    /// Exchange and routing key of the look-up at hand; kept for its capacity.
    key: Vec<u8>,
    /// What the look-ups of this turn took.
    looked_for: Duration,
}

impl RouteCache {
    pub(crate) fn new(broker: Arc<Broker>, vhost: Arc<VhostHandle>, user: &User) -> Self {
        // Version before snapshot: a change in between costs a needless refresh, never a stale route.
        let version = vhost.version();
        let snapshot = vhost.snapshot();
        let is_traced = vhost.is_traced();
        let rights_version = broker.directory_version();
        let rights = broker.rights_of(vhost.name(), user);
        Self {
            broker,
            vhost,
            version,
            snapshot,
            user: user.name.clone(),
            rights_version,
            rights,
            is_by_token: user.token.is_some(),
            written: None,
            is_traced,
            routes: HashMap::default(),
            targets: 0,
            key: Vec::new(),
            looked_for: Duration::ZERO,
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
            let keys = vhost::distinct(&keys);
            let found = self.look_up(exchange, &keys, message)?;
            return Ok(self.found(found));
        }
        if exchange.is_empty() && is_reply_name(routing_key) {
            // No queue has such a name, and there may be one for each request.
            self.check_write(exchange)?;
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
        let found = self.look_up(exchange, std::slice::from_ref(routing_key), message)?;
        let by_key_alone = found.by_key_alone;
        let found = self.found(found);
        if by_key_alone {
            if self.routes.len() >= ROUTES_MAX || self.targets >= TARGETS_MAX {
                self.forget_routes();
            }
            self.targets += found.route.len();
            self.routes
                .insert(self.key.as_slice().into(), Arc::clone(&found.route));
        }
        Ok(found)
    }

    /// A route that is not known, if the user may write there.
    fn look_up(
        &mut self,
        exchange: &ShortString,
        keys: &[ShortString],
        message: &dyn Routable,
    ) -> Result<vhost::Route, Refusal> {
        let began = Instant::now();
        self.check_write(exchange)?;
        self.check_topics(exchange, keys)?;
        let found = self.snapshot.route(exchange, keys, message)?;
        self.looked_for += began.elapsed();
        Ok(found)
    }

    /// What was looked for before counts no more.
    pub(crate) const fn begin_turn(&mut self) {
        self.looked_for = Duration::ZERO;
    }

    /// Whether the look-ups of this turn took so long.
    pub(crate) fn has_looked_for(&self, at_least: Duration) -> bool {
        self.looked_for >= at_least
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
        let mut known = BTreeSet::new();
        if exchange.is_empty() {
            for key in std::iter::once(routing_key).chain(extra_keys) {
                if is_reply_name(key)
                    && let Some(target) = self.vhost.reply_target(key)
                    && known.insert(target.consumer())
                {
                    targets.push(target);
                }
            }
        }
        targets
    }

    /// The exchange could be published to, with these keys.
    pub(crate) fn check_exchange(
        &mut self,
        exchange: &ShortString,
        keys: &[ShortString],
    ) -> Result<(), Refusal> {
        self.refresh();
        self.check_write(exchange)?;
        self.snapshot.route(exchange, &[], &FieldTable::default)?;
        self.check_topics(exchange, keys)
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

    /// What the user may do at this moment.
    pub(crate) fn rights(&mut self) -> Arc<Rights> {
        self.refresh();
        self.rights.clone()
    }

    /// The type of this exchange, if it exists.
    pub(crate) fn exchange_kind(&mut self, name: &ShortString) -> Option<ExchangeKind> {
        self.refresh();
        let found = self.snapshot.exchange(name).ok()?;
        Some(found.record().kind)
    }

    /// Which state of the vhost was looked at last.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Whether copies of everything are wanted.
    pub(crate) const fn is_traced(&self) -> bool {
        self.is_traced
    }

    /// The vhost.
    pub(crate) const fn vhost(&self) -> &Arc<VhostHandle> {
        &self.vhost
    }

    /// Where publishes to this exchange are counted.
    pub(crate) fn exchange_traffic(&self, exchange: &ShortString) -> Arc<ExchangeTraffic> {
        self.vhost.exchange_traffic(exchange)
    }

    fn check_write(&mut self, exchange: &ShortString) -> Result<(), Refusal> {
        if self.written.as_ref() == Some(exchange) {
            return Ok(());
        }
        self.rights
            .check(Right::Write, ObjectKind::Exchange, exchange)?;
        self.written = Some(exchange.detach());
        Ok(())
    }

    /// What is said of keys holds for topic exchanges; one that is missing or internal is refused as such.
    fn check_topics(&self, exchange: &ShortString, keys: &[ShortString]) -> Result<(), Refusal> {
        if !self.rights.has_topics(exchange) {
            return Ok(());
        }
        let record = self.snapshot.exchange(exchange)?.record();
        if record.internal || record.kind != ExchangeKind::Topic {
            return Ok(());
        }
        keys.iter()
            .try_for_each(|key| self.rights.check_topic(Right::Write, exchange, key))
    }

    /// From now on the user may do this.
    pub(crate) fn set_rights(&mut self, rights: Arc<Rights>) {
        self.rights = rights;
        self.written = None;
        self.forget_routes();
    }

    fn forget_routes(&mut self) {
        self.routes.clear();
        self.targets = 0;
    }

    fn refresh(&mut self) {
        let rights_version = self.broker.directory_version();
        if rights_version != self.rights_version && !self.is_by_token {
            self.rights_version = rights_version;
            self.set_rights(self.broker.rights(self.vhost.name(), &self.user));
        }
        let version = self.vhost.version();
        if version != self.version {
            self.version = version;
            self.snapshot = self.vhost.snapshot();
            self.is_traced = self.vhost.is_traced();
            self.forget_routes();
        }
    }
}
