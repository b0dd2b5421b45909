//! A line in which consumers wait for their turn.
//!
//! ```text
//!   first ▼
//!         [a, –, c, d]     – left before its turn; a place is numbered by how many were given before it
//! ```
//!
//! Who leaves before the turn leaves a gap, so that nobody else has to be moved: tens of thousands may leave one by one.
//!
//! Always true: there is no gap at the ends, and at most half of the places are gaps once [`Turns::close_gaps`] was called
//! where [`Turns::has_many_gaps`] says so.

use std::collections::VecDeque;

use crate::ids::ConsumerId;

/// Gaps that are not worth the work of closing them.
const GAPS_KEPT_MAX: usize = 64;

/// Who is next, and who behind that.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    places: VecDeque<Option<ConsumerId>>,
    gaps: usize,
    /// The number of the place in front.
    first: u64,
}

impl Turns {
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Who is next.
    pub(crate) fn front(&self) -> Option<ConsumerId> {
        self.places.front().copied().flatten()
    }

    /// Puts somebody at the end; the number of their place.
    pub(crate) fn push(&mut self, id: ConsumerId) -> u64 {
        let place = self.first + self.places.len() as u64;
        self.places.push_back(Some(id));
        place
    }

    /// Takes out who is next.
    pub(crate) fn pop(&mut self) -> Option<ConsumerId> {
        let id = self.places.pop_front()?;
        self.first += 1;
        if self.gaps > 0 {
            self.close_ends();
        }
        id
    }

    /// Whoever has this place leaves it.
    pub(crate) fn leave(&mut self, place: u64) {
        let at = usize::try_from(place.wrapping_sub(self.first)).unwrap_or(usize::MAX);
        if let Some(left) = self.places.get_mut(at)
            && left.take().is_some()
        {
            self.gaps += 1;
            self.close_ends();
        }
    }

    /// Whether [`Self::close_gaps`] is worth its work.
    pub(crate) fn has_many_gaps(&self) -> bool {
        self.gaps > GAPS_KEPT_MAX.max(self.places.len() / 2)
    }

    /// Gives everybody a new place, and tells which.
    #[cold]
    pub(crate) fn close_gaps(&mut self, mut moved: impl FnMut(ConsumerId, u64)) {
        count_steps(self.places.len());
        self.places.retain(Option::is_some);
        self.places.shrink_to_fit();
        self.gaps = 0;
        for (place, id) in (self.first..).zip(self.places.iter().flatten()) {
            moved(*id, place);
        }
    }

    #[cold]
    fn close_ends(&mut self) {
        while let Some(None) = self.places.front() {
            self.places.pop_front();
            self.first += 1;
            self.gaps -= 1;
            count_steps(1);
        }
        while let Some(None) = self.places.back() {
            self.places.pop_back();
            self.gaps -= 1;
            count_steps(1);
        }
    }

    /// Everybody with their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, ConsumerId)> {
        let places = (self.first..).zip(&self.places);
        places.filter_map(|(place, id)| Some((place, (*id)?)))
    }

    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let ends = [self.places.front(), self.places.back()];
        let gaps = self.places.iter().filter(|id| id.is_none()).count();
        if ends.contains(&Some(&None)) || gaps != self.gaps || self.has_many_gaps() {
            return Err(format!("gaps in a line: {self:?}"));
        }
        Ok(())
    }
}

#[cfg(test)]
thread_local! {
    /// Places that were looked at although nobody is there, or moved.
    pub(crate) static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
fn count_steps(steps: usize) {
    STEPS.set(STEPS.get() + steps);
}

#[cfg(not(test))]
const fn count_steps(_: usize) {}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use proptest::{prelude::*, sample::Index};

    use super::*;
    use crate::ids::{ChannelKey, ConnectionId};

    fn consumer(number: u32) -> ConsumerId {
        let channel = ChannelKey {
            connection: ConnectionId::new(1),
            channel: 1,
            opening: 1,
        };
        ConsumerId { channel, number }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Push,
        Pop,
        Leave(Index),
        /// All but every so many leave.
        LeaveMost(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            10 => Just(Step::Push),
            3 => Just(Step::Pop),
            5 => any::<Index>().prop_map(Step::Leave),
            1 => (2..9_usize).prop_map(Step::LeaveMost),
        ]
    }

    fn leave(turns: &mut Turns, places: &mut BTreeMap<ConsumerId, u64>, id: ConsumerId) {
        turns.leave(places.remove(&id).expect("it stands in line"));
        if turns.has_many_gaps() {
            turns.close_gaps(|id, place| {
                places.insert(id, place);
            });
        }
    }

    proptest! {
        #[test]
        fn a_line_is_a_list_of_those_who_did_not_leave(
            steps in prop::collection::vec(step(), 0..600),
        ) {
            let (mut turns, mut places) = (Turns::default(), BTreeMap::new());
            let mut model = VecDeque::new();
            for (number, step) in (1..).zip(steps) {
                match step {
                    Step::Push => {
                        let id = consumer(number);
                        model.push_back(id);
                        places.insert(id, turns.push(id));
                    }
                    Step::Pop => {
                        let popped = turns.pop();
                        prop_assert_eq!(popped, model.pop_front());
                        if let Some(id) = popped {
                            places.remove(&id);
                        }
                    }
                    Step::Leave(index) if !model.is_empty() => {
                        let at = index.index(model.len());
                        let id = model.remove(at).expect("it is there");
                        leave(&mut turns, &mut places, id);
                    }
                    Step::Leave(_) => {}
                    Step::LeaveMost(but) => {
                        let all = std::mem::take(&mut model);
                        for (at, id) in all.into_iter().enumerate() {
                            if at % but == 0 {
                                model.push_back(id);
                            } else {
                                leave(&mut turns, &mut places, id);
                            }
                        }
                    }
                }
                prop_assert_eq!(turns.check(), Ok(()));
                prop_assert_eq!(turns.is_empty(), model.is_empty());
                prop_assert_eq!(turns.front(), model.front().copied());
                prop_assert!(turns.iter().map(|(_, id)| id).eq(model.iter().copied()));
                prop_assert!(turns.iter().all(|(place, id)| places.get(&id) == Some(&place)));
            }
        }
    }
}
