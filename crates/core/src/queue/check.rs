//! What is true between two calls, as code.

use super::{Queue, Ready, Spot, cold::Window, spill};
use crate::ids::Seq;

impl Queue {
    /// The invariants of the module text.
    ///
    /// # Errors
    ///
    /// The first that does not hold, in words.
    pub fn check(&self) -> Result<(), String> {
        self.check_counters()?;
        self.check_places()?;
        self.check_due()?;
        self.check_retries()?;
        self.check_stranded()?;
        self.check_stubs()?;
        self.check_holdings()?;
        if !self.waiting_gets.is_empty() && !self.cold.is_asked() && self.returning.is_none() {
            return Err("a get waits and nothing is being read or comes back".to_owned());
        }
        self.consumers.check(&self.unacked)
    }

    fn check_counters(&self) -> Result<(), String> {
        let (mut messages, mut message_bytes) = (self.cold.messages(), self.cold.message_bytes());
        for stub in self.stubs() {
            messages += 1;
            message_bytes += stub.message_bytes();
        }
        for (seq, ready) in self.in_memory().filter(|(_, ready)| ready.stored) {
            messages += 1;
            message_bytes += self.message_bytes(seq, &ready.message);
        }
        if (messages, message_bytes) != (self.state.messages, self.state.message_bytes) {
            return Err(format!(
                "{messages} messages of {message_bytes} bytes are stored, counted are {:?}",
                self.state
            ));
        }
        let mut spilled = self.cold.spilled();
        for stub in self.stubs() {
            spilled.add_all(stub.spilled());
        }
        let stored = self.in_memory().filter(|(_, ready)| ready.stored);
        for (seq, ready) in stored.filter(|(_, ready)| !self.keeps(&ready.message)) {
            spilled.add(self.message_bytes(seq, &ready.message));
        }
        if spilled != self.spilled {
            return Err(format!(
                "{spilled:?} end with the process, not {:?}",
                self.spilled
            ));
        }
        let transient: usize = self.ready.values().map(spill::memory_of).sum();
        if transient != self.transient_bytes {
            return Err(format!(
                "{transient} bytes are in memory only, not {}",
                self.transient_bytes
            ));
        }
        let window = self
            .ready
            .values()
            .fold(Window::default(), |window, ready| window.with(ready));
        let ready = self.ready.iter();
        let bytes = ready.map(|(spot, ready)| self.message_bytes(spot.seq, &ready.message));
        if bytes.sum::<u64>() != self.ready_message_bytes {
            return Err(format!(
                "{} ready bytes are counted",
                self.ready_message_bytes
            ));
        }
        if window != self.window {
            return Err(format!(
                "the window is {window:?}, counted {:?}",
                self.window
            ));
        }
        Ok(())
    }

    /// Every message whose body is in memory.
    pub(super) fn in_memory(&self) -> impl Iterator<Item = (Seq, &Ready)> {
        let ready = self.ready.iter().map(|(spot, ready)| (spot.seq, ready));
        let unacked = self.unacked.iter();
        let unacked = unacked.filter_map(|(seq, unacked)| Some((seq, unacked.held.whole()?)));
        let dying = self.dying.iter().map(|(&seq, ready)| (seq, ready));
        ready.chain(unacked).chain(dying).chain(self.waiting())
    }

    fn check_places(&self) -> Result<(), String> {
        let mut in_ready = self.ready.keys();
        if let Some(Spot { seq, .. }) = in_ready.find(|spot| self.unacked.contains(spot.seq)) {
            return Err(format!("message {seq} is both ready and unacked"));
        }
        let ready = self.ready.iter();
        let unacked = self.unacked.iter().filter_map(|(seq, unacked)| {
            let ready = unacked.held.whole()?;
            Some((self.spot(seq, &ready.message), ready))
        });
        let dying = self
            .dying
            .iter()
            .map(|(&seq, ready)| (self.spot(seq, &ready.message), ready));
        let waiting = self
            .waiting()
            .map(|(seq, ready)| (self.spot(seq, &ready.message), ready));
        for (spot, ready) in ready.chain(unacked).chain(dying).chain(waiting) {
            let seq = spot.seq;
            if spot.before_its_return() != self.spot(seq, &ready.message) {
                return Err(format!("message {seq} stands in the wrong place: {spot:?}"));
            }
            if spot.has_turn() && seq < self.lowest_turned {
                return Err(format!("message {seq} came back unseen"));
            }
            if seq >= self.state.next {
                return Err(format!(
                    "message {seq} has a place that is still to be given"
                ));
            }
            let is_cold = self.cold.covers(spot.before_its_return());
            if ready.stored && is_cold && !self.dying.contains_key(&seq) {
                return Err(format!("message {seq} is in memory and in the cold range"));
            }
        }
        self.check_attempts()
    }
}
