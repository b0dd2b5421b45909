//! One GET over HTTPS.

use std::{
    error::Error,
    io,
    net::{SocketAddr, ToSocketAddrs},
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::{Request, StatusCode, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use leveret_tls::{ClientConfig, ClientTlsSettings, TlsError};
use tokio::{
    net::TcpStream,
    sync::Semaphore,
    task::{JoinSet, spawn_blocking},
    time::timeout,
};
use tokio_rustls::TlsConnector;

use crate::address::Address;

/// How long connecting, asking and answering may take together.
const EXCHANGE_LIMIT: Duration = Duration::from_secs(5);

/// Largest answer. A set of keys has some kilobytes.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Room for the head of an answer.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Names are looked up one at a time: nothing ends a look-up, and those who wait on threads are few.
static LOOK_UP: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(1));

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("{0} is no name of a host")]
    NoHost(String),
    #[error("cannot find {0}: {1}")]
    NotFound(String, io::Error),
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("{}", with_sources(.0))]
    Http(#[from] hyper::Error),
    #[error("the answer is {0}")]
    Status(StatusCode),
    #[error("the answer has more than {ANSWER_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the answer broke off: {0}")]
    Broken(Box<dyn Error + Send + Sync>),
    #[error("no answer within {} s", EXCHANGE_LIMIT.as_secs())]
    Late,
    #[error("no request can be made of the address")]
    NoRequest,
    #[error("the broker is stopping")]
    Stopping,
}

/// hyper tells what it did, and its source what was wrong with that.
fn with_sources(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}

/// What stands at an address.
pub(crate) async fn get(address: &Address, tls: &ClientTlsSettings) -> Result<Bytes, FetchError> {
    let (config, places) = prepare(address, tls).await?;
    timeout(EXCHANGE_LIMIT, exchange(address, config, &places))
        .await
        .map_err(|_| FetchError::Late)?
}

/// What has to be read and looked up on a thread that may wait. Authorities are read each time: they may have changed,
/// and need not be kept for what happens once an hour.
async fn prepare(
    address: &Address,
    tls: &ClientTlsSettings,
) -> Result<(Arc<ClientConfig>, Vec<SocketAddr>), FetchError> {
    let one = LOOK_UP.acquire().await;
    let _one = one.map_err(|_| FetchError::Stopping)?;
    let (host, port, tls) = (address.host().to_owned(), address.port(), tls.clone());
    let prepared = spawn_blocking(move || {
        let config = tls.load()?;
        match (host.as_str(), port).to_socket_addrs() {
            Ok(places) => Ok((Arc::new(config), places.collect())),
            Err(reason) => Err(FetchError::NotFound(host, reason)),
        }
    });
    prepared.await.map_err(|_| FetchError::Stopping)?
}

async fn exchange(
    address: &Address,
    config: Arc<ClientConfig>,
    places: &[SocketAddr],
) -> Result<Bytes, FetchError> {
    let host = address.host().to_owned();
    let name = host
        .clone()
        .try_into()
        .map_err(|_| FetchError::NoHost(host))?;
    let socket = TcpStream::connect(places).await;
    let socket = socket.map_err(FetchError::Connect)?;
    let socket = TlsConnector::from(config).connect(name, socket).await;
    let socket = TokioIo::new(socket.map_err(FetchError::Connect)?);
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX);
    let (mut sender, connection) = builder.handshake(socket).await?;
    // Reads and writes for the request, and ends with it.
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let request = Request::get(address.path())
        .header(header::HOST, address.authority())
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, "leveret")
        .body(Empty::<Bytes>::new())
        .map_err(|_| FetchError::NoRequest)?;
    let answer = sender.send_request(request).await?;
    if answer.status() != StatusCode::OK {
        return Err(FetchError::Status(answer.status()));
    }
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX)
        .collect()
        .await;
    match body {
        Ok(body) => Ok(body.to_bytes()),
        Err(reason) if reason.is::<LengthLimitError>() => Err(FetchError::TooLarge),
        Err(reason) => Err(FetchError::Broken(reason)),
    }
}
