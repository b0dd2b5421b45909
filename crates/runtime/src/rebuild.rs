//! A queue that a bug has broken is put back as it was stored, while the broker runs.
//!
//! ```text
//!   panic ──▶ broken: refuses ──behind its last writes──▶ read counters ──▶ new handle in its place
//! ```
//!
//! It is what a start would do with this queue: messages that were transient are gone, those that somebody may have had are
//! flagged redelivered, and consumers, who were cancelled, have to come again. The new queue has a handle of its own, so that
//! whatever is still on its way to the broken one, rows and answers of the store above all, ends there.

use std::sync::Arc;

use tokio::time;
use tracing::{error, warn};

use crate::{queue_handle::QueueHandle, readers::pause_after};

/// One that breaks so often without having held for [`HOLDS_MILLIS`] in between is left alone until the next start: what
/// breaks it is stored with it, or comes back at once.
const TRIES_MAX: u32 = 5;

/// How long a queue must have held to be taken for a whole one.
pub(crate) const HOLDS_MILLIS: u64 = 60_000;

/// Whether a queue that has broken as often as this is put back.
pub(crate) const fn is_worth_it(broke: u32) -> bool {
    broke <= TRIES_MAX
}

/// Puts a queue in the place of a broken one.
pub(crate) async fn rebuild(broken: Arc<QueueHandle>) {
    let services = broken.services().clone();
    // What it wrote while it was whole may still wait for the disk.
    services.barrier().await;
    let name = &broken.record().name;
    let mut failures = 0;
    let (state, attempts) = loop {
        let (store, id) = (services.readers.store.clone(), broken.id());
        let read = services.readers.threads.spawn_blocking(move || {
            let store = store.upgrade()?;
            Some(store.recover_queue(id))
        });
        // Without a store the broker stops.
        let Ok(Some(read)) = read.await else {
            return;
        };
        match read {
            Ok(read) => break read,
            Err(damage) if damage.is_damage() => {
                error!(queue = %name, %damage, "the broken queue cannot be read; it stays closed");
                return;
            }
            Err(error) => {
                error!(queue = %name, %error, "the broken queue cannot be read yet");
                failures += 1;
                time::sleep(pause_after(failures)).await;
            }
        }
    };
    let Some(vhost) = broken.vhost() else {
        return;
    };
    let state = state.unwrap_or_default();
    if vhost.replace_broken(&broken, state, attempts) {
        warn!(queue = %name, messages = state.messages, "the broken queue is back as it was stored");
    }
}
