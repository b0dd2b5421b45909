//! Accepts connections until told to stop.

use std::{
    io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use leveret_runtime::{Broker, Endpoint};
use leveret_session::{Mechanism, Settings};
use leveret_tls::LoginFrom;
use tokio::{
    net::{TcpStream, UnixStream},
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::{debug, warn};

use crate::{
    connection_task,
    listener::{Bound, Listener, Listeners},
    network::Network,
    told::Told,
    welcome::{self, Arrival},
};

/// Pause after a failed accept: without descriptors it would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a server does beside AMQP.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// How long a TLS handshake may take.
    pub tls_handshake_timeout: Duration,
    /// Which part of a client's certificate is a user.
    pub login_from: LoginFrom,
    /// Who may be a proxy where one is expected; everybody, when there are none.
    pub trusted_proxies: Vec<Network>,
    /// Sockets that may be open at once; who comes then waits to be accepted.
    pub sockets_max: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            tls_handshake_timeout: Duration::from_secs(5),
            login_from: LoginFrom::default(),
            trusted_proxies: Vec::new(),
            sockets_max: 65_536,
        }
    }
}

/// A server that accepts connections.
#[derive(Debug)]
pub struct Server {
    stopping: watch::Sender<bool>,
    acceptors: JoinSet<()>,
    /// Every connection task has a receiver; when the last one is dropped they are all gone.
    connections: watch::Sender<()>,
    /// Files to be removed when nobody is accepted any more.
    unix_paths: Vec<Arc<Path>>,
}

/// What every connection of a listener begins with.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(crate) broker: Arc<Broker>,
    /// Those of the next connection: as configured, but for the cluster's name, which can be changed meanwhile.
    pub(crate) settings: Arc<Settings>,
    configured: Arc<Settings>,
    pub(crate) options: ServerOptions,
    pub(crate) stopping: watch::Receiver<bool>,
    alive: watch::Receiver<()>,
    /// Sockets that may still be opened.
    room: Arc<Semaphore>,
    pub(crate) told: Arc<Told>,
}

impl Server {
    /// Starts accepting.
    #[must_use]
    pub fn start(
        listeners: Listeners,
        broker: Arc<Broker>,
        settings: Arc<Settings>,
        options: &ServerOptions,
    ) -> Self {
        let (stopping, _) = watch::channel(false);
        let (connections, _) = watch::channel(());
        let mut acceptors = JoinSet::new();
        let mut unix_paths = Vec::new();
        let room = Arc::new(Semaphore::new(options.sockets_max));
        let told = Arc::new(Told::default());
        let without_tls = Arc::new(without_external(&settings));
        for listener in listeners.into_sockets() {
            if let Bound::Unix(_, path) = &listener.socket {
                unix_paths.push(path.clone());
            }
            let settings = if listener.tls.is_some() {
                &settings
            } else {
                &without_tls
            };
            let host = Host {
                broker: broker.clone(),
                settings: settings.clone(),
                configured: settings.clone(),
                options: options.clone(),
                stopping: stopping.subscribe(),
                alive: connections.subscribe(),
                room: room.clone(),
                told: told.clone(),
            };
            acceptors.spawn(accept(listener, host));
        }
        Self {
            stopping,
            acceptors,
            connections,
            unix_paths,
        }
    }

    /// Stops accepting, answers open confirms, closes every connection with 320.
    ///
    /// `false` when some clients did not answer the close within `deadline`; they are cut off.
    pub async fn stop(mut self, deadline: Duration) -> bool {
        self.acceptors.abort_all();
        while self.acceptors.join_next().await.is_some() {}
        for path in &self.unix_paths {
            // Whoever removed it before has done no harm.
            let _ = std::fs::remove_file(path);
        }
        // Each waits for what it has read to be confirmed before its close frame, and all of them share a sync.
        self.stopping.send_replace(true);
        timeout(deadline, self.connections.closed()).await.is_ok()
    }
}

/// Certificates are shown over TLS only.
fn without_external(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    settings
        .mechanisms
        .retain(|mechanism| *mechanism != Mechanism::External);
    settings
}

impl Host {
    fn follow_cluster_name(&mut self) {
        let configured = &self.configured;
        self.settings = match self.broker.given_cluster_name() {
            Some(given) if given != configured.cluster_name => Arc::new(Settings {
                cluster_name: given,
                ..Settings::clone(configured)
            }),
            _ => configured.clone(),
        };
    }
}

async fn accept(listener: Listener, mut host: Host) {
    let mut known_version = None;
    loop {
        // Before a descriptor is taken: those that are left are the store's.
        let room = host.room.clone().acquire_owned().await;
        match accept_one(&listener).await {
            Ok(Some(arrival)) => {
                let version = host.broker.directory_version();
                if known_version.replace(version) != Some(version) {
                    host.follow_cluster_name();
                }
                let alive = host.alive.clone();
                // On the heap until AMQP begins, or the task kept room for TLS and PROXY as long as the connection lives.
                let welcomed = Box::pin(welcome::welcome(arrival, host.clone()));
                tokio::spawn(async move {
                    if let Some(serving) = welcomed.await.map(connection_task::run) {
                        serving.await;
                    }
                    drop((alive, room));
                });
            }
            Ok(None) => {}
            Err(reason) => {
                warn!(%reason, "cannot accept a connection, trying again");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The next client; `None` for one that is gone already.
async fn accept_one(listener: &Listener) -> io::Result<Option<Arrival>> {
    let at = Instant::now;
    match &listener.socket {
        Bound::Tcp(socket) => {
            let (stream, peer) = socket.accept().await?;
            Ok(prepared(stream, peer).map(|(stream, local)| Arrival {
                stream: welcome::Socket::Tcp(stream),
                peer: peer.into(),
                local,
                at: at(),
                tls: listener.tls.clone(),
                behind_proxy: listener.behind_proxy,
            }))
        }
        Bound::Unix(socket, path) => {
            let (stream, _): (UnixStream, _) = socket.accept().await?;
            Ok(Some(Arrival {
                stream: welcome::Socket::Unix(stream),
                // Its number comes with the connection.
                peer: Endpoint::Unix(path.clone(), None),
                local: Endpoint::Unix(path.clone(), None),
                at: at(),
                tls: None,
                behind_proxy: false,
            }))
        }
    }
}

fn prepared(stream: TcpStream, peer: std::net::SocketAddr) -> Option<(TcpStream, Endpoint)> {
    match stream.set_nodelay(true).and_then(|()| stream.local_addr()) {
        Ok(local) => Some((stream, local.into())),
        Err(reason) => {
            debug!(%peer, %reason, "gone before it was accepted");
            None
        }
    }
}
