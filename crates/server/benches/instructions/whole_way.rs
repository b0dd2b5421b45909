//! From one client's socket through a queue to another's, with everything a broker does on the way but the committer's
//! own thread. Client and broker take turns on one thread, so that each run is like the last.

use std::{path::PathBuf, sync::Arc};

use bytes::{Bytes, BytesMut};
use gungraun::library_benchmark;
use leveret_runtime::{Broker, Limits, NodeOptions, StartOptions};
use leveret_server::{Listeners, Server, ServerOptions};
use leveret_session::Settings;
use leveret_wire::{
    BasicProperties, ChannelId, DeliveryTag, FieldTable, FrameKind, LongString, Method,
    PROTOCOL_HEADER, ShortString, basic, channel, confirm, connection, next_frame, put_method,
    queue, take_whole_frames,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    runtime::{self, Runtime},
};

use crate::{MESSAGES, wire::put_publish};

const CHANNEL: ChannelId = ChannelId::new(1);
const FRAME_MAX: u32 = 131_072;
/// Messages that are on their way at once.
const BATCH: u64 = 200;

/// A broker, a publisher and a consumer.
struct Scene {
    runtime: Runtime,
    publisher: Client,
    consumer: Client,
    _server: Server,
    broker: Arc<Broker>,
    _dir: TempDir,
}

struct Client {
    socket: UnixStream,
    inbox: BytesMut,
    outbox: BytesMut,
}

impl Client {
    async fn connect(path: &PathBuf) -> Self {
        let mut client = Self {
            socket: UnixStream::connect(path).await.expect("a broker"),
            inbox: BytesMut::with_capacity(1024 * 1024),
            outbox: BytesMut::new(),
        };
        client.outbox.extend_from_slice(&PROTOCOL_HEADER);
        client.flush().await;
        client.answer().await;
        let response = LongString::from("\0guest\0guest".to_owned());
        let start_ok = connection::StartOk {
            client_properties: FieldTable::new(),
            mechanism: ShortString::from_static("PLAIN"),
            response,
            locale: ShortString::from_static("en_US"),
        };
        client.call(ChannelId::CONNECTION, start_ok).await;
        let tune_ok = connection::TuneOk {
            channel_max: 10,
            frame_max: FRAME_MAX,
            heartbeat: 0,
        };
        put_method(&mut client.outbox, ChannelId::CONNECTION, &tune_ok.into());
        let open = connection::Open {
            virtual_host: ShortString::from_static("/"),
            ..connection::Open::default()
        };
        client.call(ChannelId::CONNECTION, open).await;
        client.call(CHANNEL, channel::Open::default()).await;
        client
    }

    async fn call(&mut self, channel: ChannelId, method: impl Into<Method>) {
        put_method(&mut self.outbox, channel, &method.into());
        self.flush().await;
        self.answer().await;
    }

    async fn flush(&mut self) {
        self.socket.write_all(&self.outbox).await.expect("a broker");
        self.outbox.clear();
    }

    async fn read(&mut self) -> Bytes {
        let read = self.socket.read_buf(&mut self.inbox).await;
        assert_ne!(read.expect("a broker"), 0, "the broker hung up");
        take_whole_frames(&mut self.inbox, FRAME_MAX as usize)
    }

    /// Waits for the answer to the only question that was asked.
    async fn answer(&mut self) {
        while self.read().await.is_empty() {}
    }

    /// Reads until so many deliveries came.
    async fn receive(&mut self, mut count: u64) {
        while count > 0 {
            let chunk = self.read().await;
            let mut at = 0;
            while let Some(frame) =
                next_frame(&chunk, &mut at, FRAME_MAX as usize).expect("good frames")
            {
                count -= u64::from(frame.kind == FrameKind::Header);
            }
        }
    }

    /// Reads until the broker has confirmed this publish.
    async fn wait_for_confirm(&mut self, last: u64) {
        let mut confirmed = 0;
        while confirmed < last {
            let chunk = self.read().await;
            let mut at = 0;
            while let Some(frame) =
                next_frame(&chunk, &mut at, FRAME_MAX as usize).expect("good frames")
            {
                match Method::decode(&chunk, frame.payload).expect("a method") {
                    Method::Basic(basic::Basic::Ack(ack)) => {
                        confirmed = ack.delivery_tag.get();
                    }
                    other => panic!("not a confirm: {other:?}"),
                }
            }
        }
    }
}

