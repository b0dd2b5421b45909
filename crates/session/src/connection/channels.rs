//! The channels of one connection by their numbers.

use crate::channel::Channel;

/// Channels sorted by number; frames mostly ask for the same one again.
#[derive(Debug, Default)]
pub(super) struct Channels {
    #[expect(
        clippy::vec_box,
        reason = "an opening in the middle moves those behind it"
    )]
    sorted: Vec<Box<Channel>>,
    last: usize,
}

impl Channels {
    pub(super) const fn len(&self) -> usize {
        self.sorted.len()
    }

    pub(super) fn find(&mut self, number: u16) -> Option<&mut Channel> {
        let is_last = self
            .sorted
            .get(self.last)
            .is_some_and(|known| known.key().channel == number);
        if !is_last {
            self.last = self.position(number).ok()?;
        }
        self.sorted.get_mut(self.last).map(Box::as_mut)
    }

    /// Adds a channel whose number is free.
    pub(super) fn add(&mut self, channel: Channel) {
        match self.position(channel.key().channel) {
            Ok(_) => debug_assert!(false, "the number of a new channel is free"),
            Err(at) => self.sorted.insert(at, Box::new(channel)),
        }
    }

    /// The number is free again. Gives back what was there.
    pub(super) fn remove(&mut self, number: u16) -> Option<Box<Channel>> {
        let at = self.position(number).ok()?;
        Some(self.sorted.remove(at))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Channel> {
        self.sorted.iter().map(Box::as_ref)
    }

    fn position(&self, number: u16) -> Result<usize, usize> {
        self.sorted
            .binary_search_by_key(&number, |known| known.key().channel)
    }
}
