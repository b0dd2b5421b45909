//! Messages in order of their places, most of which come at the back and leave at the front.
//!
//! ```text
//!   row     [a, b, –, d, e]     what came behind everything or before everything; – left from the middle
//!   aside   {c}                 what came in between, as messages of another priority do, and what comes back
//! ```
//!
//! Always true of the row: its keys rise, its ends are there, and at most half of it are gaps, or [`KEPT_MAX`].

use std::{
    collections::{BTreeMap, VecDeque},
    iter::from_fn,
};

/// Places that a row keeps, used or not.
const KEPT_MAX: usize = 64;

/// A map in order of its keys, cheap at both ends.
#[derive(Debug)]
pub(super) struct Line<K, V> {
    row: VecDeque<(K, Option<V>)>,
    gaps: usize,
    aside: BTreeMap<K, V>,
}

impl<K: Ord + Copy, V> Line<K, V> {
    pub(super) const fn new() -> Self {
        Self {
            row: VecDeque::new(),
            gaps: 0,
            aside: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.row.len() - self.gaps + self.aside.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.row.is_empty() && self.aside.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Puts a message at its place, where there is none.
    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.row.back().is_none_or(|(last, _)| *last < key) {
            self.row.push_back((key, Some(value)));
        } else if self.row.front().is_some_and(|(first, _)| key < *first) {
            self.row.push_front((key, Some(value)));
        } else {
            self.aside.insert(key, value);
        }
    }

    pub(super) fn get(&self, key: K) -> Option<&V> {
        let in_row = self.position(key).and_then(|at| self.row[at].1.as_ref());
        in_row.or_else(|| self.aside.get(&key))
    }

    pub(super) fn contains(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn remove(&mut self, key: K) -> Option<V> {
        let at = self.position(key);
        match at.and_then(|at| self.row[at].1.take()) {
            Some(value) => {
                self.gaps += 1;
                self.trim();
                Some(value)
            }
            None => self.aside.remove(&key),
        }
    }

    pub(super) fn first(&self) -> Option<(K, &V)> {
        let in_row = self.row.front().and_then(present);
        let aside = self
            .aside
            .first_key_value()
            .map(|(&key, value)| (key, value));
        earlier(in_row, aside)
    }

    pub(super) fn last_key(&self) -> Option<K> {
        let in_row = self.row.back().map(|(key, _)| *key);
        let aside = self.aside.last_key_value().map(|(key, _)| *key);
        in_row.max(aside)
    }

    /// The first at this place or behind it.
    pub(super) fn first_from(&self, key: K) -> Option<(K, &V)> {
        let from = self.row.partition_point(|(place, _)| *place < key);
        let in_row = self.row.range(from..).find_map(present);
        let aside = self.aside.range(key..).next();
        earlier(in_row, aside.map(|(&key, value)| (key, value)))
    }

    pub(super) fn pop_first(&mut self) -> Option<(K, V)> {
        let is_aside = match (self.row.front(), self.aside.first_key_value()) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some((in_row, _)), Some((aside, _))) => aside < in_row,
        };
        if is_aside {
            return self.aside.pop_first();
        }
        let (key, value) = self.row.pop_front()?;
        self.trim();
        Some((key, value?))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        let mut row = self.row.iter().filter_map(present).peekable();
        let aside = self.aside.iter().map(|(&key, value)| (key, value));
        let mut aside = aside.peekable();
        from_fn(move || match (row.peek(), aside.peek()) {
            (Some((in_row, _)), Some((beside, _))) if beside < in_row => aside.next(),
            (Some(_), _) => row.next(),
            (None, _) => aside.next(),
        })
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = K> {
        self.iter().map(|(key, _)| key)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Where a key stands in the row. Mostly it is the first.
    fn position(&self, key: K) -> Option<usize> {
        let (first, _) = self.row.front()?;
        if *first == key {
            return Some(0);
        }
        self.row.binary_search_by(|(place, _)| place.cmp(&key)).ok()
    }

    /// Something left the row: its ends are there again, and it has not much more room than it needs.
    fn trim(&mut self) {
        if self.gaps > 0 {
            self.close_gaps();
        }
        let capacity = self.row.capacity();
        if capacity > KEPT_MAX && self.row.len() < capacity / 4 {
            self.row.shrink_to(KEPT_MAX.max(2 * self.row.len()));
        }
    }

    fn close_gaps(&mut self) {
        while let Some((_, None)) = self.row.front() {
            self.row.pop_front();
            self.gaps -= 1;
        }
        while let Some((_, None)) = self.row.back() {
            self.row.pop_back();
            self.gaps -= 1;
        }
        if self.gaps > KEPT_MAX && self.gaps > self.row.len() / 2 {
            self.row.retain(|(_, value)| value.is_some());
            self.gaps = 0;
        }
    }
}

fn present<K: Copy, V>((key, value): &(K, Option<V>)) -> Option<(K, &V)> {
    value.as_ref().map(|value| (*key, value))
}

fn earlier<'a, K: Ord, V>(
    one: Option<(K, &'a V)>,
    other: Option<(K, &'a V)>,
) -> Option<(K, &'a V)> {
    match (one, other) {
        (Some(one), Some(other)) if other.0 < one.0 => Some(other),
        (None, other) => other,
        (one, _) => one,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::btree_map::Entry;

    use proptest::{prelude::*, sample::Index};

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        /// Behind everything that ever was.
        Append,
        /// A place that is free, wherever it is.
        Insert(u16),
        PopFirst,
        Remove(Index),
        RemoveMissing(u16),
        Clear,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            20 => Just(Step::Append),
            5 => any::<u16>().prop_map(Step::Insert),
            8 => Just(Step::PopFirst),
            10 => any::<Index>().prop_map(Step::Remove),
            2 => any::<u16>().prop_map(Step::RemoveMissing),
            1 => Just(Step::Clear),
        ]
    }

    fn check(line: &Line<u16, u32>, model: &BTreeMap<u16, u32>) -> Result<(), TestCaseError> {
        prop_assert_eq!(line.len(), model.len());
        prop_assert_eq!(line.is_empty(), model.is_empty());
        let expected: Vec<_> = model.iter().map(|(&key, value)| (key, value)).collect();
        prop_assert_eq!(line.iter().collect::<Vec<_>>(), expected);
        prop_assert_eq!(
            line.first().map(|(key, _)| key),
            model.keys().next().copied()
        );
        prop_assert_eq!(line.last_key(), model.keys().last().copied());
        let ends = [line.row.front(), line.row.back()];
        prop_assert!(ends.iter().flatten().all(|(_, value)| value.is_some()));
        let gaps = line.row.iter().filter(|(_, value)| value.is_none()).count();
        prop_assert_eq!(gaps, line.gaps);
        prop_assert!(
            gaps <= KEPT_MAX || gaps <= line.row.len() / 2,
            "{} gaps",
            gaps
        );
        let capacity = line.row.capacity();
        prop_assert!(
            capacity <= KEPT_MAX.max(4 * (line.row.len() + 1)),
            "{}",
            capacity
        );
        Ok(())
    }

    proptest! {
        #[test]
        fn a_line_is_a_map_in_order(steps in prop::collection::vec(step(), 0..600)) {
            let (mut line, mut model) = (Line::new(), BTreeMap::new());
            let mut next = 1000_u16;
            for (number, step) in (0_u32..).zip(steps) {
                match step {
                    Step::Append => {
                        line.insert(next, number);
                        model.insert(next, number);
                        next += 1;
                    }
                    Step::Insert(key) => {
                        let key = key % next;
                        if let Entry::Vacant(free) = model.entry(key) {
                            line.insert(key, number);
                            free.insert(number);
                        }
                    }
                    Step::PopFirst => prop_assert_eq!(line.pop_first(), model.pop_first()),
                    Step::Remove(index) if !model.is_empty() => {
                        let key = *model.keys().nth(index.index(model.len())).expect("one");
                        prop_assert_eq!(line.get(key), model.get(&key));
                        prop_assert_eq!(line.remove(key), model.remove(&key));
                        prop_assert_eq!(line.remove(key), None);
                    }
                    Step::RemoveMissing(key) if !model.contains_key(&key) => {
                        prop_assert!(!line.contains(key));
                        prop_assert_eq!(line.remove(key), None);
                    }
                    Step::Remove(_) | Step::RemoveMissing(_) => {}
                    Step::Clear => {
                        line.clear();
                        model.clear();
                    }
                }
                check(&line, &model)?;
                let from = next / 2;
                let expected = model.range(from..).next().map(|(&key, value)| (key, value));
                prop_assert_eq!(line.first_from(from), expected);
            }
        }
    }

    #[test]
    fn one_that_stays_does_not_keep_the_places_of_those_that_left() {
        let mut line = Line::new();
        line.insert(0, ());
        for key in 1..100_000 {
            line.insert(key, ());
            if key > 10 {
                assert_eq!(line.remove(key - 10), Some(()));
            }
        }
        assert_eq!(line.len(), 11);
        assert!(line.row.capacity() < 1000, "{}", line.row.capacity());
    }

    #[test]
    fn a_backlog_that_left_gives_its_memory_back() {
        let mut line = Line::new();
        for key in 0..100_000 {
            line.insert(key, ());
        }
        while line.pop_first().is_some() {}
        assert!(line.row.capacity() <= KEPT_MAX, "{}", line.row.capacity());
    }
}
