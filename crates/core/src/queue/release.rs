//! What a channel holds comes back, because it ends, wants it again, or returns much in one step.
//!
//! A channel may hold millions. They come back some thousands at a time, so that everybody else has his turn with the queue in
//! between. Until the last one is back nobody is handed anything, since what is still to come stands before what is there; and
//! those that are still to come count as unacked.

use std::{cmp::Reverse, collections::VecDeque};

use super::{Answer, Effects, Outcome, Queue};
use crate::{
    arguments::QueueType,
    ids::{Channels, Handout, Seq},
};

/// Messages that come back in one go.
pub const RETURNS_MAX: usize = 4000;

/// Those that are still to come back, in their order.
#[derive(Debug, Default)]
pub(super) struct Returning {
    left: VecDeque<(Seq, Handout, Outcome)>,
}

impl Returning {
    pub(super) fn seqs(&self) -> impl Iterator<Item = Seq> {
        self.left.iter().map(|(seq, ..)| *seq)
    }
}

impl Queue {
    /// Everything the channel holds returns to its old place; in a quorum queue consumer by consumer, then what was got,
    /// in the order it was handed out.
    pub(super) fn release(&mut self, channels: Channels, ended: bool, effects: &mut Effects) {
        if ended {
            let answers = &mut effects.answers;
            self.waiting_gets.retain(|get| {
                let stays = !channels.has(get.channel);
                if !stays {
                    answers.push((get.request, Answer::Got(None)));
                }
                stays
            });
            let had_consumers = self.consumers.len() > 0;
            self.consumers.remove_all(channels);
            effects.unused |= had_consumers && self.consumers.len() == 0;
        }
        let outcome = if ended {
            Outcome::Failed
        } else {
            Outcome::Returned
        };
        let mut held = self.held_by(channels);
        if self.settings.queue_type == QueueType::Quorum {
            held.sort_by_key(|(_, holder)| {
                let age = self.last_handout.since(holder.handout);
                let number = holder.number;
                (holder.channel, number == 0, number, Reverse(age))
            });
        }
        let held = held.into_iter();
        let held = held.map(|(seq, holder)| (seq, holder.handout, outcome));
        self.return_in_turn(held, effects);
    }

    /// These come back behind those that are coming back.
    pub(super) fn return_in_turn(
        &mut self,
        back: impl IntoIterator<Item = (Seq, Handout, Outcome)>,
        effects: &mut Effects,
    ) {
        let mut back = back.into_iter().peekable();
        if back.peek().is_some() {
            self.returning.get_or_insert_default().left.extend(back);
            self.go_on_returning(effects);
        }
    }

    /// A delivery is returned: at once, or with others of its step and behind those that are coming back.
    pub(super) fn give_back(
        &mut self,
        (seq, handout, outcome): (Seq, Handout, Outcome),
        more: bool,
        effects: &mut Effects,
    ) {
        if !more && self.returning.is_none() {
            self.end_delivery(seq, handout, outcome, effects);
            self.trim_returned(effects);
            return;
        }
        let returning = self.returning.get_or_insert_default();
        returning.left.push_back((seq, handout, outcome));
        if !more {
            self.go_on_returning(effects);
        }
    }

    /// The next ones of those that are still to come back.
    pub(super) fn go_on_returning(&mut self, effects: &mut Effects) {
        let Some(mut returning) = self.returning.take() else {
            return;
        };
        let some = returning.left.len().min(RETURNS_MAX);
        for (seq, handout, outcome) in returning.left.drain(..some) {
            self.end_delivery(seq, handout, outcome, effects);
        }
        if returning.left.is_empty() {
            self.trim_returned(effects);
            self.serve_gets(effects);
        } else {
            self.returning = Some(returning);
        }
    }

    /// All of them at once, for what has to come behind them.
    pub(super) fn return_all(&mut self, effects: &mut Effects) {
        while self.returning.is_some() {
            self.go_on_returning(effects);
        }
    }
}
