//! A connection with a small pretend broker on one side and a client that sends exactly what a test
//! tells it on the other.

use std::{collections::VecDeque, sync::Arc};

use bytes::{BufMut, Bytes, BytesMut};
use leveret_core::{
    ids::{ChannelKey, ConnectionId, ConsumerId, HandedOut, Handout, QueueId, Seq},
    message::{Message, MessageParts},
    queue::Outcome,
    record::ExchangeKind,
    refusal::{ObjectKind, Refusal},
    rights::Rights,
};
use leveret_session::{
    Answer, Call, CloseHow, Commit, Connection, Input, Millis, News, OpenRefusal, Outgoing,
    Publish, Routed, Settings, Settle, Sink, Step, Tick,
};
use leveret_wire::{
    PROTOCOL_HEADER, RawProperties,
    content::ContentHeader,
    frame::{self, FrameKind},
    ids::{ChannelId, ClassId, MethodId},
    method::{Method, basic, channel, connection, queue},
    value::{FieldTable, FieldValue, LongString, ShortString},
};

/// What reached the broker's side, in order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    Publish(Publish),
    Settle(Settle),
    Commit(Commit),
    Rollback(ChannelKey),
    Room(ChannelKey, u64),
    Call(Call),
}

/// What the client saw.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Seen {
    Raw(Bytes),
    Method(u16, Method),
    Header(u16, ContentHeader),
    Body(u16, Bytes),
    Heartbeat,
}

/// Stages like the server and says no to the names that tests know.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) events: Vec<Event>,
    /// Without any, the user may do everything.
    pub(crate) rights: Option<Arc<Rights>>,
    /// Queues that a publish leads to; one, unless said otherwise.
    pub(crate) queues: Option<usize>,
    /// It is full with so many publishes; never, unless said otherwise.
    pub(crate) publishes_max: Option<usize>,
    /// Publishes since the last submit, and submits that were asked for.
    publishes: usize,
    pub(crate) submits: usize,
    names: u32,
}

/// No exchange or queue has this name.
pub(crate) const MISSING: &str = "missing";

/// The one exchange that exists, and its type.
pub(crate) const TOPICS: &str = "topics";

/// The address of every reply consumer.
pub(crate) const REPLY_ADDRESS: &str = "amq.rabbitmq.reply-to.address";

/// No queue is bound by this key.
pub(crate) const NOBODY: &str = "nobody";

impl Sink for Recorder {
    fn publish(&mut self, publish: Publish) -> Result<Routed, Refusal> {
        self.check_exchange(publish.channel, &publish.exchange, &[])?;
        let routed = if publish.mandatory && publish.routing_key == *NOBODY {
            Routed::Returned(Message::new(MessageParts {
                exchange: publish.exchange.as_bytes(),
                routing_key: publish.routing_key.as_bytes(),
                properties: publish.properties.as_bytes(),
                body: publish.body.clone(),
                persistent: publish.persistent,
                priority: publish.priority,
            }))
        } else {
            Routed::Taken(self.queues.unwrap_or(1))
        };
        self.publishes += 1;
        self.events.push(Event::Publish(publish));
        Ok(routed)
    }

    fn check_exchange(
        &mut self,
        _: ChannelKey,
        exchange: &ShortString,
        _: &[ShortString],
    ) -> Result<(), Refusal> {
        if *exchange == *MISSING {
            Err(not_found(ObjectKind::Exchange))
        } else {
            Ok(())
        }
    }

    fn rights(&mut self) -> Arc<Rights> {
        self.rights
            .get_or_insert_with(|| Arc::new(Rights::all(short("/"), short("guest"))))
            .clone()
    }

    fn exchange_kind(&mut self, name: &ShortString) -> Option<ExchangeKind> {
        (*name == *TOPICS).then_some(ExchangeKind::Topic)
    }

    fn commit(&mut self, commit: Commit) {
        self.events.push(Event::Commit(commit));
    }

    fn rollback(&mut self, channel: ChannelKey) {
        self.events.push(Event::Rollback(channel));
    }

    fn is_full(&self) -> bool {
        self.publishes_max.is_some_and(|max| self.publishes >= max)
    }

