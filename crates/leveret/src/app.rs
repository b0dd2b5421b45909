//! What `stop_app` stops and `start_app` starts again: the broker with its listeners, while the process lives on.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

use leveret_management::{
    AdminSocket, BoundListener, Management, Node, NodeFacts, Order, Ordered, Phase, Plugins,
    import_file, load_messages,
};
use leveret_runtime::{Broker, StartError, StartOptions};
use leveret_server::{Listeners, Patience, Server};
use leveret_session::Mechanism;
use leveret_store::OpenError;
use leveret_tls::Tls;
use tokio::time::sleep;
use tracing::{error, info, warn};

use crate::{
    boot::{Boot, Served},
    config::{LogFormat, Settings},
    connection_settings, descriptors,
    logging::{self, Entry, ForExchange},
    run::{RunError, http_settings},
    signals::Signals,
    tls_settings,
};

/// Exit code when storage fails while the broker runs. A supervisor restarts it, and recovery finds
/// everything that was confirmed.
const STORAGE_FAILED: i32 = 3;

/// How long a stopped broker's last tasks have to let go of its data directory before the next start gives up.
const RELEASE_DEADLINE: Duration = Duration::from_secs(10);

/// Between two looks whether they have.
const RELEASE_LOOK: Duration = Duration::from_millis(10);

/// How a broker starts, the first time and every time after.
pub(crate) struct Plan<'a> {
    pub(crate) options: StartOptions,
    pub(crate) settings: &'a Settings,
    pub(crate) amqp_tls: Option<Arc<Tls>>,
    pub(crate) http_tls: Option<Arc<Tls>>,
    /// Those of the first time, which port 0 stood for.
    pub(crate) ports: Ports,
    /// The broker that runs, for who outlives it.
    pub(crate) running: Arc<Mutex<Weak<Broker>>>,
    /// What ends a start.
    pub(crate) signals: Signals,
}

/// What is bound and not served yet.
pub(crate) struct Bound {
    pub(crate) amqp: Listeners,
    pub(crate) http: Vec<BoundListener>,
    pub(crate) metrics: Vec<BoundListener>,
}

/// The addresses in use.
#[derive(Debug, Clone)]
pub(crate) struct Ports {
    pub(crate) amqp: Vec<SocketAddr>,
    pub(crate) amqps: Vec<SocketAddr>,
    pub(crate) http: Vec<Port>,
    pub(crate) metrics: Vec<Port>,
}

impl Ports {
    /// In the order in which RabbitMQ tells of them.
    pub(crate) fn served(&self) -> Vec<(Served, SocketAddr)> {
        let http = |listening: &[Port], plain, with_tls| -> Vec<(Served, SocketAddr)> {
            let served = listening.iter();
            served
                .map(|port| (if port.with_tls { with_tls } else { plain }, port.address))
                .collect()
        };
        let mut served = http(&self.metrics, Served::Metrics, Served::MetricsTls);
        served.extend(http(&self.http, Served::Http, Served::Https));
        served.extend(self.amqp.iter().map(|address| (Served::Amqp, *address)));
        served.extend(self.amqps.iter().map(|address| (Served::Amqps, *address)));
        served
    }
}

/// One of HTTP.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Port {
    pub(crate) address: SocketAddr,
    pub(crate) with_tls: bool,
}

impl Port {
    const fn of(listener: &BoundListener) -> Self {
        Self {
            address: listener.address(),
            with_tls: listener.is_encrypted(),
        }
    }
}

impl Bound {
    pub(crate) fn ports(&self) -> Ports {
        Ports {
            amqp: self.amqp.addresses(),
            amqps: self.amqp.tls_addresses(),
            http: self.http.iter().map(Port::of).collect(),
            metrics: self.metrics.iter().map(Port::of).collect(),
        }
    }

