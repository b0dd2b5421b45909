//! The outgoing half of a connection as queues and the committer see it.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    ops::RangeInclusive,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;
use leveret_core::{
    ids::{ChannelKey, ConsumerId, HandedOut, QueueId},
    message::Message,
    queue::{Delivery, Overdue},
};
use leveret_runtime::{
    Answered, ConnectionControl, ConnectionState, Outbox, Pressure, QueueHandle, Traffic,
    TrafficCounts,
};
use leveret_session::{Millis, Outgoing};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{Notify, futures::Notified, oneshot},
    time::timeout,
};

/// What may wait for a client that does not read.
#[derive(Debug, Clone, Copy)]
struct Waters {
    /// Above this many bytes the connection's consumers pause: a slow reader never costs more memory.
    high: usize,
    /// At this many bytes they go on.
    low: usize,
    /// Above this many bytes the client is not read, down to the low-water mark: what it asks for, it has to take. More
    /// than consumers leave, so that a slow one can still ack.
    unread: usize,
    /// Above this many bytes replies without a queue are dropped: unlike a queue's messages they have nowhere to wait, and
    /// nobody was promised more than an attempt.
    replies: usize,
}

/// While there is memory.
const ROOMY: Waters = Waters {
    high: 8 * 1024 * 1024,
    low: 2 * 1024 * 1024,
    unread: 16 * 1024 * 1024,
    replies: 64 * 1024 * 1024,
};

/// While memory is short: thousands of slow readers together must not fetch from the disk what there is no room for.
const SHORT: Waters = Waters {
    high: 256 * 1024,
    low: 64 * 1024,
    unread: 2 * 1024 * 1024,
    replies: 1024 * 1024,
};

/// How long a client that is not read may take nothing at all.
const STALL_LIMIT: Duration = Duration::from_secs(30);

/// Encoded bytes on their way to the socket, and whom to wake for them.
#[derive(Debug)]
pub(crate) struct ConnectionOutbox {
    state: Mutex<State>,
    /// The connection's task is in its reading half and comes to its writing half before it waits: nobody has to wake it.
    is_reading: AtomicBool,
    /// What operators asked of the reader, and its bell.
    orders: Mutex<Vec<Order>>,
    order_bell: Notify,
    /// Bytes that left.
    sent_bytes: AtomicU64,
    /// How often.
    writes: AtomicU64,
    /// Of its vhost, once that is open.
    traffic: OnceLock<Arc<Traffic>>,
    /// Rings when the reader has to learn what happened without waiting for the client.
    reader_bell: Notify,
    /// Rings when a reader may go on that waits for the decision of a commit, or for the client to take what is here.
    /// It waits for one at a time, and looks for itself.
    go_on_bell: Notify,
    /// Monotonic time zero of this connection.
    started: Instant,
    /// When the writer last wrote something, in milliseconds.
    written_at: AtomicU64,
    is_memory_short: Arc<AtomicBool>,
}

/// What an operator asks of a connection.
#[derive(Debug)]
pub(crate) enum Order {
    /// Close with 320 and this text.
    Close(String),
    /// Tell what the connection does.
    Inspect(oneshot::Sender<ConnectionState>),
}

#[derive(Debug)]
struct State {
    outgoing: Outgoing,
    /// Consumers that were paused, to be resumed at the low-water mark.
    paused: BTreeSet<ConsumerId>,
    /// Those on queues. There may be tens of thousands.
    consumers: BTreeMap<ConsumerId, Arc<QueueHandle>>,
    /// The reader waits until the client has taken what is here.
    reader_waits: bool,
    end: End,
    /// The writer, while it waits for something to write.
    writer: Option<Waker>,
}

/// How far the connection is towards its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It goes on.
    Open,
    /// What is there is still written, then the socket is closed.
    AfterLastByte,
    /// Nothing is written any more.
    Reached,
}

impl ConnectionOutbox {
    pub(crate) fn new(started: Instant, is_memory_short: Arc<AtomicBool>) -> Self {
        let state = State {
            outgoing: Outgoing::new(),
            paused: BTreeSet::new(),
            consumers: BTreeMap::new(),
            reader_waits: false,
            end: End::Open,
            writer: None,
        };
        Self {
            state: Mutex::new(state),
            is_reading: AtomicBool::new(false),
            orders: Mutex::new(Vec::new()),
            order_bell: Notify::new(),
            sent_bytes: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            traffic: OnceLock::new(),
            reader_bell: Notify::new(),
            go_on_bell: Notify::new(),
            started,
            written_at: AtomicU64::new(0),
            is_memory_short,
        }
    }

