//! Who is served next: round robin over consumers with credit, higher priorities first.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, VecDeque},
};

use super::{ConsumerReport, Unacked, line::Line};
use crate::ids::{ChannelKey, Channels, ConsumerId, Seq};

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
    /// There was none.
    None,
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
    /// It stands in the line of its priority.
    is_in_line: bool,
    room: Room,
}

impl Consumer {
    fn has_credit(&self) -> bool {
        !self.is_held_back() && !self.is_filled()
    }

    /// For another reason than what it holds.
    fn is_held_back(&self) -> bool {
        self.is_paused || self.is_waiting || self.is_leaving || self.room == Room::None
    }

    /// It holds as many messages as its prefetch permits.
    fn is_filled(&self) -> bool {
        let ConsumerSettings {
            prefetch, no_ack, ..
        } = self.settings;
        !no_ack && prefetch != 0 && self.unacked >= u32::from(prefetch)
    }
}

/// The consumers of one priority.
#[derive(Debug)]
struct Ring {
    priority: i64,
    /// With credit or without; the ring goes with the last one.
    members: usize,
    /// Those with credit, the next one in front, and those that keep their place although they are filled.
    line: VecDeque<ConsumerId>,
}

/// The consumers of one queue.
///
/// A consumer without credit leaves the line, so that finding the next walks over a busy one at most once. On a
/// classic queue it leaves when a message would be its turn, and so keeps its place if its prefetch has room again before
/// that; on a quorum queue at once. Both are RabbitMQ's ways.
#[derive(Debug, Default)]
pub(super) struct Consumers {
    by_id: BTreeMap<ConsumerId, Consumer>,
    /// Highest priority first.
    rings: Vec<Ring>,
    arrivals: u64,
    /// Only one consumer is served; all others wait.
    single_active: bool,
    /// And it gives way to one of a higher priority, as on quorum queues.
    gives_way: bool,
    /// Who is filled leaves the line at once, as on quorum queues.
    leave_filled: bool,
    /// How many such stand in line.
    filled: usize,
    /// Some consumer shares, or shared, the room of its channel.
    has_sharers: bool,
    /// Those whose channels had no room, in the order in which it would have been their turn.
    refused: VecDeque<ConsumerId>,
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
        let consumer = Consumer {
            settings,
            unacked: 0,
            arrival: self.arrivals,
            is_waiting: self.single_active && !self.by_id.is_empty(),
            is_leaving: false,
            is_paused: true,
            is_in_line: false,
            room: if is_sharer { Room::Unknown } else { Room::Own },
        };
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
        let Some(consumer) = self.by_id.remove(&id) else {
            return false;
        };
        if consumer.room == Room::None {
            self.refused.retain(|refused| *refused != id);
        }
        let priority = consumer.settings.priority;
        self.filled -= usize::from(consumer.is_in_line && consumer.is_filled());
        let ring = self.ring(priority);
        ring.members -= 1;
        if consumer.is_in_line {
            ring.line.retain(|other| *other != id);
        }
        if ring.members == 0 {
            self.rings.retain(|ring| ring.priority != priority);
        }
        if self.single_active && !consumer.is_waiting {
            self.activate_next();
        }
        true
    }

    /// The single active consumer leaves when somebody of a higher priority waits, and stays when nobody
    /// does. What it holds is settled first, and until then it gets nothing, also if nobody waits any more.
    fn give_way(&mut self) {
        let mut consumers = self.by_id.iter();
        let Some((&id, active)) = consumers.find(|(_, each)| !each.is_waiting) else {
            return;
        };
        let (priority, is_idle) = (active.settings.priority, active.unacked == 0);
        if active.is_leaving && !is_idle {
            return;
        }
        let mut others = self.by_id.values();
        let is_lower = others.any(|each| each.is_waiting && each.settings.priority > priority);
        let Some(active) = self.by_id.get_mut(&id) else {
            return;
        };
        active.is_leaving = is_lower && !is_idle;
        active.is_waiting = is_lower && is_idle;
        if !is_lower {
            self.line_up(id);
            return;
        }
        if std::mem::take(&mut active.is_in_line) {
            self.ring(priority).line.retain(|other| *other != id);
        }
        if is_idle {
            self.activate_next();
        }
    }

    /// The single active consumer is gone: of those with the highest priority the one that came first
    /// takes over.
    fn activate_next(&mut self) {
        let next = self
            .by_id
            .iter_mut()
            .min_by_key(|(_, consumer)| (Reverse(consumer.settings.priority), consumer.arrival));
        if let Some((&id, consumer)) = next {
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
        let ring = self.rings.iter().find(|ring| !ring.line.is_empty())?;
        let &id = ring.line.front()?;
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
        consumer.room = Room::None;
        self.refused.push_back(id);
        self.step_out(id);
    }

    /// There may be room again in this channel, for whoever is next of its consumers.
    pub(super) fn ask_again(&mut self, channel: ChannelKey) {
        for _ in 0..self.refused.len() {
            let Some(id) = self.refused.pop_front() else {
                break;
            };
            if id.channel != channel {
                self.refused.push_back(id);
                continue;
            }
            if let Some(consumer) = self.by_id.get_mut(&id) {
                consumer.room = Room::Unknown;
            }
            self.line_up(id);
        }
    }

    pub(super) fn remove_all(&mut self, of: Channels) {
        let ids: Vec<ConsumerId> = self
            .by_id
            .range(of.consumers())
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.remove(id);
        }
    }

    /// Removes all of them, in the order of their ids.
    pub(super) fn drain_into(&mut self, removed: &mut Vec<ConsumerId>) {
        removed.extend(self.by_id.keys());
        self.by_id.clear();
        self.refused.clear();
        self.rings.clear();
        self.filled = 0;
    }

    /// Offers a message: whether somebody has credit for it. Whose turn it is and is filled leaves the line.
    pub(super) fn is_anyone_ready(&mut self) -> bool {
        if self.filled > 0 {
            self.pass_over_filled();
        }
        self.rings.iter().any(|ring| !ring.line.is_empty())
    }

    fn pass_over_filled(&mut self) {
        for ring in &mut self.rings {
            while let Some(id) = ring.line.front() {
                if let Some(consumer) = self.by_id.get_mut(id) {
                    if !consumer.is_filled() {
                        return;
                    }
                    consumer.is_in_line = false;
                }
                self.filled -= 1;
                ring.line.pop_front();
            }
        }
    }

    /// The consumer whose turn it is, charged with one message; there is one, [`Self::is_anyone_ready`] said.
    pub(super) fn next_ready(&mut self) -> Option<Served> {
        let ring = self.rings.iter_mut().find(|ring| !ring.line.is_empty())?;
        let id = ring.line.pop_front()?;
        let consumer = self.by_id.get_mut(&id)?;
        if !consumer.settings.no_ack {
            consumer.unacked += 1;
        }
        if consumer.room == Room::Reserved {
            consumer.room = Room::Unknown;
        }
        consumer.is_in_line = !consumer.is_filled() || !self.leave_filled;
        if consumer.is_in_line {
            self.filled += usize::from(consumer.is_filled());
            ring.line.push_back(id);
        }
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
            self.filled -= usize::from(consumer.is_in_line && was_filled && !consumer.is_filled());
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
        let mut places: BTreeMap<(i64, ConsumerId), usize> = BTreeMap::new();
        for ring in &self.rings {
            for &id in &ring.line {
                *places.entry((ring.priority, id)).or_default() += 1;
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
            let is_refused = self.refused.contains(&id);
            if consumer.room == Room::Reserved
                || is_refused != (consumer.room == Room::None)
                || (consumer.room != Room::Own && !self.has_sharers)
            {
                return Err(format!("nobody asked its channel for room: {consumer:?}"));
            }
            let places = places.remove(&(priority, id)).unwrap_or(0);
            let may_stand =
                consumer.has_credit() || (!self.leave_filled && !consumer.is_held_back());
            if (consumer.has_credit() && !consumer.is_in_line)
                || (consumer.is_in_line && !may_stand)
                || places != usize::from(consumer.is_in_line)
            {
                return Err(format!(
                    "{id:?} stands {places} times in line: {consumer:?}"
                ));
            }
        }
        let in_line = self.by_id.values().filter(|each| each.is_in_line);
        let filled = in_line.filter(|each| each.is_filled()).count();
        if filled != self.filled {
            return Err(format!("{filled} in line are filled, not {}", self.filled));
        }
        let active = self.by_id.values().filter(|each| !each.is_waiting).count();
        if self.single_active && active != self.by_id.len().min(1) {
            return Err(format!("{active} consumers are active: {:?}", self.by_id));
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
        if consumer.is_in_line || !consumer.has_credit() {
            return;
        }
        consumer.is_in_line = true;
        let priority = consumer.settings.priority;
        self.ring(priority).line.push_back(id);
    }

    /// Leaves the line.
    fn step_out(&mut self, id: ConsumerId) {
        if let Some(consumer) = self.by_id.get_mut(&id)
            && std::mem::take(&mut consumer.is_in_line)
        {
            self.filled -= usize::from(consumer.is_filled());
            let priority = consumer.settings.priority;
            self.ring(priority).line.retain(|other| *other != id);
        }
    }

    /// The ring of this priority; a new one is empty.
    fn ring(&mut self, priority: i64) -> &mut Ring {
        let at = self.rings.partition_point(|ring| ring.priority > priority);
        if self
            .rings
            .get(at)
            .is_none_or(|ring| ring.priority != priority)
        {
            let ring = Ring {
                priority,
                members: 0,
                line: VecDeque::new(),
            };
            self.rings.insert(at, ring);
        }
        &mut self.rings[at]
    }
}
