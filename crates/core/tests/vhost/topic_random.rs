//! The trie of a topic exchange against the plainest matcher there is.

use leveret_wire::value::FieldTable;
use proptest::{prelude::*, sample::select};

use crate::scenario::{VhostScenario, binding};

/// The rule, word by word.
fn matches(pattern: &[&str], words: &[&str]) -> bool {
    match (pattern.split_first(), words.split_first()) {
        (None, None) => true,
        (Some((&"#", rest)), None) => matches(rest, words),
        (Some((&"#", rest)), Some((_, later))) => matches(rest, words) || matches(pattern, later),
        (Some((&"*", rest)), Some((_, later))) => matches(rest, later),
        (Some((word, rest)), Some((found, later))) => word == found && matches(rest, later),
        (None, Some(_)) | (Some(_), None) => false,
    }
}

fn words(key: &str) -> Vec<&str> {
    if key.is_empty() {
        Vec::new()
    } else {
        key.split('.').collect()
    }
}

fn key(words: Vec<&'static str>) -> String {
    words.join(".")
}

fn binding_key() -> impl Strategy<Value = String> {
    prop::collection::vec(select(vec!["a", "b", "", "*", "#", "a*"]), 0..7)
        .prop_map(key)
        .prop_filter("at most two", |key| {
            words(key).iter().filter(|word| **word == "#").count() <= 2
        })
}

fn routing_key() -> impl Strategy<Value = String> {
    prop::collection::vec(select(vec!["a", "b", "", "*", "#", "a*", "c"]), 0..8).prop_map(key)
}

proptest! {
    #[test]
    fn the_trie_finds_what_a_plain_matcher_finds(
        bound in prop::collection::vec((binding_key(), 0..4_u8), 1..30),
        unbound in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        routing_keys in prop::collection::vec(routing_key(), 1..10),
    ) {
        let mut vhost = VhostScenario::new();
        vhost.exchange("X", "topic");
        for number in 0..4 {
            vhost.queue(&format!("q{number}"));
        }
        let mut left: Vec<(String, String)> = Vec::new();
        for (key, number) in bound {
            let queue = format!("q{number}");
            vhost.bind("X", &queue, &key);
            if !left.contains(&(key.clone(), queue.clone())) {
                left.push((key, queue));
            }
        }
        for index in unbound {
            if left.is_empty() {
                break;
            }
            let (key, queue) = left.remove(index.index(left.len()));
            let record = binding("X", &queue, &key, FieldTable::new());
            vhost.try_unbind(&record).expect("it may go");
        }
        for routing_key in routing_keys {
            let mut expected: Vec<String> = left
                .iter()
                .filter(|(key, _)| matches(&words(key), &words(&routing_key)))
                .map(|(_, queue)| queue.clone())
                .collect();
            expected.sort();
            expected.dedup();
            prop_assert_eq!(vhost.route("X", &routing_key), expected, "{}: {:?}", routing_key, left);
        }
    }
}
