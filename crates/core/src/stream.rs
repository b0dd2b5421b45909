//! One stream as a pure state machine: a log that readers follow, each at its own place.
//!
//! It speaks the language of [`crate::queue`], so that everybody around treats both alike: the same
//! [`Command`]s in, the same [`Effects`] out. What it wants of the store and a classic queue does not,
//! it says as an [`Ask`], and is [`Told`].
//!
//! ```text
//!   append ─▶ written ──on disk──▶ committed ──retention──▶ gone, a segment at a time
//!                                   │  │  │
//!                     each reader:  place ─▶ deliver (one credit less) ─▶ settle (one credit more)
//! ```
//!
//! An offset is the message's seq. Every message is stored, whatever its delivery mode, and no reader
//! sees it before it is on disk: readers remember offsets, so that an offset must never come to mean
//! another message after a crash. Nothing a reader does changes the log; an ack gives credit, and so
//! does a reject.
//!
//! In memory are the newest messages while there are readers (`tail`), a page for every reader that is
//! further behind (`readers`), and where segments begin (`segments`): all bounded, whatever the length
//! of the log.
//!
//! True between two calls, and [`Stream::check`] is the same list as code:
//! * the log is without gaps: it has as many messages as offsets;
//! * the tail ends where the log ends;
//! * segments begin in order, the first one where the log begins;
//! * no reader has more unsettled deliveries than its prefetch;
//! * a reader that could be served stands in line, or waits for what it asked for.

mod append;
mod ask;
mod filter;
mod offset_header;
mod readers;
mod reading;
mod segments;
mod settings;
mod start;
mod tail;

use bytes::BytesMut;

pub use self::{
    ask::{Ask, Told},
    filter::{StreamFilter, X_STREAM_FILTER, X_STREAM_MATCH_UNFILTERED},
    settings::{SEGMENT_BYTES_DEFAULT, StreamSettings},
    start::{StreamStart, StreamSubscription, X_STREAM_OFFSET},
};
use self::{
    readers::{Readers, Since},
    segments::Segments,
    tail::Tail,
};
use crate::{
    ids::{Channels, ConsumerId, QueueId, Seq, Timestamp},
    queue::{
        Answer, ColdPart, Command, ConsumerReport, Counters, Depth, Effects, Found, Look, Outcome,
        Report,
    },
    record::{MetaChange, QueueState, Write},
};

/// Rows of the newest messages that are kept for readers at the end of the log.
pub const TAIL_ROWS_MAX: usize = 4096;
/// Bytes of these messages; at least one is kept.
pub const TAIL_BYTES_MAX: usize = 1024 * 1024;
/// Rows read at once for a reader that is further behind.
pub const PAGE_ROWS_MAX: usize = 1024;
/// Bytes of these rows, while there are few such readers.
pub const PAGE_BYTES_MAX: usize = 256 * 1024;
/// Bytes that the pages of all readers share; with many readers their pages become smaller.
pub const PAGES_BYTES_MAX: usize = 16 * 1024 * 1024;
/// And not smaller than this.
pub const PAGE_BYTES_MIN: usize = 16 * 1024;
/// Reads of one stream that are under way at once; further ones wait for their turn.
pub const READS_MAX: usize = 4;
/// Segments a log is cut into at most; beyond that neighbours become one.
pub const SEGMENTS_MAX: usize = 1024;

/// The store's priority of messages.
pub const MESSAGES: u8 = 0;
/// The store's priority of the rows that tell where segments begin.
pub const SEGMENT_STARTS: u8 = 1;

/// One stream.
#[derive(Debug)]
pub struct Stream {
    id: QueueId,
    settings: StreamSettings,
    /// Counters as they will be stored: `head` is the first offset of the log, and `message_bytes` are
    /// all bytes of its rows.
    state: QueueState,
    /// Rows changed since the counters were last written.
    is_state_stale: bool,
    /// Where the last [`Ask::Stored`] was about.
    asked_until: Seq,
    /// Readers see what is below.
    committed: Seq,
    tail: Tail,
    segments: Segments,
    readers: Readers,
    counters: Counters,
    /// For the headers of the message at hand.
    scratch: BytesMut,
    is_deleted: bool,
    /// The time of the last command.
    now: Timestamp,
}

impl Stream {
    /// A stream without messages.
    #[must_use]
    pub fn new(id: QueueId, settings: StreamSettings) -> Self {
        Self::recovered(id, settings, QueueState::default())
    }

