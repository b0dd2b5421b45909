//! The log is cut into segments, and ends at its old side by whole segments.
//!
//! Where a segment begins is stored as a row of its own, beside the messages and under another
//! priority: its body is the number of bytes appended before it. After a start these rows are read
//! when they are needed first.

use std::collections::VecDeque;

use bytes::Bytes;

use super::{MESSAGES, SEGMENT_STARTS, SEGMENTS_MAX, Stream};
use crate::{
    ids::{Seq, Timestamp},
    message::{Message, MessageParts},
    queue::{Effects, Refilled},
    record::{QueueState, Write},
};

/// Where a segment begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) first: Seq,
    /// When its first message came: everything in earlier segments is as old or older.
    pub(super) at: Timestamp,
    /// Bytes of everything that was ever appended before it.
    bytes_before: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Known {
    #[default]
    Yes,
    /// They are stored, and nobody has asked for them.
    No,
    Asked,
}

/// The segments of one log, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Segments {
    list: VecDeque<Segment>,
    known: Known,
}

impl Segments {
    pub(super) fn of(stored: QueueState) -> Self {
        Self {
            list: VecDeque::new(),
            known: if stored.messages > 0 {
                Known::No
            } else {
                Known::Yes
            },
        }
    }

    pub(super) fn must_be_asked(&self) -> bool {
        self.known == Known::No
    }

    pub(super) const fn asked(&mut self) {
        self.known = Known::Asked;
    }

    /// How many there are, and when the first began; of those that were read.
    pub(super) fn known(&self) -> (u64, Option<Timestamp>) {
        (
            self.list.len() as u64,
            self.list.front().map(|first| first.at),
        )
    }

    /// The one behind the oldest.
    pub(super) fn second(&self) -> Option<&Segment> {
        self.list.get(1)
    }

    pub(super) fn check(&self, state: QueueState) -> Result<(), String> {
        if self.known != Known::Yes {
            return Ok(());
        }
        if !self.list.iter().is_sorted_by(|a, b| a.first < b.first) {
            return Err(format!("segments are out of order: {:?}", self.list));
        }
        if self.list.len() > SEGMENTS_MAX {
            return Err(format!("{} segments", self.list.len()));
        }
        let begins = self.list.front().map_or(state.next, |first| first.first);
        let is_inside = self.list.back().is_none_or(|last| last.first < state.next);
        if begins != state.head || !is_inside {
            return Err(format!(
                "segments are not those of {state:?}: {:?}",
                self.list
            ));
        }
        Ok(())
    }

    /// Bytes that the `dropped` oldest segments have.
    fn bytes_of(&self, dropped: usize) -> u64 {
        let before = |at: usize| self.list.get(at).map_or(0, |segment| segment.bytes_before);
        before(dropped).saturating_sub(before(0))
    }
}

impl Stream {
    /// Called before each append: a full segment ends, and old ones may go.
    pub(super) fn begin_segment(&mut self, offset: Seq, effects: &mut Effects) {
        if self.segments.known != Known::Yes {
            self.ask_segments(effects);
            return;
        }
        let begins = self.segments.list.front().map(|first| first.bytes_before);
        let end = begins.unwrap_or(0) + self.state.message_bytes;
        if let Some(last) = self.segments.list.back()
            && end.saturating_sub(last.bytes_before) < self.settings.segment_bytes.max(1)
        {
            return;
        }
        let segment = Segment {
            first: offset,
            at: self.now,
            bytes_before: end,
        };
        self.segments.list.push_back(segment);
        effects.writes.push(Write::Put {
            queue: self.id,
            priority: SEGMENT_STARTS,
            seq: offset,
            enqueued_at: self.now,
            due: Timestamp::NEVER,
            message: segment.row(),
        });
        // As in RabbitMQ, which looks at the length only when a segment is full.
        self.trim(effects);
        self.merge(effects);
    }

    /// Time has passed.
    pub(super) fn expire(&mut self, effects: &mut Effects) {
        if self.is_deleted || self.settings.max_age_millis.is_none() {
            return;
        }
        if self.segments.known == Known::Yes {
            self.trim_old(effects);
        } else if self.state.messages > 0 {
            self.ask_segments(effects);
        }
    }

