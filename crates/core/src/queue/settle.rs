//! Deliveries end, consumers come and go, the queue is emptied or deleted.

use super::{
    Answer, ConsumerSettings, DeathReason, Effects, Holder, Outcome, Queue, Ready, Unacked,
    cold::Window, spill::Spilled,
};
use crate::{
    ids::{ChannelKey, ConsumerId, Seq},
    record::{MetaChange, Write},
};

impl Queue {
    pub(super) fn settle(&mut self, seq: Seq, outcome: Outcome, effects: &mut Effects) {
        self.end_delivery(seq, outcome, effects);
        if matches!(outcome, Outcome::Returned | Outcome::Failed) {
            self.trim_returned(effects);
        }
    }

    fn end_delivery(&mut self, seq: Seq, outcome: Outcome, effects: &mut Effects) {
        let Some(unacked) = self.unacked.remove(&seq) else {
            return;
        };
        if let Holder::Consumer(consumer) = unacked.holder {
            self.consumers.give_back(consumer);
        }
        let spot = self.spot(seq, &unacked.ready.message);
        // Wherever it goes from here, somebody has had it.
        let ready = Ready {
            redelivered: true,
            ..unacked.ready
        };
        match outcome {
            Outcome::Acked => {
                self.counters.ack += 1;
                self.forget(spot, &ready, effects);
            }
            Outcome::Rejected => self.die(spot, ready, DeathReason::Rejected, effects),
            // Its time went on while somebody held it.
            Outcome::Returned | Outcome::Failed
                if !self.settings.lazy_expiry && ready.due <= self.now =>
            {
                self.die(spot, ready, DeathReason::Expired, effects);
            }
            Outcome::Returned => self.come_back(spot, ready, false, effects),
            Outcome::Failed => self.come_back(spot, ready, true, effects),
        }
    }

    /// What does not fit or is over leaves before anybody is handed what came back: a returned
    /// message has no claim to an idle consumer, as a new one has.
    fn trim_returned(&mut self, effects: &mut Effects) {
        if self.settings.has_limits() {
            self.drop_overflow(effects);
        }
        if self.settings.lazy_expiry {
            self.expire(effects);
        }
    }

    /// Everything the channel holds returns to its old place.
    ///
    /// Looks at every unacked message: an index by channel would cost each delivery more than it
    /// saves when a channel ends.
    pub(super) fn release(&mut self, channel: ChannelKey, ended: bool, effects: &mut Effects) {
        let held: Vec<Seq> = self
            .unacked
            .iter()
            .filter(|(_, unacked)| unacked.holder.channel() == channel)
            .map(|(&seq, _)| seq)
            .collect();
        if ended {
            let answers = &mut effects.answers;
            self.waiting_gets.retain(|get| {
                let stays = get.channel != channel;
                if !stays {
                    answers.push((get.request, Answer::Got(None)));
                }
                stays
            });
            let had_consumers = self.consumers.len() > 0;
            self.consumers.remove_channel(channel);
            effects.unused |= had_consumers && self.consumers.len() == 0;
        }
        if held.is_empty() {
            return;
        }
        // Whoever is gone had not done with it.
        let outcome = if ended {
            Outcome::Failed
        } else {
            Outcome::Returned
        };
        for seq in held {
            self.end_delivery(seq, outcome, effects);
        }
        self.trim_returned(effects);
    }

    pub(super) fn subscribe(&mut self, consumer: ConsumerId, settings: ConsumerSettings) -> Answer {
        if self.is_deleted {
            return Answer::Deleted(0);
        }
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
        let purged = self.depth().ready + self.retrying();
        while let Some((spot, ready)) = self.pop_ready() {
            self.forget(spot, &ready, effects);
        }
        if let Some(range) = self.cold.take() {
            self.cold_due.clear();
            self.has_leftovers = false;
            self.count_forgotten(range.messages, range.body_bytes, range.spilled);
            for (priority, from) in range.levels() {
                self.forget_range(priority, from, range.until, effects);
            }
        }
        self.drop_retrying(effects);
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
        self.ready.clear();
        self.window = Window::default();
        self.ready_body_bytes = 0;
        self.transient_bytes = 0;
        self.spilled = Spilled::default();
        self.due.clear();
        self.unacked.clear();
        self.dying.clear();
        self.arrived.clear();
        self.cold.take();
        self.cold_due.clear();
        self.state.messages = 0;
        self.state.body_bytes = 0;
        self.drop_attempts(effects);
        self.serve_gets(effects);
        if self.is_known_to_store {
            effects
                .writes
                .push(Write::Meta(MetaChange::DeleteQueue(self.id)));
        }
        Answer::Deleted(ready)
    }
}

impl Unacked {
    pub(super) const fn consumer(&self) -> Option<ConsumerId> {
        match self.holder {
            Holder::Consumer(consumer) => Some(consumer),
            Holder::Get(_) => None,
        }
    }
}
