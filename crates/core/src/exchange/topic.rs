//! Topic bindings as a trie of words: cost grows with words and matches, not with bindings.

use bytes::Bytes;
use leveret_wire::value::ShortString;
use rpds::RedBlackTreeMapSync;

use crate::{record::Destination, refusal::Refusal};

const STAR: &[u8] = b"*";
const HASH: &[u8] = b"#";

/// Every `#` can stand for any number of words, and each one more multiplies the ways to match.
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

    pub(super) fn matches<'a>(&'a self, key: &[u8], found: &mut dyn FnMut(&'a Destination)) {
        let words: Vec<&[u8]> = words(key).collect();
        self.0.matches(&words, found);
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

    fn matches<'a>(&'a self, words: &[&[u8]], found: &mut dyn FnMut(&'a Destination)) {
        #[cfg(test)]
        tests::VISITS.set(tests::VISITS.get() + 1);
        if let Some(hash) = self.next.get(HASH) {
            for skipped in 0..=words.len() {
                hash.matches(&words[skipped..], found);
            }
        }
        let Some((word, rest)) = words.split_first() else {
            self.leads_to.keys().for_each(found);
            return;
        };
        if let Some(star) = self.next.get(STAR) {
            star.matches(rest, found);
        }
        // In a routing key wildcards are plain text, and the wildcards above have matched them.
        if *word != STAR
            && *word != HASH
            && let Some(node) = self.next.get(*word)
        {
            node.matches(rest, found);
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
        let before = VISITS.get();
        let mut found = 0;
        trie.matches(routing_key.as_bytes(), &mut |_| found += 1);
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
    fn the_worst_key_costs_the_square_of_the_words() {
        let words = vec!["a"; 128];
        let (visits, _) = cost(&trie(["#.a.#.b".to_owned()]), &words.join("."));
        assert!(visits <= words.len() * words.len(), "{visits} visits");
    }
}
