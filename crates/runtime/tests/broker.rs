//! A whole broker without sockets: what comes to a connection's outbox, and what a restart finds.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    task::{Context, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;
use leveret_core::{
    ids::{ChannelKey, ConnectionId, ConsumerId, Handout, QueueId, Seq},
    message::{Message, MessageParts},
    queue::{Command, Confirm, ConsumerSettings, Delivery, Outcome, Overdue},
    record::{BindingRecord, Destination},
    refusal::Refusal,
    vhost::{ExchangeDeclare, QueueDeclare},
};
use leveret_runtime::{
    Amount, Answered, Broker, Limits, NodeOptions, Outbox, Pressure, QueueHandle, StartOptions,
    VhostHandle, contained,
};
use leveret_wire::value::{FieldTable, FieldValue, ShortString};
use parking_lot::{Condvar, Mutex};
use tempfile::TempDir;

/// Far above what anything here takes; a test that waits this long has failed.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Keeps what comes, and can be told to be full.
#[derive(Debug, Default)]
struct Recorder {
    came: Mutex<Came>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Came {
    bodies: Vec<String>,
    redelivered: Vec<bool>,
    held: Vec<(Seq, Handout)>,
    confirmed: BTreeMap<u64, u32>,
    cancelled: Vec<ConsumerId>,
    overdue: Vec<Overdue>,
    /// Deliveries after which it says that it is full.
    room: Option<usize>,
    refused: Vec<u64>,
    /// The next delivery meets a bug.
    has_bug: bool,
}

impl Outbox for Recorder {
    fn reserve(&self, consumer: ConsumerId) -> bool {
        panic!("nobody here shares a prefetch: {consumer:?}");
    }

    fn deliver(&self, _queue: QueueId, deliveries: &[Delivery]) -> Pressure {
        let mut came = self.came.lock();
        assert!(!std::mem::take(&mut came.has_bug), "the bug of this test");
        for delivery in deliveries {
            came.bodies
                .push(String::from_utf8_lossy(delivery.message.body()).into_owned());
            came.redelivered.push(delivery.redelivered);
            came.held.push((delivery.seq, delivery.handout));
        }
        self.changed.notify_all();
        match came.room {
            Some(room) if came.bodies.len() >= room => Pressure::High,
            Some(_) | None => Pressure::Low,
        }
    }

    fn confirm(&self, answered: &[Answered]) {
        let mut came = self.came.lock();
        for answer in answered {
            if !answer.accepted {
                came.refused.push(answer.confirm.number);
                continue;
            }
            *came.confirmed.entry(answer.confirm.number).or_default() += 1;
        }
        self.changed.notify_all();
    }

    fn reply(&self, _consumer: ConsumerId, message: &Message) {
        panic!("nobody here asked for replies: {message:?}");
    }

    fn overdue(&self, overdue: Overdue) {
        self.came.lock().overdue.push(overdue);
        self.changed.notify_all();
    }

    fn cancel(&self, consumers: &[ConsumerId]) {
        self.came.lock().cancelled.extend(consumers);
        self.changed.notify_all();
    }
}

impl Recorder {
    #[track_caller]
    fn wait_until(&self, what: &str, holds: impl Fn(&Came) -> bool) {
        let mut came = self.came.lock();
        while !holds(&came) {
            let timed_out = self.changed.wait_for(&mut came, TIME_LIMIT).timed_out();
            assert!(
                !timed_out,
                "waited in vain until {what}: {} deliveries",
                came.bodies.len()
            );
        }
    }
}

/// A broker with one connection and one channel.
struct Scenario {
    broker: Arc<Broker>,
    vhost: Arc<VhostHandle>,
    outbox: Arc<Recorder>,
    channel: ChannelKey,
}

impl Scenario {
    fn start(dir: &Path) -> Self {
        Self::start_with(dir, Limits::default())
    }

