//! Messages of a queue as they stand, in memory and on disk; nobody and nothing is disturbed.

use std::collections::{BTreeMap, BTreeSet};

use leveret_core::{
    ids::{QueueId, Seq, Timestamp},
    queue::{Found, Look, Seen, Standing, StoredMessage},
};
use leveret_store::{ReadError, Store};

use super::QueueHandle;

/// Bytes that one look reads from the disk, of each priority.
const LOOK_BYTES_MAX: usize = 4 * 1024 * 1024;

impl QueueHandle {
    /// Messages as they stand, by position. What waits to be written is not there yet.
    ///
    /// # Errors
    ///
    /// When what is on disk cannot be read.
    pub async fn look(&self, look: Look) -> Result<Vec<Seen>, ReadError> {
        let found = self.guarded.lock().queue.look(look);
        if found.cold.is_empty() && found.single.is_empty() {
            return Ok(found.seen);
        }
        let readers = &self.services.readers;
        let (store, queue) = (readers.store.clone(), self.record.id);
        let read = readers.threads.spawn_blocking(move || {
            let Some(store) = store.upgrade() else {
                return Ok(found.seen);
            };
            with_stored(&store, queue, look, found)
        });
        let mut seen = read.await.unwrap_or_else(|_| Ok(Vec::new()))?;
        let guarded = self.guarded.lock();
        for seen in seen.iter_mut().filter(|seen| seen.attempts == 0) {
            seen.attempts = guarded.queue.attempts_of(seen.seq);
        }
        Ok(seen)
    }
}

/// What was found in memory, and what is on disk between and behind it.
fn with_stored(
    store: &Store,
    queue: QueueId,
    look: Look,
    found: Found,
) -> Result<Vec<Seen>, ReadError> {
    let mut seen = found.seen;
    // One that came into memory or left it while it was looked up is there already.
    let mut known: BTreeSet<Seq> = seen.iter().map(|seen| seen.seq).collect();
    let retries: BTreeMap<Seq, Timestamp> = found.cold_retries.into_iter().collect();
    // Where a page of one priority ended for its bytes nothing behind that can be told of the others.
    let mut end = None;
    for part in found.cold {
        let page = store.read_messages(
            queue,
            part.priority,
            part.from,
            part.until,
            look.limit,
            LOOK_BYTES_MAX,
        )?;
        if page.rows.len() < look.limit
            && let Some(next) = page.next
        {
            end = Some(end.map_or(next, |end: Seq| end.min(next)));
        }
        for row in page.rows {
            let held = retries.get(&row.seq);
            let standing = match held {
                Some(until) if look.retrying => Standing::Retrying(*until),
                None if look.ready => Standing::Ready,
                Some(_) | None => continue,
            };
            let redelivered = held.is_some() || row.seq < found.redelivered_below;
            if known.insert(row.seq) {
                seen.push(stored(row, standing, redelivered));
            }
        }
    }
    for one in found.single {
        let (from, until) = (one.seq, one.seq.next());
        let page = store.read_messages(queue, one.priority, from, until, 1, LOOK_BYTES_MAX)?;
        // Whoever has it now may be the first one.
        let redelivered = !matches!(one.standing, Standing::Unacked(_));
        // It may have been settled meanwhile.
        let row = page.rows.into_iter().next();
        seen.extend(row.map(|row| stored(row, one.standing, redelivered)));
    }
    seen.sort_by_key(|seen| seen.seq);
    seen.retain(|seen| end.is_none_or(|end| seen.seq < end));
    seen.truncate(look.limit);
    Ok(seen)
}

/// A message that is on disk; its attempts are known in memory.
fn stored(row: StoredMessage, standing: Standing, redelivered: bool) -> Seen {
    Seen {
        seq: row.seq,
        standing,
        redelivered,
        attempts: 0,
        came: Some(row.enqueued_at),
        expires: row.due.filter(|due| *due != Timestamp::NEVER),
        message: row.message,
    }
}
