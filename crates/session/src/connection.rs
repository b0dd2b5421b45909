//! A connection from the first byte to the last.
//!
//! ```text
//!   Header ──▶ Start ──▶ Tune ──▶ Open ──▶ Running ──┬─ client closes ─▶ Closed ──┐
//!     │          │         │        │         │      └─ we close ─────▶ Closing ──┤
//!     ▼          ▼         ▼        ▼         ▼                                   ▼
//!   Over      Draining  Draining  Closing   Draining (nothing can be read)      Over
//! ```
//!
//! In `Draining` nothing is parsed any more; the socket ends at a deadline.

mod answers;
mod channels;
mod closing;
mod handshake;
mod login;
mod quick;
mod running;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use leveret_core::ids::{ChannelKey, ConnectionId};
use leveret_wire::{
    frame::{self, FrameKind},
    ids::ChannelId,
    method::Method,
    reply_code::ReplyCode,
    value::{FieldTable, ShortString},
};

use self::running::{Running, Trouble};
use crate::{
    call::{Answer, Call, ChannelEnd},
    channel::{Then, Unsettled},
    error::{ChannelError, ConnectionError, Fault, MethodIds, NO_METHOD},
    heartbeat::{Due, Heartbeat},
    input::Input,
    outgoing::{Capabilities, News, Outgoing},
    settings::{Mechanism, Settings},
    sink::Sink,
    status::ConnectionStatus,
    time::Millis,
};

/// What the server does next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Read more.
    NeedInput,
    /// Submit what was staged, and call `receive` again, also without new input: [`Sink::is_full`].
    Submit,
    /// Carry this out, give the answer, and call `receive` again, also without new input.
    Call(Call),
    /// Write what there is, then end the socket. Nothing may be received any more.
    Close(CloseHow),
}

/// How a socket ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseHow {
    /// At once.
    Now,
    /// At this time, or when the peer ends it. Until then bytes are read and thrown away, so that what
    /// was written last is not lost to a reset.
    Linger {
        /// When.
        until: Millis,
    },
}

/// What is due when a deadline has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tick {
    /// Nothing.
    Wait,
    /// A heartbeat was put into the replies.
    Flush,
    /// End the socket without a word, and release [`Connection::open_channels`].
    Close(EndReason),
}

/// Why a socket ends without a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// No `connection.open` in time.
    Handshake,
    /// Two heartbeat intervals without a byte.
    MissedHeartbeats,
    /// After a close, the peer did not do its part.
    Close,
}

/// Who logged in.
#[derive(Debug)]
struct Peer {
    user: ShortString,
    is_impersonator: bool,
}

/// What a client said in its `start-ok`, while its login takes another round.
#[derive(Debug)]
struct Introduction {
    user: Bytes,
    mechanism: Mechanism,
    capabilities: Capabilities,
    client_properties: FieldTable,
}

/// What was agreed with `tune-ok`.
#[derive(Debug, Clone, Copy)]
struct Tuned {
    channel_max: u16,
    frame_max: u32,
}

#[derive(Debug)]
enum Phase {
    /// The protocol header is due.
    Header,
    /// `start` was sent.
    Start,
    /// `secure` was sent.
    Secure(Box<Introduction>),
    /// `tune` was sent.
    Tune(Peer),
    /// `open` is due.
    Open(Peer, Tuned),
    Running(Box<Running>),
    /// We sent `close`; all but its answer is ignored.
    Closing,
    /// We sent `close-ok`; the client ends the socket.
    Closed,
    /// Nothing is parsed any more.
    Draining {
        until: Millis,
    },
    Over,
}

/// The call that was made, and what its answer leads to.
#[derive(Debug)]
enum Waiting {
    Login {
        mechanism: Mechanism,
        capabilities: Capabilities,
    },
    OpenVhost {
        blamed: MethodIds,
    },
    OpenChannel {
        channel: ChannelKey,
    },
    UpdateSecret {
        blamed: MethodIds,
    },
    Method {
        channel: ChannelKey,
        blamed: MethodIds,
        then: Then,
    },
    /// The client's `channel.close` is to be answered.
    ChannelCloseOk {
        channel: ChannelKey,
    },
    /// We close a channel.
    ChannelClose {
        channel: ChannelKey,
        error: Box<ChannelError>,
        blamed: MethodIds,
    },
    /// The client's `connection.close` is to be answered.
    CloseOk,
    /// We close the connection.
    Close {
        error: Box<ConnectionError>,
        blamed: MethodIds,
    },
}

