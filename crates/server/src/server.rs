//! Accepts connections until told to stop.

use std::{sync::Arc, time::Duration};

use leveret_runtime::Broker;
use leveret_session::Settings;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::{debug, warn};

use crate::{connection_task, listener::Listeners};

/// Pause after a failed accept: without descriptors it would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A server that accepts connections.
#[derive(Debug)]
pub struct Server {
    broker: Arc<Broker>,
    stopping: watch::Sender<bool>,
    acceptors: JoinSet<()>,
    /// Every connection task has a receiver; when the last one is dropped they are all gone.
    connections: watch::Sender<()>,
}

impl Server {
    /// Starts accepting.
    #[must_use]
    pub fn start(listeners: Listeners, broker: Arc<Broker>, settings: Arc<Settings>) -> Self {
        let (stopping, _) = watch::channel(false);
        let (connections, _) = watch::channel(());
        let mut acceptors = JoinSet::new();
        for listener in listeners.into_sockets() {
            acceptors.spawn(accept(
                listener,
                broker.clone(),
                settings.clone(),
                stopping.subscribe(),
                connections.subscribe(),
            ));
        }
        Self {
            broker,
            stopping,
            acceptors,
            connections,
        }
    }

    /// Stops accepting, answers open confirms, closes every connection with 320.
    ///
    /// `false` when some clients did not answer the close within `deadline`; they are cut off.
    pub async fn stop(mut self, deadline: Duration) -> bool {
        self.acceptors.abort_all();
        while self.acceptors.join_next().await.is_some() {}
        // What was published before this moment is confirmed before the close frame.
        self.broker.flush().await;
        self.stopping.send_replace(true);
        timeout(deadline, self.connections.closed()).await.is_ok()
    }
}

async fn accept(
    listener: TcpListener,
    broker: Arc<Broker>,
    settings: Arc<Settings>,
    stopping: watch::Receiver<bool>,
    alive: watch::Receiver<()>,
) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                if let Err(reason) = stream.set_nodelay(true) {
                    debug!(%peer, %reason, "gone before it was accepted");
                    continue;
                }
                let connection = connection_task::Accepted {
                    stream,
                    peer,
                    broker: broker.clone(),
                    settings: settings.clone(),
                    stopping: stopping.clone(),
                };
                let alive = alive.clone();
                tokio::spawn(async move {
                    connection_task::run(connection).await;
                    drop(alive);
                });
            }
            Err(reason) => {
                warn!(%reason, "cannot accept a connection, trying again");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
