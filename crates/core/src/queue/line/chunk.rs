//! A part of a line's row, small enough to be copied in microseconds.
//!
//! Always true: its keys rise, its ends are there, and at most half of its places are gaps, or as many as it keeps.

use std::collections::VecDeque;

/// Places with rising keys; a message that left from between them leaves a gap.
#[derive(Debug)]
pub(super) struct Chunk<K, V> {
    places: VecDeque<(K, Option<V>)>,
    gaps: usize,
}

impl<K: Ord + Copy, V> Chunk<K, V> {
    pub(super) const fn new() -> Self {
        Self {
            places: VecDeque::new(),
            gaps: 0,
        }
    }

    pub(super) fn with_capacity(places: usize) -> Self {
        Self {
            places: VecDeque::with_capacity(places),
            gaps: 0,
        }
    }

    pub(super) fn of(key: K, value: V) -> Self {
        let mut chunk = Self::new();
        chunk.push_back(key, value);
        chunk
    }

    /// Places, gaps among them.
    pub(super) fn places(&self) -> usize {
        self.places.len()
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.gaps
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn push_back(&mut self, key: K, value: V) {
        self.places.push_back((key, Some(value)));
    }

    pub(super) fn push_front(&mut self, key: K, value: V) {
        self.places.push_front((key, Some(value)));
    }

    pub(super) fn first_key(&self) -> Option<K> {
        self.places.front().map(|(key, _)| *key)
    }

    pub(super) fn last_key(&self) -> Option<K> {
        self.places.back().map(|(key, _)| *key)
    }

    pub(super) fn first(&self) -> Option<(K, &V)> {
        self.places.front().and_then(present)
    }

    /// The first at this place or behind it.
    pub(super) fn first_from(&self, key: K) -> Option<(K, &V)> {
        let from = self.places.partition_point(|(place, _)| *place < key);
        self.places.range(from..).find_map(present)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.places.iter().filter_map(present)
    }

    pub(super) fn get(&self, key: K) -> Option<&V> {
        let at = self.position(key)?;
        self.places[at].1.as_ref()
    }

    /// Takes a message out, and keeps so many places at least, used or not.
    pub(super) fn remove(&mut self, key: K, kept: usize) -> Option<V> {
        let at = self.position(key)?;
        let value = self.places[at].1.take()?;
        self.gaps += 1;
        self.trim(kept);
        Some(value)
    }

    /// The same with the first one.
    pub(super) fn pop_first(&mut self, kept: usize) -> Option<(K, V)> {
        let (key, value) = self.places.pop_front()?;
        self.trim(kept);
        Some((key, value?))
    }

    /// Takes the first one out, and keeps what places there are: they are all about to go.
    pub(super) fn take_first(&mut self) -> Option<(K, V)> {
        let (key, value) = self.places.pop_front()?;
        if self.gaps > 0 {
            self.close_gaps(usize::MAX);
        }
        Some((key, value?))
    }

    /// Where a key stands. Mostly it is the first.
    fn position(&self, key: K) -> Option<usize> {
        let (first, _) = self.places.front()?;
        if *first == key {
            return Some(0);
        }
        self.places
            .binary_search_by(|(place, _)| place.cmp(&key))
            .ok()
    }

    /// Something left: the ends are there again, and there is not much more room than is needed.
    fn trim(&mut self, kept: usize) {
        if self.gaps > 0 {
            self.close_gaps(kept);
        }
        let capacity = self.places.capacity();
        if capacity > kept && self.places.len() < capacity / 4 {
            self.places.shrink_to(kept.max(2 * self.places.len()));
        }
    }

    fn close_gaps(&mut self, kept: usize) {
        while let Some((_, None)) = self.places.front() {
            self.places.pop_front();
            self.gaps -= 1;
        }
        while let Some((_, None)) = self.places.back() {
            self.places.pop_back();
            self.gaps -= 1;
        }
        if self.gaps > kept && self.gaps > self.places.len() / 2 {
            self.places.retain(|(_, value)| value.is_some());
            self.gaps = 0;
        }
    }

    #[cfg(test)]
    pub(super) fn check(&self, kept: usize) -> Result<(), String> {
        let ends = [self.places.front(), self.places.back()];
        let gaps = self.places.iter().filter(|(_, value)| value.is_none());
        let gaps = gaps.count();
        if ends.iter().flatten().any(|(_, value)| value.is_none()) || gaps != self.gaps {
            return Err(format!("{gaps} gaps, {} counted", self.gaps));
        }
        let (places, capacity) = (self.places.len(), self.places.capacity());
        if gaps > kept.max(places / 2) || capacity > kept.max(4 * (places + 1)) {
            return Err(format!("{places} places of {capacity} with {gaps} gaps"));
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.places.capacity()
    }
}

fn present<K: Copy, V>((key, value): &(K, Option<V>)) -> Option<(K, &V)> {
    value.as_ref().map(|value| (*key, value))
}
