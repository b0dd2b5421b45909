//! Messages that died, or have waited on an exchange long enough, go to their new queues: one task routes
//! and enqueues them, and lets go of them where they came from, in one unit of the store.
//!
//! ```text
//!   queue ──died──▶ task ──┬─ enqueue ───▶ new queues
//!     ▲                    │                              one commit: in one of the two after a crash,
//!     └────Transferred─────┘                              never in both, never in none
//! ```
//!
//! A task of its own, because no two queues' locks are ever held at once, and because a chain of
//! queues must not become a chain of calls. A new queue that refuses the message has answered too: it is
//! dead, and there is nobody to tell.

use std::{
    pin::pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use leveret_core::{
    arguments::DeadLetter,
    dead_letter::{DeadMessage, Death},
    delay::{self, Released},
    ids::{QueueId, Seq, Timestamp},
    message::Message,
    queue::{Command, Transfer},
    record::QueueRecord,
    vhost::Route,
};
use leveret_wire::value::ShortString;
use tokio::sync::{
    Notify,
    mpsc::{self, UnboundedReceiver, UnboundedSender},
};

use crate::{
    broker::Services, delay_handle::DelayHandle, queue_handle::QueueHandle, registry::Registry,
    vhost_handle::VhostHandle,
};

/// Work taken at once: commands for one queue then share one hold of its lock, and all of them a commit.
const BATCH_MAX: usize = 256;

/// Messages on their way from which on publishers wait: what they publish may be what makes others die.
const WAITING_MAX: usize = 100_000;

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
        let mut news = Vec::new();
        while self.0.recv_many(&mut news, BATCH_MAX).await > 0 {
            let messages = news.iter().map(News::len).sum();
            let mut batches = Batches::default();
            for each in news.drain(..) {
                match each {
                    News::Died(dead) => route(dead, &services.registry, &mut batches),
                    News::Due(due) => route_due(due, &services.registry, &mut batches),
                }
            }
            services.committer.as_one_unit(|| batches.submit());
            services.transfers.have_arrived(messages);
            // A long chain of deaths must not keep others from this thread.
            tokio::task::yield_now().await;
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

    /// Nobody needs the message there any more.
    fn let_go(&mut self, queue: QueueId, seq: Option<Seq>, registry: &Registry) {
        let Some(seq) = seq else {
            return;
        };
        if let Some(handle) = registry.queue(queue) {
            self.of(handle).push(Command::Transferred { seq });
        } else if let Some(delay) = registry.delay(queue) {
            self.of_delay(delay).push(delay::Command::Sent { seq });
        }
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

fn route(dead: Dead, registry: &Registry, batches: &mut Batches) {
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
            batches.let_go(queue.id, seq, registry);
            continue;
        };
        let route = vhost.route_dead(&snapshot, &dead);
        let from = (queue.id, seq);
        let goes_to = |target: &QueueRecord| !dead.is_cycle(&target.name);
        forward(from, &dead.message, &route, goes_to, registry, batches);
    }
}

fn route_due(due: Due, registry: &Registry, batches: &mut Batches) {
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
        forward(from, &message, &route, |_| true, registry, batches);
    }
}

/// Sends a message on its way, and lets go of it where it came from.
fn forward(
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
    for target in targets {
        batches.of(target).push(Command::Enqueue {
            message: message.clone(),
            confirm: None,
        });
    }
    for (delay, wait) in holds {
        batches.of_delay(delay).push(delay::Command::Hold {
            message: wait.held(message),
            due: wait.due,
            confirm: None,
        });
    }
    batches.let_go(queue, seq, registry);
}
