//! Who is served next: round robin over consumers with credit, higher priorities first.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{ConsumerReport, Unacked, line::Line};
use crate::{
    ids::{ChannelKey, Channels, ConsumerId, Seq},
    turns::Turns,
};

/// How a consumer wants its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConsumerSettings {
    /// Bound on its unacked messages; 0 is none.
    pub prefetch: u16,
    /// Messages are gone once handed out; there is no prefetch then.
    pub no_ack: bool,
    /// It wants the queue for itself.
    pub exclusive: bool,
    /// Consumers of a lower priority get messages only while this one has no credit.
    pub priority: i64,
    /// Within which time its messages are to be acked; else what its queue says.
    pub ack_timeout_millis: Option<u64>,
    /// The consumers of its channel share a bound. On a queue that cannot have part in that this is the
    /// consumer's own bound instead of `prefetch`.
    pub shared_else: Option<u16>,
}

/// What is known of the room that the consumers of a channel share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// They share none.
    Own,
    /// To be asked for before each message.
    Unknown,
    /// There was some, and it is reserved for the next message.
    Reserved,
    /// There was none; so many had been told that before.
    None(u64),
}

/// Whose turn it was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served {
    pub(super) consumer: ConsumerId,
    /// It is done with the message at once.
    pub(super) no_ack: bool,
    pub(super) ack_timeout_millis: Option<u64>,
}

#[derive(Debug)]
struct Consumer {
    settings: ConsumerSettings,
    unacked: u32,
    /// Counts subscriptions, so that the longest waiting one takes over.
    arrival: u64,
    /// Another consumer is the single active one.
    is_waiting: bool,
    /// It is the single active one until its messages are settled, and gets no more: somebody of a higher
    /// priority waits.
    is_leaving: bool,
    /// Its reader is behind, or its subscription was not answered yet.
    is_paused: bool,
    /// Where it stands in the line of its priority.
    place: Option<u64>,
    room: Room,
}

impl Consumer {
    fn has_credit(&self) -> bool {
        !self.is_held_back() && !self.is_filled()
    }

    /// For another reason than what it holds.
    fn is_held_back(&self) -> bool {
        let has_no_room = matches!(self.room, Room::None(_));
        self.is_paused || self.is_waiting || self.is_leaving || has_no_room
    }

    /// It holds as many messages as its prefetch permits.
    fn is_filled(&self) -> bool {
        let ConsumerSettings {
            prefetch, no_ack, ..
        } = self.settings;
        !no_ack && prefetch != 0 && self.unacked >= u32::from(prefetch)
    }

    /// It stands in line and would be passed over.
    fn is_filled_in_line(&self) -> bool {
        self.place.is_some() && self.is_filled()
    }

    /// Where it waits to be the single active one.
    const fn rank(&self, id: ConsumerId) -> Rank {
        (Reverse(self.settings.priority), self.arrival, id)
    }
}

/// Higher priorities first, of one priority those who came first.
type Rank = (Reverse<i64>, u64, ConsumerId);

/// The consumers of one priority.
#[derive(Debug)]
struct Ring {
    priority: i64,
    /// With credit or without; the ring goes with the last one.
    members: usize,
    /// Those with credit, the next one in front, and those that keep their place although they are filled.
    turns: Turns,
}

/// The consumers of one queue.
///
/// A consumer without credit leaves the line, so that finding the next walks over a busy one at most once. On a
/// classic queue it leaves when a message would be its turn, and so keeps its place if its prefetch has room again before
/// that; on a quorum queue at once. Both are RabbitMQ's ways.
///
/// Tens of thousands may come and go, together or one by one: none of them costs a look at all others of its priority.
#[derive(Debug, Default)]
pub(super) struct Consumers {
    by_id: BTreeMap<ConsumerId, Consumer>,
    /// Highest priority first.
    rings: Vec<Ring>,
    arrivals: u64,
    /// Only one consumer is served; all others wait.
    single_active: bool,
    /// Which one, and the others in the order in which they take over.
    active: Option<ConsumerId>,
    waiting: BTreeSet<Rank>,
    /// And it gives way to one of a higher priority, as on quorum queues.
    gives_way: bool,
    /// Who is filled leaves the line at once, as on quorum queues.
    leave_filled: bool,
    /// How many such stand in line.
    filled: usize,
    /// Some consumer shares, or shared, the room of its channel.
    has_sharers: bool,
    /// Those whose channels had no room, by channel in the order in which it would have been their turn.
    refused: BTreeMap<(ChannelKey, u64), ConsumerId>,
    /// How often that was so.
    refusals: u64,
}

