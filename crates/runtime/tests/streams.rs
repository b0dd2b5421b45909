//! Streams in a whole broker without sockets: what readers get, and what a kill leaves.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use leveret_core::{
    ids::{ChannelKey, ConsumerId, Handout, QueueId, Seq},
    message::{Message, MessageParts},
    queue::{Command, Confirm, ConsumerSettings, Delivery, Outcome, Overdue},
    refusal::Refusal,
    vhost::QueueDeclare,
};
use leveret_runtime::{
    Answered, Broker, NodeOptions, Outbox, Pressure, QueueHandle, StartOptions, VhostHandle,
};
use leveret_wire::value::{FieldTable, FieldValue, ShortString};
use parking_lot::{Condvar, Mutex};
use tempfile::TempDir;

/// Far above what anything here takes; a test that waits this long has failed.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Keeps what comes.
#[derive(Debug, Default)]
struct Recorder {
    came: Mutex<Came>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Came {
    bodies: BTreeMap<u32, Vec<String>>,
    held: Vec<(u32, Seq)>,
    confirmed: usize,
}

impl Outbox for Recorder {
    fn reserve(&self, consumer: ConsumerId) -> bool {
        panic!("nobody here shares a prefetch: {consumer:?}");
    }

    fn deliver(&self, _queue: QueueId, deliveries: &[Delivery]) -> Pressure {
        let mut came = self.came.lock();
        for delivery in deliveries {
            assert!(!delivery.redelivered);
            let body = String::from_utf8_lossy(delivery.message.body()).into_owned();
            let reader = delivery.consumer.number;
            came.bodies.entry(reader).or_default().push(body);
            came.held.push((reader, delivery.seq));
        }
        self.changed.notify_all();
        Pressure::Low
    }

    fn confirm(&self, answered: &[Answered]) {
        assert!(answered.iter().all(|answer| answer.accepted));
        self.came.lock().confirmed += answered.len();
        self.changed.notify_all();
    }

    fn reply(&self, _consumer: ConsumerId, message: &Message) {
        panic!("nobody here asked for replies: {message:?}");
    }

    fn cancel(&self, _consumers: &[ConsumerId]) {}

