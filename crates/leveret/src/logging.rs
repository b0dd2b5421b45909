//! Where log lines go, how much of what, and how they look.
//!
//! ```text
//!   event ─┬─ filter of the console ─▶ a thread ─▶ standard output or error
//!          ├─ filter of the file ────▶ a thread ─▶ a file that is rotated
//!          ├─ filter of syslog, of the journal ▶ a thread ─▶ a socket
//!          ├─ filter of the exchange ─▶ the broker, while one runs ─▶ `amq.rabbitmq.log`
//!          └─ filter of the console ─▶ the newest lines, in memory, for `rabbitmq-diagnostics log_tail`
//! ```
//!
//! A filter is a level and the levels of categories; all filters can be changed while the broker runs.

mod carried;
mod file;
mod levels;
mod line;
mod outlet;
mod syslog;
mod written;

use std::{
    fmt,
    io::{self, IsTerminal, stderr, stdout},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use leveret_management::LogControl;
use tokio::sync::mpsc;
use tracing_subscriber::{
    Layer, Registry, filter::Targets, layer::SubscriberExt, registry, reload,
    util::SubscriberInitExt,
};

pub(crate) use self::{
    carried::flush,
    file::Moments,
    levels::CategoryLevel,
    outlet::{Entry, Outlet, quietly},
};
use self::{
    file::{LogFile, Rotation},
    levels::Levels,
    outlet::{OutletLayer, Recent},
    syslog::Syslog,
};
use crate::config::{
    Bytes, LogFileName, LogFormat, LogLevel, LogMoments, LogTo, Settings, SyslogFacility,
    SyslogTransport,
};

/// Lines that wait for the broker to publish them.
const FOR_EXCHANGE_MAX: usize = 1024;

/// What the log goes to.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    console: Option<(LogTo, LogFormat, Levels)>,
    file: Option<(PathBuf, Rotation, LogFormat, Levels)>,
    exchange: Option<(LogFormat, Levels)>,
    syslog: Option<(Syslog, LogFormat, Levels)>,
    journal: Option<(String, Levels)>,
    recent: Option<Levels>,
}

/// Lines on their way to the exchange.
pub(crate) type ForExchange = mpsc::Receiver<Entry>;

/// Those of the exchange are dropped when the broker does not keep up.
#[derive(Debug)]
struct ToExchange(mpsc::Sender<Entry>);

impl Outlet for ToExchange {
    fn take(&self, entry: Entry) {
        // It is full, or the process ends.
        let _ = self.0.try_send(entry);
    }
}

impl Plan {
    /// As an operator wants it; `to` is where the console is when nobody says.
    pub(crate) fn of(settings: &Settings, to: LogTo) -> Self {
        let levels = |of_output: Option<LogLevel>| {
            Levels::new(
                settings.logging.log_level,
                of_output,
                &settings.logging.log_categories.0,
            )
        };
        let (path, console_only) = match &settings.logging.log_file {
            LogFileName::None => (None, false),
            LogFileName::ConsoleOnly => (None, true),
            LogFileName::At(path) => (Some(path), false),
        };
        let path = path.map(|path| match &settings.logging.log_dir {
            Some(dir) if path.is_relative() => dir.join(path),
            _ => path.clone(),
        });
        // Who wants its lines encrypted does not want them sent in clear.
        let sends_to_syslog = settings.logging.log_syslog
            && settings.logging.log_syslog_transport != SyslogTransport::Tls;
        let rotation = Rotation {
            bytes_max: settings
                .logging
                .log_file_rotation_size
                .and_then(|Bytes(size)| (size > 0).then_some(size)),
            kept: settings.logging.log_file_rotation_count,
            at: settings
                .logging
                .log_file_rotation_date
                .as_ref()
                .map(|LogMoments(at)| *at),
            packs: settings.logging.log_file_rotation_compress,
        };
        let console = settings.logging.log_console || console_only || path.is_none();
        let to = settings.logging.log_to.unwrap_or(to);
        let (format, level) = (
            settings.logging.log_format,
            settings.logging.log_console_level,
        );
        Self {
            console: console.then(|| (to, format, levels(level))),
            file: path.map(|path| {
                let level = settings.logging.log_file_level;
                (
                    path,
                    rotation,
                    settings.logging.log_file_format,
                    levels(level),
                )
            }),
            exchange: settings.logging.log_exchange.then(|| {
                let level = settings.logging.log_exchange_level;
                (settings.logging.log_exchange_format, levels(level))
            }),
            syslog: sends_to_syslog.then(|| {
                let to = Syslog {
                    host: settings.logging.log_syslog_host.clone(),
                    port: settings.logging.log_syslog_port,
                    transport: settings.logging.log_syslog_transport,
                    protocol: settings.logging.log_syslog_protocol,
                    facility: match settings.logging.log_syslog_facility {
                        SyslogFacility::Kern => 0,
                        SyslogFacility::User => 1,
                        SyslogFacility::Mail => 2,
                        SyslogFacility::Daemon => 3,
                        SyslogFacility::Auth => 4,
                        SyslogFacility::Syslog => 5,
                        SyslogFacility::Lpr => 6,
                        SyslogFacility::News => 7,
                        SyslogFacility::Uucp => 8,
                        SyslogFacility::Cron => 9,
                        SyslogFacility::Authpriv => 10,
                        SyslogFacility::Ftp => 11,
                        SyslogFacility::Ntp => 12,
                        SyslogFacility::Audit => 13,
                        SyslogFacility::Alert => 14,
                        SyslogFacility::Clock => 15,
                        SyslogFacility::Local0 => 16,
                        SyslogFacility::Local1 => 17,
                        SyslogFacility::Local2 => 18,
                        SyslogFacility::Local3 => 19,
                        SyslogFacility::Local4 => 20,
                        SyslogFacility::Local5 => 21,
                        SyslogFacility::Local6 => 22,
                        SyslogFacility::Local7 => 23,
                    },
                    identity: settings.logging.log_syslog_identity.clone(),
                    own_host: own_host(),
                };
                let level = settings.logging.log_syslog_level;
                (to, settings.logging.log_syslog_format, levels(level))
            }),
            journal: settings.logging.log_journald.then(|| {
                let level = settings.logging.log_journald_level;
                (settings.logging.log_syslog_identity.clone(), levels(level))
            }),
            recent: Some(levels(None)),
        }
    }

