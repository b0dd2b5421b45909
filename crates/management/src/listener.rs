//! The sockets of the API and of the metrics: bounded in number and in time, with TLS or without.
//!
//! Whoever comes without credentials can cost a connection, [`HEADER_BYTES_MAX`] of memory and [`HttpTimeouts::head`](crate::HttpTimeouts::head) of
//! waiting, not more; and from one address no more than half of the connections. Who does not take the answer is cut off.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{Extension, Router, extract::ConnectInfo};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use leveret_tls::Tls;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use crate::patient::Patient;

/// Connections a listener has at once unless it is told otherwise; who comes then waits to be accepted.
const CONNECTIONS_MAX: usize = 1024;

/// How long a TLS handshake may take.
const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The head of a request; a larger one is answered 431.
const HEADER_BYTES_MAX: usize = 16 * 1024;

/// How long a client may take nothing at all of an answer; as long as one of AMQP.
const STALL_LIMIT: Duration = Duration::from_secs(30);

/// Pause after a failed accept: without descriptors it would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a request came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IsEncrypted(pub(crate) bool);

/// A listener cannot be had. The text is for the operator.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({option}): {source}")]
pub struct HttpError {
    address: SocketAddr,
    option: &'static str,
    source: io::Error,
}

/// An address that is bound and not served yet.
#[derive(Debug)]
pub struct BoundListener {
    socket: std::net::TcpListener,
    address: SocketAddr,
    tls: Option<Arc<Tls>>,
    connections_max: usize,
}

impl BoundListener {
    /// Binds an address; `option` is how the operator gave it.
    ///
    /// # Errors
    ///
    /// When it cannot be had.
    pub fn bind(address: SocketAddr, option: &'static str) -> Result<Self, HttpError> {
        let bound = || {
            let socket = std::net::TcpListener::bind(address)?;
            socket.set_nonblocking(true)?;
            let address = socket.local_addr()?;
            Ok(Self {
                socket,
                address,
                tls: None,
                connections_max: CONNECTIONS_MAX,
            })
        };
        bound().map_err(|source| HttpError {
            address,
            option,
            source,
        })
    }

    /// The same for clients that speak TLS.
    #[must_use]
    pub fn with_tls(self, tls: Arc<Tls>) -> Self {
        Self {
            tls: Some(tls),
            ..self
        }
    }

    /// The same for so many connections at once.
    #[must_use]
    pub fn with_room_for(self, connections_max: usize) -> Self {
        Self {
            connections_max,
            ..self
        }
    }

    /// The address in use, with the port that was chosen for port 0.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What its clients are shown, if they speak TLS.
    pub(crate) const fn tls(&self) -> Option<&Arc<Tls>> {
        self.tls.as_ref()
    }

    /// Whether its clients speak TLS.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Serves until the task that this is ends.
    pub(crate) async fn serve(self, router: Router, head_timeout: Duration) -> io::Result<()> {
        let Self {
            socket,
            tls,
            connections_max,
            ..
        } = self;
        let listener = TcpListener::from_std(socket)?;
        let room = Arc::new(Semaphore::new(connections_max));
        let shares = Shares::of(connections_max);
        // They end with this task.
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let permit = room
                .clone()
                .acquire_owned()
                .await
                .expect("the semaphore is never closed");
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(reason) => {
                    warn!(%reason, "cannot accept a connection to the HTTP API, trying again");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(share) = shares.take(peer.ip()) else {
                debug!(%peer, "too many HTTP connections from one address, it is closed");
                continue;
            };
            let router = router
                .clone()
                .layer(Extension(ConnectInfo(peer)))
                .layer(Extension(IsEncrypted(tls.is_some())));
            let tls = tls.clone();
            connections.spawn(async move {
                match tls {
                    None => serve_one(stream, router, head_timeout).await,
                    Some(tls) => {
                        if let Some(stream) = shake_hands(stream, &tls, peer).await {
                            serve_one(stream, router, head_timeout).await;
                        }
                    }
                }
                drop((permit, share));
            });
        }
    }
}

/// Connections of each address, of which none has more than half: whoever holds on to theirs shuts nobody else out.
#[derive(Debug)]
struct Shares {
    each_max: usize,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Shares {
    fn of(connections_max: usize) -> Self {
        Self {
            each_max: connections_max.div_ceil(2),
            taken: Arc::default(),
        }
    }

    /// One more connection of an address, unless it has its share.
    fn take(&self, address: IpAddr) -> Option<Share> {
        let address = address.to_canonical();
        let mut taken = self.taken.lock();
        let count = taken.entry(address).or_default();
        if *count >= self.each_max {
            return None;
        }
        *count += 1;
        Some(Share {
            address,
            taken: self.taken.clone(),
        })
    }
}

/// A connection that counts for as long as this is there.
#[derive(Debug)]
struct Share {
    address: IpAddr,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        if let Some(count) = taken.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

async fn shake_hands(
    stream: TcpStream,
    tls: &Tls,
    peer: SocketAddr,
) -> Option<impl AsyncRead + AsyncWrite + Unpin + Send + 'static> {
    let shaking = TlsAcceptor::from(tls.config()).accept(stream);
    match timeout(TLS_HANDSHAKE_TIMEOUT, shaking).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(reason)) => {
            debug!(%peer, %reason, "TLS handshake of an HTTP client failed");
            None
        }
        Err(_) => None,
    }
}

async fn serve_one(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    head_timeout: Duration,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(
            TokioIo::new(Patient::new(stream, STALL_LIMIT)),
            TowerToHyperService::new(router),
        );
    if let Err(reason) = connection.await {
        debug!(%reason, "an HTTP connection ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_no_more_than_half_of_the_connections() {
        let shares = Shares::of(4);
        let [one, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let first = shares.take(one).expect("room");
        let _second = shares.take(one).expect("room");
        assert!(shares.take(one).is_none());
        let _others = [other, other].map(|address| shares.take(address).expect("room"));
        drop(first);
        let _third = shares.take(one).expect("room again");
        assert!(shares.take(one).is_none());
    }

    #[test]
    fn nobody_is_remembered_who_has_no_connection() {
        let shares = Shares::of(4);
        drop(shares.take([10, 0, 0, 1].into()));
        assert!(shares.taken.lock().is_empty());
    }
}
