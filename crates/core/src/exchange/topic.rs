//! Topic bindings as a trie of words: cost grows with words and matches, not with bindings.
//!
//! A routing key is walked word by word, with all places of the trie that the words so far lead to: each place is looked at
//! once a word, in however many ways `#` leads there.

use std::{collections::BTreeSet, ptr};

use bytes::Bytes;
use leveret_wire::value::ShortString;
use rpds::RedBlackTreeMapSync;
use smallvec::{SmallVec, smallvec};

use crate::{record::Destination, refusal::Refusal};

const STAR: &[u8] = b"*";
const HASH: &[u8] = b"#";

/// Every `#` can stand for any number of words, and each one more multiplies the ways to match. Here that costs nothing; it is
/// RabbitMQ's bound since 4.3.5.
const HASHES_MAX: usize = 2;

/// Whether the broker matches such a key.
pub(super) fn check_key(key: &ShortString) -> Result<(), Refusal> {
    let count = words(key.as_bytes()).filter(|word| *word == HASH).count();
    if count > HASHES_MAX {
        return Err(Refusal::TooManyWildcards {
            key: key.clone(),
            count,
        });
    }
    Ok(())
}

/// The empty key has no words at all; `.` has two empty ones.
fn words(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    key.split(|octet| *octet == b'.')
        .skip(usize::from(key.is_empty()))
}

/// The words of a binding key as they stand in the trie: a run of `#` matches what one of them does,
/// and would only multiply the ways to match it.
fn pattern(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut last: &[u8] = &[];
    words(key).filter(move |word| {
        let is_repeated = *word == HASH && last == HASH;
        last = word;
        !is_repeated
    })
}

/// Binding keys word by word. `*` and `#` stand among the words.
#[derive(Debug, Clone, Default)]
pub(super) struct Trie(Node);

#[derive(Debug, Clone, Default)]
struct Node {
    next: RedBlackTreeMapSync<Bytes, Self>,
    /// Where keys that end here lead, and how many bindings say so.
    leads_to: RedBlackTreeMapSync<Destination, u32>,
}

impl Trie {
    pub(super) fn insert(&mut self, key: &[u8], destination: &Destination) {
        self.0.insert(&mut pattern(key), destination);
    }

    pub(super) fn remove(&mut self, key: &[u8], destination: &Destination) {
        self.0.remove(&mut pattern(key), destination);
    }

    /// Where messages with these routing keys lead: of each binding key that fits one of them once.
    pub(super) fn matches<'a>(
        &'a self,
        keys: &[ShortString],
        found: &mut dyn FnMut(&'a Destination),
    ) {
        let mut ends = Places::default();
        for key in keys {
            self.walk(key.as_bytes(), &mut ends);
        }
        for node in ends.list {
            node.leads_to.keys().for_each(&mut *found);
        }
    }

    /// Adds the places where the words of this key end.
    fn walk<'a>(&'a self, key: &[u8], ends: &mut Places<'a>) {
        let mut here: SmallVec<[&Node; FEW]> = smallvec![&self.0];
        // Behind a `#`: whatever words come, they lead there as well.
        let mut open = Places::default();
        open.extend(self.0.next.get(HASH));
        for word in words(key) {
            let mut next = SmallVec::new();
            for node in here.iter().chain(&open.list) {
                node.step(word, &mut next);
            }
            // Others lead to others: none of them is there twice.
            here = next;
            open.extend(here.iter().filter_map(|node| node.next.get(HASH)));
            if here.is_empty() && open.list.is_empty() {
                return;
            }
        }
        ends.extend(here);
        ends.extend(open.list);
    }
}

/// Up to so many places looking through the list is faster than an index.
const FEW: usize = 8;

/// Places of a trie, each once.
#[derive(Default)]
struct Places<'a> {
    list: SmallVec<[&'a Node; FEW]>,
    /// The same, as soon as they are many.
    known: BTreeSet<*const Node>,
}

impl<'a> Places<'a> {
    fn extend(&mut self, nodes: impl IntoIterator<Item = &'a Node>) {
        for node in nodes {
            if self.is_new(node) {
                self.list.push(node);
            }
        }
    }

    fn is_new(&mut self, node: &Node) -> bool {
        if self.list.len() < FEW {
            return !self.list.iter().any(|known| ptr::eq(*known, node));
        }
        if self.known.is_empty() {
            let known = self.list.iter();
            self.known.extend(known.map(|&known| ptr::from_ref(known)));
        }
        self.known.insert(ptr::from_ref(node))
    }
}

impl Node {
    fn is_empty(&self) -> bool {
        self.next.is_empty() && self.leads_to.is_empty()
    }

    fn insert(&mut self, words: &mut dyn Iterator<Item = &[u8]>, destination: &Destination) {
        let Some(word) = words.next() else {
            let bindings = self.leads_to.get(destination).copied().unwrap_or(0);
            self.leads_to.insert_mut(destination.clone(), bindings + 1);
            return;
        };
        let mut node = self.next.get(word).cloned().unwrap_or_default();
        node.insert(words, destination);
        self.next.insert_mut(Bytes::copy_from_slice(word), node);
    }

