//! Deliveries end, consumers come and go, the queue is emptied or deleted.

use super::{
    Answer, ConsumerSettings, DeathReason, Effects, Held, Holder, Outcome, Queue, Ready, Spot,
    Unacked, spill::Spilled,
};
use crate::{
    arguments::QueueType,
    ids::{ConsumerId, Handout, Seq},
    record::{MetaChange, Write},
};

impl Queue {
    pub(super) fn end_delivery(
        &mut self,
        seq: Seq,
        handout: Handout,
        outcome: Outcome,
        effects: &mut Effects,
    ) {
        let held = self.unacked.get(seq);
        if held.is_none_or(|unacked| unacked.holder.handout != handout) {
            return;
        }
        let Some(unacked) = self.unacked.remove(seq) else {
            return;
        };
        if let Some(consumer) = unacked.consumer() {
            self.consumers.give_back(consumer);
        }
        let mut ready = match unacked.held {
            Held::Whole(ready) => ready,
            Held::OnDisk(stub) => {
                self.end_stub(seq, stub, outcome, effects);
                return;
            }
        };
        if ready.stored {
            self.unacked_bytes -= ready.message.memory_bytes();
        }
        let spot = self.spot(seq, &ready.message);
        // Wherever it goes from here, somebody has had it.
        ready.redelivered = true;
        ready.failed |= outcome.is_failure();
        match outcome {
            Outcome::Acked => {
                self.counters.ack += 1;
                self.forget(spot, &ready, effects);
            }
            Outcome::Discarded | Outcome::Rejected => {
                self.die(spot, ready, DeathReason::Rejected, effects)
            }
            Outcome::Returned => self.come_back(spot, ready, false, effects),
            Outcome::Failed => self.come_back(spot, ready, true, effects),
        }
    }

    /// A message was handed out and is not done with: the attempt is counted, and unless that was the last one
    /// or its time went on meanwhile, it is ready again, at once or after a while.
    fn come_back(&mut self, spot: Spot, ready: Ready, is_failure: bool, effects: &mut Effects) {
        let is_over = !self.settings.lazy_expiry && ready.due <= self.now;
        let mut until = None;
        if self.counts_returns() {
            let Some(mut attempts) = self.count_return(spot.seq, is_failure) else {
                self.die(spot, ready, DeathReason::DeliveryLimit, effects);
                return;
            };
            if !is_over {
                until = self.held_until(spot.seq, attempts, is_failure);
            }
            attempts.due = until.unwrap_or_default();
            let is_kept = ready.stored && self.keeps(&ready.message);
            self.keep_attempts(spot.seq, is_kept, attempts, effects);
        }
        match until {
            _ if is_over => self.die(spot, ready, DeathReason::Expired, effects),
            Some(until) => self.hold_back(spot.seq, until, ready),
            None => self.put_back(spot, ready),
        }
    }

    /// What does not fit or is over leaves before anybody is handed what came back: a returned
    /// message has no claim to an idle consumer, as a new one has. On a quorum queue it has.
    pub(super) fn trim_returned(&mut self, effects: &mut Effects) {
        if self.settings.has_limits() && self.settings.queue_type != QueueType::Quorum {
            self.drop_overflow(effects);
        }
        if self.settings.lazy_expiry {
            self.expire(effects);
        }
    }

    pub(super) fn subscribe(
        &mut self,
        consumer: ConsumerId,
        mut settings: ConsumerSettings,
    ) -> Answer {
        if self.is_deleted {
            return Answer::Deleted(0);
        }
        match self.settings.queue_type {
            QueueType::Classic => {}
            // Nobody has such a queue for himself.
            QueueType::Quorum | QueueType::Stream => settings.exclusive = false,
        }
        settings.ack_timeout_millis = settings
            .ack_timeout_millis
            .or(self.settings.ack_timeout_millis);
        let is_refused = self.settings.single_active_consumer && settings.exclusive;
        if is_refused
            || self.consumers.has_exclusive()
            || (settings.exclusive && self.consumers.len() > 0)
        {
            return Answer::ExclusiveUse;
        }
        self.consumers.add(consumer, settings);
        Answer::Subscribed
    }

