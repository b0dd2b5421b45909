//! The process behind the API: there before the broker runs and after it was stopped by `stop_app`.
//!
//! ```text
//!   listeners ─▶ Node ── the broker of this moment, if one runs ──▶ Api
//!                 │
//!                 └─ orders (stop, start, empty it) ──▶ whoever runs the process
//! ```
//!
//! A request holds the broker while it is answered and no longer, so that a connection that a tool keeps open never
//! keeps a stopped broker's data directory locked.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use arc_swap::ArcSwapOption;
use axum::Router;
use tokio::{
    net::UnixListener,
    runtime::Handle,
    sync::{Semaphore, SemaphorePermit, mpsc, oneshot, watch},
    task::JoinHandle,
    time::timeout,
};
use tracing::error;

use crate::http_thread::HttpThread;
use crate::resource::node::VERSION;
use crate::server::{Api, answer_administrator};

/// Orders that may wait; they are carried out one by one.
const ORDERS_MAX: usize = 16;

/// Pages of metrics that are put together at once. Each asks every connection what it does and keeps what they say.
const SCRAPES_MAX: usize = 2;

/// Bodies of requests that are in memory at once, in KiB: some of the largest there may be.
const BODIES_KIB_MAX: usize = 64 * 1024;

/// Bodies up to this size do not count: all connections together hold no more than some tens of megabytes of them.
const SMALL_BODY_BYTES_MAX: usize = 64 * 1024;

/// What the process is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The broker starts.
    Booting,
    /// Clients are served.
    Running,
    /// The broker was told to stop; the process waits for orders.
    Stopped,
}

impl Phase {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Booting => "booting",
            Self::Running => "running",
            Self::Stopped => "stopped",
        }
    }
}

/// What an administrator can tell the process to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Close listeners and connections and let go of the data; the process stays.
    StopApp,
    /// Serve again.
    StartApp,
    /// Forget everything stored. Only while the broker is stopped.
    Reset,
    /// End the process in order.
    Stop,
}

/// An order with somebody who waits for it to be done.
#[derive(Debug)]
pub struct Ordered {
    /// What to do.
    pub order: Order,
    done: oneshot::Sender<Result<(), String>>,
}

impl Ordered {
    /// Tells that it was done, or why not.
    pub fn done(self, outcome: Result<(), String>) {
        // Who asked may have gone.
        let _ = self.done.send(outcome);
    }
}

/// What can change how much is logged.
pub trait LogControl: fmt::Debug + Send + Sync {
    /// Logs as much as that from now on, whatever was set for an output or a category; `false` if it is no level.
    fn set_level(&self, level: &str) -> bool;

    /// The newest lines behind the one of this number, at most so many, and the number of the last one.
    fn lines_after(&self, number: u64, at_most: usize) -> (Vec<String>, u64);
}

/// What does not change while the process lives.
#[derive(Debug, Clone)]
pub struct NodeFacts {
    /// The node's name.
    pub name: String,
    /// Files that settings were read from.
    pub config_files: Vec<String>,
    /// Where log lines go.
    pub log_files: Vec<String>,
    /// What can change how much of them there is.
    pub log: Option<Arc<dyn LogControl>>,
    /// The file that lists the plugins an operator has enabled.
    pub enabled_plugins_file: Option<PathBuf>,
    /// Where everything durable lies.
    pub data_dir: Option<PathBuf>,
    /// The version of RabbitMQ that tools are told.
    pub version: String,
    /// Plugins of RabbitMQ that somebody has enabled.
    pub plugins: Plugins,
    /// Ways to log in that AMQP clients are offered.
    pub mechanisms: Vec<&'static str>,
}

/// Plugins that somebody has enabled, and those they bring along. They can change while the process lives.
#[derive(Debug, Clone)]
pub struct Plugins(Arc<Mutex<(Vec<String>, Vec<String>)>>);

