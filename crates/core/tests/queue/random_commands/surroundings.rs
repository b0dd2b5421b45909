//! The store around the queue, which answers late, stops and starts again.

use std::collections::{BTreeMap, BTreeSet};

use leveret_core::{
    ids::{ChannelKey, Timestamp},
    queue::{Command, Deaths, Effects, Queue, WINDOW_BYTES_MAX, WINDOW_ROWS_MAX},
    record::{Attempts, Write},
};

use super::{Batch, Entry, Place, World, number};
use crate::scenario::{QUEUE, Stop, channel, no_ack};

impl World {
    pub(super) fn announce_consumers(&mut self) {
        if self.queue.has_unknown_consumers() {
            self.apply(Command::MarkConsumed);
            self.end_batch();
            while !self.batches.is_empty() {
                self.commit();
            }
        }
    }

    pub(super) fn end_batch(&mut self) {
        let with_room: Vec<ChannelKey> = self
            .rooms
            .keys()
            .copied()
            .filter(|channel| self.has_room(*channel))
            .collect();
        for channel in with_room {
            for (id, consumer) in &mut self.consumers {
                consumer.waits_for_room &= id.channel != channel;
            }
            self.apply(Command::AskAgain { channel });
        }
        loop {
            let has_more = self.queue.hand_out(&mut self.effects);
            assert_eq!(has_more, self.twin.hand_out(&mut self.twin_effects));
            self.take_effects();
            if !has_more {
                break;
            }
            let wanted = self.queue.room_wanted();
            assert_eq!(wanted, self.twin.room_wanted());
            if let Some(consumer) = wanted {
                let has_room = self.has_room(consumer.channel);
                self.queue.answer_room(consumer, has_room);
                self.twin.answer_room(consumer, has_room);
                if let Some(model) = self.consumers.get_mut(&consumer) {
                    model.waits_for_room = !has_room;
                }
            }
        }
        self.queue.seal(&mut self.effects);
        self.twin.seal(&mut self.twin_effects);
        self.compare_effects();
        self.twin_effects = Effects::default();
        self.effects.deaths = Deaths::default();
        let mut refill = self.effects.refill.take();
        if let Some(refill) = refill {
            assert!(!self.is_reading(), "a second read is asked for: {self:#?}");
            assert!(refill.from < refill.until && refill.queue == QUEUE);
            assert!((1..=WINDOW_ROWS_MAX).contains(&refill.rows_max));
            assert!((1..=WINDOW_BYTES_MAX).contains(&refill.bytes_max));
        }
        if let Some(at_once) = refill.filter(|refill| refill.at_once) {
            // Of the batches that wait nothing is there, neither rows nor removals.
            self.read = self.store.read(&at_once).open_ended();
            if self.read.is_some() {
                refill = None;
            }
        }
        self.batches.push_back(Batch {
            writes: std::mem::take(&mut self.effects.writes),
            promises: std::mem::take(&mut self.effects.promises),
            refill,
        });
        // Whoever can be served is served, unless what comes next is still to be read.
        if !self.is_reading() {
            assert!(
                self.requests.is_empty(),
                "a get waits for nothing: {self:#?}"
            );
            assert!(
                self.ready() == 0 || self.best_priority().is_none(),
                "somebody could be served: {self:#?}"
            );
        }
    }

    pub(super) fn commit(&mut self) {
        let Some(batch) = self.batches.pop_front() else {
            return;
        };
        if let Err(wrong) = self.store.commit(&batch.writes) {
            panic!("{wrong}: {self:#?}");
        }
        self.confirmed
            .extend(batch.promises.iter().map(|confirm| confirm.number));
        self.refill = self.refill.take().or(batch.refill);
    }

    pub(super) fn read(&mut self) {
        if let Some(refill) = self.refill.take() {
            self.read = Some(self.store.read(&refill));
        }
    }

