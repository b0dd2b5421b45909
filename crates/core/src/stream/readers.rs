//! Who reads, from where, with how much credit; and whose turn it is.

use std::collections::{BTreeMap, VecDeque};

use super::{READS_MAX, StreamFilter};
use crate::{
    ids::{Channels, ConsumerId, Seq, Timestamp},
    message::Message,
    queue::{ConsumerReport, ConsumerSettings},
    turns::Turns,
};

/// A message that was read for one reader.
#[derive(Debug)]
pub(super) struct Paged {
    pub(super) at: Seq,
    pub(super) message: Message,
}

/// A place that is known by its time only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Since {
    pub(super) at: Timestamp,
    /// The log ended here when the reader came; looked for once all of that is on disk.
    pub(super) until: Seq,
}

/// One consumer and its place in the log.
#[derive(Debug)]
pub(super) struct Reader {
    prefetch: u32,
    unsettled: u32,
    /// Other messages are passed over.
    pub(super) filter: Option<Box<StreamFilter>>,
    /// What it gets next; or the time of it, until the position is known.
    pub(super) at: Result<Seq, Since>,
    /// What was read for it; the first one stands at its place or behind.
    pub(super) page: VecDeque<Paged>,
    pub(super) page_bytes: usize,
    /// Where the next read for it begins, while it has a page.
    pub(super) page_until: Seq,
    /// It has asked for something, or waits for its turn to ask; until where.
    pub(super) reads: Option<Reading>,
    /// What it should get next is damaged, or cannot be read now.
    pub(super) is_stuck: bool,
    /// Reads that failed since the last one that did not.
    pub(super) failures: u32,
    /// Its outbox is full, or its subscription was not answered yet.
    is_paused: bool,
    /// Where it stands in line.
    place: Option<u64>,
}

/// How far a reader's wish has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// Others are being read for; it has this place among those who wait.
    Waits(u64),
    /// It is under way.
    Asked { from: Seq, until: Seq },
}

impl Reader {
    pub(super) fn has_credit(&self) -> bool {
        !self.is_paused && self.unsettled < self.prefetch
    }
}

/// The readers of one stream.
#[derive(Debug, Default)]
pub(super) struct Readers {
    by_id: BTreeMap<ConsumerId, Reader>,
    /// Those with credit who may have something to get, the next one in front.
    line: Turns,
    /// Who has which delivery. A delivery's number is not an offset: several readers may hold one message.
    deliveries: BTreeMap<Seq, ConsumerId>,
    last_delivery: u64,
    /// Those who want something read.
    wishes: Turns,
    /// Reads under way, also for readers that are gone.
    reads: usize,
}

impl Readers {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Every reader. All are served, all ack.
    pub(super) fn reports(&self) -> impl Iterator<Item = ConsumerReport> {
        self.by_id.iter().map(|(&id, reader)| ConsumerReport {
            id,
            settings: ConsumerSettings {
                prefetch: u16::try_from(reader.prefetch).unwrap_or(0),
                ..ConsumerSettings::default()
            },
            is_active: true,
            has_credit: true,
        })
    }

    pub(super) fn unsettled(&self) -> usize {
        self.deliveries.len()
    }

    /// Rows in all pages.
    pub(super) fn rows(&self) -> usize {
        self.by_id.values().map(|reader| reader.page.len()).sum()
    }

    /// Adds a paused reader.
    pub(super) fn add(
        &mut self,
        id: ConsumerId,
        prefetch: u16,
        at: Result<Seq, Since>,
        filter: Option<StreamFilter>,
    ) {
        let reader = Reader {
            prefetch: match prefetch {
                0 => u32::MAX,
                bound => bound.into(),
            },
            unsettled: 0,
            filter: filter.map(Box::new),
            at,
            page: VecDeque::new(),
            page_bytes: 0,
            page_until: Seq::default(),
            reads: None,
            is_stuck: false,
            failures: 0,
            is_paused: true,
            place: None,
        };
        self.by_id.insert(id, reader);
    }

