//! What one read of a connection asks of queues, collected per queue and submitted once each.

use std::{sync::Arc, time::Duration};

use leveret_core::{
    delay,
    ids::{ChannelKey, HandedOut},
    message::{Life, Message, MessageParts},
    queue::{Command, Confirm},
    record::ExchangeKind,
    refusal::Refusal,
    rights::Rights,
    vhost::{Hold, Occasion, Routable},
};
use leveret_runtime::{
    Broker, ConnectionFacts, DelayHandle, PublishedBy, ReplyTarget, Traffic, User, VhostHandle,
    generate_name,
};
use leveret_session::{Commit, Outgoing, Promise, Publish, Routed, Settle, Sink};
use leveret_wire::{
    content::BasicProperties,
    value::{FieldTable, ShortString},
};

use crate::{
    batches::Batches,
    route_cache::{Found, Route, RouteCache},
};
use tally::Tally;
use transactions::Transactions;

mod tally;
mod transactions;

/// Commands for queues that are staged at once. One read holds thousands of publishes, and each of them may lead to
/// thousands of queues: without a bound it is memory for millions of commands, and a turn that takes seconds.
const STAGED_MAX: usize = 8192;

/// Entries of each list whose memory is kept for the next turn.
const KEPT_MAX: usize = 1024;

/// How long one turn of a connection may look for routes that it does not know: bindings can make that expensive.
const ROUTING_MAX: Duration = Duration::from_millis(5);

/// What the session keeps to.
const ONLY_IN_AN_OPEN_VHOST: &str = "the session publishes only in an open vhost";

/// Work of one connection on its way to the queues. Everything is empty again after each submit.
#[derive(Debug)]
pub(crate) struct Stage {
    broker: Arc<Broker>,
    /// Set when a vhost was opened; nothing is published before.
    routes: Option<RouteCache>,
    batches: Batches,
    confirms: Vec<Expected>,
    /// What is to wait on exchanges.
    holds: Vec<(Arc<DelayHandle>, Vec<delay::Command>)>,
    /// Set when a channel has published in a transaction or committed one; on the heap, as few connections do.
    transactions: Option<Box<Transactions>>,
    /// What goes straight to those who asked for it.
    replies: Vec<(ReplyTarget, Message)>,
    /// Of the vhost.
    traffic: Option<Arc<Traffic>>,
    /// Who publishes, for copies of it.
    facts: Option<Arc<ConnectionFacts>>,
    /// What is to be added to the traffic. Set with the first publish; on the heap, as many only consume.
    tally: Option<Box<Tally>>,
    /// What deliveries took of the room that consumers share, and give back when all is submitted.
    room: Vec<(ChannelKey, u64)>,
    /// Counts settlements: each is one step, however many deliveries it is about.
    step: u64,
    /// Commands and replies that wait for the next submit.
    staged: usize,
    /// Something was published since the last look.
    published: bool,
    /// Memory of what was published to be stored since the last look.
    to_be_stored: u64,
    /// Queues were given work since the last look.
    submitted: bool,
}

/// A confirm that is owed once so many queues have answered, or a commit.
#[derive(Debug)]
struct Expected {
    confirm: Confirm,
    queues: u32,
    is_commit: bool,
}

/// A message whose way is known.
#[derive(Debug)]
struct Pending {
    message: Message,
    route: Arc<Route>,
    held_by: Vec<(Arc<DelayHandle>, Hold)>,
    replies_to: Vec<ReplyTarget>,
}

impl Stage {
    pub(crate) fn new(broker: Arc<Broker>) -> Self {
        Self {
            broker,
            routes: None,
            batches: Batches::new(),
            confirms: Vec::new(),
            holds: Vec::new(),
            transactions: None,
            replies: Vec::new(),
            traffic: None,
            facts: None,
            tally: None,
            room: Vec::new(),
            step: 0,
            staged: 0,
            published: false,
            to_be_stored: 0,
            submitted: false,
        }
    }

    pub(crate) fn open_vhost(
        &mut self,
        vhost: Arc<VhostHandle>,
        facts: Arc<ConnectionFacts>,
        user: &User,
    ) {
        self.traffic = Some(vhost.traffic().clone());
        self.routes = Some(RouteCache::new(self.broker.clone(), vhost, user));
        self.facts = Some(facts);
    }

    /// The user came with a new token.
    pub(crate) fn set_rights(&mut self, rights: Arc<Rights>) {
        if let Some(routes) = &mut self.routes {
            routes.set_rights(rights);
        }
    }