/// What `receive` begins with, because an answer left it to be done.
#[derive(Debug)]
enum Todo {
    /// A fault to be told to the client.
    Fault(Trouble),
    /// Deliveries that `basic.recover` gives back.
    Return(ChannelKey, Vec<Unsettled>),
}

/// One connection's protocol, apart from what [`Outgoing`] does.
#[derive(Debug)]
pub struct Connection {
    id: ConnectionId,
    settings: Arc<Settings>,
    phase: Phase,
    replies: BytesMut,
    heartbeat: Heartbeat,
    heartbeat_secs: u16,
    /// The handshake's end, or that of a close.
    deadline: Option<Millis>,
    waiting: Option<Waiting>,
    todo: Option<Todo>,
    /// Told from outside to close.
    forced: Option<Box<ConnectionError>>,
    /// The user whom a certificate names.
    certified: Option<Box<[u8]>>,
    /// Publishers are to wait, and a frame of one was taken.
    is_held: bool,
    /// The longest payload: as agreed, once it is, also for what still comes behind a close.
    payload_max: u32,
}

impl Connection {
    /// A socket was accepted.
    #[must_use]
    pub fn new(id: ConnectionId, now: Millis, settings: Arc<Settings>) -> Self {
        let deadline = Some(now.plus(settings.handshake_timeout_millis));
        let payload_max = settings.frame_max.max(settings.initial_frame_max);
        Self {
            id,
            settings,
            phase: Phase::Header,
            replies: BytesMut::new(),
            heartbeat: Heartbeat::default(),
            heartbeat_secs: 0,
            deadline,
            waiting: None,
            todo: None,
            forced: None,
            certified: None,
            is_held: false,
            payload_max,
        }
    }

    /// While publishers are to wait, no frame is taken behind the next one of a content: as on RabbitMQ, a message whose
    /// header comes then has to wait for its body. What else there is to do is done.
    pub const fn hold_publishers(&mut self, holds: bool) {
        if let Phase::Running(running) = &mut self.phase {
            running.hold_publishers(holds);
        }
    }

    /// Whether [`Connection::receive`] stopped there, and is to be called again, also without new input, when publishers
    /// need not wait any more.
    #[must_use]
    pub const fn take_held(&mut self) -> bool {
        std::mem::replace(&mut self.is_held, false)
    }

    /// The client has shown a certificate of this user; for [`Mechanism::External`].
    #[must_use]
    pub fn certified_as(mut self, user: &[u8]) -> Self {
        self.certified = Some(user.into());
        self
    }

    /// Works through what was read until more is needed or somebody must answer first.
    ///
    /// While a call waits for its answer this only answers [`Step::NeedInput`].
    pub fn receive<S: Sink>(&mut self, now: Millis, input: &mut Input, sink: &mut S) -> Step {
        if input.has_grown() {
            self.heartbeat.received();
        }
        if self.waiting.is_some() {
            return Step::NeedInput;
        }
        if let Some(step) = self.begin(sink) {
            return step;
        }
        loop {
            let step = match self.phase {
                Phase::Header => self.greet(input),
                Phase::Start | Phase::Secure(_) | Phase::Tune(_) | Phase::Open(..) => {
                    self.handshake(now, input)
                }
                Phase::Running(_) => Some(self.run(input, sink)),
                Phase::Closing | Phase::Closed => self.closing(input),
                Phase::Draining { until } => Some(Step::Close(CloseHow::Linger { until })),
                Phase::Over => Some(Step::Close(CloseHow::Now)),
            };
            if let Some(step) = step {
                return step;
            }
        }
    }

    /// The answer to the call that `receive` returned. Replies go into `outgoing`, behind those that
    /// were still here.
    ///
    /// # Panics
    ///
    /// When nothing was asked, or the answer is none for what was asked.
    pub fn answer(&mut self, now: Millis, answer: Answer, outgoing: &mut Outgoing) {
        let waiting = self
            .waiting
            .take()
            .expect("only a call that was made is answered");
        self.heartbeat.received();
        outgoing.append(&mut self.replies);
        self.learn_from(outgoing);
        self.answered(now, waiting, answer, outgoing);
        outgoing.append(&mut self.replies);
        self.learn_from(outgoing);
    }