    fn waters(&self) -> Waters {
        if self.is_memory_short.load(Ordering::Relaxed) {
            SHORT
        } else {
            ROOMY
        }
    }

    /// Above this many bytes the client is not read.
    pub(crate) fn unread_max(&self) -> usize {
        self.waters().unread
    }

    /// Monotonic milliseconds since the connection was accepted.
    pub(crate) fn now(&self) -> Millis {
        Millis::new(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// When it is so many milliseconds later than that.
    pub(crate) fn moment(&self, since: Millis) -> Instant {
        self.started + Duration::from_millis(since.get())
    }

    pub(crate) fn written_at(&self) -> Millis {
        Millis::new(self.written_at.load(Ordering::Relaxed))
    }

    /// Works on the outgoing half, then rings for the writer if there is something to write.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Outgoing) -> T) -> T {
        let mut state = self.state.lock();
        let result = work(&mut state.outgoing);
        self.ring(state);
        result
    }

    /// From now on the queue is told when this consumer's reader has caught up.
    pub(crate) fn add_consumer(&self, consumer: ConsumerId, queue: Arc<QueueHandle>) {
        self.state.lock().consumers.insert(consumer, queue);
    }

    /// The consumers on queues, and where they are.
    pub(crate) fn consumers(&self) -> Vec<(ConsumerId, Arc<QueueHandle>)> {
        let state = self.state.lock();
        let consumers = state.consumers.iter();
        consumers.map(|(&id, queue)| (id, queue.clone())).collect()
    }

    /// These are gone.
    pub(crate) fn remove_consumers(&self, gone: RangeInclusive<ConsumerId>) {
        let mut state = self.state.lock();
        let consumers = state.consumers.extract_if(gone.clone(), |_, _| true);
        consumers.for_each(drop);
        let paused = state.paused.extract_if(gone, |_| true);
        paused.for_each(drop);
    }

    /// This one is gone.
    pub(crate) fn remove_consumer(&self, gone: ConsumerId) {
        let mut state = self.state.lock();
        state.consumers.remove(&gone);
        state.paused.remove(&gone);
    }

    /// Nothing comes behind what is there now. The reader says so, whose task writes it in the same turn.
    pub(crate) fn end(&self) {
        self.state.lock().end = End::AfterLastByte;
    }

    /// The writer has done what it could.
    pub(crate) fn ended(&self) {
        self.state.lock().end = End::Reached;
    }

    /// Waits until the writer has done what it could. For the reader, which is asked again when the writer is done.
    pub(crate) async fn end_reached(&self) {
        poll_fn(|_| match self.state.lock().end {
            End::Reached => Poll::Ready(()),
            End::Open | End::AfterLastByte => Poll::Pending,
        })
        .await;
    }

    /// The connection's task reads: what is put in here by it, or for it, is written in the same turn.
    pub(crate) fn begin_reading(&self) {
        self.is_reading.store(true, Ordering::Relaxed);
    }

    /// It asks its writing half next, which takes the lock: whoever has put something in under the lock before is seen
    /// by it, and whoever does behind it sees this.
    pub(crate) fn stop_reading(&self) {
        self.is_reading.store(false, Ordering::Relaxed);
    }

    /// Ready when there is something to write, or nothing more will come. An empty buffer is given up meanwhile.
    pub(crate) fn poll_rung(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.outgoing.pending_bytes() > 0 || state.end != End::Open {
            state.writer = None;
            return Poll::Ready(());
        }
        state.outgoing.release_idle_capacity();
        let waker = context.waker();
        if !(state.writer.as_ref()).is_some_and(|known| known.will_wake(waker)) {
            state.writer = Some(waker.clone());
        }
        Poll::Pending
    }

    /// Waits until there is news for the reader that cannot wait for the client's next bytes.
    pub(crate) fn has_news(&self) -> Notified<'_> {
        self.reader_bell.notified()
    }

