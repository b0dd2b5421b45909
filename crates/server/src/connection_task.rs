//! The reading half of a connection: drives its session, submits what it stages, carries out its calls.

use std::{
    fmt,
    future::{self, poll_fn},
    ops::ControlFlow,
    pin::{Pin, pin},
    sync::Arc,
    time::{Duration, Instant},
};

use leveret_core::ids::ConnectionId;
use leveret_runtime::{ConnectionState, Endpoint, Outbox, Unwritten, contained, contained_task};
use leveret_session::{
    Answer, Call, CloseHow, Connection, EndReason, Input, Millis, News, Settings, Step, Tick,
};
use leveret_wire::reply_code::ReplyCode;
use tokio::{
    sync::watch,
    task::yield_now,
    time::{Instant as TokioInstant, sleep, sleep_until, timeout},
};
use tracing::{Instrument, debug, error, info, info_span};

use crate::{
    calls::{Afterwards, Calls},
    outbox::{ConnectionOutbox, Order},
    server::Host,
    stage::Stage,
    transport::{ReadHalf, Transport},
    welcome::Shown,
    writer,
};

/// Smallest and largest read; a busy connection's reads grow, so that a batch is worth its locks.
const READ_BYTES_MIN: usize = 4 * 1024;
const READ_BYTES_MAX: usize = 256 * 1024;

/// How long the last bytes may take to leave once the reader is done.
const LAST_WRITE_DEADLINE: Duration = Duration::from_secs(3);

/// How long the disk is still waited for when nobody wants the answer any more: the client is gone, or is about to be told
/// to go. Far more than a disk takes that is well, and less than a stop of the broker waits for its clients.
const CALL_GRACE: Duration = Duration::from_secs(3);

/// What is read ahead while a call waits, to see whether the client is still there: as much as one read may take anyway.
const AHEAD_BYTES_MAX: usize = READ_BYTES_MAX;

/// What clients are told of a stop.
const SHUTDOWN: &str = "broker forced connection closure with reason 'shutdown'";

/// What is logged of a client that goes without a close.
const LOST: &str = "client unexpectedly closed TCP connection";

/// The same of one that nothing is heard of.
const MISSED: &str = "missed heartbeats from client";

/// Far enough away for a connection that waits for nothing.
const NO_DEADLINE: Duration = Duration::from_secs(24 * 3600);

/// A socket on which AMQP is due, and everything it needs.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) id: ConnectionId,
    pub(crate) stream: Transport,
    pub(crate) peer: Endpoint,
    pub(crate) local: Endpoint,
    /// When the socket was accepted: what came before AMQP counts for its time limit.
    pub(crate) accepted_at: Instant,
    pub(crate) tls: Option<Box<Shown>>,
    pub(crate) host: Host,
}

/// Serves one connection until it ends, and cleans up behind it.
pub(crate) fn run(accepted: Accepted) -> impl Future<Output = ()> {
    let span = info_span!("connection", id = %accepted.id, peer = %accepted.peer);
    // Made at once: an asynchronous function would keep room for what it was given beside what it makes of it.
    let (reader, writing) = span.in_scope(|| start(accepted));
    serve(reader, writing).instrument(span)
}

/// Makes the two halves.
fn start(accepted: Accepted) -> (Box<Reader>, Writing) {
    let Accepted {
        id,
        stream,
        peer,
        local,
        accepted_at: started,
        tls,
        host,
    } = accepted;
    let Host {
        broker,
        settings,
        stopping,
        ..
    } = host;
    let outbox = Arc::new(ConnectionOutbox::new(started, broker.memory_shortage()));
    broker.connect(id, outbox.clone() as Arc<dyn Outbox>);
    let (socket, write_half) = stream.into_split();
    let writer = Box::pin(writer::run(write_half, outbox.clone()));
    let settings = match broker.offered_channel_max() {
        Some(channel_max) => Arc::new(Settings {
            channel_max,
            ..(*settings).clone()
        }),
        None => settings,
    };
    let mut session = Connection::new(id, Millis::default(), settings);
    let mut tls_facts = None;
    if let Some(shown) = tls {
        if let Some(user) = &shown.login {
            session = session.certified_as(user.as_bytes());
        }
        tls_facts = Some(Box::new(shown.facts));
    }
    let reader = Reader {
        session,
        input: Input::new(),
        stage: Stage::new(broker.clone()),
        calls: Calls::new(id, peer, local, tls_facts, broker, outbox.clone()),
        news: News::default(),
        socket,
        unwritten: Unwritten::default(),
        read_bytes: READ_BYTES_MIN,
        received_bytes: 0,
        reads: 0,
        is_lost: false,
        is_paused: false,
        has_more: false,
        stopping,
        beat: Beat {
            seen_write: Millis::default(),
            has_missed: false,
        },
        outbox,
    };
    (Box::new(reader), writer)
}

