//! From start to stop of one broker process.

use std::{
    fs,
    io::{self, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use leveret_management::{
    BoundListener, Cors, HttpError, HttpSettings, HttpThread, HttpTimeouts, ImportError,
    MessagesError, Node, header,
};
use leveret_runtime::{
    Amount, AuthBackend, HashAlgorithm, Limits, NodeOptions, PasswordRule, Pattern, Permit,
    Permits, StartError, StartOptions, TypesOff, VhostDefaults,
};
use leveret_server::{BindError, Listeners};
use leveret_store::SyncMode;
use leveret_tls::{Tls, TlsError};
use tracing::info;

use crate::{
    app::{self, App, Bound, Plan, Port, Ports, Process},
    boot::Boot,
    certificates,
    config::{
        Bytes, Endpoint, OptionalEndpoint, PasswordHashing, PasswordValidator, QueueType,
        RatesMode, Settings, Storage, StorageSync,
    },
    descriptors,
    oauth_settings::{self, OauthError},
    service_manager::{self, State},
    signals::Signals,
    tls_settings,
};

/// AMQP's port.
const AMQP_PORT: u16 = 5672;

/// AMQP's port with TLS.
const AMQPS_PORT: u16 = 5671;

/// The port of RabbitMQ's HTTP API.
pub(crate) const HTTP_PORT: u16 = 15672;

/// The port of RabbitMQ's metrics.
pub(crate) const METRICS_PORT: u16 = 15692;

/// How long a commit may stay unsynced with `--storage-sync interval`.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Threads that read stored messages back; a cold queue needs one for some milliseconds.
const BLOCKING_THREADS_MAX: usize = 4;

/// How long tasks have to end that nobody waits for, such as reads of a disk that hangs.
const RUNTIME_DEADLINE: Duration = Duration::from_secs(1);

/// Why the broker does not start or does not stop in order. The text is for the operator.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Oauth(#[from] OauthError),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Definitions(#[from] ImportError),
    #[error(transparent)]
    Messages(#[from] MessagesError),
    #[error(transparent)]
    Open(#[from] leveret_store::OpenError),
    #[error("cannot write the ports file {path}: {source}")]
    PortsFile { path: PathBuf, source: io::Error },
    #[error("cannot write the file of the process id {path}: {source}")]
    PidFile { path: PathBuf, source: io::Error },
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
    #[error(
        "what was confirmed is stored, the last writes may not be; the next start will treat this stop as a crash: {0}"
    )]
    Stop(#[from] leveret_store::CommitError),
    #[error("told to end before anybody was let in")]
    CalledOff,
}

/// Where data are when nobody says where.
const DATA_DIR: &str = "./leveret-data";

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(settings: &Settings, boot: Boot) -> Result<(), RunError> {
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()?;
    let ended = runtime.block_on(serve(settings, boot, started));
    runtime.shutdown_timeout(RUNTIME_DEADLINE);
    ended
}

async fn serve(settings: &Settings, mut boot: Boot, started: Instant) -> Result<(), RunError> {
    // Before anything that takes time.
    let (signals, hangup) = Signals::listen()?;
    let shares = descriptors::share_out();
    // The ports first: a second broker started by mistake must not touch anything.
    let amqp_tls = load(tls_settings::amqp(settings))?;
    let http_tls = load(tls_settings::http(settings))?;
    let listeners = bind(settings, amqp_tls.as_ref())?;
    let http = bind_http(
        settings,
        (settings.listeners.http_listen, HTTP_PORT, "--http-listen"),
        (settings.tls.http_tls_listen, "--http-tls-listen"),
        http_tls.as_ref(),
    )?;
    let metrics = bind_http(
        settings,
        (
            settings.listeners.metrics_listen,
            METRICS_PORT,
            "--metrics-listen",
        ),
        (settings.tls.metrics_tls_listen, "--metrics-tls-listen"),
        http_tls.as_ref(),
    )?;
    let with_room = |bound: Vec<BoundListener>| -> Vec<BoundListener> {
        let bound = bound.into_iter();
        bound.map(|each| each.with_room_for(shares.http)).collect()
    };
    let (http, metrics) = (with_room(http), with_room(metrics));
    let backends = oauth_settings::backends(settings)?;
    let node = node_options(settings, backends.asked);
    let data_dir =
        (settings.storage.storage == Storage::Disk).then(|| data_dir(settings, &node.name));
    boot.node.clone_from(&node.name);
    boot.data_dir.clone_from(&data_dir);
    boot.begin(
        &settings.connections.compat_product,
        &settings.connections.compat_version,
    );
    let options = StartOptions {
        data_dir,
        store: leveret_store::Options {
            sync: match settings.storage.storage_sync {
                StorageSync::Always => SyncMode::Always,
                StorageSync::Interval => SyncMode::Interval(SYNC_INTERVAL),
                StorageSync::Never => SyncMode::Never,
            },
            call_off: signals.call_off().clone(),
            ..leveret_store::Options::default()
        },
        node,
        limits: Limits {
            memory: of_total(settings.storage.memory_limit, settings.storage.total_memory),
            disk_free: of_total(
                settings.storage.disk_free_limit,
                settings.storage.total_memory,
            ),
        },
    };
    let bound = Bound {
        amqp: listeners,
        http,
        metrics,
    };
    let ports = bound.ports();
    let plan = Plan {
        options,
        settings,
        amqp_tls: amqp_tls.clone(),
        http_tls: http_tls.clone(),
        ports: ports.clone(),
        running: Arc::default(),
        signals: signals.clone(),
    };
    let log_lines = boot.for_exchange.take().map(|lines| {
        let format = settings.logging.log_exchange_format;
        let publishing = app::publish_log(lines, format, plan.running.clone());
        tokio::spawn(publishing)
    });
    let http_thread = HttpThread::start()?;
    let (node, mut orders) = Node::new(app::facts(&boot, settings, &ports), &http_thread);
    // From the first moment, so that who waits for the broker finds somebody to ask.
    let _admin_socket = app::admin_socket(&node, &boot.node);
    let app = match App::start(&plan, bound, &node).await {
        Err(RunError::CalledOff) => {
            info!("stopped before anybody was let in");
            return Ok(());
        }
        started => started?,
    };
    signals.note_started();
    let fresh = certificates::keep_fresh(amqp_tls.into_iter().chain(http_tls).collect(), hangup);
    let fresh = tokio::spawn(fresh);
    for publishers in backends.publishers {
        tokio::spawn(publishers.keep_fresh());
    }
    if let Some(path) = &settings.listeners.ports_file {
        write_ports(path, &ports).map_err(|source| RunError::PortsFile {
            path: path.clone(),
            source,
        })?;
    }
    if let Some(path) = &settings.listeners.pid_file {
        write_pid(path).map_err(|source| RunError::PidFile {
            path: path.clone(),
            source,
        })?;
    }
    for path in &settings.tls.unix_listen {
        info!("listening for AMQP on {}", path.display());
    }
    if settings.lets_system_choose_ports() {
        // Nobody who closed it waits for the line.
        let _ = writeln!(io::stdout(), "{}", ports_line(&ports));
    }
    boot.complete(&ports.served(), started.elapsed());
    service_manager::tell(State::Ready);
    let mut process = Process {
        plan,
        node,
        app: Some(app),
    };
    loop {
        tokio::select! {
            _ = signals.told() => break,
            Some(ordered) = orders.recv() => if process.carry_out(ordered).await {
                info!("an order to stop received - shutting down");
                break;
            },
        }
    }
    service_manager::tell(State::Stopping);
    fresh.abort();
    if let Some(log_lines) = log_lines {
        log_lines.abort();
    }
    let stopped = match process.app.take() {
        Some(app) => app.stop(&process.node).await,
        None => Ok(()),
    };
    if let Some(path) = &settings.listeners.pid_file {
        // Whoever waits for the broker must not take the next process of this number for it.
        let _ = fs::remove_file(path);
    }
    stopped?;
    info!("stopped");
    Ok(())
}

pub(crate) fn http_settings(settings: &Settings) -> HttpSettings {
    HttpSettings {
        path_prefix: settings.http.http_path_prefix.clone(),
        cors: Cors {
            allow_origins: settings.http.http_cors_origins.clone(),
            max_age_secs: settings.http.http_cors_max_age_secs,
        },
        timeouts: HttpTimeouts {
            head: Duration::from_millis(settings.http.http_request_timeout.0),
            body: Duration::from_millis(settings.http.http_body_timeout.0),
        },
        metrics_path: settings.http.metrics_path.clone(),
        metrics_per_object: settings.http.metrics_per_object,
        body_bytes_max: usize::try_from(settings.http.http_body_max.0).unwrap_or(usize::MAX),
        headers: [
            (header::CONTENT_SECURITY_POLICY, &settings.http.http_csp),
            (header::STRICT_TRANSPORT_SECURITY, &settings.http.http_hsts),
            (
                header::X_CONTENT_TYPE_OPTIONS,
                &settings.http.http_content_type_options,
            ),
            (header::X_FRAME_OPTIONS, &settings.http.http_frame_options),
            (header::X_XSS_PROTECTION, &settings.http.http_xss_protection),
            (header::REFERRER_POLICY, &settings.http.http_referrer_policy),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.as_ref()?.0.clone())))
        .collect(),
        rates_mode: match settings.http.rates_mode {
            RatesMode::None => "none",
            RatesMode::Basic => "basic",
            RatesMode::Detailed => "detailed",
        },
        disable_stats: settings.http.http_disable_stats,
        enable_queue_totals: settings.http.http_enable_queue_totals,
        operator_policies_are_fixed: settings.http.operator_policies_fixed,
        definitions_need_json_extension: settings.http.http_json_extension,
        login_session_minutes: settings.http.http_login_session,
    }
}

