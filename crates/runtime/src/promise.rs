//! What is owed once writes are in the store.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, Ordering},
};

use leveret_core::queue::{Command, Confirm, Refill};
use leveret_store::Store;
use tokio::{runtime, sync::oneshot};
use tracing::error;

use crate::{outbox::Answered, queue_handle::QueueHandle, registry::Registry};

/// One debt, paid by [`Payer::pay`] after the commit it was handed in with.
#[derive(Debug)]
pub(crate) enum Promise {
    /// A publisher waits for its confirm.
    Confirm(Confirm),
    /// A queue's next rows can be read: everything written before is in the store.
    Refill(Refill, Weak<QueueHandle>),
    /// The metadata up to this unit is on disk.
    MetadataStored(u64),
    /// Somebody waits for exactly this commit.
    Barrier(oneshot::Sender<()>),
}

/// Keeps promises, on the committer's thread.
#[derive(Debug)]
pub(crate) struct Payer {
    pub(crate) registry: Arc<Registry>,
    pub(crate) store: Arc<Store>,
    pub(crate) readers: runtime::Handle,
    pub(crate) metadata_stored: Arc<AtomicU64>,
    /// Confirms on their way to one connection; kept for its capacity.
    pub(crate) answered: Vec<Answered>,
}

impl Payer {
    /// Pays in order. Confirms that stand together for one connection leave together.
    pub(crate) fn pay(&mut self, promises: &mut Vec<Promise>) {
        for promise in promises.drain(..) {
            match promise {
                Promise::Confirm(confirm) => {
                    let connection = confirm.channel.connection;
                    if self
                        .answered
                        .first()
                        .is_some_and(|first| first.confirm.channel.connection != connection)
                    {
                        self.flush();
                    }
                    self.answered.push(Answered {
                        confirm,
                        accepted: true,
                    });
                }
                Promise::Refill(refill, queue) => self.read(refill, queue),
                Promise::MetadataStored(unit) => {
                    self.metadata_stored.fetch_max(unit, Ordering::AcqRel);
                }
                Promise::Barrier(waiter) => {
                    // Whoever waited may be gone with its connection.
                    let _ = waiter.send(());
                }
            }
        }
        self.flush();
    }

    fn flush(&mut self) {
        if let Some(first) = self.answered.first()
            && let Some(outbox) = self.registry.outbox(first.confirm.channel.connection)
        {
            outbox.confirm(&self.answered);
        }
        self.answered.clear();
    }

    fn read(&self, refill: Refill, queue: Weak<QueueHandle>) {
        let store = self.store.clone();
        self.readers.spawn_blocking(move || {
            let Some(handle) = queue.upgrade() else {
                return;
            };
            let Refill {
                queue,
                priority,
                from,
                until,
                rows_max,
                bytes_max,
            } = refill;
            match store.read_messages(queue, priority, from, until, rows_max, bytes_max) {
                Ok(rows) => handle.submit(&mut vec![Command::Refilled(rows)]),
                // Nothing damaged is served and nothing is skipped: the queue stands still here.
                Err(damage) => {
                    let name = &handle.record().name;
                    error!(queue = %name, %damage, "stored messages cannot be read; the queue stands still before them");
                }
            }
        });
    }
}