async fn serve(mut reader: Box<Reader>, writing: Writing) {
    let actor = reader.calls.actor.clone();
    let outbox = reader.outbox.clone();
    let turns = in_turns(actor.acts(reader.run()), writing, outbox);
    if contained_task(turns).await.is_err() {
        error!("a bug of the broker has ended this connection");
        // What it held goes back, as far as that is known.
        let _ = contained(|| reader.let_go());
    }
    reader.calls.broker.disconnect(reader.calls.id);
}

/// Reads and writes in one task, first what there is to read: what comes of it for the same client leaves in the same
/// turn, and nobody has to be woken for it. Done when reading is.
fn in_turns(
    reading: impl Future<Output = ()>,
    writing: Writing,
    outbox: Arc<ConnectionOutbox>,
) -> impl Future<Output = ()> {
    let mut reading = Box::pin(reading);
    let mut writing = Some(writing);
    poll_fn(move |context| {
        outbox.begin_reading();
        let read = reading.as_mut().poll(context);
        outbox.stop_reading();
        if read.is_pending()
            && let Some(unfinished) = &mut writing
            && unfinished.as_mut().poll(context).is_ready()
        {
            writing = None;
            outbox.ended();
            // It may wait for just that.
            return reading.as_mut().poll(context);
        }
        read
    })
}

/// The writing half at work.
type Writing = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Debug)]
struct Reader {
    session: Connection,
    input: Input,
    stage: Stage,
    calls: Calls,
    news: News,
    socket: ReadHalf,
    /// What was published here and is not on disk.
    unwritten: Unwritten,
    /// How much the next read may take.
    read_bytes: usize,
    /// How much came so far, and how often something came.
    received_bytes: u64,
    reads: u64,
    /// The client went without a close.
    is_lost: bool,
    /// It waits for room.
    is_paused: bool,
    /// More was read than one turn takes.
    has_more: bool,
    stopping: watch::Receiver<bool>,
    beat: Beat,
    outbox: Arc<ConnectionOutbox>,
}

impl Reader {
    /// What it does now and then is on the heap while it does it, or every connection would keep room for it.
    async fn run(&mut self) {
        let mut owes_way = false;
        let how = loop {
            match self.work_through().await {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(how) => break how,
            }
            owes_way |= self.stage.take_submitted();
            match self.wait_for_room().await {
                ControlFlow::Continue(Waited::ToTheEnd) if std::mem::take(&mut self.has_more) => {
                    match self.look_around() {
                        ControlFlow::Continue(()) => {}
                        ControlFlow::Break(how) => break how,
                    }
                    // The writing half has its turn, and so have others.
                    yield_now().await;
                    owes_way = false;
                    continue;
                }
                ControlFlow::Continue(Waited::ToTheEnd) => {}
                // There is something to do before the next read.
                ControlFlow::Continue(Waited::UntilToldToClose | Waited::InTheMiddle) => continue,
                ControlFlow::Break(how) => break how,
            }
            let mut has_given_way = false;
            let waited = {
                let mut waiting = pin!(self.wait());
                poll_fn(|context| {
                    let polled = waiting.as_mut().poll(context);
                    has_given_way |= polled.is_pending();
                    polled
                })
                .await
            };
            if owes_way && !has_given_way {
                // Writers that were just woken wait on this thread, out of reach of the others. A client that never
                // stops sending must not keep them waiting. Where there was nothing to read they had their turn, and
                // a yield would wake a second thread for nothing.
                yield_now().await;
            }
            owes_way = false;
            match waited {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(how) => break how,
            }
        };
        // Whatever ended it: nothing is delivered to it any more, and what it held goes back.
        self.let_go();
        let missed = self.beat.has_missed.then_some(MISSED);
        let lost = self.is_lost.then_some(LOST);
        self.calls.log_end(lost.or(missed));
        Box::pin(self.close(how)).await;
    }

