//! A bug of the broker ends the connection that met it, and what that held goes back.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use leveret_core::{
    ids::{ChannelKey, ConsumerId, QueueId},
    message::Message,
    queue::{ConsumerSettings, Delivery, Overdue},
    vhost::QueueDeclare,
};
use leveret_runtime::{
    Answered, Broker, Limits, NodeOptions, Outbox, Pressure, QueueHandle, StartOptions,
};
use leveret_server::{Listeners, Server, ServerOptions};
use leveret_wire::value::{FieldTable, ShortString};

/// Far above what anything here takes; a test that waits this long has failed.
const TIME_LIMIT: Duration = Duration::from_secs(20);

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;

const CONNECTION_START: [u16; 2] = [10, 10];
const CONNECTION_TUNE: [u16; 2] = [10, 30];
const CONNECTION_OPEN_OK: [u16; 2] = [10, 41];
const CHANNEL_OPEN_OK: [u16; 2] = [20, 11];
const CONFIRM_SELECT_OK: [u16; 2] = [85, 11];
const GET_OK: [u16; 2] = [60, 71];
const ACK: [u16; 2] = [60, 80];
const NACK: [u16; 2] = [60, 120];

/// A connection with channel 1 in confirm mode, as bytes.
struct Client {
    socket: TcpStream,
}

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).expect("somebody listens");
        socket.set_read_timeout(Some(TIME_LIMIT)).expect("set");
        let mut client = Self { socket };
        client.write(b"AMQP\x00\x00\x09\x01");
        client.expect(CONNECTION_START);
        let mut start_ok = vec![0, 10, 0, 11, 0, 0, 0, 0];
        start_ok.extend(b"\x05PLAIN\x00\x00\x00\x0c\x00guest\x00guest\x05en_US");
        client.frame(METHOD, 0, &start_ok);
        client.expect(CONNECTION_TUNE);
        client.frame(METHOD, 0, &[0, 10, 0, 31, 7, 255, 0, 2, 0, 0, 0, 0]);
        client.frame(METHOD, 0, &[0, 10, 0, 40, 1, b'/', 0, 0]);
        client.expect(CONNECTION_OPEN_OK);
        client.frame(METHOD, 1, &[0, 20, 0, 10, 0]);
        client.expect(CHANNEL_OPEN_OK);
        client.frame(METHOD, 1, &[0, 85, 0, 10, 0]);
        client.expect(CONFIRM_SELECT_OK);
        client
    }

    fn publish(&mut self, queue: &str) {
        let mut method = vec![0, 60, 0, 40, 0, 0, 0];
        method.push(queue.len().try_into().expect("short"));
        method.extend(queue.as_bytes());
        method.push(0);
        self.frame(METHOD, 1, &method);
        self.frame(
            HEADER,
            1,
            &[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0x10, 0, 2],
        );
        self.frame(BODY, 1, b"body");
    }

    /// Holds a message from here on.
    fn get(&mut self, queue: &str) {
        let mut method = vec![0, 60, 0, 70, 0, 0];
        method.push(queue.len().try_into().expect("short"));
        method.extend(queue.as_bytes());
        method.push(0);
        self.frame(METHOD, 1, &method);
        self.expect(GET_OK);
        assert_eq!(self.next().expect("a header").0, HEADER);
        assert_eq!(self.next().expect("a body").0, BODY);
    }

    fn frame(&mut self, kind: u8, channel: u8, payload: &[u8]) {
        let len = u32::try_from(payload.len()).expect("small").to_be_bytes();
        let mut frame = vec![kind, 0, channel];
        frame.extend(len);
        frame.extend(payload);
        frame.push(0xCE);
        self.write(&frame);
    }

    fn write(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("the broker reads");
    }

    #[track_caller]
    fn expect(&mut self, method: [u16; 2]) {
        let (kind, payload) = self.next().expect("a frame");
        assert_eq!((kind, &payload[..4]), (METHOD, bytes_of(method).as_slice()));
    }

    /// `None` when the broker has hung up.
    fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 7];
        match self.socket.read_exact(&mut head) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("nothing came: {error}")
            }
            Err(_) => return None,
        }
        let [kind, _, _, len @ ..] = head;
        let mut rest = vec![0; u32::from_be_bytes(len) as usize + 1];
        self.socket.read_exact(&mut rest).expect("a whole frame");
        rest.pop();
        Some((kind, rest))
    }
}