    /// The same addresses again.
    fn again(plan: &Plan<'_>) -> Result<Self, RunError> {
        let ports = &plan.ports;
        let mut amqp = Listeners::bind_all_of(&ports.amqp, &[])?;
        if let Some(tls) = &plan.amqp_tls {
            amqp.bind_tls(&ports.amqps, &[], tls)?;
        }
        for path in &plan.settings.tls.unix_listen {
            amqp.bind_unix(path)?;
        }
        if plan.settings.tls.proxy_protocol {
            amqp.expect_proxy_headers();
        }
        let http = |ports: &[Port], option| -> Result<Vec<_>, RunError> {
            let mut bound = Vec::new();
            for Port { address, with_tls } in ports {
                let listener = BoundListener::bind(*address, option)?
                    .with_room_for(descriptors::share_out().http);
                bound.push(match plan.http_tls.as_ref().filter(|_| *with_tls) {
                    Some(tls) => listener.with_tls(tls.clone()),
                    None => listener,
                });
            }
            Ok(bound)
        };
        Ok(Self {
            amqp,
            http: http(&ports.http, "--http-listen")?,
            metrics: http(&ports.metrics, "--metrics-listen")?,
        })
    }
}

/// A broker that serves.
pub(crate) struct App {
    broker: Arc<Broker>,
    management: Management,
    server: Server,
}

impl App {
    /// Starts a broker on listeners that are bound.
    pub(crate) async fn start(
        plan: &Plan<'_>,
        bound: Bound,
        node: &Arc<Node>,
    ) -> Result<Self, RunError> {
        node.set_phase(Phase::Booting);
        let broker = open(&plan.options).await?;
        *plan.running.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&broker);
        let filled = tokio::select! {
            biased;
            _ = plan.signals.told() => Err(RunError::CalledOff),
            filled = fill(&broker, plan.settings) => filled,
        };
        if let Err(reason) = filled {
            // What was stored before is as it was, and counts as stopped in order.
            broker.stop()?;
            return Err(reason);
        }
        let tls = plan.amqp_tls.clone();
        let amqp = (bound.amqp.addresses(), bound.amqp.tls_addresses(), tls);
        let management = Management::start(
            node,
            broker.clone(),
            amqp,
            bound.http,
            bound.metrics,
            http_settings(plan.settings),
        );
        let server = Server::start(
            bound.amqp,
            broker.clone(),
            Arc::new(connection_settings::of(plan.settings)),
            &tls_settings::server_options(plan.settings, descriptors::share_out().amqp),
        );
        node.set_phase(Phase::Running);
        Ok(Self {
            broker,
            management,
            server,
        })
    }

    /// Stops in order: what is confirmed is stored, clients are told.
    pub(crate) async fn stop(self, node: &Node) -> Result<(), RunError> {
        node.set_phase(Phase::Stopped);
        drop(self.management);
        Ok(leveret_server::stop(self.server, self.broker, Patience::default()).await?)
    }
}

/// What a broker is to have before anybody is let in.
async fn fill(broker: &Arc<Broker>, settings: &Settings) -> Result<(), RunError> {
    if let Some(path) = &settings.node.definitions {
        import_file(broker, path).await?;
    }
    if let Some(path) = &settings.node.messages {
        load_messages(broker, path).await?;
    }
    Ok(())
}

/// Publishes log lines to the exchange, while there is a broker.
pub(crate) async fn publish_log(
    mut lines: ForExchange,
    format: LogFormat,
    running: Arc<Mutex<Weak<Broker>>>,
) {
    let content_type = match format {
        LogFormat::Text => "text/plain",
        LogFormat::Json => "application/json",
    };
    while let Some(Entry { level, line, .. }) = lines.recv().await {
        let broker = running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .upgrade();
        if let Some(broker) = broker {
            let level = logging::level_name(level);
            logging::quietly(|| broker.publish_log(level, content_type, line));
        }
    }
}

/// Opens the data directory. The last tasks of a broker that was stopped a moment ago may still let go of it.
async fn open(options: &StartOptions) -> Result<Arc<Broker>, RunError> {
    let asked = Instant::now();
    loop {
        let started = Broker::start(options, |failure| {
            error!(%failure, "storage failed: nothing can be promised any more, stopping");
            logging::flush();
            std::process::exit(STORAGE_FAILED);
        });
        match started {
            Err(StartError::Open(OpenError::Locked { pid, .. }))
                if pid == Some(std::process::id()) && asked.elapsed() < RELEASE_DEADLINE =>
            {
                sleep(RELEASE_LOOK).await;
            }
            Err(StartError::Open(OpenError::CalledOff { .. })) => return Err(RunError::CalledOff),
            Err(error) => return Err(error.into()),
            Ok(broker) => return Ok(broker),
        }
    }
}