    fn let_go(&mut self) {
        self.learn();
        self.calls.end(&self.session.open_channels());
    }

    /// Everything that was read, up to the last whole frame.
    async fn work_through(&mut self) -> ControlFlow<CloseHow> {
        self.learn();
        loop {
            let now = self.outbox.now();
            self.session.hold_publishers(self.calls.broker.has_alarm());
            let step = self.session.receive(now, &mut self.input, &mut self.stage);
            let is_unread = self.flush() > self.outbox.unread_max();
            if is_unread && !matches!(step, Step::Close(_)) {
                // An operator's close ends the wait, and the session finds it next.
                Box::pin(self.pause(Pause::Client)).await?;
            }
            match step {
                Step::NeedInput => return ControlFlow::Continue(()),
                Step::Submit => {
                    self.has_more = true;
                    return ControlFlow::Continue(());
                }
                Step::Close(how) => return ControlFlow::Break(how),
                Step::Call(call) => {
                    let Some((answer, afterwards)) = Box::pin(self.carry_out(call)).await? else {
                        continue;
                    };
                    let Self {
                        session, outbox, ..
                    } = self;
                    let now = outbox.now();
                    outbox.with(|outgoing| session.answer(now, answer, outgoing));
                    match afterwards {
                        Afterwards::Nothing => {}
                        Afterwards::TellOpened => {
                            if self.calls.broker.tells_events() {
                                self.calls.tell_opened(&self.session.status());
                            }
                        }
                        Afterwards::Serve(queue, consumer) => queue.resume(consumer),
                        Afterwards::Wake(channel) => outbox.wake(channel),
                        Afterwards::TellCancelled(consumers) => {
                            self.calls.broker.tell_cancelled(&consumers)
                        }
                    }
                }
            }
        }
    }

    /// Carries a call out, for as long as its answer is wanted. Without an answer the session goes on to its end.
    async fn carry_out(
        &mut self,
        call: Call,
    ) -> ControlFlow<CloseHow, Option<(Answer, Afterwards)>> {
        let Self {
            session,
            stage,
            calls,
            beat,
            outbox,
            socket,
            input,
            stopping,
            ..
        } = self;
        let mut stopping = stopping.clone();
        let mut ahead = 0;
        let unwanted = async {
            let reason = tokio::select! {
                biased;
                () = outbox.told_to_close() => Unwanted::ToldToClose,
                _ = stopping.changed() => Unwanted::Stopping,
                () = hung_up(socket, input, &mut ahead) => Unwanted::Gone,
                () = outbox.end_reached() => Unwanted::Gone,
            };
            sleep(CALL_GRACE).await;
            reason
        };
        let work = async {
            tokio::select! {
                biased;
                done = calls.carry_out(call, stage) => Ok(done),
                reason = unwanted => Err(reason),
            }
        };
        let carried_out = beat.during(work, session, outbox).await?;
        outbox.remind_of_orders();
        if ahead > 0 {
            self.note_read(ahead);
        }
        let reason = match carried_out {
            Ok(done) => return ControlFlow::Continue(Some(done)),
            Err(reason) => reason,
        };
        info!("a call that waits for the disk is given up: {reason}");
        match reason {
            Unwanted::Gone => {
                return self
                    .lost("the client went while a call waited")
                    .map_continue(|()| None);
            }
            Unwanted::ToldToClose => {
                self.obey();
            }
            Unwanted::Stopping => {
                self.stopping.mark_unchanged();
                self.session
                    .force_close(ReplyCode::ConnectionForced, SHUTDOWN);
            }
        }
        self.session.give_up_call();
        ControlFlow::Continue(None)
    }

    /// Replies and owed confirms first, then one lock round per queue. How much the client has not taken yet.
    fn flush(&mut self) -> usize {
        let Self {
            session,
            stage,
            outbox,
            ..
        } = self;
        let pending = outbox.with(|outgoing| {
            outgoing.append(session.replies());
            stage.announce(outgoing);
            outgoing.pending_bytes()
        });
        stage.submit();
        let room = stage.take_room();
        if !room.is_empty() {
            outbox.give_back_room(&room);
        }
        pending
    }

