//! Every key, byte by byte. Numbers are big-endian, so that the order of the bytes is the order of the numbers.
//!
//! ```text
//!   messages    0         8       9         17    18
//!               │ queue 8 │ class │  seq 8  │ rev │     class = 255 − priority: the highest priority comes first
//!
//!   the others  0       1
//!   meta        │ 1     │ kind │ number 8 or name 16 │  name = start of SHA-256 over what identifies the object
//!   qstate      │ 3     │ queue 8 │
//!   commits     │ 4     │ number 8 │
//!   dropped     │ 5     │ queue 8 │
//!   attempts    │ 6     │ queue 8 │ seq 8 │
//! ```
//!
//! Messages have a column family of their own; the small tables share one, and their keys begin with the table. No text
//! is ever a part of a key: keys have a fixed length, and no name can be made to look like another.

use leveret_core::ids::{QueueId, Seq};
use sha2::{Digest, Sha256};

use crate::schema::Table;

/// Length of a key of `messages`.
pub(crate) const MESSAGE_KEY_LEN: usize = 18;

/// The first edition of a row. Features that edit a stored message put it under the next one.
const FIRST_REV: u8 = 0;

/// A key of `messages`, in its bytes.
pub(crate) type MessageKey = [u8; MESSAGE_KEY_LEN];

/// Where one message of one queue is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) queue: QueueId,
    pub(crate) priority: u8,
    pub(crate) seq: Seq,
}

impl Place {
    pub(crate) fn key(self) -> MessageKey {
        let [q7, q6, q5, q4, q3, q2, q1, q0] = self.queue.get().to_be_bytes();
        let [s7, s6, s5, s4, s3, s2, s1, s0] = self.seq.get().to_be_bytes();
        let class = 255 - self.priority;
        [
            q7, q6, q5, q4, q3, q2, q1, q0, class, s7, s6, s5, s4, s3, s2, s1, s0, FIRST_REV,
        ]
    }

    /// The place a key names; `None` for anything that is not a key of `messages`.
    pub(crate) fn of_key(key: &[u8]) -> Option<Self> {
        let (queue, rest) = key.split_first_chunk::<8>()?;
        let (&[class], rest) = rest.split_first_chunk::<1>()?;
        let (seq, rest) = rest.split_first_chunk::<8>()?;
        (rest.len() == 1).then_some(Self {
            queue: QueueId::new(u64::from_be_bytes(*queue)),
            priority: 255 - class,
            seq: Seq::new(u64::from_be_bytes(*seq)),
        })
    }
}

/// Bounds of everything stored for one queue: the first inside, the second outside.
pub(crate) fn queue_bounds(queue: QueueId) -> ([u8; 8], [u8; MESSAGE_KEY_LEN + 1]) {
    let start = queue.get().to_be_bytes();
    // Longer than any key and all ones behind the queue: behind every key of this queue, before every key of the next,
    // and it exists also for the last queue there can be.
    let mut end = [0xff; MESSAGE_KEY_LEN + 1];
    for (to, from) in end.iter_mut().zip(start) {
        *to = from;
    }
    (start, end)
}

/// A key of a small table: the table and a number.
pub(crate) type NumberKey = [u8; 9];

/// Key of one queue in `qstate` or `dropped`.
pub(crate) fn queue_key(table: Table, queue: QueueId) -> NumberKey {
    number_key(table, queue.get())
}

/// Key of `commits`.
pub(crate) fn commit_key(number: u64) -> NumberKey {
    number_key(Table::Commits, number)
}

/// Key of `attempts`.
pub(crate) fn attempts_key(queue: QueueId, seq: Seq) -> [u8; 17] {
    let mut key = [Table::Attempts as u8; 17];
    let numbers = queue.get().to_be_bytes().into_iter();
    let numbers = numbers.chain(seq.get().to_be_bytes());
    for (to, from) in key.iter_mut().skip(1).zip(numbers) {
        *to = from;
    }
    key
}