    /// Publishes of this channel that wait for its commit.
    pub(crate) fn uncommitted(&self, channel: ChannelKey) -> u64 {
        let transactions = self.transactions.as_ref();
        transactions.map_or(0, |known| known.uncommitted(channel))
    }

    /// Whether anything was published since the last call.
    pub(crate) fn take_published(&mut self) -> bool {
        std::mem::take(&mut self.published)
    }

    /// Memory of what was published to be stored since the last call.
    pub(crate) fn take_to_be_stored(&mut self) -> u64 {
        std::mem::take(&mut self.to_be_stored)
    }

    /// What the publisher is owed must be known before a queue can answer.
    pub(crate) fn announce(&mut self, outgoing: &mut Outgoing) {
        if self.confirms.is_empty() {
            return;
        }
        for expected in self.confirms.drain(..) {
            let Expected {
                confirm: Confirm { channel, number },
                queues,
                is_commit,
            } = expected;
            if is_commit {
                outgoing.expect_commit(channel, number, queues);
            } else {
                outgoing.expect_confirm(channel, number, queues);
            }
        }
        outgoing.flush_confirms();
        if let Some(tally) = &mut self.tally {
            tally.counts.confirm += outgoing.take_confirmed();
        }
    }

    /// Whether queues were given work since the last call.
    pub(crate) fn take_submitted(&mut self) -> bool {
        std::mem::take(&mut self.submitted)
    }

    /// One lock round per queue, after the replies.
    pub(crate) fn submit(&mut self) {
        if let (Some(tally), Some(traffic)) = (&mut self.tally, &self.traffic) {
            tally.tell(&self.broker, traffic);
        }
        self.staged = 0;
        if let Some(routes) = &mut self.routes {
            routes.begin_turn();
        }
        for (target, message) in self.replies.drain(..) {
            target.reply(&message);
        }
        let Self {
            broker,
            batches,
            transactions,
            holds,
            ..
        } = self;
        self.submitted |= !batches.is_empty();
        let mut submit = || {
            batches.submit();
            for (delay, mut commands) in holds.drain(..) {
                delay.submit(&mut commands);
            }
        };
        if let Some(Transactions {
            settles,
            has_commit,
            settling,
            ..
        }) = transactions.as_deref_mut()
            && std::mem::take(has_commit)
        {
            self.submitted |= !settles.is_empty();
            // All of a transaction is stored, or nothing.
            broker.as_one_unit(|| {
                submit();
                // What it passed on reaches the store before the store forgets where it came from.
                settles.submit();
                broker.answer_when_stored(settling);
            });
        } else {
            submit();
        }
    }

    /// Gives up what only a burst needs.
    pub(crate) fn release_capacity(&mut self) {
        self.confirms.shrink_to(KEPT_MAX);
        self.replies.shrink_to(KEPT_MAX);
    }

    /// The room that was given back by what was submitted since the last call.
    pub(crate) fn take_room(&mut self) -> Vec<(ChannelKey, u64)> {
        std::mem::take(&mut self.room)
    }

    /// The channel is gone, and so is what it did not commit.
    pub(crate) fn forget(&mut self, channel: ChannelKey) {
        if let Some(transactions) = &mut self.transactions {
            transactions.take(channel);
        }
    }

    fn enqueue(&mut self, pending: Pending, confirm: Option<Confirm>) {
        let Pending {
            message,
            route,
            held_by,
            replies_to,
        } = pending;
        self.staged += route.len() + replies_to.len() + held_by.len();
        for (delay, Hold { wait, .. }) in held_by {
            let hold = delay::Command::Hold {
                message: wait.held(&message),
                due: wait.due,
                confirm,
            };
            match self.holds.last_mut() {
                Some((last, commands)) if last.id() == delay.id() => commands.push(hold),
                Some(_) | None => self.holds.push((delay, vec![hold])),
            }
        }
        let replies = replies_to
            .into_iter()
            .map(|target| (target, message.clone()));
        self.replies.extend(replies);
        if message.is_persistent() {
            // In each of them.
            self.to_be_stored += (message.memory_bytes() * route.len().max(1)) as u64;
        }
        for queue in route.iter() {
            if let Some(batch) = self.batches.of(queue.id(), || Some(queue.clone())) {
                batch.commands.push(Command::Enqueue {
                    message: message.clone(),
                    confirm,
                });
            }
        }
    }

    fn find(&mut self, publish: &Publish) -> Result<Found, Refusal> {
        let (exchange, key) = (&publish.exchange, &publish.routing_key);
        let broker = &self.broker;
        let message = Published { publish, broker };
        let routes = self.routes.as_mut().expect(ONLY_IN_AN_OPEN_VHOST);
        routes.route(exchange, key, &publish.extra_keys, &message)
    }