    /// What was asked for after the start.
    pub(super) fn segments_read(&mut self, rows: &Refilled, effects: &mut Effects) {
        if self.is_deleted || self.segments.known != Known::Asked {
            return;
        }
        self.segments.known = Known::Yes;
        let read = rows.rows.iter();
        self.segments.list = read
            .filter_map(|row| Segment::of_row(row.seq, row.enqueued_at, row.message.body()))
            .collect();
        let head = self.state.head;
        let is_whole = self
            .segments
            .list
            .front()
            .is_some_and(|it| it.first == head);
        if !is_whole {
            // A row is lost: what stands before the first known segment belongs to it.
            effects.missing += 1;
            match self.segments.list.front_mut() {
                Some(first) => first.first = head,
                None => self.segments.list.push_back(Segment {
                    first: head,
                    at: self.now,
                    bytes_before: 0,
                }),
            }
        }
        self.trim_old(effects);
    }

    /// Drops the oldest segments while the log is too long or they are too old.
    fn trim(&mut self, effects: &mut Effects) {
        let max = self.settings.max_length_bytes.unwrap_or(u64::MAX);
        let total = self.state.message_bytes;
        let is_too_long = |dropped: &usize| total - self.segments.bytes_of(*dropped) > max;
        let last = self.segments.list.len().saturating_sub(1);
        let dropped = (0..last).take_while(is_too_long).count();
        self.drop_segments(dropped, effects);
        self.trim_old(effects);
    }

    fn trim_old(&mut self, effects: &mut Effects) {
        let Some(max_age) = self.settings.max_age_millis else {
            return;
        };
        // The next one's beginning is the last moment of a segment, or later.
        let nexts = self.segments.list.iter().skip(1);
        let is_over = |next: &&Segment| next.at.plus_millis(max_age) < self.now;
        let dropped = nexts.take_while(is_over).count();
        self.drop_segments(dropped, effects);
    }

    fn drop_segments(&mut self, dropped: usize, effects: &mut Effects) {
        if dropped == 0 {
            return;
        }
        let bytes = self.segments.bytes_of(dropped);
        self.segments.list.drain(..dropped);
        let from = self.state.head;
        let Some(until) = self.segments.list.front().map(|first| first.first) else {
            return;
        };
        for priority in [MESSAGES, SEGMENT_STARTS] {
            effects.writes.push(Write::ForgetRange {
                queue: self.id,
                priority,
                from,
                until,
            });
        }
        self.state.head = until;
        self.state.messages -= until.get() - from.get();
        self.state.message_bytes = self.state.message_bytes.saturating_sub(bytes);
        self.is_state_stale = true;
        self.tail.trim_to(until);
    }

    /// Many small segments become fewer: every second one goes on into the next. The oldest and the
    /// newest stay as they are.
    fn merge(&mut self, effects: &mut Effects) {
        if self.segments.list.len() <= SEGMENTS_MAX {
            return;
        }
        let last = self.segments.list.len() - 1;
        let mut place = 0;
        let queue = self.id;
        self.segments.list.retain(|segment| {
            let is_joined = place % 2 == 1 && place < last;
            place += 1;
            if is_joined {
                effects.writes.push(Write::Forget {
                    queue,
                    priority: SEGMENT_STARTS,
                    seq: segment.first,
                });
            }
            !is_joined
        });
    }
}

impl Segment {
    fn row(&self) -> Message {
        Message::new(MessageParts {
            exchange: b"",
            routing_key: b"",
            properties: &[0, 0],
            body: Bytes::copy_from_slice(&self.bytes_before.to_be_bytes()),
            persistent: true,
            priority: None,
        })
    }

    fn of_row(first: Seq, at: Timestamp, body: &[u8]) -> Option<Self> {
        Some(Self {
            first,
            at,
            bytes_before: u64::from_be_bytes(body.try_into().ok()?),
        })
    }
}
