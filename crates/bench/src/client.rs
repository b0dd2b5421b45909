//! A client that asks and waits: logging in, declaring, and whatever is not the hot path.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use leveret_wire::frame::FRAME_MIN_SIZE;
use leveret_wire::{
    ChannelId, FRAME_OVERHEAD, FieldTable, FieldValue, FrameKind, LongString, Method,
    PROTOCOL_HEADER, ReplyCode, ShortString, channel, connection, put_method,
};

use crate::broker_url::BrokerUrl;
use crate::error::BenchError;
use crate::frame_buffer::FrameBuffer;

/// The channel of a connection that has only one.
pub(crate) const CHANNEL: ChannelId = ChannelId::new(1);

/// The largest frame the bench agrees to, as most clients do.
const FRAME_MAX: u32 = 131_072;

/// As many as the bench can ask for without an answer before it reads one: neither side's socket buffer gets full.
const PIPELINE_MAX: usize = 200;

/// How long an answer may take. Declaring at a broker with many queues is slow, but not this slow.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection that is open, and the frames that arrived on it.
#[derive(Debug)]
pub(crate) struct Client {
    socket: TcpStream,
    inbox: FrameBuffer,
    outbox: BytesMut,
    frame_max: usize,
}

/// A text as a name on the wire.
pub(crate) fn short(text: &str) -> Result<ShortString, BenchError> {
    ShortString::try_from(text).map_err(|_| BenchError::Name(text.to_owned()))
}

impl Client {
    /// Connects, logs in and opens the vhost. Without heartbeats: the bench never reads a clock for them.
    pub(crate) fn connect(url: &BrokerUrl) -> Result<Self, BenchError> {
        let socket = TcpStream::connect((url.host.as_str(), url.port)).map_err(|source| {
            BenchError::Connect {
                address: url.to_string(),
                source,
            }
        })?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let mut client = Self {
            socket,
            inbox: FrameBuffer::new(FRAME_MIN_SIZE),
            outbox: BytesMut::new(),
            frame_max: FRAME_MIN_SIZE,
        };
        client.log_in(url)?;
        Ok(client)
    }

    /// Connects and opens [`CHANNEL`].
    pub(crate) fn with_channel(url: &BrokerUrl) -> Result<Self, BenchError> {
        let mut client = Self::connect(url)?;
        client.open_channel(CHANNEL)?;
        Ok(client)
    }

    pub(crate) fn open_channel(&mut self, channel: ChannelId) -> Result<(), BenchError> {
        self.call(channel, channel::Open::default()).map(drop)
    }

    pub(crate) fn close_channel(&mut self, channel: ChannelId) -> Result<(), BenchError> {
        let close = channel::Close {
            reply_code: ReplyCode::Success.code(),
            ..channel::Close::default()
        };
        self.call(channel, close).map(drop)
    }

    /// Closes the connection and waits for the broker's agreement: what was published before has been taken in.
    pub(crate) fn close(mut self) -> Result<(), BenchError> {
        let close = connection::Close {
            reply_code: ReplyCode::Success.code(),
            ..connection::Close::default()
        };
        self.call(ChannelId::CONNECTION, close).map(drop)
    }

    /// Asks and waits for the answer.
    pub(crate) fn call(
        &mut self,
        channel: ChannelId,
        method: impl Into<Method>,
    ) -> Result<Method, BenchError> {
        let method = method.into();
        let asked = method.name();
        put_method(&mut self.outbox, channel, &method);
        self.flush()?;
        let answer = self.wait()?;
        check_answer(asked, &answer)?;
        Ok(answer)
    }

    /// Asks many things at once; the answers come in the same order and are only looked at for a refusal.
    pub(crate) fn call_all(
        &mut self,
        channel: ChannelId,
        methods: impl IntoIterator<Item = Method>,
    ) -> Result<(), BenchError> {
        let mut waiting = std::collections::VecDeque::with_capacity(PIPELINE_MAX);
        for method in methods {
            if waiting.len() == PIPELINE_MAX {
                self.settle(&mut waiting)?;
            }
            put_method(&mut self.outbox, channel, &method);
            waiting.push_back(method.name());
        }
        self.settle(&mut waiting)
    }

    fn settle(
        &mut self,
        waiting: &mut std::collections::VecDeque<&'static str>,
    ) -> Result<(), BenchError> {
        self.flush()?;
        while let Some(asked) = waiting.pop_front() {
            let answer = self.wait()?;
            check_answer(asked, &answer)?;
        }
        Ok(())
    }

    /// Sends what has no answer.
    pub(crate) fn send(
        &mut self,
        channel: ChannelId,
        method: impl Into<Method>,
    ) -> Result<(), BenchError> {
        put_method(&mut self.outbox, channel, &method.into());
        self.flush()
    }