fn node_options(settings: &Settings, auth_backends: Vec<AuthBackend>) -> NodeOptions {
    NodeOptions {
        auth_backends,
        login_failures_max: settings.connections.login_failures_max,
        password_hashing: password_hashing(settings),
        password_rule: password_rule(settings),
        loopback_users: settings.node.loopback_users.clone(),
        connection_max: settings.node.connection_max.0,
        vhost_max: settings.node.vhost_max.0,
        channel_max: settings.node.channel_max_per_node.0,
        message_size_max: settings.connections.max_message_size.0,
        name: leveret_ctl::node_name(settings.node.node_name.as_deref()),
        default_user: settings.node.default_user.clone(),
        default_password: settings.node.default_pass.clone(),
        default_tags: settings.node.default_user_tags.clone(),
        default_permission: [
            &settings.node.default_permission_configure,
            &settings.node.default_permission_write,
            &settings.node.default_permission_read,
        ]
        .map(|pattern| pattern.0.clone()),
        default_vhost: settings.node.default_vhost.clone(),
        vhost_defaults: VhostDefaults {
            limits: settings.node.default_vhost_limits.0.clone(),
            operator_policies: settings.node.default_operator_policies.0.clone(),
            users: settings.node.default_users.0.clone(),
            password_hashing: password_hashing(settings),
        },
        default_queue_type: match settings.node.default_queue_type {
            QueueType::Classic => leveret_runtime::QueueType::Classic,
            QueueType::Quorum => leveret_runtime::QueueType::Quorum,
            QueueType::Stream => leveret_runtime::QueueType::Stream,
        },
        cluster_name: settings.node.cluster_name.clone(),
        consumer_timeout_millis: settings.connections.consumer_timeout.0,
        is_seeded: settings.node.definitions.is_none(),
        tells_events: settings.node.event_exchange,
        permits_global_qos: settings.connections.permit_global_qos
            && !settings.connections.compat_strict,
        permits: Permits {
            transient_shared_queues: if settings.connections.compat_strict {
                Permit::WithdrawnByDefault
            } else if settings.connections.permit_transient_nonexcl_queues {
                Permit::Given
            } else {
                Permit::WithdrawnByConfiguration
            },
            queue_mode: !settings.connections.compat_strict,
            master_locator: settings.connections.permit_queue_master_locator,
            off: types_off(settings),
        },
    }
}