    fn learn(&mut self) {
        self.outbox
            .with(|outgoing| outgoing.take_delivered(&mut self.news));
        self.session.learn_deliveries(&mut self.news);
    }

    /// While memory or disk are low, or the disk is behind, a publisher waits; consumers' acks on other sockets do
    /// not. A stop of the broker ends the wait.
    async fn wait_for_room(&mut self) -> ControlFlow<CloseHow, Waited> {
        if self.session.take_held() {
            // More may have been read already.
            Box::pin(self.wait_for_the_end_of_the_alarm()).await?;
            return ControlFlow::Continue(Waited::InTheMiddle);
        }
        if !self.stage.take_published() {
            return ControlFlow::Continue(Waited::ToTheEnd);
        }
        let to_be_stored = self.stage.take_to_be_stored();
        if to_be_stored > 0 {
            self.calls
                .broker
                .note_unwritten(&mut self.unwritten, to_be_stored);
        }
        if self.calls.broker.has_alarm()
            && Box::pin(self.wait_for_the_end_of_the_alarm()).await? == Waited::UntilToldToClose
        {
            return ControlFlow::Continue(Waited::UntilToldToClose);
        }
        if self.calls.broker.has_room_for_writes(&mut self.unwritten) {
            return ControlFlow::Continue(Waited::ToTheEnd);
        }
        Box::pin(self.pause(Pause::Disk)).await
    }

    /// The client is told, if it can be; and told once, even if another alarm comes meanwhile.
    async fn wait_for_the_end_of_the_alarm(&mut self) -> ControlFlow<CloseHow, Waited> {
        let alarm = self.calls.broker.alarm();
        if !alarm.is_on() {
            return ControlFlow::Continue(Waited::ToTheEnd);
        }
        info!(reason = alarm.reason(), "publisher blocked");
        self.outbox
            .with(|outgoing| outgoing.tell_blocked(alarm.reason()));
        let waited = self.pause(Pause::Alarm).await?;
        self.outbox.with(leveret_session::Outgoing::tell_unblocked);
        ControlFlow::Continue(waited)
    }

    /// Does not read until there is room, the client is up to date, the broker stops, or somebody wants the connection closed.
    async fn pause(&mut self, pause: Pause) -> ControlFlow<CloseHow, Waited> {
        self.is_paused = true;
        let waited = self.pause_until_there_is_room(pause).await;
        self.is_paused = false;
        waited
    }

    async fn pause_until_there_is_room(&mut self, pause: Pause) -> ControlFlow<CloseHow, Waited> {
        loop {
            let Self {
                session,
                calls,
                beat,
                outbox,
                unwritten,
                stopping,
                ..
            } = self;
            let broker = &calls.broker;
            // Whoever waits for the stop next learns of it at once.
            let mut stopping = stopping.clone();
            let room = async {
                match pause {
                    Pause::Alarm => broker.alarm_cleared().await,
                    Pause::Disk => broker.room_for_writes(unwritten).await,
                    Pause::Client => return outbox.drained().await,
                }
                true
            };
            let wait = async {
                tokio::select! {
                    biased;
                    () = outbox.ordered() => Paused::Ordered,
                    is_there = room => if is_there { Paused::Over } else { Paused::InVain },
                    // The sender is gone only with the server, which is a stop too.
                    _ = stopping.changed() => Paused::Over,
                    // It is not read, and so its end shows by what it does not take.
                    () = outbox.end_reached() => Paused::Gone,
                }
            };
            match beat.without_reading(wait, session, outbox).await? {
                Paused::Ordered => {}
                Paused::Over => return ControlFlow::Continue(Waited::ToTheEnd),
                Paused::InVain => {
                    info!("the client does not take what it asked for");
                    return ControlFlow::Break(CloseHow::Now);
                }
                Paused::Gone => {
                    return self
                        .lost("the client went while it was not read")
                        .map_continue(|()| Waited::ToTheEnd);
                }
            }
            if self.obey() {
                return ControlFlow::Continue(Waited::UntilToldToClose);
            }
        }
    }