    pub(super) fn give_back(&mut self, rows_max: usize, says_more: bool) {
        let Some(mut refilled) = self.read.take() else {
            return;
        };
        if refilled.rows.len() > rows_max {
            let rest = refilled.rows.split_off(rows_max);
            refilled.next = rest.first().map(|row| row.seq);
        }
        if says_more && refilled.next.is_none() {
            refilled.next = refilled.rows.last().map(|row| row.seq.next());
        }
        self.apply(Command::Refilled(refilled));
    }

    pub(super) fn restart(&mut self, stop: Stop) {
        if self.is_deleted || !self.durable {
            return;
        }
        if stop == Stop::Clean {
            self.end_batch();
            while !self.batches.is_empty() {
                self.commit();
            }
            let last: Vec<Write> = self.queue.state_at_stop().into_iter().collect();
            assert_eq!(self.store.commit(&last), Ok(()), "{self:#?}");
        }
        let rows = self.store.kept();
        let stored: Vec<(u64, Option<u8>, Attempts)> = rows
            .map(|(message, attempts)| (number(message), message.priority(), attempts))
            .collect();
        let is_there = |number: &u64| stored.iter().any(|(stored, ..)| stored == number);
        let before = self.messages.iter();
        let attempts_before: BTreeMap<u64, Attempts> =
            before.map(|entry| (entry.number, entry.attempts)).collect();
        let had_consumers = stop == Stop::Crash && self.store.state().consumed;
        let known: BTreeSet<u64> = std::mem::take(&mut self.messages)
            .into_iter()
            .filter(|entry| entry.is_stored)
            .map(|entry| entry.number)
            .collect();
        if stop == Stop::Clean {
            let stored = stored.iter().map(|(number, ..)| number);
            assert!(known.iter().eq(stored), "{known:?} should be stored");
        }
        for lost in known.iter().filter(|number| !is_there(number)) {
            assert!(
                !self.confirmed.contains(lost),
                "message {lost} was confirmed"
            );
        }
        for (number, priority, attempts) in stored {
            if had_consumers || self.seen.contains(&number) {
                self.flagged.insert(number);
            }
            if stop == Stop::Clean {
                assert_eq!(Some(&attempts), attempts_before.get(&number), "of {number}");
            }
            self.insert(Entry {
                number,
                priority: self.effective(priority),
                held: None,
                has_turn: false,
                attempts,
                is_stored: true,
                is_flagged: self.flagged.contains(&number),
                place: Place::Ready,
            });
        }
        let state = self.store.recover();
        let queue = || {
            Queue::recovered(QUEUE, true, state)
                .with_settings(self.settings.clone())
                .with_attempts(Timestamp::default(), self.store.attempts())
                .with_unacked_bytes_max(self.unacked_bytes_max)
        };
        (self.queue, self.twin) = (queue(), queue());
        self.late.clear();
        self.has_restarted = true;
        self.effects = Effects::default();
        self.twin_effects = Effects::default();
        self.consumers.clear();
        self.requests.clear();
        self.batches.clear();
        self.refill = None;
        self.read = None;
        self.expect_model();
    }

    /// Everybody goes, the store catches up, and what is left comes out in order.
    pub(super) fn finish(&mut self) {
        for number in 0..3 {
            self.release(channel(number), true);
        }
        let last = self.subscribe(50, no_ack());
        self.set_paused(last, false);
        self.end_batch();
        loop {
            while !self.batches.is_empty() {
                self.commit();
            }
            self.read();
            if self.read.is_none() {
                break;
            }
            self.give_back(usize::MAX, false);
            self.end_batch();
        }
        assert!(self.messages.is_empty(), "never handed out: {self:#?}");
        assert!(self.requests.is_empty(), "never answered: {self:#?}");
        if !self.is_deleted {
            assert_eq!(
                self.store.messages().count(),
                0,
                "never forgotten: {self:#?}"
            );
        }
        assert_eq!(format!("{:?}", self.queue), format!("{:?}", self.twin));
    }
}