fn password_rule(settings: &Settings) -> PasswordRule {
    let settings = &settings.connections;
    match (settings.password_validator, &settings.password_regexp) {
        (PasswordValidator::MinLength, _) => PasswordRule::Length(settings.password_min_length),
        (PasswordValidator::Regexp, Some(pattern)) => {
            let pattern = Pattern::new(&pattern.0).expect("it was read when it was set");
            PasswordRule::Like(Box::new(pattern))
        }
        // Without a pattern nobody comes here: it is a contradiction.
        (PasswordValidator::Nothing | PasswordValidator::Regexp, _) => PasswordRule::Any,
    }
}

/// Types of queues of which there are to be no new ones.
fn types_off(settings: &Settings) -> Option<Arc<TypesOff>> {
    let types = [
        (
            leveret_runtime::QueueType::Classic,
            settings.connections.queue_types_classic,
        ),
        (
            leveret_runtime::QueueType::Quorum,
            settings.connections.queue_types_quorum,
        ),
        (
            leveret_runtime::QueueType::Stream,
            settings.connections.queue_types_stream,
        ),
    ];
    let off = types.into_iter().filter(|(_, is_on)| !is_on);
    let types: Vec<_> = off.map(|(queue_type, _)| queue_type).collect();
    (!types.is_empty()).then(|| {
        let node = leveret_ctl::node_name(settings.node.node_name.as_deref());
        Arc::new(TypesOff { types, node })
    })
}