    fn settle(&mut self, settle: Settle) {
        self.events.push(Event::Settle(settle));
    }

    fn give_back_room(&mut self, channel: ChannelKey, count: u64) {
        self.events.push(Event::Room(channel, count));
    }

    fn generate_name(&mut self, prefix: &str) -> ShortString {
        self.names += 1;
        short(&format!("{prefix}{:022}", self.names))
    }
}

pub(crate) fn not_found(kind: ObjectKind) -> Refusal {
    Refusal::NotFound {
        kind,
        name: short(MISSING),
        vhost: short("/"),
    }
}

pub(crate) fn short(text: &str) -> ShortString {
    ShortString::try_from(text).expect("a short text")
}

/// One connection and everything around it.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) connection: Connection,
    pub(crate) input: Input,
    pub(crate) outgoing: Outgoing,
    pub(crate) sink: Recorder,
    pub(crate) now: Millis,
    /// Answers for the next calls; without any, the pretend broker says yes.
    pub(crate) answers: VecDeque<Answer>,
    /// A call without an answer stops everything.
    pub(crate) is_holding_answers: bool,
    pub(crate) held: Option<Call>,
    pub(crate) close: Option<CloseHow>,
    /// Written and not looked at.
    written: BytesMut,
    /// Everything that was written.
    pub(crate) transcript: BytesMut,
    news: News,
}

pub(crate) const CAPABILITIES: [&str; 3] = [
    "authentication_failure_close",
    "consumer_cancel_notify",
    "connection.blocked",
];

impl Scenario {
    /// A socket that was just accepted.
    pub(crate) fn accepted() -> Self {
        Self::with_settings(Settings::default())
    }

    pub(crate) fn with_settings(settings: Settings) -> Self {
        Self {
            connection: Connection::new(ConnectionId::new(7), Millis::new(0), Arc::new(settings)),
            input: Input::new(),
            outgoing: Outgoing::new(),
            sink: Recorder::default(),
            now: Millis::new(0),
            answers: VecDeque::new(),
            is_holding_answers: false,
            held: None,
            close: None,
            written: BytesMut::new(),
            transcript: BytesMut::new(),
            news: News::default(),
        }
    }

    /// An open connection, without heartbeats.
    pub(crate) fn open() -> Self {
        Self::open_with(Settings::default(), tune_ok(2047, 131_072, 0))
    }

    pub(crate) fn open_with(settings: Settings, tune_ok: connection::TuneOk) -> Self {
        let mut scenario = Self::with_settings(settings);
        scenario.send_bytes(&PROTOCOL_HEADER);
        scenario.send(0, start_ok("PLAIN", b"\0guest\0guest", &CAPABILITIES));
        scenario.send(0, tune_ok);
        scenario.send(0, open_vhost("/"));
        assert!(scenario.connection.is_running(), "{scenario:?}");
        scenario.forget();
        scenario
    }

    /// An open connection with channel 1.
    pub(crate) fn with_channel() -> Self {
        Self::with_channels(1)
    }

    pub(crate) fn with_channels(count: u16) -> Self {
        let mut scenario = Self::open();
        for channel in 1..=count {
            scenario.open_channel(channel);
        }
        scenario.forget();
        scenario
    }

    /// Forgets what happened so far on both sides.
    pub(crate) fn forget(&mut self) {
        self.written.clear();
        self.sink.events.clear();
    }

