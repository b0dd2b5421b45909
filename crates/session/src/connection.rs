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

mod channels;
mod handshake;
mod login;
mod running;

use std::sync::Arc;

use bytes::BytesMut;
use leveret_core::ids::{ChannelKey, ConnectionId, ConsumerId};
use leveret_wire::{
    frame::{self, FrameKind},
    ids::{ChannelId, ClassId, MethodId},
    method::{Method, basic, channel, connection, queue},
    reply_code::ReplyCode,
    value::ShortString,
};

use self::running::{Running, Trouble};
use crate::{
    call::{Answer, Call, ChannelEnd},
    channel::{Then, Unacked},
    error::{self, ChannelError, ConnectionError, Fault, MethodIds, NO_METHOD, OpenRefusal},
    heartbeat::{Due, Heartbeat},
    input::Input,
    outgoing::{Capabilities, News, Outgoing},
    settings::{self, Mechanism, Settings},
    sink::{Settle, Sink},
    time::Millis,
};

/// Replies whose memory a connection keeps between two reads.
const REPLIES_KEPT: usize = 4096;

/// Class and method of a close and its answer on channel 0.
const CLOSE: MethodIds =
    (ClassId::new(connection::Connection::CLASS_ID), MethodId::new(connection::Close::METHOD_ID));
const CLOSE_OK: MethodIds =
    (ClassId::new(connection::Connection::CLASS_ID), MethodId::new(connection::CloseOk::METHOD_ID));

/// What the server does next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Read more.
    NeedInput,
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
    Draining { until: Millis },
    Over,
}

/// The call that was made, and what its answer leads to.
#[derive(Debug)]
enum Waiting {
    Login { mechanism: Mechanism, capabilities: Capabilities },
    OpenVhost { blamed: MethodIds },
    OpenChannel { channel: ChannelKey },
    UpdateSecret { blamed: MethodIds },
    Method { channel: ChannelKey, blamed: MethodIds, then: Then },
    /// The client's `channel.close` is to be answered.
    ChannelCloseOk { channel: ChannelKey },
    /// We close a channel.
    ChannelClose { channel: ChannelKey, error: ChannelError, blamed: MethodIds },
    /// The client's `connection.close` is to be answered.
    CloseOk,
    /// We close the connection.
    Close { error: ConnectionError, blamed: MethodIds },
}

/// What `receive` begins with, because an answer left it to be done.
#[derive(Debug)]
enum Todo {
    /// A fault to be told to the client.
    Fault(Trouble),
    /// Deliveries that `basic.recover` gives back.
    Return(ChannelKey, Vec<Unacked>),
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
    forced: Option<ConnectionError>,
}