    pub(super) fn get_mut(&mut self, id: ConsumerId) -> Option<&mut Reader> {
        self.by_id.get_mut(&id)
    }

    pub(super) fn resume(&mut self, id: ConsumerId) {
        if let Some(reader) = self.by_id.get_mut(&id) {
            reader.is_paused = false;
            self.line_up(id);
        }
    }

    pub(super) fn pause(&mut self, id: ConsumerId) {
        if let Some(reader) = self.by_id.get_mut(&id) {
            reader.is_paused = true;
            if let Some(place) = reader.place.take() {
                self.line.leave(place);
                self.close_gaps();
            }
        }
    }

    /// What it holds stays with its channel.
    pub(super) fn remove(&mut self, id: ConsumerId) {
        let Some(reader) = self.by_id.remove(&id) else {
            return;
        };
        if let Some(place) = reader.place {
            self.line.leave(place);
        }
        if let Some(Reading::Waits(place)) = reader.reads {
            self.wishes.leave(place);
        }
        self.close_gaps();
    }

    fn close_gaps(&mut self) {
        let Self {
            by_id,
            line,
            wishes,
            ..
        } = self;
        if line.has_many_gaps() {
            line.close_gaps(|id, place| {
                if let Some(reader) = by_id.get_mut(&id) {
                    reader.place = Some(place);
                }
            });
        }
        if wishes.has_many_gaps() {
            wishes.close_gaps(|id, place| {
                if let Some(reader) = by_id.get_mut(&id) {
                    reader.reads = Some(Reading::Waits(place));
                }
            });
        }
    }

    /// A delivery is done with, however it ended. `false` for unknown ones, which are ignored.
    pub(super) fn settle(&mut self, delivery: Seq) -> bool {
        let Some(id) = self.deliveries.remove(&delivery) else {
            return false;
        };
        if let Some(reader) = self.by_id.get_mut(&id) {
            reader.unsettled -= 1;
            self.line_up(id);
        }
        true
    }

    /// Everything the channel holds is done with.
    pub(super) fn release(&mut self, channels: Channels, ended: bool) {
        let ids: Vec<ConsumerId> = self
            .by_id
            .range(channels.consumers())
            .map(|(id, _)| *id)
            .collect();
        self.deliveries.retain(|_, id| !channels.has(id.channel));
        for id in ids {
            if ended {
                self.remove(id);
            } else if let Some(reader) = self.by_id.get_mut(&id) {
                reader.unsettled = 0;
                self.line_up(id);
            }
        }
    }

    /// Removes all of them, in the order of their ids.
    pub(super) fn drain_into(&mut self, removed: &mut Vec<ConsumerId>) {
        removed.extend(self.by_id.keys());
        self.by_id.clear();
        self.line = Turns::default();
        self.wishes = Turns::default();
        self.deliveries.clear();
    }

    /// Takes the reader whose turn it is out of the line.
    pub(super) fn next_in_line(&mut self) -> Option<ConsumerId> {
        let id = self.line.pop()?;
        if let Some(reader) = self.by_id.get_mut(&id) {
            reader.place = None;
        }
        Some(id)
    }

    /// Puts a reader with credit at the end of the line, once.
    pub(super) fn line_up(&mut self, id: ConsumerId) {
        if let Some(reader) = self.by_id.get_mut(&id)
            && reader.has_credit()
            && reader.place.is_none()
        {
            reader.place = Some(self.line.push(id));
        }
    }

    pub(super) fn is_anyone_in_line(&self) -> bool {
        !self.line.is_empty()
    }

    /// There is more for those who have got all that was there below `committed`.
    pub(super) fn line_up_all_from(&mut self, committed: Seq) {
        for (&id, reader) in &mut self.by_id {
            let is_waiting = reader.at.map_or(true, |at| at >= committed);
            if is_waiting && reader.has_credit() && reader.place.is_none() {
                reader.place = Some(self.line.push(id));
            }
        }
    }