    // --- the client's side

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.input.buffer_mut().put_slice(bytes);
        self.turn();
    }

    pub(crate) fn send(&mut self, channel: u16, method: impl Into<Method>) {
        let bytes = method_frame(channel, method);
        self.send_bytes(&bytes);
    }

    pub(crate) fn publish(&mut self, channel: u16, exchange: &str, routing_key: &str, body: &[u8]) {
        let bytes = publish_frames(channel, exchange, routing_key, &RawProperties::EMPTY, body);
        self.send_bytes(&bytes);
    }

    pub(crate) fn publish_with(
        &mut self,
        channel: u16,
        exchange: &str,
        properties: &RawProperties,
    ) {
        let bytes = publish_frames(channel, exchange, "key", properties, b"body");
        self.send_bytes(&bytes);
    }

    /// An alarm begins or ends; what was read before goes on.
    pub(crate) fn hold_publishers(&mut self, holds: bool) {
        self.connection.hold_publishers(holds);
        self.turn();
    }

    pub(crate) fn open_channel(&mut self, channel: u16) {
        self.send(channel, channel::Open::default());
        self.expect(channel, channel::OpenOk::default());
    }

    pub(crate) fn consume(
        &mut self,
        channel: u16,
        queue: &str,
        tag: &str,
        no_ack: bool,
    ) -> ConsumerId {
        let consume = basic::Consume {
            queue: short(queue),
            consumer_tag: short(tag),
            no_ack,
            ..basic::Consume::default()
        };
        self.send(channel, consume);
        self.expect(
            channel,
            basic::ConsumeOk {
                consumer_tag: short(tag),
            },
        );
        match self.sink.events.pop() {
            Some(Event::Call(Call::Consume(consume))) => consume.consumer,
            other => panic!("{other:?} instead of a consume"),
        }
    }

    // --- the broker's side

    /// What a server does with a read.
    pub(crate) fn turn(&mut self) {
        self.outgoing.take_delivered(&mut self.news);
        self.connection.learn_deliveries(&mut self.news);
        while self.close.is_none() && self.held.is_none() {
            let step = self
                .connection
                .receive(self.now, &mut self.input, &mut self.sink);
            self.outgoing.append(self.connection.replies());
            match step {
                Step::NeedInput => break,
                Step::Submit => {
                    self.sink.publishes = 0;
                    self.sink.submits += 1;
                }
                Step::Close(how) => self.close = Some(how),
                Step::Call(call) => {
                    self.sink.events.push(Event::Call(call.clone()));
                    if self.is_holding_answers {
                        self.held = Some(call);
                        break;
                    }
                    let answer = self.answers.pop_front().unwrap_or_else(|| answer_to(&call));
                    self.connection.answer(self.now, answer, &mut self.outgoing);
                }
            }
        }
        self.outgoing.flush_confirms();
        self.flush();
    }

    pub(crate) fn flush(&mut self) {
        let mut segments = Vec::new();
        self.outgoing.take(&mut segments);
        assert_eq!(self.outgoing.pending_bytes(), 0);
        for segment in segments {
            self.written.put_slice(&segment);
            self.transcript.put_slice(&segment);
        }
    }

    /// Gives the answer to the call that is held.
    pub(crate) fn answer(&mut self, answer: Answer) {
        assert!(self.held.take().is_some(), "no call is held");
        self.connection.answer(self.now, answer, &mut self.outgoing);
        self.turn();
    }

    /// The pretend queue `queue` hands a message to a consumer.
    pub(crate) fn deliver(
        &mut self,
        consumer: ConsumerId,
        queue: &str,
        seq: u64,
        body: &[u8],
    ) -> bool {
        let message = message("exchange", "key", body);
        let delivered = self
            .outgoing
            .deliver(consumer, at(queue, seq), false, &message);
        self.flush();
        delivered
    }

    /// The next call is answered like this.
    pub(crate) fn answer_next(&mut self, answer: Answer) {
        self.answers.push_back(answer);
    }

    pub(crate) fn advance(&mut self, millis: u64) -> Tick {
        self.now = self.now.plus(millis);
        let tick = self.connection.tick(self.now);
        self.outgoing.append(self.connection.replies());
        self.flush();
        tick
    }

    // --- expectations

    pub(crate) fn next(&mut self) -> Option<Seen> {
        if self.written.starts_with(b"AMQP") {
            return Some(Seen::Raw(self.written.split_to(8).freeze()));
        }
        if self.written.is_empty() {
            return None;
        }
        let mut first = self.written.clone();
        let len = 8 + u32::from_be_bytes(first[3..7].try_into().expect("four octets")) as usize;
        let chunk = frame::take_whole_frames(&mut first.split_to(len), usize::MAX >> 1);
        let frame = frame::next_frame(&chunk, &mut 0, usize::MAX >> 1)
            .expect("the broker sends good frames")
            .expect("the broker sends whole frames");
        let _ = self.written.split_to(len);
        let channel = frame.channel.get();
        Some(match frame.kind {
            FrameKind::Method => Seen::Method(
                channel,
                Method::decode(&chunk, frame.payload).expect("a good method"),
            ),
            FrameKind::Header => Seen::Header(
                channel,
                ContentHeader::decode(&chunk, frame.payload).expect("a good header"),
            ),
            FrameKind::Body => Seen::Body(channel, chunk.slice_ref(frame.payload)),
            FrameKind::Heartbeat => Seen::Heartbeat,
        })
    }

    pub(crate) fn next_method(&mut self) -> (u16, Method) {
        match self.next() {
            Some(Seen::Method(channel, method)) => (channel, method),
            other => panic!("{other:?} instead of a method"),
        }
    }

    #[track_caller]
    pub(crate) fn expect(&mut self, channel: u16, method: impl Into<Method>) {
        assert_eq!(self.next(), Some(Seen::Method(channel, method.into())));
    }

    #[track_caller]
    pub(crate) fn expect_body(&mut self, channel: u16, body: &[u8]) {
        match self.next() {
            Some(Seen::Header(at, header)) => {
                assert_eq!((at, header.body_size), (channel, body.len() as u64));
            }
            other => panic!("{other:?} instead of a content header"),
        }
        let mut got = Vec::new();
        while got.len() < body.len() {
            match self.next() {
                Some(Seen::Body(at, part)) => {
                    assert_eq!(at, channel);
                    got.extend_from_slice(&part);
                }
                other => panic!("{other:?} instead of a body"),
            }
        }
        assert_eq!(got, body);
    }

    #[track_caller]
    pub(crate) fn expect_nothing(&mut self) {
        assert_eq!(self.next(), None);
    }

    /// The broker closes the channel, and the client agrees.
    #[track_caller]
    pub(crate) fn expect_channel_close(
        &mut self,
        channel: u16,
        code: u16,
        text: &str,
        blamed: (u16, u16),
    ) {
        self.expect_unanswered_channel_close(channel, code, text, blamed);
        self.send(channel, channel::CloseOk {});
    }

    #[track_caller]
    pub(crate) fn expect_unanswered_channel_close(
        &mut self,
        channel: u16,
        code: u16,
        text: &str,
        blamed: (u16, u16),
    ) {
        let close = channel::Close {
            reply_code: code,
            reply_text: short(text),
            class_id: ClassId::new(blamed.0),
            method_id: MethodId::new(blamed.1),
        };
        self.expect(channel, close);
    }

    /// The broker closes the connection, and the client agrees.
    #[track_caller]
    pub(crate) fn expect_connection_close(&mut self, code: u16, text: &str, blamed: (u16, u16)) {
        self.expect_unanswered_connection_close(code, text, blamed);
        assert_eq!(self.close, None);
        self.send(0, connection::CloseOk {});
        assert_eq!(self.close, Some(CloseHow::Now));
        self.expect_nothing();
    }

    #[track_caller]
    pub(crate) fn expect_unanswered_connection_close(
        &mut self,
        code: u16,
        text: &str,
        blamed: (u16, u16),
    ) {
        let close = connection::Close {
            reply_code: code,
            reply_text: short(text),
            class_id: ClassId::new(blamed.0),
            method_id: MethodId::new(blamed.1),
        };
        self.expect(0, close);
    }

    /// No close, no word; the socket ends three seconds later.
    #[track_caller]
    pub(crate) fn expect_silent_drop(&mut self) {
        self.expect_nothing();
        assert_eq!(
            self.close,
            Some(CloseHow::Linger {
                until: self.now.plus(3000)
            })
        );
        assert_eq!(self.connection.next_deadline(), Some(self.now.plus(3000)));
    }

    /// What reached the broker's side, forgotten with that.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.sink.events)
    }

    #[track_caller]
    pub(crate) fn the_call(&mut self) -> Call {
        let mut events = self.events();
        match (events.pop(), events.is_empty()) {
            (Some(Event::Call(call)), true) => call,
            other => panic!("{other:?} instead of one call"),
        }
    }

    #[track_caller]
    pub(crate) fn the_publish(&mut self) -> Publish {
        let mut events = self.events();
        match (events.pop(), events.is_empty()) {
            (Some(Event::Publish(publish)), true) => publish,
            other => panic!("{other:?} instead of one publish"),
        }
    }

    #[track_caller]
    pub(crate) fn expect_settled(&mut self, channel: u16, seqs: &[u64], outcome: Outcome) {
        let settled: Vec<_> = self
            .events()
            .into_iter()
            .map(|event| match event {
                Event::Settle(settle) => {
                    let HandedOut { seq, handout, .. } = settle.at;
                    assert_eq!(handout, self::handout(seq.get()), "another one is settled");
                    (settle.channel.channel, seq.get(), settle.outcome)
                }
                other => panic!("{other:?} instead of a settle"),
            })
            .collect();
        let expected: Vec<_> = seqs.iter().map(|seq| (channel, *seq, outcome)).collect();
        assert_eq!(settled, expected);
    }
}