    /// Encoded replies that were not taken yet. To be appended to [`Outgoing`] whenever `receive`
    /// returns, before staged work is submitted and before a call is carried out.
    pub const fn replies(&mut self) -> &mut BytesMut {
        &mut self.replies
    }

    /// What [`Outgoing::take_delivered`] gave; drained. To be called once per read, before `receive`:
    /// the client cannot settle a delivery that was written after the read.
    pub fn learn_deliveries(&mut self, news: &mut News) {
        match &mut self.phase {
            Phase::Running(running) => running.learn(news),
            Phase::Header
            | Phase::Start
            | Phase::Secure(_)
            | Phase::Tune(_)
            | Phase::Open(..)
            | Phase::Closing
            | Phase::Closed
            | Phase::Draining { .. }
            | Phase::Over => {
                news.delivered.clear();
                news.cancelled.clear();
                news.overdue.clear();
            }
        }
    }

    /// When [`Self::tick`] has to be called; changes with every call of anything here.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Millis> {
        [self.deadline, self.heartbeat.next_check()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Looks at deadlines that have come.
    pub fn tick(&mut self, now: Millis) -> Tick {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            let reason = match self.phase {
                Phase::Header
                | Phase::Start
                | Phase::Secure(_)
                | Phase::Tune(_)
                | Phase::Open(..) => EndReason::Handshake,
                Phase::Running(_)
                | Phase::Closing
                | Phase::Closed
                | Phase::Draining { .. }
                | Phase::Over => EndReason::Close,
            };
            return self.end_silently(reason);
        }
        if self.waiting.is_some() {
            // Nobody reads until the answer has come.
            self.heartbeat.received();
        }
        match self.heartbeat.check(now) {
            Due::Nothing => Tick::Wait,
            Due::Send => {
                frame::put_heartbeat(&mut self.replies);
                Tick::Flush
            }
            Due::PeerGone => self.end_silently(EndReason::MissedHeartbeats),
        }
    }

    /// Bytes were written to the socket since this was last called; spares a heartbeat.
    pub const fn wrote(&mut self) {
        self.heartbeat.sent();
    }

    /// The server stops reading this socket, or reads it again. Meanwhile silence of the peer means
    /// nothing.
    pub const fn pause_reading(&mut self, is_paused: bool) {
        self.heartbeat.pause(is_paused);
    }

    /// The server ends this connection, with a hard code such as 320 and the text behind its name. The
    /// next `receive` begins with it, also without new input.
    pub fn force_close(&mut self, code: ReplyCode, text: &str) {
        self.forced.get_or_insert_with(|| {
            let text = text.to_owned();
            Box::new(ConnectionError::Forced { code, text })
        });
    }

    /// Nobody carries out the call that was made: the connection is about to end. To be called behind
    /// [`Self::force_close`], with which the next `receive` begins then.
    pub fn give_up_call(&mut self) {
        self.waiting = None;
    }

