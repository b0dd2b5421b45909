//! Messages that died, or have waited on an exchange long enough, go to their new queues: one task routes
//! and enqueues them, and lets go of them where they came from, in one unit of the store.
//!
//! ```text
//!   queue ──died──▶ task ──┬─ enqueue ───▶ new queues
//!     ▲                    │                              one commit: in one of the two after a crash,
//!     └────Transferred─────┘                              never in both, never in none
//! ```
//!
//! With the strategy at-least-once the queue lets go of a message only when all its new queues took it; else it keeps
//! the message and sends it again.
//!
//! A task of its own, because no two queues' locks are ever held at once, and because a chain of
//! queues must not become a chain of calls. Without that strategy a new queue that refuses the message has
//! answered too: it is dead, and there is nobody to tell.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    vec::IntoIter,
};

use foldhash::fast::RandomState;
use leveret_core::{
    arguments::DeadLetter,
    dead_letter::{DeadMessage, Death},
    delay::{self, Released, Wait},
    ids::{ChannelKey, ConnectionId, QueueId, Seq},
    message::Message,
    queue::{Command, Confirm, Stranding, Transfer},
    record::QueueRecord,
    vhost::{Route, Vhost},
};
use leveret_wire::value::ShortString;
use tokio::sync::{
    Notify,
    mpsc::{self, UnboundedReceiver, UnboundedSender},
};

use crate::{
    broker::Services, delay_handle::DelayHandle, panics::contained, queue_handle::QueueHandle,
    registry::Registry, vhost_handle::VhostHandle,
};

/// Messages moved at once, each as often as there are queues that take it: commands for one queue then share one hold of its
/// lock, and all of them a commit.
const UNIT_MESSAGES_MAX: usize = 1000;

/// The same in bytes. While a unit is put together nothing else is stored, and so nothing confirmed.
const UNIT_BYTES_MAX: usize = 4 << 20;

/// Messages on their way from which on publishers wait: what they publish may be what makes others die.
const WAITING_MAX: usize = 100_000;

/// Who is told of the broker's own messages: no connection has this number.
pub(crate) const OWN_CHANNEL: ChannelKey = ChannelKey {
    connection: ConnectionId::new(0),
    channel: 0,
    opening: 0,
};

/// Messages that died in one queue, and where they are to go.
#[derive(Debug)]
pub(crate) struct Dead {
    pub(crate) queue: Arc<QueueRecord>,
    pub(crate) vhost: Weak<VhostHandle>,
    pub(crate) to: DeadLetter,
    /// They stay there until everybody has taken them who is to have them.
    pub(crate) at_least_once: bool,
    pub(crate) transfers: Vec<Transfer>,
}

/// Messages whose time on an exchange has come.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) delay: QueueId,
    pub(crate) exchange: ShortString,
    pub(crate) vhost: Weak<VhostHandle>,
    pub(crate) released: Vec<Released>,
}

/// What the task is told. Every message in it is kept where it came from anyway.
#[derive(Debug)]
enum News {
    Died(Dead),
    Due(Due),
}

impl News {
    const fn len(&self) -> usize {
        match self {
            Self::Died(dead) => dead.transfers.len(),
            Self::Due(due) => due.released.len(),
        }
    }
}

/// Where queues hand over what died.
#[derive(Debug)]
pub(crate) struct Transfers {
    news: UnboundedSender<News>,
    /// Messages that were handed over and have not arrived.
    waiting: AtomicUsize,
    /// Rings when they are fewer.
    arrived: Notify,
}

impl Transfers {
    /// The way in, and what the task listens to.
    pub(crate) fn new() -> (Arc<Self>, Arrivals) {
        let (news, receiver) = mpsc::unbounded_channel();
        let transfers = Arc::new(Self {
            news,
            waiting: AtomicUsize::new(0),
            arrived: Notify::new(),
        });
        (transfers, Arrivals(receiver))
    }

    /// Messages have died; called under the lock of their queue, so that they stay in order.
    pub(crate) fn send(&self, dead: Dead) {
        self.tell(News::Died(dead));
    }

    /// The time of messages has come; called under the lock of what held them, so that they stay in order.
    pub(crate) fn send_due(&self, due: Due) {
        self.tell(News::Due(due));
    }

    fn tell(&self, news: News) {
        let messages = news.len();
        self.waiting.fetch_add(messages, Ordering::AcqRel);
        if self.news.send(news).is_err() {
            // Without a task the broker has stopped, and what died is still stored.
            self.waiting.fetch_sub(messages, Ordering::AcqRel);
        }
    }

