//! Messages that died, or have waited on an exchange long enough, go to their new queues: one task routes
//! and enqueues them, and tells where they came from once they have arrived.
//!
//! ```text
//!   queue ──died──▶ task ──enqueue, confirm owed──▶ new queues
//!     ▲                                                │ stored, taken or refused
//!     └──Transferred── task ◀──all have answered───────┘
//! ```
//!
//! A task of its own, because no two queues' locks are ever held at once, and because a chain of
//! queues must not become a chain of calls. New queues answer as they answer a publisher: the confirms
//! come to an outbox under a connection that no client has.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use foldhash::fast::RandomState;
use leveret_core::{
    arguments::DeadLetter,
    dead_letter::{DeadMessage, Death},
    delay::{self, Released},
    ids::{ChannelKey, ConnectionId, ConsumerId, QueueId, Seq, Timestamp},
    message::Message,
    queue::{Command, Confirm, Delivery, Transfer},
    record::QueueRecord,
    vhost::Route,
};
use leveret_wire::value::ShortString;
use parking_lot::Mutex;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::{
    delay_handle::DelayHandle,
    outbox::{Answered, Outbox, Pressure},
    queue_handle::QueueHandle,
    registry::Registry,
    vhost_handle::VhostHandle,
};

/// The broker itself as a publisher; connections count up from 1.
const BROKER: ConnectionId = ConnectionId::new(u64::MAX);

/// Its only channel.
const CHANNEL: ChannelKey = ChannelKey {
    connection: BROKER,
    channel: 0,
    opening: 0,
};

/// Work taken at once: commands for one queue then share one hold of its lock.
const BATCH_MAX: usize = 256;

/// Messages that died in one queue, and where they are to go.
#[derive(Debug)]
pub(crate) struct Dead {
    pub(crate) queue: Arc<QueueRecord>,
    pub(crate) vhost: Weak<VhostHandle>,
    pub(crate) to: DeadLetter,
    pub(crate) at: Timestamp,
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

/// What the task is told. Unbounded, but every message in it is kept where it came from anyway.
#[derive(Debug)]
enum News {
    Died(Dead),
    Due(Due),
    /// Nobody needs the message of this queue and place there any more.
    Arrived(QueueId, Seq),
}

/// Where queues hand over what died.
#[derive(Debug)]
pub(crate) struct Transfers {
    news: UnboundedSender<News>,
    underway: Mutex<Underway>,
}

#[derive(Debug, Default)]
struct Underway {
    last: u64,
    /// By the number of the confirm.
    moves: HashMap<u64, Move, RandomState>,
}

/// One dead message on its way.
#[derive(Debug)]
struct Move {
    queue: QueueId,
    seq: Option<Seq>,
    /// New queues that have not answered.
    open: usize,
}

impl Transfers {
    /// The way in, and what the task listens to.
    pub(crate) fn new(registry: &Registry) -> (Arc<Self>, Arrivals) {
        let (news, receiver) = mpsc::unbounded_channel();
        let transfers = Arc::new(Self {
            news,
            underway: Mutex::default(),
        });
        registry.add_outbox(BROKER, transfers.clone());
        (transfers, Arrivals(receiver))
    }

    /// Messages have died; called under the lock of their queue, so that they stay in order.
    pub(crate) fn send(&self, dead: Dead) {
        // Without a task the broker has stopped, and what died is still stored.
        let _ = self.news.send(News::Died(dead));
    }

    /// The time of messages has come; called under the lock of what held them, so that they stay in order.
    pub(crate) fn send_due(&self, due: Due) {
        let _ = self.news.send(News::Due(due));
    }

    /// A number that stands for the message until `open` queues have answered.
    fn begin(&self, queue: QueueId, seq: Option<Seq>, open: usize) -> Confirm {
        let mut underway = self.underway.lock();
        underway.last += 1;
        let number = underway.last;
        underway.moves.insert(number, Move { queue, seq, open });
        Confirm {
            channel: CHANNEL,
            number,
        }
    }

    fn arrived(&self, queue: QueueId, seq: Option<Seq>) {
        if let Some(seq) = seq {
            let _ = self.news.send(News::Arrived(queue, seq));
        }
    }
}

/// To the target queues it is one more publisher that waits for confirms; it never consumes.
impl Outbox for Transfers {
    fn deliver(&self, _queue: QueueId, _deliveries: &[Delivery]) -> Pressure {
        Pressure::Low
    }

    fn reply(&self, _consumer: ConsumerId, _message: &Message) {}

    /// A refusal is an answer too: the message is dead, and there is nobody to tell.
    fn confirm(&self, answered: &[Answered]) {
        let mut underway = self.underway.lock();
        for Answered { confirm, .. } in answered {
            let Some(moving) = underway.moves.get_mut(&confirm.number) else {
                continue;
            };
            moving.open -= 1;
            if moving.open == 0
                && let Some(Move { queue, seq, .. }) = underway.moves.remove(&confirm.number)
            {
                self.arrived(queue, seq);
            }
        }
    }