    pub(super) fn unsubscribe(&mut self, consumer: ConsumerId, effects: &mut Effects) {
        if self.consumers.remove(consumer) {
            effects.unused |= self.consumers.len() == 0;
        }
    }

    /// Drops ready messages, and those held back; unacked ones are untouched and can still come back.
    pub(super) fn purge(&mut self, effects: &mut Effects) -> u64 {
        self.return_all(effects);
        let purged = self.depth().ready + self.retrying();
        let ready = self.take_ready();
        self.forget_ready(ready, effects);
        self.forget_returned(effects);
        self.has_leftovers &= self.cold.is_empty();
        for range in self.cold.take_all() {
            self.count_forgotten(range.messages, range.message_bytes, range.spilled);
            for (priority, from) in range.levels() {
                self.forget_range(priority, from, range.until, effects);
            }
        }
        self.drop_retrying(effects);
        self.forget_lost_attempts(effects);
        self.serve_gets(effects);
        purged
    }

    /// Forgets what is cold there, but not what died and is not elsewhere yet.
    pub(super) fn forget_range(&self, priority: u8, from: Seq, until: Seq, effects: &mut Effects) {
        let dying = self.dying.range(from..until);
        let dying =
            dying.filter(|(seq, ready)| self.spot(**seq, &ready.message).priority() == priority);
        let mut from = from;
        for end in dying.map(|(&seq, _)| seq).chain([until]) {
            if from < end {
                effects.writes.push(Write::ForgetRange {
                    queue: self.id,
                    priority,
                    from,
                    until: end,
                });
            }
            from = end.next();
        }
    }

    pub(super) fn delete(
        &mut self,
        if_unused: bool,
        if_empty: bool,
        effects: &mut Effects,
    ) -> Answer {
        let ready = self.depth().ready;
        if if_empty && ready > 0 {
            return Answer::NotEmpty;
        }
        if if_unused && self.consumers.len() > 0 {
            return Answer::InUse;
        }
        if self.is_deleted {
            return Answer::Deleted(0);
        }
        self.is_deleted = true;
        self.consumers.drain_into(&mut effects.cancelled);
        let remains = self.take_all();
        effects.leave(remains);
        self.returning = None;
        self.holdings = None;
        self.spilled = Spilled::default();
        self.stranded = None;
        self.arrived.clear();
        self.attempts.clear();
        self.retries = None;
        self.cold.take_all();
        self.state.messages = 0;
        self.state.message_bytes = 0;
        self.serve_gets(effects);
        if self.is_known_to_store {
            effects
                .writes
                .push(Write::Meta(MetaChange::DeleteQueue(self.id)));
        }
        Answer::Deleted(ready)
    }

    pub(super) fn put_back(&mut self, spot: Spot, ready: Ready) {
        let spot = match self.settings.queue_type {
            QueueType::Quorum => self.take_turn(spot),
            QueueType::Classic | QueueType::Stream => spot,
        };
        self.insert_ready(spot, ready);
    }

    /// Before all that is in order, behind what came back before it.
    pub(super) fn take_turn(&mut self, spot: Spot) -> Spot {
        let first = self.ready.first().map(|(first, _)| first);
        let mut firsts = first.into_iter().chain(self.cold.returned().first());
        let is_alone = !firsts.any(Spot::has_turn);
        if is_alone || spot.seq < self.lowest_turned {
            self.lowest_turned = spot.seq;
        }
        self.turns += 1;
        spot.in_turn(self.turns)
    }
}

impl Unacked {
    pub(super) const fn consumer(&self) -> Option<ConsumerId> {
        let Holder {
            channel, number, ..
        } = self.holder;
        match number {
            0 => None,
            number => Some(ConsumerId { channel, number }),
        }
    }
}
