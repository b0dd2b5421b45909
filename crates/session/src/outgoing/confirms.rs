//! Publishes of one channel that are not confirmed yet.
//!
//! They are answered in publish order: one that is decided waits for those before it. So every frame
//! can cover all that is unanswered up to it.

use std::collections::VecDeque;

/// Entries whose memory stays when everything is answered. A connection may have thousands of channels that each were busy
/// once.
const KEPT_CAPACITY: usize = 1024;

/// Confirms of one channel.
#[derive(Debug)]
pub(super) struct Confirms {
    /// Number of the first entry.
    first: u64,
    owed: VecDeque<Owed>,
}

/// A publish that was not answered.
#[derive(Debug, Clone, Copy)]
struct Owed {
    /// Queues that have not said anything.
    open: u32,
    refused: bool,
}

/// Neighbouring publishes of the same outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) last: u64,
    pub(super) count: u64,
    pub(super) accepted: bool,
}

impl Confirms {
    pub(super) const fn new() -> Self {
        Self {
            first: 1,
            owed: VecDeque::new(),
        }
    }

    pub(super) fn expect(&mut self, number: u64, targets: u32) {
        debug_assert_eq!(
            number,
            self.first + self.owed.len() as u64,
            "numbers are given in order"
        );
        self.owed.push_back(Owed {
            open: targets,
            refused: false,
        });
    }

    /// One target of a publish answered; unknown numbers were answered before.
    pub(super) fn answer(&mut self, number: u64, accepted: bool) {
        let owed = number
            .checked_sub(self.first)
            .and_then(|at| usize::try_from(at).ok())
            .and_then(|at| self.owed.get_mut(at));
        if let Some(owed) = owed {
            owed.open = owed.open.saturating_sub(1);
            owed.refused |= !accepted;
        }
    }

    /// Publishes that were not answered.
    pub(super) fn owed(&self) -> u64 {
        self.owed.len() as u64
    }

    /// Whether [`Self::take_run`] has something.
    pub(super) fn has_decided(&self) -> bool {
        self.owed.front().is_some_and(|owed| owed.open == 0)
    }

    /// The longest run of decided publishes of one outcome at the front.
    pub(super) fn take_run(&mut self) -> Option<Run> {
        let refused = self.owed.front()?.refused;
        let mut count = 0;
        while self
            .owed
            .front()
            .is_some_and(|owed| owed.open == 0 && owed.refused == refused)
        {
            self.owed.pop_front();
            count += 1;
        }
        self.first += count;
        if self.owed.is_empty() && self.owed.capacity() > KEPT_CAPACITY {
            self.owed = VecDeque::new();
        }
        (count > 0).then_some(Run {
            last: self.first - 1,
            count,
            accepted: !refused,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Confirms, Run};

    #[test]
    fn a_decided_publish_waits_for_those_before_it() {
        let mut confirms = Confirms::new();
        confirms.expect(1, 1);
        confirms.expect(2, 0);
        assert!(!confirms.has_decided());
        assert_eq!(confirms.take_run(), None);
        confirms.answer(1, true);
        assert_eq!(
            confirms.take_run(),
            Some(Run {
                last: 2,
                count: 2,
                accepted: true
            })
        );
        assert_eq!(confirms.take_run(), None);
    }

    #[test]
    fn one_refusal_among_several_targets_decides() {
        let mut confirms = Confirms::new();
        for number in 1..=4 {
            confirms.expect(number, 2);
        }
        for number in 1..=4 {
            confirms.answer(number, number != 2);
            confirms.answer(number, true);
        }
        let runs: Vec<_> = std::iter::from_fn(|| confirms.take_run()).collect();
        assert_eq!(
            runs,
            [
                Run {
                    last: 1,
                    count: 1,
                    accepted: true
                },
                Run {
                    last: 2,
                    count: 1,
                    accepted: false
                },
                Run {
                    last: 4,
                    count: 2,
                    accepted: true
                },
            ]
        );
    }

    #[test]
    fn sc21_a_burst_leaves_no_memory_behind() {
        let mut confirms = Confirms::new();
        for number in 1..=100_000 {
            confirms.expect(number, 0);
        }
        assert_eq!(confirms.take_run().map(|run| run.count), Some(100_000));
        assert!(confirms.owed.capacity() <= super::KEPT_CAPACITY);
        confirms.expect(100_001, 0);
        assert_eq!(confirms.take_run().map(|run| run.last), Some(100_001));
    }

    #[test]
    fn an_answer_for_what_was_answered_does_nothing() {
        let mut confirms = Confirms::new();
        confirms.expect(1, 1);
        confirms.answer(1, true);
        confirms.take_run();
        confirms.answer(1, true);
        confirms.answer(7, true);
        confirms.expect(2, 1);
        assert_eq!(confirms.take_run(), None);
    }
}
