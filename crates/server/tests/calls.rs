//! A call that waits for a disk that does not answer holds on to nobody who has gone, or is to go.

mod common;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        mpsc::{Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use common::{Client, TIME_LIMIT};
use leveret_runtime::{Broker, Limits, NodeOptions, StartOptions};
use leveret_server::{Listeners, Patience, Server, ServerOptions, stop};

/// A broker that serves.
fn serving() -> (Arc<Broker>, Server, SocketAddr) {
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
    (broker, server, address)
}

/// As long as this lives nothing is written: what is sent belongs to a unit that does not end.
struct Hanging {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Hanging {
    fn disk_of(broker: &Arc<Broker>) -> Self {
        let ((end, ended), (begin, begun)) = (channel::<()>(), channel());
        let broker = broker.clone();
        let thread = thread::spawn(move || {
            broker.as_one_unit(|| {
                begin.send(()).expect("awaited");
                // Dropping the other half is the word.
                let _ = ended.recv();
            });
        });
        begun.recv().expect("it hangs");
        Self {
            end: Some(end),
            thread: Some(thread),
        }
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        drop(self.end.take());
        let thread = self.thread.take().expect("once");
        thread.join().expect("no panic");
    }
}

#[track_caller]
fn wait_for_connections(broker: &Broker, count: usize) {
    let until = Instant::now() + TIME_LIMIT;
    while broker.connections().len() != count {
        assert!(Instant::now() < until, "{:?}", broker.connections());
        thread::yield_now();
    }
}

/// Runs where waiting is allowed.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let done = tokio::task::spawn_blocking(work);
    done.await.expect("as it should be")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_while_its_call_waits_is_let_go() {
    let (broker, server, address) = serving();
    blocking(move || {
        let mut client = Client::connect(address);
        let disk = Hanging::disk_of(&broker);
        client.ask_for("jobs");
        // It comes behind the call, and nobody has to answer it.
        client.publish("jobs");
        drop(client);
        wait_for_connections(&broker, 0);
        drop(disk);
    })
    .await;
    assert!(server.stop(TIME_LIMIT).await, "a connection is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_sends_behind_its_call_is_taken_once_the_disk_answers() {
    let (broker, server, address) = serving();
    blocking(move || {
        let mut client = Client::connect(address);
        let disk = Hanging::disk_of(&broker);
        client.ask_for("jobs");
        client.publish("jobs");
        drop(client);
        drop(disk);
        let mut other = Client::connect(address);
        let until = Instant::now() + TIME_LIMIT;
        while broker.connections().len() > 1 {
            assert!(Instant::now() < until, "{:?}", broker.connections());
            thread::yield_now();
        }
        other.get("jobs");
    })
    .await;
    assert!(server.stop(TIME_LIMIT).await, "a connection is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_closes_a_connection_whose_call_waits() {
    let (broker, server, address) = serving();
    blocking(move || {
        let mut client = Client::connect(address);
        let disk = Hanging::disk_of(&broker);
        client.ask_for("jobs");
        let connections = broker.connections();
        connections[0].control.close("told to");
        client.expect_close(320);
        wait_for_connections(&broker, 0);
        drop(disk);
    })
    .await;
    assert!(server.stop(TIME_LIMIT).await, "a connection is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_for_calls_and_confirms_of_a_disk_that_hangs() {
    let (broker, server, address) = serving();
    let known = broker.clone();
    let (mut calling, mut publishing, disk) = blocking(move || {
        let mut calling = Client::connect(address);
        let mut publishing = Client::connect(address);
        publishing.ask_for("jobs");
        publishing.next().expect("declared");
        let disk = Hanging::disk_of(&known);
        calling.ask_for("more");
        publishing.publish("jobs");
        (calling, publishing, disk)
    })
    .await;
    let told = thread::spawn(move || {
        calling.expect_close(320);
        publishing.expect_close(320);
    });
    let stopping = tokio::spawn(server.stop(TIME_LIMIT));
    assert!(stopping.await.expect("no panic"), "a connection is left");
    blocking(move || told.join().expect("they are told")).await;
    drop(disk);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_stop_ends_clients_and_broker_in_their_order() {
    let (broker, server, address) = serving();
    let client = blocking(move || Client::connect(address)).await;
    let told = thread::spawn(move || {
        let mut client = client;
        client.expect_close(320);
    });
    let patience = Patience {
        clients: TIME_LIMIT,
        arrivals: Duration::ZERO,
    };
    stop(server, broker.clone(), patience)
        .await
        .expect("stored");
    assert!(broker.connections().is_empty());
    blocking(move || told.join().expect("it is told")).await;
}
