//! Stored messages are read for their queues, on threads that may wait for the disk.
//!
//! ```text
//!   queue ──refill──▶ store ──rows──▶ queue          what is there already, past all writes that wait
//!            │          │ none
//!            └──────▶ committer ──▶ store ──▶ queue  else behind them: now it is known what there is
//!                           ▲         │ cannot be read
//!                           └─ pause ─┘               the queue is told, and the same is tried until it can
//! ```

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use leveret_core::{
    delay,
    queue::{Command, Refill, Refilled},
};
use leveret_store::{ReadError, Store};
use leveret_wire::value::ShortString;
use tokio::{runtime, time};
use tracing::{error, info};

use crate::{delay_handle::DelayHandle, queue_handle::QueueHandle};

/// The first pause before a read that failed is tried again; each one is twice as long as the one before.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// And none is longer.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// So many failures may be over before anybody minds: those who wait for an answer are told after the next one.
const GLITCHES_MAX: u32 = 3;

/// How long to wait after so many failures, one after the other.
pub(crate) fn pause_after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    (PAUSE_MIN * (1 << doublings)).min(PAUSE_MAX)
}

/// Whose rows are read.
#[derive(Debug)]
pub(crate) enum Reader {
    Queue(Weak<QueueHandle>),
    /// Messages that wait on an exchange.
    Delay(Weak<DelayHandle>),
}

/// The same while the rows are read.
enum Reading {
    Queue(Arc<QueueHandle>),
    Delay(Arc<DelayHandle>),
}

impl Reader {
    fn upgrade(&self) -> Option<Reading> {
        match self {
            Self::Queue(queue) => queue.upgrade().map(Reading::Queue),
            Self::Delay(delay) => delay.upgrade().map(Reading::Delay),
        }
    }
}

impl Reading {
    fn give(&self, rows: Refilled) {
        match self {
            Self::Queue(queue) => queue.submit(&mut vec![Command::Refilled(rows)]),
            Self::Delay(delay) => delay.submit(&mut vec![delay::Command::Refilled(rows)]),
        }
    }

    /// Whoever waits for the rows is not to wait any longer.
    fn give_up(&self) {
        match self {
            Self::Queue(queue) => queue.submit(&mut vec![Command::Unreadable]),
            // Nobody waits for what is kept until its time.
            Self::Delay(_) => {}
        }
    }

    fn name(&self) -> &ShortString {
        match self {
            Self::Queue(queue) => &queue.record().name,
            Self::Delay(delay) => delay.exchange(),
        }
    }
}

/// Reads of stored messages, for as long as there is a committer, which keeps the store open.
#[derive(Debug, Clone)]
pub(crate) struct Readers {
    pub(crate) store: Weak<Store>,
    pub(crate) threads: runtime::Handle,
}

impl Readers {
    /// Everything that is to be there is there.
    pub(crate) fn read(&self, refill: Refill, reader: Reader) {
        let read = Read {
            readers: self.clone(),
            refill,
            reader,
            failures: 0,
            told: None,
        };
        self.threads.spawn_blocking(|| read.run());
    }

    /// Some of what is to be there may wait for the committer, which a queue with a backlog need not wait for as well.
    pub(crate) fn read_at_once(&self, refill: Refill, queue: Weak<QueueHandle>) {
        let store = self.store.clone();
        self.threads.spawn_blocking(move || {
            let (Some(store), Some(queue)) = (store.upgrade(), queue.upgrade()) else {
                return;
            };
            // What went wrong here does so again behind the writes, where it is told.
            let rows = store.refill(&refill).ok().and_then(Refilled::open_ended);
            drop(store);
            match rows {
                Some(rows) => queue.submit(&mut vec![Command::Refilled(rows)]),
                None => queue.read_behind_writes(refill),
            }
        });
    }

    /// Calls `then` where it may wait for the disk, after the pause that so many failures ask for.
    pub(crate) fn later(&self, failures: u32, then: impl FnOnce() + Send + 'static) {
        let threads = self.threads.clone();
        self.threads.spawn(async move {
            time::sleep(pause_after(failures)).await;
            threads.spawn_blocking(then);
        });
    }
}

/// One read, tried until it succeeds.
#[derive(Debug)]
struct Read {
    readers: Readers,
    refill: Refill,
    reader: Reader,
    failures: u32,
    /// What was logged last.
    told: Option<ReadError>,
}

impl Read {
    fn run(self) {
        let (Some(store), Some(reading)) = (self.readers.store.upgrade(), self.reader.upgrade())
        else {
            return;
        };
        let read = store.refill(&self.refill);
        drop(store);
        match read {
            Ok(rows) => {
                if self.failures > 0 {
                    info!(queue = %reading.name(), "stored messages can be read again");
                }
                reading.give(rows);
            }
            Err(error) => self.failed(error, &reading),
        }
    }

    /// Nothing damaged is served and nothing is skipped: the queue stands still here. It also tries again in front of damage,
    /// since a purge may have taken that away.
    #[cold]
    fn failed(mut self, error: ReadError, reading: &Reading) {
        self.failures = self.failures.saturating_add(1);
        if error.is_damage() || self.failures > GLITCHES_MAX {
            reading.give_up();
        }
        if self.told.as_ref() != Some(&error) {
            error!(
                queue = %reading.name(), %error,
                "stored messages cannot be read; the queue stands still before them, and tries again now and then"
            );
            self.told = Some(error);
        }
        let readers = self.readers.clone();
        readers.later(self.failures, || self.run());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_half_a_minute() {
        assert_eq!(pause_after(1), PAUSE_MIN);
        assert_eq!(pause_after(3), PAUSE_MIN * 4);
        assert_eq!(pause_after(9), Duration::from_millis(25_600));
        for failures in [10, 100, u32::MAX] {
            assert_eq!(pause_after(failures), PAUSE_MAX);
        }
    }
}