    fn start_with(dir: &Path, limits: Limits) -> Self {
        let store = leveret_store::Options::default();
        let options = StartOptions {
            data_dir: Some(dir.to_owned()),
            store,
            node: NodeOptions::default(),
            limits,
        };
        let broker = Broker::start(&options, |failure| panic!("storage failed: {failure}"));
        let broker = broker.expect("a usable directory");
        let vhost = broker.vhost(&name("/")).expect("every broker has it");
        let connection = broker.next_connection_id();
        let outbox = Arc::new(Recorder::default());
        broker.connect(connection, outbox.clone());
        let channel = ChannelKey {
            connection,
            channel: 1,
            opening: 1,
        };
        Self {
            broker,
            vhost,
            outbox,
            channel,
        }
    }

    async fn declare(
        &self,
        queue: &str,
        change: impl FnOnce(&mut QueueDeclare),
    ) -> Arc<QueueHandle> {
        let mut asked = QueueDeclare {
            name: name(queue),
            server_named: false,
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: FieldTable::default(),
            refused_if_new: None,
        };
        change(&mut asked);
        let connection = self.channel.connection;
        self.vhost
            .declare_queue(asked, connection)
            .await
            .expect("declared");
        self.queue(queue).expect("just declared")
    }

    fn queue(&self, queue: &str) -> Option<Arc<QueueHandle>> {
        let record = self.vhost.snapshot().queue(&name(queue)).ok()?.id;
        self.broker.queue(record)
    }

    /// The queue that takes the place of this one.
    async fn rebuilt(&self, broken: &Arc<QueueHandle>) -> Arc<QueueHandle> {
        let began = Instant::now();
        loop {
            let record = &broken.record().name;
            let known = self.queue(&record.to_string()).expect("it is there");
            if !Arc::ptr_eq(&known, broken) {
                return known;
            }
            assert!(began.elapsed() < TIME_LIMIT, "it stays broken");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn publish(&self, queue: &QueueHandle, bodies: impl Iterator<Item = String>, persistent: bool) {
        let mut commands: Vec<Command> = (1..)
            .zip(bodies)
            .map(|(number, body)| Command::Enqueue {
                message: message(&body, persistent),
                confirm: Some(Confirm {
                    channel: self.channel,
                    number,
                }),
            })
            .collect();
        queue.submit(&mut commands);
    }

    async fn consume(&self, queue: &str, settings: ConsumerSettings) -> ConsumerId {
        let consumer = ConsumerId {
            channel: self.channel,
            number: 1,
        };
        let outbox = self.outbox.clone();
        let queue = self
            .vhost
            .subscribe(
                &name(queue),
                consumer,
                settings,
                &FieldTable::default(),
                outbox,
            )
            .await;
        queue.expect("subscribed").resume(consumer);
        consumer
    }
}

impl Drop for Scenario {
    /// Before its directory goes. After an orderly stop this does nothing.
    fn drop(&mut self) {
        let _ = self.broker.stop();
    }
}

fn name(text: &str) -> ShortString {
    ShortString::try_from(text).expect("short")
}

fn with(argument: &'static str, value: i32) -> impl FnOnce(&mut QueueDeclare) {
    move |asked| asked.arguments = FieldTable::from_iter([(name(argument), FieldValue::Int(value))])
}

fn enqueue(message: Message) -> Command {
    Command::Enqueue {
        message,
        confirm: None,
    }
}

fn acked((seq, handout): (Seq, Handout)) -> Command {
    Command::Settle {
        seq,
        handout,
        outcome: Outcome::Acked,
        more: false,
    }
}

fn message(body: &str, persistent: bool) -> Message {
    Message::new(MessageParts {
        exchange: b"",
        routing_key: b"q",
        properties: &[0, 0],
        body: Bytes::copy_from_slice(body.as_bytes()),
        persistent,
        priority: None,
    })
}

fn numbered(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| number.to_string())
}

/// What a process that is killed now leaves behind.
fn killed(dir: &Path) -> TempDir {
    let copy = TempDir::new().expect("a directory");
    copy_files(dir, copy.path());
    copy
}

fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a directory") {
        let (entry, to) = entry
            .map(|entry| (entry.path(), to.join(entry.file_name())))
            .expect("it");
        if entry.is_dir() {
            fs::create_dir(&to).expect("made");
            copy_files(&entry, &to);
        } else {
            fs::copy(entry, to).expect("copied");
        }
    }
}

