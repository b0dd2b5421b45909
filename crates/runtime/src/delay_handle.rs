//! The waiting messages of one exchange behind their lock: commands in, effects carried out.

use std::sync::{Arc, Weak};

use leveret_core::{
    delay::{Command, Delay, Effects},
    ids::{QueueId, Timestamp},
    record::QueueState,
};
use leveret_wire::value::ShortString;
use parking_lot::Mutex;
use tracing::error;

use crate::{
    broker::Services, promise::Promise, readers::Reader, transfers::Due, vhost_handle::VhostHandle,
};

/// What keeps the messages of one exchange until their time.
#[derive(Debug)]
pub struct DelayHandle {
    id: QueueId,
    exchange: ShortString,
    vhost: Weak<VhostHandle>,
    services: Arc<Services>,
    this: Weak<Self>,
    guarded: Mutex<Guarded>,
}

#[derive(Debug)]
struct Guarded {
    delay: Delay,
    /// Filled and emptied within one hold of the lock; kept for their capacity.
    effects: Effects,
    promises: Vec<Promise>,
    /// When the timers will call.
    timer: Option<Timestamp>,
}

impl DelayHandle {
    pub(crate) fn new(
        id: QueueId,
        durable: bool,
        exchange: ShortString,
        vhost: Weak<VhostHandle>,
        services: Arc<Services>,
        stored: Option<QueueState>,
    ) -> Arc<Self> {
        let delay = match stored {
            Some(state) => Delay::recovered(id, durable, state),
            None => Delay::new(id, durable),
        };
        Arc::new_cyclic(|this| Self {
            id,
            exchange,
            vhost,
            services,
            this: this.clone(),
            guarded: Mutex::new(Guarded {
                delay,
                effects: Effects::default(),
                promises: Vec::new(),
                timer: None,
            }),
        })
    }

    /// Its number among queues.
    #[must_use]
    pub const fn id(&self) -> QueueId {
        self.id
    }

    /// The exchange they wait on.
    pub(crate) const fn exchange(&self) -> &ShortString {
        &self.exchange
    }

    /// Messages that wait.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.guarded.lock().delay.pending()
    }

    /// Applies `commands` in order and runs what they ask for. Never waits.
    pub fn submit(&self, commands: &mut Vec<Command>) {
        let mut guarded = self.guarded.lock();
        let Guarded {
            delay,
            effects,
            promises,
            timer,
        } = &mut *guarded;
        let now = self.services.clock.now();
        for command in commands.drain(..) {
            delay.apply(now, command, effects);
        }
        delay.seal(effects);
        let missing = std::mem::take(&mut effects.missing);
        if missing > 0 {
            error!(exchange = %self.exchange, missing, "stored messages were counted but not found");
        }
        if !effects.released.is_empty() {
            self.services.transfers.send_due(Due {
                delay: self.id,
                exchange: self.exchange.clone(),
                vhost: self.vhost.clone(),
                released: std::mem::take(&mut effects.released),
            });
        }
        let sync = !effects.promises.is_empty();
        promises.extend(effects.promises.drain(..).map(Promise::Confirm));
        if let Some(refill) = effects.refill.take() {
            promises.push(Promise::Refill(refill, Reader::Delay(self.this.clone())));
        }
        if !effects.writes.is_empty() || !promises.is_empty() {
            let committer = &self.services.committer;
            committer.send(&mut effects.writes, promises, sync);
        }
        // An earlier call does no harm; it is then said anew when the next one is wanted.
        if let Some(at) = delay.next_due()
            && timer.is_none_or(|timer| at < timer)
        {
            let before = timer.replace(at);
            self.services.timers.set(self.id, before, at);
        }
        let accepted = std::mem::take(&mut effects.accepted);
        drop(guarded);
        self.services.registry.answer(&accepted, true);
    }

    /// The moment has come that was waited for.
    pub(crate) fn tick(&self) {
        self.guarded.lock().timer = None;
        self.submit(&mut vec![Command::Tick]);
    }

    /// The exchange goes. Nothing is written afterwards; what is stored is for the deletion to free.
    pub(crate) fn delete(&self) {
        let mut guarded = self.guarded.lock();
        let now = self.services.clock.now();
        let Guarded { delay, effects, .. } = &mut *guarded;
        delay.apply(now, Command::Delete, effects);
        if let Some(at) = guarded.timer.take() {
            self.services.timers.clear(self.id, at);
        }
    }
}
