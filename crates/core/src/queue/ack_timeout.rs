//! Messages that nobody acks in time are taken back.
//!
//! A hand-out only writes down when it will be overdue. Nobody looks at that before the first one may be: then at
//! all that is unacked, which also tells when to look next. With a timeout of half an hour that is once in half an
//! hour.

use std::collections::BTreeSet;

use super::{Effects, Outcome, Overdue, Queue};
use crate::ids::{Seq, Timestamp};

/// How finely the time of an ack is measured: 13 years of it fit into four octets.
const TICK_MILLIS: u64 = 100;

/// When an unacked message is taken back, in ticks of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due(u32);

impl Due {
    /// Nobody waits for the ack.
    pub(super) const NEVER: Self = Self(u32::MAX);
}

/// The times of a queue's unacked messages.
#[derive(Debug, Default)]
pub(super) struct AckTimes {
    /// When the first message with a timeout was handed out; ticks count from there.
    began: Option<Timestamp>,
    /// When to look for what is overdue: before that nothing is.
    check: Option<Timestamp>,
}

impl AckTimes {
    /// A message is handed out that is to be acked within this time.
    pub(super) fn expect(&mut self, now: Timestamp, timeout_millis: u64) -> Due {
        let began = self.began.get_or_insert(now).get();
        let at = now.plus_millis(timeout_millis);
        let millis = at.get().saturating_sub(began);
        let due = u32::try_from(millis.div_ceil(TICK_MILLIS)).map_or(Due::NEVER, Due);
        if due != Due::NEVER && self.check.is_none_or(|check| at < check) {
            self.check = Some(self.time_of(due));
        }
        due
    }

    pub(super) const fn next_check(&self) -> Option<Timestamp> {
        self.check
    }

    fn time_of(&self, due: Due) -> Timestamp {
        let began = self.began.unwrap_or_default();
        began.plus_millis(u64::from(due.0) * TICK_MILLIS)
    }
}

impl Queue {
    /// What is overdue comes back, and the consumers that had it get nothing more.
    pub(super) fn take_back_overdue(&mut self, effects: &mut Effects) {
        if self.acks.check.is_none_or(|check| check > self.now) {
            return;
        }
        let now = self.now;
        let mut overdue: Vec<Seq> = Vec::new();
        let mut next: Option<Due> = None;
        for (seq, unacked) in self.unacked.iter() {
            let due = unacked.holder.due;
            if due == Due::NEVER {
                continue;
            }
            if self.acks.time_of(due) <= now {
                overdue.push(seq);
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        self.acks.check = next.map(|due| self.acks.time_of(due));
        // A consumer is told once, since it is gone then; a channel once of all that it got.
        let mut told_of_gets = BTreeSet::new();
        let mut back = Vec::with_capacity(overdue.len());
        for seq in overdue {
            let Some(unacked) = self.unacked.get(seq) else {
                continue;
            };
            let (channel, handout) = (unacked.holder.channel, unacked.holder.handout);
            let consumer = unacked.consumer();
            back.push((seq, handout, Outcome::Returned));
            let timeout_millis = match consumer {
                None => self.settings.ack_timeout_millis,
                // A consumer that is gone already has nothing to be told.
                Some(consumer) => self.consumers.ack_timeout_of(consumer),
            };
            let Some(timeout_millis) = timeout_millis else {
                continue;
            };
            if let Some(consumer) = consumer {
                self.unsubscribe(consumer, effects);
            }
            if consumer.is_some() || told_of_gets.insert(channel) {
                effects.overdue.push(Overdue {
                    channel,
                    consumer,
                    timeout_millis,
                });
            }
        }
        self.return_in_turn(back, effects);
    }
}
