//! The least that can be between a producer and a consumer: frames in, the same frames out.
//!
//! One thread per connection reads, walks the frames and writes each message to the consumer of the queue that its routing
//! key names, a batch per read. There are no queues, no exchanges and no acknowledgements: what nobody consumes is dropped,
//! and confirms are sent as soon as the message has been read.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use bytes::{BufMut, Bytes, BytesMut};
use leveret_wire::{
    ChannelId, DeliveryTag, FRAME_END, FRAME_OVERHEAD, FrameKind, LongString, Method, basic,
    channel, confirm, connection, put_deliver, put_frame_header, put_method, queue, tx,
};

use crate::client::decode;
use crate::error::BenchError;
use crate::frame_buffer::{FrameBuffer, Received};

const FRAME_MAX: u32 = 131_072;

/// Serves until the process ends.
pub(crate) fn serve(listener: &TcpListener) -> io::Result<()> {
    let echo = Arc::new(Echo::default());
    for socket in listener.incoming() {
        let socket = socket?;
        let echo = Arc::clone(&echo);
        thread::spawn(move || {
            // A client that goes away ends its own connection only.
            let _ = Connection::new(socket, echo).and_then(Connection::run);
        });
    }
    Ok(())
}

/// Who consumes from which queue.
#[derive(Debug, Default)]
struct Echo {
    consumers: Mutex<HashMap<Bytes, Arc<Outlet>>>,
}

/// The connection of a consumer, as producers see it.
#[derive(Debug)]
struct Outlet {
    socket: Mutex<TcpStream>,
    channel: ChannelId,
    consumer_tag: Bytes,
    next_tag: AtomicU64,
}

/// Messages on their way to one queue. Whole messages only leave: those of several producers must not be mixed.
#[derive(Debug, Default)]
struct Outgoing {
    outlet: Option<Arc<Outlet>>,
    bytes: BytesMut,
    whole: usize,
}

#[derive(Debug)]
struct Connection {
    socket: TcpStream,
    inbox: FrameBuffer,
    replies: BytesMut,
    echo: Arc<Echo>,
    outgoing: HashMap<Bytes, Outgoing>,
    /// The queue of the message that is being received, and how much of its body is missing.
    current: Bytes,
    body_left: u64,
    published: u64,
    confirmed: Option<u64>,
}

impl Connection {
    fn new(socket: TcpStream, echo: Arc<Echo>) -> Result<Self, BenchError> {
        socket.set_nodelay(true)?;
        Ok(Self {
            socket,
            inbox: FrameBuffer::new(FRAME_MAX as usize - FRAME_OVERHEAD),
            replies: BytesMut::new(),
            echo,
            outgoing: HashMap::new(),
            current: Bytes::new(),
            body_left: 0,
            published: 0,
            confirmed: None,
        })
    }

    fn run(mut self) -> Result<(), BenchError> {
        let mut greeting = [0; 8];
        self.socket.read_exact(&mut greeting)?;
        let start = connection::Start {
            version_minor: 9,
            mechanisms: LongString::from_static("PLAIN"),
            locales: LongString::from_static("en_US"),
            ..connection::Start::default()
        };
        put_method(&mut self.replies, ChannelId::CONNECTION, &start.into());
        loop {
            self.flush()?;
            if self.inbox.fill(&mut self.socket)? == 0 {
                return Ok(());
            }
            self.serve_frames()?;
        }
    }

    fn serve_frames(&mut self) -> Result<(), BenchError> {
        // Taken out, so that a frame can be looked at while the rest of the connection changes.
        let mut inbox = std::mem::replace(&mut self.inbox, FrameBuffer::empty());
        let result = self.serve_all(&mut inbox);
        self.inbox = inbox;
        result
    }

    fn serve_all(&mut self, inbox: &mut FrameBuffer) -> Result<(), BenchError> {
        while let Some(frame) = inbox.next_frame()? {
            match frame.kind {
                FrameKind::Method => match publish_key(frame.payload) {
                    Some(key) => self.begin_message(key),
                    None => self.method(&frame)?,
                },
                FrameKind::Header | FrameKind::Body => self.content(&frame),
                FrameKind::Heartbeat => {}
            }
        }
        if let Some(confirmed) = &mut self.confirmed
            && self.published > *confirmed
        {
            *confirmed = self.published;
            let ack = basic::Ack {
                delivery_tag: DeliveryTag::new(self.published),
                multiple: true,
            };
            put_method(&mut self.replies, ChannelId::new(1), &ack.into());
        }
        Ok(())
    }

    fn begin_message(&mut self, key: &[u8]) {
        if self.current != key {
            self.current = Bytes::copy_from_slice(key);
        }
        let echo = &self.echo;
        let outgoing = self.outgoing.entry(self.current.clone()).or_default();
        if outgoing.outlet.is_none() {
            outgoing.outlet = echo.lock().get(key).cloned();
        }
        if let Some(outlet) = &outgoing.outlet {
            let tag = DeliveryTag::new(outlet.next_tag.fetch_add(1, Relaxed));
            put_deliver(
                &mut outgoing.bytes,
                outlet.channel,
                &outlet.consumer_tag,
                tag,
                false,
                b"",
                key,
            );
        }
    }

