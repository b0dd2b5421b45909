//! What is owed once writes are in the store.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, Ordering},
};

use leveret_core::{
    ids::Seq,
    queue::{Confirm, Refill},
    stream::{Ask, Told},
};
use tokio::{runtime, sync::oneshot};

use crate::{
    outbox::Answered,
    queue_handle::QueueHandle,
    readers::{Reader, Readers},
    registry::Registry,
};

/// One debt, paid by [`Payer::pay`] after the commit it was handed in with.
#[derive(Debug)]
pub(crate) enum Promise {
    /// A publisher waits for its confirm.
    Confirm(Confirm),
    /// A queue's next rows can be read: everything written before is in the store.
    Refill(Refill, Reader),
    /// A stream wants to know something of the store.
    Ask(Box<Ask>, Weak<QueueHandle>),
    /// The metadata up to this unit is on disk.
    MetadataStored(u64),
    /// Somebody waits for exactly this commit.
    Barrier(oneshot::Sender<()>),
}

/// Keeps promises, on the committer's thread.
#[derive(Debug)]
pub(crate) struct Payer {
    pub(crate) registry: Arc<Registry>,
    pub(crate) readers: Readers,
    pub(crate) threads: runtime::Handle,
    pub(crate) metadata_stored: Arc<AtomicU64>,
    /// Confirms on their way to one connection; kept for its capacity.
    pub(crate) answered: Vec<Answered>,
    /// Streams that have to be told what is on disk, once for all of their units in one commit.
    pub(crate) stored: Vec<(Weak<QueueHandle>, Seq)>,
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
                Promise::Refill(refill, reader) => self.readers.read(refill, reader),
                Promise::Ask(ask, queue) => self.answer(*ask, queue),
                Promise::MetadataStored(unit) => {
                    self.metadata_stored.fetch_max(unit, Ordering::AcqRel);
                }
                Promise::Barrier(waiter) => {
                    // Confirms of the same commit are out before: a stop closes connections behind a barrier.
                    self.flush();
                    // Whoever waited may be gone with its connection.
                    let _ = waiter.send(());
                }
            }
        }
        self.flush();
        for (stream, until) in self.stored.drain(..) {
            // A stream delivers now, which must not keep the next commit waiting.
            self.threads.spawn(async move {
                if let Some(handle) = stream.upgrade() {
                    handle.tell(Told::Stored { until });
                }
            });
        }
    }

    fn flush(&mut self) {
        if let Some(first) = self.answered.first()
            && let Some(outbox) = self.registry.outbox(first.confirm.channel.connection)
        {
            outbox.confirm(&self.answered);
        }
        self.answered.clear();
    }

    fn answer(&mut self, ask: Ask, stream: Weak<QueueHandle>) {
        if let Ask::Stored { until } = ask {
            let known = self.stored.iter_mut().find(|(it, _)| it.ptr_eq(&stream));
            match known {
                Some((_, stored)) => *stored = until,
                None => self.stored.push((stream, until)),
            }
            return;
        }
        self.readers.answer(ask, stream);
    }
}