    /// Waits until the commit at hand is decided: whether every queue accepted its publishes.
    pub(crate) async fn committed(&self) -> bool {
        loop {
            let committed = self.state.lock().outgoing.take_commit();
            if let Some(accepted) = committed {
                return accepted;
            }
            self.go_on_bell.notified().await;
        }
    }

    /// Takes everything that is to be written.
    pub(crate) fn take(&self, into: &mut Vec<Bytes>) -> End {
        let mut state = self.state.lock();
        state.outgoing.take(into);
        state.end
    }

    /// The vhost was opened whose traffic this is.
    pub(crate) fn count_for(&self, traffic: Arc<Traffic>) {
        // A connection opens one vhost, once.
        let _ = self.traffic.set(traffic);
    }

    /// Waits until an operator asks something.
    pub(crate) fn ordered(&self) -> Notified<'_> {
        self.order_bell.notified()
    }

    /// Waits until an operator wants the connection closed. Other orders stay; see [`Self::remind_of_orders`].
    pub(crate) async fn told_to_close(&self) {
        let is_close = |order: &Order| matches!(order, Order::Close(_));
        loop {
            self.ordered().await;
            if self.orders.lock().iter().any(is_close) {
                return;
            }
        }
    }

    /// Whoever waits for orders next finds those that were left.
    pub(crate) fn remind_of_orders(&self) {
        if !self.orders.lock().is_empty() {
            self.order_bell.notify_one();
        }
    }

    pub(crate) fn take_orders(&self) -> Vec<Order> {
        std::mem::take(&mut *self.orders.lock())
    }

    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    /// How often something was written.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// The reader read so many bytes.
    pub(crate) fn read(&self, bytes: u64) {
        if let Some(traffic) = self.traffic.get() {
            traffic.add_received(bytes);
        }
    }

    fn order(&self, order: Order) {
        self.orders.lock().push(order);
        self.order_bell.notify_one();
    }

    /// Waits until the client has taken most of what is here; `false` when it takes nothing for long.
    pub(crate) async fn drained(&self) -> bool {
        loop {
            {
                let mut state = self.state.lock();
                if state.outgoing.pending_bytes() <= self.waters().low {
                    return true;
                }
                state.reader_waits = true;
            }
            let sent = self.sent_bytes();
            let rung = timeout(STALL_LIMIT, self.go_on_bell.notified()).await;
            if rung.is_err() && self.sent_bytes() == sent {
                return false;
            }
        }
    }

    /// The socket took so many bytes.
    pub(crate) fn sent(&self, bytes: usize) {
        self.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.writes.fetch_add(1, Ordering::Relaxed);
        if let Some(traffic) = self.traffic.get() {
            traffic.add_sent(bytes as u64);
        }
    }

    /// The writer wrote what it took: consumers that waited for that go on.
    pub(crate) fn wrote(&self) {
        self.written_at.store(self.now().get(), Ordering::Relaxed);
        let resumed: Vec<(ConsumerId, Arc<QueueHandle>)> = {
            let State {
                outgoing,
                paused,
                consumers,
                reader_waits,
                ..
            } = &mut *self.state.lock();
            let is_low = outgoing.pending_bytes() <= self.waters().low;
            if *reader_waits && is_low {
                *reader_waits = false;
                self.go_on_bell.notify_one();
            }
            if paused.is_empty() || !is_low {
                return;
            }
            let resumed = std::mem::take(paused).into_iter();
            let resumed = resumed.filter_map(|id| Some((id, consumers.get(&id)?.clone())));
            resumed.collect()
        };
        for (consumer, queue) in resumed {
            queue.resume(consumer);
        }
    }

    /// Deliveries gave back the room they took: consumers that waited for it go on.
    pub(crate) fn give_back_room(&self, room: &[(ChannelKey, u64)]) {
        for &(channel, count) in room {
            self.with(|outgoing| outgoing.give_back_room(channel, count));
            self.wake(channel);
        }
    }

    /// Consumers that wait for room in their channel ask again, one queue after the other until there is none.
    pub(crate) fn wake(&self, channel: ChannelKey) {
        while let Some(waiting) = self.with(|outgoing| outgoing.next_waiting(channel)) {
            let queue = { self.state.lock().consumers.get(&waiting).cloned() };
            if let Some(queue) = queue {
                queue.ask_again(channel);
            }
        }
    }

    fn ring(&self, mut state: MutexGuard<'_, State>) {
        if state.outgoing.pending_bytes() == 0 || self.is_reading.load(Ordering::Relaxed) {
            return;
        }
        let writer = state.writer.take();
        drop(state);
        if let Some(writer) = writer {
            writer.wake();
        }
    }
}

