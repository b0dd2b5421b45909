//! A look at messages that are on disk only tells of them what it tells of those in memory.

use std::sync::Arc;

use bytes::Bytes;
use leveret_core::{
    ids::{ChannelKey, Seq},
    message::{Message, MessageParts},
    queue::{Command, Look, Outcome, Seen, WINDOW_ROWS_MAX},
    vhost::QueueDeclare,
};
use leveret_runtime::{Broker, Limits, NodeOptions, QueueHandle, StartOptions, VhostHandle};
use leveret_wire::value::{FieldTable, FieldValue, ShortString};

const TTL_MILLIS: u64 = 600_000;

struct Scenario {
    broker: Arc<Broker>,
    vhost: Arc<VhostHandle>,
    channel: ChannelKey,
}

impl Scenario {
    fn start() -> Self {
        let options = StartOptions {
            data_dir: None,
            store: leveret_store::Options::default(),
            node: NodeOptions::default(),
            limits: Limits::default(),
        };
        let broker = Broker::start(&options, |failure| panic!("storage failed: {failure}"));
        let broker = broker.expect("nothing but memory is wanted");
        let vhost = broker.vhost(&name("/")).expect("every broker has it");
        let channel = ChannelKey {
            connection: broker.next_connection_id(),
            channel: 1,
            opening: 1,
        };
        Self {
            broker,
            vhost,
            channel,
        }
    }

    async fn declare(&self, arguments: FieldTable) -> Arc<QueueHandle> {
        let asked = QueueDeclare {
            name: name("q"),
            server_named: false,
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments,
            refused_if_new: None,
        };
        let declared = self.vhost.declare_queue(asked, self.channel.connection);
        declared.await.expect("declared");
        let id = self.vhost.snapshot().queue(&name("q")).expect("there").id;
        self.broker.queue(id).expect("just declared")
    }

    /// So many messages are there, and what is to be stored of them is.
    async fn publish(&self, queue: &QueueHandle, count: usize, body_bytes: usize) {
        let body = Bytes::from(vec![0; body_bytes]);
        let message = Message::new(MessageParts {
            exchange: b"",
            routing_key: b"q",
            properties: &[0, 0],
            body,
            persistent: true,
            priority: None,
        });
        let enqueue = |_| Command::Enqueue {
            message: message.clone(),
            confirm: None,
        };
        queue.submit(&mut (0..count).map(enqueue).collect());
        self.broker.flush().await;
    }
}

impl Drop for Scenario {
    fn drop(&mut self) {
        let _ = self.broker.stop();
    }
}

fn name(text: &str) -> ShortString {
    ShortString::try_from(text).expect("short")
}

/// All that is ready behind this many.
async fn behind(queue: &QueueHandle, count: u64) -> Vec<Seen> {
    let look = Look {
        after: Some(Seq::new(count)),
        limit: 1000,
        ready: true,
        unacked: false,
        retrying: false,
    };
    queue.look(look).await.expect("it can be read")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_on_disk_shows_when_it_expires() {
    let total = WINDOW_ROWS_MAX + 200;
    for ttl in [Some(TTL_MILLIS), None] {
        let broker = Scenario::start();
        let arguments = ttl.map(|ttl| (name("x-message-ttl"), FieldValue::Long(ttl as i64)));
        let queue = broker.declare(arguments.into_iter().collect()).await;
        broker.publish(&queue, total, 10).await;
        let last = WINDOW_ROWS_MAX as u64 - 100;
        let seen = behind(&queue, last).await;
        assert!(seen.len() >= 290, "{}", seen.len());
        let in_memory = queue.report().ready_in_memory;
        assert!(in_memory < total as u64, "{in_memory} are in memory");
        for message in seen {
            let came = message.came.expect("it came in this run");
            let expected = ttl.map(|ttl| came.plus_millis(ttl));
            let lives = message.expires.map(|expires| expires.get() - came.get());
            // Where there are many, the time of arrival is known by a mark before it.
            let is_near = lives.is_some_and(|lives| lives >= TTL_MILLIS);
            assert!(message.expires == expected || is_near, "{message:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_on_disk_shows_how_often_it_came_back() {
    let broker = Scenario::start();
    let quorum = FieldTable::new().with("x-queue-type", FieldValue::text("quorum"));
    let queue = broker.declare(quorum).await;
    // More than is kept in memory of what somebody has.
    broker.publish(&queue, 1, 5 * 1024 * 1024).await;
    for attempts in 1..4 {
        let got = broker.vhost.get(&name("q"), broker.channel, false).await;
        let (_, got) = got.expect("it may be got").expect("it is there");
        queue.submit(&mut vec![Command::Settle {
            seq: got.seq,
            handout: got.handout,
            outcome: Outcome::Returned,
            more: false,
        }]);
        assert_eq!(queue.report().ready_in_memory, 0);
        let look = Look {
            after: None,
            limit: 10,
            ready: true,
            unacked: true,
            retrying: true,
        };
        let seen = queue.look(look).await.expect("it can be read");
        let counts: Vec<u64> = seen.iter().map(|seen| seen.attempts).collect();
        assert_eq!(counts, [attempts]);
    }
}
