//! What is owed once writes are in the store.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, Ordering},
};

use leveret_core::{
    ids::{QueueId, Seq},
    queue::{Confirm, Refill, Refilled},
    stream::{Ask, MESSAGES, SEGMENTS_MAX, Told},
};
use leveret_store::Store;
use tokio::{runtime, sync::oneshot};
use tracing::error;

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
    pub(crate) store: Arc<Store>,
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
        let store = self.store.clone();
        self.threads.spawn_blocking(move || {
            if let Some(handle) = stream.upgrade() {
                handle.tell(look_up(&store, handle.id(), ask));
            }
        });
    }
}

/// What the store has to say to a stream. Nothing damaged is served: a reader stands still in front of it.
fn look_up(store: &Store, stream: QueueId, ask: Ask) -> Told {
    match ask {
        Ask::Stored { until } => Told::Stored { until },
        Ask::Rows {
            reader,
            from,
            until,
            rows_max,
            bytes_max,
        } => match store.read_messages(stream, MESSAGES, from, until, rows_max, bytes_max) {
            Ok(rows) => Told::Rows { reader, rows },
            Err(damage) => {
                error!(%stream, %damage, "stored messages cannot be read");
                Told::Unreadable { reader }
            }
        },
        Ask::Since {
            reader,
            from,
            until,
            at,
        } => match store.first_since(stream, MESSAGES, from, until, at) {
            Ok(found) => Told::Since { reader, found },
            Err(damage) => {
                error!(%stream, %damage, "the time of stored messages cannot be read");
                Told::Unreadable { reader }
            }
        },
        Ask::Segments {
            priority,
            from,
            until,
        } => {
            let rows = store.read_messages(stream, priority, from, until, SEGMENTS_MAX, usize::MAX);
            Told::Segments(rows.unwrap_or_else(|damage| {
                error!(%stream, %damage, "the segments of a stream cannot be read");
                Refilled::default()
            }))
        }
    }
}
