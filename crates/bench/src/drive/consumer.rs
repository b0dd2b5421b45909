//! One connection that consumes: counts deliveries, reads their time stamps, acknowledges.

use std::collections::VecDeque;

use bytes::BytesMut;
use leveret_wire::{DeliveryTag, FrameKind, Method, ShortString, basic, put_method};

use crate::board::Board;
use crate::client::{CHANNEL, closed, decode, short};
use crate::error::BenchError;
use crate::frame_buffer::Received;
use crate::latency::Latency;
use crate::load::{Load, STAMP_LEN};

/// How long a poller waits when the queue was empty.
const EMPTY_PAUSE_NANOS: u64 = 1_000_000;

/// What comes next on the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    Method,
    Header { tag: u64 },
    Body { tag: u64, left: u64, is_first: bool },
}

#[derive(Debug)]
struct Polling {
    queue: ShortString,
    /// When to ask again; `None` while an answer is awaited.
    ask_at_nanos: Option<u64>,
}

/// Consumes or polls.
#[derive(Debug)]
pub(crate) struct Consumer {
    expect: Expect,
    /// `None` without acknowledgements.
    ack_every: Option<u64>,
    unacked: u64,
    is_stamped: bool,
    /// Deliveries since the last report to the board.
    fresh: u64,
    polling: Option<Polling>,
    work_nanos: u64,
    /// Tags that are worked on, each with the moment when that is done; the oldest first.
    working: VecDeque<(u64, u64)>,
    pub(crate) latency: Latency,
}

impl Consumer {
    /// A consumer of a load. `queue` is the one a poller asks.
    pub(crate) fn new(load: &Load, queue: &str) -> Result<Self, BenchError> {
        let polling = match load.get {
            false => None,
            true => Some(Polling {
                queue: short(queue)?,
                ask_at_nanos: Some(0),
            }),
        };
        Ok(Self {
            expect: Expect::Method,
            ack_every: (!load.auto_ack).then_some(load.ack_every),
            unacked: 0,
            is_stamped: load.is_stamped(),
            fresh: 0,
            polling,
            work_nanos: u64::try_from(load.work().as_nanos()).unwrap_or(u64::MAX),
            working: VecDeque::new(),
            latency: Latency::new(),
        })
    }

    /// Does what is due: acknowledges after the work, asks for the next message. Says when to come back.
    pub(crate) fn advance(&mut self, now: u64, out: &mut BytesMut) -> Option<u64> {
        while let Some(&(due, tag)) = self.working.front() {
            if due > now {
                return Some(due);
            }
            self.working.pop_front();
            self.settle(tag, out);
        }
        self.poll(now, out)
    }

    fn poll(&mut self, now: u64, out: &mut BytesMut) -> Option<u64> {
        let no_ack = self.ack_every.is_none();
        let polling = self.polling.as_mut()?;
        let ask_at = polling.ask_at_nanos?;
        if ask_at > now {
            return Some(ask_at);
        }
        polling.ask_at_nanos = None;
        let get = basic::Get {
            queue: polling.queue.clone(),
            no_ack,
            ..basic::Get::default()
        };
        put_method(out, CHANNEL, &get.into());
        None
    }

    /// Takes a frame from the broker; acknowledgements go to `out`.
    pub(crate) fn receive(
        &mut self,
        frame: &Received<'_>,
        now: u64,
        out: &mut BytesMut,
        board: &Board,
    ) -> Result<(), BenchError> {
        match (self.expect, frame.kind) {
            (Expect::Method, FrameKind::Method) => self.method(frame.payload, now, board)?,
            (Expect::Header { tag }, FrameKind::Header) => {
                let size = frame.payload.get(4..).and_then(|rest| rest.first_chunk());
                let left = size.map_or(0, |&size| u64::from_be_bytes(size));
                self.expect = Expect::Body {
                    tag,
                    left,
                    is_first: true,
                };
                if left == 0 {
                    self.delivered(tag, now, out);
                }
            }
            (
                Expect::Body {
                    tag,
                    left,
                    is_first,
                },
                FrameKind::Body,
            ) => {
                if is_first && self.is_stamped {
                    self.record(frame.payload, now, board);
                }
                let left = left.saturating_sub(frame.payload.len() as u64);
                self.expect = Expect::Body {
                    tag,
                    left,
                    is_first: false,
                };
                if left == 0 {
                    self.delivered(tag, now, out);
                }
            }
            // Heartbeats, and content of methods that are not looked at.
            _ => {}
        }
        Ok(())
    }

