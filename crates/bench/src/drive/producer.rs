//! One connection that publishes: when the next message goes out, and its bytes.

use bytes::BytesMut;
use leveret_wire::{
    BasicProperties, Method, basic, put_body_frames, put_content_header, put_method, tx,
};

use super::confirms::Confirms;
use crate::board::Board;
use crate::client::{CHANNEL, decode, short};
use crate::error::BenchError;
use crate::frame_buffer::Received;
use crate::latency::Latency;
use crate::load::{Load, STAMP_LEN, SizeMix, portion, share};
use crate::schedule::Schedule;
use crate::topology::Address;

/// How much is encoded before it is written: many small messages per write, without outrunning the socket.
const BATCH_BYTES: usize = 64 * 1024;

/// How soon to look again when consumers of other threads must catch up; those of this thread wake it.
const CATCH_UP_NANOS: u64 = 100_000;

/// Where the body size stands in a content header frame: behind envelope, class and weight.
const BODY_SIZE_AT: usize = 7 + 2 + 2;

/// When a producer has something to do again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It stopped at the end of a batch.
    Now,
    At(u64),
    /// When the broker has answered.
    Answer,
}

/// What the broker is asked for beside taking messages.
#[derive(Debug)]
enum Promise {
    None,
    Confirms(Confirms),
    Commits {
        every: u64,
        /// Published since the last commit.
        open: u64,
        is_waiting: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Publishing,
    /// Everything is sent; a last question shows when the broker has read all of it.
    Syncing,
    Finished,
}

/// Method and content header of one address, ready to be copied.
#[derive(Debug)]
struct Template {
    bytes: Vec<u8>,
    header_at: usize,
}

/// Publishes by plan, within the limits of confirms, transactions and what consumers have taken.
#[derive(Debug)]
pub(crate) struct Producer {
    templates: Vec<Template>,
    size: SizeMix,
    is_one_size: bool,
    body: Vec<u8>,
    frame_max: usize,
    number: u64,
    schedule: Option<Schedule>,
    /// How many messages this producer sends while it is measured, if they are counted.
    share: Option<u64>,
    left: Option<u64>,
    in_flight_max: Option<u64>,
    copies: u64,
    /// All connections of the run are driven by one thread.
    is_alone: bool,
    promise: Promise,
    phase: Phase,
    pub(crate) confirm_latency: Latency,
}

impl Producer {
    /// Producer `index` of a load; a plan begins at `start_nanos`.
    pub(crate) fn new(
        load: &Load,
        addresses: &[Address],
        index: usize,
        frame_max: usize,
        start_nanos: u64,
    ) -> Result<Self, BenchError> {
        let own = share(index, load.producers, addresses.len());
        let mut templates = Vec::with_capacity(own.len());
        for priority in 0..load.priorities.unwrap_or(1) {
            for &address in &own {
                let priority = load.priorities.map(|_| priority);
                templates.push(Template::new(load, &addresses[address], priority)?);
            }
        }
        let promise = match (load.confirm_window, load.tx_every) {
            (Some(window), _) => Promise::Confirms(Confirms::new(window)),
            (None, Some(every)) => Promise::Commits {
                every,
                open: 0,
                is_waiting: false,
            },
            (None, None) => Promise::None,
        };
        let count = load.producers as u64;
        Ok(Self {
            templates,
            size: load.size.clone(),
            is_one_size: load.size.is_one(),
            body: (0..load.size.largest()).map(|at| at as u8).collect(),
            frame_max,
            number: 0,
            schedule: load
                .rate
                .map(|rate| Schedule::share(start_nanos, rate, index, load.producers)),
            share: load
                .messages
                .map(|total| portion(total, index as u64, count)),
            left: None,
            in_flight_max: load.in_flight,
            copies: load.copies(),
            is_alone: load.threads == 1,
            promise,
            phase: Phase::Publishing,
            confirm_latency: Latency::new(),
        })
    }

    /// Encodes what may go out now, up to a batch, and says when to come back.
    pub(crate) fn fill(&mut self, now: u64, out: &mut BytesMut, board: &Board) -> Next {
        if self.phase != Phase::Publishing {
            return Next::Answer;
        }
        if self.left.is_none() && board.is_measuring() {
            self.left = self.share;
        }
        if self.left == Some(0) || !board.is_publishing() {
            return self.finish(out, board);
        }
        let mut allowance = self.allowance(board);
        let mut count = 0;
        let next = loop {
            if out.len() >= BATCH_BYTES {
                break Next::Now;
            }
            if self.left == Some(0) {
                break Next::Now;
            }
            if self.is_waiting() {
                break Next::Answer;
            }
            if allowance == 0 {
                break match self.is_alone {
                    true => Next::Answer,
                    false => Next::At(now + CATCH_UP_NANOS),
                };
            }
            let stamp = match &self.schedule {
                None => now,
                Some(schedule) => {
                    let due = schedule.intended(self.number);
                    if due > now {
                        break Next::At(due);
                    }
                    due
                }
            };
            self.publish(stamp, out);
            allowance -= 1;
            count += 1;
        };
        if count > 0 {
            board.add_published(count);
        }
        next
    }

