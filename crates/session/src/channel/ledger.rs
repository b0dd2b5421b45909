//! Deliveries of one channel that wait to be settled.

use std::collections::VecDeque;

use leveret_core::ids::HandedOut;
use leveret_wire::ids::DeliveryTag;

/// Entries below which settled ones in the middle are not worth removing.
const COMPACT_MIN: usize = 64;
/// Entries whose memory an empty ledger keeps for the next deliveries. A connection may have thousands of channels that
/// each were busy once.
const KEPT_CAPACITY: usize = 256;

/// HandedOut deliveries by their tags, which rise.
///
/// What is settled out of order stays as a marked entry until all before it is settled, or until
/// marked entries are the most of all.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: VecDeque<Entry>,
    unacked: usize,
}

/// One delivery that waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unsettled {
    pub(crate) tag: DeliveryTag,
    pub(crate) at: HandedOut,
    /// The consumer's number; 0 for `basic.get`.
    pub(crate) consumer: u32,
    /// It takes of the room that the consumers of the channel may share.
    pub(crate) takes_room: bool,
}

impl Unsettled {
    /// Whether both come back in one step: to one consumer all that it had, and what was got each for itself.
    pub(crate) const fn is_of_step(&self, other: &Self) -> bool {
        self.consumer > 0 && self.consumer == other.consumer
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    tag: u64,
    at: HandedOut,
    consumer: u32,
    takes_room: bool,
    is_settled: bool,
}

impl Entry {
    const fn of(delivery: Unsettled) -> Self {
        let Unsettled {
            tag,
            at,
            consumer,
            takes_room,
        } = delivery;
        Self {
            tag: tag.get(),
            at,
            consumer,
            takes_room,
            is_settled: false,
        }
    }

    const fn unsettled(&self) -> Unsettled {
        Unsettled {
            tag: DeliveryTag::new(self.tag),
            at: self.at,
            consumer: self.consumer,
            takes_room: self.takes_room,
        }
    }
}

impl Ledger {
    /// A delivery with a tag above all before it.
    pub(crate) fn push(&mut self, delivery: Unsettled) {
        let entry = Entry::of(delivery);
        debug_assert!(
            self.entries.back().is_none_or(|last| last.tag < entry.tag),
            "tags rise"
        );
        self.entries.push_back(entry);
        self.unacked += 1;
    }

    /// Takes the delivery with exactly this tag.
    pub(crate) fn take(&mut self, tag: DeliveryTag) -> Option<Unsettled> {
        let position = self.position(tag.get())?;
        let entry = self.entries.get_mut(position)?;
        entry.is_settled = true;
        let taken = entry.unsettled();
        self.unacked -= 1;
        self.tidy();
        Some(taken)
    }

    /// Takes all deliveries up to this tag in order; false, and nothing is taken, when there is none
    /// with exactly this tag.
    pub(crate) fn take_up_to(
        &mut self,
        tag: DeliveryTag,
        mut taken: impl FnMut(Unsettled),
    ) -> bool {
        if self.position(tag.get()).is_none() {
            return false;
        }
        while let Some(entry) = self.entries.front().filter(|entry| entry.tag <= tag.get()) {
            if !entry.is_settled {
                self.unacked -= 1;
                taken(entry.unsettled());
            }
            self.entries.pop_front();
        }
        self.tidy();
        true
    }

    /// Takes what a tag stands for with `multiple`: with 0 everything, and it is no error when there is nothing.
    pub(crate) fn take_multiple(&mut self, tag: DeliveryTag, taken: impl FnMut(Unsettled)) -> bool {
        if tag.get() > 0 {
            return self.take_up_to(tag, taken);
        }
        self.take_all(taken);
        true
    }

    /// Takes everything in order.
    pub(crate) fn take_all(&mut self, mut taken: impl FnMut(Unsettled)) {
        for entry in self.entries.drain(..) {
            if !entry.is_settled {
                taken(entry.unsettled());
            }
        }
        self.unacked = 0;
        self.tidy();
    }

    /// Puts back what was taken, with the tags it had.
    ///
    /// Mostly it was taken in order and from the front, or its entry is still there: then nothing else is moved, however
    /// many deliveries wait.
    pub(crate) fn restore(&mut self, taken: impl IntoIterator<Item = Unsettled>) {
        let mut removed = Vec::new();
        for taken in taken {
            self.unacked += 1;
            match self.place(taken.tag.get()) {
                Some(entry) => entry.is_settled = false,
                None => removed.push(Entry::of(taken)),
            }
        }
        // A stable sort finds runs: of one it is a look at each.
        removed.sort_by_key(|entry| entry.tag);
        let first = self.entries.front().map(|first| first.tag);
        let is_before = |entry: &Entry| first.is_none_or(|first| entry.tag < first);
        let between = removed.split_off(removed.partition_point(is_before));
        if !between.is_empty() {
            self.merge(between);
        }
        self.entries.reserve(removed.len());
        for entry in removed.into_iter().rev() {
            self.entries.push_front(entry);
        }
    }

    /// Puts entries between others. There were more of them before those were removed, so that this is paid for.
    fn merge(&mut self, between: Vec<Entry>) {
        let mut merged = VecDeque::with_capacity(self.entries.len() + between.len());
        let mut between = between.into_iter().peekable();
        for entry in self.entries.drain(..) {
            #[cfg(test)]
            tests::MOVED.set(tests::MOVED.get() + 1);
            while let Some(earlier) = between.next_if(|next| next.tag < entry.tag) {
                merged.push_back(earlier);
            }
            merged.push_back(entry);
        }
        merged.extend(between);
        self.entries = merged;
    }

