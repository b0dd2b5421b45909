//! Deliveries of one channel that wait to be settled.

use std::collections::VecDeque;

use leveret_core::ids::HandedOut;
use leveret_wire::ids::DeliveryTag;

/// Entries below which settled ones in the middle are not worth removing.
const COMPACT_MIN: usize = 64;
/// Entries whose memory an empty ledger keeps for the next deliveries.
const KEPT_CAPACITY: usize = 4096;

/// HandedOut deliveries by their tags, which rise.
///
/// What is settled out of order stays as a marked entry until all before it is settled, or until
/// marked entries are the most of all.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: VecDeque<Entry>,
    unacked: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    tag: u64,
    at: HandedOut,
    is_settled: bool,
}

impl Ledger {
    /// A delivery with a tag above all before it.
    pub(crate) fn push(&mut self, tag: DeliveryTag, at: HandedOut) {
        let tag = tag.get();
        debug_assert!(
            self.entries.back().is_none_or(|last| last.tag < tag),
            "tags rise"
        );
        self.entries.push_back(Entry {
            tag,
            at,
            is_settled: false,
        });
        self.unacked += 1;
    }

    /// Takes the delivery with exactly this tag.
    pub(crate) fn take(&mut self, tag: DeliveryTag) -> Option<HandedOut> {
        let position = self.position(tag.get())?;
        let entry = self.entries.get_mut(position)?;
        entry.is_settled = true;
        let taken = entry.at;
        self.unacked -= 1;
        self.tidy();
        Some(taken)
    }

    /// Takes all deliveries up to this tag in order; false, and nothing is taken, when there is none
    /// with exactly this tag.
    pub(crate) fn take_up_to(
        &mut self,
        tag: DeliveryTag,
        mut taken: impl FnMut(DeliveryTag, HandedOut),
    ) -> bool {
        if self.position(tag.get()).is_none() {
            return false;
        }
        while let Some(entry) = self.entries.front().filter(|entry| entry.tag <= tag.get()) {
            if !entry.is_settled {
                self.unacked -= 1;
                taken(DeliveryTag::new(entry.tag), entry.at);
            }
            self.entries.pop_front();
        }
        self.tidy();
        true
    }

    /// Takes everything in order.
    pub(crate) fn take_all(&mut self, mut taken: impl FnMut(DeliveryTag, HandedOut)) {
        for entry in self.entries.drain(..) {
            if !entry.is_settled {
                taken(DeliveryTag::new(entry.tag), entry.at);
            }
        }
        self.unacked = 0;
        self.tidy();
    }

    /// Puts back what was taken, with the tags it had.
    pub(crate) fn restore(&mut self, taken: impl IntoIterator<Item = (DeliveryTag, HandedOut)>) {
        let restored = taken.into_iter().map(|(tag, at)| Entry {
            tag: tag.get(),
            at,
            is_settled: false,
        });
        let kept = self.entries.drain(..).filter(|entry| !entry.is_settled);
        let mut entries: Vec<Entry> = kept.chain(restored).collect();
        entries.sort_unstable_by_key(|entry| entry.tag);
        self.unacked = entries.len();
        self.entries = entries.into();
    }

    /// Everything that is unacked.
    pub(crate) fn iter(&self) -> impl Iterator<Item = HandedOut> {
        self.entries
            .iter()
            .filter(|entry| !entry.is_settled)
            .map(|entry| entry.at)
    }

    /// Where the unsettled entry with exactly this tag is.
    fn position(&self, tag: u64) -> Option<usize> {
        // Without gaps in the tags the distance from the first one is the place; gaps only lower it.
        let distance = tag.checked_sub(self.entries.front()?.tag)?;
        let bound = usize::try_from(distance).unwrap_or(usize::MAX);
        let is_there = |at: usize| self.entries.get(at).is_some_and(|entry| entry.tag == tag);
        let at = if is_there(bound) {
            bound
        } else {
            self.entries
                .binary_search_by_key(&tag, |entry| entry.tag)
                .ok()?
        };
        self.entries
            .get(at)
            .is_some_and(|entry| !entry.is_settled)
            .then_some(at)
    }