/// A queue and its consumer, which is `no_ack` or has a prefetch of 1000, and a batch of publishes.
fn scene(persistent: bool, no_ack: bool) -> (Scene, BytesMut) {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("amqp");
    let (broker, server, publisher, consumer) = runtime.block_on(async {
        let options = StartOptions {
            data_dir: None,
            store: leveret_store::Options::default(),
            node: NodeOptions::default(),
            limits: Limits::default(),
        };
        let failed = |failure| panic!("storage failed: {failure}");
        let broker = Broker::start(&options, failed).expect("a broker");
        let mut listeners = Listeners::bind_all_of(&[], &[]).expect("none");
        listeners.bind_unix(&path).expect("a socket");
        let settings = Arc::new(Settings::default());
        let server = Server::start(
            listeners,
            Arc::clone(&broker),
            settings,
            &ServerOptions::default(),
        );
        let mut publisher = Client::connect(&path).await;
        let mut consumer = Client::connect(&path).await;
        if persistent {
            publisher.call(CHANNEL, confirm::Select::default()).await;
        }
        let declare = queue::Declare {
            queue: ShortString::from_static("work"),
            durable: persistent,
            exclusive: !persistent,
            ..queue::Declare::default()
        };
        consumer.call(CHANNEL, declare).await;
        let qos = basic::Qos {
            prefetch_count: 1000,
            ..basic::Qos::default()
        };
        consumer.call(CHANNEL, qos).await;
        let consume = basic::Consume {
            queue: ShortString::from_static("work"),
            no_ack,
            ..basic::Consume::default()
        };
        consumer.call(CHANNEL, consume).await;
        (broker, server, publisher, consumer)
    });
    let scene = Scene {
        runtime,
        publisher,
        consumer,
        _server: server,
        broker,
        _dir: dir,
    };
    (scene, batch(persistent))
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.broker.stop();
    }
}

/// What a batch of publishes is on the wire.
fn batch(persistent: bool) -> BytesMut {
    let mut octets = BytesMut::new();
    let properties = BasicProperties {
        delivery_mode: persistent.then_some(2),
        ..BasicProperties::default()
    };
    for _ in 0..BATCH {
        put_publish(&mut octets, "work", &properties, &[0x2A; 16]);
    }
    octets
}

/// Acks of the next batch behind `received`, one for each message or one for all.
fn acks(received: u64, multiple: bool, out: &mut BytesMut) {
    let first = if multiple {
        received + BATCH
    } else {
        received + 1
    };
    for tag in first..=received + BATCH {
        let ack = basic::Ack {
            delivery_tag: DeliveryTag::new(tag),
            multiple,
        };
        put_method(out, CHANNEL, &ack.into());
    }
}

fn run(scene: &mut Scene, octets: &BytesMut, confirmed: bool, acked: Option<bool>) {
    let Scene {
        runtime,
        publisher,
        consumer,
        ..
    } = scene;
    runtime.block_on(async {
        for batch in 0..MESSAGES / BATCH {
            publisher.outbox.extend_from_slice(octets);
            publisher.flush().await;
            consumer.receive(BATCH).await;
            if let Some(multiple) = acked {
                acks(batch * BATCH, multiple, &mut consumer.outbox);
                consumer.flush().await;
            }
            if confirmed {
                publisher.wait_for_confirm((batch + 1) * BATCH).await;
            }
        }
    });
}

#[library_benchmark]
#[bench::of_16_bytes(args = (false, true), setup = scene)]
fn transient_auto_acked((mut scene, octets): (Scene, BytesMut)) -> Scene {
    run(&mut scene, &octets, false, None);
    scene
}

#[library_benchmark]
#[bench::of_16_bytes(args = (false, false), setup = scene)]
fn transient_acked_each((mut scene, octets): (Scene, BytesMut)) -> Scene {
    run(&mut scene, &octets, false, Some(false));
    scene
}

#[library_benchmark]
#[bench::of_16_bytes(args = (true, false), setup = scene)]
fn persistent_confirmed_acked((mut scene, octets): (Scene, BytesMut)) -> Scene {
    run(&mut scene, &octets, true, Some(true));
    scene
}