impl Consumers {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Consumers that do not wait behind another, and those that are gone but hold messages; each message that
    /// somebody got has a holder of its own.
    ///
    /// Looks at every unacked message only if some are held by others than consumers that are here.
    pub(super) fn holders(&self, unacked: &Line<Seq, Unacked>) -> usize {
        let served = self.by_id.values().filter(|consumer| !consumer.is_waiting);
        let held = self
            .by_id
            .values()
            .map(|consumer| consumer.unacked as usize);
        let served = served.count();
        if held.sum::<usize>() == unacked.len() {
            return served;
        }
        let mut gets = 0;
        let mut cancelled = BTreeSet::new();
        for unacked in unacked.values() {
            match unacked.consumer() {
                None => gets += 1,
                Some(consumer) if !self.by_id.contains_key(&consumer) => {
                    cancelled.insert(consumer);
                }
                Some(_) => {}
            }
        }
        served + gets + cancelled.len()
    }

    pub(super) fn reports(&self) -> impl Iterator<Item = ConsumerReport> {
        self.by_id.iter().map(|(&id, consumer)| ConsumerReport {
            id,
            settings: consumer.settings,
            is_active: !consumer.is_waiting,
            has_credit: consumer.has_credit(),
        })
    }

    /// From now on only one consumer is served at a time; there is none yet.
    pub(super) const fn serve_one_only(&mut self, gives_way: bool) {
        self.single_active = true;
        self.gives_way = gives_way;
    }

    /// From now on a consumer that is filled does not keep its place until a message is offered to it.
    pub(super) const fn leave_when_filled(&mut self) {
        self.leave_filled = true;
    }

    /// Whether somebody stands in line who would be passed over.
    pub(super) const fn is_anyone_filled(&self) -> bool {
        self.filled > 0
    }

    /// Within which time its messages are to be acked, while it is here.
    pub(super) fn ack_timeout_of(&self, id: ConsumerId) -> Option<u64> {
        self.by_id.get(&id)?.settings.ack_timeout_millis
    }

    pub(super) fn has_exclusive(&self) -> bool {
        // It would be the only one.
        self.by_id
            .first_key_value()
            .is_some_and(|(_, consumer)| consumer.settings.exclusive)
    }

    /// Adds a paused consumer.
    pub(super) fn add(&mut self, id: ConsumerId, settings: ConsumerSettings) {
        self.arrivals += 1;
        let is_sharer = settings.shared_else.is_some();
        self.has_sharers |= is_sharer;
        let is_waiting = self.single_active && self.active.is_some();
        let consumer = Consumer {
            settings,
            unacked: 0,
            arrival: self.arrivals,
            is_waiting,
            is_leaving: false,
            is_paused: true,
            place: None,
            room: if is_sharer { Room::Unknown } else { Room::Own },
        };
        if is_waiting {
            self.waiting.insert(consumer.rank(id));
        } else if self.single_active {
            self.active = Some(id);
        }
        if self.by_id.insert(id, consumer).is_none() {
            self.ring(settings.priority).members += 1;
        }
        if self.gives_way {
            self.give_way();
        }
    }

    pub(super) fn resume(&mut self, id: ConsumerId) {
        if let Some(consumer) = self.by_id.get_mut(&id) {
            consumer.is_paused = false;
            self.line_up(id);
        }
    }

