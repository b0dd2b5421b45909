//! Stored messages are read for their queues, on threads that may wait for the disk.
//!
//! ```text
//!   queue ──refill──▶ store ──rows──▶ queue          what is there already, past all writes that wait
//!            │          │ none
//!            └──────▶ committer ──▶ store ──▶ queue  else behind them: now it is known what there is
//! ```

use std::sync::{Arc, Weak};

use leveret_core::{
    delay,
    queue::{Command, Refill, Refilled},
};
use leveret_store::Store;
use leveret_wire::value::ShortString;
use tokio::runtime;
use tracing::error;

use crate::{delay_handle::DelayHandle, queue_handle::QueueHandle};

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
        let store = self.store.clone();
        self.threads.spawn_blocking(move || {
            if let (Some(store), Some(reading)) = (store.upgrade(), reader.upgrade())
                && let Some(rows) = look_up(&store, &refill, reading.name())
            {
                reading.give(rows);
            }
        });
    }

    /// Some of what is to be there may wait for the committer, which a queue with a backlog need not wait for as well.
    pub(crate) fn read_at_once(&self, refill: Refill, queue: Weak<QueueHandle>) {
        let store = self.store.clone();
        self.threads.spawn_blocking(move || {
            let (Some(store), Some(queue)) = (store.upgrade(), queue.upgrade()) else {
                return;
            };
            let Some(rows) = look_up(&store, &refill, &queue.record().name) else {
                return;
            };
            drop(store);
            match rows.open_ended() {
                Some(rows) => queue.submit(&mut vec![Command::Refilled(rows)]),
                None => queue.read_behind_writes(refill),
            }
        });
    }
}

fn look_up(store: &Store, refill: &Refill, name: &ShortString) -> Option<Refilled> {
    let read = store.refill(refill);
    // Nothing damaged is served and nothing is skipped: the queue stands still here.
    read.inspect_err(|damage| {
        error!(queue = %name, %damage, "stored messages cannot be read; the queue stands still before them");
    })
    .ok()
}