    /// Where a message goes that exchanges on its way remember.
    fn remember(&mut self, found: Found, publish: &Publish) -> Result<Found, Refusal> {
        let message = message_of(publish);
        let mut found = found;
        while !self.routes().remember(&found.remembered_by, &message) {
            found = self.find(publish)?;
        }
        Ok(found)
    }

    /// Whether a message that is to wait is taken: a mandatory one only if it could go on now.
    fn is_held(&mut self, held_by: &[(Arc<DelayHandle>, Hold)], publish: &Publish) -> bool {
        let Publish {
            mandatory,
            routing_key,
            extra_keys,
            ..
        } = publish;
        let broker = &self.broker;
        let message = Published { publish, broker };
        let routes = self.routes.as_ref();
        !mandatory
            || held_by.iter().any(|(_, hold)| {
                routes.is_some_and(|routes| routes.reaches(hold, routing_key, extra_keys, &message))
            })
    }

    /// Whether somebody wants copies of what is published.
    fn is_traced(&self) -> bool {
        self.routes.as_ref().is_some_and(RouteCache::is_traced)
    }

    #[cold]
    fn trace(&self, message: &Message, channel: ChannelKey, route: &Route) {
        if let (Some(routes), Some(facts)) = (&self.routes, &self.facts) {
            let by = PublishedBy {
                facts: Some(facts),
                user: &facts.user,
                channel: channel.channel,
            };
            routes.vhost().trace_publish(message, by, &mut route.iter());
        }
    }

    /// A publish goes on to so many queues.
    fn count(&mut self, publish: &Publish, targets: usize) {
        let exchange = &publish.exchange;
        let is_confirmed = matches!(publish.promise, Promise::Confirm(_));
        let Self {
            broker,
            tally,
            routes,
            ..
        } = self;
        let tally = tally.get_or_insert_with(|| {
            broker.publisher_came();
            Box::default()
        });
        let routes = routes.as_ref().expect(ONLY_IN_AN_OPEN_VHOST);
        tally.counts.publish += 1;
        tally.sizes.add(publish.body.len());
        let version = routes.version();
        tally.count_exchange(version, exchange, (targets, is_confirmed), || {
            routes.exchange_traffic(exchange)
        });
    }

    /// The publish that was counted last reaches no queue, and goes back or not.
    fn count_unroutable(&mut self, is_returned: bool) {
        if let Some(tally) = &mut self.tally {
            tally.count_unroutable(is_returned);
        }
    }

    fn routes(&mut self) -> &mut RouteCache {
        self.routes.as_mut().expect(ONLY_IN_AN_OPEN_VHOST)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.tally.is_some() {
            self.broker.publisher_left();
        }
    }
}

impl Sink for Stage {
    fn publish(&mut self, publish: Publish) -> Result<Routed, Refusal> {
        let (exchange, key) = (&publish.exchange, &publish.routing_key);
        let found = self.find(&publish)?;
        let found = if found.remembered_by.is_empty() {
            found
        } else {
            self.remember(found, &publish)?
        };
        let Found { route, held_by, .. } = found;
        let targets = self
            .routes()
            .reply_targets(exchange, key, &publish.extra_keys);
        let is_routed = !(route.is_empty() && targets.is_empty())
            || (!held_by.is_empty() && self.is_held(&held_by, &publish));
        self.published = true;
        self.count(&publish, route.len() + held_by.len() + targets.len());
        let channel = publish.channel;
        let answers = u32::try_from(route.len() + held_by.len()).unwrap_or(u32::MAX);
        let confirm = match publish.promise {
            Promise::Nothing | Promise::Commit => None,
            Promise::Confirm(number) => {
                let confirm = Confirm { channel, number };
                self.confirms.push(Expected {
                    confirm,
                    queues: if is_routed { answers } else { 0 },
                    is_commit: false,
                });
                Some(confirm)
            }
        };
        if !is_routed && !publish.mandatory {
            if self.is_traced() {
                self.trace(&message_of(&publish), channel, &route);
            }
            self.count_unroutable(false);
            return Ok(Routed::Dropped);
        }
        let message = message_of(&publish);
        if self.is_traced() {
            self.trace(&message, channel, &route);
        }
        if !is_routed {
            self.count_unroutable(true);
            return Ok(Routed::Returned(message));
        }
        let queues = route.len() + held_by.len() + targets.len();
        let pending = Pending {
            message,
            route,
            held_by,
            replies_to: targets,
        };
        if publish.promise == Promise::Commit {
            Transactions::of(&mut self.transactions).publish(channel, pending);
        } else {
            self.enqueue(pending, confirm);
        }
        Ok(Routed::Taken(queues))
    }