impl Connection {
    /// A socket was accepted.
    #[must_use]
    pub fn new(id: ConnectionId, now: Millis, settings: Arc<Settings>) -> Self {
        let deadline = Some(now.plus(settings.handshake_timeout_millis));
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
        }
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
                Phase::Start | Phase::Tune(_) | Phase::Open(..) => self.handshake(now, input),
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
        let waiting = self.waiting.take().expect("only a call that was made is answered");
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
            | Phase::Tune(_)
            | Phase::Open(..)
            | Phase::Closing
            | Phase::Closed
            | Phase::Draining { .. }
            | Phase::Over => {
                news.delivered.clear();
                news.cancelled.clear();
            }
        }
    }

    /// When [`Self::tick`] has to be called; changes with every call of anything here.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Millis> {
        [self.deadline, self.heartbeat.next_check()].into_iter().flatten().min()
    }

    /// Looks at deadlines that have come.
    pub fn tick(&mut self, now: Millis) -> Tick {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            let reason = match self.phase {
                Phase::Header | Phase::Start | Phase::Tune(_) | Phase::Open(..) => {
                    EndReason::Handshake
                }
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
        self.forced.get_or_insert(ConnectionError::Forced { code, text: text.to_owned() });
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
            | Phase::Tune(_)
            | Phase::Open(..)
            | Phase::Closing
            | Phase::Closed
            | Phase::Draining { .. }
            | Phase::Over => Vec::new(),
        }
    }

    /// Gives up memory that only traffic needs.
    pub fn release_idle_capacity(&mut self) {
        if self.replies.is_empty() && self.replies.capacity() > REPLIES_KEPT {
            self.replies = BytesMut::new();
        }
    }

    /// What was left to be done before the next frame.
    fn begin<S: Sink>(&mut self, sink: &mut S) -> Option<Step> {
        match self.todo.take() {
            Some(Todo::Fault(trouble)) => return Some(self.fail(trouble)),
            Some(Todo::Return(channel, unacked)) => {
                for Unacked { queue, seq } in unacked {
                    let outcome = leveret_core::queue::Outcome::Returned;
                    sink.settle(Settle { channel, queue, seq, outcome });
                }
            }
            None => {}
        }
        let error = self.forced.take()?;
        match &self.phase {
            Phase::Running(_) => Some(self.fail_connection(error, NO_METHOD)),
            Phase::Header | Phase::Start | Phase::Tune(_) | Phase::Open(..) => {
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
            let (chunk, frame) = match input.next_frame(payload_max, payload_max) {
                Ok(Some(found)) => found,
                Ok(None) => match running.park() {
                    Ok(()) => return Step::NeedInput,
                    Err(trouble) => break trouble,
                },
                Err(error) => return self.fail_connection(ConnectionError::Frame(error), NO_METHOD),
            };
            match running.frame(chunk, frame, sink, &mut self.replies) {
                Ok(None) => {}
                Ok(Some((call, waiting))) => {
                    self.waiting = Some(waiting);
                    return Step::Call(call);
                }
                Err(trouble) => break trouble,
            }
        };
        self.fail(trouble)
    }

    /// Frames of a connection that one side has closed.
    fn closing(&mut self, input: &mut Input) -> Option<Step> {
        let payload_max = self.settings.frame_max as usize;
        let Ok(next) = input.next_frame(payload_max, payload_max) else {
            self.finish();
            return None;
        };
        let Some((_, frame)) = next else {
            return Some(Step::NeedInput);
        };
        if frame.kind != FrameKind::Method || !frame.channel.is_connection() {
            return None;
        }
        match ids_of(frame.payload) {
            Some(CLOSE) => self.put(&connection::CloseOk {}.into()),
            Some(CLOSE_OK) => self.finish(),
            _ => {}
        }
        None
    }

    /// Tells the server to release what a fault ends; the client is told with the answer.
    fn fail(&mut self, trouble: Trouble) -> Step {
        let Trouble { fault, channel, blamed } = trouble;
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
        self.waiting = Some(Waiting::ChannelClose { channel: end.channel, error, blamed });
        Step::Call(Call::CloseChannel(end))
    }

    fn fail_connection(&mut self, error: ConnectionError, blamed: MethodIds) -> Step {
        self.waiting = Some(Waiting::Close { error, blamed });
        Step::Call(Call::CloseConnection { channels: self.open_channels() })
    }

    fn answered(
        &mut self,
        now: Millis,
        waiting: Waiting,
        answer: Answer,
        outgoing: &mut Outgoing,
    ) {
        match (waiting, answer) {
            (
                Waiting::Login { capabilities, .. },
                Answer::LoggedIn { user, impersonator },
            ) => {
                outgoing.set_capabilities(capabilities);
                self.logged_in(user, impersonator);
            }
            (Waiting::Login { mechanism, capabilities }, Answer::LoginRefused) => {
                self.login_refused(now, mechanism, capabilities);
            }
            (Waiting::OpenVhost { .. }, Answer::Done) => self.opened(outgoing),
            (Waiting::OpenVhost { blamed }, Answer::OpenRefused(refusal)) => {
                let until = now.plus(self.close_timeout_millis());
                self.close_with(until, &ConnectionError::Open(refusal), blamed);
            }
            (Waiting::OpenChannel { channel }, Answer::Done) => {
                if let Phase::Running(running) = &mut self.phase {
                    running.add_channel(channel);
                }
                outgoing.open_channel(channel);
                self.put_on(channel, &channel::OpenOk::default().into());
            }
            (Waiting::OpenChannel { .. }, Answer::OpenRefused(refusal)) => {
                self.fail_later(ConnectionError::Open(refusal), 0, NO_METHOD);
            }
            (Waiting::UpdateSecret { .. }, Answer::Done) => {
                self.put(&connection::UpdateSecretOk {}.into());
            }
            (Waiting::UpdateSecret { blamed }, Answer::OpenRefused(refusal)) => {
                self.fail_later(ConnectionError::Open(refusal), 0, blamed);
            }
            (Waiting::Method { channel, blamed, .. }, Answer::Refused(refusal)) => {
                self.fail_later(refusal, channel.channel, blamed);
            }
            (Waiting::Method { channel, then, .. }, answer) => {
                self.method_answered(channel, then, answer, outgoing);
            }
            (Waiting::ChannelCloseOk { channel }, Answer::Done) => {
                outgoing.close_channel(channel);
                if let Phase::Running(running) = &mut self.phase {
                    running.remove_channel(channel);
                }
                self.put_on(channel, &channel::CloseOk {}.into());
            }
            (Waiting::ChannelClose { channel, error, blamed }, Answer::Done) => {
                outgoing.close_channel(channel);
                if let Phase::Running(running) = &mut self.phase {
                    running.begin_close(channel);
                }
                self.put_on(channel, &error::channel_close(&error, blamed));
            }
            (Waiting::CloseOk, Answer::Done) => {
                outgoing.close_all_channels();
                self.put(&connection::CloseOk {}.into());
                self.phase = Phase::Closed;
                self.heartbeat = Heartbeat::default();
                self.deadline = Some(now.plus(self.close_timeout_millis()));
            }
            (Waiting::Close { error, blamed }, Answer::Done) => {
                outgoing.close_all_channels();
                if matches!(error, ConnectionError::Frame(_)) {
                    self.close_deaf(now, &error);
                } else {
                    self.close_with(now.plus(self.close_timeout_millis()), &error, blamed);
                }
            }
            (waiting, answer) => panic!("{answer:?} is no answer for {waiting:?}"),
        }
    }

    /// A call of a channel's method was carried out.
    fn method_answered(
        &mut self,
        channel: ChannelKey,
        then: Then,
        answer: Answer,
        outgoing: &mut Outgoing,
    ) {
        let Phase::Running(running) = &mut self.phase else {
            return;
        };
        let Some(known) = running.channel(channel) else {
            return;
        };
        let reply: Option<Method> = match (then, answer) {
            (Then::Reply(reply), Answer::Done) => reply,
            (Then::QueueDeclared { nowait }, Answer::QueueDeclared { name, messages, consumers }) => {
                known.remember_queue(name.clone());
                let (message_count, consumer_count) = (messages, consumers);
                (!nowait)
                    .then(|| queue::DeclareOk { queue: name, message_count, consumer_count }.into())
            }
            (Then::QueuePurged { nowait }, Answer::Count(message_count)) => {
                (!nowait).then(|| queue::PurgeOk { message_count }.into())
            }
            (Then::QueueDeleted { nowait }, Answer::Count(message_count)) => {
                (!nowait).then(|| queue::DeleteOk { message_count }.into())
            }
            (Then::Consuming { number, tag, no_ack, nowait }, Answer::ConsumeOk { queue }) => {
                known.add_consumer(number, tag.clone(), queue);
                if !nowait {
                    let consume_ok = basic::ConsumeOk { consumer_tag: tag.clone() };
                    self.put_on(channel, &consume_ok.into());
                    outgoing.append(&mut self.replies);
                }
                outgoing.add_consumer(ConsumerId { channel, number }, tag, no_ack);
                None
            }
            (Then::Cancelled { number, tag, nowait }, Answer::Done) => {
                known.remove_consumer(number);
                outgoing.remove_consumer(ConsumerId { channel, number });
                (!nowait).then(|| basic::CancelOk { consumer_tag: tag }.into())
            }
            (
                Then::Got { no_ack },
                Answer::Got { queue, seq, redelivered, message, remaining },
            ) => {
                outgoing.get_ok(channel, queue, seq, redelivered, &message, remaining, no_ack);
                None
            }
            (Then::Got { .. }, Answer::GetEmpty) => Some(basic::GetEmpty::default().into()),
            (Then::Recovered { has_reply }, Answer::Done) => {
                self.todo = Some(Todo::Return(channel, known.take_unacked()));
                has_reply.then(|| basic::RecoverOk {}.into())
            }
            (then, answer) => panic!("{answer:?} is no answer for {then:?}"),
        };
        if let Some(reply) = reply {
            self.put_on(channel, &reply);
        }
    }

    fn opened(&mut self, outgoing: &mut Outgoing) {
        let Phase::Open(peer, tuned) = std::mem::replace(&mut self.phase, Phase::Over) else {
            return;
        };
        outgoing.set_frame_max(tuned.frame_max as usize);
        self.put(&connection::OpenOk::default().into());
        self.phase = Phase::Running(Box::new(Running::new(self.id, &self.settings, peer, tuned)));
        self.deadline = None;
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

    fn fail_later(&mut self, fault: impl Into<Fault>, channel: u16, blamed: MethodIds) {
        self.todo = Some(Todo::Fault(Trouble { fault: fault.into(), channel, blamed }));
    }

    /// Closes with a text and waits for the answer.
    fn close_with(&mut self, until: Millis, error: &ConnectionError, blamed: MethodIds) {
        self.put(&error::connection_close(error, blamed));
        self.phase = Phase::Closing;
        self.heartbeat = Heartbeat::default();
        self.deadline = Some(until);
    }

    /// Closes with a text and reads no answer, because no frame can be found any more.
    fn close_deaf(&mut self, now: Millis, error: &ConnectionError) {
        self.put(&error::connection_close(error, NO_METHOD));
        self.drop_silently(now);
    }

    /// Ends the socket after a while, without a word.
    fn drop_silently(&mut self, now: Millis) {
        let until = now.plus(settings::SILENT_DROP_MILLIS);
        self.phase = Phase::Draining { until };
        self.heartbeat = Heartbeat::default();
        self.deadline = Some(until);
    }

    /// Ends the socket as soon as what there is was written.
    fn finish(&mut self) {
        self.phase = Phase::Over;
        self.heartbeat = Heartbeat::default();
        self.deadline = None;
    }

    fn end_silently(&mut self, reason: EndReason) -> Tick {
        self.heartbeat = Heartbeat::default();
        self.deadline = None;
        self.forced = None;
        Tick::Close(reason)
    }

    /// How long a peer may take for its part of a close.
    fn close_timeout_millis(&self) -> u64 {
        match self.heartbeat_secs {
            0 => settings::CLOSE_TIMEOUT_MILLIS,
            secs => settings::CLOSE_TIMEOUT_MILLIS.min(u64::from(secs) * 1000),
        }
    }

    fn put(&mut self, method: &Method) {
        frame::put_method(&mut self.replies, ChannelId::CONNECTION, method);
    }

    fn put_on(&mut self, channel: ChannelKey, method: &Method) {
        frame::put_method(&mut self.replies, ChannelId::new(channel.channel), method);
    }
}

impl From<OpenRefusal> for ConnectionError {
    fn from(refusal: OpenRefusal) -> Self {
        Self::Open(refusal)
    }
}

/// Class and method at the start of a method frame's payload.
fn ids_of(payload: &[u8]) -> Option<MethodIds> {
    let &[c1, c0, m1, m0] = payload.first_chunk()?;
    Some((ClassId::from_be_bytes([c1, c0]), MethodId::from_be_bytes([m1, m0])))
}