    pub(super) fn pause(&mut self, id: ConsumerId) {
        if let Some(consumer) = self.by_id.get_mut(&id) {
            consumer.is_paused = true;
            self.step_out(id);
        }
    }

    /// `true` when it was there.
    pub(super) fn remove(&mut self, id: ConsumerId) -> bool {
        let Some(consumer) = self.take_out(id) else {
            return false;
        };
        let priority = consumer.settings.priority;
        if self.ring(priority).members == 0 {
            self.rings.retain(|ring| ring.priority != priority);
        }
        self.activate_next();
        true
    }

    /// Removes all that these channels have.
    pub(super) fn remove_all(&mut self, of: Channels) {
        let ids = self.by_id.range(of.consumers());
        let ids: Vec<ConsumerId> = ids.map(|(id, _)| *id).collect();
        for id in ids {
            self.take_out(id);
        }
        self.rings.retain(|ring| ring.members > 0);
        self.activate_next();
    }

    /// Takes a consumer out of everything but the list of rings; who is the single active one is still to be seen.
    fn take_out(&mut self, id: ConsumerId) -> Option<Consumer> {
        self.step_out(id);
        let consumer = self.by_id.remove(&id)?;
        if let Room::None(refusal) = consumer.room {
            self.refused.remove(&(id.channel, refusal));
        }
        if consumer.is_waiting {
            self.waiting.remove(&consumer.rank(id));
        } else if self.single_active {
            self.active = None;
        }
        self.ring(consumer.settings.priority).members -= 1;
        Some(consumer)
    }

    /// The single active consumer leaves when somebody of a higher priority waits, and stays when nobody
    /// does. What it holds is settled first, and until then it gets nothing, also if nobody waits any more.
    fn give_way(&mut self) {
        let Some(id) = self.active else {
            return;
        };
        let Some(active) = self.by_id.get_mut(&id) else {
            return;
        };
        let is_idle = active.unacked == 0;
        if active.is_leaving && !is_idle {
            return;
        }
        let first = self.waiting.first();
        let is_lower = first.is_some_and(|(priority, ..)| priority.0 > active.settings.priority);
        active.is_leaving = is_lower && !is_idle;
        active.is_waiting = is_lower && is_idle;
        if !is_lower {
            self.line_up(id);
            return;
        }
        if is_idle {
            self.waiting.insert(active.rank(id));
            self.active = None;
        }
        self.step_out(id);
        self.activate_next();
    }

    /// If there is no single active consumer any more, the one takes over that came first of those with the highest
    /// priority.
    fn activate_next(&mut self) {
        if self.active.is_some() {
            return;
        }
        let Some((_, _, id)) = self.waiting.pop_first() else {
            return;
        };
        self.active = Some(id);
        if let Some(consumer) = self.by_id.get_mut(&id) {
            consumer.is_waiting = false;
            self.line_up(id);
        }
    }

    /// From now on the consumers of this channel share its room.
    pub(super) fn share(&mut self, channel: ChannelKey) {
        for (_, consumer) in self.by_id.range_mut(Channels::One(channel).consumers()) {
            self.has_sharers = true;
            if consumer.room == Room::Own {
                consumer.room = Room::Unknown;
            }
        }
    }

    /// Whose channel has to be asked before the next message is handed out.
    pub(super) fn room_wanted(&self) -> Option<ConsumerId> {
        if !self.has_sharers {
            return None;
        }
        let ring = self.rings.iter().find(|ring| !ring.turns.is_empty())?;
        let id = ring.turns.front()?;
        let consumer = self.by_id.get(&id)?;
        (consumer.room == Room::Unknown).then_some(id)
    }

    /// What the channel said.
    pub(super) fn answer_room(&mut self, id: ConsumerId, has_room: bool) {
        let Some(consumer) = self.by_id.get_mut(&id) else {
            return;
        };
        if has_room {
            consumer.room = Room::Reserved;
            return;
        }
        self.refusals += 1;
        consumer.room = Room::None(self.refusals);
        self.refused.insert((id.channel, self.refusals), id);
        self.step_out(id);
    }

