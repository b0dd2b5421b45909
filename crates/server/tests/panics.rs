//! A bug of the broker ends the connection that met it, and what that held goes back.

mod common;

use std::{net::SocketAddr, sync::Arc};

use common::{ACK, Client, NACK, TIME_LIMIT, bytes_of};

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
        refused_if_new: None,
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
