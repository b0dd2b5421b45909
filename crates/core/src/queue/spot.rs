//! Where a message stands in the order of its queue.

use crate::ids::Seq;

/// A place: higher priorities first, older ones first; but what came back to a quorum queue stands before
/// everything, in the order in which it came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    /// [`Self::IN_ORDER`] and the class, or the turn of what came back with the class in the last octet.
    rank: u64,
    pub(super) seq: Seq,
}

impl Spot {
    /// The class of priority 0, and so of every message in a queue without priorities. A class is
    /// 255 - priority, as in the store's keys.
    pub(super) const LAST_CLASS: u8 = 255;

    /// Above every turn there can be.
    const IN_ORDER: u64 = 1 << 63;

    /// The place in the order of priorities.
    pub(super) const fn in_order(class: u8, seq: Seq) -> Self {
        Self {
            rank: Self::IN_ORDER | class as u64,
            seq,
        }
    }

    /// Before all that is in order, and behind the turns before this one.
    pub(super) const fn in_turn(self, turn: u64) -> Self {
        Self {
            rank: (turn << 8) | self.class() as u64,
            seq: self.seq,
        }
    }

    /// Where it would stand had it never come back.
    pub(super) const fn before_its_return(self) -> Self {
        Self::in_order(self.class(), self.seq)
    }

    /// The first place of the class behind this one; behind what has a turn, of the first class.
    pub(super) const fn next_class(self) -> Option<Self> {
        if self.has_turn() {
            return Some(Self::in_order(0, Seq::new(0)));
        }
        match self.class().checked_add(1) {
            Some(class) => Some(Self::in_order(class, Seq::new(0))),
            None => None,
        }
    }

    /// Whether it stands before all that is in order.
    pub(super) const fn has_turn(self) -> bool {
        self.rank < Self::IN_ORDER
    }

    pub(super) const fn class(self) -> u8 {
        (self.rank & 0xff) as u8
    }

    pub(super) const fn priority(self) -> u8 {
        Self::LAST_CLASS - self.class()
    }
}