    /// There may be room again in this channel, for whoever is next of its consumers.
    pub(super) fn ask_again(&mut self, channel: ChannelKey) {
        let of_channel = (channel, 0)..=(channel, u64::MAX);
        while let Some((&refusal, &id)) = self.refused.range(of_channel.clone()).next() {
            self.refused.remove(&refusal);
            if let Some(consumer) = self.by_id.get_mut(&id) {
                consumer.room = Room::Unknown;
            }
            self.line_up(id);
        }
    }

    /// Removes all of them, in the order of their ids.
    pub(super) fn drain_into(&mut self, removed: &mut Vec<ConsumerId>) {
        removed.extend(self.by_id.keys());
        self.by_id.clear();
        self.refused.clear();
        self.rings.clear();
        self.active = None;
        self.waiting.clear();
        self.filled = 0;
    }

    /// Offers a message: whether somebody has credit for it. Whose turn it is and is filled leaves the line.
    pub(super) fn is_anyone_ready(&mut self) -> bool {
        if self.filled > 0 {
            self.pass_over_filled();
        }
        self.rings.iter().any(|ring| !ring.turns.is_empty())
    }

    fn pass_over_filled(&mut self) {
        for ring in &mut self.rings {
            while let Some(id) = ring.turns.front() {
                if let Some(consumer) = self.by_id.get_mut(&id) {
                    if !consumer.is_filled() {
                        return;
                    }
                    consumer.place = None;
                }
                self.filled -= 1;
                ring.turns.pop();
            }
        }
    }

    /// The consumer whose turn it is, charged with one message; there is one, [`Self::is_anyone_ready`] said.
    pub(super) fn next_ready(&mut self) -> Option<Served> {
        let ring = self.rings.iter_mut().find(|ring| !ring.turns.is_empty())?;
        let id = ring.turns.pop()?;
        let consumer = self.by_id.get_mut(&id)?;
        if !consumer.settings.no_ack {
            consumer.unacked += 1;
        }
        if consumer.room == Room::Reserved {
            consumer.room = Room::Unknown;
        }
        let is_filled = consumer.is_filled();
        let stays = !is_filled || !self.leave_filled;
        self.filled += usize::from(is_filled && stays);
        consumer.place = stays.then(|| ring.turns.push(id));
        Some(Served {
            consumer: id,
            no_ack: consumer.settings.no_ack,
            ack_timeout_millis: consumer.settings.ack_timeout_millis,
        })
    }

    /// One unacked message less.
    pub(super) fn give_back(&mut self, id: ConsumerId) {
        if let Some(consumer) = self.by_id.get_mut(&id) {
            let was_filled = consumer.is_filled();
            consumer.unacked -= 1;
            let is_in_line = consumer.place.is_some();
            self.filled -= usize::from(is_in_line && was_filled && !consumer.is_filled());
            if consumer.is_leaving {
                self.give_way();
            } else {
                self.line_up(id);
            }
        }
    }