    /// `connection.open` was answered and nobody has closed.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running(_))
    }

    /// What has to be released when the socket is lost: every open channel with its queues. To be
    /// exact, what was delivered has to be learned of before.
    #[must_use]
    pub fn open_channels(&self) -> Vec<ChannelEnd> {
        match &self.phase {
            Phase::Running(running) => running.ends(),
            Phase::Header
            | Phase::Start
            | Phase::Secure(_)
            | Phase::Tune(_)
            | Phase::Open(..)
            | Phase::Closing
            | Phase::Closed
            | Phase::Draining { .. }
            | Phase::Over => Vec::new(),
        }
    }

    /// What the connection and its channels are doing. To be exact, what was delivered has to be learned of before.
    #[must_use]
    pub fn status(&self) -> ConnectionStatus {
        match &self.phase {
            Phase::Running(running) => ConnectionStatus {
                heartbeat_secs: self.heartbeat_secs,
                ..running.status()
            },
            Phase::Header
            | Phase::Start
            | Phase::Secure(_)
            | Phase::Tune(_)
            | Phase::Open(..)
            | Phase::Closing
            | Phase::Closed
            | Phase::Draining { .. }
            | Phase::Over => ConnectionStatus::default(),
        }
    }

    /// Gives up memory that only traffic needs.
    pub fn release_idle_capacity(&mut self) {
        if self.replies.is_empty() {
            self.replies = BytesMut::new();
        }
    }

    /// What was left to be done before the next frame.
    fn begin<S: Sink>(&mut self, sink: &mut S) -> Option<Step> {
        match self.todo.take() {
            Some(Todo::Fault(trouble)) => return Some(self.fail(trouble)),
            Some(Todo::Return(channel, unacked)) => {
                if let Phase::Running(running) = &mut self.phase
                    && let Some(known) = running.channel(channel)
                {
                    known.give_back(unacked, sink);
                }
            }
            None => {}
        }
        if let Phase::Running(running) = &mut self.phase
            && let Some(trouble) = running.take_overdue()
        {
            return Some(self.fail(trouble));
        }
        let error = self.forced.take()?;
        match &self.phase {
            Phase::Running(_) => Some(self.fail_connection(error, NO_METHOD)),
            Phase::Header | Phase::Start | Phase::Secure(_) | Phase::Tune(_) | Phase::Open(..) => {
                self.finish();
                None
            }
            // It ends anyway.
            Phase::Closing | Phase::Closed | Phase::Draining { .. } | Phase::Over => None,
        }
    }

    /// Frames of an open connection.
    fn run<S: Sink>(&mut self, input: &mut Input, sink: &mut S) -> Step {
        let trouble = loop {
            let Phase::Running(running) = &mut self.phase else {
                return Step::NeedInput;
            };
            let payload_max = running.payload_max();
            let (chunk, frame, at) = match input.next_frame(payload_max, payload_max) {
                Ok(Some(found)) => found,
                Ok(None) => match running.park() {
                    Ok(()) => return Step::NeedInput,
                    Err(trouble) => break trouble,
                },
                Err(error) => {
                    return self
                        .fail_connection(Box::new(ConnectionError::Frame(error)), NO_METHOD);
                }
            };
            let is_last = running.holds_publishers()
                && matches!(frame.kind, FrameKind::Header | FrameKind::Body);
            match running.frame(chunk, frame, at, sink, &mut self.replies) {
                Ok(None) if is_last => {
                    self.is_held = true;
                    return Step::NeedInput;
                }
                Ok(None) if sink.is_full() => return Step::Submit,
                Ok(None) => {}
                Ok(Some(asked)) => {
                    let (call, waiting) = *asked;
                    self.waiting = Some(waiting);
                    return Step::Call(call);
                }
                Err(trouble) => break trouble,
            }
        };
        self.fail(trouble)
    }

    /// Tells the server to release what a fault ends; the client is told with the answer.
    fn fail(&mut self, trouble: Trouble) -> Step {
        let Trouble {
            fault,
            channel,
            blamed,
        } = trouble;
        let error = match fault {
            Fault::Connection(error) => return self.fail_connection(error, blamed),
            Fault::Channel(error) => error,
        };
        let Phase::Running(running) = &mut self.phase else {
            return Step::NeedInput;
        };
        let Some(end) = running.end(channel) else {
            return Step::NeedInput;
        };
        self.waiting = Some(Waiting::ChannelClose {
            channel: end.channel,
            error,
            blamed,
        });
        Step::Call(Call::CloseChannel(end))
    }

    fn fail_connection(&mut self, error: Box<ConnectionError>, blamed: MethodIds) -> Step {
        self.waiting = Some(Waiting::Close { error, blamed });
        Step::Call(Call::CloseConnection {
            channels: self.open_channels(),
        })
    }

    fn learn_from(&mut self, outgoing: &mut Outgoing) {
        let mut news = News::default();
        outgoing.take_delivered(&mut news);
        if !news.is_empty() {
            self.learn_deliveries(&mut news);
        }
        // Gives the memory back.
        outgoing.take_delivered(&mut news);
    }

    fn put(&mut self, method: &Method) {
        frame::put_method(&mut self.replies, ChannelId::CONNECTION, method);
    }

    fn put_on(&mut self, channel: ChannelKey, method: &Method) {
        frame::put_method(&mut self.replies, ChannelId::new(channel.channel), method);
    }
}
