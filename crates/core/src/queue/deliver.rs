//! Messages go out: to consumers with credit, and to gets.

use super::{
    Answer, Command, DeathReason, Delivery, Effects, Got, HAND_OUT_BYTES_MAX, Holder, Outcome,
    Queue, Ready, Spot, Unacked, WaitingGet, ack_timeout::Due, consumers::Served,
};
use crate::{
    arguments::QueueType,
    ids::{ConsumerId, Handout},
};

impl Queue {
    /// Whether [`Queue::hand_out`] belongs behind each command of a batch, not behind the whole.
    ///
    /// Where length limits or deadlines choose what is handed out or dropped, the outcome depends on what
    /// had arrived when a consumer had credit; and it is not to depend on how commands were cut into
    /// batches. Commands of one step, [`Command::has_more`], are like one command.
    #[must_use]
    pub fn hands_out_each(&self) -> bool {
        self.settings.has_limits() || self.has_deadlines()
    }

    /// Whether [`Queue::hand_out`] belongs before this command, because what it brings will stand before
    /// messages that are ready, or depends on whether there are any: a consumer with credit has had those.
    #[must_use]
    pub fn overtakes(&self, command: &Command) -> bool {
        let Some(last) = self.ready.last_key() else {
            return false;
        };
        match command {
            Command::Enqueue { message, .. } if self.settings.max_priority == 0 => {
                // Whether it goes straight to a consumer decides how it is flagged.
                message.was_delivered()
            }
            Command::Enqueue { message, .. } => self.spot(self.state.next, message) < last,
            Command::Settle {
                outcome: Outcome::Returned | Outcome::Failed,
                ..
            } => true,
            // They make room for who has to be passed over first.
            Command::Settle {
                outcome: Outcome::Acked | Outcome::Discarded | Outcome::Rejected,
                ..
            }
            | Command::Get { .. }
            | Command::Release { .. }
            | Command::Disconnect { .. }
            | Command::Tick
            | Command::Purge { .. } => self.consumers.is_anyone_filled(),
            Command::MarkConsumed
            | Command::Subscribe { .. }
            | Command::SubscribeStream(_)
            | Command::Told(_)
            | Command::Resume { .. }
            | Command::Pause { .. }
            | Command::Share { .. }
            | Command::AskAgain { .. }
            | Command::Unsubscribe { .. }
            | Command::Transferred { .. }
            | Command::Stranded(_)
            | Command::Delete { .. }
            | Command::Refilled(_)
            | Command::Unreadable => false,
        }
    }

    /// Hands ready messages to consumers with credit, in order, up to [`HAND_OUT_BYTES_MAX`] bytes.
    ///
    /// `true` when there is more to hand out at once; the caller looks at its readers' buffers in
    /// between, and answers what [`Queue::room_wanted`] then asks. The only place where a message goes from ready to a consumer.
    pub fn hand_out(&mut self, effects: &mut Effects) -> bool {
        let mut bytes_left = HAND_OUT_BYTES_MAX;
        while self.returning.is_none() && self.has_ready() && self.consumers.is_anyone_ready() {
            let Some((spot, ready)) = self.take_head_soon(effects) else {
                break;
            };
            if bytes_left == 0 {
                self.insert_ready(spot, ready);
                return true;
            }
            if self.consumers.room_wanted().is_some() {
                self.insert_ready(spot, ready);
                return true;
            }
            bytes_left = bytes_left.saturating_sub(ready.message.memory_bytes());
            let Some(Served {
                consumer,
                no_ack,
                ack_timeout_millis,
            }) = self.consumers.next_ready()
            else {
                self.insert_ready(spot, ready);
                break;
            };
            let handout = self.next_handout();
            effects.deliveries.push(Delivery {
                consumer,
                seq: spot.seq,
                handout,
                redelivered: ready.redelivered,
                message: self.shown(spot.seq, &ready.message),
            });
            let ConsumerId { channel, number } = consumer;
            let due = self.ack_due(no_ack, ack_timeout_millis);
            let holder = Holder {
                channel,
                number,
                handout,
                due,
            };
            self.handed_to(spot, ready, holder, no_ack, effects);
        }
        if self.has_deadlines() {
            self.expire(effects);
        }
        if self.settings.has_limits() {
            self.drop_overflow(effects);
            if self.settings.lazy_expiry {
                // Another message is the head now.
                self.expire(effects);
            } else if self.must_read_on() {
                self.ask_refill(effects);
            }
        }
        if !self.sinking.is_empty() {
            self.read_sinking(effects);
        }
        self.read_ahead(effects);
        if self.has_deadlines() {
            self.foresee(effects);
        }
        false
    }

    /// Some of it may be over.
    fn has_ready(&self) -> bool {
        !self.ready.is_empty() || !self.cold.is_empty()
    }