impl Scenario {
    /// What is settled, each step for itself.
    #[track_caller]
    pub(crate) fn expect_steps(&mut self, steps: &[&[u64]]) {
        let mut settled: Vec<Vec<u64>> = Vec::new();
        for event in self.events() {
            let Event::Settle(settle) = event else {
                panic!("{event:?} instead of a settle");
            };
            if !settle.continues {
                settled.push(Vec::new());
            }
            let step = settled.last_mut().expect("the first one begins a step");
            step.push(settle.at.seq.get());
        }
        assert_eq!(settled, steps);
    }
}

/// The pretend broker: one user, one vhost, and everything exists but what is [`MISSING`].
pub(crate) fn answer_to(call: &Call) -> Answer {
    let missing_queue = |name: &ShortString, yes: Answer| {
        if *name == *MISSING {
            Answer::Refused(not_found(ObjectKind::Queue))
        } else {
            yes
        }
    };
    match call {
        Call::Login(login) => {
            if login.user == *"guest" && login.password.expose() == b"guest" {
                Answer::LoggedIn {
                    user: login.user.clone(),
                    impersonator: false,
                }
            } else {
                Answer::LoginRefused
            }
        }
        Call::OpenVhost { vhost, .. } if *vhost != *"/" => {
            Answer::OpenRefused(OpenRefusal::VhostNotFound {
                vhost: vhost.clone(),
            })
        }
        Call::QueueDeclare(declare) => {
            let name = declare.queue.clone();
            missing_queue(
                &declare.queue,
                Answer::QueueDeclared {
                    name,
                    messages: 3,
                    consumers: 2,
                },
            )
        }
        Call::QueuePurge(purge) => missing_queue(&purge.queue, Answer::Count(4)),
        Call::QueueDelete(_) => Answer::Count(5),
        Call::QueueBind(bind) => missing_queue(&bind.queue, Answer::Done),
        Call::Consume(consume) => {
            let name = String::from_utf8_lossy(consume.queue.as_bytes()).into_owned();
            missing_queue(
                &consume.queue,
                Answer::ConsumeOk {
                    queue: queue_id(&name),
                    takes_room: true,
                },
            )
        }
        Call::Commit(_) => Answer::Committed { accepted: true },
        Call::ConsumeReplies(_) => Answer::ReplyAddress(short(REPLY_ADDRESS)),
        Call::Get(get) => missing_queue(&get.queue, Answer::GetEmpty),
        Call::OpenVhost { .. }
        | Call::OpenChannel(_)
        | Call::ExchangeDeclare(_)
        | Call::ExchangeDelete(_)
        | Call::ExchangeBind(_)
        | Call::ExchangeUnbind(_)
        | Call::QueueUnbind(_)
        | Call::Cancel(_)
        | Call::CancelReplies(_)
        | Call::SharePrefetch(_)
        | Call::CatchUp
        | Call::CloseChannel(_)
        | Call::CloseConnection { .. } => Answer::Done,
        Call::UpdateSecret { .. } => Answer::SecretUpdated {
            impersonator: false,
        },
    }
}