impl ConnectionControl for ConnectionOutbox {
    fn close(&self, text: &str) {
        self.order(Order::Close(text.to_owned()));
    }

    fn inspect(&self, answer: oneshot::Sender<ConnectionState>) {
        self.order(Order::Inspect(answer));
    }
}

impl Outbox for ConnectionOutbox {
    fn deliver(&self, queue: QueueId, deliveries: &[Delivery]) -> Pressure {
        let mut state = self.state.lock();
        for delivery in deliveries {
            let Delivery {
                consumer,
                seq,
                handout,
                redelivered,
                message,
            } = delivery;
            let from = HandedOut {
                queue,
                seq: *seq,
                handout: *handout,
            };
            state
                .outgoing
                .deliver(*consumer, from, *redelivered, message);
        }
        let is_high = state.outgoing.pending_bytes() > self.waters().high;
        if is_high {
            let paused = deliveries.iter().map(|delivery| delivery.consumer);
            state.paused.extend(paused);
        }
        self.ring(state);
        if is_high {
            Pressure::High
        } else {
            Pressure::Low
        }
    }

    fn reserve(&self, consumer: ConsumerId) -> bool {
        self.state.lock().outgoing.reserve(consumer)
    }

    fn reply(&self, consumer: ConsumerId, message: &Message) {
        let most = self.waters().replies;
        self.with(|outgoing| {
            if outgoing.pending_bytes() <= most {
                // No ack will ask where it came from.
                outgoing.deliver(consumer, HandedOut::default(), false, message);
            }
        });
    }

    fn confirm(&self, answered: &[Answered]) {
        let (has_commit, confirm) = self.with(|outgoing| {
            for Answered { confirm, accepted } in answered {
                outgoing.confirm(confirm.channel, confirm.number, *accepted);
            }
            outgoing.flush_confirms();
            (outgoing.has_commit(), outgoing.take_confirmed())
        });
        if let Some(traffic) = self.traffic.get() {
            traffic.add(&TrafficCounts {
                confirm,
                ..TrafficCounts::default()
            });
        }
        if has_commit {
            self.go_on_bell.notify_one();
        }
    }

    fn overdue(&self, overdue: Overdue) {
        if self.with(|outgoing| outgoing.take_back(overdue)) {
            self.reader_bell.notify_one();
        }
        if let Some(consumer) = overdue.consumer {
            self.remove_consumer(consumer);
        }
    }

    fn cancel(&self, consumers: &[ConsumerId]) {
        self.with(|outgoing| {
            for &consumer in consumers {
                outgoing.cancel_consumer(consumer);
            }
        });
        for &consumer in consumers {
            self.remove_consumer(consumer);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Context, Poll, Wake, Waker},
        time::Instant,
    };

    use super::ConnectionOutbox;

    #[derive(Debug, Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn put_bytes(outbox: &ConnectionOutbox) {
        outbox.with(|outgoing| outgoing.append(&mut bytes::BytesMut::from(&b"frame"[..])));
    }

    #[test]
    fn what_others_put_in_wakes_the_waiting_task_once() {
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let outbox = ConnectionOutbox::new(Instant::now(), Arc::default());
        assert_eq!(
            outbox.poll_rung(&Context::from_waker(&waker)),
            Poll::Pending
        );
        put_bytes(&outbox);
        put_bytes(&outbox);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert_eq!(
            outbox.poll_rung(&Context::from_waker(&waker)),
            Poll::Ready(())
        );
    }

    #[test]
    fn what_is_put_in_while_the_task_reads_wakes_nobody_and_is_found_behind_it() {
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let outbox = ConnectionOutbox::new(Instant::now(), Arc::default());
        assert_eq!(
            outbox.poll_rung(&Context::from_waker(&waker)),
            Poll::Pending
        );
        outbox.begin_reading();
        put_bytes(&outbox);
        outbox.stop_reading();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
        assert_eq!(
            outbox.poll_rung(&Context::from_waker(&waker)),
            Poll::Ready(())
        );
    }
}