    fn tidy(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.is_settled) {
            self.entries.pop_front();
        }
        if self.entries.len() > COMPACT_MIN && self.unacked < self.entries.len() / 2 {
            self.entries.retain(|entry| !entry.is_settled);
        }
        if self.entries.is_empty() && self.entries.capacity() > KEPT_CAPACITY {
            self.entries = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use leveret_core::ids::{HandedOut, Seq};
    use leveret_wire::ids::DeliveryTag;

    use super::Ledger;

    fn at(seq: u64) -> HandedOut {
        HandedOut {
            seq: Seq::new(seq),
            ..HandedOut::default()
        }
    }

    fn ledger_of(tags: impl IntoIterator<Item = u64>) -> Ledger {
        let mut ledger = Ledger::default();
        for tag in tags {
            ledger.push(DeliveryTag::new(tag), at(tag * 10));
        }
        ledger
    }

    fn take(ledger: &mut Ledger, tag: u64) -> Option<u64> {
        ledger
            .take(DeliveryTag::new(tag))
            .map(|unacked| unacked.seq.get())
    }

    fn take_up_to(ledger: &mut Ledger, tag: u64) -> Option<Vec<u64>> {
        let mut taken = Vec::new();
        ledger
            .take_up_to(DeliveryTag::new(tag), |_, unacked| {
                taken.push(unacked.seq.get())
            })
            .then_some(taken)
    }

    #[test]
    fn a_tag_is_taken_once() {
        let mut ledger = ledger_of([1, 2, 3]);
        assert_eq!(take(&mut ledger, 2), Some(20));
        assert_eq!(take(&mut ledger, 2), None);
        assert_eq!(take_up_to(&mut ledger, 2), None);
        assert_eq!(take_up_to(&mut ledger, 3), Some(vec![10, 30]));
        assert_eq!(take(&mut ledger, 3), None);
    }

    #[test]
    fn gaps_between_tags_are_no_deliveries() {
        let mut ledger = ledger_of([2, 5, 9]);
        for tag in [0, 1, 3, 4, 6, 8, 10, u64::MAX] {
            assert_eq!(take(&mut ledger, tag), None, "{tag}");
            assert_eq!(take_up_to(&mut ledger, tag), None, "{tag}");
        }
        assert_eq!(take(&mut ledger, 9), Some(90));
        assert_eq!(take_up_to(&mut ledger, 5), Some(vec![20, 50]));
    }

    #[test]
    fn what_is_put_back_can_be_taken_again() {
        let mut ledger = ledger_of([1, 2, 3, 5]);
        let mut taken = Vec::new();
        ledger.take_up_to(DeliveryTag::new(2), |tag, at| taken.push((tag, at)));
        let five = DeliveryTag::new(5);
        taken.push((five, ledger.take(five).expect("it is unacked")));
        ledger.push(DeliveryTag::new(6), at(60));
        taken.reverse();
        ledger.restore(taken);
        assert_eq!(take(&mut ledger, 2), Some(20));
        assert_eq!(take_up_to(&mut ledger, 6), Some(vec![10, 30, 50, 60]));
        assert_eq!(ledger.unacked, 0);
    }

    #[test]
    fn one_delivery_that_stays_does_not_keep_the_memory_of_all_after_it() {
        let mut ledger = ledger_of([1]);
        for tag in 2..100_000 {
            ledger.push(DeliveryTag::new(tag), at(tag));
            assert_eq!(take(&mut ledger, tag), Some(tag));
            assert!(ledger.entries.len() <= super::COMPACT_MIN + 2);
        }
        assert_eq!(take(&mut ledger, 1), Some(10));
        assert!(ledger.entries.is_empty());
    }
}