/// Queue and position of such a key.
pub(crate) fn place_of_attempts_key(key: &[u8]) -> Option<(QueueId, Seq)> {
    let (_table, numbers) = key.split_first()?;
    let (queue, seq) = numbers.split_first_chunk::<8>()?;
    let queue = QueueId::new(u64::from_be_bytes(*queue));
    Some((queue, Seq::new(u64::from_be_bytes(seq.try_into().ok()?))))
}

/// Bounds of the attempts of all messages of a queue: the first inside, the second outside.
pub(crate) fn attempts_bounds(queue: QueueId) -> (NumberKey, [u8; 18]) {
    let start = queue_key(Table::Attempts, queue);
    let mut end = [0xff; 18];
    for (to, from) in end.iter_mut().zip(start) {
        *to = from;
    }
    (start, end)
}

fn number_key(table: Table, number: u64) -> NumberKey {
    let [n7, n6, n5, n4, n3, n2, n1, n0] = number.to_be_bytes();
    [table as u8, n7, n6, n5, n4, n3, n2, n1, n0]
}

/// The number in a key of `qstate`, `dropped` or `commits`.
pub(crate) fn number_of_key(key: &[u8]) -> Option<u64> {
    let (_table, number) = key.split_first()?;
    number.try_into().ok().map(u64::from_be_bytes)
}

/// What a row of `meta` is about; the second byte of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Facts about the store itself, by a number from the list in `table::marks`.
    Mark = 1,
    Vhost = 2,
    Exchange = 3,
    Queue = 4,
    Binding = 5,
    User = 6,
    Permission = 7,
    TopicPermission = 8,
    Parameter = 9,
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::Mark,
        Self::Vhost,
        Self::Exchange,
        Self::Queue,
        Self::Binding,
        Self::User,
        Self::Permission,
        Self::TopicPermission,
        Self::Parameter,
    ];

    pub(crate) fn of_key(key: &[u8]) -> Option<Self> {
        let second = key.get(1)?;
        Self::ALL.into_iter().find(|kind| *kind as u8 == *second)
    }
}

/// Key of a row of `meta` about something that has a number.
pub(crate) fn meta_number_key(kind: Kind, number: u64) -> [u8; 10] {
    let [n7, n6, n5, n4, n3, n2, n1, n0] = number.to_be_bytes();
    [
        Table::Meta as u8,
        kind as u8,
        n7,
        n6,
        n5,
        n4,
        n3,
        n2,
        n1,
        n0,
    ]
}

/// The number in such a key.
pub(crate) fn meta_number_of_key(key: &[u8]) -> Option<u64> {
    let (_table_and_kind, number) = key.split_first_chunk::<2>()?;
    number.try_into().ok().map(u64::from_be_bytes)
}

