//! What waits for the committer: units, packed into segments of at most one batch each.
//!
//! Packing happens where a unit is sent: what the committer takes is a whole batch already, and a queue of segments never
//! has to be cut or moved. Segments go round, so that in steady state nothing is allocated.

use std::{
    collections::VecDeque,
    mem,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use leveret_core::record::Write;
use parking_lot::{Condvar, Mutex};

/// A batch takes no further unit above this many bytes: about what a sync moves in the time it takes anyway.
pub(super) const BATCH_BYTES_MAX: usize = 4 << 20;

/// The same for rows: a few milliseconds of building and inserting, which the first promise of the batch waits for.
pub(super) const BATCH_ROWS_MAX: usize = 8192;

/// Empty segments kept for the next units: one being filled while another is committed.
const SPARE_MAX: usize = 2;

/// Whole units, at most one batch of them.
pub(super) struct Segment<P> {
    pub(super) writes: Vec<Write>,
    pub(super) promises: Vec<P>,
    /// Some promise needs these writes on disk.
    pub(super) sync: bool,
    /// Some unit of nothing but counters asked for a sync, so they may not wait for a later batch.
    pub(super) sync_of_states: bool,
    /// Some unit without any write asked for a sync: of everything before it.
    pub(super) barrier: bool,
    pub(super) bytes: usize,
    puts: bool,
    forgets: bool,
}

impl<P> Segment<P> {
    fn new() -> Self {
        Self {
            writes: Vec::new(),
            promises: Vec::new(),
            sync: false,
            sync_of_states: false,
            barrier: false,
            bytes: 0,
            puts: false,
            forgets: false,
        }
    }

    /// Whether a put and its forget may both be in it.
    pub(super) fn may_cancel(&self) -> bool {
        self.puts && self.forgets
    }

    const fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.promises.is_empty()
    }

    fn has_room_for(&self, unit: &Measure) -> bool {
        // A unit is never split, so an empty segment takes one of any size.
        self.is_empty()
            || (self.bytes.saturating_add(unit.bytes) <= BATCH_BYTES_MAX
                && self.writes.len().saturating_add(unit.rows) <= BATCH_ROWS_MAX)
    }

    fn append(&mut self, unit: &Measure, writes: &mut Vec<Write>, promises: &mut Vec<P>) {
        self.writes.append(writes);
        self.promises.append(promises);
        self.sync |= unit.sync;
        self.barrier |= unit.sync && unit.rows == 0;
        self.sync_of_states |= unit.sync && unit.rows > 0 && unit.only_states;
        self.puts |= unit.puts;
        self.forgets |= unit.forgets;
        self.bytes += unit.bytes;
    }

    fn clear(&mut self) {
        self.writes.clear();
        self.promises.clear();
        self.sync = false;
        self.sync_of_states = false;
        self.barrier = false;
        self.puts = false;
        self.forgets = false;
        self.bytes = 0;
    }
}

/// What a unit is made of, found before the lock is taken.
struct Measure {
    bytes: usize,
    rows: usize,
    sync: bool,
    puts: bool,
    forgets: bool,
    only_states: bool,
}

impl Measure {
    fn of<P>(writes: &[Write], promises: &[P], sync: bool) -> Self {
        let mut unit = Self {
            bytes: size_of_val(writes) + size_of_val(promises),
            rows: writes.len(),
            sync,
            puts: false,
            forgets: false,
            only_states: true,
        };
        for write in writes {
            match write {
                Write::Put { message, .. } => {
                    unit.puts = true;
                    unit.only_states = false;
                    unit.bytes += message.memory_bytes();
                }
                Write::Forget { .. } => {
                    unit.forgets = true;
                    unit.only_states = false;
                }
                Write::ForgetRange { .. }
                | Write::Attempts { .. }
                | Write::ForgetAttempts { .. }
                | Write::Meta(_) => unit.only_states = false,
                Write::State { .. } => {}
            }
        }
        unit
    }
}

/// What the committer is to do next.
pub(super) enum Next<P> {
    Commit(Segment<P>),
    /// The deadline passed.
    Tidy,
    /// Everything was taken, and the end was ordered.
    Stop,
    /// The end was ordered, and what waits is not wanted.
    Abandon,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    GoOn,
    Stop,
    Abandon,
}

