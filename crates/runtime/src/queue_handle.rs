//! One queue behind its lock: commands in, effects carried out.

mod answers;
mod look;

use std::{
    collections::BTreeMap,
    panic::resume_unwind,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use leveret_core::{
    any_queue::AnyQueue,
    arguments::{DeadLetter, QueueSettings, QueueType},
    ids::{ChannelKey, ConnectionId, ConsumerId, QueueId, Seq, Timestamp},
    queue::{
        Answer, Command, Confirm, ConsumerReport, Deaths, Delivery, Depth, Effects, Refill,
        Remains, Report, RequestId,
    },
    record::{Attempts, QueueRecord, QueueState, Write},
    stream::Told,
};
use parking_lot::Mutex;
use tracing::error;

use self::answers::Answers;
use crate::{
    broker::Services,
    firehose::Handed,
    outbox::{Outbox, Pressure},
    panics::contained,
    policies::Effective,
    promise::Promise,
    publishing::DeadLetterStrategy,
    readers::Reader,
    rebuild,
    transfers::{self, Dead},
    vhost_handle::VhostHandle,
};

/// Messages that are dropped in place when nobody needs them any more. More of them go on a thread that may take its time.
const DROPPED_AT_ONCE_MAX: usize = 1000;

/// Commands carried out in one hold of the lock: some milliseconds.
const COMMANDS_MAX: usize = 4096;

/// A queue that anybody may send commands to.
#[derive(Debug)]
pub struct QueueHandle {
    record: Arc<QueueRecord>,
    /// For the end of an auto-delete queue.
    vhost: Weak<VhostHandle>,
    services: Arc<Services>,
    this: Weak<Self>,
    /// The store knows of consumers.
    is_announced: AtomicBool,
    /// The vhost is traced.
    is_traced: Arc<AtomicBool>,
    /// How often it had broken when it was made, one soon after the other.
    broke: u32,
    made_at: Timestamp,
    guarded: Mutex<Guarded>,
}

#[derive(Debug)]
struct Guarded {
    queue: AnyQueue,
    /// Filled and emptied within one hold of the lock; kept for their capacity.
    effects: Effects,
    promises: Vec<Promise>,
    /// The connections of this queue's consumers.
    outboxes: BTreeMap<ConnectionId, Arc<dyn Outbox>>,
    answers: Answers,
    /// When the timers will call.
    timer: Option<Timestamp>,
    /// The share of the node's transient memory that was told last.
    transient_bytes: usize,
    /// Where its dead messages go.
    dead_letter: Option<DeadLetter>,
    /// They stay until somebody has taken them.
    at_least_once: bool,
    /// Deliveries of which copies are to be made.
    handed: Vec<Handed>,
    /// A bug has ended it; what takes its place has a handle of its own.
    is_broken: bool,
}

/// What is to be done once the lock is free.
#[derive(Debug, Default)]
struct Afterwards {
    accepted: Vec<Confirm>,
    rejected: Vec<Confirm>,
    unused: bool,
    expired: bool,
    handed: Vec<Handed>,
    remains: Option<Box<Remains>>,
}

impl QueueHandle {
    pub(crate) fn new(
        record: Arc<QueueRecord>,
        vhost: Weak<VhostHandle>,
        services: Arc<Services>,
        stored: Option<QueueState>,
        attempts: Vec<(Seq, Attempts)>,
    ) -> Arc<Self> {
        Self::made(record, vhost, services, stored, attempts, 0)
    }

    /// A queue that takes the place of this one, which has broken.
    pub(crate) fn successor(
        &self,
        stored: QueueState,
        attempts: Vec<(Seq, Attempts)>,
    ) -> Arc<Self> {
        let broke = self.times_broken();
        let (record, vhost) = (self.record.clone(), self.vhost.clone());
        let services = self.services.clone();
        let successor = Self::made(record, vhost, services, Some(stored), attempts, broke);
        let last = self.guarded.lock().queue.last_handout();
        successor.guarded.lock().queue.hand_out_after(last);
        successor
    }

    fn made(
        record: Arc<QueueRecord>,
        vhost: Weak<VhostHandle>,
        services: Arc<Services>,
        stored: Option<QueueState>,
        attempts: Vec<(Seq, Attempts)>,
        broke: u32,
    ) -> Arc<Self> {
        let arguments = services.arguments_of(&record);
        let now = services.clock.now();
        let queue = AnyQueue::of(&record, &arguments, stored, attempts, now);
        let settings = QueueSettings::of(&arguments);
        let of_vhost = vhost.upgrade();
        let is_traced = of_vhost.map(|vhost| vhost.traced().clone());
        let is_traced = is_traced.unwrap_or_default();
        // Nothing of a stream is ever flagged redelivered.
        let is_announced = matches!(queue, AnyQueue::Stream(_));
        Arc::new_cyclic(|this| Self {
            record,
            vhost,
            services,
            this: this.clone(),
            is_announced: AtomicBool::new(is_announced),
            is_traced,
            broke,
            made_at: now,
            guarded: Mutex::new(Guarded {
                queue,
                effects: Effects::default(),
                promises: Vec::new(),
                outboxes: BTreeMap::new(),
                answers: Answers::default(),
                timer: None,
                transient_bytes: 0,
                dead_letter: settings.dead_letter,
                at_least_once: settings.dead_letter_at_least_once,
                handed: Vec::new(),
                is_broken: false,
            }),
        })
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> QueueId {
        self.record.id
    }

    /// What it was declared as.
    #[must_use]
    pub fn record(&self) -> &Arc<QueueRecord> {
        &self.record
    }

    pub(crate) const fn services(&self) -> &Arc<Services> {
        &self.services
    }

    pub(crate) fn vhost(&self) -> Option<Arc<VhostHandle>> {
        self.vhost.upgrade()
    }

    /// How often it has broken if it does now, one time soon after the other.
    fn times_broken(&self) -> u32 {
        // The clock follows the system's in small steps, back too.
        let now = self.services.clock.now().get();
        let lasted = now.saturating_sub(self.made_at.get());
        let before = if lasted < rebuild::HOLDS_MILLIS {
            self.broke
        } else {
            0
        };
        before + 1
    }

    /// Its type.
    #[must_use]
    pub fn queue_type(&self) -> QueueType {
        self.record.queue_type
    }

    /// Ready and unacked messages, and consumers as `queue.declare-ok` counts them.
    #[must_use]
    pub fn status(&self) -> (Depth, usize) {
        let guarded = self.guarded.lock();
        (guarded.queue.depth(), guarded.queue.declared_consumers())
    }

    /// What there is at this moment.
    #[must_use]
    pub fn report(&self) -> Report {
        self.guarded.lock().queue.report()
    }

    /// Ready messages of each priority.
    #[must_use]
    pub fn ready_by_priority(&self) -> Vec<(u8, u64)> {
        self.guarded.lock().queue.ready_by_priority()
    }

    /// The policies that apply to it.
    #[must_use]
    pub fn policy(&self) -> Effective {
        self.services.policies.load().of_queue(&self.record)
    }

    /// Policies have changed: what they say of this queue holds from now on.
    pub(crate) fn apply_policy(&self) {
        let arguments = self.services.arguments_of(&self.record);
        let settings = QueueSettings::of(&arguments);
        {
            let mut guarded = self.guarded.lock();
            guarded.dead_letter = settings.dead_letter;
            guarded.at_least_once = settings.dead_letter_at_least_once;
            guarded.queue.set_arguments(&arguments);
        }
        self.submit(&mut vec![Command::Tick]);
    }

    /// Every consumer.
    #[must_use]
    pub fn consumers(&self) -> Vec<ConsumerReport> {
        self.guarded.lock().queue.consumer_reports()
    }

    /// Applies `commands` in order and runs what they ask for. Never waits; answers come as effects.
    pub fn submit(&self, commands: &mut Vec<Command>) {
        if commands.len() > COMMANDS_MAX {
            self.submit_in_portions(commands);
            return;
        }
        let afterwards = self.apply(commands);
        self.run_afterwards(afterwards);
    }

    /// One step may settle millions. Others have their turn with the queue in between, but for what returns: its order holds
    /// for the whole step, and the queue takes its own time for it.
    #[cold]
    fn submit_in_portions(&self, commands: &mut Vec<Command>) {
        let mut portion = Vec::with_capacity(COMMANDS_MAX);
        for command in std::mem::take(commands) {
            let is_within_return = command.is_within_return();
            portion.push(command);
            if portion.len() >= COMMANDS_MAX && !is_within_return {
                let afterwards = self.apply(&mut portion);
                self.run_afterwards(afterwards);
            }
        }
        let afterwards = self.apply(&mut portion);
        self.run_afterwards(afterwards);
    }

    /// The same with messages among them that the broker publishes itself, on [`transfers::OWN_CHANNEL`]: the numbers
    /// of those that were refused.
    pub(crate) fn submit_own(&self, commands: &mut Vec<Command>) -> Vec<u64> {
        let afterwards = self.apply(commands);
        let refused = afterwards.rejected.iter();
        let refused = refused.filter(|confirm| confirm.channel == transfers::OWN_CHANNEL);
        let refused = refused.map(|confirm| confirm.number).collect();
        self.run_afterwards(afterwards);
        refused
    }

    fn apply(&self, commands: &mut Vec<Command>) -> Afterwards {
        let mut guarded = self.guarded.lock();
        if guarded.is_broken {
            return refuse(&mut guarded, commands);
        }
        match contained(|| self.apply_all(&mut guarded, commands)) {
            Ok(afterwards) => afterwards,
            Err(panic) => {
                self.break_off(&mut guarded);
                drop(guarded);
                // Whoever gave these commands does not know how far they came, and ends as well.
                resume_unwind(panic)
            }
        }
    }

    /// A bug: what is in memory of this queue cannot be trusted any more, and none of it reaches the store. It is there as it
    /// was stored, and read from there.
    #[cold]
    fn break_off(&self, guarded: &mut Guarded) {
        let is_rebuilt = rebuild::is_worth_it(self.times_broken());
        if is_rebuilt {
            error!(
                queue = %self.record.name,
                "a bug of the broker has broken this queue; it is closed for a moment, and then as it was stored"
            );
        } else {
            error!(
                queue = %self.record.name,
                "a bug of the broker breaks this queue again and again; nothing enters or leaves it until the broker is \
                 restarted, which finds it as it was stored"
            );
        }
        guarded.is_broken = true;
        guarded.effects = Effects::default();
        guarded.promises.clear();
        guarded.handed.clear();
        guarded.answers.give_up();
        if let Some(at) = guarded.timer.take() {
            self.services.timers.clear(self.record.id, at);
        }
        let consumers = contained(|| guarded.queue.consumer_reports()).unwrap_or_default();
        for consumer in consumers {
            // The bug may be there.
            let _ = contained(|| {
                if let Some(outbox) = guarded.outboxes.get(&consumer.id.channel.connection) {
                    outbox.cancel(&[consumer.id]);
                }
            });
        }
        guarded.outboxes.clear();
        let transient_bytes = std::mem::take(&mut guarded.transient_bytes);
        self.services.transient.change(transient_bytes, 0);
        if is_rebuilt && let Some(this) = self.this.upgrade() {
            self.services.readers.threads.spawn(rebuild::rebuild(this));
        }
    }

    fn apply_all(&self, guarded: &mut Guarded, commands: &mut Vec<Command>) -> Afterwards {
        let now = self.services.clock.now();
        let is_memory_short = {
            let transient_max = self.services.alarms.transient_max();
            self.services.transient.is_above(transient_max)
        };
        guarded.queue.set_memory_short(is_memory_short);
        let mut is_within_step = false;
        for command in commands.drain(..) {
            if !is_within_step && guarded.queue.overtakes(&command) {
                self.hand_out(guarded);
            }
            is_within_step = command.has_more();
            let Guarded { queue, effects, .. } = &mut *guarded;
            queue.apply(now, command, effects);
            if !is_within_step && queue.hands_out_each() {
                self.hand_out(guarded);
            }
        }
        let afterwards = self.run(guarded);
        self.tell_memory(guarded);
        self.set_timer(guarded);
        afterwards
    }

    /// Asks for these rows once everything is in the store that was written before.
    pub(crate) fn read_behind_writes(&self, refill: Refill) {
        let promise = Promise::Refill(refill, Reader::Queue(self.this.clone()));
        let committer = &self.services.committer;
        committer.send(&mut Vec::new(), &mut vec![promise], false);
    }

    fn tell_memory(&self, guarded: &mut Guarded) {
        let now = guarded.queue.transient_bytes();
        let before = std::mem::replace(&mut guarded.transient_bytes, now);
        self.services.transient.change(before, now);
    }

    /// Somebody declared the queue or looked at it, which makes it last longer.
    pub(crate) fn touch(&self) {
        let mut guarded = self.guarded.lock();
        guarded.queue.touch(self.services.clock.now());
        self.set_timer(&mut guarded);
    }

    /// The moment has come that the queue waited for.
    pub(crate) fn tick(&self) {
        self.guarded.lock().timer = None;
        self.submit(&mut vec![Command::Tick]);
    }

    /// Whether nobody uses the queue although it lasts only while somebody does.
    pub(crate) fn is_expired(&self) -> bool {
        let now = self.services.clock.now();
        self.guarded.lock().queue.is_expired(now)
    }

    fn set_timer(&self, guarded: &mut Guarded) {
        // An earlier call does no harm; the queue then says anew when it wants to be called.
        if let Some(at) = guarded.queue.next_due()
            && guarded.timer.is_none_or(|timer| at < timer)
        {
            let before = guarded.timer.replace(at);
            self.services.timers.set(self.record.id, before, at);
        }
    }

    /// The consumer may be served: its subscription was answered, or its reader caught up.
    pub fn resume(&self, consumer: ConsumerId) {
        self.submit(&mut vec![Command::Resume { consumer }]);
    }

    /// The consumers of this channel share a bound from now on.
    pub fn share(&self, channel: ChannelKey) {
        self.submit(&mut vec![Command::Share { channel }]);
    }

    /// The channel had no room for its consumers here, and may have some now.
    pub fn ask_again(&self, channel: ChannelKey) {
        self.submit(&mut vec![Command::AskAgain { channel }]);
    }

    /// What a stream asked for.
    pub(crate) fn tell(&self, told: Told) {
        self.submit(&mut vec![Command::Told(Box::new(told))]);
    }

    /// Sends one command and waits for its answer; `None` when the queue is gone first.
    pub async fn ask(&self, command: impl FnOnce(RequestId) -> Command) -> Option<Answer> {
        let (request, answer) = self.guarded.lock().answers.wait();
        self.submit(&mut vec![command(request)]);
        answer.await.ok()
    }

    /// Returns once the store knows that somebody may be handed messages. Whoever comes while another
    /// one waits for that waits too.
    pub(crate) async fn announce_consumers(&self) {
        if !self.record.durable || self.is_announced.load(Ordering::Acquire) {
            return;
        }
        self.submit(&mut vec![Command::MarkConsumed]);
        self.services.barrier().await;
        self.is_announced.store(true, Ordering::Release);
    }

    /// The connection whose consumers this queue will serve.
    pub(crate) fn attach(&self, connection: ConnectionId, outbox: Arc<dyn Outbox>) {
        self.guarded.lock().outboxes.insert(connection, outbox);
    }

    /// Ends the queue; its last writes belong into one unit with the change of metadata.
    pub(crate) fn delete(
        &self,
        if_unused: bool,
        if_empty: bool,
    ) -> (Answer, Vec<Write>, Vec<ConsumerId>) {
        let mut guarded = self.guarded.lock();
        let now = self.services.clock.now();
        let request = RequestId(0);
        let mut effects = Effects::default();
        guarded.queue.apply(
            now,
            Command::Delete {
                request,
                if_unused,
                if_empty,
            },
            &mut effects,
        );
        let mut answer = Answer::Deleted(0);
        for (to, answered) in effects.answers.drain(..) {
            if to == request {
                answer = answered;
            } else {
                // A get that waited for the head of a queue that is gone now.
                guarded.answers.tell(to, answered);
            }
        }
        if guarded.queue.is_deleted() {
            if let Some(at) = guarded.timer.take() {
                self.services.timers.clear(self.record.id, at);
            }
            guarded.outboxes.clear();
            self.tell_memory(&mut guarded);
        }
        self.let_go(effects.remains);
        (answer, effects.writes, effects.cancelled)
    }

    /// The counters to be stored at an orderly stop.
    pub(crate) fn state_at_stop(&self) -> Option<Write> {
        let guarded = self.guarded.lock();
        // Of a broken one the last stored counters are right, and whom it had handed what is not known.
        let is_whole = !guarded.is_broken;
        is_whole.then(|| guarded.queue.state_at_stop()).flatten()
    }

    /// Hands out what consumers have credit for, as long as their readers keep up.
    fn hand_out(&self, guarded: &mut Guarded) {
        let Guarded {
            queue,
            effects,
            outboxes,
            answers,
            handed,
            ..
        } = guarded;
        loop {
            let has_more = queue.hand_out(effects);
            for (request, answer) in effects.answers.drain(..) {
                answers.tell(request, answer);
            }
            if self.is_traced.load(Ordering::Relaxed) {
                note_handed(&effects.deliveries, handed);
            }
            self.deliver(queue, &mut effects.deliveries, outboxes);
            if !has_more {
                break;
            }
            if let Some(consumer) = queue.room_wanted() {
                let outbox = outboxes.get(&consumer.channel.connection);
                let has_room = outbox.is_some_and(|outbox| outbox.reserve(consumer));
                queue.answer_room(consumer, has_room);
            }
        }
    }

    fn run(&self, guarded: &mut Guarded) -> Afterwards {
        self.hand_out(guarded);
        let Guarded {
            queue,
            effects,
            promises,
            dead_letter,
            at_least_once,
            handed,
            ..
        } = guarded;
        queue.seal(effects);
        let missing = std::mem::take(&mut effects.missing);
        if missing > 0 {
            error!(queue = %self.record.name, missing, "stored messages were counted but not found");
        }
        if effects.deaths != Deaths::default() {
            let deaths = std::mem::take(&mut effects.deaths);
            let strategy = match (dead_letter.is_some(), *at_least_once) {
                (false, _) => DeadLetterStrategy::Disabled,
                (true, false) => DeadLetterStrategy::AtMostOnce,
                (true, true) => DeadLetterStrategy::AtLeastOnce,
            };
            let publishing = &self.services.publishing;
            publishing.add_deaths(self.record.queue_type, strategy, deaths);
        }
        // Behind whatever they were handed last.
        for overdue in effects.overdue.drain(..) {
            if let Some(outbox) = self.services.registry.outbox(overdue.channel.connection) {
                outbox.overdue(overdue);
            }
        }
        if !effects.transfers.is_empty()
            && let Some(to) = dead_letter
        {
            self.services.transfers.send(Dead {
                queue: self.record.clone(),
                vhost: self.vhost.clone(),
                to: to.clone(),
                at_least_once: *at_least_once,
                transfers: std::mem::take(&mut effects.transfers),
            });
        }
        // Memory is ahead of the disk here. If the commit fails, no promise leaves and the process
        // ends.
        let sync = !(effects.promises.is_empty() && effects.asks.is_empty());
        promises.extend(effects.promises.drain(..).map(Promise::Confirm));
        if let Some(refill) = effects.refill.take() {
            if refill.at_once {
                self.services
                    .readers
                    .read_at_once(refill, self.this.clone());
            } else {
                promises.push(Promise::Refill(refill, Reader::Queue(self.this.clone())));
            }
        }
        for ask in effects.asks.drain(..) {
            promises.push(Promise::Ask(Box::new(ask), self.this.clone()));
        }
        if !effects.writes.is_empty() || !promises.is_empty() {
            self.services
                .committer
                .send(&mut effects.writes, promises, sync);
        }
        Afterwards {
            accepted: std::mem::take(&mut effects.accepted),
            rejected: std::mem::take(&mut effects.rejected),
            unused: std::mem::take(&mut effects.unused),
            expired: std::mem::take(&mut effects.expired),
            handed: std::mem::take(handed),
            remains: effects.remains.take(),
        }
    }

    /// Hands deliveries to their connections: each run for one connection in one call.
    fn deliver(
        &self,
        queue: &mut AnyQueue,
        deliveries: &mut Vec<Delivery>,
        outboxes: &BTreeMap<ConnectionId, Arc<dyn Outbox>>,
    ) {
        let connection_of = |delivery: &Delivery| delivery.consumer.channel.connection;
        for run in deliveries.chunk_by(|a, b| connection_of(a) == connection_of(b)) {
            let connection = connection_of(&run[0]);
            let Some(outbox) = outboxes.get(&connection) else {
                continue;
            };
            if outbox.deliver(self.record.id, run) == Pressure::High {
                let now = self.services.clock.now();
                for delivery in run {
                    let pause = Command::Pause {
                        consumer: delivery.consumer,
                    };
                    queue.apply(now, pause, &mut Effects::default());
                }
            }
        }
        deliveries.clear();
    }

    /// Drops what a purge or the end of the queue has left: much of it where nobody waits.
    fn let_go(&self, remains: Option<Box<Remains>>) {
        if let Some(remains) = remains
            && remains.entries() > DROPPED_AT_ONCE_MAX
        {
            let threads = &self.services.readers.threads;
            threads.spawn_blocking(move || drop(remains));
        }
    }

    fn run_afterwards(&self, afterwards: Afterwards) {
        let Afterwards {
            accepted,
            rejected,
            unused,
            expired,
            handed,
            remains,
        } = afterwards;
        self.let_go(remains);
        self.services.registry.answer(&accepted, true);
        self.services.registry.answer(&rejected, false);
        if !handed.is_empty()
            && let Some(vhost) = self.vhost.upgrade()
        {
            vhost.trace_handed(&self.record.name, &handed);
        }
        if unused
            && self.record.auto_delete
            && let Some(vhost) = self.vhost.upgrade()
        {
            vhost.delete_unused(self);
        }
        if expired && let Some(vhost) = self.vhost.upgrade() {
            vhost.delete_expired(self);
        }
    }
}

/// The answer of a queue that has broken: nothing is taken, and nobody waits for it.
#[cold]
fn refuse(guarded: &mut Guarded, commands: &mut Vec<Command>) -> Afterwards {
    guarded.answers.give_up();
    let confirms = commands.drain(..).filter_map(|command| match command {
        Command::Enqueue { confirm, .. } => confirm,
        _ => None,
    });
    Afterwards {
        rejected: confirms.collect(),
        ..Afterwards::default()
    }
}

#[cold]
fn note_handed(deliveries: &[Delivery], handed: &mut Vec<Handed>) {
    handed.extend(deliveries.iter().map(|delivery| Handed {
        to: delivery.consumer.channel,
        redelivered: delivery.redelivered,
        message: delivery.message.clone(),
    }));
}
