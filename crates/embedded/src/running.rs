//! The thread that a broker lives on.
//!
//! A runtime of its own: the test may have none, one of a single thread, or one per test that ends in the middle of
//! everything.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use leveret_management::{
    BoundListener, HttpSettings, HttpThread, Management, Node, NodeFacts, import_file, import_text,
    load_messages, load_messages_from,
};
use leveret_runtime::{Broker, Limits, NodeOptions, StartOptions};
use leveret_server::{Listeners, Patience, Server, ServerOptions, stop};
use tokio::{
    runtime::Builder,
    sync::{mpsc::Receiver, oneshot},
};
use tracing::error;

use crate::{Options, StartError, StopError, options::Given};

/// Threads of one broker. A test keeps few connections busy, and many tests run at once.
const THREADS: usize = 2;

/// Threads that read stored messages back.
const BLOCKING_THREADS_MAX: usize = 2;

/// How long tasks have to end that nobody waits for.
const RUNTIME_DEADLINE: Duration = Duration::from_secs(1);

/// What definitions and messages are called that are in no file.
const DEFINITIONS_TEXT: &str = "(definitions)";
const MESSAGES_TEXT: &str = "(messages)";

/// A free port of this machine and nobody else's.
const ANY_PORT: SocketAddr = SocketAddr::V4(std::net::SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));

/// What is known as soon as clients are accepted: where they are, and where those of the HTTP API are.
type Addresses = (SocketAddr, Option<SocketAddr>);

/// A broker on its thread.
#[derive(Debug)]
pub(crate) struct Running {
    /// Gone once it was told to stop.
    told: Option<oneshot::Sender<Duration>>,
    thread: Option<JoinHandle<Result<(), StopError>>>,
}

impl Running {
    /// Returns when clients are accepted.
    pub(crate) fn start(
        options: &Options,
    ) -> Result<(Self, SocketAddr, Option<SocketAddr>), StartError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_name("leveret")
            .enable_all()
            .build()?;
        let (told, stop) = oneshot::channel();
        let (ready, started) = mpsc::sync_channel(1);
        let options = options.clone();
        let thread = thread::Builder::new()
            .name("leveret".to_owned())
            .spawn(move || {
                let ended = runtime.block_on(async {
                    let (served, addresses) = match Served::start(&options).await {
                        Ok(started) => started,
                        Err(error) => {
                            let _ = ready.send(Err(error));
                            return Ok(());
                        }
                    };
                    let _ = ready.send(Ok(addresses));
                    // Without a word it is over at once.
                    let deadline = stop.await.unwrap_or_default();
                    served.stop(deadline).await
                });
                runtime.shutdown_timeout(RUNTIME_DEADLINE);
                ended
            })?;
        let running = Self {
            told: Some(told),
            thread: Some(thread),
        };
        let (address, http) = started
            .recv()
            .map_err(|_| io::Error::other("the broker's thread ended"))??;
        Ok((running, address, http))
    }

    /// Returns when it is gone; clients that do not answer a close in time are cut off. A disk that does not answer is not
    /// waited for for ever either.
    pub(crate) fn stop(&mut self, deadline: Duration) -> Result<(), StopError> {
        if let Some(told) = self.told.take() {
            // The thread may have ended by itself.
            let _ = told.send(deadline);
        }
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            // Its panic was printed where it happened.
            Some(Err(_)) => Err(StopError("the broker's thread panicked".to_owned())),
            None => Ok(()),
        }
    }
}

/// A broker that serves.
struct Served {
    broker: Arc<Broker>,
    /// The thread behind what is served on it, so that it goes last.
    http: Option<(Management, HttpThread)>,
    server: Server,
}

impl Served {
    async fn start(options: &Options) -> Result<(Self, Addresses), StartError> {
        let listeners = Listeners::bind_all_of(&[ANY_PORT], &[])?;
        let http = options
            .has_http
            .then(|| BoundListener::bind(ANY_PORT, "http"));
        let http = http.transpose()?;
        let broker = Broker::start(&start_options(options), |failure| {
            // Nothing can be promised any more, and a test that went on would test nothing.
            error!(%failure, "storage failed");
            std::process::abort();
        })?;
        for given in &options.definitions {
            match given {
                Given::File(path) => import_file(&broker, path).await?,
                Given::Text(text) => {
                    import_text(&broker, Path::new(DEFINITIONS_TEXT), text.as_bytes()).await?;
                }
            }
        }
        for given in &options.messages {
            match given {
                Given::File(path) => load_messages(&broker, path).await?,
                Given::Text(text) => {
                    load_messages_from(&broker, Path::new(MESSAGES_TEXT), text.as_bytes()).await?
                }
            };
        }
        let amqp = listeners.addresses();
        let address = *amqp
            .first()
            .ok_or_else(|| io::Error::other("the listener has no address"))?;
        let http_address = http.as_ref().map(BoundListener::address);
        let serve_http = |bound| -> io::Result<_> {
            let thread = HttpThread::start()?;
            let facts = NodeFacts {
                name: options.node_name.clone(),
                data_dir: options.data_dir.clone(),
                ..NodeFacts::default()
            };
            let (node, orders) = Node::new(facts, &thread);
            node.set_phase(leveret_management::Phase::Running);
            tokio::spawn(refuse(orders));
            let broker = broker.clone();
            let settings = HttpSettings::default();
            let amqp = (amqp, Vec::new(), None);
            let management =
                Management::start(&node, broker, amqp, vec![bound], Vec::new(), settings);
            Ok((management, thread))
        };
        let http = http.map(serve_http).transpose()?;
        let server = Server::start(
            listeners,
            broker.clone(),
            Arc::new(leveret_session::Settings::default()),
            &ServerOptions::default(),
        );
        let served = Self {
            broker,
            http,
            server,
        };
        Ok((served, (address, http_address)))
    }

    async fn stop(self, clients: Duration) -> Result<(), StopError> {
        drop(self.http);
        let patience = Patience {
            clients,
            ..Patience::default()
        };
        let stopped = stop(self.server, self.broker, patience).await;
        stopped.map_err(|error| StopError(error.to_string()))
    }
}

/// The test has the process, whoever asks by HTTP has not.
async fn refuse(mut orders: Receiver<leveret_management::Ordered>) {
    while let Some(ordered) = orders.recv().await {
        ordered.done(Err(
            "the broker is part of a process that started it".to_owned()
        ));
    }
}

fn start_options(options: &Options) -> StartOptions {
    StartOptions {
        data_dir: options.data_dir.clone(),
        store: leveret_store::Options::default(),
        node: NodeOptions {
            name: options.node_name.clone(),
            default_user: options.user.clone(),
            default_password: options.password.clone(),
            default_vhost: options.vhost.clone(),
            ..NodeOptions::default()
        },
        limits: Limits::default(),
    }
}