/// A process that carries out orders until it is told to end.
pub(crate) struct Process<'a> {
    pub(crate) plan: Plan<'a>,
    pub(crate) node: Arc<Node>,
    pub(crate) app: Option<App>,
}

impl Process<'_> {
    /// Carries one order out; whether it was to end. Never half: whoever waits for signals too does not wait in here.
    pub(crate) async fn carry_out(&mut self, ordered: Ordered) -> bool {
        let outcome = match ordered.order {
            Order::Stop => {
                ordered.done(Ok(()));
                return true;
            }
            Order::StopApp => self.stop_app().await,
            Order::StartApp => self.start_app().await,
            Order::Reset => self.reset().await,
        };
        if let Err(reason) = &outcome {
            warn!("{reason}");
        }
        ordered.done(outcome);
        false
    }

    async fn stop_app(&mut self) -> Result<(), String> {
        let Some(app) = self.app.take() else {
            return Ok(());
        };
        info!("told to stop the broker; the process stays");
        let stopped = app.stop(&self.node).await;
        stopped.map_err(|error| error.to_string())
    }

    async fn start_app(&mut self) -> Result<(), String> {
        if self.app.is_some() {
            return Ok(());
        }
        let bound = Bound::again(&self.plan).map_err(|error| error.to_string())?;
        match App::start(&self.plan, bound, &self.node).await {
            Ok(app) => {
                self.app = Some(app);
                info!("Server startup complete, told to start again");
                Ok(())
            }
            Err(error) => {
                self.node.set_phase(Phase::Stopped);
                Err(error.to_string())
            }
        }
    }

    async fn reset(&self) -> Result<(), String> {
        if self.app.is_some() {
            return Err("the broker still runs: stop_app comes first".to_owned());
        }
        let Some(dir) = self.plan.options.data_dir.clone() else {
            return Ok(());
        };
        let asked = Instant::now();
        loop {
            match leveret_store::forget(&dir) {
                Err(OpenError::Locked { pid, .. })
                    if pid == Some(std::process::id()) && asked.elapsed() < RELEASE_DEADLINE =>
                {
                    sleep(RELEASE_LOOK).await;
                }
                Err(error) => return Err(error.to_string()),
                Ok(()) => break,
            }
        }
        info!("everything stored was forgotten, as told");
        Ok(())
    }
}

/// Opens the administrators' socket. Without it the broker serves all the same.
pub(crate) fn admin_socket(node: &Arc<Node>, name: &str) -> Option<AdminSocket> {
    let served = leveret_ctl::socket::bind(name).and_then(|bound| {
        // No warning: brokers of tests live side by side under the name that nobody gave them.
        if let Some(told) = &bound.told_apart_by {
            info!(
                "another broker is called {name} here; the command line finds this one by -n {told}, and \
                 --node-name gives it a name of its own"
            );
        }
        AdminSocket::serve(bound.listener, bound.path, node.clone())
    });
    match served {
        Ok(socket) => Some(socket),
        Err(reason) => {
            warn!(%reason, "no socket for the command line; the HTTP API can do the same");
            None
        }
    }
}

/// What administrators are told of the process.
pub(crate) fn facts(boot: &Boot, settings: &Settings, ports: &Ports) -> NodeFacts {
    let served = ports.served();
    let config_files = boot.config_files.iter();
    NodeFacts {
        name: boot.node.clone(),
        config_files: config_files
            .map(|path| path.display().to_string())
            .collect(),
        log_files: boot.log_files.clone(),
        log: boot.log.clone(),
        enabled_plugins_file: Some(leveret_ctl::enabled_plugins_file()),
        data_dir: boot.data_dir.clone(),
        version: settings.connections.compat_version.clone(),
        plugins: Plugins::new(boot.enabled_plugins(&served), boot.plugins_with(&served)),
        mechanisms: connection_settings::mechanisms(settings)
            .map(Mechanism::name)
            .collect(),
    }
}