    /// Tells the board of what came with one read.
    pub(crate) fn report(&mut self, now: u64, board: &Board) {
        if self.fresh > 0 {
            board.add_delivered(self.fresh, now);
            self.fresh = 0;
        }
    }

    /// Acknowledges what is left at the end.
    pub(crate) fn finish(&mut self, out: &mut BytesMut) {
        if self.unacked > 0 {
            put_ack(out, 0, true);
            self.unacked = 0;
        }
    }

    fn method(&mut self, payload: &[u8], now: u64, board: &Board) -> Result<(), BenchError> {
        if let Some(tag) = delivery_in(payload) {
            self.expect = Expect::Header { tag };
            return Ok(());
        }
        match decode(payload)? {
            Method::Basic(basic::Basic::GetOk(got)) => {
                let tag = got.delivery_tag.get();
                self.expect = Expect::Header { tag };
            }
            Method::Basic(basic::Basic::GetEmpty(_)) => {
                board.add_empty_get();
                if let Some(polling) = &mut self.polling {
                    polling.ask_at_nanos = Some(now + EMPTY_PAUSE_NANOS);
                }
            }
            Method::Basic(basic::Basic::Cancel(_)) => {
                return Err(BenchError::Unexpected {
                    asked: "basic.consume",
                    got: "basic.cancel",
                });
            }
            other => {
                if let Some(error) = closed(&other) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn record(&mut self, body: &[u8], now: u64, board: &Board) {
        if let Some(&stamp) = body.first_chunk::<STAMP_LEN>() {
            let sent = u64::from_be_bytes(stamp);
            if board.measured_nanos().contains(&sent) {
                self.latency.record(now.saturating_sub(sent));
            }
        }
    }

    fn delivered(&mut self, tag: u64, now: u64, out: &mut BytesMut) {
        self.expect = Expect::Method;
        self.fresh += 1;
        if self.work_nanos == 0 {
            self.settle(tag, out);
        } else {
            self.working
                .push_back((now.saturating_add(self.work_nanos), tag));
        }
        if let Some(polling) = &mut self.polling {
            polling.ask_at_nanos = Some(0);
        }
    }

    fn settle(&mut self, tag: u64, out: &mut BytesMut) {
        let Some(every) = self.ack_every else {
            return;
        };
        self.unacked += 1;
        if self.unacked == every {
            put_ack(out, tag, every > 1);
            self.unacked = 0;
        }
    }
}

fn put_ack(out: &mut BytesMut, tag: u64, multiple: bool) {
    let ack = basic::Ack {
        delivery_tag: DeliveryTag::new(tag),
        multiple,
    };
    put_method(out, CHANNEL, &ack.into());
}

/// The tag of a basic.deliver, read in place: there is one for every message.
fn delivery_in(payload: &[u8]) -> Option<u64> {
    let (&[c1, c0, m1, m0], arguments) = payload.split_first_chunk::<4>()?;
    let ids = (u16::from_be_bytes([c1, c0]), u16::from_be_bytes([m1, m0]));
    if ids != (basic::Basic::CLASS_ID, basic::Deliver::METHOD_ID) {
        return None;
    }
    let (&consumer_tag_len, rest) = arguments.split_first()?;
    let tag = rest.get(usize::from(consumer_tag_len)..)?.first_chunk()?;
    Some(u64::from_be_bytes(*tag))
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use leveret_wire::{ChannelId, DeliveryTag, put_deliver};

    use super::delivery_in;

    #[test]
    fn the_tag_of_a_delivery_is_read_in_place() {
        let mut frame = BytesMut::new();
        let tag = DeliveryTag::new(0x0102_0304_0506_0708);
        put_deliver(
            &mut frame,
            ChannelId::new(1),
            b"consumer",
            tag,
            true,
            b"x",
            b"key",
        );
        assert_eq!(delivery_in(&frame[7..]), Some(tag.get()));
        assert_eq!(delivery_in(&[0, 60, 0, 60, 200]), None);
        assert_eq!(delivery_in(&[0, 60, 0, 80, 0]), None);
    }
}
