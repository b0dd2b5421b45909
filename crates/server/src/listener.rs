//! Sockets that wait for clients.

use std::{
    io,
    net::SocketAddr,
    os::unix::net::UnixStream as StdUnixStream,
    path::{Path, PathBuf},
    sync::Arc,
};

use leveret_tls::Tls;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, UnixListener};
use tracing::debug;

/// Connections the kernel keeps until they are accepted.
const BACKLOG: i32 = 1024;

/// A listener cannot be had. The text is for the operator.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody else has the port.
    #[error("port {} is in use ({address}): is another broker running? Choose another with --listen", address.port())]
    InUse {
        /// What was asked for.
        address: SocketAddr,
    },
    /// Anything else.
    #[error("cannot listen on {address}: {source}")]
    Other {
        /// What was asked for.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A socket in the file system.
    #[error("cannot listen on {path}: {source}")]
    Unix {
        /// What was asked for.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Bound sockets; clients can connect and wait for the first accept.
#[derive(Debug)]
pub struct Listeners {
    sockets: Vec<Listener>,
}

/// One socket, and what its clients begin with.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: Bound,
    pub(crate) tls: Option<Arc<Tls>>,
    /// A PROXY header is due before anything else.
    pub(crate) behind_proxy: bool,
}

#[derive(Debug)]
pub(crate) enum Bound {
    Tcp(TcpListener),
    Unix(UnixListener, Arc<Path>),
}

impl Listeners {
    /// Binds every address; those in `if_possible` only where the machine has their family.
    ///
    /// # Errors
    ///
    /// The first address that cannot be had.
    pub fn bind_all_of(
        wanted: &[SocketAddr],
        if_possible: &[SocketAddr],
    ) -> Result<Self, BindError> {
        let sockets = Vec::new();
        let mut listeners = Self { sockets };
        listeners.bind_tcp(wanted, if_possible, None)?;
        Ok(listeners)
    }

    /// The same for clients that speak TLS from the first byte.
    ///
    /// # Errors
    ///
    /// The first address that cannot be had.
    pub fn bind_tls(
        &mut self,
        wanted: &[SocketAddr],
        if_possible: &[SocketAddr],
        tls: &Arc<Tls>,
    ) -> Result<(), BindError> {
        self.bind_tcp(wanted, if_possible, Some(tls))
    }

    /// A socket in the file system, in place of one that a broker left behind.
    ///
    /// # Errors
    ///
    /// When it cannot be had, or somebody answers there.
    pub fn bind_unix(&mut self, path: &Path) -> Result<(), BindError> {
        let socket = bind_unix(path).map_err(|source| BindError::Unix {
            path: path.to_owned(),
            source,
        })?;
        self.sockets.push(Listener {
            socket: Bound::Unix(socket, path.into()),
            tls: None,
            behind_proxy: false,
        });
        Ok(())
    }

    /// Whoever comes by TCP, plain or not, comes through a proxy that says so first: `proxy_protocol`.
    pub fn expect_proxy_headers(&mut self) {
        for listener in &mut self.sockets {
            listener.behind_proxy = matches!(listener.socket, Bound::Tcp(_));
        }
    }

    /// The addresses in use for plain connections, with the ports that were chosen for port 0.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.tcp_addresses(false)
    }

    /// The addresses in use for TLS.
    #[must_use]
    pub fn tls_addresses(&self) -> Vec<SocketAddr> {
        self.tcp_addresses(true)
    }

    fn tcp_addresses(&self, with_tls: bool) -> Vec<SocketAddr> {
        let listeners = self.sockets.iter();
        listeners
            .filter(|listener| listener.tls.is_some() == with_tls)
            .filter_map(|listener| match &listener.socket {
                Bound::Tcp(socket) => socket.local_addr().ok(),
                Bound::Unix(..) => None,
            })
            .collect()
    }

    fn bind_tcp(
        &mut self,
        wanted: &[SocketAddr],
        if_possible: &[SocketAddr],
        tls: Option<&Arc<Tls>>,
    ) -> Result<(), BindError> {
        let mut add = |socket| {
            self.sockets.push(Listener {
                socket: Bound::Tcp(socket),
                tls: tls.cloned(),
                behind_proxy: false,
            });
        };
        for &address in wanted {
            add(bind(address).map_err(|source| BindError::of(address, source))?);
        }
        for &address in if_possible {
            match bind(address) {
                Ok(socket) => add(socket),
                Err(source) if source.kind() == io::ErrorKind::AddrInUse => {
                    return Err(BindError::of(address, source));
                }
                Err(reason) => debug!(%address, %reason, "not listening here"),
            }
        }
        Ok(())
    }

    pub(crate) fn into_sockets(self) -> Vec<Listener> {
        self.sockets
    }
}

impl BindError {
    fn of(address: SocketAddr, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::InUse { address },
            _ => Self::Other { address, source },
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        // IPv4 has a listener of its own, and peers keep the addresses they really have.
        socket.set_only_v6(true)?;
    }
    // A restarted broker gets its port back while old connections linger in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            // A file that nobody answers at is what a killed broker leaves. Whatever else is there stays.
            match StdUnixStream::connect(path) {
                Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(path)?;
                    UnixListener::bind(path)
                }
                Ok(_) | Err(_) => Err(error),
            }
        }
        bound => bound,
    }
}