    /// What must hold of consumers, given what is unacked.
    pub(super) fn check(&self, unacked: &Line<Seq, Unacked>) -> Result<(), String> {
        let mut held: BTreeMap<ConsumerId, u32> = BTreeMap::new();
        for id in unacked.values().filter_map(Unacked::consumer) {
            *held.entry(id).or_default() += 1;
        }
        let mut places: BTreeMap<(i64, ConsumerId), Vec<u64>> = BTreeMap::new();
        for ring in &self.rings {
            ring.turns.check()?;
            for (place, id) in ring.turns.iter() {
                places.entry((ring.priority, id)).or_default().push(place);
            }
        }
        for (&id, consumer) in &self.by_id {
            let holds = held.get(&id).copied().unwrap_or(0);
            let ConsumerSettings {
                prefetch, priority, ..
            } = consumer.settings;
            if holds != consumer.unacked || (prefetch > 0 && holds > u32::from(prefetch)) {
                return Err(format!("{id:?} holds {holds} messages: {consumer:?}"));
            }
            let is_as_told = match consumer.room {
                Room::None(refusal) => self.refused.get(&(id.channel, refusal)) == Some(&id),
                Room::Own | Room::Unknown => true,
                Room::Reserved => false,
            };
            if !is_as_told || (consumer.room != Room::Own && !self.has_sharers) {
                return Err(format!("nobody asked its channel for room: {consumer:?}"));
            }
            let places = places.remove(&(priority, id)).unwrap_or_default();
            let may_stand =
                consumer.has_credit() || (!self.leave_filled && !consumer.is_held_back());
            if (consumer.has_credit() && consumer.place.is_none())
                || (consumer.place.is_some() && !may_stand)
                || !places.iter().eq(&consumer.place)
            {
                return Err(format!("{id:?} stands at {places:?}: {consumer:?}"));
            }
        }
        let has_no_room = |each: &&Consumer| matches!(each.room, Room::None(_));
        if self.by_id.values().filter(has_no_room).count() != self.refused.len() {
            return Err(format!("others were refused: {:?}", self.refused));
        }
        let filled = self.by_id.values();
        let filled = filled.filter(|each| each.is_filled_in_line()).count();
        if filled != self.filled {
            return Err(format!("{filled} in line are filled, not {}", self.filled));
        }
        let waiting = self.by_id.iter().filter(|(_, each)| each.is_waiting);
        let waiting: BTreeSet<Rank> = waiting.map(|(&id, each)| each.rank(id)).collect();
        let mut served = self.by_id.iter().filter(|(_, each)| !each.is_waiting);
        let active = served.next().map(|(&id, _)| id);
        if waiting != self.waiting
            || (self.single_active && (active != self.active || served.next().is_some()))
        {
            return Err(format!("{:?} is active: {:?}", self.active, self.by_id));
        }
        let mut leaving = self.by_id.values().filter(|each| each.is_leaving);
        if leaving.any(|each| each.is_waiting || each.unacked == 0 || !self.gives_way) {
            return Err(format!("one should have left: {:?}", self.by_id));
        }
        if !places.is_empty() {
            return Err(format!("{places:?} stand in line and should not"));
        }
        self.check_rings()
    }

    fn check_rings(&self) -> Result<(), String> {
        if !self.rings.is_sorted_by(|a, b| a.priority > b.priority) {
            return Err(format!("rings in the wrong order: {:?}", self.rings));
        }
        let mut members: BTreeMap<i64, usize> = BTreeMap::new();
        for consumer in self.by_id.values() {
            *members.entry(consumer.settings.priority).or_default() += 1;
        }
        let counted = self.rings.iter().map(|ring| (ring.priority, ring.members));
        if !counted.rev().eq(members.clone()) {
            return Err(format!("members are {members:?}, counted {:?}", self.rings));
        }
        Ok(())
    }

    /// Puts a consumer with credit at the end of its line, once.
    fn line_up(&mut self, id: ConsumerId) {
        let Some(consumer) = self.by_id.get_mut(&id) else {
            return;
        };
        if consumer.place.is_some() || !consumer.has_credit() {
            return;
        }
        let ring = ring_of(&mut self.rings, consumer.settings.priority);
        consumer.place = Some(ring.turns.push(id));
    }

    /// Leaves the line.
    fn step_out(&mut self, id: ConsumerId) {
        let Self {
            by_id,
            rings,
            filled,
            ..
        } = self;
        let Some(consumer) = by_id.get_mut(&id) else {
            return;
        };
        *filled -= usize::from(consumer.is_filled_in_line());
        let Some(place) = consumer.place.take() else {
            return;
        };
        let turns = &mut ring_of(rings, consumer.settings.priority).turns;
        turns.leave(place);
        if turns.has_many_gaps() {
            turns.close_gaps(|id, place| {
                if let Some(moved) = by_id.get_mut(&id) {
                    moved.place = Some(place);
                }
            });
        }
    }

