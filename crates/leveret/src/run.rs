//! From start to stop of one broker process.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use leveret_management::{BoundListener, HttpError, ImportError, Management, import_file};
use leveret_runtime::{Amount, Broker, Limits, NodeOptions, StartError, StartOptions};
use leveret_server::{BindError, Listeners, Server};
use leveret_store::SyncMode;
use leveret_tls::{Tls, TlsError};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info, warn};

use crate::{
    certificates,
    config::{Bytes, Endpoint, OptionalEndpoint, QueueType, Settings, Storage, StorageSync},
    connection_settings, tls_settings,
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
    #[error("cannot write the file of the process id {path}: {source}")]
    PidFile { path: PathBuf, source: io::Error },
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
    #[error("the last writes failed; the next start will treat this stop as a crash: {0}")]
    Stop(#[from] leveret_store::CommitError),
}

/// Where data are when nobody says where.
const DATA_DIR: &str = "./leveret-data";

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(settings: &Settings) -> Result<(), RunError> {
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()?;
    runtime.block_on(serve(settings, started))
}

async fn serve(settings: &Settings, started: Instant) -> Result<(), RunError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // The ports first: a second broker started by mistake must not touch anything.
    let amqp_tls = load(tls_settings::amqp(settings))?;
    let http_tls = load(tls_settings::http(settings))?;
    let listeners = bind(settings, amqp_tls.as_ref())?;
    let http = bind_http(
        settings,
        (settings.http_listen, HTTP_PORT, "--http-listen"),
        (settings.http_tls_listen, "--http-tls-listen"),
        http_tls.as_ref(),
    )?;
    let metrics = bind_http(
        settings,
        (settings.metrics_listen, METRICS_PORT, "--metrics-listen"),
        (settings.metrics_tls_listen, "--metrics-tls-listen"),
        http_tls.as_ref(),
    )?;
    let node = node_options(settings);
    let options = StartOptions {
        data_dir: (settings.storage == Storage::Disk).then(|| data_dir(settings, &node.name)),
        store: leveret_store::Options {
            sync: match settings.storage_sync {
                StorageSync::Always => SyncMode::Always,
                StorageSync::Interval => SyncMode::Interval(SYNC_INTERVAL),
                StorageSync::Never => SyncMode::Never,
            },
            ..leveret_store::Options::default()
        },
        node,
        limits: Limits {
            memory: of_total(settings.memory_limit, settings.total_memory),
            disk_free: of_total(settings.disk_free_limit, settings.total_memory),
        },
    };
    let broker = Broker::start(&options, |failure| {
        error!(%failure, "storage failed: nothing can be promised any more, stopping");
        std::process::exit(STORAGE_FAILED);
    })?;
    if let Some(path) = &settings.definitions {
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
        Arc::new(connection_settings::of(settings)),
        &tls_settings::server_options(settings),
    );
    let fresh = certificates::keep_fresh(amqp_tls.into_iter().chain(http_tls).collect());
    let fresh = tokio::spawn(fresh);
    if let Some(path) = &settings.ports_file {
        write_ports(path, &ports).map_err(|source| RunError::PortsFile {
            path: path.clone(),
            source,
        })?;
    }
    if let Some(path) = &settings.pid_file {
        write_pid(path).map_err(|source| RunError::PidFile {
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
    for path in &settings.unix_listen {
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
    if let Some(path) = &settings.pid_file {
        // Whoever waits for the broker must not take the next process of this number for it.
        let _ = fs::remove_file(path);
    }
    info!("stopped");
    Ok(())
}

fn node_options(settings: &Settings) -> NodeOptions {
    NodeOptions {
        loopback_users: settings.loopback_users.clone(),
        connection_max: settings.connection_max,
        channel_max: settings.channel_max_per_node,
        name: node_name(settings.node_name.as_deref()),
        default_user: settings.default_user.clone(),
        default_password: settings.default_pass.clone(),
        default_vhost: settings.default_vhost.clone(),
        default_queue_type: match settings.default_queue_type {
            QueueType::Classic => "classic",
            QueueType::Quorum => "quorum",
            QueueType::Stream => "stream",
        },
        is_seeded: settings.definitions.is_none(),
        is_strict: settings.compat_strict,
    }
}

/// Where the data are: as it was said, or by the name of the node as RabbitMQ lays it out.
fn data_dir(settings: &Settings, node: &str) -> PathBuf {
    let by_name = || settings.data_base.as_ref().map(|base| base.join(node));
    let said = settings.data_dir.clone().or_else(by_name);
    said.unwrap_or_else(|| PathBuf::from(DATA_DIR))
}

/// A share of the memory that was said to be there is so many bytes.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of some gigabytes need not be exact to the byte, and the cast keeps to the range"
)]
fn of_total(amount: Amount, total: Option<Bytes>) -> Amount {
    match (amount, total) {
        (Amount::Share(share), Some(Bytes(total))) => Amount::Bytes((total as f64 * share) as u64),
        (amount, _) => amount,
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
    settings: &Settings,
    (asked, port, option): (Option<OptionalEndpoint>, u16, &'static str),
    (with_tls, tls_option): (Option<Endpoint>, &'static str),
    tls: Option<&Arc<Tls>>,
) -> Result<Vec<BoundListener>, HttpError> {
    let plain = match asked {
        Some(OptionalEndpoint::Off) => None,
        Some(OptionalEndpoint::At(endpoint)) => Some(bind_endpoint(endpoint, option)?),
        None if settings.has_chosen_addresses() => None,
        None => Some(bind_endpoint(Endpoint::Port(port), option)?),
    };
    let encrypted = match with_tls.zip(tls) {
        Some((endpoint, tls)) => Some(bind_endpoint(endpoint, tls_option)?.with_tls(tls.clone())),
        None => None,
    };
    Ok(plain.into_iter().chain(encrypted).collect())
}

/// One socket, for both families if they are asked for; a machine without IPv6 has the other.
fn bind_endpoint(endpoint: Endpoint, option: &'static str) -> Result<BoundListener, HttpError> {
    let (wanted, better) = endpoint.addresses();
    let bound = better.and_then(|address| BoundListener::bind(address, option).ok());
    bound.map_or_else(|| BoundListener::bind(wanted, option), Ok)
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
fn bind(settings: &Settings, tls: Option<&Arc<Tls>>) -> Result<Listeners, BindError> {
    let (wanted, if_possible) = addresses(settings.listen.as_deref(), &[Endpoint::Port(AMQP_PORT)]);
    let mut listeners = Listeners::bind_all_of(&wanted, &if_possible)?;
    if let Some(tls) = tls {
        let by_default: &[Endpoint] = if settings.has_chosen_addresses() {
            &[]
        } else {
            &[Endpoint::Port(AMQPS_PORT)]
        };
        let (wanted, if_possible) = addresses(settings.tls_listen.as_deref(), by_default);
        listeners.bind_tls(&wanted, &if_possible, tls)?;
    }
    for path in &settings.unix_listen {
        listeners.bind_unix(path)?;
    }
    if settings.proxy_protocol {
        listeners.expect_proxy_headers();
    }
    Ok(listeners)
}

/// Those that must be had, and those that a machine may lack.
fn addresses(
    asked: Option<&[Endpoint]>,
    by_default: &[Endpoint],
) -> (Vec<SocketAddr>, Vec<SocketAddr>) {
    let asked = asked.unwrap_or(by_default).iter();
    let (wanted, if_possible): (Vec<_>, Vec<_>) =
        asked.map(|endpoint| endpoint.addresses()).unzip();
    (wanted, if_possible.into_iter().flatten().collect())
}

/// As `rabbitmqctl wait` and scripts read it.
fn write_pid(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, format!("{}\n", std::process::id()))
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