/// Pretend queues have a number that is a sum over their name.
pub(crate) fn queue_id(name: &str) -> QueueId {
    QueueId::new(name.bytes().map(u64::from).sum())
}

/// What a delivery of this place stands for.
pub(crate) fn at(queue: &str, seq: u64) -> HandedOut {
    HandedOut {
        queue: queue_id(queue),
        seq: Seq::new(seq),
        handout: handout(seq),
    }
}

fn handout(seq: u64) -> Handout {
    Handout::new(1000 + u32::try_from(seq).expect("places are small here"))
}

pub(crate) fn key(channel: u16, opening: u32) -> ChannelKey {
    ChannelKey {
        connection: ConnectionId::new(7),
        channel,
        opening,
    }
}

pub(crate) fn message(exchange: &str, routing_key: &str, body: &[u8]) -> Message {
    Message::new(MessageParts {
        exchange: exchange.as_bytes(),
        routing_key: routing_key.as_bytes(),
        properties: RawProperties::EMPTY.as_bytes(),
        body: Bytes::copy_from_slice(body),
        persistent: false,
        priority: None,
    })
}

// --- bytes

pub(crate) fn raw_frame(kind: u8, channel: u16, payload: &[u8]) -> BytesMut {
    raw_frame_with_end(kind, channel, payload, frame::FRAME_END)
}

