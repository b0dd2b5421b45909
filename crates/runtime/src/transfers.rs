//! Dead messages go to their new queues: one task routes and enqueues them, and tells their old queue
//! once they have arrived.
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
    ids::{ChannelKey, ConnectionId, ConsumerId, QueueId, Seq, Timestamp},
    message::Message,
    queue::{Command, Confirm, Delivery, Transfer},
    record::QueueRecord,
};
use parking_lot::Mutex;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::{
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

/// What the task is told. Unbounded, but every message in it is kept by its old queue anyway.
#[derive(Debug)]
enum News {
    Died(Dead),
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
                    News::Arrived(queue, seq) => {
                        if let Some(handle) = registry.queue(queue) {
                            batches.of(handle).push(Command::Transferred { seq });
                        }
                    }
                }
            }
            for (queue, mut commands) in batches.0 {
                queue.submit(&mut commands);
            }
        }
    }
}

/// Commands for several queues, in the order in which these were met.
#[derive(Debug, Default)]
struct Batches(Vec<(Arc<QueueHandle>, Vec<Command>)>);

impl Batches {
    fn of(&mut self, queue: Arc<QueueHandle>) -> &mut Vec<Command> {
        let known = self
            .0
            .iter()
            .rposition(|(known, _)| known.id() == queue.id());
        let at = known.unwrap_or_else(|| {
            self.0.push((queue, Vec::new()));
            self.0.len() - 1
        });
        &mut self.0[at].1
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
        } in transfers
        {
            let death = Death {
                queue: &queue.name,
                reason,
                at,
            };
            let dead = DeadMessage::of(&message, death, &to);
            let targets: Vec<_> = dead
                .iter()
                .flat_map(|dead| vhost.route_dead(&snapshot, dead))
                .filter_map(|id| registry.queue(id))
                .filter(|target| {
                    dead.as_ref()
                        .is_some_and(|dead| !dead.is_cycle(&target.record().name))
                })
                .collect();
            let Some(dead) = dead.filter(|_| !targets.is_empty()) else {
                self.arrived(queue.id, seq);
                continue;
            };
            let confirm = self.begin(queue.id, seq, targets.len());
            for target in targets {
                batches.of(target).push(Command::Enqueue {
                    message: dead.message.clone(),
                    confirm: Some(confirm),
                });
            }
        }
    }
}