    fn commit(&mut self, commit: Commit) {
        let Commit {
            channel,
            number,
            settles,
        } = commit;
        let confirm = Confirm { channel, number };
        let mut queues = 0;
        for pending in Transactions::of(&mut self.transactions).take(channel) {
            queues += pending.route.len() + pending.held_by.len();
            self.enqueue(pending, Some(confirm));
        }
        let Self {
            broker,
            transactions,
            step,
            confirms,
            ..
        } = self;
        let transactions = Transactions::of(transactions);
        transactions.has_commit = true;
        if !settles.is_empty() {
            queues += 1;
            transactions.settling.push(confirm);
        }
        self.published = true;
        confirms.push(Expected {
            confirm,
            queues: u32::try_from(queues).unwrap_or(u32::MAX),
            is_commit: true,
        });
        for settle in settles {
            *step += u64::from(!settle.continues);
            stage_settle(&mut transactions.settles, broker, settle, *step);
        }
    }

    fn rollback(&mut self, channel: ChannelKey) {
        self.forget(channel);
    }

    fn check_exchange(
        &mut self,
        _channel: ChannelKey,
        exchange: &ShortString,
        keys: &[ShortString],
    ) -> Result<(), Refusal> {
        self.routes().check_exchange(exchange, keys)
    }

    fn rights(&mut self) -> Arc<Rights> {
        self.routes().rights()
    }

    fn exchange_kind(&mut self, name: &ShortString) -> Option<ExchangeKind> {
        self.routes().exchange_kind(name)
    }

    fn is_full(&self) -> bool {
        let has_looked = |routes: &RouteCache| routes.has_looked_for(ROUTING_MAX);
        self.staged >= STAGED_MAX || self.routes.as_ref().is_some_and(has_looked)
    }

    fn settle(&mut self, settle: Settle) {
        self.staged += 1;
        self.step += u64::from(!settle.continues);
        stage_settle(&mut self.batches, &self.broker, settle, self.step);
    }

    fn give_back_room(&mut self, channel: ChannelKey, count: u64) {
        match self.room.last_mut() {
            Some((last, given_back)) if *last == channel => *given_back += count,
            Some(_) | None => self.room.push((channel, count)),
        }
    }

    fn generate_name(&mut self, prefix: &str) -> ShortString {
        generate_name(prefix)
    }
}

/// A publish, as exchanges see it.
struct Published<'a> {
    publish: &'a Publish,
    broker: &'a Broker,
}

impl Routable for Published<'_> {
    fn headers(&self) -> FieldTable {
        let headers = self.publish.headers.as_ref();
        headers
            .and_then(|payload| FieldTable::decode_all(payload).ok())
            .unwrap_or_default()
    }

    fn properties(&self) -> BasicProperties {
        BasicProperties::decode(&self.publish.properties).unwrap_or_default()
    }

    fn occasion(&self) -> Occasion {
        self.broker.occasion()
    }
}

fn message_of(publish: &Publish) -> Message {
    let life = Life {
        expiration_millis: publish.expiration_millis,
        ..Life::default()
    };
    let parts = MessageParts {
        exchange: publish.exchange.as_bytes(),
        routing_key: publish.routing_key.as_bytes(),
        properties: publish.properties.as_bytes(),
        body: publish.body.clone(),
        persistent: publish.persistent,
        priority: publish.priority,
    };
    let seen = publish.extra_keys.len() - publish.hidden_keys;
    Message::with_hidden_keys(parts, life, &publish.extra_keys[seen..])
}

/// Puts a settle into its queue's batch, and tells the one before it there when both are of this step.
fn stage_settle(batches: &mut Batches, broker: &Broker, settle: Settle, step: u64) {
    // A queue that is gone needs no settling.
    let HandedOut {
        queue,
        seq,
        handout,
    } = settle.at;
    if let Some(batch) = batches.of(queue, || broker.queue(queue)) {
        let is_same_step = std::mem::replace(&mut batch.last_step, step) == step;
        if is_same_step && let Some(Command::Settle { more, .. }) = batch.commands.last_mut() {
            *more = true;
        }
        batch.commands.push(Command::Settle {
            seq,
            handout,
            outcome: settle.outcome,
            more: false,
        });
    }
}