pub(crate) fn raw_frame_with_end(kind: u8, channel: u16, payload: &[u8], end: u8) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_u8(kind);
    out.put_u16(channel);
    out.put_u32(payload.len() as u32);
    out.put_slice(payload);
    out.put_u8(end);
    out
}

pub(crate) fn method_frame(channel: u16, method: impl Into<Method>) -> BytesMut {
    let mut out = BytesMut::new();
    frame::put_method(&mut out, ChannelId::new(channel), &method.into());
    out
}

pub(crate) fn header_frame(channel: u16, size: u64, properties: &RawProperties) -> BytesMut {
    let mut out = BytesMut::new();
    frame::put_content_header(
        &mut out,
        ChannelId::new(channel),
        size,
        properties.as_bytes(),
    );
    out
}

pub(crate) fn body_frame(channel: u16, payload: &[u8]) -> BytesMut {
    raw_frame(3, channel, payload)
}

pub(crate) fn publish_method(exchange: &str, routing_key: &str) -> basic::Publish {
    basic::Publish {
        exchange: short(exchange),
        routing_key: short(routing_key),
        ..basic::Publish::default()
    }
}

pub(crate) fn publish_frames(
    channel: u16,
    exchange: &str,
    routing_key: &str,
    properties: &RawProperties,
    body: &[u8],
) -> BytesMut {
    let mut out = method_frame(channel, publish_method(exchange, routing_key));
    out.put_slice(&header_frame(channel, body.len() as u64, properties));
    if !body.is_empty() {
        out.put_slice(&body_frame(channel, body));
    }
    out
}

// --- methods of the handshake

pub(crate) fn start_ok(
    mechanism: &str,
    response: &[u8],
    capabilities: &[&'static str],
) -> connection::StartOk {
    let capabilities: FieldTable = capabilities
        .iter()
        .map(|name| (ShortString::from_static(name), FieldValue::Bool(true)))
        .collect();
    connection::StartOk {
        client_properties: FieldTable::new().with("capabilities", FieldValue::Table(capabilities)),
        mechanism: short(mechanism),
        response: LongString::from(response.to_vec()),
        locale: short("en_US"),
    }
}

pub(crate) fn tune_ok(channel_max: u16, frame_max: u32, heartbeat: u16) -> connection::TuneOk {
    connection::TuneOk {
        channel_max,
        frame_max,
        heartbeat,
    }
}

pub(crate) fn open_vhost(vhost: &str) -> connection::Open {
    connection::Open {
        virtual_host: short(vhost),
        ..connection::Open::default()
    }
}

pub(crate) fn declare(queue: &str) -> queue::Declare {
    queue::Declare {
        queue: short(queue),
        ..queue::Declare::default()
    }
}

pub(crate) fn passive(queue: &str) -> queue::Declare {
    queue::Declare {
        passive: true,
        ..declare(queue)
    }
}

pub(crate) fn declare_ok(queue: &str) -> queue::DeclareOk {
    queue::DeclareOk {
        queue: short(queue),
        message_count: 3,
        consumer_count: 2,
    }
}
