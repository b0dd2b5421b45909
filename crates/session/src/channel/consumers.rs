//! The consumers of one channel by their tags.

use std::collections::BTreeMap;

use leveret_core::ids::QueueId;
use leveret_wire::value::ShortString;

/// Tags and numbers of the consumers that exist.
///
/// Trees, since the tags are the client's choice.
#[derive(Debug, Default)]
pub(crate) struct Consumers {
    by_tag: BTreeMap<ShortString, u32>,
    by_number: BTreeMap<u32, Consumer>,
}

#[derive(Debug)]
struct Consumer {
    tag: ShortString,
    queue: QueueId,
}

impl Consumers {
    pub(crate) fn has_tag(&self, tag: &ShortString) -> bool {
        self.by_tag.contains_key(tag)
    }

    /// Number and queue of the consumer with this tag.
    pub(crate) fn find(&self, tag: &ShortString) -> Option<(u32, QueueId)> {
        let number = *self.by_tag.get(tag)?;
        Some((number, self.by_number.get(&number)?.queue))
    }

    pub(crate) fn add(&mut self, number: u32, tag: ShortString, queue: QueueId) {
        self.by_tag.insert(tag.clone(), number);
        self.by_number.insert(number, Consumer { tag, queue });
    }

    /// The consumer is gone and its tag free; does nothing when that is so already.
    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(consumer) = self.by_number.remove(&number) {
            self.by_tag.remove(&consumer.tag);
        }
    }

    /// The tag of a consumer that exists.
    pub(crate) fn tag_of(&self, number: u32) -> Option<&ShortString> {
        Some(&self.by_number.get(&number)?.tag)
    }

    /// Numbers and tags.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &ShortString)> {
        self.by_number
            .iter()
            .map(|(number, consumer)| (*number, &consumer.tag))
    }

    /// The queues that are consumed from.
    pub(crate) fn queues(&self) -> impl Iterator<Item = QueueId> {
        self.by_number.values().map(|consumer| consumer.queue)
    }
}
