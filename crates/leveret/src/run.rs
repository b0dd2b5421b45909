//! From start to stop of one broker process.

use std::{
    fs, io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use leveret_management::{BoundListener, HttpError, ImportError, Management, import_file};
use leveret_runtime::{Broker, Limits, NodeOptions, StartError, StartOptions};
use leveret_server::{BindError, Listeners, Server};
use leveret_store::SyncMode;
use leveret_tls::{Tls, TlsError};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info, warn};

use crate::{
    certificates,
    cli::{Arguments, OptionalAddress, Storage, StorageSync},
};

/// Exit code when storage fails while the broker runs. A supervisor restarts it, and recovery finds
/// everything that was confirmed.
const STORAGE_FAILED: i32 = 3;

/// AMQP's port.
const AMQP_PORT: u16 = 5672;

/// AMQP's port with TLS.
const AMQPS_PORT: u16 = 5671;

/// The port of RabbitMQ's HTTP API.
const HTTP_PORT: u16 = 15672;

/// The port of RabbitMQ's metrics.
const METRICS_PORT: u16 = 15692;

/// How long a commit may stay unsynced with `--storage-sync interval`.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// How long connected clients have to answer a close when the broker stops.
const CLOSE_DEADLINE: Duration = Duration::from_secs(5);

/// Threads that read stored messages back; a cold queue needs one for some milliseconds.
const BLOCKING_THREADS_MAX: usize = 4;

/// Why the broker does not start or does not stop in order. The text is for the operator.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Definitions(#[from] ImportError),
    #[error(transparent)]
    Open(#[from] leveret_store::OpenError),
    #[error("cannot write the ports file {path}: {source}")]
    PortsFile { path: PathBuf, source: io::Error },
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
    #[error("the last writes failed; the next start will treat this stop as a crash: {0}")]
    Stop(#[from] leveret_store::CommitError),
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(arguments: &Arguments) -> Result<(), RunError> {
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()?;
    runtime.block_on(serve(arguments, started))
}

async fn serve(arguments: &Arguments, started: Instant) -> Result<(), RunError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // The ports first: a second broker started by mistake must not touch anything.
    let amqp_tls = load(arguments.tls.settings())?;
    let http_tls = load(arguments.tls.http_settings())?;
    let listeners = bind(arguments, amqp_tls.as_ref())?;
    let http = bind_http(
        arguments,
        (arguments.http_listen, HTTP_PORT, "--http-listen"),
        (arguments.tls.http_tls_listen, "--http-tls-listen"),
        http_tls.as_ref(),
    )?;
    let metrics = bind_http(
        arguments,
        (arguments.metrics_listen, METRICS_PORT, "--metrics-listen"),
        (arguments.tls.metrics_tls_listen, "--metrics-tls-listen"),
        http_tls.as_ref(),
    )?;
    let options = StartOptions {
        data_dir: (arguments.storage == Storage::Disk).then(|| arguments.data_dir.clone()),
        store: leveret_store::Options {
            sync: match arguments.storage_sync {
                StorageSync::Always => SyncMode::Always,
                StorageSync::Interval => SyncMode::Interval(SYNC_INTERVAL),
                StorageSync::Never => SyncMode::Never,
            },
            ..leveret_store::Options::default()
        },
        node: node_options(arguments),
        limits: Limits {
            memory: arguments.memory_limit,
            disk_free: arguments.disk_free_limit,
        },
    };
    let broker = Broker::start(&options, |failure| {
        error!(%failure, "storage failed: nothing can be promised any more, stopping");
        std::process::exit(STORAGE_FAILED);
    })?;
    if let Some(path) = &arguments.definitions {
        // Before anybody is let in.
        import_file(&broker, path).await?;
    }
    let ports = Ports {
        amqp: listeners.addresses(),
        amqps: listeners.tls_addresses(),
        http: http.iter().map(Port::of).collect(),
        metrics: metrics.iter().map(Port::of).collect(),
    };
    let amqp = (ports.amqp.clone(), ports.amqps.clone());
    let management = Management::start(broker.clone(), amqp, http, metrics);
    let server = Server::start(
        listeners,
        broker.clone(),
        Arc::new(arguments.connections.settings()),
        &arguments.tls.server_options(),
    );
    let fresh = certificates::keep_fresh(amqp_tls.into_iter().chain(http_tls).collect());
    let fresh = tokio::spawn(fresh);
    if let Some(path) = &arguments.ports_file {
        write_ports(path, &ports).map_err(|source| RunError::PortsFile {
            path: path.clone(),
            source,
        })?;
    }
    for address in &ports.amqp {
        info!("listening for AMQP on {address}");
    }
    for address in &ports.amqps {
        info!("started TLS (SSL) listener on {address}");
    }
    for path in &arguments.tls.unix_listen {
        info!("listening for AMQP on {}", path.display());
    }
    for (listening, what) in [
        (&ports.http, "the HTTP API"),
        (&ports.metrics, "Prometheus"),
    ] {
        for Port { address, with_tls } in listening {
            let how = if *with_tls { " with TLS" } else { "" };
            info!("listening for {what}{how} on {address}");
        }
    }
    let started_in = started.elapsed();
    info!(
        version = env!("CARGO_PKG_VERSION"),
        "Server startup complete in {:.1} ms",
        started_in.as_secs_f64() * 1000.0
    );
    let name = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    };
    info!("{name} received, stopping");
    drop(management);
    fresh.abort();
    // A second signal is not an emergency exit: what is confirmed is on disk, so SIGKILL is.
    if !server.stop(CLOSE_DEADLINE).await {
        warn!("some clients did not answer the close in time");
    }
    broker.drain().await;
    broker.stop()?;
    info!("stopped");
    Ok(())
}

