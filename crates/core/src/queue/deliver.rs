//! Messages go out: to consumers with credit, and to gets.

use super::{
    Answer, DeathReason, Delivery, Effects, Got, HAND_OUT_BYTES_MAX, Holder, Queue, Ready, Spot,
    Unacked, WaitingGet,
};

impl Queue {
    /// Whether [`Queue::hand_out`] belongs behind each command of a batch, not behind the whole.
    ///
    /// Where priorities, length limits or deadlines choose what is handed out or dropped, the outcome
    /// depends on what had arrived when a consumer had credit; and it is not to depend on how commands
    /// were cut into batches.
    #[must_use]
    pub fn hands_out_each(&self) -> bool {
        self.settings.max_priority > 0 || self.settings.has_limits() || self.has_deadlines()
    }

    /// Hands ready messages to consumers with credit, in order, up to [`HAND_OUT_BYTES_MAX`] bytes.
    ///
    /// `true` when there is more to hand out at once; the caller looks at its readers' buffers in
    /// between. The only place where a message goes from ready to a consumer.
    pub fn hand_out(&mut self, effects: &mut Effects) -> bool {
        let mut bytes_left = HAND_OUT_BYTES_MAX;
        while self.consumers.is_anyone_ready() {
            let Some((spot, ready)) = self.take_head(effects) else {
                break;
            };
            if bytes_left == 0 {
                self.insert_ready(spot, ready);
                return true;
            }
            bytes_left = bytes_left.saturating_sub(ready.message.memory_bytes());
            let Some((consumer, no_ack)) = self.consumers.next_ready() else {
                self.insert_ready(spot, ready);
                break;
            };
            effects.deliveries.push(Delivery {
                consumer,
                seq: spot.seq,
                redelivered: ready.redelivered,
                message: ready.message.clone(),
            });
            self.handed_to(spot, ready, Holder::Consumer(consumer), no_ack, effects);
        }
        if self.has_deadlines() {
            self.expire(effects);
        }
        if self.settings.has_limits() {
            self.drop_overflow(effects);
            if self.settings.lazy_expiry {
                // Another message is the head now.
                self.expire(effects);
            }
        }
        self.read_ahead(effects);
        false
    }

    /// Answers waiting gets in their order, as far as the head of the queue is known.
    pub(super) fn serve_gets(&mut self, effects: &mut Effects) {
        while let Some(&WaitingGet {
            request,
            channel,
            no_ack,
        }) = self.waiting_gets.front()
        {
            let Some((spot, ready)) = self.take_head(effects) else {
                if self.cold.is_empty() {
                    self.counters.get_empty += 1;
                    effects.answers.push((request, Answer::Got(None)));
                    self.waiting_gets.pop_front();
                    continue;
                }
                return;
            };
            self.waiting_gets.pop_front();
            let (redelivered, message) = (ready.redelivered, ready.message.clone());
            self.handed_to(spot, ready, Holder::Get(channel), no_ack, effects);
            if self.has_deadlines() {
                // What stood behind it and is over does not count any more.
                self.expire(effects);
            }
            let got = Got {
                seq: spot.seq,
                redelivered,
                message,
                remaining: self.depth().ready,
            };
            effects.answers.push((request, Answer::Got(Some(got))));
        }
    }

    /// Takes the first ready message whose time is not over; asks for a refill and answers `None` when it is cold.
    pub(super) fn take_head(&mut self, effects: &mut Effects) -> Option<(Spot, Ready)> {
        loop {
            if let Some(cold_from) = self.cold.from()
                && self
                    .ready
                    .first_key_value()
                    .is_none_or(|(&spot, _)| spot > cold_from)
            {
                self.ask_refill(effects);
                return None;
            }
            let (spot, ready) = self.pop_ready()?;
            if ready.due >= self.now {
                return Some((spot, ready));
            }
            self.die(spot, ready, DeathReason::Expired, effects);
        }
    }

    fn handed_to(
        &mut self,
        spot: Spot,
        ready: Ready,
        holder: Holder,
        no_ack: bool,
        effects: &mut Effects,
    ) {
        debug_assert!(
            !self.has_unknown_consumers(),
            "handed out before that was written down"
        );
        let counter = match (&holder, no_ack) {
            (Holder::Consumer(_), false) => &mut self.counters.deliver,
            (Holder::Consumer(_), true) => &mut self.counters.deliver_no_ack,
            (Holder::Get(_), false) => &mut self.counters.get,
            (Holder::Get(_), true) => &mut self.counters.get_no_ack,
        };
        *counter += 1;
        self.counters.redeliver += u64::from(ready.redelivered);
        self.state.delivered_below = self.state.delivered_below.max(spot.seq.next());
        if no_ack {
            self.forget(spot, &ready, effects);
        } else {
            self.unacked.insert(spot.seq, Unacked { holder, ready });
        }
    }
}