    /// Whether so few are on their way that more may come.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.load(Ordering::Acquire) < WAITING_MAX
    }

    /// Returns when there is room.
    pub(crate) async fn room(&self) {
        self.wait_until(Self::has_room).await;
    }

    /// Returns when nothing is on its way.
    pub(crate) async fn idle(&self) {
        self.wait_until(|transfers| transfers.waiting.load(Ordering::Acquire) == 0)
            .await;
    }

    async fn wait_until(&self, condition: impl Fn(&Self) -> bool) {
        loop {
            let mut arrived = pin!(self.arrived.notified());
            arrived.as_mut().enable();
            if condition(self) {
                return;
            }
            arrived.await;
        }
    }

    fn have_arrived(&self, messages: usize) {
        self.waiting.fetch_sub(messages, Ordering::AcqRel);
        self.arrived.notify_waiters();
    }
}

/// What the task listens to.
#[derive(Debug)]
pub(crate) struct Arrivals(UnboundedReceiver<News>);

impl Arrivals {
    /// Moves messages for as long as the broker runs.
    pub(crate) async fn run(mut self, services: Arc<Services>) {
        let mut unit = Unit::new(services);
        while let Some(first) = self.0.recv().await {
            unit.take(first).await;
            while let Ok(next) = self.0.try_recv() {
                unit.take(next).await;
            }
            unit.end().await;
        }
    }
}

/// Messages on their way that are to leave one place and come to the others in one commit.
struct Unit {
    services: Arc<Services>,
    batches: Batches,
    /// Messages that leave their places.
    messages: usize,
}

impl Unit {
    fn new(services: Arc<Services>) -> Self {
        Self {
            services,
            batches: Batches::default(),
            messages: 0,
        }
    }

    /// Takes these in; as many units as it needs end meanwhile.
    async fn take(&mut self, news: News) {
        match news {
            News::Died(mut dead) => {
                let mut transfers = std::mem::take(&mut dead.transfers).into_iter();
                while self.route(&dead, &mut transfers) {
                    self.end().await;
                }
            }
            News::Due(mut due) => {
                let mut released = std::mem::take(&mut due.released).into_iter();
                while self.route_due(&due, &mut released) {
                    self.end().await;
                }
            }
        }
    }

    /// What goes nowhere counts as well, and one with more new places than a unit has room for is a unit.
    const fn is_full(&self) -> bool {
        self.messages >= UNIT_MESSAGES_MAX
            || self.batches.copies >= UNIT_MESSAGES_MAX
            || self.batches.bytes >= UNIT_BYTES_MAX
    }

    async fn end(&mut self) {
        let batches = std::mem::take(&mut self.batches);
        let services = &self.services;
        // A queue that breaks takes what it was to take with it; where that came from keeps it until the next start.
        let _ = contained(|| {
            services
                .committer
                .as_one_unit(|| batches.submit(&services.registry));
        });
        services
            .transfers
            .have_arrived(std::mem::take(&mut self.messages));
        // A long chain of deaths must not keep others from this thread.
        tokio::task::yield_now().await;
        // Nor is it to fill memory with what the disk has still to take.
        self.services.disk_keeps_up().await;
    }

    /// Routes dead messages until the unit is full; says whether it is.
    fn route(&mut self, dead: &Dead, transfers: &mut IntoIter<Transfer>) -> bool {
        let vhost = dead.vhost.upgrade();
        let snapshot = vhost.as_ref().map(|vhost| vhost.snapshot());
        while !self.is_full() {
            let Some(transfer) = transfers.next() else {
                return false;
            };
            self.messages += 1;
            if let (Some(vhost), Some(snapshot)) = (&vhost, &snapshot) {
                let Self {
                    services, batches, ..
                } = self;
                // A bug that a message meets ends nothing but its own way: it is kept where it came from until the next start.
                let _ = contained(|| {
                    route(dead, transfer, vhost, snapshot, &services.registry, batches);
                });
            }
        }
        true
    }

