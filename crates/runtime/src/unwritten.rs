//! What of one connection's publishes is not on disk yet.
//!
//! A connection knows how much it hands in with each read, and up to which position of the committer's stream that lies. What
//! was written is a position too, so that nothing has to be noted for a single message.

use std::collections::VecDeque;

/// Publishes of one connection that wait for the disk, oldest first.
#[derive(Debug, Default)]
pub struct Unwritten {
    /// Positions and how much lies before each, behind the one before.
    reads: VecDeque<(u64, u64)>,
    pub(crate) bytes: u64,
}

impl Unwritten {
    pub(crate) fn note(&mut self, position: u64, bytes: u64) {
        self.bytes += bytes;
        match self.reads.back_mut() {
            Some((last, of_last)) if *last == position => *of_last += bytes,
            _ => self.reads.push_back((position, bytes)),
        }
    }

    pub(crate) fn forget_until(&mut self, written: u64) {
        while let Some(&(position, bytes)) = self.reads.front()
            && position <= written
        {
            self.bytes -= bytes;
            self.reads.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Unwritten;

    #[test]
    fn what_lies_before_the_written_position_is_forgotten() {
        let mut unwritten = Unwritten::default();
        unwritten.note(100, 10);
        unwritten.note(100, 5);
        unwritten.note(300, 20);
        unwritten.forget_until(99);
        assert_eq!(unwritten.bytes, 35);
        unwritten.forget_until(299);
        assert_eq!(unwritten.bytes, 20);
        unwritten.forget_until(300);
        assert_eq!(unwritten.bytes, 0);
        assert!(unwritten.reads.is_empty());
    }
}