impl Plugins {
    /// Those that are named, and all of them.
    #[must_use]
    pub fn new(enabled: Vec<String>, active: Vec<String>) -> Self {
        Self(Arc::new(Mutex::new((enabled, active))))
    }

    fn lists(&self) -> MutexGuard<'_, (Vec<String>, Vec<String>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enabled(&self) -> Vec<String> {
        self.lists().0.clone()
    }

    pub(crate) fn active(&self) -> Vec<String> {
        self.lists().1.clone()
    }

    /// These are enabled from now on, those they bring along among them; tells which came and which went.
    pub(crate) fn enable(&self, plugins: Vec<String>) -> (Vec<String>, Vec<String>) {
        let mut lists = self.lists();
        let before = std::mem::replace(&mut lists.1, plugins.clone());
        lists.0.clone_from(&plugins);
        let without = |list: Vec<String>, other: &[String]| -> Vec<String> {
            list.into_iter()
                .filter(|name| !other.contains(name))
                .collect()
        };
        let more = without(plugins.clone(), &before);
        (more, without(before, &plugins))
    }
}

impl Default for NodeFacts {
    fn default() -> Self {
        let plugins = ["rabbitmq_management", "rabbitmq_prometheus"].map(str::to_owned);
        Self {
            name: String::new(),
            config_files: Vec::new(),
            log_files: Vec::new(),
            log: None,
            enabled_plugins_file: None,
            data_dir: None,
            version: VERSION.to_owned(),
            plugins: Plugins::new(plugins.to_vec(), plugins.to_vec()),
            mechanisms: vec!["PLAIN", "AMQPLAIN", "ANONYMOUS"],
        }
    }
}

/// The process.
#[derive(Debug)]
pub struct Node {
    facts: Arc<NodeFacts>,
    started: Instant,
    started_secs: u64,
    phase: watch::Sender<Phase>,
    api: ArcSwapOption<Api>,
    orders: mpsc::Sender<Ordered>,
    /// Where all requests are answered.
    runtime: Handle,
    scrapes: Semaphore,
    bodies: Semaphore,
}

impl Node {
    /// A process whose broker is about to start, and the orders it will be given; requests are answered on `thread`.
    #[must_use]
    pub fn new(facts: NodeFacts, thread: &HttpThread) -> (Arc<Self>, mpsc::Receiver<Ordered>) {
        let (orders, given) = mpsc::channel(ORDERS_MAX);
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let node = Self {
            facts: Arc::new(facts),
            started: Instant::now(),
            started_secs: since_1970.unwrap_or_default().as_secs(),
            phase: watch::channel(Phase::Booting).0,
            api: ArcSwapOption::empty(),
            orders,
            runtime: thread.runtime().clone(),
            scrapes: Semaphore::new(SCRAPES_MAX),
            bodies: Semaphore::new(BODIES_KIB_MAX),
        };
        (Arc::new(node), given)
    }

