//! Messages in order of their places, most of which come at the back and leave at the front.
//!
//! ```text
//!   row     [a, b, –, d] [e, –, g] [h, i]     what came behind everything or before everything; – left from the middle
//!           earlier chunks         last
//!   aside   {c, f}                            what came in between, as messages of another priority do, and what comes back
//! ```
//!
//! A row is cut into chunks, so that one of millions grows and shrinks in small steps: whoever adds a message has the lock of
//! its queue. A row of few is one chunk.
//!
//! Always true of the row: keys rise from chunk to chunk, and no chunk is empty but the last one of an empty row.

mod chunk;

use std::{
    collections::{BTreeMap, VecDeque},
    iter::from_fn,
    mem::replace,
};

use self::chunk::Chunk;

/// Places of a chunk at most: some 20 KiB.
const CHUNK_MAX: usize = 256;
/// Places that the last chunk keeps, used or not.
const KEPT_MAX: usize = 64;
/// The same of the others, in which nothing comes any more.
const KEPT_EARLIER_MAX: usize = 8;

/// A map in order of its keys, cheap at both ends.
#[derive(Debug)]
pub(super) struct Line<K, V, const CHUNK: usize = CHUNK_MAX> {
    earlier: VecDeque<Chunk<K, V>>,
    /// Messages in them.
    earlier_len: usize,
    last: Chunk<K, V>,
    aside: BTreeMap<K, V>,
}

impl<K: Ord + Copy, V, const CHUNK: usize> Line<K, V, CHUNK> {
    pub(super) const fn new() -> Self {
        Self {
            earlier: VecDeque::new(),
            earlier_len: 0,
            last: Chunk::new(),
            aside: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.earlier_len + self.last.len() + self.aside.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.last.is_empty() && self.aside.is_empty()
    }

    /// Puts a message at its place, where there is none.
    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.last.last_key().is_none_or(|last| last < key) {
            if self.last.places() >= CHUNK {
                self.begin_chunk();
            }
            self.last.push_back(key, value);
        } else if self.front().first_key().is_some_and(|first| key < first) {
            self.push_front(key, value);
        } else {
            self.aside.insert(key, value);
        }
    }

    pub(super) fn get(&self, key: K) -> Option<&V> {
        let in_row = self.chunk_from(key).get(key);
        in_row.or_else(|| self.aside.get(&key))
    }