    /// Everything that is unacked.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Unsettled> {
        self.entries
            .iter()
            .filter(|entry| !entry.is_settled)
            .map(Entry::unsettled)
    }

    /// Where the unsettled entry with exactly this tag is.
    fn position(&self, tag: u64) -> Option<usize> {
        let at = self.any_position(tag)?;
        self.entries
            .get(at)
            .is_some_and(|entry| !entry.is_settled)
            .then_some(at)
    }

    /// The entry with exactly this tag, settled or not.
    fn place(&mut self, tag: u64) -> Option<&mut Entry> {
        let at = self.any_position(tag)?;
        self.entries.get_mut(at)
    }

    fn any_position(&self, tag: u64) -> Option<usize> {
        // Without gaps in the tags the distance from the first one is the place; gaps only lower it.
        let distance = tag.checked_sub(self.entries.front()?.tag)?;
        let bound = usize::try_from(distance).unwrap_or(usize::MAX);
        let is_there = |at: usize| self.entries.get(at).is_some_and(|entry| entry.tag == tag);
        if is_there(bound) {
            return Some(bound);
        }
        self.entries
            .binary_search_by_key(&tag, |entry| entry.tag)
            .ok()
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
    use std::cell::Cell;

    use leveret_core::ids::{HandedOut, Seq};
    use leveret_wire::ids::DeliveryTag;

    use super::{Ledger, Unsettled};

    thread_local! {
        /// Entries that were moved for others.
        pub(super) static MOVED: Cell<usize> = const { Cell::new(0) };
    }

    fn delivery(tag: u64) -> Unsettled {
        Unsettled {
            tag: DeliveryTag::new(tag),
            at: HandedOut {
                seq: Seq::new(tag * 10),
                ..HandedOut::default()
            },
            consumer: 1,
            takes_room: false,
        }
    }

    fn ledger_of(tags: impl IntoIterator<Item = u64>) -> Ledger {
        let mut ledger = Ledger::default();
        for tag in tags {
            ledger.push(delivery(tag));
        }
        ledger
    }

    fn take(ledger: &mut Ledger, tag: u64) -> Option<u64> {
        ledger
            .take(DeliveryTag::new(tag))
            .map(|unacked| unacked.at.seq.get())
    }

    fn take_up_to(ledger: &mut Ledger, tag: u64) -> Option<Vec<u64>> {
        let mut taken = Vec::new();
        ledger
            .take_up_to(DeliveryTag::new(tag), |unacked| {
                taken.push(unacked.at.seq.get())
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
        ledger.take_up_to(DeliveryTag::new(2), |unacked| taken.push(unacked));
        taken.push(ledger.take(DeliveryTag::new(5)).expect("it is unacked"));
        ledger.push(delivery(6));
        taken.reverse();
        ledger.restore(taken);
        assert_eq!(take(&mut ledger, 2), Some(20));
        assert_eq!(take_up_to(&mut ledger, 6), Some(vec![10, 30, 50, 60]));
        assert_eq!(ledger.unacked, 0);
    }

    /// Each of many transactions that are rolled back costs what it settled, and not what else waits.
    #[test]
    fn what_is_put_back_moves_no_others() {
        let (many, before) = (10_000, MOVED.get());
        let mut ledger = ledger_of(1..=many);
        for tag in (1..=many).chain((1..=many).rev()) {
            let taken = ledger.take(DeliveryTag::new(tag)).expect("it is unacked");
            ledger.restore([taken]);
        }
        for multiple in [1, many / 2, many] {
            let mut taken = Vec::new();
            ledger.take_up_to(DeliveryTag::new(multiple), |unacked| taken.push(unacked));
            ledger.restore(taken);
        }
        assert_eq!(MOVED.get() - before, 0);
        let all: Vec<u64> = (1..=many).map(|tag| tag * 10).collect();
        assert_eq!(take_up_to(&mut ledger, many), Some(all));
    }

    #[test]
    fn what_is_put_back_in_any_order_stands_where_it_stood() {
        let (many, before) = (1000, MOVED.get());
        let mut ledger = ledger_of(1..=many);
        // Most of them, so that what was taken is removed.
        let mut taken = Vec::new();
        for number in 0..many {
            let tag = number * 7 % many + 1;
            if tag % 5 != 0 {
                taken.extend(ledger.take(DeliveryTag::new(tag)));
            }
        }
        assert!(ledger.entries.len() < taken.len());
        ledger.restore(taken);
        assert_eq!(ledger.unacked, 1000);
        let moved = MOVED.get() - before;
        assert!(moved <= 1000, "{moved} moved");
        let all: Vec<u64> = (1..=many).map(|tag| tag * 10).collect();
        assert_eq!(take_up_to(&mut ledger, many), Some(all));
    }

    #[test]
    fn one_delivery_that_stays_does_not_keep_the_memory_of_all_after_it() {
        let mut ledger = ledger_of([1]);
        for tag in 2..100_000 {
            ledger.push(delivery(tag));
            assert_eq!(take(&mut ledger, tag), Some(tag * 10));
            assert!(ledger.entries.len() <= super::COMPACT_MIN + 2);
        }
        assert_eq!(take(&mut ledger, 1), Some(10));
        assert!(ledger.entries.is_empty());
    }
}
