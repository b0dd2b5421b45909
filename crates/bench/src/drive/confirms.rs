//! Which messages of a channel are not confirmed yet.

use std::collections::VecDeque;

/// Marks a message that was confirmed before an older one.
const SETTLED: u64 = u64::MAX;

/// The unconfirmed messages of one channel, each with the moment from which its confirm is awaited.
///
/// True between two calls: `missing` counts the entries that are not [`SETTLED`], and the first entry is none of them.
#[derive(Debug)]
pub(crate) struct Confirms {
    first_tag: u64,
    sent_nanos: VecDeque<u64>,
    missing: usize,
    window: usize,
}

impl Confirms {
    pub(crate) fn new(window: usize) -> Self {
        Self {
            first_tag: 1,
            sent_nanos: VecDeque::with_capacity(window.min(1 << 16)),
            missing: 0,
            window,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.missing >= self.window
    }

    pub(crate) fn missing(&self) -> usize {
        self.missing
    }

    /// One more message; its tag is the next in order.
    pub(crate) fn sent(&mut self, nanos: u64) {
        self.sent_nanos.push_back(nanos);
        self.missing += 1;
    }

    /// Takes a confirm and says for each message it covers when that one was sent. What is unknown or confirmed already
    /// is not covered.
    pub(crate) fn settle(&mut self, tag: u64, multiple: bool, mut covered: impl FnMut(u64)) {
        if multiple {
            // Tag 0 is all there are.
            let last = if tag == 0 { u64::MAX } else { tag };
            while self.first_tag <= last
                && let Some(sent) = self.sent_nanos.pop_front()
            {
                self.first_tag += 1;
                if sent != SETTLED {
                    self.missing -= 1;
                    covered(sent);
                }
            }
        } else if let Some(offset) = tag.checked_sub(self.first_tag)
            && let Some(entry) = self.sent_nanos.get_mut(offset as usize)
            && *entry != SETTLED
        {
            covered(*entry);
            *entry = SETTLED;
            self.missing -= 1;
        }
        while self.sent_nanos.front() == Some(&SETTLED) {
            self.sent_nanos.pop_front();
            self.first_tag += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Confirms;

    fn with_sent(window: usize, times: &[u64]) -> Confirms {
        let mut confirms = Confirms::new(window);
        for &time in times {
            confirms.sent(time);
        }
        confirms
    }

    fn settle(confirms: &mut Confirms, tag: u64, multiple: bool) -> Vec<u64> {
        let mut covered = Vec::new();
        confirms.settle(tag, multiple, |sent| covered.push(sent));
        covered
    }

    #[test]
    fn a_window_is_full_until_a_confirm_makes_room() {
        let mut confirms = with_sent(2, &[10, 20]);
        assert!(confirms.is_full());
        assert_eq!(settle(&mut confirms, 1, false), [10]);
        assert!(!confirms.is_full());
        confirms.sent(30);
        assert!(confirms.is_full());
        assert_eq!(settle(&mut confirms, 3, true), [20, 30]);
        assert_eq!(confirms.missing(), 0);
    }

    #[test]
    fn confirms_may_come_out_of_order() {
        let mut confirms = with_sent(10, &[10, 20, 30, 40]);
        assert_eq!(settle(&mut confirms, 3, false), [30]);
        assert_eq!(settle(&mut confirms, 3, false), [0; 0]);
        assert_eq!(settle(&mut confirms, 2, true), [10, 20]);
        assert_eq!(confirms.missing(), 1);
        assert_eq!(settle(&mut confirms, 4, false), [40]);
    }

    #[test]
    fn tag_0_confirms_everything() {
        let mut confirms = with_sent(10, &[10, 20]);
        assert_eq!(settle(&mut confirms, 0, true), [10, 20]);
        confirms.sent(30);
        assert_eq!(settle(&mut confirms, 3, false), [30]);
    }
}
