//! Where one side of a connection is.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
};

/// One end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// An address and port.
    Ip(SocketAddr),
    /// A socket in the file system. Its clients have no address; a number tells them apart, the broker's own end
    /// has none.
    Unix(Arc<Path>, Option<u64>),
}

impl Endpoint {
    /// The address. Whoever comes through the file system is on this machine.
    #[must_use]
    pub const fn ip(&self) -> IpAddr {
        match self {
            Self::Ip(address) => address.ip(),
            Self::Unix(..) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }

    /// The port, 0 where there is none.
    #[must_use]
    pub const fn port(&self) -> u16 {
        match self {
            Self::Ip(address) => address.port(),
            Self::Unix(..) => 0,
        }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(path, None) => write!(f, "unix:{}", path.display()),
            Self::Unix(path, Some(number)) => write!(f, "unix:{}#{number}", path.display()),
        }
    }
}
