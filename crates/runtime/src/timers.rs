//! When queues want to hear that time has passed: one sorted set and one task for all of them.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use leveret_core::ids::{QueueId, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{clock::Clock, panics::contained, registry::Registry};

/// Nobody sleeps longer: the clock has to be compared with the system's now and then.
const NAP_MAX: Duration = Duration::from_secs(60);

/// The moments that queues wait for, at most one for each; what keeps messages on exchanges counts as one.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: Mutex<BTreeSet<(Timestamp, QueueId)>>,
    sooner: Notify,
}

impl Timers {
    /// Moves a queue's moment to `at`.
    pub(crate) fn set(&self, queue: QueueId, before: Option<Timestamp>, at: Timestamp) {
        let mut due = self.due.lock();
        if let Some(before) = before {
            due.remove(&(before, queue));
        }
        due.insert((at, queue));
        let is_first = due.first() == Some(&(at, queue));
        drop(due);
        if is_first {
            self.sooner.notify_one();
        }
    }

    /// The queue waits for nothing any more.
    pub(crate) fn clear(&self, queue: QueueId, at: Timestamp) {
        self.due.lock().remove(&(at, queue));
    }

    /// Tells queues that their moment has come, for as long as the broker runs.
    pub(crate) async fn run(self: Arc<Self>, clock: Arc<Clock>, registry: Arc<Registry>) {
        loop {
            clock.follow();
            for queue in self.take_due(clock.now()) {
                // A bug in one queue is told where it happened, and the others are called all the same.
                let _ = contained(|| {
                    if let Some(handle) = registry.queue(queue) {
                        handle.tick();
                    } else if let Some(delay) = registry.delay(queue) {
                        delay.tick();
                    }
                });
            }
            // A queue with more to do than it does in one go asks for its next turn at once: others of this thread go first.
            tokio::task::yield_now().await;
            let next = self.due.lock().first().map(|(at, _)| *at);
            let nap = next.map_or(NAP_MAX, |at| {
                Duration::from_millis(at.get().saturating_sub(clock.now().get()))
            });
            // Woken or not, the set says what to do.
            let _ = tokio::time::timeout(nap.min(NAP_MAX), self.sooner.notified()).await;
        }
    }

    fn take_due(&self, now: Timestamp) -> Vec<QueueId> {
        let mut due = self.due.lock();
        let later = due.split_off(&(now.plus_millis(1), QueueId::default()));
        let taken = std::mem::replace(&mut *due, later);
        taken.into_iter().map(|(_, queue)| queue).collect()
    }
}