    fn cancel(&self, _consumers: &[ConsumerId]) {}
}

/// What the task listens to.
#[derive(Debug)]
pub(crate) struct Arrivals(UnboundedReceiver<News>);

impl Arrivals {
    /// Moves dead messages for as long as the broker runs.
    pub(crate) async fn run(mut self, transfers: Arc<Transfers>, registry: Arc<Registry>) {
        let mut news = Vec::new();
        while self.0.recv_many(&mut news, BATCH_MAX).await > 0 {
            let mut batches = Batches::default();
            for each in news.drain(..) {
                match each {
                    News::Died(dead) => transfers.route(dead, &registry, &mut batches),
                    News::Due(due) => transfers.route_due(due, &registry, &mut batches),
                    News::Arrived(queue, seq) => {
                        if let Some(handle) = registry.queue(queue) {
                            batches.of(handle).push(Command::Transferred { seq });
                        } else if let Some(delay) = registry.delay(queue) {
                            batches.of_delay(delay).push(delay::Command::Sent { seq });
                        }
                    }
                }
            }
            batches.submit();
        }
    }
}

/// Commands for several queues, in the order in which these were met, and for what waits on exchanges.
#[derive(Debug, Default)]
struct Batches {
    queues: Vec<(Arc<QueueHandle>, Vec<Command>)>,
    delays: Vec<(Arc<DelayHandle>, Vec<delay::Command>)>,
}

impl Batches {
    fn of(&mut self, queue: Arc<QueueHandle>) -> &mut Vec<Command> {
        let known = self
            .queues
            .iter()
            .rposition(|(known, _)| known.id() == queue.id());
        let at = known.unwrap_or_else(|| {
            self.queues.push((queue, Vec::new()));
            self.queues.len() - 1
        });
        &mut self.queues[at].1
    }

    fn of_delay(&mut self, delay: Arc<DelayHandle>) -> &mut Vec<delay::Command> {
        let known = self
            .delays
            .iter()
            .rposition(|(known, _)| known.id() == delay.id());
        let at = known.unwrap_or_else(|| {
            self.delays.push((delay, Vec::new()));
            self.delays.len() - 1
        });
        &mut self.delays[at].1
    }

    fn submit(self) {
        for (queue, mut commands) in self.queues {
            queue.submit(&mut commands);
        }
        for (delay, mut commands) in self.delays {
            delay.submit(&mut commands);
        }
    }
}

impl Transfers {
    fn route(&self, dead: Dead, registry: &Registry, batches: &mut Batches) {
        let Dead {
            queue,
            vhost,
            to,
            at,
            transfers,
        } = dead;
        let Some(vhost) = vhost.upgrade() else {
            return;
        };
        let snapshot = vhost.snapshot();
        for Transfer {
            seq,
            reason,
            message,
            was_delivered,
        } in transfers
        {
            let death = Death {
                queue: &queue.name,
                reason,
                at,
                was_delivered,
            };
            let Some(dead) = DeadMessage::of(&message, death, &to) else {
                self.arrived(queue.id, seq);
                continue;
            };
            let route = vhost.route_dead(&snapshot, &dead);
            let from = (queue.id, seq);
            let goes_to = |target: &QueueRecord| !dead.is_cycle(&target.name);
            self.forward(from, &dead.message, &route, goes_to, registry, batches);
        }
    }

    fn route_due(&self, due: Due, registry: &Registry, batches: &mut Batches) {
        let Due {
            delay,
            exchange,
            vhost,
            released,
        } = due;
        let Some(vhost) = vhost.upgrade() else {
            return;
        };
        let snapshot = vhost.snapshot();
        for Released { seq, message } in released {
            let route = vhost.route_due(&snapshot, &exchange, &message);
            let from = (delay, Some(seq));
            self.forward(from, &message, &route, |_| true, registry, batches);
        }
    }

    /// Sends a message on its way, and notes from where it came.
    fn forward(
        &self,
        (queue, seq): (QueueId, Option<Seq>),
        message: &Message,
        route: &Route,
        goes_to: impl Fn(&QueueRecord) -> bool,
        registry: &Registry,
        batches: &mut Batches,
    ) {
        let targets = route.queues.iter().filter_map(|id| registry.queue(*id));
        let targets: Vec<_> = targets.filter(|target| goes_to(target.record())).collect();
        let holds = route.held_by.iter();
        let holds = holds.filter_map(|hold| Some((registry.delay(hold.delay)?, hold.wait)));
        let holds: Vec<_> = holds.collect();
        let open = targets.len() + holds.len();
        if open == 0 {
            self.arrived(queue, seq);
            return;
        }
        let confirm = Some(self.begin(queue, seq, open));
        for target in targets {
            batches.of(target).push(Command::Enqueue {
                message: message.clone(),
                confirm,
            });
        }
        for (delay, wait) in holds {
            batches.of_delay(delay).push(delay::Command::Hold {
                message: wait.held(message),
                due: wait.due,
                confirm,
            });
        }
    }
}