    /// The reader holds one more message; the number of the delivery.
    pub(super) fn charge(&mut self, id: ConsumerId) -> Seq {
        self.last_delivery += 1;
        let delivery = Seq::new(self.last_delivery);
        if let Some(reader) = self.by_id.get_mut(&id) {
            reader.unsettled += 1;
            self.deliveries.insert(delivery, id);
        }
        delivery
    }

    /// The reader wants something read when there is room for it.
    pub(super) fn wish(&mut self, id: ConsumerId) {
        if let Some(reader) = self.by_id.get_mut(&id)
            && reader.reads.is_none()
            && !reader.is_stuck
        {
            reader.reads = Some(Reading::Waits(self.wishes.push(id)));
        }
    }

    /// The next reader to read for, while there is room for another read.
    pub(super) fn next_wish(&mut self) -> Option<ConsumerId> {
        if self.reads >= READS_MAX {
            return None;
        }
        self.wishes.pop()
    }

    /// The read for it is under way.
    pub(super) fn asked(&mut self, id: ConsumerId, from: Seq, until: Seq) {
        if let Some(reader) = self.by_id.get_mut(&id) {
            reader.reads = Some(Reading::Asked { from, until });
            self.reads += 1;
        }
    }

    /// The read for it is done; what was asked for, if the reader is still there.
    pub(super) fn answered(&mut self, id: ConsumerId) -> Option<(Seq, Seq)> {
        self.reads = self.reads.saturating_sub(1);
        match self.by_id.get_mut(&id)?.reads.take()? {
            Reading::Asked { from, until } => Some((from, until)),
            Reading::Waits(_) => None,
        }
    }

    pub(super) fn check(&self, committed: Seq) -> Result<(), String> {
        let mut held: BTreeMap<ConsumerId, u32> = BTreeMap::new();
        for &id in self.deliveries.values() {
            *held.entry(id).or_default() += 1;
        }
        self.line.check()?;
        self.wishes.check()?;
        if self.reads > READS_MAX {
            return Err(format!("{} reads are under way", self.reads));
        }
        for (id, reader) in &self.by_id {
            let holds = held.get(id).copied().unwrap_or(0);
            if holds != reader.unsettled || holds > reader.prefetch {
                return Err(format!("{id:?} holds {holds} messages: {reader:?}"));
            }
            let places = |list: &Turns| {
                let places = list.iter().filter(|(_, each)| each == id);
                places.map(|(place, _)| place).collect::<Vec<u64>>()
            };
            let (places, wishes) = (places(&self.line), places(&self.wishes));
            if !places.iter().eq(&reader.place) {
                return Err(format!("{id:?} stands at {places:?} in line: {reader:?}"));
            }
            let wish = match reader.reads {
                Some(Reading::Waits(place)) => Some(place),
                Some(Reading::Asked { .. }) | None => None,
            };
            if !wishes.iter().eq(&wish) {
                return Err(format!("{id:?} has the wishes {wishes:?}: {reader:?}"));
            }
            let bytes: usize = reader
                .page
                .iter()
                .map(|row| row.message.memory_bytes())
                .sum();
            let is_page_in_order = reader.page.iter().is_sorted_by(|a, b| a.at < b.at)
                && reader.page.iter().all(|row| row.at < reader.page_until);
            if bytes != reader.page_bytes || !is_page_in_order {
                return Err(format!("{id:?} has a wrong page: {reader:?}"));
            }
            let is_idle = reader.place.is_none() && reader.reads.is_none() && !reader.is_stuck;
            let could_go_on = match reader.at {
                Ok(at) => at < committed,
                Err(since) => since.until <= committed,
            };
            if is_idle && reader.has_credit() && could_go_on {
                return Err(format!("{id:?} is forgotten: {reader:?}"));
            }
        }
        Ok(())
    }
}
