//! What systemd is told of a unit of `Type=notify`, as RabbitMQ's own is: it waits to hear that the broker serves, and ends
//! one that never says so.

use std::{
    env,
    ffi::OsStr,
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
};

use tracing::warn;

/// Names the socket on which it listens, if it does.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// Where the broker is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Clients are served.
    Ready,
    /// No longer.
    Stopping,
}

impl State {
    const fn text(self) -> &'static str {
        match self {
            Self::Ready => "READY=1\nSTATUS=Initialized",
            Self::Stopping => "STOPPING=1\nSTATUS=Shutting down",
        }
    }
}

/// Tells it, if somebody listens.
pub(crate) fn tell(state: State) {
    let Some(socket) = env::var_os(SOCKET_VARIABLE).filter(|socket| !socket.is_empty()) else {
        return;
    };
    if let Err(reason) = send(&socket, state) {
        warn!(%reason, "the service manager cannot be told that the broker is {state:?}");
    }
}

fn send(socket: &OsStr, state: State) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        // A name that is no file.
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    sender.send_to_addr(state.text().as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_is_told_by_a_path_and_by_a_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let name = format!("leveret-test-{}", std::process::id());
        let by_path = UnixDatagram::bind(&path).expect("it binds");
        let abstract_name = SocketAddr::from_abstract_name(&name).expect("a name");
        let by_name = UnixDatagram::bind_addr(&abstract_name).expect("it binds");
        let named = format!("@{name}");
        for (listener, socket) in [(by_path, path.as_os_str()), (by_name, OsStr::new(&named))] {
            send(socket, State::Ready).expect("somebody listens");
            let mut told = [0; 64];
            let length = listener.recv(&mut told).expect("a message");
            assert_eq!(&told[..length], b"READY=1\nSTATUS=Initialized");
        }
        assert!(send(OsStr::new("/nowhere/notify"), State::Stopping).is_err());
    }
}