    fn remove(&mut self, words: &mut dyn Iterator<Item = &[u8]>, destination: &Destination) {
        let Some(word) = words.next() else {
            match self.leads_to.get(destination).copied() {
                Some(bindings) if bindings > 1 => {
                    self.leads_to.insert_mut(destination.clone(), bindings - 1);
                }
                Some(_) | None => {
                    self.leads_to.remove_mut(destination);
                }
            }
            return;
        };
        let Some(mut node) = self.next.get(word).cloned() else {
            return;
        };
        node.remove(words, destination);
        if node.is_empty() {
            self.next.remove_mut(word);
        } else {
            self.next.insert_mut(Bytes::copy_from_slice(word), node);
        }
    }

    /// Adds where this word leads from here.
    fn step<'a>(&'a self, word: &[u8], next: &mut SmallVec<[&'a Self; FEW]>) {
        #[cfg(test)]
        tests::VISITS.set(tests::VISITS.get() + 1);
        next.extend(self.next.get(STAR));
        // In a routing key wildcards are plain text, and the wildcards of bindings match them.
        if word != STAR && word != HASH {
            next.extend(self.next.get(word));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// Nodes looked at, the measure of what a message costs.
        pub(super) static VISITS: Cell<usize> = const { Cell::new(0) };
    }

    /// Nodes looked at, and destinations found.
    fn cost(trie: &Trie, routing_key: &str) -> (usize, usize) {
        cost_of_several(
            trie,
            &[ShortString::try_from(routing_key).expect("a short key")],
        )
    }

    fn cost_of_several(trie: &Trie, routing_keys: &[ShortString]) -> (usize, usize) {
        let before = VISITS.get();
        let mut found = 0;
        trie.matches(routing_keys, &mut |_| found += 1);
        (VISITS.get() - before, found)
    }

    fn trie(keys: impl IntoIterator<Item = String>) -> Trie {
        let mut trie = Trie::default();
        for (number, key) in keys.into_iter().enumerate() {
            let queue = format!("q{number}");
            let queue = ShortString::try_from(queue).expect("a short name");
            trie.insert(key.as_bytes(), &Destination::Queue(queue));
        }
        trie
    }

    #[test]
    fn cost_grows_with_words_and_matches_and_not_with_bindings() {
        let many = 100_000;
        let trie = trie((0..many).map(|number| format!("site.{number}.*.#")));
        let (visits, found) = cost(&trie, "site.77.temperature.celsius");
        assert_eq!(found, 1);
        assert!(visits < 20, "{visits} visits");
        assert_eq!(cost(&trie, "nowhere.77.temperature"), (1, 0));
    }

    #[test]
    fn a_run_of_hashes_costs_what_one_does() {
        let words = vec!["a"; 128].join(".");
        let (one_visits, one_found) = cost(&trie(["#".to_owned()]), &words);
        assert_eq!(
            cost(&trie(["#.#".to_owned()]), &words),
            (one_visits, one_found)
        );
        assert_eq!(one_found, 1);
    }

    /// In a routing key it is plain text, and what it leads to is found by the wildcard already.
    #[test]
    fn a_wildcard_in_a_routing_key_is_not_looked_up_twice() {
        let trie = trie(["*", "#", "a.*"].map(str::to_owned));
        assert_eq!(cost(&trie, "*").1, 2);
        assert_eq!(cost(&trie, "#").1, 2);
        assert_eq!(cost(&trie, "a.*").1, 2);
    }

    /// Two is the most that [`check_key`] lets through.
    #[test]
    fn a_key_costs_its_words_in_however_many_ways_it_fits() {
        let words = vec!["a"; 128];
        let trie = trie(["#.a.#", "#.a.#.b"].map(str::to_owned));
        let (visits, found) = cost(&trie, &words.join("."));
        assert_eq!(found, 1);
        assert!(visits <= 4 * words.len(), "{visits} visits");
    }

    #[test]
    fn many_keys_that_fit_one_binding_find_it_once() {
        let trie = trie(["#.a.#", "b.*"].map(str::to_owned));
        let keys = (0..500).map(|number| format!("a.{number}.a.a"));
        let keys = keys.map(|key| ShortString::try_from(key).expect("a short key"));
        let keys: Vec<ShortString> = keys.collect();
        let (visits, found) = cost_of_several(&trie, &keys);
        assert_eq!(found, 1);
        assert!(visits <= keys.len() * 16, "{visits} visits");
    }

    #[test]
    fn each_of_many_bindings_that_fit_is_found_once() {
        let mut keys: Vec<String> = vec![String::new()];
        for word in ["a", "b", "c", "d", "e", "f"] {
            let longer = |key: &String| ["*", word].map(|next| format!("{key}.{next}"));
            keys = keys.iter().flat_map(longer).collect();
        }
        let keys: Vec<String> = keys.into_iter().map(|key| format!("{key}.#")).collect();
        let (visits, found) = cost(&trie(keys), ".a.b.c.d.e.f.g.h");
        assert_eq!(found, 64);
        assert!(visits < 64 * 5, "{visits} visits");
    }
}
