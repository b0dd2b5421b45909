//! When messages came, for whoever asks how old the oldest is.
//!
//! A message carries no time. The queue remembers where in the order of arrival its time moved on: two numbers for
//! each millisecond in which something came. Only so many are kept of a backlog; then every other one goes, and
//! what came between counts as having come with what is before it. An age is then too high, by one part in
//! [`MARKS_MAX`]/2 of the time in which the backlog grew at most.

use std::collections::VecDeque;

use crate::ids::{Seq, Timestamp};

/// Marks of one queue; 16 bytes each.
const MARKS_MAX: usize = 512;

/// From this seq on messages came at this time or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    from: Seq,
    at: Timestamp,
}

/// When messages came.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Of this run, in order.
    marks: Marks,
    /// Of messages that were stored before, as far as they were read.
    restored: Marks,
}

#[derive(Debug, Default)]
struct Marks {
    list: VecDeque<Mark>,
    /// Between two of them lies more time than this.
    apart_millis: u64,
}

impl Arrivals {
    /// Whether a message that comes now needs [`Self::note`].
    pub(super) fn is_new(&self, now: Timestamp) -> bool {
        self.marks.is_new(now)
    }

    /// A message comes; nothing older than `oldest` is in the queue.
    #[cold]
    pub(super) fn note(&mut self, from: Seq, at: Timestamp, oldest: Seq) {
        self.marks.put(Mark { from, at }, oldest);
        let first = self.marks.list.front();
        if first.is_some_and(|first| first.from <= oldest) {
            self.restored = Marks::default();
        }
    }

    /// A message of a former run was read.
    pub(super) fn note_restored(&mut self, from: Seq, at: Timestamp, oldest: Seq) {
        let last = self.restored.list.back();
        if last.is_none_or(|last| last.from < from) && self.restored.is_new(at) {
            self.restored.put(Mark { from, at }, oldest);
        }
    }

    /// The first one that a mark is kept for.
    pub(super) fn first(&self) -> Option<Seq> {
        let first = self.restored.list.front();
        first
            .or_else(|| self.marks.list.front())
            .map(|mark| mark.from)
    }

    /// When the message came; `None` of one that is on disk since a former run.
    pub(super) fn of(&self, seq: Seq) -> Option<Timestamp> {
        self.marks.of(seq).or_else(|| self.restored.of(seq))
    }
}

impl Marks {
    fn is_new(&self, at: Timestamp) -> bool {
        let last = self.list.back();
        last.is_none_or(|last| last.at.plus_millis(self.apart_millis) < at)
    }

    fn put(&mut self, mark: Mark, oldest: Seq) {
        let list = &mut self.list;
        while list.get(1).is_some_and(|second| second.from <= oldest) {
            list.pop_front();
        }
        if list.len() <= 1 {
            self.apart_millis = 0;
        }
        if list.len() >= MARKS_MAX {
            let mut keep = false;
            list.retain(|_| {
                keep = !keep;
                keep
            });
            // Else the oldest would be thinned out again and again, until none of them is left.
            self.apart_millis = 2 * self.apart_millis + 1;
        }
        list.push_back(mark);
    }

    fn of(&self, seq: Seq) -> Option<Timestamp> {
        let mut found = self.list.iter().rev();
        found.find(|mark| mark.from <= seq).map(|mark| mark.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::default().plus_millis(millis)
    }

    fn note(arrivals: &mut Arrivals, seq: u64, millis: u64, oldest: u64) {
        if arrivals.is_new(at(millis)) {
            arrivals.note(Seq::new(seq), at(millis), Seq::new(oldest));
        }
    }

    #[test]
    fn a_message_came_with_the_mark_before_it() {
        let mut arrivals = Arrivals::default();
        for (seq, millis) in [(1, 5), (2, 5), (3, 9), (4, 12)] {
            note(&mut arrivals, seq, millis, 1);
        }
        let of = |seq| arrivals.of(Seq::new(seq));
        assert_eq!([of(0), of(1), of(2)], [None, Some(at(5)), Some(at(5))]);
        assert_eq!(
            [of(3), of(4), of(9)],
            [Some(at(9)), Some(at(12)), Some(at(12))]
        );
    }

    #[test]
    fn what_is_gone_needs_no_mark_and_a_backlog_few() {
        let mut arrivals = Arrivals::default();
        for seq in 0..100_000 {
            note(&mut arrivals, seq, seq, seq);
        }
        assert!(
            arrivals.marks.list.len() <= 2,
            "{}",
            arrivals.marks.list.len()
        );
        for seq in 100_000..200_000 {
            note(&mut arrivals, seq, seq, 100_000);
        }
        assert!(arrivals.marks.list.len() <= MARKS_MAX);
        assert_eq!(arrivals.of(Seq::new(100_000)), Some(at(100_000)));
        for came in [100_500, 140_000, 180_000, 199_999] {
            let found = arrivals.of(Seq::new(came)).map_or(0, Timestamp::get);
            assert!((came - 400..=came).contains(&found), "{came}: {found}");
        }
    }
}