fn node_options(arguments: &Arguments) -> NodeOptions {
    let loopback_users = arguments.loopback_users.iter();
    NodeOptions {
        loopback_users: loopback_users
            .filter(|user| *user != "none")
            .cloned()
            .collect(),
        connection_max: arguments.connection_max,
        channel_max: arguments.channel_max_per_node,
        name: node_name(arguments.node_name.as_deref()),
        default_user: arguments.default_user.clone(),
        default_password: arguments.default_pass.clone(),
        default_vhost: arguments.default_vhost.clone(),
        is_seeded: arguments.definitions.is_none(),
    }
}

/// As RabbitMQ names its nodes: what stands behind the sign is the machine's name unless said otherwise.
fn node_name(given: Option<&str>) -> String {
    let name = given.unwrap_or("rabbit");
    if name.contains('@') {
        return name.to_owned();
    }
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim().split('.').next().unwrap_or_default();
    let host = if host.is_empty() { "localhost" } else { host };
    format!("{name}@{host}")
}

fn load(settings: Option<leveret_tls::TlsSettings>) -> Result<Option<Arc<Tls>>, TlsError> {
    settings
        .map(Tls::load)
        .transpose()
        .map(|tls| tls.map(Arc::new))
}

/// Binds what was asked for, else the port of every address; nothing beside an AMQP address that was chosen, so
/// that several brokers need no further words to live side by side. With TLS only where it was asked for.
fn bind_http(
    arguments: &Arguments,
    (asked, port, option): (Option<OptionalAddress>, u16, &'static str),
    (with_tls, tls_option): (Option<SocketAddr>, &'static str),
    tls: Option<&Arc<Tls>>,
) -> Result<Vec<BoundListener>, HttpError> {
    let plain = match asked {
        Some(OptionalAddress::Off) => None,
        Some(OptionalAddress::At(address)) => Some(BoundListener::bind(address, option)?),
        None if !arguments.listen.is_empty() => None,
        None => {
            // A machine without IPv6 has the other.
            let [v4, v6] = every_address(port);
            let bound = BoundListener::bind(v6, option);
            Some(bound.or_else(|_| BoundListener::bind(v4, option))?)
        }
    };
    let encrypted = match with_tls.zip(tls) {
        Some((address, tls)) => {
            Some(BoundListener::bind(address, tls_option)?.with_tls(tls.clone()))
        }
        None => None,
    };
    Ok(plain.into_iter().chain(encrypted).collect())
}

/// The addresses in use.
struct Ports {
    amqp: Vec<SocketAddr>,
    amqps: Vec<SocketAddr>,
    http: Vec<Port>,
    metrics: Vec<Port>,
}

struct Port {
    address: SocketAddr,
    with_tls: bool,
}

impl Port {
    const fn of(listener: &BoundListener) -> Self {
        Self {
            address: listener.address(),
            with_tls: listener.is_encrypted(),
        }
    }
}

/// Binds what was asked for, else port 5672 of every address, and 5671 of them if there is a certificate.
fn bind(arguments: &Arguments, tls: Option<&Arc<Tls>>) -> Result<Listeners, BindError> {
    let asked = &arguments.listen;
    let by_default = asked.is_empty();
    let mut listeners = if by_default {
        let [v4, v6] = every_address(AMQP_PORT);
        Listeners::bind_all_of(&[v4], &[v6])?
    } else {
        Listeners::bind_all_of(asked, &[])?
    };
    if let Some(tls) = tls {
        let asked = &arguments.tls.tls_listen;
        if asked.is_empty() && by_default {
            let [v4, v6] = every_address(AMQPS_PORT);
            listeners.bind_tls(&[v4], &[v6], tls)?;
        } else {
            listeners.bind_tls(asked, &[], tls)?;
        }
    }
    for path in &arguments.tls.unix_listen {
        listeners.bind_unix(path)?;
    }
    if arguments.tls.proxy_protocol {
        listeners.expect_proxy_headers();
    }
    Ok(listeners)
}

fn every_address(port: u16) -> [SocketAddr; 2] {
    [
        (Ipv4Addr::UNSPECIFIED, port).into(),
        (Ipv6Addr::UNSPECIFIED, port).into(),
    ]
}

/// Written aside and renamed, so that whoever waits for the file finds it whole.
fn write_ports(path: &Path, ports: &Ports) -> io::Result<()> {
    let amqp: Vec<u16> = ports.amqp.iter().map(SocketAddr::port).collect();
    let mut line = serde_json::json!({ "amqp": amqp });
    if !ports.amqps.is_empty() {
        line["amqps"] = ports.amqps.iter().map(SocketAddr::port).collect();
    }
    for (name, name_with_tls, listening) in [
        ("http", "https", &ports.http),
        ("metrics", "metrics_tls", &ports.metrics),
    ] {
        for Port { address, with_tls } in listening {
            let name = if *with_tls { name_with_tls } else { name };
            line[name] = serde_json::json!([address.port()]);
        }
    }
    let aside = path.with_extension("new");
    fs::write(&aside, format!("{line}\n"))?;
    fs::rename(aside, path)
}