pub(super) struct Inbox<P> {
    state: Mutex<State<P>>,
    arrived: Condvar,
    /// Of all units there ever were; what lies between the two waits.
    sent_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

struct State<P> {
    segments: VecDeque<Segment<P>>,
    spare: Vec<Segment<P>>,
    /// The committer waits and wants to be woken.
    asleep: bool,
    /// What is sent now belongs together: the last segment takes it whatever its size, and stays until it is all there.
    joined: bool,
    order: Order,
    /// The committer is gone; what comes is dropped.
    closed: bool,
}

impl<P> Inbox<P> {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                segments: VecDeque::new(),
                spare: Vec::new(),
                asleep: false,
                joined: false,
                order: Order::GoOn,
                closed: false,
            }),
            arrived: Condvar::new(),
            sent_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
        }
    }

    pub(super) fn send(&self, writes: &mut Vec<Write>, promises: &mut Vec<P>, sync: bool) {
        if writes.is_empty() && promises.is_empty() {
            return;
        }
        let unit = Measure::of(writes, promises, sync);
        let wake = {
            let mut state = self.state.lock();
            if state.closed {
                false
            } else {
                // Under the lock, so that never more is written than was sent.
                self.sent_bytes
                    .fetch_add(unit.bytes as u64, Ordering::Relaxed);
                state.segment_for(&unit).append(&unit, writes, promises);
                mem::take(&mut state.asleep)
            }
        };
        // Nothing left unless the inbox was closed; then outside of the lock, because promises may do things when dropped.
        writes.clear();
        promises.clear();
        if wake {
            self.arrived.notify_one();
        }
    }

    /// From now on whatever is sent goes into one batch, until [`Self::part`]. Never called twice without it.
    pub(super) fn join(&self) {
        let mut state = self.state.lock();
        // Room for a good deal more, so that batches stay about as large as they may be.
        let has_room = state.segments.back().is_some_and(|last| {
            last.bytes <= BATCH_BYTES_MAX / 2 && last.writes.len() <= BATCH_ROWS_MAX / 2
        });
        if !has_room {
            let fresh = state.spare.pop().unwrap_or_else(Segment::new);
            state.segments.push_back(fresh);
        }
        state.joined = true;
    }

    /// What belonged together is all there.
    pub(super) fn part(&self) {
        let mut state = self.state.lock();
        state.joined = false;
        if state.segments.back().is_some_and(Segment::is_empty) {
            // Nothing was sent.
            let unused = state.segments.pop_back();
            state.spare.extend(unused);
        }
        let wake = mem::take(&mut state.asleep);
        drop(state);
        if wake {
            self.arrived.notify_one();
        }
    }

    pub(super) fn pending_bytes(&self) -> usize {
        // Written first: it must not overtake what was sent.
        let written = self.written_bytes();
        usize::try_from(self.sent_bytes().saturating_sub(written)).unwrap_or(usize::MAX)
    }

    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Acquire)
    }

    pub(super) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Acquire)
    }

    /// Waits for something to do, until the deadline if there is one.
    pub(super) fn next(&self, deadline: Option<Instant>) -> Next<P> {
        let mut state = self.state.lock();
        loop {
            if state.order == Order::Abandon {
                return Next::Abandon;
            }
            let kept = usize::from(state.joined);
            if state.segments.len() > kept
                && let Some(segment) = state.segments.pop_front()
            {
                return Next::Commit(segment);
            }
            if state.order == Order::Stop && !state.joined {
                return Next::Stop;
            }
            state.asleep = true;
            match deadline {
                None => self.arrived.wait(&mut state),
                Some(deadline) => {
                    if self.arrived.wait_until(&mut state, deadline).timed_out()
                        && state.segments.len() <= usize::from(state.joined)
                        && state.order == Order::GoOn
                    {
                        state.asleep = false;
                        return Next::Tidy;
                    }
                }
            }
        }
    }

    /// Waits without taking anything; says whether the end was ordered.
    pub(super) fn pause(&self, duration: Duration) -> bool {
        let deadline = Instant::now() + duration;
        let mut state = self.state.lock();
        while state.order == Order::GoOn {
            if self.arrived.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        state.order != Order::GoOn
    }

    /// Takes a committed segment back.
    pub(super) fn recycle(&self, mut segment: Segment<P>) {
        let bytes = segment.bytes;
        // Outside of the lock: the last reference to many messages goes away here.
        segment.clear();
        self.written_bytes
            .fetch_add(bytes as u64, Ordering::Release);
        let mut state = self.state.lock();
        if state.spare.len() < SPARE_MAX {
            state.spare.push(segment);
        }
    }

    /// Gives the memory of empty segments back.
    pub(super) fn shrink(&self) {
        let spare = mem::take(&mut self.state.lock().spare);
        drop(spare);
    }

    pub(super) fn order_stop(&self) {
        self.order(Order::Stop);
    }

    pub(super) fn order_abandon(&self) {
        self.order(Order::Abandon);
    }

    /// Whether the end was ordered.
    pub(super) fn is_told_to_end(&self) -> bool {
        self.state.lock().order != Order::GoOn
    }

    /// From now on everything that is sent is dropped, and so is what waits.
    pub(super) fn close(&self) {
        let segments = {
            let mut state = self.state.lock();
            state.closed = true;
            mem::take(&mut state.segments)
        };
        drop(segments);
    }

    fn order(&self, order: Order) {
        let mut state = self.state.lock();
        state.order = order;
        state.asleep = false;
        drop(state);
        self.arrived.notify_one();
    }
}

impl<P> State<P> {
    fn segment_for(&mut self, unit: &Measure) -> &mut Segment<P> {
        let joined = self.joined;
        if !self
            .segments
            .back()
            .is_some_and(|last| joined || last.has_room_for(unit))
        {
            let fresh = self.spare.pop().unwrap_or_else(Segment::new);
            self.segments.push_back(fresh);
        }
        self.segments
            .back_mut()
            .expect("one was pushed if there was none")
    }
}