const fn password_hashing(settings: &Settings) -> HashAlgorithm {
    match settings.connections.password_hashing {
        PasswordHashing::Sha256 => HashAlgorithm::Sha256,
        PasswordHashing::Sha512 => HashAlgorithm::Sha512,
        PasswordHashing::Md5 => HashAlgorithm::Md5,
        PasswordHashing::Argon2id => HashAlgorithm::Argon2id,
    }
}

/// Where the data are: as it was said, or by the name of the node as RabbitMQ lays it out.
fn data_dir(settings: &Settings, node: &str) -> PathBuf {
    let by_name = || {
        settings
            .storage
            .data_base
            .as_ref()
            .map(|base| base.join(node))
    };
    let said = settings.storage.data_dir.clone().or_else(by_name);
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
        // As in RabbitMQ, who asks for TLS alone gets nothing beside it.
        None if settings.has_chosen_addresses() || with_tls.is_some() => None,
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

/// Binds what was asked for, else port 5672 of every address, and 5671 of them if there is a certificate.
fn bind(settings: &Settings, tls: Option<&Arc<Tls>>) -> Result<Listeners, BindError> {
    let (wanted, if_possible) = addresses(
        settings.listeners.listen.as_deref(),
        &[Endpoint::Port(AMQP_PORT)],
    );
    let mut listeners = Listeners::bind_all_of(&wanted, &if_possible)?;
    if let Some(tls) = tls {
        let by_default: &[Endpoint] = if settings.has_chosen_addresses() {
            &[]
        } else {
            &[Endpoint::Port(AMQPS_PORT)]
        };
        let (wanted, if_possible) = addresses(settings.tls.tls_listen.as_deref(), by_default);
        listeners.bind_tls(&wanted, &if_possible, tls)?;
    }
    for path in &settings.tls.unix_listen {
        listeners.bind_unix(path)?;
    }
    if settings.tls.proxy_protocol {
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
    let (mut wanted, mut if_possible) = (Vec::new(), Vec::new());
    let add = |list: &mut Vec<SocketAddr>, address: SocketAddr| {
        // `0.0.0.0:5672` beside `[::]:5672` is there twice. Port 0 is another one each time.
        if address.port() == 0 || !list.contains(&address) {
            list.push(address);
        }
    };
    for endpoint in asked {
        let (must, may) = endpoint.addresses();
        add(&mut wanted, must);
        if let Some(may) = may {
            add(&mut if_possible, may);
        }
    }
    (wanted, if_possible)
}

/// As `rabbitmqctl wait` and scripts read it.
fn write_pid(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, format!("{}\n", std::process::id()))
}

/// The ports in use, as one line of JSON.
fn ports_line(ports: &Ports) -> serde_json::Value {
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
    line
}

/// Written aside and renamed, so that whoever waits for the file finds it whole.
fn write_ports(path: &Path, ports: &Ports) -> io::Result<()> {
    let aside = path.with_extension("new");
    fs::write(&aside, format!("{}\n", ports_line(ports)))?;
    fs::rename(aside, path)
}