    /// Sends frames that someone else encoded.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        self.socket.write_all(bytes)?;
        Ok(())
    }

    pub(crate) fn frame_max(&self) -> usize {
        self.frame_max
    }

    /// The socket and the frames that were received and not looked at.
    pub(crate) fn into_parts(self) -> (TcpStream, FrameBuffer) {
        (self.socket, self.inbox)
    }

    fn log_in(&mut self, url: &BrokerUrl) -> Result<(), BenchError> {
        self.outbox.extend_from_slice(&PROTOCOL_HEADER);
        self.flush()?;
        self.wait()?;
        let start_ok = connection::StartOk {
            client_properties: client_properties(),
            mechanism: ShortString::from_static("PLAIN"),
            response: LongString::from(format!("\0{}\0{}", url.user, url.password)),
            locale: ShortString::from_static("en_US"),
        };
        match self.call(ChannelId::CONNECTION, start_ok)? {
            Method::Connection(connection::Connection::Tune(offer)) => self.tune(&offer)?,
            other => return Err(unexpected("connection.start-ok", &other)),
        }
        let open = connection::Open {
            virtual_host: short(&url.vhost)?,
            ..connection::Open::default()
        };
        self.call(ChannelId::CONNECTION, open).map(drop)
    }

    fn tune(&mut self, offer: &connection::Tune) -> Result<(), BenchError> {
        let frame_max = match offer.frame_max {
            0 => FRAME_MAX,
            offered => offered.min(FRAME_MAX),
        };
        let tune_ok = connection::TuneOk {
            channel_max: offer.channel_max,
            frame_max,
            heartbeat: 0,
        };
        self.frame_max = frame_max as usize;
        self.inbox.set_payload_max(self.frame_max - FRAME_OVERHEAD);
        self.send(ChannelId::CONNECTION, tune_ok)
    }

    fn flush(&mut self) -> Result<(), BenchError> {
        self.socket.write_all(&self.outbox)?;
        self.outbox.clear();
        Ok(())
    }

    /// The next method of any channel; heartbeats and contents in between are dropped.
    pub(crate) fn wait(&mut self) -> Result<Method, BenchError> {
        loop {
            while let Some(frame) = self.inbox.next_frame()? {
                if frame.kind != FrameKind::Method {
                    continue;
                }
                let method = decode(frame.payload)?;
                if let Some(error) = closed(&method) {
                    return Err(error);
                }
                return Ok(method);
            }
            match self.inbox.fill(&mut self.socket) {
                Ok(0) => return Err(BenchError::EndOfStream),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let secs = ANSWER_TIMEOUT.as_secs();
                    return Err(BenchError::NoAnswer { secs });
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Reads a method that is not on the hot path.
pub(crate) fn decode(payload: &[u8]) -> Result<Method, BenchError> {
    let chunk = Bytes::copy_from_slice(payload);
    Ok(Method::decode(&chunk, &chunk)?)
}

/// What the broker says when it closes something.
pub(crate) fn closed(method: &Method) -> Option<BenchError> {
    let (what, code, text) = match method {
        Method::Connection(connection::Connection::Close(close)) => {
            ("connection", close.reply_code, &close.reply_text)
        }
        Method::Channel(channel::Channel::Close(close)) => {
            ("channel", close.reply_code, &close.reply_text)
        }
        _ => return None,
    };
    Some(BenchError::Closed {
        what,
        code,
        text: text.to_string(),
    })
}

/// An answer carries the name of its question and `-ok`; the questions of the handshake have other answers.
fn check_answer(asked: &'static str, answer: &Method) -> Result<(), BenchError> {
    let fits = answer.name().strip_suffix("-ok") == Some(asked)
        || asked == "connection.start-ok"
        || (asked, answer.name()) == ("basic.get", "basic.get-empty");
    if fits {
        Ok(())
    } else {
        Err(unexpected(asked, answer))
    }
}

fn unexpected(asked: &'static str, got: &Method) -> BenchError {
    BenchError::Unexpected {
        asked,
        got: got.name(),
    }
}

/// A refused login is answered in words only to clients that say they understand it.
fn client_properties() -> FieldTable {
    let capabilities = FieldTable::new()
        .with("authentication_failure_close", FieldValue::Bool(true))
        .with("basic.nack", FieldValue::Bool(true))
        .with("consumer_cancel_notify", FieldValue::Bool(true))
        .with("publisher_confirms", FieldValue::Bool(true));
    FieldTable::new()
        .with("product", FieldValue::text("leveret-bench"))
        .with("capabilities", FieldValue::Table(capabilities))
}