    fn overdue(&self, overdue: Overdue) {
        panic!("a stream waits for acks for ever: {overdue:?}");
    }
}

impl Recorder {
    #[track_caller]
    fn wait_until(&self, what: &str, holds: impl Fn(&Came) -> bool) {
        let mut came = self.came.lock();
        while !holds(&came) {
            let timed_out = self.changed.wait_for(&mut came, TIME_LIMIT).timed_out();
            assert!(!timed_out, "waited in vain until {what}: {came:?}");
        }
    }
}

/// A broker with one stream, `s`, one connection and one channel.
struct Scenario {
    broker: Arc<Broker>,
    vhost: Arc<VhostHandle>,
    outbox: Arc<Recorder>,
    channel: ChannelKey,
}

impl Scenario {
    fn start(dir: &Path) -> Self {
        let options = StartOptions {
            data_dir: Some(dir.to_owned()),
            store: leveret_store::Options::default(),
            node: NodeOptions::default(),
            limits: leveret_runtime::Limits::default(),
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

    async fn declare(&self, arguments: FieldTable) -> Arc<QueueHandle> {
        let asked = QueueDeclare {
            name: name("s"),
            server_named: false,
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: arguments.with("x-queue-type", FieldValue::text("stream")),
            refused_if_new: None,
        };
        let declared = self.vhost.declare_queue(asked, self.channel.connection);
        declared.await.expect("declared");
        self.stream()
    }

    fn stream(&self) -> Arc<QueueHandle> {
        let record = self.vhost.snapshot().queue(&name("s")).expect("it").id;
        self.broker.queue(record).expect("just declared")
    }

    /// Publishes numbers and waits for their confirms.
    fn publish(&self, numbers: std::ops::Range<usize>) {
        let before = self.outbox.came.lock().confirmed;
        let count = numbers.len();
        let mut commands = numbers
            .map(|number| Command::Enqueue {
                message: message(&number.to_string()),
                confirm: Some(Confirm {
                    channel: self.channel,
                    number: number as u64,
                }),
            })
            .collect();
        self.stream().submit(&mut commands);
        self.outbox
            .wait_until("all are confirmed", |came| came.confirmed == before + count);
    }

    async fn consume(&self, number: u32, prefetch: u16, offset: FieldValue) -> ConsumerId {
        let consumer = ConsumerId {
            channel: self.channel,
            number,
        };
        let settings = ConsumerSettings {
            prefetch,
            ..ConsumerSettings::default()
        };
        let arguments = FieldTable::new().with("x-stream-offset", offset);
        let outbox = self.outbox.clone();
        let stream = self
            .vhost
            .subscribe(&name("s"), consumer, settings, &arguments, outbox)
            .await;
        stream.expect("subscribed").resume(consumer);
        consumer
    }

    /// Acks what the readers hold until each has got as much as it should.
    fn read_all(&self, expected: &BTreeMap<u32, usize>) {
        let stream = self.stream();
        let has_all = |came: &Came| {
            let got = |reader| came.bodies.get(reader).map_or(0, Vec::len);
            expected.iter().all(|(reader, count)| got(reader) == *count)
        };
        loop {
            self.outbox.wait_until("something comes", |came| {
                !came.held.is_empty() || has_all(came)
            });
            if has_all(&self.outbox.came.lock()) {
                return;
            }
            let held = std::mem::take(&mut self.outbox.came.lock().held);
            let settle = |(_, seq)| Command::Settle {
                seq,
                handout: Handout::default(),
                outcome: Outcome::Acked,
                more: false,
            };
            stream.submit(&mut held.into_iter().map(settle).collect());
        }
    }

    fn bodies(&self, reader: u32) -> Vec<String> {
        let mut came = self.outbox.came.lock();
        came.bodies.remove(&reader).unwrap_or_default()
    }
}

impl Drop for Scenario {
    /// Before its directory goes.
    fn drop(&mut self) {
        let _ = self.broker.stop();
    }
}

fn name(text: &str) -> ShortString {
    ShortString::try_from(text).expect("short")
}

fn message(body: &str) -> Message {
    Message::new(MessageParts {
        exchange: b"",
        routing_key: b"s",
        properties: &[0, 0],
        body: Bytes::copy_from_slice(body.as_bytes()),
        persistent: false,
        priority: None,
    })
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

/// What a process that is killed now leaves behind.
fn killed(dir: &Path) -> TempDir {
    let copy = TempDir::new().expect("a directory");
    copy_files(dir, copy.path());
    copy
}

fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a directory") {
        let path = entry.expect("an entry").path();
        let to = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            fs::create_dir(&to).expect("made");
            copy_files(&path, &to);
        } else {
            fs::copy(path, to).expect("copied");
        }
    }
}

fn first() -> FieldValue {
    FieldValue::text("first")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_confirmed_message_is_there_after_a_kill_under_its_offset() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    broker.declare(FieldTable::new()).await;
    broker.publish(0..500);

    let left = killed(dir.path());
    let again = Scenario::start(left.path());
    assert_eq!(again.stream().status().0.ready, 500);
    again.publish(500..510);
    again.consume(1, 1000, FieldValue::Int(490)).await;
    again
        .outbox
        .wait_until("the rest is read", |came| came.held.len() == 20);
    assert_eq!(again.bodies(1), numbers(490..510));
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_behind_and_at_the_end_read_everything() {
    const COUNT: usize = 20_000;
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    broker.declare(FieldTable::new()).await;
    broker.publish(0..COUNT / 2);
    broker.consume(1, 100, first()).await;
    broker.consume(2, 3000, FieldValue::Int(5000)).await;
    broker.consume(3, 100, FieldValue::text("next")).await;
    broker.publish(COUNT / 2..COUNT);
    let expected = [(1, COUNT), (2, COUNT - 5000), (3, COUNT / 2)].into();
    broker.read_all(&expected);
    assert_eq!(broker.bodies(1), numbers(0..COUNT));
    assert_eq!(broker.bodies(2), numbers(5000..COUNT));
    assert_eq!(broker.bodies(3), numbers(COUNT / 2..COUNT));
    assert_eq!(broker.stream().status().0.ready, COUNT as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_too_long_is_cut_also_after_a_kill() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    let arguments = FieldTable::new()
        .with("x-max-length-bytes", FieldValue::Int(20_000))
        .with("x-stream-max-segment-size-bytes", FieldValue::Int(5000));
    broker.declare(arguments).await;
    broker.publish(0..1000);
    let kept = broker.stream().status().0.ready;
    // A segment above the limit at most.
    assert!((200..400).contains(&kept), "{kept}");

    let left = killed(dir.path());
    let again = Scenario::start(left.path());
    assert_eq!(again.stream().status().0.ready, kept);
    for number in (1000..2000).step_by(100) {
        again.publish(number..number + 100);
    }
    let kept = again.stream().status().0.ready;
    assert!((200..400).contains(&kept), "{kept}");
    again.consume(1, 1000, first()).await;
    let kept = usize::try_from(kept).expect("small");
    again
        .outbox
        .wait_until("all are read", |came| came.held.len() == kept);
    assert_eq!(again.bodies(1), numbers(2000 - kept..2000));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_old_goes_by_itself() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    let arguments = FieldTable::new()
        .with("x-max-age", FieldValue::text("1s"))
        .with("x-stream-max-segment-size-bytes", FieldValue::Int(5000));
    let stream = broker.declare(arguments).await;
    broker.publish(0..500);
    let since = std::time::Instant::now();
    while stream.status().0.ready == 500 {
        assert!(since.elapsed() < TIME_LIMIT, "nothing goes");
        tokio::task::yield_now().await;
    }
    // The newest segment stays.
    assert!((1..100).contains(&stream.status().0.ready));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_stream_is_gone_after_a_kill() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    broker.declare(FieldTable::new()).await;
    broker.publish(0..10);
    let connection = broker.channel.connection;
    let stream = name("s");
    let deleted = broker.vhost.delete_queue(&stream, connection, true, true);
    assert_eq!(deleted.await.expect("deleted").ready, 10);

    let left = killed(dir.path());
    let again = Scenario::start(left.path());
    assert!(again.vhost.snapshot().queue(&name("s")).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_taken_out_of_a_stream() {
    let dir = TempDir::new().expect("a directory");
    let broker = Scenario::start(dir.path());
    broker.declare(FieldTable::new()).await;
    let stream = name("s");
    let purged = broker.vhost.purge_queue(&stream, broker.channel.connection);
    let purged = purged.await.expect_err("refused");
    let got = broker.vhost.get(&name("s"), broker.channel, true).await;
    for (refused, operation) in [
        (purged, "queue.purge"),
        (got.expect_err("refused"), "basic.get"),
    ] {
        assert!(matches!(refused, Refusal::UnsupportedByType { .. }));
        let text = format!("{operation} not supported by stream queues queue 's' in vhost '/'");
        assert_eq!(refused.to_string(), text);
    }
}