    /// Lines for whoever sits before it.
    pub(crate) fn on_stderr() -> Self {
        let levels = Levels::new(LogLevel::Info, None, &[]);
        Self {
            console: Some((LogTo::Stderr, LogFormat::Text, levels)),
            ..Self::default()
        }
    }

    /// Where it goes, as RabbitMQ names it.
    pub(crate) fn names(&self) -> Vec<String> {
        let file = self
            .file
            .iter()
            .map(|(path, ..)| path.display().to_string());
        let console = self.console.iter().map(|(to, ..)| {
            let name = match to {
                LogTo::Stderr => "<stderr>",
                LogTo::Stdout => "<stdout>",
            };
            name.to_owned()
        });
        file.chain(console).collect()
    }

    /// Starts logging; once per process.
    pub(crate) fn start(self) -> io::Result<(Arc<Logging>, Option<ForExchange>)> {
        let mut layers: Vec<Box<dyn Layer<Registry> + Send + Sync>> = Vec::new();
        let mut outputs = Vec::new();
        let mut add = |outlet: Arc<dyn Outlet>, format, levels: Levels, hears_all| {
            let (filter, handle) = reload::Layer::new(levels.targets());
            outputs.push(Output {
                levels,
                // It fails when the subscriber is gone, which lives as long as the process.
                apply: Box::new(move |targets| drop(handle.reload(targets))),
            });
            let layer = OutletLayer {
                outlet,
                format,
                hears_all,
            };
            layers.push(layer.with_filter(filter).boxed());
        };
        if let Some((to, format, levels)) = self.console {
            let console = match to {
                LogTo::Stderr => written::console(stderr(), stderr().is_terminal()),
                LogTo::Stdout => written::console(stdout(), stdout().is_terminal()),
            };
            add(Arc::new(console?), format, levels, true);
        }
        if let Some((path, rotation, format, levels)) = self.file {
            let file = LogFile::open(path, rotation)?;
            add(Arc::new(written::file(file)?), format, levels, true);
        }
        let mut for_exchange = None;
        if let Some((format, levels)) = self.exchange {
            let (lines, taken) = mpsc::channel(FOR_EXCHANGE_MAX);
            for_exchange = Some(taken);
            add(Arc::new(ToExchange(lines)), format, levels, false);
        }
        if let Some((to, format, levels)) = self.syslog {
            add(Arc::new(syslog::syslog(to)?), format, levels, false);
        }
        if let Some((identity, levels)) = self.journal {
            let journal = syslog::journal(identity)?;
            add(Arc::new(journal), LogFormat::Text, levels, false);
        }
        let recent = Arc::new(Recent::default());
        if let Some(levels) = self.recent {
            add(recent.clone(), LogFormat::Text, levels, false);
        }
        registry().with(layers).init();
        let logging = Logging {
            outputs: Mutex::new(outputs),
            recent,
        };
        Ok((Arc::new(logging), for_exchange))
    }
}

/// What this machine calls itself: the host in the name that a node has by default.
fn own_host() -> String {
    let node = leveret_ctl::node_name(None);
    node.rsplit('@').next().unwrap_or("-").to_owned()
}

/// RabbitMQ's word for a level.
pub(crate) const fn level_name(level: tracing::Level) -> &'static str {
    line::word(level)
}

/// What can be changed while lines are written.
pub(crate) struct Logging {
    outputs: Mutex<Vec<Output>>,
    recent: Arc<Recent>,
}

struct Output {
    levels: Levels,
    apply: Box<dyn Fn(Targets) + Send>,
}

impl fmt::Debug for Logging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logging").finish_non_exhaustive()
    }
}

impl LogControl for Logging {
    fn set_level(&self, level: &str) -> bool {
        use crate::config::Value;
        let Some(level) = LogLevel::read(level, crate::config::ANY) else {
            return false;
        };
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        for output in &mut *outputs {
            output.levels = Levels::new(level, None, &[]);
            (output.apply)(output.levels.targets());
        }
        true
    }

    fn lines_after(&self, number: u64, at_most: usize) -> (Vec<String>, u64) {
        self.recent.after(number, at_most)
    }
}