    /// The same for messages whose time has come.
    fn route_due(&mut self, due: &Due, released: &mut IntoIter<Released>) -> bool {
        let vhost = due.vhost.upgrade();
        let snapshot = vhost.as_ref().map(|vhost| vhost.snapshot());
        while !self.is_full() {
            let Some(Released { seq, message }) = released.next() else {
                return false;
            };
            self.messages += 1;
            if let (Some(vhost), Some(snapshot)) = (&vhost, &snapshot) {
                let Self {
                    services, batches, ..
                } = self;
                let _ = contained(|| {
                    let route = vhost.route_due(snapshot, &due.exchange, &message);
                    Targets::of(&route, |_| true, &services.registry).send(&message, None, batches);
                    batches.is_done(due.delay, Some(seq));
                });
            }
        }
        true
    }
}

/// Commands for several queues, in the order in which these were met, and for what waits on exchanges.
#[derive(Debug, Default)]
struct Batches {
    queues: Vec<(Arc<QueueHandle>, Vec<Command>)>,
    delays: Vec<(Arc<DelayHandle>, Vec<delay::Command>)>,
    /// Where each of both is in its list.
    index: HashMap<QueueId, usize, RandomState>,
    /// Messages for all of them.
    copies: usize,
    /// Memory of these, as if each were one of its own.
    bytes: usize,
    watched: Vec<Watched>,
    /// What nobody needs any more where it came from. It is let go of behind everything else: a queue that breaks on the way must
    /// not leave a message nowhere.
    done: Vec<(QueueId, Seq)>,
}

/// A dead message that its queue keeps until everybody has it. Its confirms carry its place in the list, from 1.
#[derive(Debug)]
struct Watched {
    queue: QueueId,
    stranding: Stranding,
    /// Somebody refused it, or there is nobody to take it.
    is_stranded: bool,
    taken_by: Vec<QueueId>,
}

impl Batches {
    fn of(&mut self, queue: Arc<QueueHandle>) -> &mut Vec<Command> {
        let Self { queues, index, .. } = self;
        let at = *index.entry(queue.id()).or_insert_with(|| {
            queues.push((queue, Vec::new()));
            queues.len() - 1
        });
        &mut queues[at].1
    }

    fn of_delay(&mut self, delay: Arc<DelayHandle>) -> &mut Vec<delay::Command> {
        let Self { delays, index, .. } = self;
        let at = *index.entry(delay.id()).or_insert_with(|| {
            delays.push((delay, Vec::new()));
            delays.len() - 1
        });
        &mut delays[at].1
    }

    /// Nobody needs the message there any more.
    fn is_done(&mut self, queue: QueueId, seq: Option<Seq>) {
        self.done.extend(seq.map(|seq| (queue, seq)));
    }

    fn let_go(&mut self, queue: QueueId, seq: Seq, registry: &Registry) {
        if let Some(handle) = registry.queue(queue) {
            self.of(handle).push(Command::Transferred { seq });
        } else if let Some(delay) = registry.delay(queue) {
            self.of_delay(delay).push(delay::Command::Sent { seq });
        }
    }

    fn submit(mut self, registry: &Registry) {
        for (queue, mut commands) in self.queues {
            for number in queue.submit_own(&mut commands) {
                let at = usize::try_from(number - 1);
                if let Some(watched) = at.ok().and_then(|at| self.watched.get_mut(at)) {
                    watched.taken_by.retain(|taken| *taken != queue.id());
                    watched.is_stranded = true;
                }
            }
        }
        for (delay, mut commands) in self.delays {
            delay.submit(&mut commands);
        }
        if self.watched.is_empty() && self.done.is_empty() {
            return;
        }
        let mut then = Self::default();
        for (queue, seq) in self.done {
            then.let_go(queue, seq, registry);
        }
        for watched in self.watched {
            let Watched {
                queue,
                mut stranding,
                is_stranded,
                taken_by,
            } = watched;
            if !is_stranded {
                then.let_go(queue, stranding.seq, registry);
            } else if let Some(handle) = registry.queue(queue) {
                stranding.taken_by = taken_by.into();
                let command = Command::Stranded(Box::new(stranding));
                then.of(handle).push(command);
            }
        }
        then.submit(registry);
    }
}