    pub(super) fn contains(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn remove(&mut self, key: K) -> Option<V> {
        if !self.earlier.is_empty() {
            let in_row = self.remove_of_long_row(key);
            return in_row.or_else(|| self.aside.remove(&key));
        }
        match self.last.remove(key, KEPT_MAX) {
            None => self.aside.remove(&key),
            removed => removed,
        }
    }

    pub(super) fn first(&self) -> Option<(K, &V)> {
        let in_row = self.front().first();
        let aside = self
            .aside
            .first_key_value()
            .map(|(&key, value)| (key, value));
        earlier(in_row, aside)
    }

    pub(super) fn last_key(&self) -> Option<K> {
        let aside = self.aside.last_key_value().map(|(key, _)| *key);
        self.last.last_key().max(aside)
    }

    /// The first at this place or behind it.
    pub(super) fn first_from(&self, key: K) -> Option<(K, &V)> {
        let in_row = self.chunk_from(key).first_from(key);
        let aside = self.aside.range(key..).next();
        earlier(in_row, aside.map(|(&key, value)| (key, value)))
    }

    pub(super) fn pop_first(&mut self) -> Option<(K, V)> {
        if let Some((&aside, _)) = self.aside.first_key_value()
            && self.front().first_key().is_none_or(|first| aside < first)
        {
            return self.aside.pop_first();
        }
        if self.earlier.is_empty() {
            self.last.pop_first(KEPT_MAX)
        } else {
            self.pop_first_of_long_row()
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        let row = self.earlier.iter().chain([&self.last]);
        let mut row = row.flat_map(Chunk::iter).peekable();
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

    fn front(&self) -> &Chunk<K, V> {
        self.earlier.front().unwrap_or(&self.last)
    }

    /// The chunk in which the first at this place or behind it stands, if any does.
    fn chunk_from(&self, key: K) -> &Chunk<K, V> {
        if self.earlier.is_empty() {
            return &self.last;
        }
        self.earlier
            .get(self.earlier_from(key))
            .unwrap_or(&self.last)
    }

    /// Its number; one too high if it is the last one. Mostly it is the first.
    fn earlier_from(&self, key: K) -> usize {
        let is_before = |chunk: &Chunk<K, V>| chunk.last_key() < Some(key);
        match self.earlier.front() {
            Some(first) if !is_before(first) => 0,
            _ => self.earlier.partition_point(is_before),
        }
    }

    /// A row that has filled one chunk fills another one.
    #[cold]
    fn begin_chunk(&mut self) {
        let full = replace(&mut self.last, Chunk::with_capacity(CHUNK));
        self.earlier_len += full.len();
        self.earlier.push_back(full);
    }

    #[cold]
    fn push_front(&mut self, key: K, value: V) {
        if self.earlier.is_empty() && self.last.places() < CHUNK {
            self.last.push_front(key, value);
            return;
        }
        self.earlier_len += 1;
        match self.earlier.front_mut() {
            Some(first) if first.places() < CHUNK => first.push_front(key, value),
            _ => self.earlier.push_front(Chunk::of(key, value)),
        }
    }

    #[cold]
    fn remove_of_long_row(&mut self, key: K) -> Option<V> {
        if self.front().first_key() == Some(key) {
            return self.pop_first_of_long_row().map(|(_, value)| value);
        }
        let at = self.earlier_from(key);
        let Some(chunk) = self.earlier.get_mut(at) else {
            let value = self.last.remove(key, KEPT_MAX);
            self.end_last();
            return value;
        };
        let value = chunk.remove(key, KEPT_EARLIER_MAX)?;
        self.earlier_len -= 1;
        if chunk.is_empty() {
            self.earlier.remove(at);
            self.let_go();
        }
        Some(value)
    }

    #[cold]
    fn pop_first_of_long_row(&mut self) -> Option<(K, V)> {
        let first = self.earlier.front_mut()?;
        let popped = first.take_first()?;
        self.earlier_len -= 1;
        if first.is_empty() {
            self.earlier.pop_front();
            self.let_go();
        }
        Some(popped)
    }

    /// Something left the last chunk: if it was all of it, there is another last one.
    fn end_last(&mut self) {
        if self.last.is_empty()
            && let Some(last) = self.earlier.pop_back()
        {
            self.earlier_len -= last.len();
            self.last = last;
            self.let_go();
        }
    }

    /// A long row was short again.
    fn let_go(&mut self) {
        if self.earlier.is_empty() {
            self.earlier = VecDeque::new();
        }
    }
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

    /// Chunks of a few, so that there are several.
    type Short = Line<u16, u32, 8>;

    fn check(line: &Short, model: &BTreeMap<u16, u32>) -> Result<(), TestCaseError> {
        prop_assert_eq!(line.len(), model.len());
        prop_assert_eq!(line.is_empty(), model.is_empty());
        let expected: Vec<_> = model.iter().map(|(&key, value)| (key, value)).collect();
        prop_assert_eq!(line.iter().collect::<Vec<_>>(), expected);
        prop_assert_eq!(
            line.first().map(|(key, _)| key),
            model.keys().next().copied()
        );
        prop_assert_eq!(line.last_key(), model.keys().last().copied());
        let len: usize = line.earlier.iter().map(Chunk::len).sum();
        prop_assert_eq!(len, line.earlier_len);
        prop_assert!(!line.earlier.iter().any(Chunk::is_empty));
        prop_assert!(line.earlier.is_empty() || !line.last.is_empty());
        for chunk in &line.earlier {
            // One that was the last one, or is the first one, may have kept more.
            prop_assert_eq!(chunk.check(KEPT_MAX), Ok(()));
            prop_assert!(chunk.places() <= 8);
        }
        prop_assert_eq!(line.last.check(KEPT_MAX), Ok(()));
        prop_assert!(line.last.places() <= 8);
        Ok(())
    }

    proptest! {
        #[test]
        fn a_line_is_a_map_in_order(steps in prop::collection::vec(step(), 0..600)) {
            let (mut line, mut model) = (Short::new(), BTreeMap::new());
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
                        line = Short::new();
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
        let mut line: Line<_, _> = Line::new();
        line.insert(0, ());
        for key in 1..100_000 {
            line.insert(key, ());
            if key > 10 {
                assert_eq!(line.remove(key - 10), Some(()));
            }
        }
        assert_eq!(line.len(), 11);
        assert!(line.last.capacity() < 1000, "{}", line.last.capacity());
    }

    #[test]
    fn a_backlog_that_left_gives_its_memory_back() {
        let mut line: Line<_, _> = Line::new();
        for key in 0..100_000 {
            line.insert(key, ());
        }
        while line.pop_first().is_some() {}
        assert!(line.last.capacity() <= KEPT_MAX, "{}", line.last.capacity());
    }

    #[test]
    fn few_that_stay_of_many_keep_few_places() {
        let mut line: Line<_, _> = Line::new();
        for key in 0..100_000 {
            line.insert(key, ());
        }
        for key in (0..100_000).filter(|key| key % 1000 != 0) {
            assert_eq!(line.remove(key), Some(()));
        }
        assert_eq!(line.len(), 100);
        let places = line.earlier.iter().map(Chunk::capacity).sum::<usize>();
        assert!(places <= 100 * KEPT_EARLIER_MAX, "{places}");
    }
}
