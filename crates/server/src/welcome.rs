//! What comes before AMQP: the word of a proxy, the TLS handshake.

use std::{fmt, io, net::IpAddr, sync::Arc, time::Instant};

use leveret_runtime::{Endpoint, PeerCertFacts, TlsFacts};
use leveret_tls::{CipherFacts, LoginFrom, PeerCertificate, Tls};
use tokio::{
    net::{TcpStream, UnixStream},
    time::{Instant as TokioInstant, timeout, timeout_at},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tracing::{debug, info};

use crate::{connection_task::Accepted, proxy, server::Host, told::Tell, transport::Transport};

/// A socket that was just accepted.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) stream: Socket,
    pub(crate) peer: Endpoint,
    pub(crate) local: Endpoint,
    pub(crate) at: Instant,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) behind_proxy: bool,
}

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Leads a socket to where AMQP begins; `None` when it did not get there.
pub(crate) async fn welcome(arrival: Arrival, host: Host) -> Option<Accepted> {
    let Arrival {
        stream,
        mut peer,
        local,
        at,
        tls,
        behind_proxy,
    } = arrival;
    let id = host.broker.next_connection_id();
    let accepted = |stream, peer, tls, host| {
        Some(Accepted {
            id,
            stream,
            peer,
            local,
            accepted_at: at,
            tls,
            host,
        })
    };
    let mut stream = match stream {
        Socket::Tcp(stream) => stream,
        Socket::Unix(stream) => {
            if let Endpoint::Unix(_, number) = &mut peer {
                *number = Some(id.get());
            }
            return accepted(Transport::Unix(stream), peer, None, host);
        }
    };
    if behind_proxy {
        let trusted = &host.options.trusted_proxies;
        let is_trusted = |proxy: IpAddr| trusted.iter().any(|network| network.contains(proxy));
        // Nothing is read of anybody else: what they say of themselves counts for nothing.
        if !trusted.is_empty() && !is_trusted(peer.ip()) {
            let reason = "it is not one of the trusted proxies";
            came_to_nothing(&host, &peer, "not a proxy", &reason);
            return None;
        }
        // The whole handshake has one time limit.
        let limit = std::time::Duration::from_millis(host.settings.handshake_timeout_millis);
        let source = timeout_at(
            TokioInstant::from_std(at + limit),
            proxy::source(&mut stream),
        );
        match source.await.unwrap_or_else(|_| Err(timed_out())) {
            Ok(Some(source)) => peer = source.into(),
            Ok(None) => {}
            Err(reason) => {
                came_to_nothing(&host, &peer, "not a proxy", &reason);
                return None;
            }
        }
    }
    let Some(tls) = tls else {
        return accepted(Transport::Tcp(stream), peer, None, host);
    };
    let options = &host.options;
    // On the heap: a plain connection's task needs no room for it.
    let shaken = timeout(
        options.tls_handshake_timeout,
        Box::pin(TlsAcceptor::from(tls.config()).accept(stream)),
    );
    match shaken.await.unwrap_or_else(|_| Err(timed_out())) {
        Ok(stream) => {
            let tls = Shown::of(&stream, options.login_from);
            let stream = Transport::Tls(Box::new(stream));
            accepted(stream, peer, Some(Box::new(tls)), host)
        }
        Err(reason) => {
            came_to_nothing(&host, &peer, "TLS handshake failed", &reason);
            None
        }
    }
}

/// Tells of a socket that got no further. Anybody can open one, and open it again.
fn came_to_nothing(host: &Host, peer: &Endpoint, what: &str, reason: &dyn fmt::Display) {
    match host.told.next(Instant::now()) {
        Tell::Line => info!(%peer, %reason, "{what}"),
        Tell::LastLine => {
            info!(%peer, %reason, "{what}; further ones within this minute are not told");
        }
        Tell::Nothing => debug!(%peer, %reason, "{what}"),
    }
}

/// What came of a handshake.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) facts: TlsFacts,
    /// The user whom the client's certificate names.
    pub(crate) login: Option<String>,
}

impl Shown {
    fn of(stream: &TlsStream<TcpStream>, login_from: LoginFrom) -> Self {
        let (_, session) = stream.get_ref();
        let certificate = session
            .peer_certificates()
            .and_then(<[_]>::first)
            .and_then(|der| PeerCertificate::read(der, login_from));
        let agreed = session
            .protocol_version()
            .zip(session.negotiated_cipher_suite())
            .map(|(protocol, suite)| CipherFacts::of(protocol, suite.suite()));
        let mut facts = TlsFacts::default();
        if let Some(agreed) = agreed {
            facts.protocol = agreed.protocol;
            facts.key_exchange = agreed.key_exchange;
            facts.cipher = agreed.cipher;
            facts.hash = agreed.hash;
        }
        let login = certificate.map(|certificate| {
            facts.peer = Some(PeerCertFacts {
                subject: certificate.subject,
                issuer: certificate.issuer,
                validity: certificate.validity,
            });
            certificate.login
        });
        Self {
            facts,
            login: login.flatten(),
        }
    }
}

fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "nothing came in time")
}
