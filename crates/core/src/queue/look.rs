//! A look at the messages of a queue that changes nothing: no flag, no count, no order, and nobody waits for it.
//!
//! ```text
//!   memory: ready, unacked, held back ─▶ Seen      those of the lowest positions behind one, as many as are asked for
//!   disk: the cold range ─▶ ColdPart               where whoever has the store finds the others
//! ```
//!
//! Positions are those of the order in which messages came.

use std::{cmp::Ordering, collections::BinaryHeap};

use super::{Queue, Ready, Spot};
use crate::{
    ids::{ChannelKey, Seq, Timestamp},
    message::Message,
};

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Only messages behind this position.
    pub after: Option<Seq>,
    /// At most so many.
    pub limit: usize,
    /// Those that wait to be handed out.
    pub ready: bool,
    /// Those that somebody has.
    pub unacked: bool,
    /// Those that are held back for a retry.
    pub retrying: bool,
}

/// What becomes of a message next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It waits to be handed out.
    Ready,
    /// A channel has it.
    Unacked(ChannelKey),
    /// It is held back until then.
    Retrying(Timestamp),
}

/// One message.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its position.
    pub seq: Seq,
    /// What becomes of it next.
    pub standing: Standing,
    /// The message.
    pub message: Message,
    /// Somebody had it before.
    pub redelivered: bool,
    /// How often it came back; 0 where nobody counts.
    pub attempts: u64,
    /// When it came, as far as that is known.
    pub came: Option<Timestamp>,
    /// When it expires, if it does and that is known.
    pub expires: Option<Timestamp>,
}

/// Messages that are on disk only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColdPart {
    /// Of this priority.
    pub priority: u8,
    /// From here on.
    pub from: Seq,
    /// Before this one.
    pub until: Seq,
}

/// A message that is on disk only, at a place of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SingleOnDisk {
    /// Its position.
    pub seq: Seq,
    /// Of this priority.
    pub priority: u8,
    /// What becomes of it next.
    pub standing: Standing,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// In memory, by position.
    pub seen: Vec<Seen>,
    /// What may have further ones, or ones in between.
    pub cold: Vec<ColdPart>,
    /// Those on disk that somebody has, or that came back.
    pub single: Vec<SingleOnDisk>,
    /// Of the cold parts those that are held back, and until when.
    pub cold_retries: Vec<(Seq, Timestamp)>,
    /// Of these, what is below may have been handed out before the last start.
    pub redelivered_below: Seq,
}

/// The lowest positions, as many as there is room for.
struct Lowest {
    room: usize,
    heap: BinaryHeap<ByPosition>,
}

struct ByPosition(Seen);

impl PartialEq for ByPosition {
    fn eq(&self, other: &Self) -> bool {
        self.0.seq == other.0.seq
    }
}

impl Eq for ByPosition {}

impl PartialOrd for ByPosition {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByPosition {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.seq.cmp(&other.0.seq)
    }
}

impl Lowest {
    /// Whether it would be one of them, so that nothing is made for nothing.
    fn takes(&self, seq: Seq) -> bool {
        let highest = self.heap.peek().map(|highest| highest.0.seq);
        self.heap.len() < self.room || highest.is_some_and(|highest| seq < highest)
    }

    fn put(&mut self, seen: Seen) {
        self.heap.push(ByPosition(seen));
        if self.heap.len() > self.room {
            self.heap.pop();
        }
    }
}

impl Queue {
    /// Looks at what is in memory, and tells where the rest is.
    #[must_use]
    pub fn look(&self, look: Look) -> Found {
        let mut lowest = Lowest {
            room: look.limit,
            heap: BinaryHeap::new(),
        };
        let is_behind = |seq: Seq| look.after.is_none_or(|after| seq > after);
        let mut put = |seq: Seq, ready: &Ready, standing: Standing| {
            if is_behind(seq) && lowest.takes(seq) {
                lowest.put(self.seen(seq, ready, standing));
            }
        };
        if look.ready {
            for (spot, ready) in self.ready.iter() {
                put(spot.seq, ready, Standing::Ready);
            }
        }
        if look.unacked {
            for (seq, unacked) in self.unacked.iter() {
                let standing = Standing::Unacked(unacked.holder.channel);
                if let Some(ready) = unacked.held.whole() {
                    put(seq, ready, standing);
                }
            }
        }
        if look.retrying {
            for (seq, until, ready) in self.held_back() {
                put(seq, ready, Standing::Retrying(until));
            }
        }
        let mut cold = Vec::new();
        if look.ready || look.retrying {
            cold = self.cold.parts();
            for part in &mut cold {
                if let Some(after) = look.after {
                    part.from = part.from.max(after.next());
                }
            }
            cold.retain(|part| part.from < part.until);
        }
        let seen = lowest.heap.into_sorted_vec();
        Found {
            single: self.single_on_disk(look),
            seen: seen.into_iter().map(|by_position| by_position.0).collect(),
            cold,
            cold_retries: self.held_back_on_disk(),
            redelivered_below: self.redelivered_below,
        }
    }

    /// Those that somebody has or had, and whose bodies are on disk only.
    fn single_on_disk(&self, look: Look) -> Vec<SingleOnDisk> {
        let mut single = Vec::new();
        let mut put = |seq: Seq, class: u8, standing: Standing| {
            if look.after.is_none_or(|after| seq > after) {
                single.push(SingleOnDisk {
                    seq,
                    priority: Spot::LAST_CLASS - class,
                    standing,
                });
            }
        };
        if look.unacked {
            for (seq, unacked) in self.unacked.iter() {
                if let Some(stub) = unacked.held.stub() {
                    put(seq, stub.class, Standing::Unacked(unacked.holder.channel));
                }
            }
        }
        if look.ready {
            for spot in self.cold.returned_spots() {
                put(spot.seq, spot.class(), Standing::Ready);
            }
        }
        if look.retrying {
            for (seq, until, stub) in self.waiting_on_disk() {
                put(seq, stub.class, Standing::Retrying(until));
            }
        }
        single.sort_unstable_by_key(|single| single.seq);
        single.truncate(look.limit);
        single
    }

    /// How often the message there came back, wherever it is; 0 where nobody counts.
    #[must_use]
    pub fn attempts_of(&self, seq: Seq) -> u64 {
        let count = self.attempts.get(&seq);
        count.map_or(0, |count| count.attempts.all.into())
    }

    fn seen(&self, seq: Seq, ready: &Ready, standing: Standing) -> Seen {
        Seen {
            seq,
            standing,
            message: ready.message.clone(),
            redelivered: ready.redelivered || matches!(standing, Standing::Retrying(_)),
            attempts: self.attempts_of(seq),
            came: self.arrivals.of(seq),
            expires: (ready.due != Timestamp::NEVER).then_some(ready.due),
        }
    }
}