fn route(
    Dead {
        queue,
        to,
        at_least_once,
        ..
    }: &Dead,
    transfer: Transfer,
    vhost: &VhostHandle,
    snapshot: &Vhost,
    registry: &Registry,
    batches: &mut Batches,
) {
    #[cfg(test)]
    tests::meet_bug(&transfer.message);
    let death = Death {
        queue: &queue.name,
        reason: transfer.reason,
        at: transfer.died_at,
        was_delivered: transfer.was_delivered,
    };
    let dead = DeadMessage::of(&transfer.message, death, to);
    let targets = match &dead {
        Some(dead) => {
            let route = vhost.route_dead(snapshot, dead);
            let goes_to = |target: &QueueRecord| !dead.is_cycle(&target.name);
            Targets::of(&route, goes_to, registry)
        }
        None => Targets::default(),
    };
    let message = dead
        .as_ref()
        .map_or(&transfer.message, |dead| &dead.message);
    match transfer.seq {
        Some(seq) if *at_least_once => {
            let stranding = Stranding {
                seq,
                reason: transfer.reason,
                died_at: transfer.died_at,
                taken_by: transfer.taken_by,
            };
            watch(queue.id, stranding, message, targets, batches);
        }
        seq => {
            targets.send(message, None, batches);
            batches.is_done(queue.id, seq);
        }
    }
}

/// Sends a dead message to those that have not taken it yet.
fn watch(
    queue: QueueId,
    stranding: Stranding,
    message: &Message,
    mut targets: Targets,
    batches: &mut Batches,
) {
    let has = &stranding.taken_by;
    targets.queues.retain(|target| !has.contains(&target.id()));
    targets
        .delays
        .retain(|(delay, _)| !has.contains(&delay.id()));
    let queues = targets.queues.iter().map(|target| target.id());
    let delays = targets.delays.iter().map(|(delay, _)| delay.id());
    let taken_by: Vec<_> = has.iter().copied().chain(queues).chain(delays).collect();
    batches.watched.push(Watched {
        queue,
        stranding,
        is_stranded: taken_by.is_empty(),
        taken_by,
    });
    let confirm = Confirm {
        channel: OWN_CHANNEL,
        number: batches.watched.len() as u64,
    };
    targets.send(message, Some(confirm), batches);
}

/// Who is to have a message.
#[derive(Debug, Default)]
struct Targets {
    queues: Vec<Arc<QueueHandle>>,
    delays: Vec<(Arc<DelayHandle>, Wait)>,
}

impl Targets {
    fn of(route: &Route, goes_to: impl Fn(&QueueRecord) -> bool, registry: &Registry) -> Self {
        let queues = route.queues.iter().filter_map(|id| registry.queue(*id));
        let queues = queues.filter(|queue| goes_to(queue.record()));
        let delays = route.held_by.iter();
        let delays = delays.filter_map(|hold| Some((registry.delay(hold.delay)?, hold.wait)));
        Self {
            queues: queues.collect(),
            delays: delays.collect(),
        }
    }