    /// Takes a frame from the broker.
    pub(crate) fn receive(
        &mut self,
        frame: &Received<'_>,
        now: u64,
        board: &Board,
    ) -> Result<(), BenchError> {
        if let Some((tag, multiple)) = confirm_in(frame) {
            self.settle(tag, multiple, now, board);
            return Ok(());
        }
        if frame.kind != leveret_wire::FrameKind::Method {
            return Ok(());
        }
        match decode(frame.payload)? {
            Method::Basic(basic::Basic::Nack(nack)) => {
                let before = self.missing();
                self.settle(nack.delivery_tag.get(), nack.multiple, now, board);
                board.add_nacked((before - self.missing()) as u64);
            }
            Method::Basic(basic::Basic::Return(_)) => board.add_returned(1),
            Method::Basic(basic::Basic::QosOk(_)) => self.done(board),
            Method::Tx(tx::Tx::CommitOk(_)) => self.committed(board),
            other => {
                if let Some(error) = crate::client::closed(&other) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn publish(&mut self, stamp: u64, out: &mut BytesMut) {
        let template = &self.templates[(self.number % self.templates.len() as u64) as usize];
        let size = self.size.of(self.number);
        let start = out.len();
        out.extend_from_slice(&template.bytes);
        if !self.is_one_size {
            let at = start + template.header_at + BODY_SIZE_AT;
            out[at..at + 8].copy_from_slice(&(size as u64).to_be_bytes());
        }
        if size >= STAMP_LEN {
            self.body[..STAMP_LEN].copy_from_slice(&stamp.to_be_bytes());
        }
        put_body_frames(out, CHANNEL, &self.body[..size], self.frame_max);
        self.number += 1;
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        match &mut self.promise {
            Promise::None => {}
            Promise::Confirms(confirms) => confirms.sent(stamp),
            Promise::Commits {
                every,
                open,
                is_waiting,
            } => {
                *open += 1;
                if open == every {
                    *is_waiting = true;
                    put_method(out, CHANNEL, &tx::Commit::default().into());
                }
            }
        }
    }

    fn is_waiting(&self) -> bool {
        match &self.promise {
            Promise::None => false,
            Promise::Confirms(confirms) => confirms.is_full(),
            Promise::Commits { is_waiting, .. } => *is_waiting,
        }
    }

    /// How many more messages may be on their way.
    fn allowance(&self, board: &Board) -> u64 {
        match self.in_flight_max {
            None => u64::MAX,
            Some(max) => {
                let counts = board.counts();
                let taken = counts.delivered / self.copies;
                max.saturating_sub(counts.published.saturating_sub(taken))
            }
        }
    }

    fn missing(&self) -> usize {
        match &self.promise {
            Promise::Confirms(confirms) => confirms.missing(),
            Promise::None | Promise::Commits { .. } => 0,
        }
    }

    fn settle(&mut self, tag: u64, multiple: bool, now: u64, board: &Board) {
        let Promise::Confirms(confirms) = &mut self.promise else {
            return;
        };
        let measured = board.measured_nanos();
        let latency = &mut self.confirm_latency;
        let mut count = 0;
        confirms.settle(tag, multiple, |sent| {
            count += 1;
            if measured.contains(&sent) {
                latency.record(now.saturating_sub(sent));
            }
        });
        board.add_confirmed(count);
    }

    fn committed(&mut self, board: &Board) {
        if let Promise::Commits {
            open, is_waiting, ..
        } = &mut self.promise
        {
            board.add_confirmed(*open);
            *open = 0;
            *is_waiting = false;
        }
    }

    /// Nothing more is published: waits for what was promised, then asks one last question.
    fn finish(&mut self, out: &mut BytesMut, board: &Board) -> Next {
        match &mut self.promise {
            Promise::Confirms(confirms) if confirms.missing() > 0 => return Next::Answer,
            Promise::Commits {
                is_waiting: true, ..
            } => return Next::Answer,
            Promise::Commits {
                open, is_waiting, ..
            } if *open > 0 => {
                *is_waiting = true;
                put_method(out, CHANNEL, &tx::Commit::default().into());
                return Next::Answer;
            }
            Promise::Confirms(_) => {
                self.done(board);
                return Next::Answer;
            }
            Promise::None | Promise::Commits { .. } => {}
        }
        self.phase = Phase::Syncing;
        put_method(out, CHANNEL, &basic::Qos::default().into());
        Next::Answer
    }

    fn done(&mut self, board: &Board) {
        if self.phase != Phase::Finished {
            self.phase = Phase::Finished;
            board.add_finished_producer();
        }
    }
}

impl Template {
    fn new(load: &Load, address: &Address, priority: Option<u8>) -> Result<Self, BenchError> {
        let publish = basic::Publish {
            exchange: short(&address.exchange)?,
            routing_key: short(&address.routing_key)?,
            mandatory: load.mandatory,
            ..basic::Publish::default()
        };
        let properties = BasicProperties {
            delivery_mode: load.persistent.then_some(2),
            priority,
            headers: address.headers.clone(),
            ..BasicProperties::default()
        };
        let mut bytes = BytesMut::new();
        put_method(&mut bytes, CHANNEL, &publish.into());
        let header_at = bytes.len();
        let size = load.size.largest() as u64;
        put_content_header(&mut bytes, CHANNEL, size, properties.encode().as_bytes());
        Ok(Self {
            bytes: bytes.to_vec(),
            header_at,
        })
    }
}

/// The tag of a basic.ack and whether it is one of many, read in place: there may be one for every message.
fn confirm_in(frame: &Received<'_>) -> Option<(u64, bool)> {
    let (&[c1, c0, m1, m0], arguments) = frame.payload.split_first_chunk::<4>()?;
    let ids = (u16::from_be_bytes([c1, c0]), u16::from_be_bytes([m1, m0]));
    if frame.kind != leveret_wire::FrameKind::Method
        || ids != (basic::Basic::CLASS_ID, basic::Ack::METHOD_ID)
    {
        return None;
    }
    let (&tag, bits) = arguments.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(tag), bits.first()? & 1 != 0))
}