    /// Waits for bytes, a deadline or the broker's stop. What an idle connection is in the middle of: an asynchronous
    /// function would keep `self` twice, here and one call further out.
    fn wait(&mut self) -> impl Future<Output = ControlFlow<CloseHow>> {
        self.input.release_idle_capacity();
        self.session.release_idle_capacity();
        self.stage.release_capacity();
        self.news.release_capacity();
        async move {
            loop {
                let deadline = Beat::deadline(&self.session, &self.outbox);
                tokio::select! {
                    biased;
                    // First, since a client may never stop sending.
                    () = self.outbox.ordered() => {
                        if self.obey() {
                            return ControlFlow::Continue(());
                        }
                    }
                    // First, or a client that never stops sending would never hear of it.
                    Ok(()) = self.stopping.changed() => {
                        // What was read is answered before the close frame, if the disk is well; nothing more is read.
                        let _ = timeout(CALL_GRACE, Box::pin(self.calls.broker.flush())).await;
                        self.session
                            .force_close(ReplyCode::ConnectionForced, SHUTDOWN);
                        return ControlFlow::Continue(());
                    }
                    read = self.socket.read(&mut self.input, self.read_bytes) => {
                        match read {
                            Ok(0) => return self.lost("the client closed the socket"),
                            Ok(read) => {
                                self.note_read(read);
                                return ControlFlow::Continue(());
                            }
                            Err(error) => return self.lost(&error.to_string()),
                        }
                    }
                    () = sleep_until(deadline) => self.beat.tick(&mut self.session, &self.outbox)?,
                    () = self.outbox.has_news() => return ControlFlow::Continue(()),
                }
            }
        }
    }

    /// Between two turns over the same read: what would be seen between two reads.
    fn look_around(&mut self) -> ControlFlow<CloseHow> {
        self.obey();
        // Nobody reads meanwhile, so that silence of the client means nothing.
        self.session.pause_reading(true);
        let ticked = self.beat.tick(&mut self.session, &self.outbox);
        self.session.pause_reading(false);
        ticked
    }

    /// Does what operators asked for; `true` when the session has to go on by it.
    fn obey(&mut self) -> bool {
        let mut closes = false;
        for order in self.outbox.take_orders() {
            match order {
                Order::Close(text) => {
                    self.session.force_close(ReplyCode::ConnectionForced, &text);
                    closes = true;
                }
                Order::Inspect(answer) => {
                    self.learn();
                    let state = self
                        .calls
                        .channel_states(self.session.status(), &self.stage);
                    // Whoever asked may have lost patience.
                    let _ = answer.send(ConnectionState {
                        received_bytes: self.received_bytes,
                        sent_bytes: self.outbox.sent_bytes(),
                        reads: self.reads,
                        writes: self.outbox.writes(),
                        pending_bytes: self.outbox.with(|outgoing| outgoing.pending_bytes()) as u64,
                        is_blocked: self.is_paused,
                        ..state
                    });
                }
            }
        }
        closes
    }

    /// A busy connection's reads grow.
    fn note_read(&mut self, read: usize) {
        self.received_bytes += read as u64;
        self.reads += 1;
        self.outbox.read(read as u64);
        if read >= self.read_bytes {
            self.read_bytes = (self.read_bytes * 2).min(READ_BYTES_MAX);
        } else if read < self.read_bytes / 4 {
            self.read_bytes = (self.read_bytes / 2).max(READ_BYTES_MIN);
        }
    }

    fn lost(&mut self, reason: &str) -> ControlFlow<CloseHow> {
        debug!(%reason, "connection lost");
        self.is_lost = self.session.is_running();
        ControlFlow::Break(CloseHow::Now)
    }

    /// Lets the last frames leave, then ends the socket.
    async fn close(&mut self, how: CloseHow) {
        let linger = match how {
            CloseHow::Now => Duration::ZERO,
            CloseHow::Linger { until } => {
                Duration::from_millis(until.get().saturating_sub(self.outbox.now().get()))
            }
        };
        // A reset would throw away what the peer has not read yet, so its bytes are read and dropped.
        let _ = timeout(linger, self.discard_input()).await;
        self.outbox.end();
        let ended = timeout(LAST_WRITE_DEADLINE, self.outbox.end_reached());
        if ended.await.is_err() {
            debug!("the client does not read its last frames");
        }
    }

