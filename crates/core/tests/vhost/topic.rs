//! Topic keys: words between dots, `*` for one word, `#` for any number.

use leveret_wire::value::FieldTable;

use crate::scenario::{VhostScenario, binding};

#[track_caller]
fn matches(binding_key: &str, routing_key: &str) -> bool {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "topic");
    vhost.queue("q");
    vhost.bind("X", "q", binding_key);
    !vhost.route("X", routing_key).is_empty()
}

/// The table of `exchanges-and-routing.md`, as a real RabbitMQ answered.
#[test]
fn the_verified_table_holds() {
    let table: [(&str, &[&str], &[&str]); 9] = [
        ("a", &["a.#", "#", "*", "#.#"], &["a.*", "a.#.b"]),
        (
            "a.b",
            &["a.b", "a.*", "*.b", "a.#", "#.b", "*.*", "a.#.b"],
            &["a.*b", "*"],
        ),
        ("a.b.b", &["a.*.b", "a.#.b", "#.b"], &["a.*"]),
        ("", &["", "#", "#.#"], &["*"]),
        (".", &[".", "*.*", "#"], &[""]),
        ("a..b", &["a..b", "a.*.b", "#.b"], &[]),
        ("A.B", &["#", "*.*"], &["a.b"]),
        ("*", &["*", "#"], &["a", "b"]),
        ("a.#", &["a.#", "a.*", "#", "*.*"], &["a", "a.b", "b.#"]),
    ];
    for (routing_key, matching, others) in table {
        for key in matching {
            assert!(
                matches(key, routing_key),
                "{key:?} should match {routing_key:?}"
            );
        }
        for key in others {
            assert!(
                !matches(key, routing_key),
                "{key:?} should not match {routing_key:?}"
            );
        }
    }
}

#[test]
fn a_partial_wildcard_is_plain_text() {
    assert!(matches("a.*b", "a.*b"));
    assert!(!matches("a.*b", "a.bb"));
    assert!(matches("a#.b", "a#.b"));
    assert!(!matches("a#.b", "ab.b"));
    assert!(matches("**", "**"));
    assert!(!matches("**", "a"));
    assert!(!matches("##", "a"));
}

#[test]
fn wildcards_in_routing_keys_are_plain_text() {
    for routing_key in ["*", "#", "a.*", "a.#", "*.#"] {
        assert!(!matches("a.b", routing_key), "{routing_key}");
        assert!(!matches("x", routing_key), "{routing_key}");
        assert!(matches("#", routing_key), "{routing_key}");
    }
    assert!(matches("*", "#"));
    assert!(!matches("*", "a.#"));
    assert!(matches("#", "#"));
}

#[test]
fn hash_at_both_ends_finds_a_word_anywhere() {
    for routing_key in ["a", "a.b", "b.a", "b.a.b", "a.a"] {
        assert!(matches("#.a.#", routing_key), "{routing_key}");
    }
    for routing_key in ["", "b", "b.b", "ba", "b.aa"] {
        assert!(!matches("#.a.#", routing_key), "{routing_key}");
    }
}

#[test]
fn the_longest_keys_match() {
    let words = vec!["a"; 128].join(".");
    assert_eq!(words.len(), 255);
    for key in ["#", "#.#", "#.a.#", "a.#.a", "#.a"] {
        assert!(matches(key, &words), "{key}");
    }
    assert!(matches(&words, &words));
    assert!(matches(&vec!["*"; 128].join("."), &words));
    assert!(!matches("#.b.#", &words));
    assert!(!matches("#.a.#.b", &words));
    let dots = ".".repeat(255);
    assert!(matches("#", &dots));
    assert!(matches(&dots, &dots));
}

#[test]
fn bindings_come_and_go_without_a_trace() {
    let mut vhost = VhostScenario::new();
    vhost.exchange("X", "topic");
    vhost.queue("q");
    let empty = format!("{vhost:?}");
    let keys = [
        "", ".", "a", "a.b", "a.b.c", "a.*", "a.#", "#", "*", "#.a.#", "a.#.#", "#.#",
    ];
    for key in keys {
        vhost.bind("X", "q", key);
    }
    for key in keys {
        vhost.unbind("X", "q", key);
    }
    assert_eq!(format!("{vhost:?}"), empty);
    assert_eq!(
        vhost.try_unbind(&binding("X", "q", "a.b", FieldTable::new())),
        Ok(vec![])
    );
}