const MANUAL: ConsumerSettings = ConsumerSettings {
    prefetch: 0,
    no_ack: false,
    exclusive: false,
    priority: 0,
    ack_timeout_millis: None,
    shared_else: None,
};
const ONE: ConsumerSettings = ConsumerSettings {
    prefetch: 1,
    ..MANUAL
};
const AUTO: ConsumerSettings = ConsumerSettings {
    no_ack: true,
    ..MANUAL
};

#[tokio::test(flavor = "multi_thread")]
async fn every_confirmed_persistent_message_is_there_after_a_kill() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    let queue = broker.declare("q", |_| {}).await;
    broker.publish(&queue, numbered(500), true);
    broker
        .outbox
        .wait_until("all are confirmed", |came| came.confirmed.len() == 500);

    let left = killed(dir.path());
    let again = Scenario::start(left.path());
    assert_eq!(again.queue("q").expect("stored").status().0.ready, 500);
    again.consume("q", MANUAL).await;
    again
        .outbox
        .wait_until("all are delivered", |came| came.bodies.len() == 500);
    let came = again.outbox.came.lock();
    assert!(
        came.bodies.iter().cloned().eq(numbered(500)),
        "{:?}",
        came.bodies
    );
    assert!(
        came.redelivered.iter().all(|flag| !flag),
        "nobody had them before"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_what_may_have_been_delivered_is_flagged() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    let queue = broker.declare("q", |_| {}).await;
    broker.publish(&queue, numbered(3), true);
    broker
        .outbox
        .wait_until("all are confirmed", |came| came.confirmed.len() == 3);
    broker.consume("q", MANUAL).await;
    broker
        .outbox
        .wait_until("all are delivered", |came| came.bodies.len() == 3);

    let left = killed(dir.path());
    let again = Scenario::start(left.path());
    again.consume("q", MANUAL).await;
    again
        .outbox
        .wait_until("all are delivered again", |came| came.bodies.len() == 3);
    assert_eq!(again.outbox.came.lock().redelivered, [true; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_orderly_stop_only_what_was_delivered_is_flagged() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    let queue = broker.declare("q", |_| {}).await;
    broker.publish(&queue, numbered(4), true);
    let two = ConsumerSettings {
        prefetch: 2,
        ..MANUAL
    };
    broker.consume("q", two).await;
    broker
        .outbox
        .wait_until("two are delivered", |came| came.bodies.len() == 2);
    queue.submit(&mut vec![Command::Release {
        channel: broker.channel,
        ended: true,
    }]);
    broker.broker.stop().expect("stored");

    let left = killed(dir.path());
    let again = Scenario::start(left.path());
    again.consume("q", MANUAL).await;
    again
        .outbox
        .wait_until("all are delivered", |came| came.bodies.len() == 4);
    assert_eq!(
        again.outbox.came.lock().redelivered,
        [true, true, false, false]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn transient_messages_and_queues_end_with_the_process() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    let queue = broker.declare("q", |_| {}).await;
    broker.publish(&queue, numbered(5), false);
    broker
        .outbox
        .wait_until("all are confirmed", |came| came.confirmed.len() == 5);
    broker.declare("gone", |asked| asked.durable = false).await;

    let left = killed(dir.path());
    let again = Scenario::start(left.path());
    assert_eq!(again.queue("q").expect("stored").status().0.ready, 0);
    assert!(again.queue("gone").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transient_backlog_beyond_memory_comes_back_in_order_and_ends_with_the_process() {
    const MEBIBYTE: usize = 1024 * 1024;
    const COUNT: usize = 40;
    let bodies = || (0..COUNT).map(|number| number.to_string() + &".".repeat(MEBIBYTE));
    let dir = TempDir::new().expect("a directory");
    // A quarter of it is less than either queue gets.
    let limits = Limits {
        memory: Amount::Bytes(64 * MEBIBYTE as u64),
        ..Limits::default()
    };
    let broker = Scenario::start_with(dir.path(), limits);
    for (queue, durable) in [("durable", true), ("transient", false)] {
        let queue = broker.declare(queue, |asked| asked.durable = durable).await;
        broker.publish(&queue, bodies(), false);
        assert_eq!(queue.status().0.ready, COUNT as u64);
    }
    broker.consume("transient", AUTO).await;
    broker
        .outbox
        .wait_until("all are delivered", |came| came.bodies.len() == COUNT);
    assert!(
        broker
            .outbox
            .came
            .lock()
            .bodies
            .iter()
            .cloned()
            .eq(bodies())
    );

    drop(broker);
    let again = Scenario::start(dir.path());
    let queue = again.queue("durable").expect("stored");
    assert_eq!(queue.status().0.ready, 0);
    again.publish(&queue, numbered(1), true);
    again.consume("durable", AUTO).await;
    again
        .outbox
        .wait_until("the new one comes", |came| came.bodies == ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_beyond_the_window_comes_back_whole_and_in_order() {
    const COUNT: usize = 10_000;
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    let queue = broker.declare("q", |_| {}).await;
    broker.publish(&queue, numbered(COUNT), true);
    broker.consume("q", AUTO).await;
    broker
        .outbox
        .wait_until("all are delivered", |came| came.bodies.len() == COUNT);
    assert!(
        broker
            .outbox
            .came
            .lock()
            .bodies
            .iter()
            .cloned()
            .eq(numbered(COUNT))
    );
    assert_eq!(queue.status().0.ready, 0);
    broker.broker.stop().expect("stored");

    let left = killed(dir.path());
    let again = Scenario::start(left.path());
    assert_eq!(again.queue("q").expect("stored").status().0.ready, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_outbox_pauses_its_consumer_until_it_is_resumed() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    let queue = broker.declare("q", |asked| asked.durable = false).await;
    broker.outbox.came.lock().room = Some(1);
    let consumer = broker.consume("q", AUTO).await;
    // Each of these is a round of its own: the first fills the outbox, the others must wait.
    for body in ["one", "two", "three"] {
        broker.publish(&queue, [body.to_owned()].into_iter(), false);
    }
    assert_eq!(broker.outbox.came.lock().bodies, ["one"]);
    assert_eq!(queue.status().0.ready, 2);
    broker.outbox.came.lock().room = None;
    queue.resume(consumer);
    assert_eq!(broker.outbox.came.lock().bodies, ["one", "two", "three"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ack_before_the_write_leaves_nothing_behind() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    let queue = broker.declare("q", |_| {}).await;
    broker.consume("q", MANUAL).await;
    broker.publish(&queue, numbered(200), true);
    broker
        .outbox
        .wait_until("all are delivered", |came| came.bodies.len() == 200);
    let held = std::mem::take(&mut broker.outbox.came.lock().held);
    let settle = |(seq, handout)| Command::Settle {
        seq,
        handout,
        outcome: Outcome::Acked,
        more: false,
    };
    queue.submit(&mut held.into_iter().map(settle).collect());
    broker
        .outbox
        .wait_until("all are confirmed", |came| came.confirmed.len() == 200);
    broker.broker.flush().await;

    let left = killed(dir.path());
    let again = Scenario::start(left.path());
    assert_eq!(again.queue("q").expect("stored").status().0.ready, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_auto_delete_queue_goes_with_its_last_consumer() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    broker.declare("q", |asked| asked.auto_delete = true).await;
    let consumer = broker.consume("q", AUTO).await;
    let queue = broker.queue("q").expect("it has a consumer");
    queue.submit(&mut vec![Command::Unsubscribe { consumer }]);
    assert!(broker.queue("q").is_none());
    // Whoever still holds it is answered as if the message had been delivered.
    broker.publish(&queue, numbered(1), true);
    broker
        .outbox
        .wait_until("it is confirmed", |came| came.confirmed.len() == 1);
    broker.broker.flush().await;

    let left = killed(dir.path());
    assert!(Scenario::start(left.path()).queue("q").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn exclusive_queues_are_refused_to_others_and_go_with_their_connection() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    broker.declare("q", |asked| asked.exclusive = true).await;
    let stranger = ConnectionId::new(99);
    let refused = broker.vhost.purge_queue(&name("q"), stranger).await;
    assert!(
        matches!(refused, Err(Refusal::Locked { .. })),
        "{refused:?}"
    );
    broker.vhost.connection_gone(broker.channel.connection);
    assert!(broker.queue("q").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_queue_tells_its_consumers_and_is_gone_after_a_kill() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    let queue = broker.declare("q", |_| {}).await;
    broker.publish(&queue, numbered(10), true);
    let consumer = broker
        .consume(
            "q",
            ConsumerSettings {
                prefetch: 1,
                ..MANUAL
            },
        )
        .await;
    let connection = broker.channel.connection;
    let deleted = broker
        .vhost
        .delete_queue(&name("q"), connection, false, false)
        .await;
    let deleted = deleted.expect("deleted");
    assert_eq!(
        (deleted.ready, deleted.cancelled.as_slice()),
        (9, [consumer].as_slice())
    );
    broker.broker.tell_cancelled(&deleted.cancelled);
    assert_eq!(broker.outbox.came.lock().cancelled, [consumer]);

    let left = killed(dir.path());
    assert!(Scenario::start(left.path()).queue("q").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn durable_topology_is_there_after_a_kill_and_the_rest_is_not() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    broker.declare("q", |_| {}).await;
    for (exchange, durable) in [("kept", true), ("gone", false)] {
        let asked = ExchangeDeclare {
            name: name(exchange),
            kind: name("topic"),
            passive: false,
            durable,
            auto_delete: false,
            internal: false,
            arguments: FieldTable::default(),
            refused_if_new: None,
        };
        broker
            .vhost
            .declare_exchange(asked)
            .await
            .expect("declared");
        let binding = BindingRecord {
            vhost: name("/"),
            source: name(exchange),
            destination: Destination::Queue(name("q")),
            key: name("a.#"),
            arguments: FieldTable::default(),
        };
        broker
            .vhost
            .bind(binding, broker.channel.connection)
            .await
            .expect("bound");
    }

    let left = killed(dir.path());
    let again = Scenario::start(left.path()).vhost.snapshot();
    let no_headers = FieldTable::default;
    let route = again
        .route(&name("kept"), &[name("a.b")], &no_headers)
        .expect("stored");
    assert_eq!(route.queues.len(), 1);
    assert!(again.exchange(&name("gone")).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_with_room_gets_the_first_of_a_batch_whatever_comes_behind_it() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    let queue = broker.declare("q", with("x-max-priority", 9)).await;
    broker.consume("q", ONE).await;
    let low = enqueue(message("low", false));
    let high = enqueue(Message::new(MessageParts {
        exchange: b"",
        routing_key: b"q",
        properties: &[0, 0],
        body: Bytes::from_static(b"high"),
        persistent: false,
        priority: Some(9),
    }));
    queue.submit(&mut vec![low, high]);
    assert_eq!(broker.outbox.came.lock().bodies, ["low"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_makes_room_before_a_later_ack_of_the_batch_does() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    let queue = broker.declare("q", with("x-max-length", 1)).await;
    broker.consume("q", ONE).await;
    queue.submit(&mut vec![enqueue(message("held", false))]);
    let (seq, handout) = broker.outbox.came.lock().held[0];
    queue.submit(&mut vec![
        enqueue(message("dropped", false)),
        enqueue(message("last", false)),
        Command::Settle {
            seq,
            handout,
            outcome: Outcome::Acked,
            more: false,
        },
    ]);
    assert_eq!(broker.outbox.came.lock().bodies, ["held", "last"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_is_on_while_its_limit_is_passed() {
    let dir = TempDir::new().expect("a directory");
    let scenario = Scenario::start(dir.path());
    let broker = &scenario.broker;
    assert!(!broker.has_alarm());
    let normal = broker.limits();
    broker.set_limits(Limits {
        memory: Amount::Bytes(0),
        ..normal
    });
    let waiting = tokio::time::Instant::now() + TIME_LIMIT;
    while !broker.has_alarm() {
        assert!(tokio::time::Instant::now() < waiting, "no alarm");
        tokio::task::yield_now().await;
    }
    assert_eq!(broker.alarm().reason(), "low on memory");
    let gauges = broker.gauges();
    assert!(gauges.memory_used > 0 && gauges.disk_free > 0 && gauges.memory_limit == 0);
    broker.set_limits(normal);
    let cleared = tokio::time::timeout(TIME_LIMIT, broker.alarm_cleared());
    cleared.await.expect("the alarm ends with its cause");
    assert!(!broker.has_alarm());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_is_answered_when_it_is_on_the_disk() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    let queue = broker.declare("q", |_| {}).await;
    broker.publish(&queue, numbered(5000), true);
    broker
        .outbox
        .wait_until("all are confirmed", |came| came.confirmed.len() == 5000);
    let of_purge = name("q");
    let mut purge = pin!(
        broker
            .vhost
            .purge_queue(&of_purge, broker.channel.connection)
    );
    broker.broker.as_one_unit(|| {
        // Nothing that is sent meanwhile is written before this ends.
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            assert!(purge.as_mut().poll(&mut context).is_pending());
        }
        assert_eq!(queue.status().0.ready, 0);
    });
    assert_eq!(purge.await, Ok(5000));

    let left = killed(dir.path());
    let again = Scenario::start(left.path());
    assert_eq!(again.queue("q").expect("stored").status().0.ready, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_that_is_on_the_disk_is_read_past_all_that_waits_to_be_written() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    let queue = broker.declare("q", |_| {}).await;
    broker.publish(&queue, numbered(5000), true);
    broker
        .outbox
        .wait_until("all are confirmed", |came| came.confirmed.len() == 5000);
    let consumer = broker.consume("q", ONE).await;
    broker
        .outbox
        .wait_until("the first is delivered", |came| came.bodies.len() == 1);
    broker.broker.as_one_unit(|| {
        // From here on nothing is written. One message more, which nobody can read yet.
        queue.submit(&mut vec![enqueue(message("5000", true))]);
        let mut acked = 0;
        while acked < 5000 {
            broker
                .outbox
                .wait_until("the next is delivered", |came| came.held.len() > acked);
            let (seq, handout) = broker.outbox.came.lock().held[acked];
            queue.submit(&mut vec![Command::Settle {
                seq,
                handout,
                outcome: Outcome::Acked,
                more: false,
            }]);
            acked += 1;
        }
    });
    broker
        .outbox
        .wait_until("the last is delivered", |came| came.bodies.len() == 5001);
    let came = broker.outbox.came.lock();
    assert!(came.bodies.iter().cloned().eq(numbered(5001)));
    assert!(came.cancelled.is_empty(), "{consumer:?} is still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn fm34_sc58_a_bug_in_one_queue_ends_no_other_and_the_queue_is_back_as_it_was_stored() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    let queue = broker.declare("q", |_| {}).await;
    let other = broker.declare("other", |_| {}).await;
    broker.publish(&queue, numbered(10), true);
    broker
        .outbox
        .wait_until("all are confirmed", |came| came.confirmed.len() == 10);
    queue.submit(&mut vec![enqueue(message("transient", false))]);
    let consumer = broker.consume("q", ONE).await;
    broker
        .outbox
        .wait_until("one is delivered", |came| came.bodies.len() == 1);
    let held = broker.outbox.came.lock().held.clone();
    let version = broker.vhost.version();
    broker.outbox.came.lock().has_bug = true;
    // Whoever set it off ends too, as it does not know what became of its commands.
    assert!(contained(|| queue.submit(&mut vec![acked(held[0])])).is_err());
    assert_eq!(broker.outbox.came.lock().cancelled, [consumer]);

    // The broken one takes nothing, and nobody waits for it in vain.
    broker.publish(&queue, numbered(2), true);
    broker
        .outbox
        .wait_until("both are refused", |came| came.refused == [1, 2]);
    let asked = queue.ask(|request| Command::Get {
        request,
        channel: broker.channel,
        no_ack: true,
    });
    assert_eq!(asked.await, None);
    broker.publish(&other, numbered(3), true);
    broker.outbox.wait_until("the other queue goes on", |came| {
        came.confirmed.get(&3) == Some(&2)
    });

    // In its place comes what a start would have found.
    let queue = broker.rebuilt(&queue).await;
    assert_eq!(queue.status().0.ready, 10, "a transient one does not last");
    assert!(
        version < broker.vhost.version(),
        "remembered routes lead to the broken one"
    );
    broker.publish(&queue, (10..13).map(|number| number.to_string()), true);
    broker.outbox.wait_until("it takes messages again", |came| {
        came.confirmed.get(&3) == Some(&3)
    });
    broker.consume("q", MANUAL).await;
    broker
        .outbox
        .wait_until("all are delivered", |came| came.bodies.len() == 14);
    {
        let came = broker.outbox.came.lock();
        assert!(came.bodies[1..].iter().cloned().eq(numbered(13)));
        let flags = [[true; 10].as_slice(), &[false; 3]].concat();
        assert_eq!(came.redelivered[1..], flags);
    }
    // What the broken one had handed out is none of the new one's deliveries.
    queue.submit(&mut vec![acked(held[0])]);
    assert_eq!(queue.status().0.unacked, 13);
    let held = broker.outbox.came.lock().held[1..].to_vec();
    queue.submit(&mut held.into_iter().map(acked).collect());
    assert_eq!(queue.status().0, leveret_core::queue::Depth::default());

    broker.broker.stop().expect("the store is well");
    drop((queue, other));
    drop(broker);
    let again = Scenario::start(dir.path());
    assert_eq!(again.queue("q").expect("stored").status().0.ready, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn fm34_sc58_a_queue_that_breaks_again_and_again_stays_closed_until_the_next_start() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    let mut queue = broker.declare("q", |_| {}).await;
    broker.publish(&queue, numbered(10), true);
    broker
        .outbox
        .wait_until("all are confirmed", |came| came.confirmed.len() == 10);
    let subscribe = |number| {
        let (channel, outbox) = (broker.channel, broker.outbox.clone());
        let consumer = ConsumerId { channel, number };
        let vhost = broker.vhost.clone();
        async move {
            let (of_queue, nothing) = (name("q"), FieldTable::default());
            let subscribed = vhost.subscribe(&of_queue, consumer, MANUAL, &nothing, outbox);
            (consumer, subscribed.await)
        }
    };
    let breaks = 6;
    for number in 1..=breaks {
        let (consumer, subscribed) = subscribe(number).await;
        subscribed.expect("subscribed");
        broker.outbox.came.lock().has_bug = true;
        // After the first time the head of the queue is read first, on a thread of its own.
        let _ = contained(|| queue.resume(consumer));
        broker.outbox.wait_until("it is broken", |came| {
            came.cancelled.last() == Some(&consumer)
        });
        if number < breaks {
            queue = broker.rebuilt(&queue).await;
        }
    }
    // It would be put back with the next commit.
    for number in 0..20 {
        broker.declare(&format!("other-{number}"), |_| {}).await;
    }
    assert!(Arc::ptr_eq(
        &broker.queue("q").expect("it is there"),
        &queue
    ));
    let (_, refused) = subscribe(breaks + 1).await;
    assert!(refused.is_err(), "{refused:?}");

    // Also after an orderly stop nobody is told that he is the first to have them.
    broker.broker.stop().expect("the store is well");
    drop(queue);
    drop(broker);
    let again = Scenario::start(dir.path());
    again.consume("q", MANUAL).await;
    again
        .outbox
        .wait_until("all are delivered", |came| came.bodies.len() == 10);
    let came = again.outbox.came.lock();
    assert!(came.bodies.iter().cloned().eq(numbered(10)));
    assert_eq!(came.redelivered, [true; 10]);
}

/// Large enough to be kept in files of their own, so many that the stop writes these.
async fn stopped_with_large_bodies(dir: &Path) {
    let broker = Scenario::start(dir);
    let queue = broker.declare("q", |_| {}).await;
    let bodies = (0..LARGE).map(|number| format!("{number:040000}"));
    broker.publish(&queue, bodies, true);
    broker
        .outbox
        .wait_until("all are confirmed", |came| came.confirmed.len() == LARGE);
    broker.broker.stop().expect("stopped");
}

const LARGE: usize = 700;

fn body_files(dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(dir.join("rocksdb")).expect("a directory");
    let files = files.map(|entry| entry.expect("it").path());
    let is_for_bodies = |path: &PathBuf| path.extension().is_some_and(|it| it == "blob");
    let files: Vec<_> = files.filter(is_for_bodies).collect();
    assert!(!files.is_empty(), "no body has a file of its own");
    files
}

impl Scenario {
    async fn get(&self, queue: &str) -> Result<bool, Refusal> {
        let queue = name(queue);
        let get = self.vhost.get(&queue, self.channel, true);
        let got = tokio::time::timeout(TIME_LIMIT, get).await;
        got.expect("every get is answered").map(|got| got.is_some())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_goes_on_when_the_system_gives_its_messages_again() {
    let dir = TempDir::new().expect("a directory");
    stopped_with_large_bodies(dir.path()).await;
    let broker = Scenario::start(dir.path());
    let files = body_files(dir.path());
    let hidden = |path: &PathBuf| path.with_extension("hidden");
    for path in &files {
        fs::rename(path, hidden(path)).expect("moved");
    }
    for _ in 0..2 {
        let refused = broker.get("q").await.expect_err("nothing can be read");
        assert!(matches!(refused, Refusal::Storage { .. }), "{refused}");
    }
    broker.consume("q", AUTO).await;
    for path in &files {
        fs::rename(hidden(path), path).expect("moved");
    }
    broker
        .outbox
        .wait_until("all come", |came| came.bodies.len() == LARGE);
    let came = broker.outbox.came.lock();
    assert!(came.bodies.is_sorted(), "out of order");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_get_in_front_of_damage_is_refused_and_a_purge_makes_the_queue_whole() {
    let dir = TempDir::new().expect("a directory");
    stopped_with_large_bodies(dir.path()).await;
    for path in body_files(dir.path()) {
        let mut bytes = fs::read(&path).expect("read");
        // All of it but for what tells that it is such a file.
        for byte in bytes.iter_mut().skip(64) {
            *byte ^= 1;
        }
        fs::write(path, bytes).expect("written");
    }
    let broker = Scenario::start(dir.path());
    let refused = broker.get("q").await.expect_err("nothing can be read");
    assert!(matches!(refused, Refusal::Storage { .. }), "{refused}");

    let connection = broker.channel.connection;
    let purged = broker.vhost.purge_queue(&name("q"), connection).await;
    assert_eq!(purged.expect("purged"), LARGE as u64);
    assert_eq!(broker.get("q").await, Ok(false));
    // More than a queue keeps in memory.
    let queue = broker.queue("q").expect("it is there");
    broker.publish(&queue, numbered(5000), true);
    broker.consume("q", AUTO).await;
    broker
        .outbox
        .wait_until("all come", |came| came.bodies.len() == 5000);
}