/// As a frame begins with it.
fn bytes_of(method: [u16; 2]) -> Vec<u8> {
    method.map(u16::to_be_bytes).concat()
}

/// Where deliveries meet the bug.
#[derive(Debug)]
struct Bug;

impl Outbox for Bug {
    fn deliver(&self, _queue: QueueId, _deliveries: &[Delivery]) -> Pressure {
        panic!("the bug of this test");
    }

    fn reserve(&self, _consumer: ConsumerId) -> bool {
        true
    }

    fn reply(&self, _consumer: ConsumerId, _message: &Message) {}
    fn confirm(&self, _answered: &[Answered]) {}
    fn cancel(&self, _consumers: &[ConsumerId]) {}
    fn overdue(&self, _overdue: Overdue) {}
}

async fn declare(broker: &Broker, queue: &'static str) -> Arc<QueueHandle> {
    let vhost = broker.vhost(&ShortString::from_static("/")).expect("it");
    let asked = QueueDeclare {
        name: ShortString::from_static(queue),
        server_named: false,
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: FieldTable::default(),
    };
    let declared = vhost
        .declare_queue(asked, broker.next_connection_id())
        .await;
    declared.expect("declared");
    let snapshot = vhost.snapshot();
    let record = snapshot
        .queue(&ShortString::from_static(queue))
        .expect("it");
    broker.queue(record.id).expect("it")
}

async fn consume_with_the_bug(broker: &Broker, queue: &'static str) {
    let vhost = broker.vhost(&ShortString::from_static("/")).expect("it");
    let connection = broker.next_connection_id();
    let outbox = Arc::new(Bug);
    broker.connect(connection, outbox.clone());
    let channel = ChannelKey {
        connection,
        channel: 1,
        opening: 1,
    };
    let consumer = ConsumerId { channel, number: 1 };
    let settings = ConsumerSettings::default();
    let (of_queue, nothing) = (ShortString::from_static(queue), FieldTable::default());
    let handle = vhost.subscribe(&of_queue, consumer, settings, &nothing, outbox);
    // Nothing is there yet that could be delivered.
    handle.await.expect("subscribed").resume(consumer);
}

#[tokio::test(flavor = "multi_thread")]
async fn fm34_sc58_a_bug_ends_the_connection_that_met_it_and_what_it_held_goes_back() {
    let options = StartOptions {
        data_dir: None,
        store: leveret_store::Options::default(),
        node: NodeOptions::default(),
        limits: Limits::default(),
    };
    let broker = Broker::start(&options, |failure| panic!("storage failed: {failure}"));
    let broker = broker.expect("nothing is in the way");
    let any_port = [SocketAddr::from(([127, 0, 0, 1], 0))];
    let listeners = Listeners::bind_all_of(&any_port, &[]).expect("a port");
    let address = listeners.addresses()[0];
    let server = Server::start(
        listeners,
        broker.clone(),
        Arc::default(),
        &ServerOptions::default(),
    );
    declare(&broker, "broken").await;
    let other = declare(&broker, "other").await;
    consume_with_the_bug(&broker, "broken").await;

    let clients = tokio::task::spawn_blocking(move || {
        let (mut good, mut unlucky) = (Client::connect(address), Client::connect(address));
        unlucky.publish("other");
        unlucky.expect(ACK);
        unlucky.get("other");
        assert_eq!(other.status().0.unacked, 1);
        unlucky.publish("broken");
        assert_eq!(unlucky.next(), None, "the connection goes on");

        // What it held is there for the next one.
        let deadline = std::time::Instant::now() + TIME_LIMIT;
        while other.status().0.ready == 0 {
            assert!(
                std::time::Instant::now() < deadline,
                "it does not come back"
            );
            std::thread::yield_now();
        }
        good.get("other");
        good.publish("other");
        good.expect(ACK);
        // Refused as long as it is broken, taken once it is put back.
        let (taken, refused) = (bytes_of(ACK), bytes_of(NACK));
        loop {
            good.publish("broken");
            let (_, answer) = good.next().expect("this connection is well");
            if answer.starts_with(&taken) {
                break;
            }
            assert!(answer.starts_with(&refused), "{answer:?}");
            assert!(std::time::Instant::now() < deadline, "it stays broken");
        }
        Client::connect(address);
    });
    clients.await.expect("as it should be");
    assert!(server.stop(TIME_LIMIT).await, "a connection is left");
}