    fn send(self, message: &Message, confirm: Option<Confirm>, batches: &mut Batches) {
        let copies = self.queues.len() + self.delays.len();
        batches.copies += copies;
        batches.bytes += copies.max(1) * message.memory_bytes();
        for queue in self.queues {
            batches.of(queue).push(Command::Enqueue {
                message: message.clone(),
                confirm,
            });
        }
        for (delay, wait) in self.delays {
            batches.of_delay(delay).push(delay::Command::Hold {
                message: wait.held(message),
                due: wait.due,
                confirm: None,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use bytes::Bytes;
    use leveret_core::{
        ids::Timestamp,
        message::MessageParts,
        queue::DeathReason,
        record::{BindingRecord, Destination},
        vhost::QueueDeclare,
    };
    use leveret_wire::value::FieldTable;

    use super::*;
    use crate::{
        alarms::Limits,
        broker::{Broker, NodeOptions, StartOptions},
    };

    thread_local! {
        /// A message with this body meets a bug.
        static BUG: Cell<Option<&'static [u8]>> = const { Cell::new(None) };
    }

    pub(super) fn meet_bug(message: &Message) {
        assert!(BUG.get() != Some(message.body()), "the bug of this test");
    }

    /// A broker with queues behind `amq.fanout`, and one queue in which messages died.
    struct Scenario {
        broker: Arc<Broker>,
        from: Arc<QueueHandle>,
        to: Vec<Arc<QueueHandle>>,
    }

    impl Scenario {
        async fn start(targets: usize) -> Self {
            let options = StartOptions {
                data_dir: None,
                store: leveret_store::Options::default(),
                node: NodeOptions::default(),
                limits: Limits::default(),
            };
            let broker = Broker::start(&options, |failure| panic!("storage failed: {failure}"));
            let broker = broker.expect("nothing but memory is wanted");
            let vhost = broker.vhost(&name("/")).expect("every broker has it");
            let mut queues = Vec::new();
            for number in 0..=targets {
                let queue = name(&format!("q{number}"));
                let asked = QueueDeclare {
                    name: queue.clone(),
                    server_named: false,
                    durable: true,
                    exclusive: false,
                    auto_delete: false,
                    arguments: FieldTable::default(),
                    refused_if_new: None,
                };
                let connection = ConnectionId::new(1);
                let declared = vhost.declare_queue(asked, connection).await;
                declared.expect("declared");
                if number > 0 {
                    let binding = BindingRecord {
                        vhost: name("/"),
                        source: name("amq.fanout"),
                        destination: Destination::Queue(queue.clone()),
                        key: ShortString::default(),
                        arguments: FieldTable::default(),
                    };
                    let bound = vhost.bind(binding, connection).await;
                    bound.expect("bound");
                }
                let id = vhost.snapshot().queue(&queue).expect("just declared").id;
                queues.push(broker.queue(id).expect("just declared"));
            }
            let from = queues.remove(0);
            let to = queues;
            Self { broker, from, to }
        }

        fn unit(&self) -> Unit {
            Unit::new(self.from.services().clone())
        }

        /// Ends a unit of messages that nobody has handed over.
        async fn end(&self, unit: &mut Unit) {
            let transfers = &self.from.services().transfers;
            transfers.waiting.fetch_add(unit.messages, Ordering::AcqRel);
            unit.end().await;
        }

        fn dead(&self) -> Dead {
            let vhost = self.from.vhost().expect("it is there");
            let to = DeadLetter {
                exchange: Some(name("amq.fanout")),
                routing_key: None,
            };
            Dead {
                queue: self.from.record().clone(),
                vhost: Arc::downgrade(&vhost),
                to,
                at_least_once: false,
                transfers: Vec::new(),
            }
        }

        fn ready(&self) -> Vec<u64> {
            let depths = self.to.iter().map(|queue| queue.status().0.ready);
            depths.collect()
        }
    }

    impl Drop for Scenario {
        fn drop(&mut self) {
            let _ = self.broker.stop();
        }
    }

    fn name(text: &str) -> ShortString {
        ShortString::try_from(text).expect("short")
    }

    fn died(count: usize, body: impl Fn(usize) -> Bytes) -> IntoIter<Transfer> {
        let transfer = |number| Transfer {
            seq: Some(Seq::new(number as u64)),
            reason: DeathReason::Rejected,
            died_at: Timestamp::new(1),
            message: Message::new(MessageParts {
                exchange: b"",
                routing_key: b"q0",
                properties: &[0, 0],
                body: body(number),
                persistent: true,
                priority: None,
            }),
            was_delivered: false,
            taken_by: Box::default(),
        };
        let died: Vec<Transfer> = (0..count).map(transfer).collect();
        died.into_iter()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_unit_is_full_at_so_many_messages_however_many_queues_take_each() {
        for (targets, expected) in [(0, 1000), (1, 1000), (3, 334), (50, 20)] {
            let scenario = Scenario::start(targets).await;
            let mut unit = scenario.unit();
            let mut transfers = died(1500, |_| Bytes::new());
            assert!(unit.route(&scenario.dead(), &mut transfers));
            assert_eq!(1500 - transfers.len(), expected, "for {targets} queues");
            scenario.end(&mut unit).await;
            assert_eq!(scenario.ready(), vec![expected as u64; targets]);
            // The next one begins anew.
            let mut others = died(10, |_| Bytes::new());
            assert!(!unit.route(&scenario.dead(), &mut others));
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_unit_is_full_at_so_many_bytes() {
        let body = Bytes::from(vec![0; 256 * 1024]);
        for (targets, expected) in [(0, 16), (1, 16), (4, 4)] {
            let scenario = Scenario::start(targets).await;
            let mut unit = scenario.unit();
            let mut transfers = died(100, |_| body.clone());
            assert!(unit.route(&scenario.dead(), &mut transfers));
            assert_eq!(100 - transfers.len(), expected, "for {targets} queues");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn fm34_a_message_that_meets_a_bug_on_its_way_keeps_no_other_from_its_own() {
        let scenario = Scenario::start(1).await;
        let mut unit = scenario.unit();
        let mut transfers = died(10, |number| Bytes::from(format!("body {number}")));
        BUG.set(Some(b"body 4"));
        assert!(!unit.route(&scenario.dead(), &mut transfers));
        BUG.set(None);
        assert_eq!(unit.batches.done.len(), 9, "where it came from keeps it");
        scenario.end(&mut unit).await;
        assert_eq!(scenario.ready(), [9]);
    }
}