    fn content(&mut self, frame: &Received<'_>) {
        let outgoing = self.outgoing.entry(self.current.clone()).or_default();
        if let Some(outlet) = &outgoing.outlet {
            let out = &mut outgoing.bytes;
            put_frame_header(out, frame.kind, outlet.channel, frame.payload.len());
            out.put_slice(frame.payload);
            out.put_u8(FRAME_END);
        }
        if frame.kind == FrameKind::Header {
            let size = frame.payload.get(4..).and_then(|rest| rest.first_chunk());
            self.body_left = size.map_or(0, |&size| u64::from_be_bytes(size));
        } else {
            self.body_left = self.body_left.saturating_sub(frame.payload.len() as u64);
        }
        if self.body_left == 0 {
            outgoing.whole = outgoing.bytes.len();
            self.published += 1;
        }
    }

    fn method(&mut self, frame: &Received<'_>) -> Result<(), BenchError> {
        let answer: Method = match decode(frame.payload)? {
            Method::Connection(connection::Connection::StartOk(_)) => connection::Tune {
                channel_max: 2047,
                frame_max: FRAME_MAX,
                heartbeat: 0,
            }
            .into(),
            Method::Connection(connection::Connection::Open(_)) => {
                connection::OpenOk::default().into()
            }
            Method::Connection(connection::Connection::Close(_)) => {
                connection::CloseOk::default().into()
            }
            Method::Channel(channel::Channel::Open(_)) => channel::OpenOk::default().into(),
            Method::Channel(channel::Channel::Close(_)) => channel::CloseOk::default().into(),
            Method::Queue(queue::Queue::Declare(declare)) => queue::DeclareOk {
                queue: declare.queue,
                ..queue::DeclareOk::default()
            }
            .into(),
            Method::Queue(queue::Queue::Delete(delete)) => {
                self.echo.lock().remove(delete.queue.as_bytes());
                queue::DeleteOk::default().into()
            }
            Method::Basic(basic::Basic::Qos(_)) => basic::QosOk::default().into(),
            Method::Basic(basic::Basic::Consume(consume)) => {
                self.register(&consume, frame.channel)?;
                return Ok(());
            }
            Method::Confirm(confirm::Confirm::Select(_)) => {
                self.confirmed = Some(0);
                confirm::SelectOk::default().into()
            }
            Method::Tx(tx::Tx::Select(_)) => tx::SelectOk::default().into(),
            Method::Tx(tx::Tx::Commit(_)) => tx::CommitOk::default().into(),
            // Acknowledgements above all.
            _ => return Ok(()),
        };
        put_method(&mut self.replies, frame.channel, &answer);
        Ok(())
    }

    fn register(&mut self, consume: &basic::Consume, channel: ChannelId) -> io::Result<()> {
        let outlet = Outlet {
            socket: Mutex::new(self.socket.try_clone()?),
            channel,
            consumer_tag: consume.consumer_tag.clone().into_bytes(),
            next_tag: AtomicU64::new(1),
        };
        let queue = consume.queue.clone().into_bytes();
        self.echo.lock().insert(queue, Arc::new(outlet));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        for outgoing in self.outgoing.values_mut() {
            if let Some(outlet) = &outgoing.outlet
                && outgoing.whole > 0
            {
                let whole = outgoing.bytes.split_to(outgoing.whole);
                outgoing.whole = 0;
                let mut socket = outlet.socket.lock().unwrap_or_else(PoisonError::into_inner);
                socket.write_all(&whole)?;
            }
        }
        self.socket.write_all(&self.replies)?;
        self.replies.clear();
        Ok(())
    }
}

impl Echo {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Bytes, Arc<Outlet>>> {
        self.consumers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The routing key, if the payload is a basic.publish.
fn publish_key(payload: &[u8]) -> Option<&[u8]> {
    let (&[c1, c0, m1, m0, _, _], rest) = payload.split_first_chunk::<6>()?;
    let ids = (u16::from_be_bytes([c1, c0]), u16::from_be_bytes([m1, m0]));
    if ids != (basic::Basic::CLASS_ID, basic::Publish::METHOD_ID) {
        return None;
    }
    let (&exchange_len, rest) = rest.split_first()?;
    let (&key_len, rest) = rest.get(usize::from(exchange_len)..)?.split_first()?;
    rest.get(..usize::from(key_len))
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use leveret_wire::{Method, ShortString, basic};

    use super::publish_key;

    #[test]
    fn the_routing_key_is_read_in_place() {
        let publish = basic::Publish {
            exchange: ShortString::from_static("orders"),
            routing_key: ShortString::from_static("eu"),
            ..basic::Publish::default()
        };
        let mut payload = BytesMut::new();
        Method::from(publish).encode(&mut payload);
        assert_eq!(publish_key(&payload), Some(&b"eu"[..]));
        assert_eq!(publish_key(&[0, 60, 0, 80, 0, 0, 0]), None);
        assert_eq!(publish_key(&[0, 60, 0, 40, 0, 0, 9]), None);
    }
}