    async fn discard_input(&mut self) {
        let mut sink = Input::new();
        while let Ok(1..) = self.socket.read(&mut sink, READ_BYTES_MIN).await {
            sink = Input::new();
            yield_now().await;
        }
    }
}

/// Why a publisher is not read.
#[derive(Debug, Clone, Copy)]
enum Pause {
    Alarm,
    Disk,
    /// It has not taken what it asked for.
    Client,
}

/// What ended a wait.
#[derive(Debug, Clone, Copy)]
enum Paused {
    Ordered,
    Over,
    InVain,
    Gone,
}

/// Why nobody wants the answer to a call any more.
#[derive(Debug, Clone, Copy)]
enum Unwanted {
    /// The client has ended the socket.
    Gone,
    /// Somebody wants the connection closed.
    ToldToClose,
    /// The broker stops.
    Stopping,
}

impl fmt::Display for Unwanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gone => "the client is gone",
            Self::ToldToClose => "the connection is to be closed",
            Self::Stopping => "the broker stops",
        })
    }
}

/// Returns when the client has ended the socket. What it sent before is read ahead, which is the only way to see it on every
/// kind of socket; of a client that has sent more than that, the writing half sees the end.
async fn hung_up(socket: &mut ReadHalf, input: &mut Input, ahead: &mut usize) {
    while *ahead < AHEAD_BYTES_MAX {
        match socket.read(input, READ_BYTES_MIN).await {
            // It is found again by whoever reads next.
            Ok(0) | Err(_) => return,
            Ok(read) => *ahead += read,
        }
    }
    future::pending().await
}

/// How a pause ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waited {
    ToTheEnd,
    UntilToldToClose,
    /// With frames left that were read before it.
    InTheMiddle,
}

/// Looks at the session's deadlines, also while the reader waits for somebody else: a slow disk must
/// not make a client miss heartbeats.
#[derive(Debug)]
struct Beat {
    /// The session's time zero.
    seen_write: Millis,
    /// The client's heart stands still.
    has_missed: bool,
}

impl Beat {
    /// Waits for `work` and meanwhile does what deadlines ask for.
    async fn during<T>(
        &mut self,
        work: impl Future<Output = T>,
        session: &mut Connection,
        outbox: &ConnectionOutbox,
    ) -> ControlFlow<CloseHow, T> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return ControlFlow::Continue(done),
                () = sleep_until(Self::deadline(session, outbox)) => {
                    if let ControlFlow::Break(how) = self.tick(session, outbox) {
                        return ControlFlow::Break(how);
                    }
                }
            }
        }
    }

    /// The same while the socket is not read: the silence of the client means nothing then.
    async fn without_reading<T>(
        &mut self,
        work: impl Future<Output = T>,
        session: &mut Connection,
        outbox: &ConnectionOutbox,
    ) -> ControlFlow<CloseHow, T> {
        session.pause_reading(true);
        let waited = self.during(work, session, outbox).await;
        session.pause_reading(false);
        waited
    }

    fn deadline(session: &Connection, outbox: &ConnectionOutbox) -> TokioInstant {
        session.next_deadline().map_or_else(
            || TokioInstant::now() + NO_DEADLINE,
            |deadline| TokioInstant::from_std(outbox.moment(deadline)),
        )
    }

    fn tick(
        &mut self,
        session: &mut Connection,
        outbox: &ConnectionOutbox,
    ) -> ControlFlow<CloseHow> {
        let written = outbox.written_at();
        if written > self.seen_write {
            self.seen_write = written;
            session.wrote();
        }
        match session.tick(outbox.now()) {
            Tick::Wait => ControlFlow::Continue(()),
            Tick::Flush => {
                outbox.with(|outgoing| outgoing.append(session.replies()));
                ControlFlow::Continue(())
            }
            Tick::Close(reason) => {
                debug!(?reason, "connection ended without a word");
                self.has_missed = reason == EndReason::MissedHeartbeats;
                ControlFlow::Break(CloseHow::Now)
            }
        }
    }
}