    /// The consumer that is next, if the consumers of its channel share a bound: the channel has to be asked
    /// for room, and [`Queue::answer_room`] told what it said, before the next [`Queue::hand_out`].
    #[must_use]
    pub fn room_wanted(&self) -> Option<ConsumerId> {
        self.consumers.room_wanted()
    }

    /// Whether the channel has room for one message more, which it then keeps free. Without, the consumer gets
    /// nothing until [`Command::AskAgain`].
    pub fn answer_room(&mut self, consumer: ConsumerId, has_room: bool) {
        self.consumers.answer_room(consumer, has_room);
    }

    /// Answers waiting gets in their order, as far as the head of the queue is known.
    pub(super) fn serve_gets(&mut self, effects: &mut Effects) {
        if self.returning.is_some() {
            return;
        }
        while let Some(&WaitingGet {
            request,
            channel,
            no_ack,
        }) = self.waiting_gets.front()
        {
            let Some((spot, ready)) = self.take_head(effects) else {
                let answer = if self.cold.is_empty() {
                    self.counters.get_empty += 1;
                    Answer::Got(None)
                } else if self.cold.is_unreadable() {
                    Answer::Unreadable
                } else {
                    return;
                };
                effects.answers.push((request, answer));
                self.waiting_gets.pop_front();
                continue;
            };
            self.waiting_gets.pop_front();
            let handout = self.next_handout();
            let redelivered = ready.redelivered;
            let message = self.shown(spot.seq, &ready.message);
            let holder = Holder {
                channel,
                number: 0,
                handout,
                due: self.ack_due(no_ack, self.settings.ack_timeout_millis),
            };
            self.handed_to(spot, ready, holder, no_ack, effects);
            let counted = self.depth().ready;
            if self.has_deadlines() {
                self.expire(effects);
            }
            let remaining = match self.settings.queue_type {
                QueueType::Quorum if !no_ack => counted,
                // What stood behind it and is over does not count any more.
                QueueType::Quorum | QueueType::Classic | QueueType::Stream => self.depth().ready,
            };
            let got = Got {
                seq: spot.seq,
                handout,
                redelivered,
                message,
                remaining,
            };
            effects.answers.push((request, Answer::Got(Some(got))));
        }
    }

    /// Takes the first ready message whose time is not over; `None` when it is cold.
    fn take_head(&mut self, effects: &mut Effects) -> Option<(Spot, Ready)> {
        loop {
            let (spot, ready) = self.pop_head(effects)?;
            if ready.due >= self.now {
                return Some((spot, ready));
            }
            self.die(spot, ready, DeathReason::Expired, effects);
        }
    }

    /// The same; `None` also when so many were over before it that others are to have their turn first.
    fn take_head_soon(&mut self, effects: &mut Effects) -> Option<(Spot, Ready)> {
        loop {
            let (spot, ready) = self.pop_head(effects)?;
            if ready.due >= self.now {
                return Some((spot, ready));
            }
            if !self.may_die() {
                self.insert_ready(spot, ready);
                return None;
            }
            self.die(spot, ready, DeathReason::Expired, effects);
        }
    }

    /// Takes the first ready message; asks for a refill and answers `None` when it is cold.
    pub(super) fn pop_head(&mut self, effects: &mut Effects) -> Option<(Spot, Ready)> {
        if let Some(cold_from) = self.cold.from()
            && self.ready.first().is_none_or(|(spot, _)| spot > cold_from)
        {
            self.ask_refill(effects);
            return None;
        }
        self.pop_ready()
    }

    const fn next_handout(&mut self) -> Handout {
        self.last_handout = self.last_handout.next();
        self.last_handout
    }

    fn ack_due(&mut self, no_ack: bool, timeout_millis: Option<u64>) -> Due {
        match timeout_millis {
            Some(millis) if !no_ack => self.acks.expect(self.now, millis),
            Some(_) | None => Due::NEVER,
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
        let counter = match (holder.number == 0, no_ack) {
            (false, false) => &mut self.counters.deliver,
            (false, true) => &mut self.counters.deliver_no_ack,
            (true, false) => &mut self.counters.get,
            (true, true) => &mut self.counters.get_no_ack,
        };
        *counter += 1;
        self.counters.redeliver += u64::from(ready.redelivered);
        self.state.delivered_below = self.state.delivered_below.max(spot.seq.next());
        if no_ack {
            self.forget(spot, &ready, effects);
        } else {
            let held = self.held(spot, ready);
            self.unacked.insert(spot.seq, Unacked { holder, held });
            if self.holdings.is_some() {
                self.note_held(holder.channel, spot.seq, holder.handout);
            }
        }
    }
}