/// Key of a row of `meta` about something that is known by its names.
///
/// A hash instead of a number from a counter: the same change applied twice meets the same row, and nothing has to be
/// remembered between declare and delete. A cryptographic one, since names come from users.
pub(crate) fn meta_name_key(kind: Kind, names: &[&[u8]]) -> [u8; 18] {
    let mut hash = Sha256::new();
    for name in names {
        // The length in front, so that no two lists of names have the same bytes.
        hash.update((name.len() as u64).to_be_bytes());
        hash.update(name);
    }
    let digest: [u8; 32] = hash.finalize().into();
    let mut key = [Table::Meta as u8; 18];
    let start = [kind as u8].into_iter().chain(digest);
    for (to, from) in key.iter_mut().skip(1).zip(start) {
        *to = from;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn place(queue: u64, priority: u8, seq: u64) -> Place {
        Place {
            queue: QueueId::new(queue),
            priority,
            seq: Seq::new(seq),
        }
    }

    #[test]
    fn a_message_key_is_queue_class_seq_and_rev() {
        let key = place(0x0102_0304_0506_0708, 9, 0x1112_1314_1516_1718).key();
        assert_eq!(hex(&key), "0102030405060708f6111213141516171800");
    }

    #[test]
    fn a_message_key_gives_its_place_back() {
        for place in [
            place(0, 0, 0),
            place(u64::MAX, 255, u64::MAX),
            place(7, 3, 9),
        ] {
            assert_eq!(Place::of_key(&place.key()), Some(place));
        }
        assert_eq!(Place::of_key(&[0; 17]), None);
        assert_eq!(Place::of_key(&[0; 19]), None);
    }

    #[test]
    fn message_keys_sort_by_queue_then_falling_priority_then_seq() {
        let sorted = [
            place(1, 255, 0),
            place(1, 9, 256),
            place(1, 0, 1),
            place(1, 0, 255),
            place(1, 0, 256),
            place(2, 255, 0),
            place(256, 0, 0),
        ];
        assert!(sorted.map(Place::key).is_sorted());
    }

    #[test]
    fn bounds_of_attempts_hold_those_of_the_queue_and_no_others() {
        let (start, end) = attempts_bounds(QueueId::new(2));
        for inside in [0, u64::MAX] {
            let key = attempts_key(QueueId::new(2), Seq::new(inside));
            assert!(start.as_slice() <= key.as_slice() && key.as_slice() < end.as_slice());
        }
        for (queue, seq) in [(1, u64::MAX), (3, 0)] {
            let key = attempts_key(QueueId::new(queue), Seq::new(seq));
            assert!(start.as_slice() > key.as_slice() || key.as_slice() >= end.as_slice());
        }
    }

    #[test]
    fn bounds_of_a_queue_hold_its_keys_and_no_others() {
        for queue in [0, 1, 0xff, u64::MAX] {
            let (start, end) = queue_bounds(QueueId::new(queue));
            for inside in [place(queue, 255, 0), place(queue, 0, u64::MAX)] {
                assert!(start.as_slice() <= inside.key().as_slice());
                assert!(inside.key().as_slice() < end.as_slice());
            }
            if let Some(next) = queue.checked_add(1) {
                assert!(end.as_slice() < place(next, 255, 0).key().as_slice());
            }
        }
    }

    #[test]
    fn a_number_key_of_meta_is_kind_and_number() {
        assert_eq!(
            hex(&meta_number_key(Kind::Queue, 0x0102)),
            "01040000000000000102"
        );
        assert_eq!(hex(&meta_number_key(Kind::Mark, 1)), "01010000000000000001");
    }

    /// SHA-256 over `0000000000000001 "/" 0000000000000004 "jobs"`.
    #[test]
    fn a_name_key_of_meta_is_kind_and_half_a_digest() {
        let key = meta_name_key(Kind::Exchange, &[b"/", b"jobs"]);
        assert_eq!(hex(&key), "0103254a51507358f710450cb48c0fa51534");
        assert_ne!(key, meta_name_key(Kind::Exchange, &[b"/jobs", b""]));
        assert_ne!(key, meta_name_key(Kind::Exchange, &[b"", b"/jobs"]));
    }

    #[test]
    fn the_other_keys_are_table_and_number() {
        let queue = QueueId::new(0x0a0b);
        assert_eq!(
            hex(&queue_key(Table::QueueStates, queue)),
            "030000000000000a0b"
        );
        assert_eq!(hex(&commit_key(0x0a0b)), "040000000000000a0b");
        assert_eq!(hex(&queue_key(Table::Dropped, queue)), "050000000000000a0b");
        let seq = Seq::new(0x0c0d);
        let key = attempts_key(queue, seq);
        assert_eq!(hex(&key), "060000000000000a0b0000000000000c0d");
        assert_eq!(place_of_attempts_key(&key), Some((queue, seq)));
        assert_eq!(place_of_attempts_key(&key[..16]), None);
        assert_eq!(number_of_key(&commit_key(77)), Some(77));
        assert_eq!(number_of_key(&[0; 8]), None);
    }

    #[test]
    fn a_meta_key_tells_its_kind_and_number() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of_key(&meta_number_key(kind, 5)), Some(kind));
            assert_eq!(Kind::of_key(&meta_name_key(kind, &[])), Some(kind));
            assert_eq!(meta_number_of_key(&meta_number_key(kind, 5)), Some(5));
        }
        assert_eq!(Kind::of_key(&[1, 0]), None);
        assert_eq!(Kind::of_key(&[1, 255]), None);
        assert_eq!(Kind::of_key(&[1]), None);
    }
}