    /// A stream as the store remembers it.
    #[must_use]
    pub fn recovered(id: QueueId, settings: StreamSettings, stored: QueueState) -> Self {
        Self {
            id,
            settings,
            state: QueueState {
                consumed: false,
                ..stored
            },
            is_state_stale: false,
            asked_until: stored.next,
            committed: stored.next,
            tail: Tail::starting_at(stored.next),
            segments: Segments::of(stored),
            readers: Readers::default(),
            counters: Counters::default(),
            scratch: BytesMut::new(),
            is_deleted: false,
            now: Timestamp::default(),
        }
    }

    /// Other settings from now on, since a policy changed. They are looked at as the ones before: the age with every
    /// [`Command::Tick`], the length when a segment is full.
    pub fn set_settings(&mut self, settings: StreamSettings) {
        self.settings = settings;
    }

    /// Does what `command` says. Messages are not handed out here but by [`Self::hand_out`].
    pub fn apply(&mut self, now: Timestamp, command: Command, effects: &mut Effects) {
        self.now = self.now.max(now);
        match command {
            Command::Enqueue { message, confirm } => self.append(&message, confirm, effects),
            Command::Subscribe {
                request,
                consumer,
                settings,
            } => {
                let answer = self.subscribe(consumer, settings.prefetch, StreamStart::Next, None);
                effects.answers.push((request, answer));
            }
            Command::SubscribeStream(subscription) => {
                let StreamSubscription {
                    request,
                    consumer,
                    prefetch,
                    start,
                    filter,
                } = *subscription;
                let answer = self.subscribe(consumer, prefetch, start, filter);
                effects.answers.push((request, answer));
            }
            Command::Resume { consumer } => self.readers.resume(consumer),
            Command::Pause { consumer } => self.readers.pause(consumer),
            Command::Unsubscribe { consumer } => {
                self.readers.remove(consumer);
                self.no_reader_no_tail();
            }
            Command::Settle { seq, outcome, .. } => {
                if self.readers.settle(seq) && outcome == Outcome::Acked {
                    self.counters.ack += 1;
                }
            }
            Command::Release { channel, ended } => self.release(Channels::One(channel), ended),
            Command::Disconnect { connection } => self.release(Channels::AllOf(connection), true),
            Command::Told(told) => self.told(*told, effects),
            Command::Tick => self.expire(effects),
            Command::Delete { request, .. } => {
                let answer = self.delete(effects);
                effects.answers.push((request, answer));
            }
            // Whoever asks a stream for these is refused before the question comes here.
            Command::Get { request, .. } => effects.answers.push((request, Answer::Got(None))),
            Command::Purge { request } => effects.answers.push((request, Answer::Purged(0))),
            // Nothing is flagged redelivered, nothing dies, and rows come as `Told`.
            Command::MarkConsumed
            | Command::Transferred { .. }
            | Command::Stranded(_)
            | Command::Refilled(_)
            | Command::Unreadable => {}
            // Every reader has a bound of its own.
            Command::Share { .. } | Command::AskAgain { .. } => {}
        }
    }

    /// Closes a batch of commands: changed counters join the writes of the rows they count.
    pub fn seal(&mut self, effects: &mut Effects) {
        if !self.is_deleted {
            if std::mem::take(&mut self.is_state_stale) {
                effects.writes.push(Write::State {
                    queue: self.id,
                    state: self.state,
                });
            }
            // Without readers nobody needs to know.
            let is_awaited = self.committed < self.state.next && self.readers.len() > 0;
            if is_awaited && self.asked_until < self.state.next {
                self.asked_until = self.state.next;
                effects.asks.push(Ask::Stored {
                    until: self.state.next,
                });
            }
        }
        debug_assert_eq!(self.check(), Ok(()));
    }