    /// What the process is at from now on.
    pub fn set_phase(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Where requests are answered.
    pub(crate) const fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Pages of metrics that are put together.
    pub(crate) const fn scrapes(&self) -> &Semaphore {
        &self.scrapes
    }

    /// Room for the body of a request, of at most so many bytes; to be kept as long as the body is. Small ones need none.
    pub(crate) async fn room_for_body(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        if bytes <= SMALL_BODY_BYTES_MAX {
            return None;
        }
        // The largest one there may be has room when it is alone.
        let kib = bytes.div_ceil(1024).min(BODIES_KIB_MAX);
        let kib = u32::try_from(kib).unwrap_or(u32::MAX);
        self.bodies.acquire_many(kib).await.ok()
    }

    pub(crate) const fn facts(&self) -> &Arc<NodeFacts> {
        &self.facts
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// How tools are told of a connection, channel or queue: the shape of an Erlang process id.
    pub(crate) fn pid(&self, id: u64, part: u64) -> String {
        format!("<{}.{}.{id}.{part}>", self.facts.name, self.started_secs)
    }

    /// The number in such an id, if this process gave it out.
    pub(crate) fn of_pid(&self, pid: &str) -> Option<u64> {
        let rest = pid.strip_prefix('<')?.strip_suffix('>')?;
        let rest = rest.strip_prefix(&self.facts.name)?.strip_prefix('.')?;
        let rest = rest.strip_prefix(&self.started_secs.to_string())?;
        rest.strip_prefix('.')?.split('.').next()?.parse().ok()
    }

    pub(crate) fn api(&self) -> Option<Arc<Api>> {
        self.api.load_full()
    }

    pub(crate) fn set_api(&self, api: Option<Arc<Api>>) {
        self.api.store(api);
    }

    /// Returns when the process is at `wanted`; `false` when it is not after `patience`.
    pub(crate) async fn reached(&self, wanted: Phase, patience: Duration) -> bool {
        let mut phase = self.phase.subscribe();
        let reached = phase.wait_for(|phase| *phase == wanted);
        timeout(patience, reached).await.is_ok_and(|at| at.is_ok())
    }

    /// Gives an order and waits until it is carried out.
    pub(crate) async fn order(&self, order: Order) -> Result<(), String> {
        let gone = |_| "the process ends".to_owned();
        let (done, answer) = oneshot::channel();
        let ordered = Ordered { order, done };
        self.orders.send(ordered).await.map_err(|_| gone(()))?;
        answer.await.map_err(|_| gone(()))?
    }
}

/// The API for administrators of this machine: who may open the socket's file may do everything.
#[derive(Debug)]
pub struct AdminSocket {
    path: PathBuf,
    task: JoinHandle<()>,
}

impl AdminSocket {
    /// Serves a bound socket.
    ///
    /// # Errors
    ///
    /// When the socket cannot be given to the runtime.
    pub fn serve(
        listener: std::os::unix::net::UnixListener,
        path: PathBuf,
        node: Arc<Node>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let runtime = node.runtime().clone();
        let listener = {
            let _entered = runtime.enter();
            UnixListener::from_std(listener)?
        };
        let router = Router::new()
            .fallback(answer_administrator)
            .with_state(node);
        let task = runtime.spawn(async move {
            if let Err(reason) = axum::serve(listener, router).await {
                error!(%reason, "the administrators' socket ended");
            }
        });
        Ok(Self { path, task })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        self.task.abort();
        // Whoever comes later finds nobody there, which is the truth.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> (HttpThread, Arc<Node>) {
        let facts = NodeFacts {
            name: "rabbit@my.host".to_owned(),
            ..NodeFacts::default()
        };
        let thread = HttpThread::start().expect("a thread");
        let node = Node::new(facts, &thread).0;
        (thread, node)
    }

    #[test]
    fn a_pid_leads_back_to_its_number_and_nobody_elses_does() {
        let (_thread, node) = node();
        assert_eq!(node.of_pid(&node.pid(17, 0)), Some(17));
        for foreign in ["<rabbit@my.host.1.17.0>", "<other@host.1.2.3>", "17", ""] {
            assert_eq!(node.of_pid(foreign), None, "{foreign}");
        }
    }

    #[tokio::test]
    async fn who_waits_for_a_phase_is_told_when_it_comes() {
        let (_thread, node) = node();
        assert!(!node.reached(Phase::Running, Duration::ZERO).await);
        node.set_phase(Phase::Running);
        assert!(node.reached(Phase::Running, Duration::ZERO).await);
    }

    #[tokio::test]
    async fn an_order_is_answered_by_who_carries_it_out() {
        let thread = HttpThread::start().expect("a thread");
        let (node, mut orders) = Node::new(NodeFacts::default(), &thread);
        let asked = tokio::spawn(async move { node.order(Order::Reset).await });
        let ordered = orders.recv().await.expect("an order");
        assert_eq!(ordered.order, Order::Reset);
        ordered.done(Err("still running".to_owned()));
        assert_eq!(
            asked.await.expect("no panic"),
            Err("still running".to_owned())
        );
    }
}
