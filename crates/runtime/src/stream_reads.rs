//! What streams ask of the store, answered on threads that may wait for the disk.

use std::sync::Weak;

use leveret_core::{
    ids::QueueId,
    queue::Refilled,
    stream::{Ask, MESSAGES, SEGMENTS_MAX, Told},
};
use leveret_store::{ReadError, Store};
use tracing::error;

use crate::{queue_handle::QueueHandle, readers::Readers};

impl Readers {
    /// Answers once everything is in the store that was written before.
    pub(crate) fn answer(&self, ask: Ask, stream: Weak<QueueHandle>) {
        if let Ask::Pause { reader, failures } = ask {
            self.later(failures, move || {
                if let Some(handle) = stream.upgrade() {
                    handle.tell(Told::Paused { reader });
                }
            });
            return;
        }
        let readers = self.clone();
        self.threads
            .spawn_blocking(move || readers.answer_here(ask, stream, 0));
    }

    fn answer_here(&self, ask: Ask, stream: Weak<QueueHandle>, failures: u32) {
        let (Some(store), Some(handle)) = (self.store.upgrade(), stream.upgrade()) else {
            return;
        };
        let told = look_up(&store, handle.id(), ask);
        drop(store);
        if let Some(told) = told {
            handle.tell(told);
            return;
        }
        let readers = self.clone();
        let failures = failures.saturating_add(1);
        self.later(failures, move || readers.answer_here(ask, stream, failures));
    }
}

/// What the store has to say to a stream; `None` when it is to be asked again. Nothing damaged is served: a reader stands
/// still in front of it.
fn look_up(store: &Store, stream: QueueId, ask: Ask) -> Option<Told> {
    let unreadable = |reader, error: &ReadError| Told::Unreadable {
        reader,
        is_damage: error.is_damage(),
    };
    Some(match ask {
        Ask::Stored { until } => Told::Stored { until },
        Ask::Pause { reader, .. } => Told::Paused { reader },
        Ask::Rows {
            reader,
            from,
            until,
            rows_max,
            bytes_max,
        } => match store.read_messages(stream, MESSAGES, from, until, rows_max, bytes_max) {
            Ok(rows) => Told::Rows { reader, rows },
            Err(error) => {
                error!(%stream, %error, "stored messages cannot be read");
                unreadable(reader, &error)
            }
        },
        Ask::Since {
            reader,
            from,
            until,
            at,
        } => match store.first_since(stream, MESSAGES, from, until, at) {
            Ok(found) => Told::Since { reader, found },
            Err(error) => {
                error!(%stream, %error, "the time of stored messages cannot be read");
                unreadable(reader, &error)
            }
        },
        Ask::Segments {
            priority,
            from,
            until,
        } => {
            let mut segments = Refilled::default();
            let mut next = Some(from);
            // A page also ends before what cannot be read, which the next one then begins with.
            while let Some(from) = next
                && segments.rows.len() < SEGMENTS_MAX
            {
                let rows_max = SEGMENTS_MAX - segments.rows.len();
                match store.read_messages(stream, priority, from, until, rows_max, usize::MAX) {
                    Ok(page) => {
                        segments.rows.extend(page.rows);
                        next = page.next;
                    }
                    Err(error) => {
                        error!(%stream, %error, "the segments of a stream cannot be read");
                        if !error.is_damage() {
                            return None;
                        }
                        break;
                    }
                }
            }
            Told::Segments(segments)
        }
    })
}
