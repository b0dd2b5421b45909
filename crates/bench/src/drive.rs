//! A thread that drives many connections: publishes what is due, reads what arrived, sleeps in between.
//!
//! ```text
//!   producers fill their outboxes ─▶ one write each ─▶ wait ─▶ one read per readable connection ─▶ acks, one write
//! ```
//!
//! Everything is batched: a write carries many publishes, a read many deliveries, the acks of a read leave together.

use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use bytes::{Buf, BytesMut};
use leveret_wire::{ChannelId, ReplyCode, connection, put_method};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

pub(crate) mod confirms;
pub(crate) mod consumer;
pub(crate) mod producer;

use crate::board::Board;
use crate::clock::now_nanos;
use crate::error::BenchError;
use crate::frame_buffer::FrameBuffer;
use crate::latency::Latency;
use consumer::Consumer;
use producer::{Next, Producer};

/// How long a thread without anything to do sleeps before it asks the board whether to go on.
const IDLE_NANOS: u64 = 10_000_000;

/// Connections served per wait; more are served by the next one.
const EVENTS_MAX: usize = 256;

/// What a connection is there for.
#[derive(Debug)]
pub(crate) enum Role {
    Producer(Box<Producer>),
    Consumer(Box<Consumer>),
}

/// A connection whose setup is over.
#[derive(Debug)]
pub(crate) struct Link {
    socket: TcpStream,
    inbox: FrameBuffer,
    outbox: BytesMut,
    is_blocked: bool,
    role: Role,
}

/// What a thread has seen.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) delivery: Latency,
    pub(crate) confirm: Latency,
}

impl Link {
    pub(crate) fn new(
        (socket, inbox): (TcpStream, FrameBuffer),
        role: Role,
    ) -> Result<Self, BenchError> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            inbox,
            outbox: BytesMut::new(),
            is_blocked: false,
            role,
        })
    }

    /// Sends what is due. Says when to come back; `None` is when the broker has sent something, or takes something again.
    fn advance(&mut self, now: u64, board: &Board) -> io::Result<Option<u64>> {
        if self.is_blocked {
            return Ok(None);
        }
        let next = match &mut self.role {
            Role::Producer(producer) => match producer.fill(now, &mut self.outbox, board) {
                Next::Now => Some(now),
                Next::At(nanos) => Some(nanos),
                Next::Answer => None,
            },
            Role::Consumer(consumer) => consumer.advance(now, &mut self.outbox),
        };
        self.flush()?;
        Ok(next.filter(|_| !self.is_blocked))
    }

    /// Reads once and serves every frame that is complete.
    fn receive(&mut self, board: &Board) -> Result<(), BenchError> {
        match self.inbox.fill(&mut self.socket) {
            Ok(0) => return Err(BenchError::EndOfStream),
            Ok(_) => {}
            Err(error) if is_transient(&error) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        self.serve(board)
    }

    fn serve(&mut self, board: &Board) -> Result<(), BenchError> {
        let now = now_nanos();
        while let Some(frame) = self.inbox.next_frame()? {
            match &mut self.role {
                Role::Producer(producer) => producer.receive(&frame, now, board)?,
                Role::Consumer(consumer) => {
                    consumer.receive(&frame, now, &mut self.outbox, board)?;
                }
            }
        }
        if let Role::Consumer(consumer) = &mut self.role {
            consumer.report(now, board);
        }
        self.flush()?;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.outbox.is_empty() {
            match self.socket.write(&self.outbox) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => self.outbox.advance(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.is_blocked = false;
        Ok(())
    }

    /// Acknowledges what is left and says goodbye, so that the broker logs no lost connections.
    fn finish(&mut self) {
        if let Role::Consumer(consumer) = &mut self.role {
            consumer.finish(&mut self.outbox);
        }
        let close = connection::Close {
            reply_code: ReplyCode::Success.code(),
            ..connection::Close::default()
        };
        put_method(&mut self.outbox, ChannelId::CONNECTION, &close.into());
        // The broker may be gone, and nobody waits for this.
        let _ = self.flush();
    }
}

/// Drives the links until the board says stop.
pub(crate) fn drive(mut links: Vec<Link>, board: &Board) -> Result<Seen, BenchError> {
    // The default of 50 µs would be added to every latency at a steady rate. Where this is not allowed, it is.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let result = drive_all(&mut links, board);
    if result.is_err() {
        board.stop();
    }
    result?;
    let mut seen = Seen {
        delivery: Latency::new(),
        confirm: Latency::new(),
    };
    for link in &mut links {
        link.finish();
        match &link.role {
            Role::Producer(producer) => seen.confirm.merge(&producer.confirm_latency),
            Role::Consumer(consumer) => seen.delivery.merge(&consumer.latency),
        }
    }
    Ok(seen)
}

fn drive_all(links: &mut [Link], board: &Board) -> Result<(), BenchError> {
    let mut waiter = Waiter::new(links)?;
    // What arrived together with the answers to the setup.
    for link in links.iter_mut() {
        link.serve(board)?;
    }
    while board.is_running() {
        let now = now_nanos();
        let mut wake = now + IDLE_NANOS;
        for (index, link) in links.iter_mut().enumerate() {
            if let Some(next) = link.advance(now, board)? {
                wake = wake.min(next);
            }
            waiter.watch(index, link)?;
        }
        for (index, flags) in waiter.wait(wake.saturating_sub(now))? {
            let link = &mut links[index];
            if flags.contains(EventFlags::OUT) {
                link.flush()?;
            }
            if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                link.receive(board)?;
            }
        }
    }
    Ok(())
}

/// Knows which links are readable, or writable again after they were blocked.
struct Waiter {
    epoll: OwnedFd,
    events: Vec<Event>,
    is_watched_for_writing: Vec<bool>,
}

impl Waiter {
    fn new(links: &[Link]) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for (index, link) in links.iter().enumerate() {
            let data = EventData::new_u64(index as u64);
            epoll::add(&epoll, &link.socket, data, EventFlags::IN)?;
        }
        Ok(Self {
            epoll,
            events: Vec::with_capacity(EVENTS_MAX),
            is_watched_for_writing: vec![false; links.len()],
        })
    }

    fn watch(&mut self, index: usize, link: &Link) -> io::Result<()> {
        let is_watched = &mut self.is_watched_for_writing[index];
        if *is_watched != link.is_blocked {
            *is_watched = link.is_blocked;
            let mut flags = EventFlags::IN;
            flags.set(EventFlags::OUT, link.is_blocked);
            let data = EventData::new_u64(index as u64);
            epoll::modify(&self.epoll, &link.socket, data, flags)?;
        }
        Ok(())
    }

    fn wait(
        &mut self,
        nanos: u64,
    ) -> io::Result<impl Iterator<Item = (usize, EventFlags)> + use<'_>> {
        let timeout = Timespec {
            tv_sec: (nanos / 1_000_000_000).cast_signed(),
            tv_nsec: (nanos % 1_000_000_000).cast_signed() as _,
        };
        self.events.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, spare, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let events = self.events.iter();
        Ok(events.map(|event| (event.data.u64() as usize, event.flags)))
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
