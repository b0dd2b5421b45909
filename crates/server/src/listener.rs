//! Sockets that wait for clients.

use std::{io, net::SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
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
}

/// Bound sockets; clients can connect and wait for the first accept.
#[derive(Debug)]
pub struct Listeners {
    sockets: Vec<TcpListener>,
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
        let mut sockets = Vec::new();
        for &address in wanted {
            sockets.push(bind(address).map_err(|source| BindError::of(address, source))?);
        }
        for &address in if_possible {
            match bind(address) {
                Ok(socket) => sockets.push(socket),
                Err(source) if source.kind() == io::ErrorKind::AddrInUse => {
                    return Err(BindError::of(address, source));
                }
                Err(reason) => debug!(%address, %reason, "not listening here"),
            }
        }
        Ok(Self { sockets })
    }

    /// The addresses in use, with the ports that were chosen for port 0.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets
            .iter()
            .filter_map(|socket| socket.local_addr().ok())
            .collect()
    }

    pub(crate) fn into_sockets(self) -> Vec<TcpListener> {
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