    /// The ring of this priority; a new one is empty.
    fn ring(&mut self, priority: i64) -> &mut Ring {
        ring_of(&mut self.rings, priority)
    }
}

fn ring_of(rings: &mut Vec<Ring>, priority: i64) -> &mut Ring {
    let at = rings.partition_point(|ring| ring.priority > priority);
    if rings.get(at).is_none_or(|ring| ring.priority != priority) {
        let ring = Ring {
            priority,
            members: 0,
            turns: Turns::default(),
        };
        rings.insert(at, ring);
    }
    &mut rings[at]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ids::ConnectionId, turns::STEPS};

    const MANY: u32 = 20_000;

    fn consumer(number: u32) -> ConsumerId {
        let channel = ChannelKey {
            connection: ConnectionId::new(u64::from(number)),
            channel: 1,
            opening: 1,
        };
        ConsumerId { channel, number }
    }

    /// Consumers that wait for a message.
    fn consumers() -> Consumers {
        let mut consumers = Consumers::default();
        for number in 0..MANY {
            consumers.add(consumer(number), ConsumerSettings::default());
            consumers.resume(consumer(number));
        }
        consumers
    }

    /// Every number below so many, far from its neighbours.
    fn mixed_up() -> impl Iterator<Item = u32> {
        (0..MANY).map(|number| (number * 7919) % MANY)
    }

    #[test]
    fn however_many_leave_one_by_one_each_costs_a_few_steps() {
        let orders: [Vec<u32>; 3] = [
            (0..MANY).collect(),
            (0..MANY).rev().collect(),
            mixed_up().collect(),
        ];
        for order in orders {
            let mut consumers = consumers();
            let before = STEPS.get();
            for (left, number) in (1..).zip(order) {
                assert!(consumers.remove(consumer(number)));
                assert_eq!(consumers.is_anyone_ready(), left < MANY);
            }
            let steps = STEPS.get() - before;
            assert!(steps <= 4 * MANY as usize, "{steps} steps");
            assert!(consumers.rings.is_empty());
        }
    }

    #[test]
    fn who_comes_and_goes_behind_somebody_leaves_no_places_behind() {
        let mut consumers = Consumers::default();
        let settings = ConsumerSettings::default();
        consumers.add(consumer(0), settings);
        consumers.resume(consumer(0));
        for number in 1..MANY {
            consumers.add(consumer(number), settings);
            consumers.resume(consumer(number));
            consumers.remove(consumer(number - 1).max(consumer(1)));
        }
        let ring = consumers.rings.first().expect("two are left");
        assert!(ring.turns.places() < 100, "{}", ring.turns.places());
    }

    #[test]
    fn of_consumers_that_wait_behind_the_active_one_the_next_is_known() {
        let mut consumers = Consumers::default();
        consumers.serve_one_only(false);
        for number in 0..MANY {
            consumers.add(consumer(number), ConsumerSettings::default());
            consumers.resume(consumer(number));
        }
        for number in 0..MANY {
            let served = consumers.next_ready().map(|served| served.consumer);
            assert_eq!(served, Some(consumer(number)));
            assert_eq!(consumers.waiting.len(), (MANY - number - 1) as usize);
            consumers.remove(consumer(number));
        }
    }

    #[test]
    fn a_channel_that_has_room_again_asks_for_its_own_consumers_only() {
        let mut consumers = consumers();
        for number in 0..MANY {
            consumers.share(consumer(number).channel);
        }
        while let Some(id) = consumers.room_wanted() {
            consumers.answer_room(id, false);
        }
        assert_eq!(consumers.refused.len(), MANY as usize);
        let before = STEPS.get();
        for number in mixed_up() {
            consumers.ask_again(consumer(number).channel);
            assert_eq!(consumers.room_wanted(), Some(consumer(number)));
            consumers.answer_room(consumer(number), true);
            consumers.next_ready();
            consumers.pause(consumer(number));
        }
        assert!(consumers.refused.is_empty());
        assert!(STEPS.get() - before <= 4 * MANY as usize);
    }
}
