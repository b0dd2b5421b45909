//! What a purged or deleted queue had in memory.

use std::collections::{BTreeMap, BTreeSet};

use super::{Effects, Queue, Ready, Seq, Spot, Timestamp, Unacked, line::Line, stub::Sinking};

/// Messages that are nobody's any more. To let go of millions takes a while, for which nobody is to wait who wants something of
/// their queue: it is for whoever has the time.
#[derive(Debug)]
pub struct Remains {
    ready: Line<Spot, Ready>,
    due: BTreeSet<(Timestamp, Spot)>,
    cold_due: BTreeSet<(Timestamp, Spot)>,
    unacked: Line<Seq, Unacked>,
    sinking: BTreeMap<Seq, Sinking>,
    dying: BTreeMap<Seq, Ready>,
    /// Of the same queue a moment ago.
    earlier: Option<Box<Self>>,
}

impl Remains {
    /// How much of it there is.
    #[must_use]
    pub fn entries(&self) -> usize {
        let earlier = self.earlier.as_ref().map_or(0, |earlier| earlier.entries());
        let messages =
            self.ready.len() + self.unacked.len() + self.sinking.len() + self.dying.len();
        messages + self.due.len() + self.cold_due.len() + earlier
    }
}

impl Queue {
    /// Takes what is ready in memory out of the queue. Whatever of it is stored is still to be forgotten.
    pub(super) fn take_ready(&mut self) -> Remains {
        self.window = super::Window::default();
        self.ready_message_bytes = 0;
        self.transient_bytes = 0;
        Remains {
            ready: std::mem::replace(&mut self.ready, Line::new()),
            due: std::mem::take(&mut self.due),
            cold_due: std::mem::take(&mut self.cold_due),
            unacked: Line::new(),
            sinking: BTreeMap::new(),
            dying: BTreeMap::new(),
            earlier: None,
        }
    }

    /// Takes everything in memory out of the queue.
    pub(super) fn take_all(&mut self) -> Remains {
        self.unacked_bytes = 0;
        self.dying_message_bytes = 0;
        self.sinking_message_bytes = 0;
        Remains {
            unacked: std::mem::replace(&mut self.unacked, Line::new()),
            sinking: std::mem::take(&mut self.sinking),
            dying: std::mem::take(&mut self.dying),
            ..self.take_ready()
        }
    }

    /// Forgets those of them that are stored, and leaves them to others.
    pub(super) fn forget_ready(&mut self, remains: Remains, effects: &mut Effects) {
        for (spot, ready) in remains.ready.iter().filter(|(_, ready)| ready.stored) {
            self.forget(spot, ready, effects);
        }
        effects.leave(remains);
    }
}

impl Effects {
    pub(super) fn leave(&mut self, remains: Remains) {
        let earlier = self.remains.take();
        self.remains = Some(Box::new(Remains { earlier, ..remains }));
    }
}