    /// When the stream is to be sent the next [`Command::Tick`] at the latest.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        let max_age = self.settings.max_age_millis?;
        if self.is_deleted || self.state.messages == 0 {
            return None;
        }
        if self.segments.must_be_asked() {
            return Some(self.now);
        }
        let next = self.segments.second()?;
        Some(next.at.plus_millis(max_age).plus_millis(1))
    }

    /// Its number.
    #[must_use]
    pub const fn id(&self) -> QueueId {
        self.id
    }

    /// Messages of the log, and deliveries that are not settled.
    #[must_use]
    pub fn depth(&self) -> Depth {
        Depth {
            ready: self.state.messages,
            unacked: self.readers.unsettled() as u64,
        }
    }

    /// Looks where its messages are: all that readers see are ready, and on disk.
    #[must_use]
    pub fn look(&self, look: Look) -> Found {
        let behind = look.after.map_or(self.state.head, Seq::next);
        let part = ColdPart {
            priority: MESSAGES,
            from: self.state.head.max(behind),
            // What is not stored yet is not found.
            until: self.state.next,
        };
        let has_some = look.ready && part.from < part.until;
        Found {
            cold: has_some.then_some(part).into_iter().collect(),
            ..Found::default()
        }
    }

    /// What there is at this moment. What went through is not counted.
    #[must_use]
    pub fn report(&self) -> Report {
        let (segments, oldest) = self.segments.known();
        Report {
            // A message stays ready, whoever reads it.
            depth: Depth {
                unacked: 0,
                ..self.depth()
            },
            consumers: self.consumer_count(),
            counters: self.counters,
            ready_bytes: self.state.message_bytes,
            ready_in_memory: self.rows_in_memory() as u64,
            stored: self.state.messages,
            stored_bytes: self.state.message_bytes,
            last_active: self.now,
            oldest_ready: oldest,
            segments,
            ..Report::default()
        }
    }

    /// Every consumer.
    #[must_use]
    pub fn consumer_reports(&self) -> Vec<ConsumerReport> {
        self.readers.reports().collect()
    }

    /// Consumers, paused or not.
    #[must_use]
    pub fn consumer_count(&self) -> usize {
        self.readers.len()
    }

    /// Deleted: everything sent here is answered and forgotten.
    #[must_use]
    pub const fn is_deleted(&self) -> bool {
        self.is_deleted
    }

    /// Rows in memory: of the tail and of the pages of readers.
    #[must_use]
    pub fn rows_in_memory(&self) -> usize {
        self.tail.rows() + self.readers.rows()
    }

    /// The invariants of the module text.
    ///
    /// # Errors
    ///
    /// The first that does not hold, in words.
    pub fn check(&self) -> Result<(), String> {
        let QueueState {
            head,
            next,
            messages,
            ..
        } = self.state;
        if self.is_deleted {
            return Ok(());
        }
        if next.get() - head.get() != messages {
            return Err(format!("{messages} messages from {head} to {next}"));
        }
        if self.tail.until() != next {
            return Err(format!("the tail ends at {}", self.tail.until()));
        }
        if self.committed > next {
            return Err(format!("{} is committed of {next}", self.committed));
        }
        self.segments.check(self.state)?;
        self.readers.check(self.committed)
    }

    fn subscribe(
        &mut self,
        consumer: ConsumerId,
        prefetch: u16,
        start: StreamStart,
        filter: Option<StreamFilter>,
    ) -> Answer {
        if self.is_deleted {
            return Answer::Deleted(0);
        }
        let QueueState { head, next, .. } = self.state;
        let last = Seq::new(next.get().saturating_sub(1));
        let at = match start {
            StreamStart::First => Ok(head),
            StreamStart::Last => Ok(last.max(head)),
            StreamStart::Next => Ok(next),
            StreamStart::Offset(offset) => Ok(Seq::new(offset).max(head)),
            StreamStart::Since(at) => Err(Since { at, until: next }),
        };
        self.readers.add(consumer, prefetch, at, filter);
        Answer::Subscribed
    }

    fn release(&mut self, channels: Channels, ended: bool) {
        self.readers.release(channels, ended);
        self.no_reader_no_tail();
    }

    /// A stream that nobody reads costs no memory.
    fn no_reader_no_tail(&mut self) {
        if self.readers.len() == 0 {
            self.tail = Tail::starting_at(self.state.next);
        }
    }

    fn delete(&mut self, effects: &mut Effects) -> Answer {
        if self.is_deleted {
            return Answer::Deleted(0);
        }
        self.is_deleted = true;
        let messages = self.state.messages;
        self.readers.drain_into(&mut effects.cancelled);
        self.tail = Tail::starting_at(self.state.next);
        self.segments = Segments::default();
        self.state.messages = 0;
        self.state.message_bytes = 0;
        effects
            .writes
            .push(Write::Meta(MetaChange::DeleteQueue(self.id)));
        Answer::Deleted(messages)
    }
}
